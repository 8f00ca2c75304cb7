"""A proxy before a broker of Kafka: it answers with an error in place of the broker, or loses an answer, when a test asks for it."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections import defaultdict, deque
from collections.abc import Callable
from typing import Any

from kafka.protocol.consumer import FetchRequest, FetchResponse, ListOffsetsRequest, ListOffsetsResponse
from kafka.protocol.metadata import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    MetadataRequest,
    MetadataResponse,
)
from kafka.protocol.producer import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    ProduceRequest,
    ProduceResponse,
)

_PAIRS: dict[int, tuple[Any, Any]] = {
    request.API_KEY: (request, response)
    for request, response in (
        (ApiVersionsRequest, ApiVersionsResponse),
        (MetadataRequest, MetadataResponse),
        (FindCoordinatorRequest, FindCoordinatorResponse),
        (FetchRequest, FetchResponse),
        (ListOffsetsRequest, ListOffsetsResponse),
        (ProduceRequest, ProduceResponse),
        (InitProducerIdRequest, InitProducerIdResponse),
        (AddPartitionsToTxnRequest, AddPartitionsToTxnResponse),
        (EndTxnRequest, EndTxnResponse),
    )
}
LOSE = "lose"  # the broker does what it is asked, and its answer is lost with the connection
CUT = "cut"  # the connection breaks before the broker hears the question


class KafkaProxy:
    """Stands for the one broker of a cluster: `address` is for clients, and `orders` by the name of a request say what happens next."""

    def __init__(self, broker: str) -> None:
        host, port = broker.split(":")
        self._broker = (host, int(port))
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = self._server.getsockname()[1]
        self.address = f"127.0.0.1:{self.port}"
        self.orders: dict[str, deque[int | str | Callable[[Any], None]]] = defaultdict(deque)
        self.asked: dict[str, int] = defaultdict(int)
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        self._server.close()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._server.accept()
                threading.Thread(target=self._pass_on, args=(client,), daemon=True).start()

    def _pass_on(self, client: socket.socket) -> None:
        with client, contextlib.suppress(OSError, EOFError), socket.create_connection(self._broker) as broker:
            while True:
                asked = _frame(client)
                key, version, correlation = struct.unpack_from(">hhi", asked)
                request_type, response_type = _PAIRS[key]
                name = request_type.__name__.removesuffix("Request")
                self.asked[name] += 1
                order = self.orders[name].popleft() if self.orders[name] else None
                if order == CUT:
                    return
                if isinstance(order, int):
                    request = request_type.decode(asked, version=version, header=True)
                    answer = _refusal(name, request, response_type, order, self.port)
                else:
                    broker.sendall(struct.pack(">i", len(asked)) + asked)
                    answer = response_type.decode(_frame(broker), version=version, header=True)
                    if order == LOSE:
                        return
                    if callable(order):
                        order(answer)
                self._show_proxy(name, answer)
                answer._header = None  # that of the broker
                answer.API_VERSION = version
                answer.with_header(correlation_id=correlation)
                client.sendall(answer.encode(header=True, framed=True))

    def _show_proxy(self, name: str, answer: Any) -> None:
        """Addresses of the broker are those of the proxy."""
        for one in answer.brokers if name == "Metadata" else [answer] if name == "FindCoordinator" else []:
            one.host, one.port = "127.0.0.1", self.port


def _frame(sock: socket.socket) -> bytes:
    (length,) = struct.unpack(">i", _bytes(sock, 4))
    return _bytes(sock, length)


def _bytes(sock: socket.socket, count: int) -> bytes:
    found = bytearray()
    while len(found) < count:
        part = sock.recv(count - len(found))
        if not part:
            raise EOFError
        found += part
    return bytes(found)


def _refusal(name: str, request: Any, kind: Any, code: int, port: int) -> Any:
    """An answer to a request that has this code for all that was asked."""
    if name == "Metadata":
        broker = kind.MetadataResponseBroker(node_id=1, host="127.0.0.1", port=port, rack=None)
        topics = [
            kind.MetadataResponseTopic(error_code=code, name=one.name, is_internal=False, partitions=[]) for one in request.topics
        ]
        return kind(throttle_time_ms=0, brokers=[broker], cluster_id="x", controller_id=1, topics=topics)
    if name == "FindCoordinator":
        return kind(throttle_time_ms=0, error_code=code, error_message=None, node_id=-1, host="", port=-1)
    refuse = {"Fetch": _no_fetch, "ListOffsets": _no_offsets, "Produce": _no_produce, "AddPartitionsToTxn": _no_partitions}.get(
        name
    )
    if refuse is not None:
        return refuse(request, kind, code)
    return kind(throttle_time_ms=0, error_code=code, producer_id=-1, producer_epoch=-1)


def _no_fetch(request: Any, kind: Any, code: int) -> Any:
    topic = kind.FetchableTopicResponse
    nothing = {
        "error_code": code, "high_watermark": -1, "last_stable_offset": -1, "log_start_offset": -1, "aborted_transactions": None,
        "preferred_read_replica": -1, "records": None,
    }  # fmt: skip
    topics = [
        topic(
            topic=one.topic,
            topic_id=one.topic_id,
            partitions=[topic.PartitionData(partition_index=part.partition, **nothing) for part in one.partitions],
        )
        for one in request.topics
    ]
    return kind(throttle_time_ms=0, error_code=0, session_id=0, responses=topics)


def _no_offsets(request: Any, kind: Any, code: int) -> Any:
    topic = kind.ListOffsetsTopicResponse
    nothing = {"error_code": code, "timestamp": -1, "offset": -1, "leader_epoch": -1}
    topics = [
        topic(
            name=one.name,
            partitions=[
                topic.ListOffsetsPartitionResponse(partition_index=part.partition_index, **nothing) for part in one.partitions
            ],
        )
        for one in request.topics
    ]
    return kind(throttle_time_ms=0, topics=topics)


def _no_produce(request: Any, kind: Any, code: int) -> Any:
    topic = kind.TopicProduceResponse
    nothing = {
        "error_code": code, "base_offset": -1, "log_append_time_ms": -1, "log_start_offset": -1, "record_errors": [], "error_message": None,
    }  # fmt: skip
    topics = [
        topic(
            **({"name": one.name} if one.name else {"topic_id": one.topic_id}),
            partition_responses=[topic.PartitionProduceResponse(index=part.index, **nothing) for part in one.partition_data],
        )
        for one in request.topic_data
    ]
    return kind(responses=topics, throttle_time_ms=0)


def _no_partitions(request: Any, kind: Any, code: int) -> Any:
    topic = kind.AddPartitionsToTxnTopicResult
    topics = [
        topic(
            name=one.name,
            results_by_partition=[
                topic.AddPartitionsToTxnPartitionResult(partition_index=part, partition_error_code=code)
                for part in one.partitions
            ],
        )
        for one in request.v3_and_below_topics
    ]
    return kind(throttle_time_ms=0, results_by_topic_v3_and_below=topics)
