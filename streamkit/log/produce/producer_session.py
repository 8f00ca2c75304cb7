"""A producer's side towards storage and catalog: under which names it stages slabs, and that it commits a draft once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from streamkit.clock import Clock
from streamkit.errors import (
    EpochFailedError,
    FencedError,
    OffsetOutOfRangeError,
    OutcomeUnknownError,
    StreamKitError,
    TopicNotFoundError,
)
from streamkit.log.catalog.catalog import Catalog
from streamkit.log.catalog.inline_slabs import InlineFullError
from streamkit.log.catalog.producers import ProducerCommit, ProducerState, Ranges, first_offsets
from streamkit.log.maintenance.orphans import collect_orphans
from streamkit.log.produce.draft import Draft
from streamkit.log.slab.reference import SlabReference
from streamkit.log.slab.slab import FrameInput, RowShapes, in_a_file, write_slab
from streamkit.log.storage.replicated_storage import has_copies
from streamkit.log.storage.storage import Storage
from streamkit.log.topic.topic import Topic
from streamkit.names import SlabName, fresh_token, producer_writer

_DECIDED = (FencedError, EpochFailedError, TopicNotFoundError, OffsetOutOfRangeError)  # raised where no such commit was found
# By then the next instance may have committed, and the rows may have been merged and their slab deleted: nothing is left to tell.
_LOST = "its last commit, whose outcome was unknown, is not found; read the topic to see whether its rows are there nevertheless"
IDLE_MS = 3_600_000  # after so long a producer without a name opens again, so that it is not retired with a commit on its way


class ProducerSession:
    """One opening of a producer after the other: its epoch, its commits, the sequences it committed. Used by one thread at a time."""

    def __init__(self, storage: Storage, catalog: Catalog, clock: Clock, name: str | None, inline_slab_bytes: int = 0) -> None:
        self.name = name
        self.storage = storage
        self._catalog = catalog
        self.clock = clock
        self._inline_slab_bytes = inline_slab_bytes
        self._state: ProducerState | None = None
        self._seen_ms = 0
        self._sequences: dict[int, int] = {}

    def open(self) -> ProducerState:
        """The producer as it was opened; the first time this opens it, and collects what older instances of the name left."""
        if self._state is None:
            self._state = self._catalog.producers.open(self.name)
            self._seen_ms = self.clock.now_ms()
            if self.name is not None:
                collect_orphans(
                    self.storage, self._catalog, producer_writer(self._state.id), self._state.epoch, self._state.serial
                )
        return self._state

    def last_sequence(self, topic: Topic) -> int:
        """The newest sequence committed to a topic; -1 if there is none."""
        if topic.id not in self._sequences:
            committed = self._catalog.producers.last_sequence(self.open().id, topic.id)
            self._sequences[topic.id] = -1 if committed is None else committed
        return self._sequences[topic.id]

    def sequence_offsets(self, topic: Topic, sequence: int) -> Ranges | None:
        """The offsets that a sequenced batch got, if they are remembered; ConfigError if its number was left out."""
        return self._catalog.producers.offsets_of(self.open().id, topic.id, sequence)

    def open_again_if_idle(self) -> None:
        """Open a producer without a name again before its next commit, if it was silent for so long that it may be retired."""
        if self.name is None and self.clock.now_ms() - self._seen_ms > IDLE_MS:
            self._state = None

    def slab_of(self, frames: Iterable[FrameInput], compressions: Mapping[int, str], topics: RowShapes) -> SlabReference:
        """A slab of the next commit with these frames: a file, or bytes that the commit makes durable if they are few."""
        state = self.open()
        name = SlabName(producer_writer(state.id), state.epoch, state.serial + 1, fresh_token())
        inline_bytes = 0 if has_copies(self.storage) else self._inline_slab_bytes  # the catalog would keep one copy
        return write_slab(self.storage, name, frames, compressions, topics, inline_bytes)

    def commit(self, draft: Draft) -> Mapping[tuple[int, int], int]:
        """
        Make a staged draft visible; returns the first offset it got in each topic partition.

        The same draft may be committed again after any error, to the same effect. Unless that is OutcomeUnknownError, nothing
        of it is visible; a FencedError that comes after that one leaves it open, and says so. TopicNotFoundError names the
        topics that were deleted meanwhile.
        """
        if draft.commit is None:
            draft.commit = self._prepared(draft)
        was_uncertain, draft.is_uncertain = draft.is_uncertain, True
        try:
            extents = self._catalog.producers.commit(draft.commit)
        except OutcomeUnknownError:
            raise
        except InlineFullError:  # nothing of it is visible: the catalog looks for the commit first
            draft.is_uncertain = was_uncertain
            draft.slabs = [in_a_file(self.storage, slab) for slab in draft.slabs]
            draft.commit = replace(draft.commit, slabs=tuple(draft.slabs))
            return self.commit(draft)
        except StreamKitError as error:
            if was_uncertain and not isinstance(error, _DECIDED):
                raise OutcomeUnknownError(error) from error
            draft.is_uncertain = False
            if was_uncertain and isinstance(error, FencedError):
                raise FencedError(f"{error}; {_LOST}") from error
            if isinstance(error, EpochFailedError):
                self._check_topics(draft)
            raise
        self._advance(draft, draft.commit)
        return self._placed(draft.commit, first_offsets(extents))

    def drop(self, draft: Draft) -> None:
        """Forget a draft; its slabs go, unless it may have been committed: then this opening of the producer ends instead."""
        if draft.is_uncertain:
            self._state = None
        else:
            for slab in draft.slabs:
                self.storage.delete(slab.path)
        self._sequences.clear()

    def _check_topics(self, draft: Draft) -> None:
        """TopicNotFoundError if topics of the draft were deleted: no later attempt finds them, so this is not an EpochFailedError."""
        standing = {topic_id for topic_id, _ in self._catalog.manifest.offset_bounds(draft.topics)}
        gone = [topic.name for topic in draft.topics.values() if topic.id not in standing]
        others = [topic.name for topic in draft.topics.values() if topic.id in standing]
        if gone:
            company = f", nor of those for {', '.join(others)} that were in the same commit: send these again" if others else ""
            raise TopicNotFoundError(
                f"topic {', '.join(gone)} was deleted, or deleted and created again, after rows were sent to it; nothing of them becomes "
                f"visible{company}"
            )

    def _prepared(self, draft: Draft) -> ProducerCommit:
        state = self.open()
        return ProducerCommit(
            state.id, state.epoch, state.serial + 1, fresh_token(), tuple(draft.slabs), draft.sequences(), tuple(draft.group_commits.values())
        )  # fmt: skip

    def _placed(self, commit: ProducerCommit, bases: dict[tuple[int, int], int]) -> dict[tuple[int, int], int]:
        """
        The first offset in each topic partition; where rows were merged since, as far as their sequences are remembered.

        They were if the outcome of the commit was unknown before.
        """
        for batch in commit.sequences:
            if any((batch.topic_id, partition) not in bases for partition in batch.parts):
                ranges = self._catalog.producers.offsets_of(commit.producer_id, batch.topic_id, batch.sequence) or {}
                bases |= {
                    (batch.topic_id, partition): first - batch.parts[partition][0] for partition, (first, _) in ranges.items()
                }
        return bases

    def _advance(self, draft: Draft, commit: ProducerCommit) -> None:
        state = self.open()
        self._state = ProducerState(state.id, state.name, state.epoch, commit.serial)
        self._seen_ms = self.clock.now_ms()
        for batch in commit.sequences:
            self._sequences[batch.topic_id] = batch.sequence
