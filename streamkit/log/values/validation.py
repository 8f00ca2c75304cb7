"""
Whether Arrow may trust a column: lengths, offsets and indexes lie within their buffers, texts are UTF-8, decimals fit.

Arrow's own full validation looks at one text at a time, 4 to 11 ns each. Here most columns of texts are passed whole, by two
looks at their memory: bytes that are all ASCII are UTF-8 wherever they are cut, and offsets that never fall cut inside of them.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

_OFFSET_BYTES = 4


def validate(batch: pa.RecordBatch) -> None:
    """pa.ArrowInvalid unless all columns of a batch are sound: what `batch.validate(full=True)` does, several times faster."""
    batch.validate()
    for column in _columns(batch):
        validate_column(column)


def _columns(batch: pa.RecordBatch) -> list[pa.Array]:
    try:
        return list(batch.columns)
    except KeyError as error:  # Arrow has types, such as intervals of days, that its library for Python has no class for
        kinds = ", ".join(str(kind) for kind in batch.schema.types)
        raise pa.ArrowInvalid(f"Python has no class for the type of a column, one of {kinds}") from error


def validate_column(column: pa.Array) -> None:
    """pa.ArrowInvalid unless a column is sound."""
    column.validate()
    if not _is_plain_text(column):
        column.validate(full=True)


def _is_plain_text(column: pa.Array) -> bool:
    """Whether these are texts, none of them null, all of them ASCII, within the bytes that hold them; False if it is not known."""
    if column.type != pa.string() or not len(column):
        return False
    validity, offsets_buffer, data = column.buffers()
    if validity is not None or column.null_count or data is None:
        return False
    offsets = np.frombuffer(offsets_buffer, np.int32, len(column) + 1, _OFFSET_BYTES * column.offset)
    if offsets[0] < 0 or offsets[-1] > data.size or (offsets[1:] < offsets[:-1]).any():
        return False
    signed = np.frombuffer(data, np.int8)[offsets[0] : offsets[-1]]  # what is not ASCII is below 0
    return bool(signed.min(initial=0) >= 0)
