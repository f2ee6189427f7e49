"""What one check found."""

from collections.abc import Callable, Iterator

from .....configs.redact import redact_urls
from ...results import Finding

#: A check yields its findings.
Check = Callable[[], Iterator[Finding]]


def fine(name: str, text: str) -> Finding:
    """Return the finding that all is well."""
    return {"check": name, "status": "fine", "text": text}


def advice(name: str, text: str) -> Finding:
    """Return a finding that slows work down or limits it; ``text`` says what to do."""
    return {"check": name, "status": "advice", "text": text}


def problem(name: str, text: str) -> Finding:
    """Return a finding that makes work impossible or results wrong; ``text`` says what to do."""
    return {"check": name, "status": "problem", "text": text}


def run_check(name: str, check: Check) -> Iterator[Finding]:
    """Run a check. An error that it does not expect is a problem, and the checks after it still run."""
    try:
        yield from check()
    except Exception as error:
        message = redact_urls(" ".join(str(error).split()))
        yield problem(name, f"this check failed with {type(error).__name__}: {message}")
