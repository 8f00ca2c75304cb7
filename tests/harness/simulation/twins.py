"""Those who live with the twins: one sends the same rows to all three, one looks whether those that lose rows lose the right ones."""

from __future__ import annotations

from random import Random
from typing import Any

import pyarrow as pa

from streamkit.errors import FencedError, OffsetOutOfRangeError
from streamkit.log.consume.reader import Reader
from streamkit.log.log import Log
from tests.harness.simulation.topics import AGING, COMPACTED, DELETE_RETENTION_MS, RETENTION_MS, TWIN_PARTITIONS, TWINS, WHOLE
from tests.harness.simulation.world import FILE_DELETE_DELAY_MS, World
from tests.kit.twins import Row, check_twin

KEYS = 5
ROWS_MAX = 4
_SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.int64()), ("_timestamp", pa.timestamp("ms", "UTC")), ("_deleted", pa.bool_())])
Rows = dict[int, dict[int, Row]]  # by partition and offset


class TwinSender:
    """A producer whose transactions hold the same rows for each of the twins."""

    def __init__(self, number: int, batches: int) -> None:
        self.name = f"twin-sender-{number}"
        self._batches = batches
        self._told = 0

    def live(self, log: Log, world: World) -> None:
        """Send what was not acknowledged; end when another life has taken over."""
        try:
            producer = log.producer(self.name)
            for batch in range(self._told + 1, self._batches + 1):
                table = self._table(world, batch)
                with producer.transaction():
                    for topic in TWINS:
                        producer.send_batch(topic, table, sequence=batch)
                self._told = max(self._told, batch)
        except FencedError:
            world.events["fenced"] += 1

    def _table(self, world: World, batch: int) -> pa.Table:
        random, now_ms = Random(f"{world.seed} {self.name} {batch}"), world.clock.now_ms()
        rows = [self._row(random, now_ms) for _ in range(random.randint(1, ROWS_MAX))]
        return pa.Table.from_pylist(rows, _SCHEMA)

    def _row(self, random: Random, now_ms: int) -> dict[str, Any]:
        is_deletion = random.random() < 0.3
        # A deletion has the time at which it was sent, so that it is known from when on it may be forgotten.
        time_ms = now_ms if is_deletion else now_ms - random.choice((0, 10, 9_000))
        return {"k": random.randrange(KEYS), "v": None if is_deletion else now_ms, "_timestamp": time_ms, "_deleted": is_deletion}


class TwinWatcher:
    """A reader of the twins. A look that took longer than files are kept is worth nothing."""

    def __init__(self, number: int, looks: int) -> None:
        self.name = f"twin-watcher-{number}"
        self._left = looks

    def live(self, log: Log, world: World) -> None:
        """Look until it has looked often enough."""
        while self._left > 0:
            self._left -= 1
            for topic in (COMPACTED, AGING):
                self._look(log, world, topic)

    def _look(self, log: Log, world: World, topic: str) -> None:
        begun_ms = world.clock.now_ms()
        reader = Reader(log.storage, log.catalog, log.topic(topic))
        try:
            held = _rows(reader.table())
        except OffsetOutOfRangeError:
            world.events["overtaken by retention"] += 1
            return
        whole = _rows(log.read(WHOLE))
        if world.clock.now_ms() - begun_ms > FILE_DELETE_DELAY_MS:
            world.events["looks that took too long"] += 1
            return
        world.events[f"looks at {topic}"] += 1
        for partition in range(TWIN_PARTITIONS):
            self._check(
                world, topic, whole[partition], held[partition], reader.start_offsets[partition], reader.end_offsets[partition]
            )

    def _check(self, world: World, topic: str, whole: dict[int, Row], held: dict[int, Row], start: int, end: int) -> None:
        now_ms = world.clock.now_ms()
        found = list(
            check_twin(
                whole, held, start, end,
                is_compacted=topic == COMPACTED,
                may_forget=lambda row: row.time_ms + DELETE_RETENTION_MS <= now_ms,
            )
        )  # fmt: skip
        assert found == [], f"{topic}: {found}"
        assert all(whole[offset].time_ms < now_ms - RETENTION_MS for offset in range(start)), (
            f"{topic} begins at {start} too early"
        )
        world.events["rows seen to be dropped"] += sum(offset not in held for offset in range(end))


def _rows(table: pa.Table) -> Rows:
    found: Rows = {partition: {} for partition in range(TWIN_PARTITIONS)}
    deleted = table["_deleted"].to_pylist() if "_deleted" in table.column_names else [False] * table.num_rows
    times = table["_timestamp"].cast(pa.int64()).to_pylist()
    columns = (table[name].to_pylist() for name in ("_partition", "_offset", "k", "v"))
    for partition, offset, key, value, time_ms, is_deleted in zip(*columns, times, deleted):
        found[partition][offset] = Row(key, None if is_deleted else value, time_ms)
    return found
