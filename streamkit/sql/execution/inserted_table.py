"""The columns of an Arrow table as those of a stream or table: found by their names, and as wide as they are declared."""

from __future__ import annotations

import difflib

import pyarrow as pa

from streamkit.errors import ConfigError
from streamkit.expressions.ksql.signature import without_times
from streamkit.log.catalog.sql_sources import StoredSource
from streamkit.log.topic.evolution import is_wider
from streamkit.names import DELETED, TIMESTAMP, spellings
from streamkit.recast import recast
from streamkit.schema import SchemaColumn
from streamkit.sql.execution.row_time import is_row_time
from streamkit.sql.script.declared_source import HEADERS_ROLE

_MOMENTS = pa.timestamp("ms", "UTC")
_KINDS = (  # types of one kind, whose values are the same whatever their width in memory
    (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view),
    (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view, pa.types.is_fixed_size_binary),
    (pa.types.is_timestamp,),
)
_LISTS = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)


def columns_of_table(known: StoredSource, rows: pa.Table, *, is_ksql: bool) -> pa.Table:
    """The table with the names and types of the declaration; ConfigError for an unknown column, or if values do not fit."""
    if not isinstance(rows, pa.Table):
        raise ConfigError(
            f"found {type(rows).__module__}.{type(rows).__name__}; expected a table of Arrow, as pa.Table.from_pylist(rows) makes "
            "one of dicts, and pa.Table.from_pandas(frame, preserve_index=False) of a DataFrame"
        )
    types = {str(one["name"]): str(one["type"]) for one in known.columns if one.get("role") != HEADERS_ROLE}
    found: dict[str, pa.ChunkedArray] = {}
    for given, values in zip(rows.column_names, rows.columns, strict=True):
        name = _spelt(known, given, list(types), is_ksql)
        if name in found:
            raise ConfigError(f"two columns of the table are {name} of {known.name}; expected it once")
        found[name] = values if name == DELETED else _fitting(known, name, types.get(name), values)
    return pa.table(found)


def _spelt(known: StoredSource, given: str, own: list[str], is_ksql: bool) -> str:
    """The column that a name means, in any case if none is spelt so."""
    if given == DELETED:
        return given
    if is_row_time(given, own, is_ksql=is_ksql):
        return TIMESTAMP
    same = spellings(given, own)
    if len(same) == 1:
        return same[0]
    near = difflib.get_close_matches(given, own, 1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise ConfigError(f"{known.name} has no column {given!r}; it has {', '.join(own)}{hint}")


def _fitting(known: StoredSource, name: str, type: str | None, values: pa.ChunkedArray) -> pa.ChunkedArray:
    """The values in the type of their column; times are moments, or milliseconds since 1970."""
    if name == TIMESTAMP and type is None:
        wanted = values.type if pa.types.is_timestamp(values.type) else _MOMENTS
        fits = values.type in (wanted, pa.int64(), pa.null())
    else:
        wanted = SchemaColumn(name, without_times(str(type))).arrow.type
        fits = may_become(values.type, wanted)
    if not fits:
        raise ConfigError(
            f"{name} of {known.name} is {type or 'a time'}, and the table has {values.type}; expected {wanted}, or values that widen to it"
        )
    try:
        return recast(values, wanted)
    except pa.ArrowInvalid as error:
        raise ConfigError(
            f"{name} of {known.name} is {type or 'a time'}, and a value of the table does not fit: {error}"
        ) from None


def may_become(given: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether every value of the one type is one of the other, at any depth; whole numbers, which are looked at one by one, may be wider."""
    if pa.types.is_integer(given) and pa.types.is_integer(wanted):
        return True
    if pa.types.is_dictionary(given):
        return may_become(given.value_type, wanted)
    if given == wanted or pa.types.is_null(given) or is_wider(wanted, given):
        return True
    if any(any(is_kind(given) for is_kind in kind) and any(is_kind(wanted) for is_kind in kind) for kind in _KINDS):
        return True
    if pa.types.is_list(wanted):
        return any(is_list(given) for is_list in _LISTS) and may_become(given.value_type, wanted.value_type)
    if pa.types.is_map(wanted):
        return (
            pa.types.is_map(given)
            and may_become(given.key_type, wanted.key_type)
            and may_become(given.item_type, wanted.item_type)
        )
    if pa.types.is_struct(wanted) and pa.types.is_struct(given):
        pairs = zip(given, wanted, strict=False)
        return given.num_fields == wanted.num_fields and all(
            one.name == other.name and may_become(one.type, other.type) for one, other in pairs
        )
    return False
