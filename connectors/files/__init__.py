"""Records in files, and folders of files as sources and sinks."""

from __future__ import annotations

from streamkit.connectors.files.sink import FileSink
from streamkit.connectors.files.source import FileSource

__all__ = ["FileSink", "FileSource"]
