"""Remove passwords, tokens and keys from a configuration before it is printed or stored."""

import re

HIDDEN = "(hidden)"

#: Names of keys that hold a secret, such as aws_secret_access_key.
_SECRET_KEY = re.compile(r"(?i)(pass(word|wd|phrase)|secret|credential|(^|_)token|(api|access|account)_?key)$")
#: Secrets inside a longer text: NAME=value, and the user:password@ of a URL, whose password may contain a slash.
_SECRET_TEXT = re.compile(
    r"(?i)(\w*(?:password|secret|token|access_key|api_key)\w*\s*[=:]\s*)\S+"
    r"|(?<=://)(?:[^/@\s:]*:(?!\d+/)[^@\s]+|[^/@\s]+)(?=@)"
)


def redact(value: object, name: str = "") -> object:
    """Return ``value`` with its secrets replaced. ``name`` is the key that the value belongs to."""
    if isinstance(value, dict):
        return {key: redact(item, key) for key, item in value.items()}
    if isinstance(value, list):
        return [redact(item, name) for item in value]
    if not isinstance(value, str):
        return value
    if _SECRET_KEY.search(name):
        return HIDDEN
    return _SECRET_TEXT.sub(_hide_match, value)


def _hide_match(match: re.Match[str]) -> str:
    # Group 1 is the NAME= before a secret. It is missing when the match is part of a URL.
    return (match[1] or "") + HIDDEN
