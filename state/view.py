"""A store as people see it: rows with names and types, as of the last committed epoch. docs/queries.md is for users."""

from __future__ import annotations

import numbers
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from streamkit.errors import ConfigError, CorruptionError, FormatVersionError, StreamKitError
from streamkit.html_table import html_table
from streamkit.log.catalog import applications
from streamkit.log.catalog.catalog import Catalog
from streamkit.log.database.database import Transaction
from streamkit.log.slab.slab import GONE
from streamkit.log.topic.formats import rows_of
from streamkit.log.values.whole_number import whole_number
from streamkit.plan.duration import duration_text
from streamkit.plan.program import Program, ProgramStore
from streamkit.schema import Schema
from streamkit.state.expiry import Expiry, stream_time_of
from streamkit.state.foreign_record import KeptStore, check_changelogs
from streamkit.state.layout import layout_of
from streamkit.state.moment import epoch_or_milliseconds, milliseconds
from streamkit.state.snapshot import find_store, snapshot_of_store
from streamkit.state.state_reader import OpenLog, ReadProgram, StateMovedError, StateReader, view_position
from streamkit.state.store_call import StoreCall
from streamkit.state.stored_rows import StoredRows, WantedRows
from streamkit.state.view_position import TIMEOUT_SECONDS, ViewPosition, wait_for

if TYPE_CHECKING:
    import pandas as pd

    from streamkit.notebook.store_watch import StoreWatch

Result = TypeVar("Result")
ATTEMPTS = 4  # to read a store whose application is started again, or whose files are merged, meanwhile
ROWS_SHOWN = 10  # in a notebook


@dataclass(frozen=True, eq=False)
class StoreView:
    """
    A store of an application, read from outside; each call sees the newest committed epoch, whole.

    Keys are given by name (`get(origin="EWR", airline="Delta Air Lines Inc.")`) or in the order of the key columns; windows by their start,
    `window_start=`. Without it all sessions or sliding windows of a key are found. Times are datetimes, ISO
    8601 text or milliseconds since 1970, UTC unless they have a zone; ConfigError if a time is none of these.

    `range`, `prefix`, `windows`, `sessions`, `as_of` and `valid_at` give rows in the order of the store: of windows by their starts, of sessions by
    their ends, then by keys, as values compare, null first. `limit=` takes the first of them. `many` gives them in the order of
    the keys that were asked for.
    """

    log: OpenLog
    application: str
    program: Program
    store: ProgramStore
    reader: StateReader = field(repr=False)  # keeps what was opened, from call to call
    awaited: tuple[ViewPosition, float] | None = field(default=None, repr=False)  # and for how many seconds

    def __repr__(self) -> str:
        return f"StoreView({self.application!r}, {self.store.name!r}: {self._facts()})"

    def _repr_html_(self) -> str:
        found = self.schema.empty_table()
        with suppress(StreamKitError, OSError):  # the store may be reset or the log closed by now
            found = self.to_arrow(limit=ROWS_SHOWN)
        caption = f"store {self.store.name} of {self.application}: {self._facts()}"
        return html_table(caption, [tuple(row.values()) for row in rows_of(None, found)], found.column_names)

    def _facts(self) -> str:
        """What there is to say in a line: the key, the windows and the other columns."""
        store, layout = self.store, layout_of(self.store)
        others = [name for name in self.schema.names if name not in (*store.key.names, *layout.columns)]
        windows = [layout.name] if layout.columns else []
        if store.window_size_ms is not None:
            windows = [f"windows of {duration_text(store.window_size_ms)}"]
        return "; ".join([f"key {', '.join(store.key.names)}", *windows, f"columns {', '.join(others)}"])

    def get(self, *key: Any, window_start: Any = None, **named: Any) -> dict[str, Any] | None:
        """The row of a key (and window), as a dict; None if there is none. Of sessions and sliding windows the first, unless given."""
        return next(iter(rows_of(None, self.find(*key, window_start=window_start, **named))), None)

    def find(self, *key: Any, window_start: Any = None, **named: Any) -> pa.Table:
        """
        The row of a key (and window), or of all sessions or sliding windows of a key, as a table; without rows if there is none.

        Of stores of processors: all values of the window if these are duplicates, the newest version if it has a value, and of each key
        group that has the key. ConfigError for a value that is not of its column's type.
        """
        return self._whole(lambda call: call.find(key, named, window_start))

    def many(self, keys: Any) -> pa.Table:
        """
        The rows of many keys, in the order in which they are asked for; a key without a row is left out.

        `keys` are a table, a batch or a DataFrame with the key columns, a list of dicts, or of tuples in the order of the key columns;
        of a key of one column also its values, as a list or an array. Keys of windows have `window_start` beside them, of
        sessions also `window_end`. A key that is asked for twice comes twice. Where `find` gives several rows of a key, so does this.
        ConfigError for columns or values that do not fit.
        """
        return self._whole(lambda call: call.many(keys))

    def range(self, start: Any = None, end: Any = None, *, limit: int | None = None) -> pa.Table:
        """
        The rows from `start` on and before `end`, in the order of the store; either bound may be left out.

        Of windows and sessions the bounds are times, between which they start. Of a store without windows they are keys: a value of
        the first key column, a tuple of the first ones, or a dict; a bound of fewer columns stands before all keys that begin so.
        """
        return self._whole(lambda call: call.selected(call.within(start, end), limit))

    def prefix(self, *first: Any, starts_with: str | None = None, limit: int | None = None, **named: Any) -> pa.Table:
        """
        The rows, of all windows, whose first key columns have these values, in the order of the store; all rows if none is given.

        With `starts_with` the next key column, which is a string, begins with this text. ConfigError for columns that are not the first.
        """
        return self._whole(lambda call: call.selected(call.beginning(first, named, starts_with), limit))

    def windows(self, *key: Any, start: Any = None, end: Any = None, limit: int | None = None, **named: Any) -> pa.Table:
        """
        The windows of a key, or of all keys unless one is given, that start in [start, end), in the order of the store.

        Either bound may be left out. ConfigError if the store has no windows.
        """
        return self._whole(lambda call: call.windows(key, named, start, end, limit))

    def sessions(self, *key: Any, start: Any = None, end: Any = None, limit: int | None = None, **named: Any) -> pa.Table:
        """
        The sessions of a key, or of all keys unless one is given, that have a moment in [start, end): by their ends.

        So they end at `start` or later, and start before `end`; either bound may be left out. A session ends with its last record.
        ConfigError if the store has no sessions.
        """
        return self._whole(lambda call: call.sessions(key, named, start, end, limit))

    def bounded(self, wanted: WantedRows, key: Sequence[pa.Array] | None = None) -> pa.Table:
        """The rows within bounds, in the order of the store; with a `key`, an array of one value for each key column, those of that key."""
        return self._whole(lambda call: call.selected(wanted, None) if key is None else call.of_key(key, wanted))

    def as_of(self, moment: Any, /, *key: Any, limit: int | None = None, **named: Any) -> pa.Table:
        """
        The rows of a key, or of all keys unless one is given, as the store had them behind an epoch or at a time of the host, in the order of the store.

        A whole number is an epoch; anything else is a time, and means the epoch that was the newest then: as `at_epoch` has it. For the row that was
        valid at an event time see `valid_at`. ConfigError for an epoch or a time to which the changelog does not go back: compaction may have
        taken rows of it.
        """
        epoch, time_ms = epoch_or_milliseconds(moment)
        self._check_free("as_of")
        with self.at_epoch(epoch, time=time_ms) as past:
            if past.has_windows and (key or named):
                return past.windows(*key, limit=limit, **named)
            return past.find(*key, **named) if key or named else past.range(limit=limit)

    def valid_at(
        self, time: Any, /, *first: Any, start: Any = None, end: Any = None, starts_with: str | None = None,
        limit: int | None = None, **named: Any,
    ) -> pa.Table:  # fmt: skip
        """
        The rows that were valid at an event time, in the order of keys; of tables with `versioned=`, and versioned stores of processors.

        Of all keys, unless some are chosen: those whose first key columns have these values, and whose next one begins with the text `starts_with`, as in
        `prefix`; or those from `start` on and before `end`, as in `range`. ConfigError for a store that keeps no versions, and for a
        time to which the history does not go back: what was valid then may be gone.
        """
        if (first or named or starts_with is not None) and (start is not None or end is not None):
            raise ConfigError("valid_at() chooses keys by how they begin, or by start= and end=; expected one of them")
        time_ms = milliseconds(time)

        def look(call: StoreCall) -> pa.Table:
            call.checked_history_ms()
            is_range = start is not None or end is not None
            wanted = call.within(start, end) if is_range else call.beginning(first, named, starts_with)
            key = call.whole_key(first, named) if starts_with is None else None
            return call.valid_at(time_ms, wanted, limit, key)

        return self._whole(look)

    @property
    def history_ms(self) -> int | None:
        """How far behind stream time `valid_at` goes back, in ms; None if the store keeps no versions."""
        former = self.program.keeper(self.store.name).history_of(self.store.name)
        if former is not None:
            return former.history_ms
        return self.store.retention_ms if StoredRows(self.program, self.store).kind == "versioned" else None

    def check_versions(self) -> None:
        """Refuse a store without versions, because `valid_at` would find none: ConfigError."""
        self._whole(lambda call: call.checked_history_ms())

    def history(self, *key: Any, **named: Any) -> pa.Table:
        """
        The changes of a key's rows that the changelog still has, oldest first; of windows those of all of them.

        Beside the columns of the row there are `epoch` and `committed_at`, null where the catalog has forgotten the epoch, and `is_deleted`.
        Compaction leaves the newest change of each row. ConfigError for a store without a log.
        """
        return self._whole(lambda call: call.history(key, named))

    def count(self) -> int:
        """How many rows there are; values are not decoded."""
        return self._whole(lambda call: call.count())

    def to_arrow(self, limit: int | None = None) -> pa.Table:
        """All rows, in the order of key groups, windows and keys; or the first ones."""
        return self._whole(lambda call: call.every(limit))

    def to_pandas(self, limit: int | None = None) -> pd.DataFrame:
        """All rows as a DataFrame, or the first ones."""
        return self.to_arrow(limit).to_pandas()

    def to_rows(self, limit: int | None = None) -> list[dict[str, Any]]:
        """All rows as dicts, or the first ones."""
        return list(rows_of(None, self.to_arrow(limit)))

    def to_spark(self, spark: Any, *, where: str | None = None) -> Any:
        """
        All rows as a DataFrame of a SparkSession, or those for which `where` is true; they are of the epoch of its first action.

        `where` is a condition in SQL; what it says of key columns, and of `window_start` and `window_end`, chooses what is read
        (docs/queries.md). Within `at_now`, and of a log in memory, the DataFrame has the rows of that epoch, which travel through this
        process. ConfigError for a condition that cannot be said of the rows, and for anything but a SparkSession.
        """
        from streamkit.expressions.analysis.row_condition import RowCondition  # all functions, which no other call needs

        self._wait()
        if not hasattr(spark, "createDataFrame"):
            raise ConfigError(
                f"to_spark() needs a SparkSession, as SparkSession.builder.getOrCreate() gives one; found {spark!r}"
            )
        condition = None if where is None else RowCondition.of(where, Schema.from_arrow(self.schema))
        if self.reader.position() is not None or not os.path.isabs(self.log.root):
            rows = self.to_arrow()
            if condition is not None:
                rows = pa.Table.from_batches(map(condition.kept, rows.to_batches()), rows.schema)
            return spark.createDataFrame(rows)
        options = {"store": f"{self.application}/{self.store.name}", "log": self.log.location}
        return spark.read.format("streamkit").options(**options, **({} if where is None else {"where": where})).load()

    def at_least(self, sent: Any, timeout: float = TIMEOUT_SECONDS) -> StoreView:
        """
        A view whose calls wait until the application has taken all records up to a position, at most `timeout` seconds: then TimeoutError.

        `sent` is the `position` of a view, the receipt of a record or several, or offsets by topic and partition:
        `view.at_least(producer.send("orders", row)).get("ann")`, behind a `flush`. Records that wait in the application for a window
        to close count as taken. ConfigError for a topic that the application does not read, and within `at_now`, whose epoch stays.
        """
        if (held := self.reader.position()) is not None:
            raise ConfigError(
                f"at_least() of a view of at_now(): its calls see epoch {held.epoch} of {self.application!r} and wait for "
                "nothing; call view.at_least(…).at_now(), or at_least() of the view outside the block"
            )
        seconds = timeout if isinstance(timeout, numbers.Real) and not isinstance(timeout, bool) else None
        if seconds is None or not seconds >= 0:
            raise ConfigError(f"timeout={timeout!r}; expected seconds, 0 or more")
        wanted = ViewPosition.behind(sent)
        return replace(self, awaited=(wanted if self.awaited is None else self.awaited[0].joined(wanted), timeout))

    @contextmanager
    def at_now(self) -> Iterator[StoreView]:
        """A view whose calls all see the epoch that is the newest now, for as long as the block lasts, and ten minutes at most."""
        self._check_free("at_now")
        self._wait()
        with self._held(lambda reader: reader.hold()) as view:
            yield view

    @contextmanager
    def at_epoch(self, epoch: int | None = None, *, time: Any = None) -> Iterator[StoreView]:
        """
        A view whose calls all see the store as it was behind an epoch, or behind the newest one at a time of the host; it lasts as the block does.

        It reads the changelog from its beginning. Windows that retention has deleted since are not there. ConfigError for a store without a log, and
        for an epoch to which the changelog does not go back: compaction may have taken rows of it.
        """
        if (epoch is None) == (time is None):
            raise ConfigError("at_epoch() needs the number of an epoch, or time=; expected one of them")
        number = None if epoch is None else whole_number("epoch", epoch)
        moment_ms = None if time is None else milliseconds(time)
        self._check_free("at_epoch")
        with self._held(lambda reader: reader.hold_at(number, moment_ms)) as view:
            yield view

    def _check_free(self, verb: str) -> None:
        """ConfigError within `at_now` and `at_epoch`, whose epoch stays."""
        if (held := self.reader.position()) is not None:
            raise ConfigError(
                f"{verb}() of a view that sees epoch {held.epoch} of {self.application!r}; call it on the view outside the block"
            )

    @contextmanager
    def _held(self, hold: Callable[[StateReader], None]) -> Iterator[StoreView]:
        """A view with a reader of its own, all calls of which see the epoch that `hold` chooses."""
        with closing(StateReader(self.log, self.application, self.followed)) as reader:
            for attempt in range(ATTEMPTS):
                try:
                    hold(reader)
                    break
                except StateMovedError:
                    reader.forget()
                    if attempt == ATTEMPTS - 1:
                        raise self._restless() from None
            yield replace(self, reader=reader)

    @property
    def followed(self) -> list[str]:
        """The stores that calls read: this one, and that of its former rows if it has any."""
        former = self.program.keeper(self.store.name).history_of(self.store.name)
        return [self.store.name] if former is None else [self.store.name, former.store]

    def watch(self, order_by: str | Sequence[str] | None = None, *, limit: int = 20) -> StoreWatch:
        """
        The first rows of the store in a notebook, after each epoch, once a second at most; the rows that have changed are marked.

        `order_by` are columns, as in `clicks desc, city`; without it rows come in the order of the store. Of a larger store the first
        100,000 rows are put in order, and it says so. ConfigError for columns that are not there, and within `at_now`, whose epoch stays.
        """
        if (held := self.reader.position()) is not None:
            raise ConfigError(
                f"watch() of a view of at_now(), whose calls all see epoch {held.epoch}; call it on the view outside the block"
            )
        watch = import_module("streamkit.notebook.store_watch").StoreWatch  # a layer above
        found: StoreWatch = watch(self, self.log, order_by, limit)
        return found

    @property
    def position(self) -> ViewPosition:
        """
        How far the application has come: within `at_now` what its calls see, else the newest epoch; waits as calls do.

        ConfigError within `at_epoch`: what had been read by then is not known.
        """
        if self.reader.is_past:
            raise ConfigError(
                "position of a view of at_epoch(): how far an earlier epoch had read is not known; expected a view of now"
            )
        self._wait()
        if (held := self.reader.position()) is not None:
            return held
        return self.log.catalog.read(
            lambda transaction: view_position(transaction, applications.get(transaction, self.application))
        )

    def expiry(self) -> Expiry | None:
        """Which windows retention has deleted by now, in the stream time of the store's operator; None if it keeps all, or has seen no time."""
        self._wait()
        catalog = self.log.catalog
        is_held = self.reader.position() is not None
        state = self.reader.known().application if is_held else catalog.applications.get(self.application)
        time = stream_time_of(catalog, self.program, self.store.name, state)
        retention = self.store.retention_ms
        return None if time is None or retention is None or self.store.window_size_ms is None else Expiry(retention, time)

    @property
    def schema(self) -> pa.Schema:
        """The columns of the rows: those of the key, where windows start and end, and the values."""
        return StoredRows(self.program, self.store).schema

    @property
    def key(self) -> Schema:
        """The key columns as users declared them: without the times, and numbers, that stores of processors have among theirs."""
        return StoredRows(self.program, self.store).key

    @property
    def has_windows(self) -> bool:
        """Whether rows are those of windows, or sessions, of a key."""
        return StoredRows(self.program, self.store).has_windows

    def _whole(self, work: Callable[[StoreCall], Result]) -> Result:
        """
        The result of `work` by a call, which reads once, at one committed epoch.

        The application may be started again meanwhile, or slabs are merged and deleted after a while: then all is read again.
        """
        self._wait()
        for attempt in range(ATTEMPTS):
            try:
                return self._done(work)
            except StateMovedError:
                self.reader.forget()
            except GONE:
                if attempt == ATTEMPTS - 1 or self.reader.position() is not None:
                    raise
                self.log.storage_now()  # another process may have changed the roots
                self.reader.forget()
        raise self._restless()

    def _done(self, work: Callable[[StoreCall], Result]) -> Result:
        """The result of `work`; CorruptionError that names a record of the changelog which is none of the store, if that is why it fails."""
        name, known = self.store.name, self.reader.known()
        try:
            return work(StoreCall(self.log, self.application, self.reader, known, find_store(known.program, name)))
        except (CorruptionError, FormatVersionError):
            found = self.log.catalog.read(lambda transaction: snapshot_of_store(transaction, self.application, name))
            kept = KeptStore(
                self.application,
                find_store(found.program, name),
                found.application.stores[name].number,
                found.application.stores[name].changelog_topic_id,
                found.program.key_groups,
                found.program.changelog_partitions,
            )
            check_changelogs(self.log.storage, found.changes, [kept], range(found.program.key_groups))
            raise

    def _restless(self) -> StreamKitError:
        return StreamKitError(
            f"the application {self.application!r} was started again and again while its store {self.store.name!r} was read; read it again"
        )

    def _wait(self) -> None:
        if self.awaited is not None and self.reader.position() is None:
            wait_for(self.log.catalog, self.application, *self.awaited)


@contextmanager
def views_at_now(
    views: Sequence[StoreView], catalog: Catalog, look: Callable[[Transaction], Result]
) -> Iterator[tuple[list[StoreView], Result]]:
    """
    Views whose calls all see what was committed at one moment, of whatever applications, and what `look` finds at that same moment.

    They last as long as the block. StreamKitError if an application is started again and again meanwhile.
    """
    with ExitStack() as stack:
        readers = [StateReader(view.log, view.application, view.followed) for view in views]
        for reader in readers:
            stack.enter_context(closing(reader))

        def seen(transaction: Transaction) -> Result:
            for reader in readers:
                reader.hold_within(transaction)
            return look(transaction)

        for left in reversed(range(ATTEMPTS)):
            try:
                for reader in readers:
                    reader.open_all()
                found = catalog.read(seen)
                break
            except StateMovedError:
                for reader in readers:
                    reader.forget()
                if not left:
                    raise _restless(", ".join(view.application for view in views)) from None
        yield [replace(view, reader=reader) for view, reader in zip(views, readers, strict=True)], found


def _restless(applications: str) -> StreamKitError:
    return StreamKitError(f"{applications}: started again and again while their stores were read; read them again")


def open_view(log: OpenLog, application: str, name: str) -> StoreView:
    """The view of a store by name; StoreNotFoundError lists those the application has."""
    known = _known(log, application)
    return _view(log, known, find_store(known.program, name))


def open_views(log: OpenLog, application: str) -> list[StoreView]:
    """The views of all stores of an application."""
    known = _known(log, application)
    return [_view(log, known, store) for store in known.program.stores]


def _known(log: OpenLog, application: str) -> ReadProgram:
    return log.catalog.read(lambda transaction: ReadProgram.of(transaction, application))


def _view(log: OpenLog, known: ReadProgram, store: ProgramStore) -> StoreView:
    name = known.application.name
    is_there = store.name in known.application.stores  # not after a reset, until the next start
    return StoreView(log, name, known.program, store, StateReader(log, name, [store.name], known=known if is_there else None))
