"""Decode: the bytes of an opaque topic as typed columns."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import pyarrow as pa

from streamkit.engine.rows.rows import OptionalBatch, deletions_of, plain, record_columns, rows_of, with_columns
from streamkit.engine.stage.context import Context
from streamkit.engine.stage.registry import kernel
from streamkit.errors import EvaluationError, SchemaError
from streamkit.formats.absent_values import without_absent
from streamkit.formats.codec import Codec
from streamkit.formats.format import OF_KSQLDB, Format
from streamkit.names import DELETED
from streamkit.plan.decoding import KEY
from streamkit.plan.operators.decode import VALUE, Decode
from streamkit.schema import Schema


@kernel(Decode)
def decode(operator: Decode, inputs: Sequence[OptionalBatch], context: Context) -> pa.RecordBatch:
    """The rows as columns, those without a value as deletions; EvaluationError about the first whose value or key is not of its format."""
    (batch,) = inputs
    assert batch is not None
    batch = with_columns(batch, {VALUE: without_absent(operator.format, plain(batch[VALUE]))})
    value = _codec(operator.topic, VALUE, operator.format, operator.value)
    columns = _decoded(value, batch, VALUE, operator)
    if operator.reads_keys(operator.columns):
        columns |= _decoded(_codec(operator.topic, KEY, operator.keys, operator.key), batch, KEY, operator)
    return rows_of({**{name: columns[name] for name in operator.columns}, **record_columns(batch), **_deletions(batch)})


def _deletions(batch: pa.RecordBatch) -> dict[str, pa.Array]:
    """The mark of deletions where there are any: a record without a value is one, as in Kafka, however it was sent."""
    if not batch[VALUE].null_count:
        return {}
    return {DELETED: pa.array(deletions_of(batch) | batch[VALUE].is_null().to_numpy(zero_copy_only=False))}


def _decoded(codec: Codec, batch: pa.RecordBatch, column: str, operator: Decode) -> dict[str, pa.Array]:
    """The columns that are wanted, by name; of ksqlDB's formats all are read, since there a value is wrong as a whole, and is parsed anyway."""
    names = [name for name in operator.columns if name in codec.columns]
    try:
        rows = codec.decode(batch[column], None if codec.format.name in OF_KSQLDB else names)
    except SchemaError as error:
        if not error.rows:
            raise
        reason = str(error).removeprefix(f"row {error.rows[0]}: ")
        raise EvaluationError(f"the {column} cannot be read: {reason}", batch.slice(error.rows[0], 1)) from error
    return {name: rows[name] for name in names}


@lru_cache(maxsize=64)
def _codec(topic: str, part: str, format: Format, columns: Schema) -> Codec:
    return Codec(format, columns, topic, part)
