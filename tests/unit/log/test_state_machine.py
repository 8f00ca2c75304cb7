"""
Promises of the log to any sequence of calls: it holds what a plain model holds.

Producers, transactions, batches that are sent again, topics deleted and made again, the log closed and opened: after each
step every topic equals a list of values per partition. Under torture there are 500 sequences of 50 steps.
"""

from __future__ import annotations

import os
import shutil
from tempfile import mkdtemp

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule, run_state_machine_as_test

from streamkit.clock import HandClock
from streamkit.errors import EpochFailedError, FencedError, TopicNotFoundError
from streamkit.log.opening import open_log
from streamkit.log.produce import draft
from streamkit.log.produce.draft import split_as
from streamkit.log.produce.outbox import Outbox
from streamkit.log.produce.producer import Producer
from streamkit.log.values.keys import partitions

IS_TORTURE = bool(os.environ.get("STREAMKIT_TORTURE"))
TOPICS = {"one": (1, "none"), "two": (2, "lz4"), "three": (3, "zstd")}
NAMES = st.sampled_from(sorted(TOPICS))
PRODUCERS = st.sampled_from(("first", "second"))
SETTINGS = settings(
    max_examples=500 if IS_TORTURE else 7,
    stateful_step_count=50 if IS_TORTURE else 30,
    deadline=None,
    derandomize=not IS_TORTURE,
    suppress_health_check=list(HealthCheck),
)


class Client:
    """A producer, the topics it believes in, and what it has not flushed: (topic, its incarnation, sequence, values)."""

    def __init__(self, producer):
        self.producer = producer
        self.known = {}
        self.pending = []
        self.is_fenced = False


class LogMachine(RuleBasedStateMachine):
    """Calls of the log, and the model of what they do."""

    @initialize()
    def open(self):
        self.folder = mkdtemp(prefix="streamkit-machine-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
        self.clock = HandClock(1_000)
        self.log = open_log(self.folder, self.clock)
        self.incarnations = dict.fromkeys(TOPICS, 0)
        self.model = {}  # topic → values by partition, in the order of offsets
        self.clients = {}
        self.sequences = {}  # (producer, topic, incarnation) → {sequence: offsets}
        self.value = 0
        for topic in TOPICS:
            self.create(topic)
        for name in ("first", "second"):
            self.open_producer(name)

    def teardown(self):
        if hasattr(self, "log"):
            self.log.close()
            shutil.rmtree(self.folder)

    # Topics

    @rule(topic=NAMES)
    def create(self, topic):
        """A topic that exists already is the same topic."""
        count, compression = TOPICS[topic]
        self.log.create_topic(topic, "v bigint", "v", partitions=count, config={"compression.type": compression})
        if topic not in self.model:
            self.incarnations[topic] += 1
            self.model[topic] = {partition: [] for partition in range(count)}

    @rule(topic=NAMES, comes_back=st.booleans())
    def delete(self, topic, comes_back):
        """A topic that is made again is another topic."""
        if topic in self.model:
            self.log.delete_topic(topic)
            del self.model[topic]
            if comes_back:
                self.create(topic)
        else:
            with pytest.raises(TopicNotFoundError):
                self.log.delete_topic(topic)

    # Producers

    @rule(name=PRODUCERS)
    def open_producer(self, name):
        """Opening a producer again fences the one before, whose buffered rows are never seen."""
        older = self.clients.get(name)
        self.clients[name] = Client(self.log.producer(name))
        if older is not None and older.pending:
            with pytest.raises((FencedError, EpochFailedError)):
                older.producer.flush()

    @precondition(lambda self: self.clients)
    @rule(data=st.data(), topic=NAMES, count=st.integers(1, 5), is_sequenced=st.booleans())
    def send(self, data, topic, count, is_sequenced):
        """Rows are buffered; nothing is seen of them yet."""
        name = data.draw(st.sampled_from(sorted(self.clients)))
        self._send(name, topic, count, is_sequenced)

    def _send(self, name, topic, count, is_sequenced):
        client = self.clients[name]
        if topic not in client.known and topic not in self.model:
            with pytest.raises(TopicNotFoundError):
                client.producer.send(topic, {"v": 0})
            return
        incarnation = client.known.setdefault(topic, self.incarnations[topic])
        values = list(range(self.value, self.value + count))
        self.value += count
        sequence = self.value if is_sequenced else None
        client.producer.send_batch(topic, pa.table({"v": pa.array(values, pa.int64())}), sequence=sequence)
        client.pending.append((topic, incarnation, sequence, values))

    @precondition(lambda self: self.clients)
    @rule(data=st.data())
    def flush(self, data):
        """Everything buffered becomes visible at once; if a topic of it has gone, nothing does."""
        name = data.draw(st.sampled_from(sorted(self.clients)))
        self._finish(name, self.clients[name].producer.flush)

    @precondition(lambda self: self.clients)
    @rule(data=st.data(), topic=NAMES, count=st.integers(1, 5))
    def send_at_once(self, data, topic, count):
        """A batch with a sequence, and a flush."""
        name = data.draw(st.sampled_from(sorted(self.clients)))
        self._send(name, topic, count, is_sequenced=True)
        self._finish(name, self.clients[name].producer.flush)

    def _finish(self, name, flush):
        client = self.clients[name]
        if all(self._is_there(topic, incarnation) for topic, incarnation, _, _ in client.pending):
            flush()
            self._commit(name, client)
        else:
            with pytest.raises((EpochFailedError, TopicNotFoundError)):
                flush()
            client.known.clear()
        client.pending.clear()

    def _is_there(self, topic, incarnation):
        return topic in self.model and self.incarnations[topic] == incarnation

    def _commit(self, name, client):
        for topic, incarnation, sequence, values in client.pending:
            offsets = self._append(topic, values)
            if sequence is not None:
                self.sequences.setdefault((name, topic, incarnation), {})[sequence] = offsets

    def _append(self, topic, values):
        held = self.model[topic]
        chosen = partitions([pa.array(values, pa.int64())], len(held))
        before = {partition: len(rows) for partition, rows in held.items()}
        for partition, value in zip(chosen.tolist(), values):
            held[partition].append(value)
        return {partition: (before[partition], len(rows)) for partition, rows in held.items() if len(rows) > before[partition]}

    @precondition(lambda self: any(not client.pending for client in self.clients.values()))
    @rule(data=st.data(), is_kept=st.booleans(), sends=st.lists(st.tuples(NAMES, st.integers(1, 4)), min_size=1, max_size=4))
    def transact(self, data, is_kept, sends):
        """A transaction over topics is there whole, or not at all."""
        name = data.draw(st.sampled_from(sorted(name for name, client in self.clients.items() if not client.pending)))
        client = self.clients[name]

        def run():
            with client.producer.transaction():
                for topic, count in sends:
                    self._send(name, topic, count, is_sequenced=False)
                if not is_kept:
                    raise ZeroDivisionError

        if is_kept:
            try:
                run()
            except (EpochFailedError, TopicNotFoundError):
                assert not all(self._is_there(topic, incarnation) for topic, incarnation, _, _ in client.pending)
                client.known.clear()
            else:
                self._commit(name, client)
        else:
            with pytest.raises(ZeroDivisionError):
                run()
            client.known.clear()
        client.pending.clear()

    @precondition(lambda self: any(self.sequences.values()))
    @rule(data=st.data())
    def send_again(self, data):
        """A batch that was committed is not written again, and its offsets are those of the first time."""
        name, topic, incarnation = data.draw(st.sampled_from(sorted(self.sequences)))
        client = self.clients.get(name)
        if client is None or client.pending or not self._is_there(topic, incarnation):
            return
        if client.known.setdefault(topic, incarnation) != incarnation:
            return
        known = self.sequences[name, topic, incarnation]
        sequence = data.draw(st.sampled_from(sorted(known)))
        receipt = client.producer.send_batch(topic, [{"v": -1}], sequence=sequence)
        assert receipt.is_duplicate and receipt.offsets == known[sequence]

    # The log

    @rule(milliseconds=st.integers(0, 10_000))
    def wait(self, milliseconds):
        self.clock.advance(milliseconds)

    @rule()
    def reopen(self):
        """A log that was closed holds what it held; what was buffered is gone."""
        self.log.close()
        self.log = open_log(self.folder, self.clock)
        self.clients = {name: Client(self.log.producer(name)) for name in self.clients}

    @precondition(lambda self: self.model)
    @rule(data=st.data(), start=st.integers(0, 12), length=st.integers(0, 12))
    def read_a_part(self, data, start, length):
        """A part of a topic is that part of the list."""
        topic = data.draw(st.sampled_from(sorted(self.model)))
        found: dict[int, list[int]] = {partition: [] for partition in self.model[topic]}
        for row in self.log.read(topic, start=start, end=start + length).to_pylist():
            assert row["_offset"] == start + len(found[row["_partition"]])
            found[row["_partition"]].append(row["v"])
        assert found == {partition: rows[start : start + length] for partition, rows in self.model[topic].items()}

    @invariant()
    def holds_what_the_model_holds(self):
        """Every topic, every partition, every row, and offsets without a gap."""
        if not hasattr(self, "log"):
            return
        assert self.log.topics() == sorted(self.model)
        assert self.log.catalog.manifest.check() == ()
        for topic, held in self.model.items():
            table = self.log.read(topic)
            places = zip(*(table[name].to_pylist() for name in ("_partition", "_offset", "v")))
            assert list(places) == [
                (partition, offset, v) for partition in sorted(held) for offset, v in enumerate(held[partition])
            ]
            assert self.log.end_offsets(topic) == {partition: len(rows) for partition, rows in held.items()}


@pytest.mark.timeout(3_600)
def test_any_sequence_of_calls(record_property):
    """Whatever is called in whatever order, the log and the model agree."""
    run_state_machine_as_test(LogMachine, settings=SETTINGS)
    record_property("tried", {"sequences": SETTINGS.max_examples, "steps of each": SETTINGS.stateful_step_count})


def keep(outbox):
    """An aborted transaction whose rows are not forgotten."""
    outbox._in_transaction = False


def put_in_front(topic, batch, chosen):
    """The rows of each partition, the last one first."""
    return split_as(topic, batch.take(list(range(batch.num_rows))[::-1]), chosen[::-1])


BUGS = {
    "sequences are not looked up": lambda patch: patch(Producer, "_known", lambda producer, reader, sequence: None),
    "an aborted transaction stays buffered": lambda patch: patch(Outbox, "discard", keep),
    "an older instance is not fenced": lambda patch: patch("streamkit.log.catalog.producers.check_turn", lambda *_: None),
    "rows are put in front": lambda patch: patch(draft, "split_as", put_in_front),
}


@pytest.mark.parametrize("bug", BUGS)
def test_a_wrong_log_is_caught(bug, monkeypatch):
    """Each way to be wrong shows within some sequences."""
    BUGS[bug](monkeypatch.setattr)

    with pytest.raises(BaseException):  # noqa: B017  a failure of pytest is no Exception
        run_state_machine_as_test(
            LogMachine, settings=settings(SETTINGS, max_examples=60, phases=[Phase.explicit, Phase.generate])
        )
