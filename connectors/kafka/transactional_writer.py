"""
Record batches into Kafka in transactions, one at a time: coordinator, producer's id, batches, end.

A writer fences those before it that have its name. Whatever goes wrong ends it: a new one is made, which fences it and aborts
what it left open. So nothing has to be known of how far it came, but whether a commit that was under way took effect.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from streamkit.connectors.kafka import transaction_calls
from streamkit.connectors.kafka.batch_client import LEADER_SECONDS, BatchClient, KafkaPartition
from streamkit.connectors.kafka.broker_error import (
    CONCURRENT_TRANSACTIONS,
    COORDINATOR_MOVED,
    DUPLICATE_SEQUENCE_NUMBER,
    INVALID_RECORD,
    INVALID_TIMESTAMP,
    MESSAGE_TOO_LARGE,
    NETWORK_EXCEPTION,
    NO_TOPIC,
    NONE,
    OPERATION_NOT_ATTEMPTED,
    PASSING,
    RECORD_LIST_TOO_LARGE,
)
from streamkit.connectors.kafka.record_batches.encoded_batches import SEQUENCES, ProducerIdentity
from streamkit.connectors.kafka.transaction_calls import ProduceAnswer
from streamkit.errors import StreamKitError

BEGIN_SECONDS = 60.0  # for a writer to be known; what an older one left open may have to time out first
REQUEST_BYTES = 16_000_000  # of batches that are sent together; a broker takes 100 MB
TURN_SECONDS = 0.003  # before a question that came while the transaction before was being ended
SECOND_VERSION = 2  # of transactions, the level of the cluster's feature
_PRODUCER = struct.Struct(">qhi")  # in the header of a batch: the producer's id, its epoch, the first sequence
_PRODUCER_AT = 43
_TOO_LARGE = frozenset({MESSAGE_TOO_LARGE, RECORD_LIST_TOO_LARGE})
_UNFIT = frozenset({INVALID_RECORD, INVALID_TIMESTAMP})


@dataclass(frozen=True)
class PartitionBatch:
    """A record batch for a partition, with the producer's identity in its header; to be sent again as it is."""

    place: KafkaPartition
    data: bytes
    record_count: int


@dataclass(frozen=True)
class RefusedBatch:
    """A batch that a broker refuses for what it is: its number among those that were given, and what the broker says."""

    number: int
    answer: ProduceAnswer

    @property
    def is_too_large(self) -> bool:
        """Whether it has more bytes than the topic takes; else it has records that the topic does not take."""
        return self.answer.code in _TOO_LARGE


class TransactionalWriter:
    """
    Writes batches and ends transactions.

    Topics whose ids are among `expected` are written as long as they have these: ConnectionError for one that was made again.
    `identity_of` says what the header of a partition's next batch has; `produce` takes batches, as often as wanted, and `commit`
    or `abort` ends the transaction. Errors: FencedError if a newer writer has the name, ConfigError for what is not allowed,
    TopicNotFoundError, ConnectionError for the rest. After any error, and after a batch that was refused, the writer is of no use.
    """

    def __init__(
        self, client: BatchClient, name: str, *, expected: Mapping[str, str] | None = None, is_second: bool | None = None
    ) -> None:
        """Fence the writers before; `is_second` is whether transactions are of version 2, as the cluster says unless given."""
        self._client = client
        self._name = name
        self._is_second = client.features().get("transaction.version", 0) >= SECOND_VERSION if is_second is None else is_second
        self._expected = dict(expected or {})
        self._by_name: set[str] = set()  # topics of the transaction that a broker took by their names
        self._sequences: dict[KafkaPartition, int] = {}
        self._added: set[KafkaPartition] = set()  # partitions of the transaction
        self._coordinator = -1
        self._is_ended = False
        with self._or_ended():
            self._producer = self._initialised()

    def identity_of(self, place: KafkaPartition) -> ProducerIdentity:
        """The producer, and the sequence of the next record for a partition."""
        return ProducerIdentity(*self._producer, self._sequences.get(place, 0))

    def produce(self, batches: Sequence[PartitionBatch]) -> Sequence[RefusedBatch]:
        """
        Send batches, and wait until all replicas in sync have them; those that a broker refuses, if any.

        Sequences go on from `identity_of` for each partition. What was refused may not be all that would be.
        """
        with self._or_ended():
            self._count(batches)
            places = {batch.place for batch in batches}
            unknown = {place[0] for place in places if self._client.leader_of(place) is None}
            if unknown:
                self._client.refresh(unknown)
            if not self._is_second and places - self._added:
                self._add(places - self._added)
            self._added |= places
            for numbers in _requests(batches):
                refused = self._send({batches[number].place: number for number in numbers}, batches)
                if refused:
                    self._is_ended = True
                    return refused
        return ()

    def commit(self) -> None:
        """Make all that was produced visible, at once. An error after which nobody knows whether it is says so."""
        with self._or_ended():
            named = self._by_name & self._expected.keys()
            if named:
                self._client.refresh(named)
                self._check_ids(named, may_be_missing=False)
            self._end(is_commit=True)

    def abort(self) -> None:
        """Let nobody see what was produced."""
        with self._or_ended():
            self._end(is_commit=False)

    @contextmanager
    def _or_ended(self) -> Iterator[None]:
        if self._is_ended:
            raise StreamKitError(f"{self._client.where}: the writer {self._name} has ended by an error; make a new one")
        try:
            yield
        except BaseException:
            self._is_ended = True
            raise

    def _initialised(self) -> tuple[int, int]:
        """Find the coordinator and get an id and epoch, which takes them from the writers before."""
        deadline = time.monotonic() + BEGIN_SECONDS
        while True:
            code, self._coordinator = transaction_calls.find_coordinator(self._client, self._name)
            if code == NONE:
                code, *producer = transaction_calls.init_producer(self._client, self._coordinator, self._name)
                if code == NONE:
                    return producer[0], producer[1]
            self._pause(code, deadline)

    def _pause(self, code: int, deadline: float, topic: str | None = None, said: str | None = None) -> None:
        """Wait before something is sent again that a broker did not take; its error if that does not pass, or not in time."""
        if code not in PASSING or time.monotonic() > deadline:
            raise self._client.meaning(code, topic, said)
        self._client.sleep(TURN_SECONDS if code == CONCURRENT_TRANSACTIONS else self._client.settings["retry.backoff.ms"] / 1000)

    def _deadline(self) -> float:
        """The coordinator aborts a transaction that is open for longer."""
        return time.monotonic() + float(self._client.settings["transaction.timeout.ms"]) / 1000

    def _coordinator_again(self, code: int) -> None:
        if code in COORDINATOR_MOVED:
            found, node = transaction_calls.find_coordinator(self._client, self._name)
            self._coordinator = node if found == NONE else self._coordinator

    def _count(self, batches: Sequence[PartitionBatch]) -> None:
        """Move the sequences on. A batch with another one would be taken for one that came before, or for a loss."""
        for batch in batches:
            expected = self.identity_of(batch.place)
            found = ProducerIdentity(*_PRODUCER.unpack_from(batch.data, _PRODUCER_AT))
            if found != expected:
                raise AssertionError(f"a batch for {batch.place} has {found}; expected {expected}")
            self._sequences[batch.place] = (expected.next_sequence + batch.record_count) % SEQUENCES

    def _add(self, places: set[KafkaPartition]) -> None:
        """Tell the coordinator of partitions, which it needs to end the transaction; in version 2 their leaders do."""
        deadline, lost_at, rest = self._deadline(), time.monotonic() + LEADER_SECONDS, sorted(places)
        while rest:
            codes = transaction_calls.add_partitions(self._client, self._coordinator, self._name, self._producer, rest)
            rest = [place for place in rest if codes[place] != NONE]
            if rest:
                refused = next((one for one in rest if codes[one] not in PASSING | {OPERATION_NOT_ATTEMPTED}), None)
                passing = next((one for one in rest if codes[one] in PASSING), rest[0])
                place = refused or passing
                self._pause(codes[place], lost_at if codes[place] in NO_TOPIC else deadline, place[0])
                self._coordinator_again(codes[place])

    def _send(self, numbers: Mapping[KafkaPartition, int], batches: Sequence[PartitionBatch]) -> Sequence[RefusedBatch]:
        """
        Send a batch to each partition; those that are refused.

        Where an answer is lost or a leader moves, the same bytes go again: a broker knows them by their sequence.
        """
        deadline, lost_at = self._deadline(), time.monotonic() + LEADER_SECONDS
        while True:
            sent = {place: batches[number].data for place, number in numbers.items()}
            answers = transaction_calls.produce(self._client, self._name, sent, self._ids(sent), is_second=self._is_second)
            self._by_name |= {topic for (topic, _), one in answers.items() if not one.is_by_id}
            answers = {place: one for place, one in answers.items() if one.code not in (NONE, DUPLICATE_SEQUENCE_NUMBER)}
            refused = [RefusedBatch(numbers[place], one) for place, one in answers.items() if _is_refusal(one)]
            if refused or not answers:
                return refused
            numbers = {place: numbers[place] for place in answers}
            place, answer = min(answers.items(), key=lambda one: one[1].code in PASSING)
            self._pause(answer.code, lost_at if answer.code in NO_TOPIC else deadline, place[0], answer.message)
            if any(one.code != CONCURRENT_TRANSACTIONS for one in answers.values()):
                topics = {topic for topic, _ in numbers}
                self._client.refresh(topics)
                self._check_ids(topics & self._expected.keys(), may_be_missing=True)

    def _ids(self, places: Iterable[KafkaPartition]) -> dict[str, str]:
        """The id of each topic: the expected one, or else the one that a broker told last."""
        topics = {topic for topic, _ in places}
        found = {topic: self._expected.get(topic) or self._client.id_of(topic) for topic in topics}
        return {topic: known for topic, known in found.items() if known is not None}

    def _check_ids(self, topics: Iterable[str], *, may_be_missing: bool) -> None:
        """ConnectionError for a topic that has another id than expected; one that is missing may be there again in a moment."""
        for topic in topics:
            found = self._client.id_of(topic)
            if found != self._expected[topic] and not (found is None and may_be_missing):
                raise ConnectionError(f"{self._client.where}: the topic {topic} was deleted{' and made again' if found else ''}")

    def _end(self, *, is_commit: bool) -> None:
        """
        End the transaction, if it has anything.

        A coordinator that was not heard is asked again, and answers as it did. Once a commit may have reached it, any other answer
        than that it is done leaves open whether it is.
        """
        if not self._added:
            return
        deadline, is_unheard = self._deadline(), False
        while True:
            code, producer = transaction_calls.end_transaction(
                self._client, self._coordinator, self._name, self._producer, is_commit=is_commit, is_second=self._is_second
            )
            if code == NONE:
                break
            is_unheard = is_unheard or code == NETWORK_EXCEPTION
            try:
                self._pause(code, deadline)
                self._coordinator_again(code)
            except Exception as error:
                if is_commit and is_unheard:
                    raise ConnectionError(
                        f"{self._client.where}: no answer says whether a transaction of {self._name} was committed: {error}"
                    ) from error
                raise
        self._added, self._by_name = set(), set()
        if producer != self._producer:  # a new epoch counts from 0
            self._producer, self._sequences = producer, {}


def _is_refusal(answer: ProduceAnswer) -> bool:
    return answer.code in _TOO_LARGE or answer.code in _UNFIT or bool(answer.records)


def _requests(batches: Sequence[PartitionBatch]) -> Iterator[list[int]]:
    """The numbers of batches that are sent together: one of a partition, and no more bytes than a broker takes; in order for each partition."""
    rest = list(range(len(batches)))
    while rest:
        size, places = 0, set[KafkaPartition]()
        taken: list[int] = []
        later: list[int] = []
        for number in rest:
            batch = batches[number]
            fits = not taken or size + len(batch.data) <= REQUEST_BYTES
            if fits and batch.place not in places:
                taken.append(number)
                size += len(batch.data)
            else:
                later.append(number)
            places.add(batch.place)
        yield taken
        rest = later
