"""A webhook: each record is a request, at least once, with a key by which the receiver tells repeats."""

from __future__ import annotations

import base64
import hashlib
import http.client
import re
import ssl
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar
from urllib.parse import unquote, unquote_to_bytes, urlsplit

import pyarrow as pa
import pyarrow.compute as pc

from streamkit.chunks import one_array, one_batch
from streamkit.connectors.files.record_lines import json_text
from streamkit.connectors.setting import Setting
from streamkit.connectors.sink import Sink
from streamkit.errors import ConfigError, SchemaError
from streamkit.formats.json_texts import spaced_json_objects
from streamkit.log.consume.consumer import TopicPartition
from streamkit.log.log import Log
from streamkit.log.topic.formats import rows_of
from streamkit.log.topic.topic import Topic
from streamkit.names import DELETED, LOG_COLUMNS, OFFSET, PARTITION
from streamkit.names import TOPIC as TOPIC_COLUMN

_HEADER = re.compile(r"[\w!#$%&'*+.^`|~-]+", re.ASCII)  # a header's name, by RFC 9110
_LINE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")  # its value
_OURS = (
    "content-length",
    "transfer-encoding",
    "connection",
    "expect",
    "idempotency-key",
    "te",
    "trailer",
    "upgrade",
)  # each says its own
_CHARSET = re.compile(r"(?i);\s*charset\s*=(?!\s*\"?utf-?8\b)")
_BARE_PERCENT = re.compile(r"%(?![0-9A-Fa-f]{2})")
RETRIED = (408, 425, 429, 500, 502, 503, 504)


class HttpSink(Sink):
    """
    Sends each record as JSON, in the order of its partition.

    A user in `url` is sent as `Authorization: Basic`.

    `Idempotency-Key` is `<connector>/<topic>/<id>/<partition>/<offset>`; the id is the topic's and its log's, so that no two records
    have one key. A record counts as sent if the receiver answers 2xx. After 408, 425, 429, 500, 502, 503 and 504, and if no answer
    arrives, the request is sent again, after the seconds that the receiver's `Retry-After` says (at most 10). Every other answer is an
    error of the record: unless such errors are tolerated, no later record of the partition is sent. A deletion is a DELETE with the key.
    """

    takes_other_names = True
    SETTINGS: ClassVar[tuple[Setting, ...]] = (
        Setting("url", "where records are sent, such as https://host/path"),
        Setting("method", "POST or PUT", default="POST", choices=("POST", "PUT")),
        Setting(
            "headers.",
            "headers of every request, such as headers.Authorization",
            default=None,
            is_secret=True,
            shown_names=("accept", "content-type"),
        ),
        Setting("timeout.ms", "how long an answer may take", "integer", 30_000, least=1),
        Setting("retry.timeout.ms", "how long a request is tried again before the task starts again", "integer", 60_000, least=0),
    )

    def __init__(self, name: str, config: Mapping[str, Any] | None = None, /, **settings: Any) -> None:
        super().__init__(name, config, **settings)
        self._connection: http.client.HTTPConnection | None = None
        self._log: Log | None = None
        self._topics: dict[str, Topic] = {}  # by the names that routers give
        self._ids: dict[str, str] = {}  # of what is read, by topic
        self._sent: dict[tuple[str, int], int] = {}  # up to which offset a partition of what is read was answered

    def check(self) -> None:
        """The URL must say a host."""
        url = self.settings["url"]
        try:
            found = urlsplit(url)
            if found.port == 0:
                raise ValueError("nobody listens at port 0")
            (found.hostname or "").encode("idna")
            path = f"{found.path}{found.query}"
        except ValueError as error:
            raise ConfigError(
                f"connector {self.name}: the url has no port that is a number from 1 to 65535, or no host: {error}; expected something like "
                "https://user:password@host:8080/path, with %2F for a / in a password"
            ) from None
        if found.scheme not in ("http", "https") or not found.hostname:
            raise ConfigError(f"url={self.settings['url']!r}; expected something like https://host/path")
        if re.search(r"[\s\0]", url) or found.netloc.count("@") > 1 or (re.match(r"\w+://[^/?#@]*:", url) and url.count("@") > 1):
            raise ConfigError(
                "the url has a space, or an @ behind a password; expected %20 for a space, and %40 for an @ that is not in front of the host"
            )
        if not path.isascii():
            raise ConfigError(
                "the url has letters behind the host that no request can have; expected them percent-encoded, such as %C3%A4 for ä"
            )
        if not all(_is_encoded(text) for text in (found.username, found.password) if text):
            raise ConfigError(
                "the url has a user or a password that is not percent-encoded: a % that begins no code, or codes that are no UTF-8; expected %25 "
                "for a %, and %C3%BC for ü"
            )
        if ":" in unquote(found.username or ""):
            raise ConfigError(
                "the url has a : in the name of its user, where a password begins; expected another name, or headers.Authorization"
            )
        self._check_headers(found.username is not None)

    def _check_headers(self, has_user: bool) -> None:
        """Each is one that a request can have, once, and that says nothing else than the request is."""
        names: dict[str, str] = {}
        for name, value in self.settings["headers."].items():
            if not _HEADER.fullmatch(name):
                raise ConfigError(f"found the header {name!r}; expected a name of letters, digits and hyphens")
            if (other := names.setdefault(name.lower(), name)) != name:
                raise ConfigError(f"found headers.{other} and headers.{name}, which are one header; expected one of them")
            if name.lower() == "authorization" and has_user:
                raise ConfigError(
                    f"found headers.{name}, and a user in the url, which is sent as Authorization: Basic; expected one of them"
                )
            if name.lower() == "content-encoding":
                raise ConfigError(f"found headers.{name}, and bodies are not compressed; expected no such setting")
            if name.lower() == "content-type" and _CHARSET.search(value):
                raise ConfigError(f"headers.{name}={value!r}, and bodies are UTF-8; expected charset=utf-8, or none")
            if name.lower() in _OURS:
                raise ConfigError(
                    f"found headers.{name}, which each request of connector {self.name} says itself; expected no such setting"
                )
            if not _LINE.fullmatch(value):
                raise ConfigError(
                    f"the value of headers.{name} has a line end, a control character or one that Latin-1 has not; expected one line of "
                    "text (a file with a secret may end in a line end: leave it out)"
                )

    def _headers(self, key: str) -> dict[str, str]:
        """Those of a request: the settings', and what they do not say."""
        given: dict[str, str] = self.settings["headers."]
        own = {"Content-Type": "application/json", "Idempotency-Key": key}
        target = urlsplit(self.settings["url"])
        if target.username is not None:
            user = f"{unquote(target.username)}:{unquote(target.password or '')}"
            own["Authorization"] = f"Basic {base64.b64encode(user.encode()).decode()}"
        said = {name.lower() for name in given}
        return {name: value for name, value in own.items() if name.lower() not in said} | given

    def topic(self, topic: Topic) -> None:
        """Opaque values are decoded by the topic's format."""
        self._topics[topic.name] = topic

    def use(self, log: Log) -> None:
        """Keys of requests say the log and the topic."""
        self._log = log

    def open(self, generation: int, partitions: Sequence[TopicPartition]) -> None:
        """
        A webhook keeps no positions: the group's count.

        A topic that is made again has another id, and its offsets begin again. Ids count within a log, and a catalog that is rebuilt may
        give offsets again that it has lost: its timeline is another one.
        """
        assert self._log is not None
        standing = self._log.catalog.standing()
        for topic in {place.topic for place in partitions}:
            known = f"{standing.log_id}/{standing.timeline}/{self._log.topic(topic).id}"
            self._ids[topic] = hashlib.blake2b(known.encode(), digest_size=8).hexdigest()

    def put(self, rows: pa.Table, ends: Mapping[TopicPartition, int]) -> None:
        """
        Send the records one by one; SchemaError names those that were refused.

        With errors.tolerance=none the first ends it: a receiver that leaves out repeats would have those behind it before it, for good.
        """
        if not rows.num_rows:
            return
        topic = self._topics[rows[TOPIC_COLUMN][0].as_py()]
        source = next(iter(ends)).topic  # routers may give one name to several
        stops = self.settings["errors.tolerance"] == "none"
        refused: dict[int, str] = {}
        numbers = zip(*(rows[name].to_pylist() for name in (PARTITION, OFFSET, DELETED)), strict=True)
        for number, (body, (partition, offset, is_deletion)) in enumerate(zip(_bodies(topic, rows), numbers, strict=True)):
            place = (source, partition)
            if offset >= self._sent.get(place, 0):
                key = f"{self.name}/{source}/{self._ids[source]}/{partition}/{offset}"
                answer = self._answered("DELETE" if is_deletion else self.settings["method"], body, key)
                if answer is not None:
                    refused[number] = answer
                    if stops:
                        break
                self._sent[place] = offset + 1
        if refused:
            raise SchemaError(next(iter(refused.values())), tuple(refused), tuple(refused.values()))

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()

    def _answered(self, method: str, body: bytes, key: str) -> str | None:
        """Send a record until it is taken; what the receiver says if it refuses it. ConnectionError after too many tries."""
        deadline = time.monotonic() + self.settings["retry.timeout.ms"] / 1_000
        wait = 0.1
        while True:
            try:
                status, said, after = self._request(method, body, key)
            except (OSError, http.client.HTTPException) as error:
                self.close()
                self._connection = None
                status, said, after = 0, f"{type(error).__name__}: {error}", None
            if 200 <= status < 300:
                return None
            if status and status not in RETRIED:
                return f"the receiver answered {status}: {said[:200]}"
            wait = min(10.0, after if after is not None else 2 * wait)
            if time.monotonic() + wait > deadline:
                raise ConnectionError(f"{self._place()} does not accept records: {status or ''} {said[:200]}".replace("  ", " "))
            time.sleep(wait)

    def _request(self, method: str, body: bytes, key: str) -> tuple[int, str, float | None]:
        target = urlsplit(self.settings["url"])
        path = (target.path or "/") + (f"?{target.query}" if target.query else "")
        connection = self._connected()
        connection.request(method, path, body, self._headers(key))
        response = connection.getresponse()
        said = response.read().decode(errors="replace")
        after = response.headers.get("Retry-After", "")
        return response.status, said, float(after) if after.isdigit() else None

    def _connected(self) -> http.client.HTTPConnection:
        if self._connection is None:
            target = urlsplit(self.settings["url"])
            seconds = self.settings["timeout.ms"] / 1_000
            assert target.hostname is not None
            if target.scheme == "https":
                self._connection = http.client.HTTPSConnection(
                    target.hostname, target.port, timeout=seconds, context=ssl.create_default_context()
                )
            else:
                self._connection = http.client.HTTPConnection(target.hostname, target.port, timeout=seconds)
        return self._connection

    def _place(self) -> str:
        target = urlsplit(self.settings["url"])
        return f"{target.scheme}://{target.hostname}{f':{target.port}' if target.port else ''}{target.path}"


def _bodies(topic: Topic, rows: pa.Table) -> Iterable[bytes]:
    """A record's own columns as JSON, of a deletion the key: all at once where that is possible, else each when it is sent."""
    own = [name for name in rows.column_names if name not in (*LOG_COLUMNS, TOPIC_COLUMN)]
    if topic.format is None and own:
        found = spaced_json_objects(one_batch(rows.select(own)))
        if found is not None and pc.any(rows[DELETED]).as_py():
            keys = spaced_json_objects(one_batch(rows.select(topic.key)))
            found = None if keys is None else pc.if_else(one_array(rows[DELETED]).fill_null(False), keys, found)
        if found is not None:
            bodies: list[bytes] = found.cast(pa.binary()).to_pylist()
            return bodies
    return (
        json_text({name: row[name] for name in (topic.key if row[DELETED] else own)}).encode()
        for row in rows_of(topic.format, rows)
    )


def _is_encoded(text: str) -> bool:
    """Whether a text of an address has whole codes alone, and these are UTF-8."""
    try:
        unquote_to_bytes(text).decode()
    except UnicodeDecodeError:
        return False
    return not _BARE_PERCENT.search(text)
