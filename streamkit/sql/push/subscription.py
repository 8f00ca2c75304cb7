"""A query that goes on, as whoever looks has it: batches of rows until it is closed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Protocol, final

import pyarrow as pa
import pyarrow.compute as pc

from streamkit.names import DELETED

POLL_SECONDS = 0.1  # how late the end of a subscription may be noticed


class PushedRows(Protocol):
    """What gives the rows of a query that goes on."""

    @property
    def schema(self) -> pa.Schema:
        """The columns of the rows."""
        ...

    def step(self, timeout_s: float) -> pa.RecordBatch | None:
        """The next rows; None if none came in time."""
        ...

    def close(self) -> None:
        """Stop."""
        ...


@final
class PushQuery:
    """
    The rows of a query that goes on, as Arrow batches, for as long as it is not closed; use it in a `with` block, or close it.

    Iterate over it, or ask with `poll`. Rows of a table have `_deleted` beside their columns: the key of such a row has none any more. It may
    be closed by any thread, and is iterated by one. With a `limit` it ends after so many rows. Each batch has the `schema`, whose columns may
    all be null, as a deletion has them.
    """

    def __init__(self, rows: PushedRows, limit: int | None = None, closed: Callable[[PushQuery], None] | None = None) -> None:
        self._rows = rows
        self._schema = pa.schema([field.with_nullable(True) for field in rows.schema])
        self._left = limit
        self._closed = closed
        self._leaves_out_deletions = False
        self._is_closed = threading.Event()
        self._lock = threading.Lock()

    @property
    def schema(self) -> pa.Schema:
        """The columns of the rows."""
        return self._schema

    @property
    def is_closed(self) -> bool:
        """Whether it has given its last row."""
        return self._is_closed.is_set() or self._left == 0

    def poll(self, timeout: float = 1.0) -> pa.RecordBatch | None:
        """The next rows; None if none came within so many seconds, or it is closed. Errors are those of the query's run, which end it."""
        with self._lock:
            if self._is_closed.is_set() or self._left == 0:
                return None
            try:
                batch = self._rows.step(timeout)
            except BaseException:
                self._end()
                raise
            return None if batch is None else self._given(batch)

    def _given(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """A batch with exactly the announced columns, without deletions if they are left out, and no longer than the limit."""
        batch = pa.RecordBatch.from_arrays([batch.column(name) for name in self._schema.names], schema=self._schema)
        if self._leaves_out_deletions and DELETED in self._schema.names:
            batch = batch.filter(pc.invert(pc.fill_null(batch.column(DELETED), False)))
        if self._left is not None:
            batch = batch.slice(0, self._left)
            self._left -= batch.num_rows
        return batch

    def leave_out_deletions(self) -> None:
        """Give rows alone from now on, for who cannot be told of deletions; a limit counts what is given."""
        self._leaves_out_deletions = True

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        while not self._is_closed.is_set() and self._left != 0:
            batch = self.poll(POLL_SECONDS)
            if batch is not None and batch.num_rows:
                yield batch
        self.close()

    def close(self) -> None:
        """End the query; a second call does nothing."""
        self._is_closed.set()
        with self._lock:
            self._end()

    def _end(self) -> None:
        self._is_closed.set()
        closed, self._closed = self._closed, None
        self._rows.close()
        if closed is not None:
            closed(self)

    def __enter__(self) -> PushQuery:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()
