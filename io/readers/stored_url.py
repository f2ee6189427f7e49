"""URLs of sources in the form in which they are stored: without queries, which may grant access."""

import hashlib
import re

#: Parameters of signed URLs of Amazon, Google and Azure. They differ from one signature to the next.
_SIGNATURE = re.compile(
    r"x-(amz|goog)-.*|awsaccesskeyid|googleaccessid|key-pair-id|policy|signature|expires|(access_)?token"
    r"|s(ig|e|p|v|t|r|s|ip|pr|rt|koid|ktid|kt|ke|ks|kv)",
    re.IGNORECASE,
)


def stored_url(url: str) -> str:
    """Return a URL as stores record it.

    The parameters of a signature are dropped, so that a file is recognised although it was signed anew. A digest
    replaces the other parameters: they may name the file, or they may be secret. Local paths stay as they are.
    """
    base, mark, query = url.partition("?")
    if not mark or "://" not in base:
        return url
    kept = sorted(each for each in query.split("&") if not _SIGNATURE.fullmatch(each.partition("=")[0]))
    if not kept:
        return base
    digest = hashlib.sha256("&".join(kept).encode()).hexdigest()[:8]
    return f"{base}?hidden={digest}"
