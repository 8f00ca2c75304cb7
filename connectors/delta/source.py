"""A Delta table into a topic: its rows as they are, then each version; or the changes of its rows."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar
from urllib.parse import unquote

import pyarrow as pa

from streamkit.connectors.delta.changes import CHANGE, changes_of, has_old
from streamkit.connectors.delta.partitions import empty_is_null, has_missing_files, is_missing, refuse_bytes, refuse_encoded
from streamkit.connectors.delta.table import STORAGE, errors, open_table
from streamkit.connectors.former_rows import deletions_of_all
from streamkit.connectors.position_form import TRUTH, WHOLE, PositionField, PositionForm, is_whole, or_none
from streamkit.connectors.redaction import logger_of
from streamkit.connectors.reserved_columns import reserved_columns
from streamkit.connectors.setting import Setting
from streamkit.connectors.source import Polled, Position, Source, kept_for_ever
from streamkit.errors import ConfigError
from streamkit.log.log import Log
from streamkit.log.topic.topic import Topic
from streamkit.names import check_name
from streamkit.schema import Schema

_LOGGER = logger_of(__name__)
ROWS_MAX = 500_000
SPLIT = "table"
ORDER = 2  # of the rows of a version, to which positions within it belong; until 1 it was what the library gave
_VERSION, _TIME = "_commit_version", "_commit_timestamp"
FEED, CAST = "delta.enableChangeDataFeed", "Cast error"  # the table's property, and what the library says of a value
STORE, OBJECT = "Object Store error", "Object at location"  # what the library says of trouble, and of a file that is not there


class DeltaSource(Source):
    """
    Reads a table: its rows at the first start, then the rows of each new version, exactly once.

    With `read.mode=snapshot` versions must only add rows; one that removes or changes rows is an error. With
    `read.mode=changes` the change data feed is read: inserted and updated rows are rows, and deleted rows are deletions; if an update
    changes a row's key, the former key is deleted. The deletions of a version are first; without transforms there is none for a key that
    has a row in the version. The position is a version, and the number of its rows that were read; a version's rows are in memory together.
    """

    POSITION = PositionForm(
        {"version": WHOLE, "rows": WHOLE, "snapshot": TRUTH},
        {"version": 17, "rows": 0, "snapshot": False},
        {"order": PositionField("a whole number or null", or_none(is_whole))},
    )
    SETTINGS: ClassVar[tuple[Setting, ...]] = (
        Setting("path", "where the table is"),
        Setting(
            "read.mode",
            "snapshot: rows that are added; changes: the change data feed",
            default="snapshot",
            choices=("snapshot", "changes"),
        ),
        Setting(
            "starting.version",
            "the first version whose rows are read; else all rows of the newest, then what follows",
            "integer",
            None,
            least=0,
        ),
        STORAGE,
    )

    def __init__(self, name: str, config: Mapping[str, Any] | None = None, /, **settings: Any) -> None:
        super().__init__(name, config, **settings)
        self._position: dict[str, Any] | None = None
        self._rows: pa.Table | None = None
        self._is_at_end = True
        self._key: Sequence[str] = self.settings["key"]
        self._log: Log | None = None
        self._has_former_rows = False  # the table was made again: the topic still has rows of the former one

    def check(self) -> None:
        """A topic is needed, and deletions need a key."""
        check_name(self.settings["topic"], "topic")
        if self.settings["read.mode"] == "changes" and not self.settings["key"]:
            raise ConfigError("read.mode=changes needs the setting key: a deletion is told by the key of its row")

    def splits(self) -> Sequence[str]:
        """A table is one split: its versions have an order."""
        return [SPLIT]

    def name_of(self, split: str) -> str:
        """The table by its place."""
        return f"the Delta table {self.settings['path']}"

    def identities(self, splits: Sequence[str]) -> Mapping[str, str]:
        """The id of the table."""
        table = self._newest() if splits else None
        return {} if table is None else {split: str(table.metadata().id) for split in splits}

    def use(self, log: Log) -> None:
        """Rows that the topic has of a former table are looked up there."""
        self._log = log

    def made_again(self, split: str) -> None:
        """A topic that is a table must lose the rows of the former one."""
        self._has_former_rows = self.settings["read.mode"] == "changes"

    def open(self, positions: Mapping[str, Position | None]) -> None:
        """Go on in the version that was read last; or begin with the table as it is."""
        if SPLIT not in positions or self._position is not None:
            return
        known = positions[SPLIT]
        table = self._newest()
        if known is None and self.settings["read.mode"] == "changes":
            refuse_encoded(table, self.settings["path"])
        if known is not None:
            # Within the changes of a version rows are counted in an order; of one that is not known the version is read again.
            is_of_changes = self.settings["read.mode"] == "changes" and not known["snapshot"]
            self._position = {**known, "rows": 0} if is_of_changes and known.get("order") != ORDER else dict(known)
        elif self.settings["starting.version"] is not None:
            self._position = {"version": self.settings["starting.version"], "rows": 0, "snapshot": False}
        else:
            self._position = {"version": table.version(), "rows": 0, "snapshot": True}
        if self._position["version"] > table.version() + 1:
            raise ConfigError(
                f"the Delta table {self.settings['path']} is at version {table.version()}, and was read up to {self._position['version'] - 1}: "
                "it was restored, or it is another table"
            )

    def topic(self, topic: Topic) -> None:
        """The key of a topic that is there tells its rows apart."""
        self._key = topic.key

    def poll(self, timeout: float) -> Polled | None:
        """Rows of the version that is due."""
        position = self._position
        if position is None:
            time.sleep(timeout)
            return None
        if self._has_former_rows:
            return self._deletions(position)
        if self._rows is None:
            newest = self._newest().version()
            if position["version"] > newest:
                time.sleep(timeout)
                return None
            self._rows = self._rows_of(position)
        rows = self._rows.slice(position["rows"], ROWS_MAX)
        if position["rows"] + rows.num_rows >= self._rows.num_rows:
            self._position = {"version": position["version"] + 1, "rows": 0, "snapshot": False}
            self._rows = None
        else:
            order = position.get("order") if position["rows"] else ORDER
            self._position = {**position, "rows": position["rows"] + rows.num_rows, "order": order}
        tables = {self.settings["topic"]: rows} if rows.num_rows else {}
        return Polled(tables, {SPLIT: dict(self._position)})

    def _deletions(self, position: Position) -> Polled:
        """Deletions of all rows that the topic has of the former table: those of the new one follow."""
        assert self._log is not None
        topic, self._has_former_rows = self.settings["topic"], False
        if self.chain is not None and not self.chain.keeps_columns:
            _LOGGER.warning(
                "topic %s keeps rows of the former table %s: transforms change its columns", topic, self.settings["path"]
            )
            return Polled({}, {})
        rows = deletions_of_all(self._log, topic) if topic in self._log.topics() else pa.table({})
        return Polled({topic: rows} if rows.num_rows else {}, {SPLIT: dict(position)})

    def config_of(self, topic: str) -> Mapping[str, str]:
        """With the change data feed the topic is a table: the last row of each key is kept."""
        return kept_for_ever(self.settings["key"]) if self.settings["read.mode"] == "changes" else {}

    def is_retryable(self, error: Exception) -> bool:
        """Trouble of the object store passes."""
        return super().is_retryable(error) or isinstance(error, OSError)

    def _newest(self) -> Any:
        table = open_table(self, self.settings["path"])
        if table is None:
            raise ConfigError(f"there is no Delta table at {self.settings['path']}")
        refuse_bytes(table, self.settings["path"])
        return table

    def _rows_of(self, position: Position) -> pa.Table:
        version = position["version"]
        try:
            if position["snapshot"]:
                return self._whole(version, is_by_path=not position["rows"] or position.get("order") == ORDER)
            return self._changes(version) if self.settings["read.mode"] == "changes" else self._added(version)
        except (FileNotFoundError, errors().DeltaError) as error:
            said = f"version {version} of the Delta table {self.settings['path']} cannot be read"
            if not self._is_gone(version, is_whole=position["snapshot"]):
                raise ConfigError(
                    f"{said}, although its files are there: {type(error).__name__}: {error}; a position that leaves it out would lose what it changes"
                ) from error
            raise ConfigError(
                f"{said} any more: its files were vacuumed, or its log was cleaned up. To go on at another: streamkit connect offsets set "
                f"{self.name} {SPLIT} '{_after(version)}'. {type(error).__name__}: {error}"
            ) from error

    def _is_gone(self, version: int, *, is_whole: bool) -> bool:
        """Whether the log of a version is not there, or a file of it; ConfigError if the library does not find a file that is there."""
        files = self._newest().to_pyarrow_dataset().filesystem
        try:
            if is_whole:
                return any(is_missing(files, fragment.path) for fragment in self._dataset(version).get_fragments())
            actions = _actions(files, version)
        except (FileNotFoundError, errors().DeltaError):
            return True
        return has_missing_files(files, actions, version, self.settings["path"])

    def _dataset(self, version: int) -> Any:
        table = open_table(self, self.settings["path"], version)
        if table is None:
            raise FileNotFoundError("there is no table any more")
        refuse_bytes(table, self.settings["path"])
        try:
            return table.to_pyarrow_dataset()
        except errors().DeltaProtocolError as error:
            raise ConfigError(
                f"the Delta table {self.settings['path']} has features that the library does not read: {error}"
            ) from error

    def _whole(self, version: int, *, is_by_path: bool) -> pa.Table:
        """All rows of a version; a checkpoint may list its files in another order than the log, so paths say the order."""
        dataset = self._dataset(version)
        if not is_by_path:
            return _plain(dataset.to_table())
        fragments = sorted(dataset.get_fragments(), key=lambda fragment: str(fragment.path))
        tables = [fragment.to_table(schema=dataset.schema) for fragment in fragments]
        return _plain(pa.concat_tables(tables)) if tables else _plain(dataset.schema.empty_table())

    def _added(self, version: int) -> pa.Table:
        """The rows of the files that a version adds, in the order of its log."""
        dataset = self._dataset(version)
        actions = _actions(dataset.filesystem, version)
        removed = [
            action["remove"]["path"] for action in actions if "remove" in action and action["remove"].get("dataChange", True)
        ]
        if removed:
            raise ConfigError(
                f"version {version} of the Delta table {self.settings['path']} removes or changes rows; expected rows that are added: "
                "use read.mode=changes (the table needs delta.enableChangeDataFeed=true), or leave the version out: "
                f"streamkit connect offsets set {self.name} {SPLIT} '{_after(version)}'"
            )
        added = [
            unquote(action["add"]["path"]) for action in actions if "add" in action and action["add"].get("dataChange", True)
        ]
        fragments = {fragment.path: fragment for fragment in dataset.get_fragments()}
        lost = [path for path in added if path not in fragments]
        if lost:
            raise ConfigError(
                f"version {version} of the Delta table {self.settings['path']} adds {lost[0]}, which the library does not find"
            )
        tables = [fragments[path].to_table(schema=dataset.schema) for path in added]
        return _plain(pa.concat_tables(tables)) if tables else dataset.schema.empty_table()

    def _without_feed(self, table: Any, version: int) -> str:
        """What to do about a version that has no change data feed; of later ones that have it nobody knows what they change in the topic."""
        said = f"the Delta table {self.settings['path']} has no change data feed at version {version}"
        if table.metadata().configuration.get(FEED) != "true":
            return f"{said}; set the table property {FEED}=true. {self._anew(version)}"
        return f"{said}: it was off then, and its changes are nowhere. {self._anew(version)}"

    def _anew(self, version: int) -> str:
        return (
            f"To read the table as it is now: delete the topic {self.settings['topic']}, then streamkit connect offsets reset {self.name}. To go on "
            f"without this version: streamkit connect offsets set {self.name} {SPLIT} '{_after(version)}'"
        )

    def _changes(self, version: int) -> pa.Table:
        """The rows that a version brings, and the keys that it takes."""
        table = self._newest()
        try:
            found = pa.table(table.load_cdf(version, version).read_all())
        except errors().DeltaError as error:
            if "ChangeDataFeed" in str(error) or "change data" in str(error).lower():
                raise ConfigError(self._without_feed(table, version)) from error
            raise
        except Exception as error:  # the stream of the library has no class for what the store says
            if CAST in str(error):
                raise ConfigError(
                    f"version {version} of the Delta table {self.settings['path']} changes rows that had columns of other types than the "
                    f"table has now, whose values do not convert: {error}. A topic keeps the types of its columns. {self._anew(version)}"
                ) from error
            if STORE not in str(error):
                raise
            raise (FileNotFoundError if OBJECT in str(error) else OSError)(str(error)) from error
        found = empty_is_null(table, _plain(found.drop_columns([_VERSION, _TIME])))
        names = [name for name in found.column_names if name != CHANGE]
        is_of_table = set(self._key) <= set(names)
        if not is_of_table and has_old(found):
            raise ConfigError(
                f"version {version} of the Delta table {self.settings['path']} removes or changes rows, and key={','.join(self._key)} is not among "
                f"its columns {', '.join(names)}, which tell whose deletion it is; expected columns of the table: to rename them, name them here "
                "as the table does, and rename them in the key and in the value, with ReplaceField$Key and ReplaceField$Value"
            )
        return changes_of(found, self._key if is_of_table and self._key and self.chain is None else None)


def _after(version: int) -> str:
    """The position behind a version, as `offsets set` takes it."""
    return json.dumps({"version": version + 1, "rows": 0, "snapshot": False})


def _actions(files: Any, version: int) -> list[dict[str, Any]]:
    """What a version's file of the log says."""
    with files.open_input_stream(f"_delta_log/{version:020d}.json") as file:
        return [json.loads(line) for line in file.read().splitlines() if line.strip()]


def _plain(rows: pa.Table) -> pa.Table:
    """Rows in the types that topics have: without views, large types and dictionaries."""
    said = reserved_columns("the Delta table", rows.column_names)
    if said:
        raise ConfigError(said)
    schema = Schema.parse(pa.schema([pa.field(field.name, _plain_type(field.type)) for field in rows.schema])).arrow
    return rows.cast(schema)


def _plain_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_dictionary(kind):
        return _plain_type(kind.value_type)
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind) or pa.types.is_fixed_size_binary(kind):
        return pa.binary()
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_list_view(kind):
        return pa.list_(_plain_type(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, _plain_type(field.type)) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(_plain_type(kind.key_type), _plain_type(kind.item_type))
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", tz="UTC" if kind.tz else None)
    return kind
