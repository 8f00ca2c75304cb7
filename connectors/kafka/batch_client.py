"""
Kafka by the batch: a client whose records come as whole record batches, in the bytes of the protocol.

Connections, authentication and messages are those of kafka-python, whose inner names are used in this module alone. They are
looked at before the first use: where one is missing or takes other arguments, the client says so, and confluent-kafka is there.
"""

from __future__ import annotations

import base64
import importlib
import inspect
import logging
import random
import socket
import ssl
import threading
import time
import uuid
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from types import SimpleNamespace
from typing import Any

from streamkit.connectors.kafka.batch_client_settings import read_batch_settings, tls_context, unknown_settings
from streamkit.connectors.kafka.broker_error import (
    LEADER_NOT_AVAILABLE,
    NETWORK_EXCEPTION,
    NO_TOPIC,
    NONE,
    PASSING,
    UNKNOWN_TOPIC_OR_PARTITION,
    meaning_of,
)
from streamkit.connectors.redaction import logger_of
from streamkit.errors import ConfigError

KafkaPartition = tuple[str, int]  # a topic of Kafka and the number of a partition
EARLIEST, LATEST = -2, -1  # in place of a time
LOADING = threading.Lock()  # modules that import each other are not whole where two threads load them
VERSIONS = ((3, 0, 12), (3, 1))  # of kafka-python: from the first on, before the second
LEADER_SECONDS = 10.0  # for a partition to get a leader, and a topic that was made a moment ago to be known
NODE_SECONDS, NODE_SECONDS_MIN = 5.0, 0.5  # for one of several nodes to answer
CONTROL, FETCH = "control", "fetch"  # connections of their own: a broker answers in order, and a fetch may wait
_LOGGER = logger_of(__name__)

# What is used of kafka-python besides its messages, and the arguments that it is called with.
_USED = {
    "kafka.errors:for_code": ("error_code",),
    "kafka.net.inet:create_connection": ("net", "host", "port", "socket_options", "timeout_at"),
    "kafka.net.transport:KafkaTCPTransport": ("net", "sock", "host"),
    "kafka.net.transport:KafkaTCPTransport.handshake": (),
    "kafka.net.transport:KafkaTCPTransport.abort": ("error",),
    "kafka.net.transport:KafkaTCPTransport._sock_recv": (),
    "kafka.net.transport:KafkaSSLTransport": ("net", "sock", "host", "configs"),
    "kafka.net.connection:KafkaConnection": ("net", "node_id", "configs"),
    "kafka.net.connection:KafkaConnection.connection_made": ("transport",),
    "kafka.net.connection:KafkaConnection.connection_lost": ("exc",),
    "kafka.net.connection:KafkaConnection.initialize": ("timeout_at",),
    "kafka.net.connection:KafkaConnection.send_request": ("request", "request_timeout_ms"),
    "kafka.net.connection:KafkaConnection.close": ("error",),
    "kafka.net.connection:KafkaConnection.init_future": None,
    "kafka.net.connection:KafkaConnection.closed": None,
    "kafka.net.selector:NetworkSelector": ("configs",),
    "kafka.net.selector:NetworkSelector.poll": ("timeout_ms",),
    "kafka.net.selector:NetworkSelector.call_soon": ("task",),
    "kafka.net.selector:NetworkSelector.call_later": ("delay", "task"),
    "kafka.net.selector:NetworkSelector.cancel": ("task",),
    "kafka.net.selector:NetworkSelector.close": (),
}
_MESSAGES = (
    "metadata.ApiVersionsRequest", "metadata.MetadataRequest", "metadata.FindCoordinatorRequest",
    "consumer.FetchRequest", "consumer.ListOffsetsRequest", "consumer.OffsetCommitRequest",
)  # fmt: skip


def why_unfit(given: Mapping[str, str]) -> str | None:
    """Why the batch client cannot serve a connector with these settings of the client; None if it can."""
    names = unknown_settings(given)
    if names:
        return (
            f"the batch client does not know the setting{'s' * (len(names) > 1)} {', '.join(f'kafka.{name}' for name in names)}, or "
            f"what {'they are' if len(names) > 1 else 'it is'} set to"
        )
    with LOADING:
        return _why_no_library()


def can_serve(connector: str, given: Mapping[str, str]) -> bool:
    """Whether the batch client serves a connector with these settings; if not, one line of the diagnostic log says why."""
    reason = why_unfit(given)
    if reason is not None:
        _LOGGER.warning("connector %s uses confluent-kafka, record by record: %s", connector, reason)
    return reason is None


@cache
def _why_no_library() -> str | None:
    """Look at each name that is used, and write each message once; None if all are as expected."""
    try:
        found = metadata.version("kafka-python")
        number = tuple(int(part) for part in found.split(".")[:3])
        if not VERSIONS[0] <= number < VERSIONS[1]:
            return f"kafka-python {found} is installed; expected kafka-python>=3.0.12,<3.1, by pip install 'pyspark-streamkit[kafka]'"
        for place, arguments in _USED.items():
            module, _, path = place.partition(":")
            used: Any = importlib.import_module(module)
            for name in path.split("."):
                used = getattr(used, name)
            missing = set(arguments or ()) - set(() if arguments is None else inspect.signature(used).parameters)
            if missing:
                return f"kafka-python {found} has {place} without {', '.join(sorted(missing))}"
        for message in _written_once():
            message.encode()
    except metadata.PackageNotFoundError:
        return "kafka-python is not installed; pip install 'pyspark-streamkit[kafka]'"
    except Exception as error:  # noqa: BLE001  (what an inner name that has changed raises, nobody knows)
        return f"kafka-python is not as expected: {type(error).__name__}: {error}"
    return None


@cache
def _library() -> SimpleNamespace:
    """The names of kafka-python that are used, and its messages."""
    for name in ("kafka.net", "kafka.protocol"):
        logger = logging.getLogger(name)
        if logger.level == logging.NOTSET:
            logger.setLevel(logging.CRITICAL)  # errors are told here; of a broker that is away it says many lines a second
    found = {}
    for place in _USED:
        module, _, path = place.partition(":")
        if "." not in path:
            found[path] = getattr(importlib.import_module(module), path)
    for name in ("KafkaTCPTransport", "KafkaSSLTransport"):
        found[name] = _to_the_end(found[name])
    for place in _MESSAGES:
        module, name = place.split(".")
        found[name] = getattr(importlib.import_module(f"kafka.protocol.{module}"), name)
    return SimpleNamespace(**found)


def _to_the_end(transport: Any) -> Any:
    """A kind of transport that hands on what comes together with the end of a connection, such as why it ends; the library's own drops it."""

    def receive(self: Any) -> tuple[bytes, Exception | None]:
        data, error = transport._sock_recv(self)
        return data, None if data else error

    return type(transport.__name__, (transport,), {"_sock_recv": receive})


def _written_once() -> list[Any]:
    """One message of each kind, in the version in which it is written."""
    place = ("t", 0)
    messages = [
        _metadata_request(["t"]), _features_request(), _offsets_request({place: LATEST}, is_committed=True),
        _coordinator_request("g"), _commit_request("g", {place: 0}),
        _fetch_request({place: 0}, {}, read_batch_settings({}), is_committed=True),
        _fetch_request({place: 0}, {"t": _id(uuid.uuid4())}, read_batch_settings({}), is_committed=True),
    ]  # fmt: skip
    for message in messages:
        message.API_VERSION = message._max_version
        message.with_header()
    return messages


@dataclass(frozen=True)
class FetchedPartition:
    """
    A partition's share of an answer to a fetch.

    `data` are bytes of record batches as they came: the first may begin before the offset that was asked for, the last may be cut.
    `aborted` are the aborted transactions among them: the id of the producer and the first offset.
    """

    place: KafkaPartition
    code: int
    data: bytes
    high_watermark: int
    last_stable_offset: int
    aborted: tuple[tuple[int, int], ...]


class Reply:
    """An answer that comes, or does not."""

    def __init__(self, client: BatchClient, coming: Awaitable[Any]) -> None:
        self._client = client
        self._coming = coming
        self._answer: Any = None
        self._error: BaseException | None = None
        self.is_done = False

    async def wait(self) -> None:
        """Wait until the answer is there, or the reason why it does not come."""
        try:
            self._answer = await self._coming
        except BaseException as error:  # noqa: BLE001  (whoever takes the answer gets it)
            self._error = error
        self.is_done = True

    def take(self) -> Any:
        """The answer; None if the connection broke before it came. ConfigError if the broker does not let the client in."""
        if not self.is_done:
            raise AssertionError("the answer is not there yet")
        if self._error is None:
            return self._answer
        if not isinstance(self._error, Exception):  # an interrupt that came while a connection was served
            raise self._error
        self._client.hear(self._error)
        return None


class BatchClient:
    """
    Asks the brokers of a cluster, each over a connection that is made when it is needed; for one thread at a time.

    Nothing runs in the background: answers are taken from the sockets while a call waits. An answer that does not come because
    a connection breaks is the code NETWORK_EXCEPTION; the next question connects again.
    """

    def __init__(self, connector: str, servers: str, given: Mapping[str, str]) -> None:
        reason = why_unfit(given)
        if reason is not None:
            raise ConfigError(f"connector {connector}: {reason}")
        self.where = f"connector {connector}: Kafka at {servers}"
        self.settings = read_batch_settings(given)
        self.said: str | None = None  # the last reason why a connection broke
        self._client_id = self.settings["client.id"] or f"streamkit-{connector}"
        self._tls = tls_context(self.where, self.settings)
        self._net = _library().NetworkSelector(client_id=self._client_id, slow_task_threshold_secs=0)
        self._connections: dict[tuple[int, str], Any] = {}
        self._bootstrap = [_address(server) for server in servers.split(",")]
        self._nodes: dict[int, tuple[str, int]] = {}
        self._leaders: dict[KafkaPartition, int] = {}
        self._counts: dict[str, int] = {}
        self._topic_ids: dict[str, Any] = {}
        self._codes: dict[str, int] = {}  # of topics, as they were last heard
        self._features: dict[str, int] | None = None

    def close(self) -> None:
        """Leave the brokers."""
        for connection in list(self._connections.values()):
            connection.close()
        self._net.close()

    def disconnect(self, node: int, lane: str) -> None:
        """Close a connection, with what is asked over it."""
        found = self._connections.pop((node, lane), None)
        if found is not None:
            found.close()

    # -- what the cluster is

    def refresh(self, topics: Iterable[str], seconds: float | None = None) -> dict[str, int]:
        """
        Ask for the partitions and leaders of topics; the code of each topic.

        Any broker is asked, known ones first, until one answers; ConnectionError if none does within `seconds`. One that says nothing has
        its share of them.
        """
        names = list(topics)
        deadline = time.monotonic() + (self.settings["socket.timeout.ms"] / 1000 if seconds is None else seconds)
        while True:
            nodes = self.candidates()
            for number, node in enumerate(nodes):
                share = (deadline - time.monotonic()) / (len(nodes) - number)
                answer = self.ask(_metadata_request(names), node, min(NODE_SECONDS, max(NODE_SECONDS_MIN, share)))
                if node < 0:
                    self.disconnect(node, CONTROL)  # the answer has the brokers
                if answer is not None and answer.brokers:
                    return self._learn(names, answer)
            if time.monotonic() > deadline:
                raise ConnectionError(f"{self.where} does not answer; {self.said or 'no connection was made'}")
            self.sleep(self.settings["retry.backoff.ms"] / 1000)

    def candidates(self) -> list[int]:
        """Nodes to ask: first the connected ones, then the others, then the addresses in the settings, whose numbers are negative."""
        open_ones = [node for (node, lane), one in self._connections.items() if lane == CONTROL and not one.closed and node >= 0]
        others = [node for node in self._nodes if node not in open_ones]
        random.shuffle(others)
        return open_ones + others + [-1 - number for number in range(len(self._bootstrap))]

    def _learn(self, names: list[str], answer: Any) -> dict[str, int]:
        self._nodes = {broker.node_id: (broker.host, broker.port) for broker in answer.brokers}
        self._codes |= dict.fromkeys(names, NETWORK_EXCEPTION)
        for topic in answer.topics:
            self._codes[topic.name] = topic.error_code
            self._leaders = {place: leader for place, leader in self._leaders.items() if place[0] != topic.name}
            self._counts.pop(topic.name, None)
            self._topic_ids.pop(topic.name, None)
            if topic.error_code == NONE:
                self._counts[topic.name] = len(topic.partitions)
                self._topic_ids[topic.name] = topic.topic_id if topic.topic_id is not None and topic.topic_id.int else None
                for one in topic.partitions:
                    if one.leader_id in self._nodes:
                        self._leaders[topic.name, one.partition_index] = one.leader_id
        return {name: self._codes[name] for name in names}

    def why_no_leader(self, place: KafkaPartition) -> int:
        """The topic's own code, or else that of a partition without a leader, or of one that is not there."""
        code = self._codes.get(place[0], LEADER_NOT_AVAILABLE)
        is_there = place[1] < self._counts.get(place[0], 0)
        return code if code != NONE else LEADER_NOT_AVAILABLE if is_there else UNKNOWN_TOPIC_OR_PARTITION

    def partitions_of(self, topic: str, seconds: float | None = None) -> int | None:
        """How many partitions a topic has; None if there is none."""
        code = self.refresh([topic], seconds)[topic]
        if code in NO_TOPIC:
            return None
        if code != NONE:
            raise self.meaning(code, topic)
        return self._counts[topic]

    def learn_node(self, node: int, host: str, port: int) -> None:
        """Note where a node is that another answer than `refresh` has named."""
        self._nodes[node] = (host, port)

    def leader_of(self, place: KafkaPartition) -> int | None:
        """The node that leads a partition, as it was last heard; None if it has none, or was not asked for."""
        return self._leaders.get(place)

    def id_of(self, topic: str) -> str | None:
        """The id of a topic, as it was last heard; None of an old cluster, or of a topic that is not there."""
        found = self._topic_ids.get(topic)
        return None if found is None else _id(found)

    def features(self) -> Mapping[str, int]:
        """The levels of the cluster's features, such as transaction.version; asked once."""
        if self._features is None:
            for node in self.candidates():
                answer = self.ask(_features_request(), node, self.settings["socket.timeout.ms"] / 1000)
                if answer is not None and answer.error_code == NONE:
                    self._features = {one.name: one.max_version_level for one in answer.finalized_features or ()}
                    return self._features
            raise ConnectionError(f"{self.where} does not answer; {self.said or 'no connection was made'}")
        return self._features

    def offsets_for(self, times: Mapping[KafkaPartition, int], *, is_committed: bool) -> dict[KafkaPartition, int | None]:
        """
        The first offset of each partition at or behind a time in ms, EARLIEST or LATEST; None where all records are older.

        LATEST is where committed records end, with `is_committed`, else all records.
        """
        found: dict[KafkaPartition, int | None] = {}
        deadline = time.monotonic() + LEADER_SECONDS
        while True:
            rest = {place: at for place, at in times.items() if place not in found}
            if not rest:
                return found
            codes = self._offsets(rest, found, is_committed=is_committed)
            for place, code in codes.items():
                if code not in PASSING or time.monotonic() > deadline:
                    raise self.meaning(code, place[0])
            if codes:
                self.sleep(self.settings["retry.backoff.ms"] / 1000)
                self.refresh({topic for topic, _ in codes})

    def _offsets(
        self, times: Mapping[KafkaPartition, int], found: dict[KafkaPartition, int | None], *, is_committed: bool
    ) -> dict[KafkaPartition, int]:
        """Ask the leaders once, at the same time; the codes of partitions without an offset."""
        by_node: dict[int, dict[KafkaPartition, int]] = {}
        if any(place not in self._leaders for place in times):
            self.refresh({topic for topic, _ in times})
        codes = {place: self.why_no_leader(place) for place in times if place not in self._leaders}
        for place, at in times.items():
            if place in self._leaders:
                by_node.setdefault(self._leaders[place], {})[place] = at
        replies = {node: self.send(_offsets_request(asked, is_committed=is_committed), node) for node, asked in by_node.items()}
        for node, answer in self.wait_for_all(replies).items():
            codes |= dict.fromkeys(by_node[node], NETWORK_EXCEPTION)
            for topic in () if answer is None else answer.topics:
                for one in topic.partitions:
                    place = (topic.name, one.partition_index)
                    codes[place] = one.error_code
                    if one.error_code == NONE:
                        found[place] = None if one.offset < 0 else one.offset
        return {place: code for place, code in codes.items() if code != NONE}

    # -- records

    def fetch(
        self, node: int, offsets: Mapping[KafkaPartition, int], ids: Mapping[str, str], *, is_committed: bool, waits: bool
    ) -> Reply:
        """
        Ask a leader for what is behind these offsets of topics with these ids; `fetched` reads the answer.

        It `waits` for records as long as the settings say, or answers at once.
        """
        return self.send(_fetch_request(offsets, ids, self.settings, is_committed=is_committed, waits=waits), node, FETCH)

    def fetched(self, answer: Any, ids: Mapping[str, str]) -> tuple[int, list[FetchedPartition]]:
        """What an answer to a fetch has: its own code, and each partition's share."""
        names = {uuid_of(known): name for name, known in ids.items()}
        shares = []
        for topic in answer.responses:
            name = topic.topic or names.get(topic.topic_id)
            for one in topic.partitions if name is not None else ():
                aborted = tuple((each.producer_id, each.first_offset) for each in one.aborted_transactions or ())
                place = (str(name), one.partition_index)
                data = one.records if isinstance(one.records, bytes) else bytes(one.records or b"")
                shares.append(FetchedPartition(place, one.error_code, data, one.high_watermark, one.last_stable_offset, aborted))
        return answer.error_code, shares

    # -- the offsets of a group

    def ask_for_coordinator(self, group: str) -> Reply:
        """Ask who keeps the offsets of a group; `coordinator` reads the answer."""
        return self.send(_coordinator_request(group), self.candidates()[0])

    def coordinator(self, answer: Any) -> int | None:
        """The node that keeps the offsets; None while there is none."""
        if answer.error_code != NONE:
            return None
        self.learn_node(answer.node_id, answer.host, answer.port)
        return int(answer.node_id)

    def commit_offsets(self, node: int, group: str, offsets: Mapping[KafkaPartition, int]) -> Reply:
        """Have a node keep these offsets for a group without members; `committed_codes` reads the answer."""
        return self.send(_commit_request(group, offsets), node)

    def committed_codes(self, answer: Any) -> list[int]:
        """The codes of all partitions in an answer to a commit of offsets."""
        return [one.error_code for topic in answer.topics for one in topic.partitions]

    # -- questions and answers

    def meaning(self, code: int, topic: str | None = None, said: str | None = None) -> Exception:
        """A code as one of our errors."""
        name = _library().for_code(code).message or str(code)
        more = said or (self.said if code == NETWORK_EXCEPTION else None)
        return meaning_of(code, f"{name}: {more}" if more else name, self.where, topic)

    def hear(self, error: Exception) -> None:
        """Note why a question was not answered; ConfigError if the broker does not let the client in, or cannot be asked this."""
        self.said = str(error) or type(error).__name__
        code = getattr(error, "errno", None)
        if isinstance(error, ssl.SSLCertVerificationError) or (isinstance(error, ssl.SSLError) and "EOF" not in self.said):
            raise ConfigError(
                f"{self.where} refuses the connector's login: {self.said}; see the settings kafka.security.protocol and kafka.ssl.*"
            )
        if isinstance(code, int) and not isinstance(error, OSError) and code not in PASSING:
            raise self.meaning(code, said=self.said)

    def send(self, request: Any, node: int, lane: str = CONTROL) -> Reply:
        """Send a question, once there is a connection; its answer comes while someone waits."""
        reply = Reply(self, self._exchange(request, node, lane))
        self._net.call_soon(reply.wait)
        return reply

    def ask(self, request: Any, node: int, seconds: float | None = None) -> Any:
        """The answer to a question; None if it does not come."""
        return self.wait_for_all({node: self.send(request, node)}, seconds)[node]

    def wait_for_all(self, replies: Mapping[int, Reply], seconds: float | None = None) -> dict[int, Any]:
        """All answers; None in place of one that does not come."""
        limit = self.settings["socket.timeout.ms"] / 1000 if seconds is None else seconds
        deadline = time.monotonic() + limit
        self.wait(lambda: all(reply.is_done for reply in replies.values()), deadline)
        return {node: reply.take() if reply.is_done else None for node, reply in replies.items()}

    def wait(self, is_enough: Callable[[], bool], deadline: float) -> None:
        """Serve the connections until there is enough, or it is too late; what is there already is taken in any case."""
        while True:
            self._net.poll(timeout_ms=0)
            left = deadline - time.monotonic()
            if is_enough() or left <= 0:
                return
            self._net.poll(timeout_ms=left * 1000)

    def sleep(self, seconds: float) -> None:
        """Serve the connections for a while."""
        self.wait(lambda: False, time.monotonic() + seconds)

    async def _exchange(self, request: Any, node: int, lane: str) -> Any:
        connection = await self._connected(node, lane)
        return await connection.send_request(request, request_timeout_ms=self.settings["socket.timeout.ms"])

    async def _connected(self, node: int, lane: str) -> Any:
        """The connection to a node, made if there is none; whoever comes while it is being made waits for it, too."""
        connection = self._connections.get((node, lane))
        if connection is None or connection.closed:
            address = self._bootstrap[-1 - node] if node < 0 else self._nodes.get(node)
            if address is None:
                raise ConnectionError(f"node {node} is not known any more")
            connection = self._connections[node, lane] = _library().KafkaConnection(
                self._net, node_id=node, client_id=self._client_id, request_timeout_ms=self.settings["socket.timeout.ms"],
                receive_message_max_bytes=max(self.settings["receive.message.max.bytes"], self.settings["fetch.max.bytes"] + 65_536),
                security_protocol=self.settings["security.protocol"].upper(), sasl_mechanism=self.settings["sasl.mechanisms"],
                sasl_plain_username=self.settings["sasl.username"], sasl_plain_password=self.settings["sasl.password"],
            )  # fmt: skip
            self._net.call_soon(self._connect(connection, *address))
        await connection.init_future
        return connection

    async def _connect(self, connection: Any, host: str, port: int) -> None:
        """Give a connection its socket; whatever goes wrong, or lasts too long, ends it, and all who wait for it hear that."""
        library, seconds = _library(), self.settings["socket.connection.setup.timeout.ms"] / 1000
        timeout_at = time.monotonic() + seconds
        made: list[Any] = []

        def give_up(error: Exception) -> None:
            for transport in made:
                transport.abort(error)
            if not connection.init_future.is_done:
                connection.connection_lost(error)

        def too_late() -> None:
            if not connection.init_future.is_done:
                give_up(ConnectionError(f"{host}:{port} did not take the connection within {seconds:g} s"))

        timer = self._net.call_later(seconds, too_late)
        try:
            options = [(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1), (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)]
            found = await library.create_connection(self._net, host, port, options, timeout_at=timeout_at)
            if self._tls is None:
                made.append(library.KafkaTCPTransport(self._net, found, host=host))
            else:
                made.append(library.KafkaSSLTransport(self._net, found, host=host, ssl_context=self._tls))
            await made[0].handshake()
            if not connection.closed:
                connection.connection_made(made[0])
                await connection.initialize(timeout_at=timeout_at)
        except Exception as error:  # noqa: BLE001  (whoever waits for the connection gets it)
            give_up(error)
        finally:
            self._net.cancel(timer)


def _address(server: str) -> tuple[str, int]:
    """The host and port of an entry of bootstrap.servers, which may begin with a protocol and have no port."""
    host, _, port = server.strip().rpartition("://")[2].rpartition(":")
    if not host or port.endswith("]"):
        host, port = server.strip().rpartition("://")[2], "9092"
    return host.strip("[]"), int(port)


def _id(found: uuid.UUID) -> str:
    """The id of a topic as Kafka writes it, and confluent-kafka, too: in base 64."""
    return base64.b64encode(found.bytes).rstrip(b"=").decode()


def uuid_of(known: str) -> uuid.UUID:
    """The id of a topic as messages have it."""
    return uuid.UUID(bytes=base64.b64decode(known + "=="))


def topic_partitions(places: Iterable[KafkaPartition]) -> dict[str, list[int]]:
    """The partitions by their topics, as requests have them."""
    found: dict[str, list[int]] = {}
    for topic, partition in places:
        found.setdefault(topic, []).append(partition)
    return found


def _metadata_request(topics: Iterable[str]) -> Any:
    kind = _library().MetadataRequest
    named = [kind.MetadataRequestTopic(name=topic) for topic in topics]
    return kind(
        topics=named, allow_auto_topic_creation=False, include_cluster_authorized_operations=False,
        include_topic_authorized_operations=False, min_version=4, max_version=12,
    )  # fmt: skip


def _features_request() -> Any:
    return _library().ApiVersionsRequest(
        client_software_name="streamkit", client_software_version="1", min_version=0, max_version=4
    )


def _coordinator_request(group: str) -> Any:
    return _library().FindCoordinatorRequest(key=group, key_type=0, min_version=1, max_version=3)


def _commit_request(group: str, offsets: Mapping[KafkaPartition, int]) -> Any:
    kind = _library().OffsetCommitRequest
    topic_kind = kind.OffsetCommitRequestTopic
    part_kind = topic_kind.OffsetCommitRequestPartition
    topics = [
        topic_kind(
            name=topic,
            partitions=[
                part_kind(partition_index=one, committed_offset=offsets[topic, one], committed_leader_epoch=-1, committed_metadata="")
                for one in ones
            ],
        )
        for topic, ones in topic_partitions(offsets).items()
    ]  # fmt: skip
    return kind(
        group_id=group, generation_id_or_member_epoch=-1, member_id="", group_instance_id=None, retention_time_ms=-1, topics=topics,
        min_version=2, max_version=8,
    )  # fmt: skip


def _offsets_request(times: Mapping[KafkaPartition, int], *, is_committed: bool) -> Any:
    kind = _library().ListOffsetsRequest
    topic_kind = kind.ListOffsetsTopic
    topics = [
        topic_kind(
            name=topic,
            partitions=[
                topic_kind.ListOffsetsPartition(partition_index=one, current_leader_epoch=-1, timestamp=times[topic, one]) for one in ones
            ],
        )
        for topic, ones in topic_partitions(times).items()
    ]  # fmt: skip
    return kind(replica_id=-1, isolation_level=int(is_committed), topics=topics, min_version=2, max_version=7)


def _fetch_request(
    offsets: Mapping[KafkaPartition, int],
    ids: Mapping[str, str],
    settings: Mapping[str, Any],
    *,
    is_committed: bool,
    waits: bool = True,
) -> Any:
    kind = _library().FetchRequest
    topic_kind = kind.FetchTopic
    by_topic = topic_partitions(offsets)
    has_ids = by_topic.keys() <= ids.keys()
    topics = [
        topic_kind(
            topic=topic,
            partitions=[
                topic_kind.FetchPartition(
                    partition=one, current_leader_epoch=-1, fetch_offset=offsets[topic, one], last_fetched_epoch=-1, log_start_offset=-1,
                    partition_max_bytes=settings["max.partition.fetch.bytes"],
                )
                for one in ones
            ],
            **({"topic_id": uuid_of(ids[topic])} if has_ids else {}),
        )
        for topic, ones in by_topic.items()
    ]  # fmt: skip
    return kind(
        replica_id=-1, max_wait_ms=settings["fetch.wait.max.ms"] if waits else 0, min_bytes=settings["fetch.min.bytes"], max_bytes=settings["fetch.max.bytes"],
        isolation_level=int(is_committed), session_id=0, session_epoch=-1, topics=topics, forgotten_topics_data=[], rack_id="",
        min_version=4, max_version=13 if has_ids else 12,
    )  # fmt: skip
