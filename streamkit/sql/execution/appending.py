"""The rows that a script inserts: in the transaction of its other changes, or in one commit of a producer."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from streamkit.log.catalog.producers import ProducerCommit, ProducerState
from streamkit.log.log import Log
from streamkit.log.produce.draft import Draft, split
from streamkit.log.produce.receipt import Settlement
from streamkit.log.slab.reference import SlabReference
from streamkit.log.slab.slab import write_slab
from streamkit.log.storage.replicated_storage import has_copies
from streamkit.log.topic.topic import Topic
from streamkit.names import SlabName, fresh_token, producer_writer
from streamkit.sql.execution.script_state import ScriptState


@dataclass
class ScriptRows:
    """The rows of a script, and the slabs that were made of them; `in_files` says that the catalog has no room for small ones."""

    log: Log
    state: ScriptState
    in_files: bool = False
    staged: list[SlabReference] = field(default_factory=list)
    _producer: ProducerState | None = None
    _topics: dict[str, Topic] = field(default_factory=dict)

    def open(self) -> None:
        """Get a producer's id and the topics, before the transaction that the rows are in."""
        self._producer = self.log.catalog.producers.open(None)
        self._topics = {name: self.state.definitions.topic(name) for name in self.state.rows}

    def commit(self, changed: Mapping[str, Topic]) -> ProducerCommit:
        """The rows as a commit, in the transaction that has created or altered these topics; it may be asked for again."""
        producer, log = self._producer, self.log
        assert producer is not None, "it is open"
        draft, keyless, now_ms = Draft(Settlement(), log.settings.frame_rows), itertools.count(), log.clock.now_ms()
        for topic_name, batches in self.state.rows.items():
            topic = changed.get(topic_name) or self._topics[topic_name]
            for batch in batches:
                draft.add(topic, [split(topic, batch, next(keyless))], batch.nbytes, None, now_ms)
        frames = draft.frames(now_ms)
        compressions = {topic.id: topic.compression for topic in draft.topics.values()}
        inline_bytes = 0 if self.in_files or has_copies(log.storage) else log.settings.inline_slab_bytes
        name = SlabName(producer_writer(producer.id), producer.epoch, producer.serial + 1, fresh_token())
        slab = write_slab(log.storage, name, frames, compressions, draft.topics, inline_bytes)
        self.staged.append(slab)
        return ProducerCommit(producer.id, producer.epoch, producer.serial + 1, fresh_token(), (slab,))

    def send(self) -> None:
        """Commit the rows by themselves."""
        with self.log.producer() as producer, producer.transaction():
            for topic, batches in self.state.rows.items():
                for batch in batches:
                    producer.send_batch(topic, batch)


@contextmanager
def appended(log: Log, state: ScriptState) -> Iterator[ScriptRows]:
    """The rows of a script for the length of its commit; slabs that were made in vain go."""
    rows = ScriptRows(log, state)
    committed: SlabReference | None = None
    try:
        yield rows
        committed = rows.staged[-1] if rows.staged else None
    finally:
        for slab in rows.staged:
            if slab.data is None and slab is not committed:
                log.storage.delete(slab.path)
