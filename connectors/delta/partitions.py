"""Tables with folders of values: what the library reads of them otherwise than they are, and which files it does not find."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow.fs import FileType

from streamkit.errors import ConfigError

OF_ENCODED = (
    "Its folder is that of a value such as New York, 50% or x~y, and the library encodes its name (once more) when it reads the change data "
    "feed, so that it finds no changes of such values. Nothing is lost. To read the table: use read.mode=snapshot under another "
    "name of the connector, if its versions only add rows, or write it again, not partitioned or by a column whose values are letters, "
    "digits, - and _"
)
_ENCODED = re.compile(r"""[^ -~]|[\\{^}%`\]">\[~<#|*?]""")  # what the library's object_store encodes in a path, % too
UNREADABLE = "Failed to parse value"  # what the library says of a folder whose name it wrote itself, such as -1.-50


def refuse_bytes(table: Any, path: str) -> None:
    """ConfigError for a table with folders named by bytes: the library takes the text of the name for the value."""
    types = {field.name: pa.field(field).type for field in pa.schema(table.schema().to_arrow())}
    for name in table.metadata().partition_columns:
        if _is_bytes(types[name]):
            raise ConfigError(
                f"the Delta table {path} is partitioned by {name!r} of bytes, and the library reads the names of its folders, such as \\u0061, in "
                "place of the values; expected a table that is partitioned by other columns: write it again without this one"
            )


def refuse_encoded(table: Any, path: str) -> None:
    """ConfigError for a table of changes with a folder whose name the library encodes: it finds none of its changes."""
    if table.metadata().partition_columns:
        found = next((name for name in pa.table(table.get_add_actions())["path"].to_pylist() if _ENCODED.search(name)), None)
        if found is not None:
            raise ConfigError(f"the Delta table {path} has the file {unquote(found)}. {OF_ENCODED}")


def empty_is_null(table: Any, rows: pa.Table) -> pa.Table:
    """Rows whose empty texts in partition columns are null, as Delta's protocol has it; the library gives them as they are in a change data feed."""
    for name in table.metadata().partition_columns:
        if name in rows.column_names and pa.types.is_string(rows[name].type):
            values = rows[name]
            known = pc.if_else(pc.equal(values, ""), pa.scalar(None, values.type), values)
            rows = rows.set_column(rows.column_names.index(name), rows.schema.field(name).with_nullable(True), known)
    return rows


def has_missing_files(files: Any, actions: Iterable[Mapping[str, Any]], version: int, path: str) -> bool:
    """
    Whether a file of a version's changes is not there.

    ConfigError if all are there, and one has a folder whose name the library encodes: then it is the library that does not find it.
    """
    names = _files_of_changes(actions)
    if any(is_missing(files, unquote(name)) for name in names):
        return True
    encoded = next((unquote(name) for name in names if _ENCODED.search(name)), None)
    if encoded is not None:
        raise ConfigError(f"version {version} of the Delta table {path} changes the file {encoded}, which is there. {OF_ENCODED}")
    return False


def is_missing(files: Any, name: str) -> bool:
    """Whether there is no file of this name."""
    return bool(files.get_file_info(name).type != FileType.File)


def _files_of_changes(actions: Iterable[Mapping[str, Any]]) -> list[str]:
    """The files from which the changes of a version are read, as its log spells them."""
    known = list(actions)
    found = [action["cdc"]["path"] for action in known if "cdc" in action]
    return found or [
        one["path"] for action in known for kind in ("add", "remove") if (one := action.get(kind)) and one.get("dataChange", True)
    ]


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_binary_view(kind)
        or pa.types.is_fixed_size_binary(kind)
    )
