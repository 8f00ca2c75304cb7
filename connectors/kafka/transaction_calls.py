"""What a writer asks brokers for: to keep record batches, and to begin and end transactions; each call is one question, asked once."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from types import SimpleNamespace
from typing import Any

from streamkit.connectors.kafka.batch_client import (
    LOADING,
    NODE_SECONDS,
    BatchClient,
    KafkaPartition,
    topic_partitions,
    uuid_of,
    why_unfit,
)
from streamkit.connectors.kafka.broker_error import NETWORK_EXCEPTION, NONE

# The messages, and the newest version of each that is known here.
_MESSAGES = {
    "metadata.FindCoordinatorRequest": 3, "producer.ProduceRequest": 13, "producer.InitProducerIdRequest": 5,
    "producer.AddPartitionsToTxnRequest": 3, "producer.EndTxnRequest": 5,
}  # fmt: skip
OLDER_PRODUCE, OLDER_END = 11, 4  # versions by which a broker knows that a transaction is of version 1
PRODUCE_BY_NAME = 12  # the last version in which topics have names; in later ones they have ids
SOME_ID = "AAAAAAAAAAAAAAAAAAAAAQ"  # of a topic


@dataclass(frozen=True)
class ProduceAnswer:
    """
    What a broker says of a record batch: a code, and where it refuses records, why, by their number in the batch.

    `is_by_id`: it was asked for the topic with an id, not for the one of that name.
    """

    code: int
    message: str | None = None
    records: tuple[tuple[int, str | None], ...] = ()
    is_by_id: bool = False


def why_unfit_to_write(given: Mapping[str, str]) -> str | None:
    """Why a connector with these settings of the client cannot write record batches; None if it can."""
    reason = why_unfit(given)
    if reason is None:
        with LOADING:
            reason = _why_no_messages()
    return reason


@cache
def _why_no_messages() -> str | None:
    """Write each message once; None if all are as expected."""
    try:
        for message in (
            _coordinator_request("x"), _produce_request("x", {("t", 0): b""}, {"t": SOME_ID}, 1, _MESSAGES["producer.ProduceRequest"]),
            _producer_request("x", 1), _partitions_request("x", (1, 1), [("t", 0)]),
            _end_request("x", (1, 1), is_commit=True, version=_MESSAGES["producer.EndTxnRequest"]),
        ):  # fmt: skip
            message.API_VERSION = message._max_version
            message.with_header()
            message.encode()
    except Exception as error:  # noqa: BLE001  (what an inner name that has changed raises, nobody knows)
        return f"kafka-python is not as expected: {type(error).__name__}: {error}"
    return None


def produce(
    client: BatchClient,
    writer: str,
    batches: Mapping[KafkaPartition, bytes | bytearray],
    ids: Mapping[str, str],
    *,
    is_second: bool,
) -> dict[KafkaPartition, ProduceAnswer]:
    """
    Send one record batch to each partition, all nodes at the same time; the answer to each.

    `is_second`: in a transaction of version 2, to which a broker adds the partitions by itself. Topics are those with these ids, where
    all have one and the broker takes ids, as from Kafka 4.1 on, else those of that name.
    """
    by_node: dict[int, dict[KafkaPartition, bytes | bytearray]] = {}
    answers = {}
    for place, data in batches.items():
        leader = client.leader_of(place)
        if leader is None:
            answers[place] = ProduceAnswer(client.why_no_leader(place))
        else:
            by_node.setdefault(leader, {})[place] = data
    wait_ms = client.settings["request.timeout.ms"]
    version = _MESSAGES["producer.ProduceRequest"] if is_second else OLDER_PRODUCE
    names = {uuid_of(known): topic for topic, known in ids.items()}
    replies = {node: client.send(_produce_request(writer, asked, ids, wait_ms, version), node) for node, asked in by_node.items()}
    for node, answer in client.wait_for_all(replies).items():
        answers |= dict.fromkeys(by_node[node], ProduceAnswer(NETWORK_EXCEPTION, client.said))
        for topic in () if answer is None else answer.responses:
            name, is_by_id = topic.name or names[topic.topic_id], not topic.name
            for one in topic.partition_responses:
                records = tuple((each.batch_index, each.batch_index_error_message) for each in one.record_errors or ())
                answers[name, one.index] = ProduceAnswer(one.error_code, one.error_message, records, is_by_id)
    return answers


def find_coordinator(client: BatchClient, writer: str) -> tuple[int, int]:
    """A code, and the node that coordinates a writer's transactions; any node that answers is asked."""
    for node in client.candidates():
        answer = client.ask(_coordinator_request(writer), node, NODE_SECONDS)
        if answer is None:
            continue
        if answer.error_code == NONE:
            client.learn_node(answer.node_id, answer.host, answer.port)
        return answer.error_code, answer.node_id
    return NETWORK_EXCEPTION, -1


def init_producer(client: BatchClient, node: int, writer: str) -> tuple[int, int, int]:
    """Fence the writer's older instances and abort what they left open; a code, the producer's id and epoch."""
    answer = client.ask(_producer_request(writer, client.settings["transaction.timeout.ms"]), node)
    return (NETWORK_EXCEPTION, -1, -1) if answer is None else (answer.error_code, answer.producer_id, answer.producer_epoch)


def add_partitions(
    client: BatchClient, node: int, writer: str, producer: tuple[int, int], places: Iterable[KafkaPartition]
) -> dict[KafkaPartition, int]:
    """Add partitions to a transaction of version 1; the code of each."""
    asked = list(places)
    answer = client.ask(_partitions_request(writer, producer, asked), node)
    codes = dict.fromkeys(asked, NETWORK_EXCEPTION)
    for topic in () if answer is None else answer.results_by_topic_v3_and_below:
        for one in topic.results_by_partition:
            codes[topic.name, one.partition_index] = one.partition_error_code
    return codes


def end_transaction(
    client: BatchClient, node: int, writer: str, producer: tuple[int, int], *, is_commit: bool, is_second: bool
) -> tuple[int, tuple[int, int]]:
    """Commit or abort; a code, and the producer's id and epoch for the next transaction."""
    version = _MESSAGES["producer.EndTxnRequest"] if is_second else OLDER_END
    answer = client.ask(_end_request(writer, producer, is_commit=is_commit, version=version), node)
    if answer is None:
        return NETWORK_EXCEPTION, producer
    is_new = is_second and answer.error_code == NONE and answer.producer_id >= 0
    return answer.error_code, (answer.producer_id, answer.producer_epoch) if is_new else producer


@cache
def _library() -> SimpleNamespace:
    found = {}
    for place in _MESSAGES:
        module, name = place.split(".")
        found[name] = getattr(importlib.import_module(f"kafka.protocol.{module}"), name)
    return SimpleNamespace(**found)


def _coordinator_request(writer: str) -> Any:
    version = _MESSAGES["metadata.FindCoordinatorRequest"]
    return _library().FindCoordinatorRequest(key=writer, key_type=1, min_version=1, max_version=version)


def _produce_request(
    writer: str, batches: Mapping[KafkaPartition, bytes | bytearray], ids: Mapping[str, str], wait_ms: int, version: int
) -> Any:
    kind = _library().ProduceRequest
    topic_kind = kind.TopicProduceData
    by_topic = topic_partitions(batches)
    has_ids = by_topic.keys() <= ids.keys()
    topics = [
        topic_kind(
            name=topic,
            partition_data=[topic_kind.PartitionProduceData(index=one, records=batches[topic, one]) for one in ones],
            **({"topic_id": uuid_of(ids[topic])} if has_ids else {}),
        )
        for topic, ones in by_topic.items()
    ]
    version = version if has_ids else min(version, PRODUCE_BY_NAME)
    return kind(transactional_id=writer, acks=-1, timeout_ms=wait_ms, topic_data=topics, min_version=3, max_version=version)


def _producer_request(writer: str, wait_ms: int) -> Any:
    return _library().InitProducerIdRequest(
        transactional_id=writer, transaction_timeout_ms=wait_ms, producer_id=-1, producer_epoch=-1, min_version=0,
        max_version=_MESSAGES["producer.InitProducerIdRequest"],
    )  # fmt: skip


def _partitions_request(writer: str, producer: tuple[int, int], places: Iterable[KafkaPartition]) -> Any:
    kind = _library().AddPartitionsToTxnRequest
    topics = [kind.AddPartitionsToTxnTopic(name=topic, partitions=ones) for topic, ones in topic_partitions(places).items()]
    return kind(
        v3_and_below_transactional_id=writer, v3_and_below_producer_id=producer[0], v3_and_below_producer_epoch=producer[1],
        v3_and_below_topics=topics, min_version=0, max_version=_MESSAGES["producer.AddPartitionsToTxnRequest"],
    )  # fmt: skip


def _end_request(writer: str, producer: tuple[int, int], *, is_commit: bool, version: int) -> Any:
    return _library().EndTxnRequest(
        transactional_id=writer, producer_id=producer[0], producer_epoch=producer[1], committed=is_commit, min_version=0,
        max_version=version,
    )  # fmt: skip
