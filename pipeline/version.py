"""The version of this package, with its commit in a checkout."""

import subprocess
from importlib.metadata import version
from pathlib import Path

#: The checkout that this file belongs to, or the folder of an installation.
_ROOT = Path(__file__).parents[1]


def version_with_commit() -> str:
    """Return the version, and in a checkout also its commit, such as "0.1.0 (commit 1a2b3c4d, changed)"."""
    number = version("corpusmill")
    if not (_ROOT / ".git").exists():
        return number
    command = ["git", "-C", str(_ROOT), "describe", "--always", "--abbrev=8", "--exclude=*", "--dirty=, changed"]
    try:
        commit = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):  # no git, or a checkout of another user
        commit = "unknown"
    return f"{number} (commit {commit})"
