"""Run the command line in a process of its own, and check what it prints about an error."""

import re
import sys

#: The command ``corpusmill`` of the package under test.
COMMAND = [sys.executable, "-c", "from corpusmill.pipeline.commands.cli.main import main; main()"]


def error_line(err):
    """Return the last line on stderr. Lines before it may only say what the command was about to do."""
    # A client that an earlier test has left may be collected meanwhile, and Dask then prints a traceback.
    own = re.sub(
        r"^Exception ignored in: <function Client\.__del__.*?(?=^[a-z]+: )", "", err, flags=re.MULTILINE | re.DOTALL
    )
    *before, line = own.splitlines()
    assert line.startswith("corpusmill: ")
    assert all(re.match(r"[a-z]+: [a-z]", said) for said in before), before
    return line
