"""What one check found."""

from collections.abc import Callable

from .....configs.redact import redact_urls
from ...results import Finding


class Advice(Exception):
    """Something slows work down or limits it. The message says what to do."""


class Problem(Exception):
    """Something makes work impossible or results wrong. The message says what to do."""


def find(name: str, check: Callable[[], str]) -> Finding:
    """Run a check, which returns a text if all is well. An error that it does not expect is a problem, too."""
    try:
        return {"check": name, "status": "fine", "text": check()}
    except Advice as found:
        return {"check": name, "status": "advice", "text": str(found)}
    except Problem as found:
        return {"check": name, "status": "problem", "text": str(found)}
    except Exception as error:
        text = f"this check failed with {type(error).__name__}: {redact_urls(one_line(error))}"
        return {"check": name, "status": "problem", "text": text}


def one_line(error: Exception) -> str:
    """Return the message of an error without line breaks."""
    return " ".join(str(error).split())
