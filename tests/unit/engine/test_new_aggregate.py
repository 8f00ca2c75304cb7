"""Adding an aggregate is adding a file: here two entries that no other file of StreamKit knows, for streams and for groups of tables."""

from __future__ import annotations

import random
from functools import reduce
from operator import xor

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import streamkit as sk
from streamkit.errors import TopologyError
from streamkit.expressions.aggregates import AGGREGATES, AggregateFunction, AggregateResult, Members, register
from streamkit.expressions.aggregates.function import by_column, takes
from streamkit.expressions.aggregates.ordered_bytes import decode_lists, encode_ordered, where_there
from streamkit.expressions.core.accumulation import accumulated
from streamkit.expressions.core.column import Column
from streamkit.plan.expression import Call, Reference
from streamkit.schema import SchemaColumn
from streamkit.testing import TopologyTestDriver
from tests.kit.sampling import first

SCHEMA = "k string, g string, v bigint"
CUTS = first(1, [(3, 5), (1, "one"), (3, 7), (2, "all")])  # tasks, and which records an epoch takes


def _bits(aggregate, argument, rows):
    """Eight states that count ones, bit by bit, so that a row can be taken away again."""
    values = argument.fill_null(0).to_numpy(zero_copy_only=False).astype(np.uint64)
    return [pa.array(((values >> np.uint64(bit)) & np.uint64(1)).astype(np.int64)) for bit in range(8)]


def _parity(aggregate, states):
    ones = [(column.to_numpy(zero_copy_only=False).astype(np.int64) % 2) << bit for bit, column in enumerate(states)]
    return AggregateResult(pa.array(reduce(xor, ones)))


def _span_of_members(aggregate, lists):
    values = [found or [None] for found in decode_lists(lists, "bigint").to_pylist()]
    return [pa.array([one[place] for one in values], pa.int64()) for place in (0, -1)]


XOR = AggregateFunction(
    "xor_all",
    takes("bigint", "bigint"),
    lambda aggregate: tuple(SchemaColumn(f"{aggregate.name}.bit{bit}", "bigint") for bit in range(8)),
    _bits,
    by_column(*["sum"] * 8),
    _parity,
    subtract=lambda left, right: [pc.subtract(one, other) for one, other in zip(left, right, strict=True)],
)
SPAN = AggregateFunction(
    "span",
    takes("bigint", "bigint"),
    lambda aggregate: (SchemaColumn(f"{aggregate.name}.low", "bigint"), SchemaColumn(f"{aggregate.name}.high", "bigint")),
    lambda aggregate, argument, rows: [argument, argument],
    by_column("min", "max"),
    lambda aggregate, states: AggregateResult(pc.subtract(states[1], states[0])),
    members=Members(
        lambda aggregate, argument: where_there(encode_ordered(argument), argument), _span_of_members, lambda _: None
    ),
)
STREAMS_ONLY = AggregateFunction(
    "low", takes("bigint", "bigint"), lambda aggregate: (SchemaColumn(f"{aggregate.name}.low", "bigint"),),
    lambda aggregate, argument, rows: [argument], lambda states, accumulate: [accumulated(states[0], "min", accumulate)],
    lambda aggregate, states: AggregateResult(states[0]),
)  # fmt: skip


@pytest.fixture(autouse=True)
def known():
    """The aggregates are known while a test runs."""
    own = [register(one) for one in (XOR, SPAN, STREAMS_ONLY)]
    yield
    for one in own:
        del AGGREGATES[one.name]


def called(name):
    return Column(Call(name, (Reference("v"),)))


def rows_at_random(seed):
    chance = random.Random(seed)
    return [{"k": chance.choice("abcde"), "g": chance.choice("xyz"), "v": chance.randrange(256)} for _ in range(25)]


def results(app, rows, tasks, batching):
    with TopologyTestDriver(app, tasks=tasks, batching=batching) as driver:
        for time, row in enumerate(rows):
            driver.pipe("in", row, timestamp=time)
        return {key: (row["x"], row["s"]) for key, row in driver.newest("out").items()}


def expected(groups):
    return {key: (reduce(xor, values), max(values) - min(values)) for key, values in groups.items() if values}


@pytest.mark.parametrize(("tasks", "batching"), CUTS)
def test_an_entry_is_an_aggregate_of_streams(tasks, batching):
    """An aggregate that was registered is called by its name, and folds the records of a stream."""
    app, rows = sk.Topology("streams"), rows_at_random(1)
    stream = app.stream("in", schema=SCHEMA, key="k")
    stream.group_by("g").agg(x=called("xor_all"), s=called("span")).to("out")

    groups = {g: [row["v"] for row in rows if row["g"] == g] for g in "xyz"}
    assert results(app, rows, tasks, batching) == expected(groups)


@pytest.mark.parametrize(("tasks", "batching"), CUTS)
def test_an_entry_is_an_aggregate_of_groups_of_tables(tasks, batching):
    """One that subtracts, and one that is kept by its members, follow the rows that a table has now; nothing else names them."""
    app, rows = sk.Topology("tables"), rows_at_random(2)
    table = app.table("in", schema=SCHEMA, key="k")
    table.group_by("g").agg(x=called("xor_all"), s=called("span"), store="of_groups").to("out")
    newest = {row["k"]: row for row in rows}

    groups = {g: [row["v"] for row in newest.values() if row["g"] == g] for g in "xyz"}
    found = results(app, rows, tasks, batching)
    assert {key: value for key, value in found.items() if groups[key]} == expected(groups)
    assert all(found[key] == (0, None) for key in found if not groups[key])


def test_an_entry_without_a_way_back_is_refused_for_tables():
    """One that neither subtracts nor has members is refused at the user's line, and the message lists those that can, new ones too."""
    app = sk.Topology("refused")
    table = app.table("in", schema=SCHEMA, key="k")
    table.group_by("g").agg(x=called("low")).to("out")

    with pytest.raises(TopologyError, match=r"(?s)low\(…\) cannot be kept.*xor_all, span.*test_new_aggregate.py:\d+"):
        sk.compile(app)
