"""
The pages that a browser shows: files of this package, of which none names another host.

Each address of a page gives the same file, whose script looks which page it is; so an address is a whole state, and can be kept and sent.
The files hold nothing of the log, so everybody gets them; what they show they ask for, and where there is a token they ask for that first.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from importlib.resources import files
from typing import Any

from streamkit.serve.answers import TextAnswer
from streamkit.serve.forms import HTML
from streamkit.serve.refusals import RefusedError
from streamkit.serve.resource import Asked, Resource

ADDRESSES = (
    "/",
    "/applications",
    "/applications/{app}",
    "/applications/{app}/stores/{store}",
    "/topics",
    "/topics/{topic}",
    "/dead-letters",
    "/dead-letters/{topic}",
    "/groups",
    "/groups/{group}",
    "/connectors",
    "/connectors/{connector}",
    "/log",
    "/sql",
)
KINDS: Mapping[str, str] = {
    "css": "text/css; charset=utf-8",
    "html": f"{HTML}; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}


@lru_cache(maxsize=1)
def page_files() -> Mapping[str, bytes]:
    """The files by their paths below /static."""
    found: dict[str, bytes] = {}
    waiting = [("", files("streamkit.serve") / "static")]
    for prefix, folder in waiting:
        for entry in folder.iterdir():
            if entry.is_dir():
                waiting.append((f"{prefix}{entry.name}/", entry))
            elif entry.name.rpartition(".")[2] in KINDS:
                found[f"{prefix}{entry.name}"] = entry.read_bytes()
    return found


def page(asked: Asked) -> TextAnswer:
    """The one page."""
    return TextAnswer(page_files()["index.html"], KINDS["html"])


def file(asked: Asked) -> TextAnswer:
    name = asked.path["file"]
    text = page_files().get(name)
    if text is None:
        raise RefusedError(404, "NotFound", f"there is no file {name[:200]!r}", "the pages begin at /")
    return TextAnswer(text, KINDS[name.rpartition(".")[2]])


PAGES: tuple[Resource, ...] = (
    *(
        Resource(address, "A page.", page, Any, forms=(HTML,), takes_others="the state of the page", is_open=True)
        for address in ADDRESSES
    ),
    Resource(
        "/static/{file:path}",
        "A file of the pages.",
        file,
        Any,
        forms=("text/css", "text/javascript", "image/svg+xml", HTML),
        is_open=True,
    ),
)
