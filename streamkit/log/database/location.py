"""Where a log is, as people say it: a directory, `file://` and a directory, or a URL of a catalog on a server (`address.py`)."""

from __future__ import annotations

import os

from streamkit.errors import ConfigError
from streamkit.names import absolute_path


def location_text(location: str | os.PathLike[str]) -> str:
    """A location as text; ConfigError if it is neither text nor a path."""
    text = os.fspath(location) if isinstance(location, os.PathLike) else location
    if not isinstance(text, str):
        raise ConfigError(
            f"found {location!r} as the place of a log; expected a directory or a postgresql:// URL, as text or a path"
        )
    return text


def log_directory(location: str) -> str:
    """The absolute directory of a location; ConfigError if it is a URL of another kind, or cannot be a directory."""
    scheme = location.partition("://")[0] if "://" in location else "file"
    if scheme != "file":
        raise ConfigError(
            f"a log at {scheme}:// is not supported yet; found {location!r}, expected a directory, or a postgresql:// URL"
        )
    return absolute_folder(location.removeprefix("file://"), "log directory")


def absolute_folder(folder: str | os.PathLike[str], what: str) -> str:
    """The absolute path of a folder, `~` being the user's own; ConfigError, which says what it should be, if it cannot be a path."""
    text = os.fspath(folder) if isinstance(folder, os.PathLike) else folder
    if not isinstance(text, str) or not text or "\0" in text or not _is_encodable(text):
        raise ConfigError(f"the {what} {folder!r} cannot be used: it is not a path; expected one such as /data/log")
    return absolute_path(text, what)


def _is_encodable(text: str) -> bool:
    try:
        os.fsencode(text)
    except UnicodeEncodeError:
        return False
    return True
