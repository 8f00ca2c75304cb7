"""The rows of a put that a sink refuses: each is told with its own error, and all others are written."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.connectors.runtime.pipeline import FAILURES, RecordFailure
from streamkit.connectors.sink import Sink
from streamkit.errors import SchemaError
from streamkit.log.consume.consumer import TopicPartition
from streamkit.names import OFFSET, PARTITION, ROW_NUMBER

STAGE = "TASK_PUT"  # as Connect calls it
EndOffsets = Mapping[TopicPartition, int]


def put_what_is_taken(sink: Sink, part: pa.Table, ends: EndOffsets, tell: Callable[[Sequence[RecordFailure]], None]) -> None:
    """
    Put rows, and `tell` those that are refused before the position moves past them; `part` has the column `_row`.

    The error of a sink may say which rows are to blame: then the others are put again. If it does not, the rows are put by halves,
    each with the positions after it, until those that are refused are alone.
    """
    try:
        sink.put(part.drop_columns([ROW_NUMBER]), ends)
    except FAILURES as error:
        if not part.num_rows:
            raise
        refused = list(dict.fromkeys(getattr(error, "rows", ()))) or ([0] if part.num_rows == 1 else [])
        if not refused:
            half = part.num_rows // 2
            put_what_is_taken(sink, part.slice(0, half), _ends_before(part.slice(half), ends), tell)
            put_what_is_taken(sink, part.slice(half), ends, tell)
            return
        # What the sink said of each row; its number is that among those that came in.
        reasons = dict(zip(getattr(error, "rows", ()), getattr(error, "reasons", ()), strict=False))
        tell([RecordFailure(part[ROW_NUMBER][row].as_py(), STAGE, _own(error, reasons.get(row))) for row in sorted(refused)])
        others = pc.invert(pc.is_in(pa.array(np.arange(part.num_rows)), pa.array(refused, pa.int64())))
        put_what_is_taken(sink, part.filter(others), ends, tell)


def _own(error: Exception, reason: str | None) -> Exception:
    """The error of one row: of the class that the sink raised, because all rows have the one cause."""
    if reason is None or reason == str(error):
        return error
    own = (type(error) if isinstance(error, SchemaError) else SchemaError)(reason).with_traceback(error.__traceback__)
    own.__cause__ = error.__cause__
    return own


def _ends_before(later: pa.Table, ends: EndOffsets) -> EndOffsets:
    """The positions when `later` is still to come."""
    firsts = later.group_by(PARTITION).aggregate([(OFFSET, "min")])
    first = dict(zip(firsts[PARTITION].to_pylist(), firsts[f"{OFFSET}_min"].to_pylist(), strict=True))
    return {place: first.get(place.partition, end) for place, end in ends.items()}
