"""
The epoch in which a start brings stored state forward, before the application takes any record.

It converts aggregates that an earlier version kept in another format, gives stored groups the aggregates and stored rows the columns
that were added, and fills copies of tables that joins have not looked up before, and stores that are younger than the rows in them.
Stores that a replay has filled again become the application's in it.
It is an epoch as any other, of the new generation, in one transaction: before it all is as it was, and it is not repeated.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from streamkit.engine.epoch.epoch import Application, EpochEnd, EpochPlan, StoreNames
from streamkit.engine.epoch.row_counting import SAMPLED_ROWS, STORE_ROWS
from streamkit.engine.epoch.stream_time import METRIC as TIMES
from streamkit.engine.epoch.stream_time import as_metric, committed_times
from streamkit.engine.evolution.adoption import Adoption
from streamkit.engine.evolution.definition import original_of
from streamkit.engine.evolution.filling import Refill, given_by, kept_rows, slices_read
from streamkit.engine.evolution.young_stores import Filling
from streamkit.engine.stage.context import Context, key_groups_of, log_timestamps, runs
from streamkit.errors import OrphanedStateError
from streamkit.expressions.aggregates import neutral, per_aggregate
from streamkit.expressions.aggregates.earlier import has_changed
from streamkit.failpoints import reach
from streamkit.log.catalog.applications import ApplicationState, StoreState
from streamkit.log.catalog.catalog import Catalog
from streamkit.log.catalog.epochs import CONVERTED, EpochCommit, EpochReport
from streamkit.log.slab.frame import TopicColumns
from streamkit.log.slab.reference import SlabReference
from streamkit.log.slab.slab import FrameInput, write_slab
from streamkit.log.storage.storage import Storage
from streamkit.names import TIMESTAMP, SlabName, application_writer, changelog_topic, fresh_token
from streamkit.plan.expression import TypedAggregate
from streamkit.plan.operator import Operator
from streamkit.plan.program import Program
from streamkit.schema import Schema
from streamkit.state.changelog import COLUMNS, CommittedChanges
from streamkit.state.format import METRIC, STATE_FORMAT, decode_states, is_earlier
from streamkit.state.key import with_number
from streamkit.state.key_group import key_group_range
from streamkit.state.layout import layout_of
from streamkit.state.row import decode_rows, encode_rows
from streamkit.state.store import MemoryStore
from streamkit.state.task_state import Share, TaskState, read_changelogs


@dataclass(frozen=True)
class Migration:
    """
    The stores of a started application that are not as its program expects them.

    `evolved` are those whose aggregates or columns are still the ones of the program before. The catalog has that program until the epoch has
    been committed, so that a start after one that died finds the state as what it is. `topic_ids` are those of the program's inputs.
    `adoption` has the stores that were filled again.
    """

    catalog: Catalog
    storage: Storage
    program: Program
    state: ApplicationState
    before: Program | None = None
    evolved: tuple[str, ...] = ()
    filling: Filling | None = None
    topic_ids: tuple[int, ...] = ()
    adoption: Adoption | None = None

    @property
    def adopted(self) -> frozenset[str]:
        """The stores that were filled again, and need nothing else."""
        return frozenset(self.adoption.stores) if self.adoption is not None else frozenset()

    @property
    def converted(self) -> list[str]:
        """The stores whose rows are kept in another way than the program reads them."""
        if not is_earlier(self.state):
            return list(self.evolved)
        names = [store.name for store in self.program.stores if store.name not in self.adopted]
        return [name for name in names if name in self.evolved or any(map(has_changed, self._aggregates_of(name)))]

    @property
    def filled(self) -> dict[str, str]:
        """The copies of tables that are still empty, with the stores that they copy."""
        if self.state.epoch == 0:
            return {}
        originals = {store.name: original_of(self.program, store.name) for store in self.program.stores}
        return {
            copy: original
            for copy, original in originals.items()
            if original is not None and copy not in self.adopted and self._has_changes(original) and not self._has_changes(copy)
        }

    def commit(self, now_ms: int) -> None:
        """Commit the epoch, if there is anything to bring forward; FencedError if a newer generation has started."""
        converted, filled, adoption = self.converted, self.filled, self.adoption
        if not (is_earlier(self.state) or filled or self.evolved or self.filling is not None or adoption is not None):
            return
        slabs = [slab for store in converted for slab in self._slabs(store, store)]
        slabs += [slab for copy, original in filled.items() for slab in self._slabs(original, copy)]
        slabs += [] if self.filling is None else self._slabs_of_filling(self.filling)
        # Rows that are written here are not counted, so the next epoch counts all of them.
        metrics: dict[str, Any] = {"records": 0, "restored": 0, METRIC: STATE_FORMAT, STORE_ROWS: None, SAMPLED_ROWS: None}
        if adoption is not None:
            slabs += [self._written([frame]) for frame in adoption.frames(self.catalog, self.storage, self.state)]
            metrics[TIMES] = as_metric(adoption.times(self.state, self.topic_ids))
        is_other = bool(self.evolved) or self.filling is not None or adoption is not None
        self.catalog.epochs.commit(
            EpochCommit(
                application_id=self.state.id,
                generation=self.state.generation,
                epoch=self.state.epoch + 1,
                token=fresh_token(),
                before={},
                after={},
                stream_time_ms=self.state.stream_time_ms,
                drained=self.state.drained and (adoption is None or adoption.replayed.drained),
                slabs=tuple(slabs),
                metrics=metrics,
                timestamp_ms=now_ms,
                program=self.program.text if is_other else None,
                program_hash=self.program.fingerprint,
                report=EpochReport(
                    {CONVERTED: True}, changelogs=[store.changelog_topic_id for store in self.state.stores.values()]
                ),
            )
        )
        reach("migration.after_commit")

    def _slabs(self, source: str, target: str) -> Iterator[SlabReference]:
        """The rows of a store as changes of another, or of itself as it is kept now; a slab for each part, to bound the memory."""
        for keys, values in self._parts(source):
            if frames := self._frames(source, target, keys, values):
                yield self._written(frames)

    def _slabs_of_filling(self, filling: Filling) -> list[SlabReference]:
        """The first rows of new stores; what follows from the rows read before is in memory at once."""
        slices = slices_read(self.catalog, self.program, filling, self.topic_ids, self.state.positions)
        refill = Refill(filling, self._context(), slices)
        for keeper in filling.keepers:
            refill.rows |= given_by(keeper, self._kept_rows(keeper))
        frames = refill.frames()
        return [self._written(frames)] if frames else []

    def _kept_rows(self, keeper: Operator) -> Iterator[pa.RecordBatch]:
        """What the first store of an operator has as rows, those of a changelog partition at once."""
        first, store = 0, self.program.store(keeper.stores[0])
        for keys, values in self._parts(store.name):
            yield kept_rows(keeper, store, keys, self._now(store.name, values)[1], first)
            first += len(keys)

    def _parts(self, source: str) -> Iterator[tuple[pa.BinaryArray, pa.BinaryArray]]:
        """Keys and values of a store, those of a changelog partition at once, without the lists of windows, which stay as they are."""
        changes = self._changes(self.state.stores[source])
        for part in range(self.program.changelog_partitions):
            groups = key_group_range(part, self.program.changelog_partitions, self.program.key_groups)
            if not groups:
                continue
            share = Share(groups, self.program.key_groups, self.program.changelog_partitions, tuple(changes.ends))
            ranges = layout_of(self.program.store(source)).ranges(self.state.stores[source].number, groups)
            keys, values = read_changelogs(self.storage, share, changes).scan(ranges)
            if len(keys):
                yield keys, values

    def _written(self, frames: Sequence[FrameInput]) -> SlabReference:
        writer = application_writer(self.state.id)
        name = SlabName(writer, self.state.generation, self.state.epoch + 1, fresh_token())
        topics = {
            store.changelog_topic_id: TopicColumns(changelog_topic(self.program.application, store_name), COLUMNS)
            for store_name, store in self.state.stores.items()
        }
        slab = write_slab(self.storage, name, frames, topics=topics)
        reach("migration.slab_durable")
        return slab

    def _context(self) -> Context:
        """What operators run in that find no state yet, and all that the application has read."""
        state, program = self.state, self.program
        stores = {name: StoreNames(one.number, one.changelog_topic_id) for name, one in state.stores.items()}
        application = Application(
            state.id,
            state.name,
            state.generation,
            1,
            program.key_groups,
            program.changelog_partitions,
            0,
            self.topic_ids,
            stores,
            (),
        )
        end = EpochEnd(state.epoch + 1, state.positions, committed_times(state, self.topic_ids))
        changes = CommittedChanges(state.epoch, state.token, {}, {}, (), {})
        plan = EpochPlan(application, EpochEnd(state.epoch, {}), end, 0, changes, {}, {})
        every = range(program.key_groups)
        return Context(program, plan, self.storage, state=TaskState(MemoryStore(), {}, 0), groups=every)

    def _frames(self, source: str, target: str, keys: pa.BinaryArray, values: pa.BinaryArray) -> list[FrameInput]:
        timestamps, values = self._now(source, values)
        values = self._in_order_of(source, target, values)
        keys = with_number(keys, self.state.stores[target].number)
        columns = {"key": keys, "value": values, TIMESTAMP: log_timestamps(timestamps)}
        batch = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
        partitions = key_groups_of(keys) * self.program.changelog_partitions // self.program.key_groups
        changelog_id = self.state.stores[target].changelog_topic_id
        return [(changelog_id, partition, rows) for partition, rows in runs(batch, partitions)]

    def _now(self, store: str, values: pa.BinaryArray) -> tuple[pa.Array, pa.BinaryArray]:
        """The event time of each stored row, and the row as it is kept now."""
        aggregates = self._aggregates_of(store)
        if aggregates:
            held = self.before.keeper(store).aggregates_in(store) if self.before and store in self.evolved else aggregates
            timestamps, states = decode_states(values, held, is_earlier(self.state))
            return timestamps, encode_rows([timestamps, *_evolved(held, states, aggregates, len(values))])
        wanted = self.program.store(store).value
        kept = self.before.store(store).value if self.before and store in self.evolved else wanted
        timestamps, *columns = decode_rows(values, ["bigint", *(column.type for column in kept)])
        if kept.names == wanted.names:
            return timestamps, values
        return timestamps, encode_rows(
            [timestamps, *_with_nulls(dict(zip(kept.names, columns, strict=True)), wanted, len(values))]
        )

    def _in_order_of(self, source: str, target: str, values: pa.BinaryArray) -> pa.BinaryArray:
        """Rows of a store as another keeps them, which may have the same columns in another order: one goes on in the order of before."""
        held, wanted = self.program.store(source).value, self.program.store(target).value
        if held.names == wanted.names:
            return values
        timestamps, *columns = decode_rows(values, ["bigint", *(column.type for column in held)])
        by_name = dict(zip(held.names, columns, strict=True))
        return encode_rows([timestamps, *(by_name[column.name] for column in wanted)])

    def _aggregates_of(self, store: str) -> tuple[TypedAggregate, ...]:
        return self.program.keeper(store).aggregates_in(store)

    def _changes(self, store: StoreState) -> CommittedChanges:
        """All that the store's changelog holds."""
        found = self.catalog.manifest.cut([store.changelog_topic_id], {})
        unlogged = {*self.program.unlogged, *(self.before.unlogged if self.before is not None else ())}
        if store.name in unlogged and any(found.purged_below.values()):
            raise unread_store(store.name, self.program.keeper(store.name).stores)
        ends = {store.changelog_topic_id: found.end_offsets.get(store.changelog_topic_id, {})}
        return CommittedChanges(self.state.epoch, self.state.token, ends, {}, found.extents, {}, purged_below=found.purged_below)

    def _has_changes(self, store: str) -> bool:
        return any(self.catalog.manifest.end_offsets(self.state.stores[store].changelog_topic_id).values())


def unread_store(name: str, stores: Sequence[str]) -> OrphanedStateError:
    """The error for a store without a log that a start would have to read; `stores` are those of its step."""
    return OrphanedStateError(
        f"the store {name!r} has no log, so a start cannot read its rows to bring them into their new form, or to fill another store with them; "
        f"expected the topology as before, or another store in its place, with app.drop_store({', '.join(map(repr, stores))})"
    )


def _evolved(
    held: Sequence[TypedAggregate], states: Sequence[pa.Array], wanted: Sequence[TypedAggregate], rows: int
) -> Iterator[pa.Array]:
    """The state columns of the wanted aggregates: as they are held, or of no value yet."""
    by_name = {one.name: own for one, own in per_aggregate(held, states)}
    for one in wanted:
        yield from by_name[one.name] if one.name in by_name else neutral(one, rows)


def _with_nulls(held: Mapping[str, pa.Array], wanted: Schema, rows: int) -> Iterator[pa.Array]:
    """The wanted columns of rows, or of lists of rows: as they are held, or null in every row."""
    for column in wanted:
        if column.name in held:
            yield held[column.name]
        elif TIMESTAMP in held:
            yield _list_of_nulls(held[TIMESTAMP], column.arrow.type)
        else:
            yield pa.nulls(rows, column.arrow.type)


def _list_of_nulls(times: pa.ListArray, wanted: pa.ListType) -> pa.ListArray:
    """Lists of nulls, as long as those of the rows' times."""
    lengths = times.value_lengths().to_numpy(zero_copy_only=False)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), pa.nulls(int(offsets[-1]), wanted.value_type))
