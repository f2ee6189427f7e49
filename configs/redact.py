"""Remove secrets from a configuration before it is printed or stored: passwords, tokens, keys, signatures of URLs.

Values of environment variables are removed whatever their names are, because nobody can tell which are secret.
"""

import re
from collections.abc import Iterator

HIDDEN = "(hidden)"

#: Names of keys that hold a secret, such as aws_secret_access_key.
_SECRET_KEY = re.compile(
    r"(?i)(pass(word|wd|phrase)|passwd|secret|credentials?|connection_string|authorization|(^|_)(token|sas)"
    r"|(api|access|account|private)_?key)$"
)
#: Names of keys that hold environment variables, such as env and env_extra.
_ENVIRONMENT_KEY = re.compile(r"(?i)(^|_)env(iron(ment)?)?(_|$)")

#: A value in a longer text: in quotes, or up to the next space or the next part of a connection string.
_VALUE = r"""(?:"[^"]*"|'[^']*'|[^\s;]+)"""
#: Part of the name of an option or variable whose value is secret.
_SECRET_NAME = "(?:password|passwd|secret|token|access[_-]key|api[_-]key)"
#: The query of a URL.
_QUERY = re.compile(r"(?P<kept>https?://[^\s?]*\?)\S+", re.IGNORECASE)
#: Secrets inside a longer text. The group named "kept" is the part of a match that stays.
_SECRET_TEXTS = (
    # The user:password@ of a URL. The password may contain a slash.
    re.compile(r"(?P<kept>://)(?:[^/@\s:]*:(?!\d+/)[^@\s]+|[^/@\s]+)(?=@)"),
    # The query of a URL, which may be a signature. Elsewhere, "?" is also a wildcard in the name of a file.
    _QUERY,
    re.compile(r"(?P<kept>\?)[\w.~%-]+=\S*"),
    # The parts of a connection string that grant access.
    re.compile(r"(?P<kept>\b(?:AccountKey|SharedAccessKey|SharedAccessSignature)\s*=\s*)[^\s;\"']+", re.IGNORECASE),
    # The header of a request: Authorization: Bearer value.
    re.compile(r"(?P<kept>\bAuthorization\s*:\s*(?:\w+\s+)?|\bBearer\s+)[\w.~+/=-]+", re.IGNORECASE),
    # A variable of a shell: export NAME=value, or NAME=value at the beginning of a line.
    re.compile(rf"(?P<kept>(?:\bexport\s+[A-Za-z_]\w*|^\s*[A-Z_][A-Z0-9_]*)=){_VALUE}", re.MULTILINE),
    # NAME=value, NAME: value and --name value.
    re.compile(rf"(?P<kept>[\w-]*{_SECRET_NAME}[\w-]*\s*[=:]\s*){_VALUE}", re.IGNORECASE),
    re.compile(rf"(?P<kept>--[\w-]*{_SECRET_NAME}[\w-]*\s+){_VALUE}", re.IGNORECASE),
)


def redact(value: object, name: str = "") -> object:
    """Return ``value`` with its secrets replaced. ``name`` is the key that the value belongs to."""
    if _ENVIRONMENT_KEY.search(name):
        return _names_of_variables(value)
    if _SECRET_KEY.search(name) and value is not None:
        return HIDDEN
    if isinstance(value, dict):
        return {key: redact(item, str(key)) for key, item in value.items()}
    # The items of a list belong to the same key, such as "passwords".
    if isinstance(value, list):
        return [redact(item, name) for item in value]
    if not isinstance(value, str):
        return value
    for pattern in _SECRET_TEXTS:
        value = pattern.sub(rf"\g<kept>{HIDDEN}", value)
    return value


def redact_urls(text: str) -> str:
    """Return a text whose URLs have no queries: a query may be a signature that grants access."""
    return _QUERY.sub(rf"\g<kept>{HIDDEN}", text)


def _names_of_variables(variables: object) -> object:
    """Return environment variables without their values.

    They may have the form {NAME: value}, [{"name": NAME, "value": value}] as in Kubernetes, or [NAME=value].
    """
    if variables is None:
        return None
    if isinstance(variables, list):
        return [_name_of_variable(variable) for variable in variables]
    if isinstance(variables, dict):
        return dict.fromkeys(variables, HIDDEN)
    return _name_of_variable(variables)


def _name_of_variable(variable: object) -> object:
    if isinstance(variable, dict):
        return {key: item if key == "name" else HIDDEN for key, item in variable.items()}
    name, equals, _ = str(variable).partition("=")
    if equals:
        return f"{name}={HIDDEN}"
    return HIDDEN


def hidden_keys(value: object, path: str) -> Iterator[str]:
    """Yield the dotted paths of the values below ``path`` that `redact` has replaced, wholly or in part."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from hidden_keys(item, f"{path}.{key}")
    elif HIDDEN in str(value):
        yield path
