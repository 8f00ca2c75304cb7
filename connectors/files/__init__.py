"""Records in files, and folders of files as sources and sinks."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from streamkit.connectors.files.sink import FileSink
    from streamkit.connectors.files.source import FileSource

_HOMES = {"FileSink": "streamkit.connectors.files.sink", "FileSource": "streamkit.connectors.files.source"}  # loaded on first use
__all__ = ["FileSink", "FileSource"]


def __getattr__(name: str) -> Any:
    """Load a public name from its home on first use."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value = getattr(importlib.import_module(_HOMES[name]), name)
    return value
