"""Corrections to how napoleon reads docstrings."""

import re

#: The name of an attribute that ends with an underscore, which reStructuredText would read as a link.
LINK = re.compile(r"^:ivar (?P<name>\w+)_:")


def protect_first_line(app, what, name, documented, options, lines):
    """Put an empty line before the docstring of a property.

    Napoleon takes the text before a colon in the first line for the type of the property.
    """
    if what in ("attribute", "data", "property"):
        lines.insert(0, "")


def keep_underscores(app, what, name, documented, options, lines):
    """Escape the underscore at the end of names such as ``components_``."""
    lines[:] = [LINK.sub(r":ivar \g<name>\\_:", line) for line in lines]


def setup(app):
    """Connect to Sphinx. Napoleon has the default priority of 500."""
    app.connect("autodoc-process-docstring", protect_first_line, priority=400)
    app.connect("autodoc-process-docstring", keep_underscores, priority=600)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
