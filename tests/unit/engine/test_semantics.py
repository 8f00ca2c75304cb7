"""The engine against the reference, record by record, on random data, however the work is cut."""

from __future__ import annotations

import shutil
from itertools import zip_longest
from typing import Any

import pytest

from streamkit.engine.runs.compile import compile
from streamkit.engine.runs.local import run_next
from streamkit.engine.runs.start import start
from streamkit.log.log import Log
from streamkit.plan.program import Program
from tests.kit.engine_run import Run, append, by_key, execute, fresh_log, metric, placed, stored, waiting, written
from tests.kit.reference import Interpreter, Key, Row, canonical_order
from tests.kit.sampling import TAKES_ALL, first
from tests.unit.engine.cases import CASES, Case
from tests.unit.engine.random_data import RandomData, create_topics, fill

Written = list[tuple[Any, ...]]
ROWS = 45
FEW_ROWS = ROWS if TAKES_ALL else 18  # where each record is an epoch
ROWS_OF_GENERATIONS = ROWS if TAKES_ALL else 30
FIRST_MS = {1: 0, 2: -40, 3: 1_000_000}  # by seed; the second begins before 1970
CUTS = [  # how the work is cut, in how many commits the input was appended, and which data
    (Run(tasks=1, records_max=None, splits=1), 1, (1, 2, 3)),
    (Run(tasks=2, records_max=37, splits=3), 4, (1,)),
    (Run(tasks=3, records_max=5, splits=1), 2, (2,)),
    (Run(tasks=7, records_max=37, splits=1), 9, (3,)),
    (Run(tasks=7, records_max=None, splits=3), 30, (2, 1)),
    (Run(tasks=2, records_max=5, splits=3, drain=False), 1, (3,)),
    (Run(tasks=1, records_max=1, splits=3, drain=False), 4, (2,)),
]
WAYS = [  # each case and each cut; in torture each case with each cut
    (case_name, *cut)
    for number, case_name in enumerate(CASES)
    for place, cut in enumerate(CUTS)
    if TAKES_ALL or (number + place) % 7 == 0
]


@pytest.fixture(scope="module")
def programs() -> dict[str, Program]:
    """Each case compiled once."""
    with fresh_log() as log:
        create_topics(log)
        return {name: compile(case.topology, log) for name, case in CASES.items()}


@pytest.mark.parametrize(
    ("case_name", "run", "flushes", "seeds"),
    WAYS,
    ids=[f"{run.tasks}-{run.records_max}-{run.splits}-{case_name}" for case_name, run, _, _ in WAYS],
)
def test_everything_written_is_the_reference_s(
    programs: dict[str, Program], case_name: str, run: Run, flushes: int, seeds: tuple[int, ...]
) -> None:
    """Topics record by record per key, stores, and counts of late and keyless records and of tombstones are the reference's, however the work is cut."""
    for seed in first(1, seeds):
        with fresh_log() as log:
            fill(log, RandomData(seed, FIRST_MS[seed]), FEW_ROWS if (run.records_max or ROWS) <= 5 else ROWS, flushes)
            claims = execute(log, programs[case_name], run)
            expected = interpreted(CASES[case_name], log, [claim.end.records for claim in claims if claim.end.records], run.drain)
            check(log, CASES[case_name], expected)


@pytest.mark.parametrize("seed", FIRST_MS)
def test_the_data_has_the_edges(seed: int) -> None:
    """The random rows are out of order and late, have ties, nulls, tombstones and keys without values, else equality would say little."""
    with fresh_log() as log:
        fill(log, RandomData(seed, FIRST_MS[seed]), ROWS, 4)
        orders = canonical_order(waiting(log, ["orders"]))
        times = [record.timestamp for record in orders]
        assert times != sorted(times)
        assert len(set(times)) < len(times)
        assert any(record.deleted for record in orders)
        found = interpreted(CASES["windowed"], log, [ROWS], drain=True)
        assert found.late > 0
        assert found.null_keys_dropped > 0
        assert len(found.topics["hopping_final"]) > 10
        assert any(change.deleted for change in written(log, "customers"))


@pytest.mark.parametrize("case_name", [*CASES] if TAKES_ALL else [*CASES][::4])
def test_other_tasks_take_over(programs: dict[str, Program], case_name: str) -> None:
    """Generations with more and fewer tasks, one of them without local stores, go on as if one had done it all."""
    case = CASES[case_name]
    with fresh_log(on_disk=True) as log:
        fill(log, RandomData(5), ROWS_OF_GENERATIONS, 3)
        epochs: list[int] = []
        for generation, tasks in enumerate((2, 5, 1, 7) if TAKES_ALL else (2, 4, 1)):
            if generation == 2:
                shutil.rmtree(f"{log.root}/stores", ignore_errors=True)
            planner = start(log.catalog, log.storage, programs[case_name], tasks=tasks, records_max=13)
            for _ in range(2 if generation < 3 else 100):
                if (claim := run_next(planner)) is not None:
                    epochs.append(claim.end.records)
        check(log, case, interpreted(case, log, epochs, drain=False))


@pytest.mark.parametrize("case_name", [*CASES] if TAKES_ALL else [*CASES][1::4])
def test_records_that_arrive_later_count_from_the_stream_time_reached(programs: dict[str, Program], case_name: str) -> None:
    """What is appended between epochs has an order key not below the stream time committed before, so a partition that lags is late."""
    case = CASES[case_name]
    with fresh_log() as log:
        expected, data = case.interpreter(), RandomData(4)
        since: dict[str, dict[int, int]] = {}
        fill(log, RandomData(9), ROWS_OF_GENERATIONS // 2, 1)
        expected.global_rows = global_rows(case, log)
        for round_number in range(3 if TAKES_ALL else 2):
            if round_number:
                append(log, "orders", data.orders(20))
                append(log, "customers", data.customers(10))
            lanes = waiting(log, case.inputs, since)
            claims = execute(log, programs[case_name], Run(tasks=2, records_max=11, splits=2, drain=False))
            expected.run(canonical_order(lanes, expected.reached), [claim.end.records for claim in claims])
            since = {topic: log.end_offsets(topic) for topic in case.inputs}
        check(log, case, expected)


def interpreted(case: Case, log: Log, epochs: list[int], drain: bool) -> Interpreter:
    """The case by hand over what the log holds."""
    interpreter = case.interpreter()
    interpreter.global_rows = global_rows(case, log)
    interpreter.run(canonical_order(waiting(log, case.inputs)), epochs)
    if drain:
        interpreter.drain()
    return interpreter


def global_rows(case: Case, log: Log) -> dict[str, dict[Key, Row]]:
    """Global tables as they are once everything is read."""
    tables: dict[str, dict[Key, Row]] = {}
    for topic in case.global_tables:
        rows = tables.setdefault(topic, {})
        for emitted in written(log, topic):
            place = tuple(emitted.row[name] for name in log.topic(topic).key)
            rows.pop(place, None)
            if not emitted.deleted:
                rows[place] = emitted.row
    return tables


def check(log: Log, case: Case, expected: Interpreter) -> None:
    name = case.topology.name
    outputs = {sink.topic for sink in case.topology.outputs}
    assert set(expected.topics) <= outputs
    for topic in sorted(outputs):
        key = log.topic(topic).key
        assert not differences(by_key(written(log, topic), key), by_key(expected.topics.get(topic, []), key)), topic
        check_partitions(log, topic)
    for store, rows in expected.stores().items():
        assert sorted(map(repr, map(sorted_items, stored(log, name, store)))) == sorted(map(repr, map(sorted_items, rows))), (
            f"store {store}"
        )
    assert metric(log, name, "late") == expected.late
    assert metric(log, name, "null_key") == expected.null_keys_dropped
    assert metric(log, name, "deletion") == expected.deletions_dropped


def differences(found: dict[Key, Written], expected: dict[Key, Written]) -> list[str]:
    """What the engine wrote otherwise: the first difference of each key."""
    lines = []
    for key in found.keys() | expected.keys():
        for place, (one, other) in enumerate(zip_longest(found.get(key, []), expected.get(key, []))):
            if one != other:
                lines.append(f"key {key}, record {place}: found {one}, expected {other}")
                break
    return lines


def check_partitions(log: Log, topic: str) -> None:
    """A key that is not null lives in one partition, else its records would have no order."""
    places: dict[Key, set[int]] = {}
    for partition, _, emitted in placed(log, topic):
        key = tuple(emitted.row[column] for column in log.topic(topic).partition_by)
        if any(value is not None for value in key):
            places.setdefault(key, set()).add(partition)
    assert all(len(partitions) == 1 for partitions in places.values())


def sorted_items(row: Row) -> list[tuple[str, object]]:
    return sorted(row.items())
