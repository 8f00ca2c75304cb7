"""
A view of the pages as a notebook loads it: one ES module, and one style sheet.

Pages load each module by its address. A notebook has none to ask: it gets a text, in which the modules that a view imports stand before it,
each in a scope of its own.
"""

from __future__ import annotations

import posixpath
import re
from functools import lru_cache

from streamkit.serve.pages import page_files

CLASS = "streamkit"
_IMPORT = re.compile(r"^import \{([^}]*)\} from '([^']+)';$", re.MULTILINE)
_EXPORT = re.compile(r"^export ((?:async )?(?:function|const|class) (\w+))", re.MULTILINE)
_OF_THE_PAGE = re.compile(r"^(:root|body) \{", re.MULTILINE)


@lru_cache
def view_module(view: str) -> str:
    """The module of a view, with all that it imports, whose default export has its `render`."""
    modules: dict[str, str] = {}
    name = f"views/{view}.js"
    _add(name, modules)
    return "\n".join(["const modules = {};", *modules.values(), f"export default {{render: modules['{name}'].render}};", ""])


def _add(name: str, modules: dict[str, str]) -> None:
    """Put a module behind those that it imports."""
    text = page_files()[name].decode()
    for _, path in _IMPORT.findall(text):
        if (used := _resolved(name, path)) not in modules:
            _add(used, modules)
    body = _IMPORT.sub(
        lambda found: f"const {{{found[1].replace(' as ', ': ')}}} = modules['{_resolved(name, found[2])}'];", text
    )
    exported = ", ".join(exported for _, exported in _EXPORT.findall(text))
    body = _EXPORT.sub(lambda found: found[1], body)
    modules[name] = f"modules['{name}'] = (() => {{\n{body}\nreturn {{{exported}}};\n}})();"


def _resolved(name: str, path: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(name), path))


@lru_cache
def view_style() -> str:
    """The style of the pages for elements below one of the class `streamkit`; a notebook's own are left alone."""
    text = page_files()["style.css"].decode()
    return f".{CLASS} {{\n{_OF_THE_PAGE.sub('& {', text)}\n}}\n"
