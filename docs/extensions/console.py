"""The cell magic ``%%console``: run shell commands and show them with their output, as a terminal does.

IPython runs this file when the kernel of a page starts.
"""

import re
import subprocess
import time

from IPython.core.magic import register_cell_magic
from IPython.display import Markdown, display

#: Codes that set colours and move the cursor.
CODES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def commands_of(cell):
    """Return the commands of a cell. A line that ends with a backslash continues on the next one."""
    return re.split(r"(?<!\\)\n", cell.strip())


@register_cell_magic
def console(line, cell):
    """Run each command; stop the build if one fails.

    Option ``quiet`` leaves out stderr, ``fails`` expects an error, and ``recorded`` shows when each line appeared.
    """
    options = set(line.split())
    shown = []
    for command in commands_of(cell):
        errors = subprocess.DEVNULL if "quiet" in options else subprocess.STDOUT
        began = time.monotonic()
        process = subprocess.Popen(
            ["bash", "-c", command], stdout=subprocess.PIPE, stderr=errors, stdin=subprocess.DEVNULL, text=True
        )
        lines = []
        for output in process.stdout:
            text = CODES.sub("", output)
            lines.append(f"{time.monotonic() - began:5.1f} s  {text}" if "recorded" in options else text)
        if (process.wait() != 0) != ("fails" in options):
            raise RuntimeError(f"{command}\nended with exit code {process.returncode}:\n{''.join(lines)}")
        shown.append(f"$ {command}\n{''.join(lines)}".rstrip())
    text = "\n".join(shown)
    display(Markdown(f"````console\n{text}\n````"))
