"""Rows as users give them, in a form that can be looked at twice and in parts: a RecordBatch, Table, DataFrame of pandas or list."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from streamkit.errors import SchemaError
from streamkit.recast import recast

EXPECTED = (
    "a RecordBatch, Table, DataFrame or list of dicts, or what has Arrow's stream interface, as DataFrames of polars and relations of "
    "DuckDB do"
)


def gathered(data: Any) -> Any:
    """
    The rows of a stream, a generator or another DataFrame, read to the end; anything else as it is.

    What has Arrow's stream interface (`__arrow_c_stream__`) becomes a Table, and an iterator of dicts a list. SchemaError for what is
    no rows: a dict of columns, a single value, a LazyFrame.
    """
    if is_pandas(data) or (
        isinstance(data, pa.RecordBatch | pa.Table) and not any("_view" in str(kind) for kind in data.schema.types)
    ):
        return data
    if hasattr(data, "__arrow_c_stream__") or hasattr(data, "__arrow_c_array__"):
        return _table(data)
    if isinstance(data, Iterator):
        return _all_of(data)
    if isinstance(data, Sequence) and not isinstance(data, str | bytes | bytearray | memoryview):
        return data
    raise SchemaError(f"found {type(data).__name__}, expected {EXPECTED}{_advice(data)}")


def is_pandas(data: Any) -> bool:
    """Whether it is a DataFrame of pandas, whose NaN are nulls."""
    return type(data).__module__.split(".")[0] == "pandas" and hasattr(data, "columns")


def _table(data: Any) -> pa.Table:
    try:
        found = pa.table(data)
        return pa.Table.from_arrays([_column(column) for column in found.columns], names=found.schema.names)
    except (pa.ArrowException, ValueError, TypeError, NotImplementedError) as error:
        raise SchemaError(f"found {type(data).__name__}, whose Arrow stream holds no rows of columns: {error}") from error


def _column(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """The column without views, which lack kernels in Arrow."""
    if pa.types.is_dictionary(values.type):
        chunks = [pa.DictionaryArray.from_arrays(one.indices, _plain(one.dictionary)) for one in values.chunks]
        return pa.chunked_array(chunks, None if chunks else values.type)
    return _plain(values)


def _plain(values: Any) -> Any:
    kind = _without_views(values.type)
    if kind == values.type:
        return values
    if isinstance(values, pa.ChunkedArray):
        return pa.chunked_array([recast(chunk, kind) for chunk in values.chunks], kind)
    return recast(values, kind)


def _without_views(kind: pa.DataType) -> pa.DataType:
    """The type with views of texts, bytes and lists in the layouts that all kernels of Arrow know."""
    if pa.types.is_string_view(kind):
        return pa.large_string()
    if pa.types.is_binary_view(kind):
        return pa.large_binary()
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_without_views(field.type)) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(_without_views(kind.key_type), _without_views(kind.item_type))
    if any(
        is_kind(kind)
        for is_kind in (pa.types.is_list, pa.types.is_large_list, pa.types.is_list_view, pa.types.is_large_list_view)
    ):
        return pa.large_list(_without_views(kind.value_type))
    return kind


def _all_of(data: Iterator[Any]) -> Any:
    rows = list(data)
    if rows and all(isinstance(one, pa.RecordBatch) for one in rows):
        return pa.Table.from_batches(rows)
    return rows


def _advice(data: Any) -> str:
    if hasattr(data, "collect"):
        return "; collect() gives one"
    if isinstance(data, dict):
        return "; a dict of columns becomes one by pyarrow.table(…), a single row stands in a list"
    return "; a Series becomes one by to_frame()" if hasattr(data, "to_frame") else ""
