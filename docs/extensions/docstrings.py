"""Corrections to how napoleon reads docstrings."""

import re

#: The name of an attribute that ends with an underscore, which reStructuredText would read as a link.
LINK = re.compile(r"^:ivar (?P<name>\w+)_:")


#: Stands for a colon while napoleon reads a docstring: a character that no text has.
COLON = "\ue000"
#: Follows the word "shape" in a type, and is not visible. Otherwise Sphinx would link the word to `Matrix.shape`.
NO_LINK = "\u200b"


def hide_colons(app, what, name, documented, options, lines):
    """Replace the colons in the docstring of a property. Napoleon takes the text before one for the property's type."""
    if what in ("attribute", "data", "property") and lines:
        lines[0] = lines[0].replace(": ", f"{COLON} ")


def restore(app, what, name, documented, options, lines):
    """Restore the colons, and prevent wrong links: of names such as ``components_``, and of the word "shape"."""
    for number, line in enumerate(lines):
        line = line.replace(COLON, ":").replace(" of shape (", f" of shape{NO_LINK} (")
        lines[number] = LINK.sub(r":ivar \g<name>\\_:", line)


def setup(app):
    """Connect to Sphinx. Napoleon has the default priority of 500."""
    app.connect("autodoc-process-docstring", hide_colons, priority=400)
    app.connect("autodoc-process-docstring", restore, priority=600)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
