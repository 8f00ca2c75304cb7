"""Widgets by anywidget, where it is installed: what Python sets, the view in the browser shows."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from importlib import import_module
from typing import Any, final

from streamkit.notebook.view_module import view_module, view_style

VIEW_TYPE = "application/vnd.jupyter.widget-view+json"


def has_widgets() -> bool:
    """Whether the extra `notebook` is installed, and can be used."""
    try:
        import_module("anywidget")
    except ImportError:
        return False
    return True


@final
class ViewWidget:
    """A view of `serve/static/views` in a notebook; its model has the names that it was made with."""

    def __init__(self, view: str, values: Mapping[str, Any]) -> None:
        self.widget = _kind(view, tuple(values))(**values)

    def put(self, values: Mapping[str, Any]) -> None:
        """Set values of the model; they travel in one message, and only if they have changed."""
        with self.widget.hold_sync():
            for name, value in values.items():
                setattr(self.widget, name, value)

    @property
    def is_open(self) -> bool:
        """Whether a browser may still show it: nobody has closed it."""
        return self.widget.comm is not None

    def bundle(self) -> dict[str, Any]:
        """How a notebook finds it, by content type; nothing once it was closed."""
        if not self.is_open:
            return {}
        found = self.widget._repr_mimebundle_()
        data = found[0] if isinstance(found, tuple) else found
        return {VIEW_TYPE: data[VIEW_TYPE]}


@lru_cache
def _kind(view: str, names: tuple[str, ...]) -> Any:
    """The class of the widgets of a view, whose model has these names."""
    anywidget, traitlets = import_module("anywidget"), import_module("traitlets")
    traits = {name: traitlets.Any(None, allow_none=True).tag(sync=True) for name in names}
    return type("ViewWidgetModel", (anywidget.AnyWidget,), {"_esm": view_module(view), "_css": view_style(), **traits})
