"""What pages may contain besides MyST: executed commands, and parts that are generated from the code.

- A block ```` ```{console} ```` has shell commands. They run in the same folder as the Python cells of the page, and
  the page shows their output.
- A line ``<!-- generated: NAME -->`` is replaced by the Markdown that ``reference.GENERATED[NAME]`` returns.
"""

import re

from reference import GENERATED
from sphinx.util.parallel import make_chunks

CONSOLE = re.compile(r"^```\{console\}(?P<options>.*)\n(?P<commands>(?:.*\n)*?)```$", re.MULTILINE)
PLACE = re.compile(r"^<!-- generated: (?P<name>[\w-]+) -->$", re.MULTILINE)
#: Links to files of the repository that are included in pages of the site.
INCLUDED = {
    "(../../CONTRIBUTING.md)": "(../reference/contributing.md)",
    "(../../benchmarks/README.md)": "(../benchmarks.md)",
}
#: Tells MyST-NB that the page has cells.
HEADER = "---\nfile_format: mystnb\nkernelspec:\n  name: python3\n  display_name: Python 3\n---\n"


def as_cell(block):
    """Return a block of commands as a cell whose source is hidden."""
    options = block["options"].strip()
    return f"```{{code-cell}} ipython3\n:tags: [remove-input]\n%%console {options}\n{block['commands']}```"


def rewrite(app, page, content):
    """Change the source of a page before it is parsed."""
    text = PLACE.sub(lambda found: GENERATED[found["name"]](), content[0])
    text = CONSOLE.sub(as_cell, text)
    for link, page_of_site in INCLUDED.items():
        text = text.replace(link, page_of_site)
    if "```{code-cell}" in text:
        text = HEADER + text
    content[0] = text


def spread(app, environment, pages):
    """Change the order in which pages are read, so that the processes are busy for equally long.

    Sphinx gives each process a range of the sorted pages. The pages that take long, because their cells are executed,
    are in the same folders, so one process would have most of them.
    """
    n_ranges = len(make_chunks(pages, app.parallel))
    pages[:] = [page for first in range(n_ranges) for page in pages[first::n_ranges]]


def setup(app):
    """Connect to Sphinx."""
    app.connect("source-read", rewrite)
    app.connect("env-before-read-docs", spread)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
