"""What the name of a file says of its records: how they lie in it, and what stands between the values."""

from __future__ import annotations

from pathlib import Path

from streamkit.cli.terminal.choice import words_of
from streamkit.connectors.files.csv_lines import check_delimiter
from streamkit.connectors.files.open_file import COMPRESSIONS, SUFFIXES, compression_of
from streamkit.connectors.files.record_file import FileFormat
from streamkit.errors import ConfigError

_TABS = ".tsv"


def form_of_name(file: str) -> FileFormat:
    """How the records lie in a file, by its suffix, before that of a compression; ConfigError if it does not say."""
    suffix = _suffix(file)
    found = FileFormat.CSV if suffix == _TABS else SUFFIXES.get(suffix)
    if found is None:
        raise ConfigError(
            f"{file!r} does not say the format of the file; expected one of {', '.join((*SUFFIXES, _TABS))}, and {' or '.join(COMPRESSIONS)} "
            f"behind it where it is compressed, or --format {'|'.join(words_of(FileFormat))}"
        )
    return found


def delimiter_of_name(file: str, given: str | None) -> str:
    """What stands between the values of CSV: what is given, else a tab in a file of tabs, else a comma."""
    return check_delimiter(given) if given is not None else "\t" if _suffix(file) == _TABS else ","


def _suffix(file: str) -> str:
    path = Path(file)
    return (path.with_suffix("") if compression_of(path) != "none" else path).suffix.lower()
