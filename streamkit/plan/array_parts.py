"""Parts of arrays: values that tell arrays and frames apart by what they hold, however it lies in memory."""

from __future__ import annotations

import hashlib
import pickle
import sys
from typing import Any

from streamkit.chunks import one_array

NOT_TOLD = " of which nothing is told"


def array_parts(value: Any) -> list[Any]:
    """Plain values, hashes, and the objects in arrays of objects; equal arrays have equal ones."""
    numpy, pandas, arrow = (sys.modules.get(name) for name in ("numpy", "pandas", "pyarrow"))
    if numpy is not None and isinstance(value, (numpy.ndarray, numpy.generic)):
        return _numpy_parts(value, numpy)
    if pandas is not None and isinstance(value, pandas.DataFrame):
        columns = [_column_parts(value.iloc[:, place]) for place in range(len(value.columns))]
        return [_index_parts(value.columns), _index_parts(value.index), columns, _beside(value)]
    if pandas is not None and isinstance(value, pandas.Series):
        return [value.name, _column_parts(value), _index_parts(value.index), _beside(value)]
    if pandas is not None and isinstance(value, (pandas.Index, pandas.api.extensions.ExtensionArray)):
        return _index_parts(value)
    if arrow is not None and isinstance(value, (arrow.Array, arrow.ChunkedArray, arrow.RecordBatch, arrow.Table)):
        return _arrow_parts(value, arrow)
    return [_pickled(value)]


def _numpy_parts(value: Any, numpy: Any) -> list[Any]:
    kind, shape = str(value.dtype), list(value.shape)
    if isinstance(value, numpy.ma.MaskedArray):
        filled = value.filled(value.fill_value)
        return [kind, *_numpy_parts(numpy.asarray(filled), numpy), numpy.ma.getmaskarray(value).tolist(), repr(value.fill_value)]
    value = numpy.asarray(value)
    if value.dtype.names:
        return [kind, shape, [_numpy_parts(value[name], numpy) for name in value.dtype.names]]
    if value.dtype.hasobject:
        return [kind, shape, value.tolist()]
    if value.dtype.kind in "fc" and value.dtype.char in "gG":  # their bytes hold some that no one sets
        return [kind, shape, [repr(one) for one in value.ravel()]]
    return [kind, shape, hashlib.sha256(value.tobytes()).hexdigest()]


def _beside(value: Any) -> list[Any]:
    """What a frame or a series of pandas has beside its names and values."""
    return [dict(value.attrs), value.flags.allows_duplicate_labels]


def _index_parts(index: Any) -> list[Any]:
    """The names, the frequency and the items of an index of pandas, each level by itself; of an array of pandas, which has no name."""
    levels = getattr(index, "nlevels", 1)
    if levels > 1:
        return [_index_parts(index.get_level_values(level)) for level in range(levels)]
    return [list(getattr(index, "names", ())), getattr(index, "freq", None), _column_parts(index)]


def _column_parts(column: Any) -> list[Any]:
    """The type and the items of a column or a level of pandas."""
    kind: Any = getattr(column, "dtype", None)
    categories = [list(kind.categories), bool(kind.ordered)] if hasattr(kind, "categories") else []
    if kind is None or not hasattr(kind, "hasobject") or kind.hasobject:
        return [str(kind), categories, list(column)]
    return _numpy_parts(column.to_numpy(), sys.modules["numpy"])


def _arrow_parts(value: Any, arrow: Any) -> list[Any]:
    """Columns are written as messages, in one chunk, without what lies in front of a slice or under a null."""
    table = value if isinstance(value, arrow.Table) else None
    if isinstance(value, arrow.RecordBatch):
        table = arrow.Table.from_batches([value])
    if table is None:
        table = arrow.table({"": value})
    taken = table.take(arrow.array(range(len(table)), arrow.int64()))
    rows = arrow.Table.from_arrays([one_array(column) for column in taken.columns], schema=taken.schema)
    written = arrow.BufferOutputStream()
    with arrow.ipc.new_stream(written, rows.schema) as stream:
        stream.write_table(rows)
    return [type(value).__name__, str(rows.schema), hashlib.sha256(written.getvalue()).hexdigest()]


def _pickled(value: Any) -> str:
    """A hash of the pickle of an array of another library."""
    try:
        return hashlib.sha256(pickle.dumps(value, protocol=5)).hexdigest()
    except (pickle.PicklingError, TypeError, AttributeError, ValueError):
        return NOT_TOLD
