"""Run the command line in a process of its own, and check what it prints about an error."""

import sys

#: The command ``corpusmill`` of the package under test.
COMMAND = [sys.executable, "-c", "from corpusmill.pipeline.commands.cli.main import main; main()"]


def error_line(err):
    """Return the text on stderr, which must be one line without a traceback."""
    assert err.startswith("corpusmill: ")
    assert err.count("\n") == 1
    assert "Traceback" not in err
    return err
