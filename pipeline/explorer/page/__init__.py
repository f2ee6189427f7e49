"""The page as one HTML text: its markup, style and script are joined, so that it loads nothing else."""

import base64
import hashlib
import json
import re
from importlib import resources

from ....io.stores.store import JsonObject

#: The modules of the script. A module imports only from those before it.
SCRIPTS = (
    "dom.js",
    "state.js",
    "map.js",
    "words.js",
    "comparison.js",
    "topics.js",
    "documents.js",
    "vectors.js",
    "main.js",
)
_IMPORT = re.compile(r'^import \{[^}]*\} from "[^"]*";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export ", re.MULTILINE)


class Page:
    """The parts of the page, and the policy that allows no other script and no other style."""

    def __init__(self) -> None:
        folder = resources.files(__package__)
        self.markup = folder.joinpath("index.html").read_text("utf-8")
        self.style = folder.joinpath("style.css").read_text("utf-8")
        # Modules of one file need no imports. Their names are distinct, which a test checks.
        modules = [folder.joinpath(name).read_text("utf-8") for name in SCRIPTS]
        joined = "\n".join(_EXPORT.sub("", _IMPORT.sub("", text)) for text in modules)
        # A function, so that names of the script do not replace those of the browser.
        self.script = f'(() => {{\n"use strict";\n{joined}}})();\n'

    def policy(self, is_served: bool) -> str:
        """Return the Content-Security-Policy. A served page may send requests to its own server, and a file none."""
        parts = ["default-src 'none'", f"script-src '{_digest(self.script)}'", f"style-src '{_digest(self.style)}'"]
        # Text can then never become markup, whatever the script does with it.
        parts += ["require-trusted-types-for 'script'", "trusted-types 'none'", "base-uri 'none'", "form-action 'none'"]
        if is_served:
            parts.append("connect-src 'self'")
        return "; ".join(parts)

    def render(self, answers: JsonObject | None) -> str:
        """Return the page. ``answers`` are those of a page without a server, by question; None for a served page."""
        data = ""
        if answers is not None:
            data = json.dumps(answers, ensure_ascii=False, separators=(",", ":"))
            # A script element ends at "</script", and "<!--" changes how it is read.
            data = data.replace("<", "\\u003c")
        return (
            self.markup.replace("{{policy}}", self.policy(answers is None))
            .replace("{{style}}", self.style)
            .replace("{{script}}", self.script)
            # Last, because the data may contain any text.
            .replace("{{data}}", data)
        )


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
