"""
The driver's part of a write: before it, who writes; after it, one transaction that makes all slabs of all tasks visible.

A producer with a name is not opened for each write: tasks write slabs of its next commit, and a commit finds out whether that
is still the next one. So a query that must not write, since the name belongs to another, takes nothing from that other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from streamkit.errors import ConfigError, EpochFailedError, FencedError, SchemaError
from streamkit.failpoints import reach
from streamkit.log.catalog.producers import ProducerCommit, SequencedBatch
from streamkit.log.log import Log
from streamkit.log.rows.records import records_of
from streamkit.log.slab.reference import SlabReference
from streamkit.log.slab.slab import verify_slab, write_slab
from streamkit.log.topic.topic import Topic, check_writable
from streamkit.names import SlabName, fresh_token, producer_writer
from streamkit.spark.dataframe.options import WriteOptions
from streamkit.spark.dataframe.owners import declare_owners, owner_row, read_owner
from streamkit.spark.dataframe.staging import WritePlan, without_places
from streamkit.spark.task_storage import place_of


def plan_write(log: Log, options: WriteOptions, schema: StructType) -> WritePlan:
    """Who writes the next commit; SchemaError if the columns are not those of the topic."""
    topic = check_writable(log.catalog.topics.get(options.topic))
    form = to_arrow_schema(schema, timezone="UTC")  # no row is needed to see whether it fits
    if twice := [name for name, times in Counter(form.names).items() if times > 1]:
        raise SchemaError(f"found the column {twice[0]!r} several times in the rows for topic {topic.name}; expected it once")
    records_of(topic, without_places(pa.RecordBatch.from_pylist([], schema=form)), log.clock.now_ms())
    known = log.catalog.producers.find(options.id) if options.id is not None else None
    state = known or log.catalog.producers.open(options.id)
    return WritePlan(
        place_of(log),
        topic,
        producer_writer(state.id),
        state.epoch,
        state.serial + 1,
        log.settings.frame_rows,
        log.catalog.producers.last_sequence(state.id, topic.id),
    )


def commit_write(
    log: Log, topic: Topic, producer: str | None, owner: str, sequence: int | None, slabs: Sequence[SlabReference]
) -> bool:
    """
    Make what the tasks wrote visible, all at once; False if that sequence was committed before.

    `owner` is who writes: ConfigError if the producer's name is another's; a write with a sequence takes one that is nobody's.
    FencedError if another write of the producer was committed, or it was opened, since this one began.
    """
    is_new = False
    if producer is not None:
        last = None if sequence is None else _last_sequence(log, producer, topic)
        is_new = _check_owner(log, producer, owner, last) and sequence is not None
        if sequence is not None and last is not None and sequence <= last:
            return False
    if not slabs:
        return True
    for slab in slabs:
        verify_slab(log.storage_now(), slab)
    name = slabs[0].name
    written = [*slabs, _owner_slab(log, name, str(producer), owner)] if is_new else list(slabs)
    sequences = () if sequence is None else (SequencedBatch(topic.id, sequence, _parts(topic, slabs)),)
    reach("dataframe.staged")
    try:
        log.catalog.producers.commit(
            ProducerCommit(int(name.writer[1:]), name.generation, name.serial, fresh_token(), tuple(written), sequences)
        )
    except EpochFailedError as error:
        raise FencedError(
            f"the rows written to topic {topic.name} do not become visible, because another write of the producer "
            f"{producer or 'without a name'} was committed since it began, or the topic was deleted: {error}; write it again"
        ) from error
    reach("dataframe.committed")
    return True


def _last_sequence(log: Log, producer: str, topic: Topic) -> int | None:
    """The newest sequence that a producer committed to a topic, if any."""
    state = log.catalog.producers.find(producer)
    return None if state is None else log.catalog.producers.last_sequence(state.id, topic.id)


def _check_owner(log: Log, producer: str, owner: str, last: int | None) -> bool:
    """Whether nobody has counted the producer's sequences yet; ConfigError if another does."""
    found = read_owner(log, producer)
    if found is None and last is not None:
        found = f"a client that has counted to {last}"
    if found not in (None, owner):
        raise ConfigError(
            f"the producer {producer} belongs to {found}, and this is {owner}: a new checkpoint begins to count at 0 again, and its "
            "batches would be taken for those that are written already. Go on with the checkpoint of that query, or write with "
            'another .option("id", …)'
        )
    return found is None


def _owner_slab(log: Log, name: SlabName, producer: str, owner: str) -> SlabReference:
    """A slab of the same commit that says whose sequences these are."""
    topic = declare_owners(log)
    (rows,) = records_of(topic, owner_row(producer, owner), log.clock.now_ms())
    fresh = SlabName(name.writer, name.generation, name.serial, fresh_token())
    return write_slab(log.storage_now(), fresh, [(topic.id, 0, rows)], topics={topic.id: topic})


def _parts(topic: Topic, slabs: Sequence[SlabReference]) -> dict[int, tuple[int, int]]:
    """How many rows of the commit each partition gets, with none before them."""
    rows: Counter[int] = Counter()
    for slab in slabs:
        for frame in slab.frames:
            rows[frame.partition] += frame.rows
    return {partition: (0, count) for partition, count in sorted(rows.items())}
