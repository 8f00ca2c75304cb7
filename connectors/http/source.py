"""A receiver: records that are posted go into a topic, and the answer 200 means that they are committed."""

from __future__ import annotations

import asyncio
import errno
import hashlib
import hmac
import io
import queue
import re
import socket
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa

from streamkit.connectors.files.record_file import FileFormat, RecordFile
from streamkit.connectors.http.records import records_of
from streamkit.connectors.position_form import PositionField, PositionForm, is_text, list_of
from streamkit.connectors.reserved_columns import reserved_columns
from streamkit.connectors.setting import Setting
from streamkit.connectors.source import Polled, Position, Source
from streamkit.errors import ConfigError, SchemaError
from streamkit.log.log import Log
from streamkit.log.topic.evolution import is_wider
from streamkit.log.topic.formats import OPAQUE_SCHEMA, declare_format
from streamkit.log.topic.topic import Topic, declare_topic
from streamkit.names import check_name
from streamkit.schema import Schema

if TYPE_CHECKING:
    from streamkit.connectors.web_server import WebServer

_PATH = re.compile(r"/(?!/)[!-~]*")
_SEGMENT = re.compile(r"/\.{1,2}(/|$)")  # which clients leave out of a path
_TOKEN = re.compile(r"[!-~]+( +[!-~]+)*")
_NOWHERE = (errno.EADDRNOTAVAIL, errno.EACCES)
BUCKETS = 64  # of idempotency keys; each is a split, so that a commit writes few of them
KEYS_KEPT = 1_000  # in each bucket
ROWS_MAX = 50_000  # of a poll
BYTES_MAX = 64 << 20


@dataclass(frozen=True)
class Posted:
    """A request that waits for its commit, or to hear that it is refused."""

    rows: pa.Table
    key: str | None
    refused: Sequence[tuple[bytes, SchemaError]] = ()  # records that are left out
    is_committed: Future[bool | SchemaError] = field(default_factory=Future)  # an error: it is refused


class HttpSource(Source):
    """
    Accepts JSON by POST: an object, a list of objects, or an object on each line.

    A request is all or nothing, unless `errors.tolerance` is `all`: then a record that does not fit alone is left out.
    It is answered by 200 after the commit, by 400 if a record does not fit (413 if one is too large), by 401 without the token, and by 503
    if it could not be committed in time. Then it may be sent again; with the same `Idempotency-Key` nothing is written twice. The last
    64,000 of these keys or so are remembered.
    """

    SETTINGS: ClassVar[tuple[Setting, ...]] = (
        Setting("host", "the address to listen at", default="127.0.0.1"),
        Setting("port", "the port; 0 chooses a free one", "integer", 8080, least=0, most=65535),
        Setting("path", "the path to which records are posted", default="/"),
        Setting("token", "what `Authorization: Bearer` must say", default=None, is_secret=True),
        Setting("schema", "the columns of a topic that is created; without it the topic accepts any JSON", default=None),
        Setting("max.body.bytes", "the largest request", "integer", 16 << 20, least=1),
        Setting("commit.timeout.ms", "how long a request waits for its commit", "integer", 30_000, least=1),
    )

    GOES_TOGETHER = False
    POSITION = PositionForm({"keys": PositionField("a list of texts", list_of(is_text))}, {"keys": ["order-17"]})
    says_columns = "schema, such as 'id bigint, name string'"

    def __init__(self, name: str, config: Mapping[str, Any] | None = None, /, **settings: Any) -> None:
        super().__init__(name, config, **settings)
        self._topic: Topic | None = None
        self._log: Log | None = None
        self._topic_id: int | None = None  # of the topic that has the rows of the keys
        self._posted: queue.Queue[Posted] = queue.Queue(1_000)
        self._polled: list[Posted] = []
        self._keys: dict[str, dict[str, None]] = {}
        self._keys_polled: dict[str, dict[str, None]] = {}  # the buckets as they are once the poll is committed
        self._server: WebServer | None = None

    def check(self) -> None:
        """A topic is needed, and a path that a request can have."""
        check_name(self.settings["topic"], "topic")
        path, token = self.settings["path"], self.settings["token"]
        if not _PATH.fullmatch(path) or "?" in path or "#" in path or _SEGMENT.search(path):
            raise ConfigError(
                f"path={path!r}; expected a / and what follows it, as a request writes it: no space, ? or #, one / at the beginning, no /../, and "
                "%C3%A4 for ä"
            )
        if not self.settings["host"].strip():
            raise ConfigError(
                "host is empty; expected an address to listen at, such as 127.0.0.1, or 0.0.0.0 for all of this machine"
            )
        if token is not None and not _TOKEN.fullmatch(token):
            raise ConfigError(
                "the token is empty, or has a line end, a blank at an end or a letter that is no ASCII, so no request could have it; expected one "
                "line of letters, digits and signs (a file with a secret may end in a line end: leave it out)"
            )
        self._check_schema()

    def _check_schema(self) -> None:
        """The columns can be those of a topic, and have the key."""
        schema, key = self.settings["schema"], self.settings["key"]
        try:
            columns = None if schema is None else Schema.parse(schema)
        except SchemaError as error:
            raise ConfigError(f"schema={schema!r}: {error}") from None
        names = () if columns is None else columns.names
        said = reserved_columns("schema", names)
        if said:
            raise ConfigError(said)
        missing = [name for name in key if name not in names]
        if columns is not None and missing and self.chain is None:
            raise ConfigError(f"schema has no column {missing[0]!r} of key={','.join(key)}; it has {', '.join(names)}")

    def topic(self, topic: Topic) -> None:
        """Records are read in the types of the topic; ConfigError where `schema` or `key` say something else."""
        expected = "expected what the topic has, or another topic"
        said = f"connector {self.name}: topic {topic.name}"
        for column in Schema.parse(self.settings["schema"]) if self.settings["schema"] is not None else ():
            if column.name not in topic.schema or topic.schema == OPAQUE_SCHEMA:
                raise ConfigError(
                    f"{said} has no column {column.name!r}, which schema has: it has {_columns_of(topic)}; {expected}"
                )
            known = topic.schema[column.name]
            if known.type != column.type and not is_wider(known.arrow.type, column.arrow.type):
                raise ConfigError(
                    f"{said} has the column {column.name!r} of type {known.type}, and schema says {column.type}; {expected}"
                )
            if known.arrow.nullable and not column.arrow.nullable:
                raise ConfigError(f"{said} accepts null in the column {column.name!r}, and schema says NOT NULL; {expected}")
        if self.settings["key"] and topic.schema == OPAQUE_SCHEMA:
            raise ConfigError(f"{said} has any JSON, and no column for key={','.join(self.settings['key'])}; {expected}")
        self._topic = topic

    def use(self, log: Log) -> None:
        """Without columns a topic of any JSON is made, which has no key columns."""
        self._log = log
        says_columns = self.chain is not None or any(
            self.settings[name] for name in ("schema", "topic.schema", "value.", "value.format")
        )
        if self.settings["key"] and not says_columns and self.settings["topic"] not in log.topics():
            raise ConfigError(
                f"connector {self.name}: found key={','.join(self.settings['key'])} without schema; expected schema with the columns of topic "
                f"{self.settings['topic']}, which is not there: without it the topic takes any JSON, and has no columns for a key"
            )

    def format_of_bytes(self) -> str | None:
        """Without a schema a topic takes any JSON."""
        return "json"

    @property
    def port(self) -> int:
        """The port that is listened at."""
        assert self._server is not None
        return self._server.address[1]

    def splits(self) -> Sequence[str]:
        """The buckets of keys; one task listens, so all are its own."""
        return [f"keys-{64 * self.settings['tasks.max'] * number}" for number in range(BUCKETS)]

    def without_topic(self, position: Position) -> None:
        """Keys of a topic that is gone stand for no rows."""

    def open(self, positions: Mapping[str, Position | None]) -> None:
        """Remember the keys, and listen."""
        self._topic_id = self._id_now()
        self._keys = {split: dict.fromkeys(position["keys"] if position else ()) for split, position in positions.items()}
        if self._keys and self._server is None:
            self._server = self._listening()

    def _listening(self) -> WebServer:
        """ConfigError for a place that this machine has not, or that the user may not have."""
        from streamkit.connectors.http.receiver import Receiver
        from streamkit.connectors.web_server import WebServer, listener_at

        host, port = self.settings["host"], self.settings["port"]
        try:
            return WebServer("http", Receiver(self), listener_at(host, port))
        except (OSError, UnicodeError) as error:
            if isinstance(error, OSError) and not isinstance(error, socket.gaierror) and error.errno not in _NOWHERE:
                raise
            raise ConfigError(
                f"connector {self.name} cannot listen at host={host}, port={port}: {error}; expected an address of this machine"
            ) from error

    def poll(self, timeout: float) -> Polled | None:
        """The requests that have come, as one transaction."""
        rows = size = 0
        while rows < ROWS_MAX and size < BYTES_MAX:
            try:
                posted = self._posted.get(timeout=timeout) if not self._polled else self._posted.get_nowait()
            except queue.Empty:
                break
            rows += posted.rows.num_rows
            size += posted.rows.nbytes
            self._polled.append(posted)
        polled = self._of_requests()
        if polled is None:
            if self._polled and self._topic_id is not None and self._id_now() != self._topic_id:
                raise ConnectionError(
                    f"connector {self.name}: topic {self.settings['topic']}, which had the rows of keys that came again, was deleted"
                )
            self._answer(is_committed=True)
        return polled

    def _id_now(self) -> int | None:
        name = self.settings["topic"]
        return self._log.topic(name).id if self._log is not None and name in self._log.topics() else None

    def without_refused(self, reason_of: Callable[[str, pa.Table], SchemaError | None]) -> Polled | None:
        """Answer the requests with a record that does not fit; the others of the poll."""
        polled, self._polled = self._polled, []
        for posted in polled:
            reason = reason_of(self.settings["topic"], posted.rows)
            if reason is None:
                self._polled.append(posted)
            else:
                refusal = type(reason)(f"record {reason.rows[0] + 1} of the request: {reason}", reason.rows)
                posted.is_committed.set_result(refusal)
        if len(self._polled) == len(polled):
            return None
        return self._of_requests() or Polled({}, {})

    def committed(self, positions: Mapping[str, Position]) -> None:
        """Answer the requests of the poll."""
        self._keys |= self._keys_polled
        if self._topic_id is None:
            self._topic_id = self._id_now()
        self._answer(is_committed=True)

    def close(self) -> None:
        """Stop to listen; who waits is told to come again."""
        if self._server is None:
            return
        self._server.stop()
        while not self._server.has_ended(seconds=0.01):  # it waits for the answers to requests that it has read
            while not self._posted.empty():
                self._polled.append(self._posted.get_nowait())
            self._answer(is_committed=False)

    # For the requests

    def read(self, body: bytes, key: str | None = None) -> Posted:
        """The records of a body; SchemaError names the one that does not fit, unless it is left out."""
        topic = self._declared()
        try:
            return Posted(_rows_of(topic, body), key)
        except SchemaError:
            if self.settings["errors.tolerance"] == "none":
                raise
        records = records_of(body, takes_any_bytes=True)
        refused = [(one, SchemaError(_no_object(one))) for one in records if not one.startswith(b"{")]
        pieces, others = _fitting(topic, [one for one in records if one.startswith(b"{")])
        refused += others
        rows = pa.concat_tables(pieces, promote_options="default") if pieces else topic.schema.arrow.empty_table()
        return Posted(rows, key, refused)

    async def post(self, posted: Posted) -> bool:
        """Whether the rows are committed in time; SchemaError for those that do not fit."""
        deadline = time.monotonic() + self.settings["commit.timeout.ms"] / 1_000
        while self._posted.full() and time.monotonic() < deadline:  # noqa: ASYNC110  # a thread that polls makes room
            await asyncio.sleep(0.01)
        try:
            self._posted.put_nowait(posted)
        except queue.Full:
            return False
        answer = asyncio.wrap_future(posted.is_committed)
        await asyncio.wait([answer], timeout=deadline - time.monotonic())
        found = answer.done() and answer.result()
        if isinstance(found, SchemaError):
            raise found
        return found

    def allows(self, authorization: str | None) -> bool:
        """Whether a request has the token, if there is one."""
        token = self.settings["token"]
        return token is None or hmac.compare_digest((authorization or "").encode(), f"Bearer {token}".encode())

    def _declared(self) -> Topic:
        if self._topic is None:
            name, schema = self.settings["topic"], self.settings["schema"]
            key = list(self.settings["key"]) or None
            self._topic = declare_topic(name, schema, key) if schema else declare_topic(name, format=declare_format("json"))
        return self._topic

    def _of_requests(self) -> Polled | None:
        """The rows of the requests under way, without those of repeats, whose twin is committed or is among them."""
        tables = []
        self._keys_polled = {}
        for posted in self._polled:
            split = None if posted.key is None else sorted(self._keys)[zlib.crc32(posted.key.encode()) % len(self._keys)]
            if split is None or self._is_new(split, posted.key):
                tables.append(posted.rows)
                for record, error in posted.refused:
                    self.refuse_record(self.settings["topic"], record, error)
        if not tables:
            return None
        joined = pa.concat_tables(tables, promote_options="permissive")
        positions = {split: {"keys": list(keys)} for split, keys in self._keys_polled.items()}
        return Polled({self.settings["topic"]: joined}, positions)

    def _is_new(self, split: str, key: str | None) -> bool:
        """Whether the key is new; it is remembered once the poll is committed."""
        known = self._keys_polled.get(split) or dict(self._keys[split])
        if _hashed(key) in known:
            return False
        known[_hashed(key)] = None
        while len(known) > KEYS_KEPT:
            known.pop(next(iter(known)))
        self._keys_polled[split] = known
        return True

    def _answer(self, *, is_committed: bool) -> None:
        polled, self._polled = self._polled, []
        for posted in polled:
            posted.is_committed.set_result(is_committed)


def _columns_of(topic: Topic) -> str:
    return "any JSON" if topic.schema == OPAQUE_SCHEMA else ", ".join(topic.schema.names)


def _no_object(record: bytes) -> str:
    return f"found {record[:40].decode(errors='replace')}; expected an object of JSON"


def _hashed(key: str | None) -> str:
    return hashlib.blake2b((key or "").encode(), digest_size=12).hexdigest()


def _fitting(topic: Topic, records: Sequence[bytes]) -> tuple[list[pa.Table], list[tuple[bytes, SchemaError]]]:
    """The rows of the records that fit, and the others."""
    if not records:
        return [], []
    try:
        for record in records:
            record.decode()  # a format of bytes looks at none
        return [_rows_of(topic, b"\n".join(records))], []
    except (SchemaError, UnicodeDecodeError) as error:
        if len(records) == 1:
            refusal = error if isinstance(error, SchemaError) else SchemaError(f"the record is not UTF-8: {error}")
            return [], [(records[0], refusal)]
    half = len(records) // 2
    (first, no_first), (second, no_second) = _fitting(topic, records[:half]), _fitting(topic, records[half:])
    return [*first, *second], [*no_first, *no_second]


def _rows_of(topic: Topic, body: bytes) -> pa.Table:
    if topic.format is not None or topic.schema == OPAQUE_SCHEMA:
        values = records_of(body)
        for number, value in enumerate(values):
            if not value.startswith(b"{"):
                raise SchemaError(f"record {number + 1} of the request: {_no_object(value)}", (number,))
        return pa.table({"key": pa.nulls(len(values), pa.binary()), "value": pa.array(values, pa.binary())})
    if not _is_of_lines(body):
        return _rows_of_lines(topic, b"\n".join(records_of(body)))
    try:
        return _rows_of_lines(topic, body)
    except SchemaError:
        try:
            records = records_of(body)
        except SchemaError:
            records = []
        if len(records) == sum(bool(line.strip()) for line in body.splitlines()) or not records:
            raise
    return _rows_of_lines(topic, b"\n".join(records))  # some lines have several, or one has several lines


def _rows_of_lines(topic: Topic, body: bytes) -> pa.Table:
    file = RecordFile(io.BytesIO(body), "the request", FileFormat.JSON, topic, None, is_sparse=True)
    pieces = [pa.Table.from_batches([piece.records]) for piece in file.pieces()]  # of which some may have headers
    return pa.concat_tables(pieces, promote_options="default") if pieces else topic.schema.arrow.empty_table()


def _is_of_lines(body: bytes) -> bool:
    """Whether the first line is an object, so that the others are too or are refused by their number."""
    first, _, _ = body.lstrip().partition(b"\n")
    return first.startswith(b"{") and first.rstrip().endswith(b"}")
