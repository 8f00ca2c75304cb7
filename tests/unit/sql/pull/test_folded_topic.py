"""A topic that is kept as a table has the newest row of each key, however its rows come."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from streamkit.engine.epoch.stream_time import NO_TIME
from streamkit.names import DELETED, ORDER
from streamkit.sql.pull import folded_topic
from streamkit.sql.pull.folded_topic import FoldedTopic
from tests.kit.sampling import examples

SCHEMA = pa.schema([("k", pa.string()), ("j", pa.int32()), ("v", pa.int64())])
ROW = st.tuples(st.sampled_from(["a", "b", "c", None]), st.sampled_from([1, 2, None]), st.integers(0, 99), st.booleans())


def batch(rows, orders=None):
    return pa.RecordBatch.from_pylist(
        [
            {"k": k, "j": j, "v": v, ORDER: order, DELETED: deleted}
            for (k, j, v, deleted), order in zip(rows, orders or [0] * len(rows), strict=True)
        ],
        schema=SCHEMA.append(pa.field(ORDER, pa.int64())).append(pa.field(DELETED, pa.bool_())),
    )


def expected(rows):
    found: dict[tuple[str | None, int | None], int] = {}
    for k, j, v, deleted in rows:
        if (k, j) != (None, None):
            found.pop((k, j), None)
            if not deleted:
                found[k, j] = v
    return found


def as_dict(table):
    rows = [((row["k"], row["j"]), row["v"]) for row in table.to_pylist()]
    assert len(rows) == len(dict(rows))
    return dict(rows)


@examples(200)
@given(parts=st.lists(st.lists(ROW, max_size=8), max_size=12), limit=st.sampled_from([0, 2, 4_096]))
def test_newest_rows(parts, limit):
    """Whatever the cut, each key has its newest row; deletions, and keys of nothing but null, have none; look-ups agree with the rows."""
    before, folded_topic.RECENT_ROWS = folded_topic.RECENT_ROWS, limit
    try:
        table, seen = FoldedTopic(1, SCHEMA, ("k", "j")), []
        for number, part in enumerate(parts):
            table = table.moved_on([batch(part[:3]), batch(part[3:])], {0: number})
            seen += part
            assert as_dict(table.rows()) == expected(seen)
            assert table.count() == len(expected(seen)) and table.reached == {0: number}
    finally:
        folded_topic.RECENT_ROWS = before
    keys = [("a", 1), ("b", None), ("c", 2), ("d", 1)]
    found = table.find([pa.array([k for k, _ in keys]), pa.array([j for _, j in keys], pa.int32())])
    assert as_dict(found) == {key: value for key, value in expected(seen).items() if key in keys}
    asked = [*keys, (None, None), *keys[:1]]
    beside = table.beside([pa.array([k for k, _ in asked]), pa.array([j for _, j in asked], pa.int32())], ["v"])
    assert beside.to_pylist() == [{"v": expected(seen).get(key)} for key in asked]


@examples(200)
@given(parts=st.lists(st.lists(st.tuples(ROW, st.integers(0, 5)), max_size=12), max_size=4))
def test_newest_rows_by_order_keys(parts):
    """Of rows that come together the last by their order keys counts, and of equal order keys the last that comes; later ones count more."""
    table, seen = FoldedTopic(1, SCHEMA, ("k", "j")), []
    for part in parts:
        table = table.moved_on([batch([row for row, _ in part], [order for _, order in part])], {})
        seen += [row for row, _ in sorted(part, key=lambda one: one[1])]
        assert as_dict(table.rows()) == expected(seen)
    assert table.time_ms == max([order for part in parts for _, order in part], default=NO_TIME)


def test_a_table_that_is_read_stays_as_it_is():
    """Who holds a table sees the moment at which it was folded, though others move it on."""
    first = FoldedTopic(1, SCHEMA, ("k",)).moved_on([batch([("a", 1, 1, False), ("b", 1, 2, False)])], {0: 2})
    later = first.moved_on([batch([("a", 1, 9, False), ("b", 1, 0, True)])], {0: 4})

    assert as_dict(first.rows()) == {("a", 1): 1, ("b", 1): 2}
    assert as_dict(later.rows()) == {("a", 1): 9}
    assert as_dict(first.find([pa.array(["b"])])) == {("b", 1): 2}
