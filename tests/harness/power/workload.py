"""
What the log does while its power fails: steps that can each be taken again without harm, and what the log holds after each.

A step is a value; the same seed makes the same steps. Steps with sequences are repeated as any client would that was not
told how they ended; those without are repeated only if what they send is not there.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from streamkit.log.log import Log
from streamkit.log.maintenance.segment import SegmentWriter
from streamkit.log.maintenance.trash import empty_trash
from streamkit.log.opening import open_log
from streamkit.log.produce.producer import Producer
from streamkit.log.topic.settings import SettingValue

Contents = dict[
    str, dict[int, list[int]]
]  # values by topic and partition, in the order of offsets; of a compacted topic, the newest
KEYS = 5
NEWEST = "newest"  # a topic that is compacted
COMMITTED = "committed"  # beside the topics: what the group has committed
GROUP = "group"
TOPICS: dict[str, tuple[int, dict[str, SettingValue]]] = {
    "plain": (2, {}),
    "packed": (1, {"compression.type": "lz4"}),
    "dense": (3, {"compression.type": "zstd"}),
    NEWEST: (1, {"cleanup.policy": "compact"}),
}
PRODUCERS = ("first", "second")
INLINE_SLAB_BYTES = 800  # some sends stay in the catalog, larger ones get files
NEVER_MS = (1 << 63) - 1
KINDS = (
    *("send", "send", "send", "large", "transaction", "transaction", "process", "abort", "anonymous", "recreate", "reopen"),
    *("merge", "merge", "compact", "cut"),
)  # fmt: skip
SENDS = {"send", "large", "transaction", "process", "anonymous", "abort"}


class AbortedError(Exception):
    """A transaction is given up."""


@dataclass(frozen=True)
class Step:
    """One thing that a client does; `rows` are values by topic, all different."""

    kind: str
    producer: str = ""
    sequence: int = 0
    rows: dict[str, list[int]] = field(default_factory=dict)


def steps_of(seed: int, count: int) -> list[Step]:
    """The steps of a seed: first the topics, then anything."""
    random = Random(f"steps {seed}")
    steps = [Step("create", rows={topic: []}) for topic in TOPICS]
    for number in range(1, count + 1):
        kind = random.choice(KINDS)
        chosen = random.sample(sorted(TOPICS), random.randint(2, 3) if kind == "transaction" else 1)
        rows = 200 if kind == "large" else random.randint(1, 12)
        values = {topic: [number * 10_000 + place * 1_000 + one for one in range(rows)] for place, topic in enumerate(chosen)}
        if kind == "recreate":
            steps += [Step("delete", rows=values), Step("create", rows=values)]
        else:
            steps.append(Step(kind, random.choice(PRODUCERS), number, values))
    return steps


class Client:
    """A process that uses the log in a folder."""

    def __init__(self, folder: str, vfs: str | None = None) -> None:
        self._folder, self._vfs = folder, vfs
        self._open()

    def _open(self) -> None:
        self.log: Log = open_log(self._folder, vfs=self._vfs)
        self.log.settings = replace(self.log.settings, inline_slab_bytes=INLINE_SLAB_BYTES)
        self._producers: dict[str, Producer] = {}
        self._beat()

    def _beat(self) -> None:
        """Say that this client is alive; whatever the file of heartbeats had become, that is known then."""
        self.log.heartbeats.beat("client")
        assert self.log.heartbeats.ages_ms("client").keys() == {"client"}

    def close(self) -> None:
        self.log.close()

    def take(self, step: Step) -> None:
        """Take a step, or take it again: returns when it is done."""
        getattr(self, f"_{step.kind}")(step)

    def contents(self) -> Contents:
        """Everything that the log holds; AssertionError if offsets are not dense."""
        found: Contents = {}
        for topic in self.log.topics():
            ends = self.log.end_offsets(topic)
            starts = self.log.catalog.manifest.start_offsets(self.log.topic(topic).id)
            found[topic] = {partition: [] for partition in ends}
            table = self.log.read(topic)
            values = table["v"].to_pylist()
            assert table["text"].to_pylist() == [text_of(value) for value in values], f"{topic}: rows are torn"
            for value, partition, offset in zip(values, table["_partition"].to_pylist(), table["_offset"].to_pylist()):
                expected = starts[partition] + len(found[topic][partition])
                assert offset == expected or topic == NEWEST, f"{topic}: offset {offset} of partition {partition} is not dense"
                found[topic][partition].append(value)
            if topic == NEWEST:
                found[topic] = {partition: newest_of(values) for partition, values in found[topic].items()}
            else:
                assert {partition: starts[partition] + len(values) for partition, values in found[topic].items()} == ends
        found[COMMITTED] = {partition: [offset] for partition, offset in self._committed().items()}
        assert self.log.catalog.manifest.check() == ()
        return found

    def _committed(self) -> dict[int, int]:
        if "plain" not in self.log.topics():
            return {}
        return self.log.catalog.groups.committed_offsets(GROUP).get(self.log.topic("plain").id, {})

    def _producer(self, name: str) -> Producer:
        if name not in self._producers:
            self._producers[name] = self.log.producer(name)
        return self._producers[name]

    def _create(self, step: Step) -> None:
        for topic in step.rows:
            partitions, config = TOPICS[topic]
            key = "k" if topic == NEWEST else "v"
            self.log.create_topic(topic, "k bigint, v bigint, text string", key=key, partitions=partitions, config=config)

    def _send(self, step: Step) -> None:
        producer = self._producer(step.producer)
        for topic, values in step.rows.items():
            producer.send_batch(topic, rows_of(values), sequence=step.sequence)
        producer.flush()
        self._beat()

    _large = _send

    def _transaction(self, step: Step) -> None:
        producer = self._producer(step.producer)
        with producer.transaction():
            for topic, values in step.rows.items():
                producer.send_batch(topic, rows_of(values), sequence=step.sequence)

    def _process(self, step: Step) -> None:
        """A transaction that commits what a group has read, too: nothing of what it sends itself, however often it is tried."""
        producer = self._producer(step.producer)
        own = set(step.rows.get("plain", ()))
        held = self.contents()["plain"]
        ends = {partition: end - len(own & set(held[partition])) for partition, end in self.log.end_offsets("plain").items()}
        with producer.transaction():
            for topic, values in step.rows.items():
                producer.send_batch(topic, rows_of(values), sequence=step.sequence)
            producer.send_offsets(GROUP, {"plain": {partition: min(step.sequence, end) for partition, end in ends.items()}})

    def _merge(self, step: Step) -> None:
        """Every partition comes into one file; what it took the place of is deleted, as if the delay of files were over."""
        writer = SegmentWriter(self.log.storage, self.log.catalog)
        for name in self.log.topics():
            topic = self.log.topic(name)
            for partition in self.log.end_offsets(name):
                extents = self.log.catalog.manifest.extents(topic.id, partition)
                if len({extent.path for extent in extents}) > 1:
                    writer.rewrite(topic, extents)
        self._empty_trash()

    def _compact(self, step: Step) -> None:
        self.log.compact(NEWEST)
        self._empty_trash()

    def _cut(self, step: Step) -> None:
        """Rows before an offset of one partition go, most often from the middle of a frame."""
        for topic in step.rows.keys() - {NEWEST}:
            self.log.delete_records(topic, {0: min(step.sequence, self.log.end_offsets(topic)[0])})
        self._empty_trash()

    def _empty_trash(self) -> None:
        empty_trash(self.log.storage, self.log.catalog, NEVER_MS)

    def _abort(self, step: Step) -> None:
        try:
            with self._producer(step.producer).transaction():
                for topic, values in step.rows.items():
                    self._producer(step.producer).send_batch(topic, rows_of(values))
                self._producer(step.producer)._outbox._relieve()  # as a full buffer would
                raise AbortedError
        except AbortedError:
            pass

    def _anonymous(self, step: Step) -> None:
        ((topic, values),) = step.rows.items()
        if any(values[0] in held for held in self.contents()[topic].values()):
            return
        with self.log.producer() as producer:
            producer.send_batch(topic, rows_of(values))

    def _delete(self, step: Step) -> None:
        (topic,) = step.rows
        if topic in self.log.topics():
            self.log.delete_topic(topic)
        self._producers.clear()

    def _reopen(self, step: Step) -> None:
        self.close()
        self._open()


def rows_of(values: list[int]) -> list[dict[str, Any]]:
    return [{"k": value % KEYS, "v": value, "text": text_of(value)} for value in values]


def newest_of(values: list[int]) -> list[int]:
    """The last value of each key."""
    return sorted({value % KEYS: value for value in values}.values())


def text_of(value: int) -> str:
    """A text that follows from the value, so that a row is whole or not."""
    return f"{value:07d} " * 3
