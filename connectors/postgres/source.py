"""Tables of PostgreSQL into topics: what they have, then what changes in them, without a gap and each change once."""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, ClassVar

import pyarrow as pa

from streamkit.connectors.former_rows import deletions_of_all
from streamkit.connectors.postgres.changes import TableChanges, TableLayout, completed
from streamkit.connectors.postgres.connection import check_address, check_encoding, connect, gone, passes
from streamkit.connectors.postgres.identity import (
    Identities,
    TableIdentity,
    is_another_publication,
    read_identities,
    what_changed,
)
from streamkit.connectors.postgres.own_name import former_name, has_made, own_name
from streamkit.connectors.postgres.patience import Patience
from streamkit.connectors.postgres.pgoutput import (
    UNCHANGED,
    Begin,
    CommitMessage,
    Delete,
    Insert,
    Keepalive,
    Relation,
    RelationColumn,
    ReplicationMessage,
    Truncate,
    Update,
    lsn_of,
    lsn_text,
)
from streamkit.connectors.postgres.position import POSITION_OF_SLOT
from streamkit.connectors.postgres.replication import (
    PAGE_HEADER_BYTES,
    PLUGIN,
    ReplicationConnection,
    drop_slot,
    find_slot,
    lost,
    release,
    written_until,
)
from streamkit.connectors.postgres.snapshot import (
    Coverage,
    begin_reading,
    covered,
    literal,
    read_chunk,
    read_texts,
)
from streamkit.connectors.postgres.source_columns import SourceColumns, said_of_columns
from streamkit.connectors.postgres.source_table import (
    SourceTable,
    check_columns,
    check_columns_of_relation,
    check_row_security,
    children_of,
    key_now,
    key_then,
    oid_now,
    publish,
    read_table,
    read_type,
    written_tables,
)
from streamkit.connectors.postgres.source_topic import check_key, check_rows, listed
from streamkit.connectors.postgres.source_type import DescribedType, SourceType, source_type
from streamkit.connectors.postgres.table_name import NAME_BYTES_MAX, is_pattern, quoted_name, topic_name
from streamkit.connectors.redaction import logger_of
from streamkit.connectors.runtime.positions import read_positions
from streamkit.connectors.setting import Setting
from streamkit.connectors.source import BEGIN, RECREATED_MODE, Polled, Position, Source, kept_for_ever
from streamkit.connectors.value_handling import (
    DECIMAL_MODE,
    DECIMAL_SETTING,
    DOUBLE,
    INFINITY,
    INFINITY_SETTING,
    PRECISE,
    STRING,
    ValueHandling,
)
from streamkit.errors import ConfigError, SchemaError
from streamkit.log.log import Log
from streamkit.log.topic.topic import Topic
from streamkit.names import TIMESTAMP

_LOGGER = logger_of(__name__)
_SLOT = re.compile(r"[a-z0-9_]{1,63}")
DOUBLE_DIGITS = 15  # which a double keeps
ASK_SECONDS = 0.02
LOOK_SECONDS = 1.0  # between two looks at whether tables are what they were
ONCE_SECONDS = 0.2  # how long a poll without patience waits for the server's answer


class PostgresSource(Source):
    """
    Reads `tables`, each into a topic: first all rows, then every change that was committed, exactly once.

    The topic is `topic.prefix` and the table's name, its key the primary key. A deletion is a tombstone; a change of key is a
    tombstone and a row. The publication and the replication slot are made if they are missing.
    PostgreSQL keeps its log until the rows are committed here, also while the connector does not run.
    """

    POSITION = POSITION_OF_SLOT
    SETTINGS: ClassVar[tuple[Setting, ...]] = (
        Setting("connection.url", "where PostgreSQL is, such as postgresql://user:password@host/database", is_secret=True),
        Setting("tables", "the tables, with commas between, such as orders, sales.items, or sales.* for all of a schema", "list"),
        Setting("topic.prefix", "what the names of the topics begin with, before the table's name", default=""),
        Setting("slot.name", "the replication slot; streamkit_<connector> unless given, with a digest where the name cannot be that of a slot", default=""),
        Setting("publication.name", "the publication; streamkit_<connector> unless given", default=""),
        Setting("heartbeat.interval.ms", "how often an idle source tells PostgreSQL how far it has read", "integer", 10_000, least=1),
        Setting("truncate.mode", "what happens at a TRUNCATE: fail stops the task, skip leaves the topic as it is", default="fail", choices=("fail", "skip")),
        Setting(
            "toast.mode",
            "what happens if an update leaves out a large value: fail refuses it, read asks for the value that is there now",
            default="fail",
            choices=("fail", "read"),
        ),
        Setting("poll.linger.ms", "how long a poll waits for more changes while they follow each other", "integer", 50, least=0),
        Setting("poll.rows", "the most rows of a poll", "integer", 50_000, least=1),
        DECIMAL_SETTING,
        INFINITY_SETTING,
    )  # fmt: skip

    def __init__(self, name: str, config: Mapping[str, Any] | None = None, /, **settings: Any) -> None:
        super().__init__(name, config, **settings)
        self._is_own_publication = not self.settings["publication.name"]
        self._connection: Any = None  # for the catalog, and for rows of a snapshot
        self._stream: ReplicationConnection | None = None
        self._is_open = False
        self._is_streaming = False
        self._system = ""
        self._tables: dict[str, SourceTable] = {}  # by their written name
        self._identities = Identities("", {})
        self._former: set[str] = set()  # tables that were made again: their topics still have rows of the former table
        self._log: Log | None = None
        self._has_told_identities = True
        self._looked = 0.0
        self._pending: list[str] = []  # whose snapshot is not complete; the first is under way
        self._after: tuple[str, ...] | None = None
        self._coverages: list[Coverage] = []
        self._lsn = 0  # behind the last transaction that was polled
        self._index = 0  # changes of the transaction under way that were polled
        self._skip = 0  # changes of the next transaction that were polled before this start
        self._begin: Begin | None = None
        self._waiting: Relation | None = None  # which begins the next poll
        self._goal = 0
        self._heard = 0.0
        self._asked = 0.0
        self._told = 0  # the place that the log was last told
        self._is_asked = False  # by a server that waits to hear how far its log was read, as one that shuts down
        self._layouts: dict[int, TableLayout | None] = {}  # by oid; None: a table that is not asked for
        self._types: dict[int, DescribedType | None] = {}

    def check(self) -> None:
        """Each table has a topic of its own, and PostgreSQL takes the names."""
        check_address(self.settings["connection.url"])
        own = own_name(self.name)
        self._slot = self.settings["slot.name"] or own
        self._publication = self.settings["publication.name"] or own
        tables = self.settings["tables"]
        if not tables:
            raise ConfigError(f"the connector {self.name} has tables={''!r}; expected at least one table")
        twice = next((table for table in tables if tables.count(table) > 1), None)
        if twice is not None:
            raise ConfigError(f"the connector {self.name} names the table {twice} twice; expected names that differ")
        self._check_topics([table for table in tables if not is_pattern(table)])
        if not _SLOT.fullmatch(self._slot):
            raise ConfigError(
                f"slot.name={self._slot!r}; expected what PostgreSQL takes: lower case letters, digits and underscores, at most 63"
            )
        if len(self._publication.encode()) > NAME_BYTES_MAX or "\0" in self._publication:
            raise ConfigError(f"publication.name={self._publication!r}; expected a name of at most {NAME_BYTES_MAX} bytes")
        if self.settings["topic"] and (len(tables) > 1 or is_pattern(tables[0]) or self.settings["topic.prefix"]):
            raise ConfigError(
                f"the connector {self.name} has topic={self.settings['topic']!r}; expected topic.prefix instead where there are "
                "several tables, and not both"
            )

    def _check_topics(self, tables: Sequence[str]) -> None:
        topics: dict[str, str] = {}
        for table in tables:
            other = topics.setdefault(topic_name(table), table)
            if other != table:
                raise ConfigError(
                    f"the connector {self.name} would read the tables {other} and {table} into one topic, {self._topic(table)}; "
                    "expected a connector with a setting `topic` for one of them"
                )

    def use(self, log: Log) -> None:
        """What topics have of a table that was made again is deleted there; a slot that an earlier version has named keeps its name."""
        self._log = log
        if not self.settings["slot.name"] and former_name(self.name) in read_positions(log, self.name):
            self._slot = former_name(self.name)

    def splits(self) -> Sequence[str]:
        """The slot: it has all changes in one order."""
        return [self._slot]

    def targets(self, split: str, position: Position) -> Mapping[str, str]:
        """The topic of each table that is still asked for, by the table's written name."""
        asked = self.settings["tables"]
        known = (one for one in position.get("tables", ()) if any(fnmatchcase(one, pattern) for pattern in asked))
        return {table: self._topic(table) for table in (*known, *(one for one in asked if not is_pattern(one)))}

    def key_of(self, topic: str) -> Sequence[str]:
        """The primary key of the table, or the index that is its replica identity."""
        for layout in self._layouts.values():
            if layout is not None and layout.topic == topic:
                return layout.key
        table = next((table for table in self._tables.values() if self._topic(table.written) == topic), None)
        return key_now(table) if table else ()

    def config_of(self, topic: str) -> Mapping[str, str]:
        """The last row of each key is kept, for rows that nobody changes are rows of the table all the same."""
        return kept_for_ever(self.key_of(topic))

    def open(self, positions: Mapping[str, Position | None]) -> None:
        """Go on behind the position; without one, make the slot and begin with what the tables have."""
        if self._slot not in positions or self._is_open:
            return
        self._connection = connect(self.settings["connection.url"])
        check_encoding(self._connection)
        if self._is_own_publication and has_made(self._connection, former_name(self.name), self.name):
            self._publication = former_name(self.name)
        self._stream = ReplicationConnection(self.settings["connection.url"], self._slot, self._again())
        self._system = self._stream.system()
        try:
            self._begin_with(positions[self._slot])
        except gone() as error:
            raise self._changed_meanwhile(str(error)) from error
        self._goal = written_until(self._connection)
        self._heard = time.monotonic()
        self._is_open = True

    def _begin_with(self, known: Position | None) -> None:
        """Begin behind the position; ConnectionError if a table is another one by the end of this than at its beginning."""
        self._wait_for_tables(known)
        self._tables = {name: read_table(self._connection, name) for name in self._written_tables()}
        found = self._found_identities()
        self._check_read_at_once(found)
        self._check_topics(list(self._tables))
        check_columns(self._tables.values())
        for one in self._tables.values():
            self._check_said_key(one)
            self._check_key_types(one.written, one.columns, key_now(one))
        for table, child in children_of(self._connection, self._tables.values()):
            _LOGGER.warning("table %s has the child %s, whose rows are not read with it; name it in tables, too", table, child)
        position, again = self._compared(known, found)
        if position is None and known is not None:
            release(self._connection, self._slot)
        whole = set(position["tables"]) - again if position is not None else set()
        self._check_topics_there(whole, again)
        done = whole if self.settings["toast.mode"] != "read" else set()
        check_row_security(self._connection, [table for name, table in self._tables.items() if name not in done])
        publish(self._connection, self._publication, [*self._tables.values()], maker=self.name, is_own=self._is_own_publication)
        self._identities = self._published(found)
        if position is None:
            self._begin_at_the_beginning()
            self._identities = self._identities.begun()
        else:
            self._begin_behind(position, again)
            self._know_columns(Identities.of_position(position), again)
        self._former = {name for name in again if name in self._pending}

    def poll(self, timeout: float) -> Polled | None:
        """The next rows of the snapshot, or the changes that were committed since."""
        if not self._is_open:
            time.sleep(timeout)
            return None
        if self._pending:
            return self._poll_snapshot()
        if not self._is_streaming:
            self._start()
        return self._poll_stream(timeout if timeout or self._lsn >= self._goal else ONCE_SECONDS)

    def committed(self, positions: Mapping[str, Position]) -> None:
        """Tell PostgreSQL that the log has what lies before the position."""
        position = positions.get(self._slot)
        if position is not None and self._is_streaming:
            assert self._stream is not None
            self._stream.confirm(lsn_of(position["lsn"]))
        self._heard = time.monotonic()

    def is_at_end(self) -> bool:
        """Whether what had been committed when the source was opened was polled."""
        return not self._is_open or (not self._pending and self._begin is None and self._lsn >= self._goal)

    def is_retryable(self, error: Exception) -> bool:
        """Lost connections, a slot that is still in use, and servers that start or stop."""
        return passes(error) or super().is_retryable(error)

    def close(self) -> None:
        """Close both connections; the slot stays."""
        for connection in (self._stream, self._connection):
            if connection is not None:
                connection.close()

    # The beginning

    def _begin_at_the_beginning(self) -> None:
        assert self._stream is not None
        found = find_slot(self._connection, self._slot)
        if found is not None:
            if (found.plugin, found.database) != (PLUGIN, self._connection.info.dbname):
                raise ConfigError(
                    f"the replication slot {self._slot} is that of the plugin {found.plugin or 'none'} in database {found.database or 'none'}, and the "
                    f"connector {self.name} has no position for it; expected a slot of its own: set slot.name"
                )
            if found.reader is not None:
                raise ConfigError(
                    f"the replication slot {self._slot} is in use by the process {found.reader} of PostgreSQL, and the connector {self.name} "
                    "has no position for it; expected a slot of its own: set slot.name"
                )
            drop_slot(self._connection, self._slot)  # of a task that died before its first commit
        snapshot = self._stream.create()
        self._lsn = snapshot.lsn
        self._pending = [*self._tables]
        begin_reading(self._connection, snapshot.name)

    def _written_tables(self) -> list[str]:
        """The names that the setting has; in place of a pattern those of the tables that fit it now."""
        return written_tables(self._connection, self.settings["tables"])

    def _wait_for_tables(self, position: Position | None) -> None:
        """ConnectionError, after which the task starts again, for a table that is about to be made again, if such are to be read."""
        before = None if position is None else Identities.of_position(position)
        if before is None or self.settings[RECREATED_MODE] != BEGIN:
            return
        known = {name: one.key for name, one in before.tables.items() if name in self._written_tables()}
        now = read_identities(self._connection, self._publication, known)
        missing = [name for name, one in now.tables.items() if one.oid is None]
        if missing:
            raise ConnectionError(
                f"connector {self.name}: there is no table {missing[0]} any more; expected that it is made again, since {RECREATED_MODE}={BEGIN}"
            )

    def _check_read_at_once(self, found: Identities) -> None:
        """Refuse tables or columns that changed between the queries of this start: tables and identities are read one after the other."""
        for name, table in self._tables.items():
            one = found.tables[name]
            if one.oid != table.oid or one.columns is None or one.columns.there != table.declared:
                raise self._changed_meanwhile(f"the table {name} is another one, or has other columns")

    def _published(self, found: Identities) -> Identities:
        """What is there now that the publication is made: what was found, and what publishing has added to it."""
        now = self._found_identities()
        wanted = found.published_as(now)
        if wanted != now:
            changed = what_changed(self._publication, wanted, now) or {"": "a column or the publication was altered"}
            raise self._changed_meanwhile("; ".join(changed.values()))
        return now

    def _changed_meanwhile(self, what: str) -> ConnectionError:
        return ConnectionError(f"connector {self.name}: it begins again, since tables were changed while it began: {what}")

    def _compared(self, position: Position | None, now: Identities) -> tuple[Position | None, set[str]]:
        """
        The position, and the tables that are to be taken again since they are others than it knows.

        None in place of a position if nothing of it can be used. ConfigError unless `recreated.mode` says to begin again.
        """
        before = None if position is None else Identities.of_position(position)
        if before is None or position is None:
            return position, set()
        self._check_keys(before, now)
        changed = what_changed(self._publication, before, now)
        if not changed:
            return position, set()
        self._say_recreated(changed, position["lsn"])
        self._check_new_keys(before, now)
        return (None if is_another_publication(before, now) else position), set(changed)

    def _say_recreated(self, changed: Mapping[str, str], lsn: str) -> None:
        said = f"connector {self.name}: {'; '.join(changed.values())}"
        if self.settings[RECREATED_MODE] != BEGIN:
            raise ConfigError(
                f"{said}. What was changed there meanwhile, since {lsn} at the earliest, is lost, and putting the "
                f"former state back brings none of it. To read all rows of a table that was made again: {RECREATED_MODE}={BEGIN}, or "
                f"streamkit connect offsets reset {self.name} for all tables; delete the topic before if it must not have rows that are gone"
            )
        _LOGGER.warning("%s; all rows are read again, since %s=%s", said, RECREATED_MODE, BEGIN)

    def _check_keys(self, before: Identities, now: Identities) -> None:
        """A topic keeps its key: else a row that changes its former key would stay under both."""
        for name, was in before.tables.items():
            one = now.tables.get(name)
            if one is not None and one.oid == was.oid and set(one.key) != set(was.key):
                raise SchemaError(self._other_key(name, was.key, one.key))

    def _check_new_keys(self, before: Identities, now: Identities) -> None:
        """The same of tables that were made again, unless the topic was deleted: else rows of the new key replace each other."""
        for name, was in before.tables.items():
            one = now.tables.get(name)
            if one is not None and set(one.key) != set(was.key) and (self.chain is not None or self._known_topic(name)):
                raise SchemaError(self._other_key(name, was.key, one.key, "since it was made again"))

    def _check_topics_there(self, done: Collection[str], again: Collection[str]) -> None:
        """Tables that come whole fit the topics that are there, before anything is made or deleted for them."""
        for name, table in self._tables.items():
            topic = self._known_topic(name)
            if name in done or topic is None or topic.format is not None or not (self.chain is None or self.chain.keeps_columns):
                continue
            if self.chain is None or not self.chain.makes_keys:
                check_key(table, topic)
            if name in again:
                types = {column.name: self._type(column).arrow for column in table.columns}
                check_rows(self._connection, table, types, topic)

    def _known_topic(self, table: str) -> Topic | None:
        name = self._topic(table)
        return self._log.topic(name) if self._log is not None and name in self._log.topics() else None

    def _other_key(self, table: str, old: Sequence[str], new: Sequence[str], since: str = "from a change on") -> str:
        return (
            f"the key of table {table} was {listed(old)}, and is {listed(new)} {since}; the key of topic {self._topic(table)} "
            f"cannot change: read the table into another topic, or delete the topic. {self._again()}"
        )

    def _found_identities(self) -> Identities:
        keys = {name: key_now(table) for name, table in self._tables.items()}
        return read_identities(self._connection, self._publication, keys)

    def _look_at_tables(self) -> None:
        """Now and then while it reads: whether tables and publication are what they were."""
        if time.monotonic() - self._looked < LOOK_SECONDS:
            return
        self._look_again()

    def _look_again(self) -> None:
        now = self._found_identities()
        changed = what_changed(self._publication, self._identities, now)
        self._looked = time.monotonic()
        if changed:
            self._say_recreated(changed, lsn_text(self._lsn))
            raise self._begins_again(changed)
        before, self._identities = (
            self._identities,
            self._identities.with_columns({name: one.columns for name, one in now.tables.items() if one.columns is not None}),
        )
        self._know_columns(before, ())

    def _begins_again(self, changed: Mapping[str, str]) -> ConnectionError:
        return ConnectionError(f"connector {self.name}: it begins again, since {'; '.join(changed.values())}")

    def _know_columns(self, before: Identities | None, again: Collection[str]) -> None:
        """Keep what is known of the columns of tables that are not read again, and say what is different."""
        known: dict[str, SourceColumns] = {}
        for name, now in self._identities.tables.items():
            was = before.tables.get(name) if before is not None and name not in again else None
            if was is None or now.columns is None:
                continue
            if was.columns is None:  # a position of an earlier version
                self._has_told_identities = False
                continue
            known[name] = was.columns.followed_by(now.columns)
            if was.columns.there == now.columns.there:
                continue
            self._has_told_identities = False
            for said in said_of_columns(name, self._topic(name), was.columns, now.columns):
                _LOGGER.warning("%s", said)
        self._identities = self._identities.with_columns(known)

    def _begin_behind(self, position: Position, again: Collection[str]) -> None:
        assert self._stream is not None
        self._lsn, self._skip = lsn_of(position["lsn"]), position["index"]
        self._check_system(position)
        self._check_slot()
        under_way = position["snapshot"]
        self._coverages = [one for found in position["coverages"] if (one := Coverage.from_json(found)).table not in again]
        done = set(position["tables"]) - set(again)
        self._has_told_identities = not again and "relations" in position
        self._pending = [name for name in self._tables if name not in done]
        if under_way["table"] in self._pending:
            self._pending = [under_way["table"], *(name for name in self._pending if name != under_way["table"])]
            self._after = None if under_way["table"] in again else under_way["after"] and tuple(under_way["after"])
        if self._pending:
            self._take_another_snapshot()

    def _take_another_snapshot(self) -> None:
        """A later one, for what an earlier life did not come to, or for tables that are new."""
        assert self._stream is not None
        snapshot = self._stream.create(is_temporary=True)
        begin_reading(self._connection, snapshot.name)
        self._stream.drop(snapshot.slot)
        first = self._pending[0]
        self._coverages += [Coverage(name, self._after if name == first else None, snapshot.lsn) for name in self._pending]

    def _check_system(self, position: Position) -> None:
        if position["system"] != self._system:
            raise ConfigError(
                f"the connector {self.name} has read a PostgreSQL with the identifier {position['system']}; this one has {self._system}: another "
                f"server. {self._again()}"
            )
        written = written_until(self._connection)
        if self._lsn > written + PAGE_HEADER_BYTES:
            raise ConfigError(
                f"the connector {self.name} has read PostgreSQL's log until {lsn_text(self._lsn)}, and it ends at {lsn_text(written)}: the server "
                f"has lost changes that are in the topics, as after a restored backup. {self._again()}"
            )

    def _check_slot(self) -> None:
        """A slot that begins behind the position sends nothing for what lies between, and no error: so compare."""
        found = find_slot(self._connection, self._slot)
        if found is None:
            raise ConfigError(f"PostgreSQL has no replication slot {self._slot} any more, so changes are gone. {self._again()}")
        if found.is_lost:
            raise ConfigError(f"{lost(self._slot)}. {self._again()}")
        release(self._connection, self._slot)
        found = find_slot(self._connection, self._slot)
        if found is not None and found.confirmed > self._lsn:
            raise ConfigError(
                f"the replication slot {self._slot} begins at {lsn_text(found.confirmed)}, and the connector {self.name} has read until "
                f"{lsn_text(self._lsn)}: changes between them are gone, since somebody else has read the slot or made it again. {self._again()}"
            )

    def _again(self) -> str:
        return (
            f"To read all rows again: streamkit connect offsets reset {self.name}, and delete the topics if they must not have "
            "rows that are gone"
        )

    # The snapshot

    def _poll_snapshot(self) -> Polled:
        if self._former:
            return self._poll_deletions()
        table = self._tables[self._pending[0]]
        limit = self.settings["poll.rows"]
        texts = self._read_chunk(table, limit)
        layout = self._layout(table.written, table.columns, key_now(table))
        tables = {layout.topic: self._snapshot_rows(layout, texts)} if texts else {}
        if table.key and len(texts) == limit:
            last = dict(zip(table.names, texts[-1], strict=True))
            self._after = tuple(str(last[name]) for name in table.key)
        else:
            self._pending.pop(0)
            self._after = None
        if not self._pending:
            self._connection.execute("COMMIT")
        return Polled(tables, self._position())

    def _read_chunk(self, table: SourceTable, limit: int) -> list[tuple[str | None, ...]]:
        """
        The next rows of a table, which is the known one: the name may stand for another one by now.

        Reading locks it until the snapshot ends, so what the name stands for behind that is what was read.
        """
        try:
            texts = read_chunk(self._connection, table, self._after, limit)
        except gone() as error:
            raise self._changed_meanwhile(str(error)) from error
        oid = oid_now(self._connection, table)
        if oid != table.oid:
            before = Identities("", {table.written: TableIdentity(table.oid, "")})
            changed = what_changed("", before, Identities("", {table.written: TableIdentity(oid, "")}))
            self._say_recreated(changed, lsn_text(self._lsn))
            raise self._begins_again(changed)
        return texts

    def _poll_deletions(self) -> Polled:
        """Deletions of all that the topics have of former tables, in one transaction: the new ones' rows follow."""
        assert self._log is not None
        found: dict[str, pa.Table] = {}
        for table in (self._tables[name] for name in sorted(self._former)):
            topic = self._topic(table.written)
            if self.chain is not None and not self.chain.keeps_columns:
                _LOGGER.warning("topic %s keeps rows of the former table %s: transforms change its columns", topic, table.written)
            elif topic in self._log.topics():
                found[topic] = deletions_of_all(self._log, topic)
        self._former = set()
        return Polled({topic: rows for topic, rows in found.items() if rows.num_rows}, self._position())

    def _snapshot_rows(self, layout: TableLayout, texts: Sequence[Sequence[str | None]]) -> pa.Table:
        changes = TableChanges(
            layout, self.refuse_record, [*texts], [False] * len(texts), [None] * len(texts), [self._lsn] * len(texts)
        )
        return changes.rows().drop_columns([TIMESTAMP])

    # The stream

    def _start(self) -> None:
        assert self._stream is not None
        self._stream.start(self._lsn, self._publication)
        self._layouts = {}
        self._is_streaming = True

    def _poll_stream(self, timeout: float) -> Polled | None:
        assert self._stream is not None
        self._look_at_tables()
        found: dict[int, TableChanges] = {}
        before = self._lsn, self._index
        count, most = 0, self.settings["poll.rows"]
        has_server_sent_all = False
        patience = Patience(timeout, self.settings["poll.linger.ms"] / 1000)
        if self._waiting is not None:
            self._learn(self._waiting)
            self._waiting = None
        while count < most:
            message = self._stream.message(0.0)
            if message is None:
                message = self._awaited(patience, before, has_changes=count > 0, has_server_sent_all=has_server_sent_all)
                if message is None:
                    break
            has_server_sent_all = isinstance(message, Keepalive)  # it says so before it sleeps
            if isinstance(message, Relation) and message.oid in found:
                self._waiting = message  # of other columns perhaps
                break
            count += self._take(message, found)
        return self._polled(found, before)

    def _awaited(
        self, patience: Patience, before: tuple[int, int], *, has_changes: bool, has_server_sent_all: bool
    ) -> ReplicationMessage | Keepalive | None:
        """The next message, where none is there yet; None if the poll ends."""
        assert self._stream is not None
        is_within = self._begin is not None
        is_gathering = has_changes and not is_within
        while True:
            wait = patience.wait_seconds(
                has_changes=has_changes, is_within_transaction=is_within, has_server_sent_all=has_server_sent_all
            )
            is_caught_up = before[0] < self._goal <= self._lsn and self._begin is None  # by this poll
            if wait <= 0 or is_caught_up:
                return None
            if not has_changes:
                self._ask()
            message = self._stream.message(wait if is_gathering else min(wait, ASK_SECONDS))
            if message is not None or is_gathering:
                return message

    def _ask(self) -> None:
        """Ask how far the server has read, now and then, until that is where its log ended at the beginning."""
        assert self._stream is not None
        if self._begin is None and self._lsn < self._goal and time.monotonic() - self._asked > ASK_SECONDS:
            self._stream.say(wants_reply=True)
            self._asked = time.monotonic()

    def _hear(self, frame: Keepalive) -> None:
        """Between two transactions, all that lies before a keepalive has been sent."""
        assert self._stream is not None
        if self._begin is None:
            self._lsn = max(self._lsn, frame.end)
        if frame.wants_reply:
            self._is_asked = True
            self._stream.say()

    def _take(self, message: Any, found: dict[int, TableChanges]) -> int:
        """Take a message; how many rows it brought, at most. It runs three times a small transaction: the types are compared flatly."""
        kind = type(message)
        if kind is Update or kind is Insert or kind is Delete:
            self._index += 1
            return 0 if self._index <= self._skip else self._change(message, found)
        if kind is Begin:
            self._begin, self._index = message, 0
        elif kind is CommitMessage:
            self._begin, self._index, self._skip = None, 0, 0
            self._lsn = max(self._lsn, message.end)
            if self._coverages:
                self._coverages = [one for one in self._coverages if one.lsn > self._lsn]
        elif kind is Keepalive:
            self._hear(message)
        elif kind is Relation:
            self._learn(message)
        elif kind is Truncate:
            self._truncate(message)
        return 0

    def _change(self, change: Insert | Update | Delete, found: dict[int, TableChanges]) -> int:
        layout = self._layouts[change.oid]
        if layout is None:
            return 0
        assert self._begin is not None
        changes = found.get(change.oid)
        if changes is None:
            changes = found[change.oid] = TableChanges(layout, self.refuse_record)
        if type(change) is Update and UNCHANGED in change.new and self.settings["toast.mode"] == "read":
            change = self._read_back(layout, change)
        for part in self._uncovered(layout, change) if self._coverages else (change,):
            changes.add(part, self._begin.commit_lsn, self._begin.time_us)
        return 1

    def _uncovered(self, layout: TableLayout, change: Insert | Update | Delete) -> Sequence[Insert | Update | Delete]:
        """The parts of a change that no snapshot has already."""
        assert self._begin is not None
        table = self._tables[layout.table]
        parts = _parts(layout, change)
        keys = []
        for part in parts:
            row = dict(zip(layout.names, part.old if isinstance(part, Delete) else part.new, strict=True))
            keys.append(tuple(row[name] for name in table.key))
        found = covered(self._connection, table, self._coverages, self._begin.commit_lsn, keys)
        return [part for part, is_covered in zip(parts, found, strict=True) if not is_covered]

    def _read_back(self, layout: TableLayout, change: Update) -> Update:
        """The update with values that it leaves out as they are now; null if the row is gone, since its deletion follows."""
        table = self._tables[layout.table]
        new = list(completed(change))
        missing = [name for name, value in zip(layout.names, new, strict=True) if value is UNCHANGED]
        if not missing or not layout.key:
            return change
        same = " AND ".join(
            f"{quoted_name(name)} = {literal(value)}::{table.type_name(name)}"
            for name, value in zip(layout.names, new, strict=True)
            if name in layout.key
        )
        columns = ", ".join(quoted_name(name) if name in table.names else "NULL" for name in missing)
        rows = read_texts(self._connection, f"SELECT {columns} FROM {table.sql_name} WHERE {same}")
        values = dict(zip(missing, rows[0] if rows else [None] * len(missing), strict=True))
        return change._replace(new=[values.get(name, value) for name, value in zip(layout.names, new, strict=True)])

    def _learn(self, relation: Relation) -> None:
        """Note how a table is from here on, and say what is different."""
        table = next((table for table in self._tables.values() if table.oid == relation.oid), None)
        if table is None:  # also a former one of the name, whose rows are gone
            self._layouts[relation.oid] = None
            return
        if (table.schema, table.name) != (relation.schema, relation.name) and self._found_identities().tables[
            table.written
        ].oid is None:
            raise SchemaError(
                f"the table {table.written} is called {relation.schema}.{relation.name} in a change; expected the name in `tables`: "
                f"rename it back, or change the setting"
            )
        check_columns_of_relation(relation)
        if relation.identity == "f" and {column.name for column in relation.columns} != set(table.names):
            table = self._tables[table.written] = read_table(self._connection, table.written)
        layout = self._layout(table.written, relation.columns, key_then(table, relation))
        key = self._identities.tables[table.written].key
        if set(key) != set(layout.key):
            raise SchemaError(self._other_key(table.written, key, layout.key))
        is_read = self._index < self._skip or any(one.table == layout.table for one in self._coverages)
        if not is_read:  # by an earlier life, or by a later snapshot, perhaps of other columns
            self._learn_columns(layout)
        self._layouts[relation.oid] = layout

    def _learn_columns(self, layout: TableLayout) -> None:
        """Compare the columns of a message with those of the last one, and with the catalog, which may be ahead."""
        known = self._identities.tables[layout.table].columns
        if known is not None and known.streamed == frozenset(layout.names) == frozenset(known.there):
            return
        self._look_again()
        known = self._identities.tables[layout.table].columns
        assert known is not None
        if back := known.came_back(layout.names):
            raise ConfigError(
                f"connector {self.name}: the column {back[0]} of the table {layout.table} was dropped and added again, or renamed and renamed back, at "
                f"{lsn_text(self._lsn)} or later: what topic {layout.topic} has for it would not be what the table has. {self._again()}"
            )
        after = known.with_message(layout.names)
        for name in set(after.gone) - set(known.gone):
            _LOGGER.warning(
                "table %s has no column %s any more; topic %s has nulls there from now on", layout.table, name, layout.topic
            )
        self._identities = self._identities.with_columns({layout.table: after})

    def _truncate(self, message: Truncate) -> None:
        """A topic cannot be emptied: a deletion is by key, and which keys there are only a reader of all of it knows."""
        names = [layout.table for oid in message.oids if (layout := self._layouts.get(oid)) is not None]
        self._index += 1
        if not names or self._index <= self._skip:
            return
        assert self._begin is not None
        what = f"TRUNCATE emptied table {', '.join(names)} at {lsn_text(self._begin.commit_lsn)}"
        if self.settings["truncate.mode"] == "fail":
            raise SchemaError(
                f"{what}, and a topic can only forget rows by key; expected DELETE. To go on and leave the rows in the topic: "
                "truncate.mode=skip"
            )
        _LOGGER.warning("%s; the topic keeps its rows, since truncate.mode=skip", what)

    def _polled(self, found: Mapping[int, TableChanges], before: tuple[int, int]) -> Polled | None:
        tables: dict[str, pa.Table] = {}
        for changes in found.values():
            rows = changes.rows()
            if rows.num_rows:
                tables[changes.layout.topic] = rows
        is_due = self._is_asked or time.monotonic() - self._heard > self.settings["heartbeat.interval.ms"] / 1000
        self._is_asked = False
        has_moved = (self._lsn, self._index) != before
        if tables or self.refused or not self._has_told_identities or (is_due and (has_moved or self._lsn > self._told)):
            return Polled(tables, self._position())
        return None

    # What both have

    def _position(self) -> dict[str, Position]:
        """Where to begin again: the end of a transaction, how many changes of the next one are done, and of what that is."""
        self._told = self._lsn
        self._has_told_identities = True
        return {
            self._slot: {
                "lsn": lsn_text(self._lsn),
                "index": max(self._index, self._skip),
                "system": self._system,
                "tables": [name for name in self._tables if name not in self._pending],
                "snapshot": {"table": self._pending[0] if self._pending else None, "after": self._after and list(self._after)},
                "coverages": [one.to_json() for one in self._coverages],
                **self._identities.to_json(),
            }
        }

    def _layout(self, table: str, columns: Sequence[RelationColumn], key: tuple[str, ...]) -> TableLayout:
        self._check_key_types(table, columns, key)
        types = tuple(self._type(column) for column in columns)
        return TableLayout(table, self._topic(table), tuple(column.name for column in columns), types, key)

    def _check_said_key(self, table: SourceTable) -> None:
        """ConfigError if the setting `key`, which a topology says with its schema, names other columns than the table's own key."""
        said = self.settings["key"]
        if said and set(said) != set(table.key):
            raise ConfigError(
                f"the connector {self.name} has key={','.join(said)}, and the key of table {table.written} is {listed(key_now(table))}; expected no "
                "key, or that one: the primary key, or the index that is the replica identity"
            )

    def _check_key_types(self, table: str, columns: Sequence[RelationColumn], key: Collection[str]) -> None:
        """ConfigError for a key column of numbers with more digits than a double keeps: two keys could become one in the topic."""
        if self.settings[DECIMAL_MODE] != DOUBLE:
            return
        for column in columns:
            exact = source_type(column.type_oid, column.type_modifier, self._described, ValueHandling()).arrow
            if column.name not in key or exact == self._type(column).arrow:
                continue
            if not pa.types.is_decimal(exact) or exact.precision > DOUBLE_DIGITS:
                raise ConfigError(
                    f"connector {self.name}: the key column {column.name!r} of the table {table} is a numeric that may have more digits than a double, "
                    f"so that {DECIMAL_MODE}={DOUBLE} would make one row of two; expected {DECIMAL_MODE}={PRECISE} or {STRING}"
                )

    def _type(self, column: RelationColumn) -> SourceType:
        handling = ValueHandling(self.settings[DECIMAL_MODE], self.settings[INFINITY])
        return source_type(column.type_oid, column.type_modifier, self._described, handling)

    def _described(self, oid: int) -> DescribedType | None:
        if oid not in self._types:
            self._types[oid] = read_type(self._connection, oid)
        return self._types[oid]

    def _topic(self, table: str) -> str:
        return str(self.settings["topic"] or self.settings["topic.prefix"] + topic_name(table))


def _parts(layout: TableLayout, change: Insert | Update | Delete) -> list[Insert | Update | Delete]:
    """A change by key: an update that changes the key is a deletion and an insertion."""
    if isinstance(change, Update) and change.old is not None:
        new = completed(change)
        if UNCHANGED not in new and layout.key_of(change.old) != layout.key_of(new):
            return [Delete(change.oid, change.old), Insert(change.oid, new)]
    return [change]
