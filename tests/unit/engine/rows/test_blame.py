"""An error in the data names the record: topic, partition, offset, key, and the user's line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import streamkit as sk
from streamkit import functions as F
from streamkit.engine.runs.compile import compile
from streamkit.errors import EvaluationError
from streamkit.testing import TopologyTestDriver
from tests.kit.engine_run import Run, append, execute, fresh_log
from tests.kit.sampling import in_turn

LARGE = 2**62


def failing(app: sk.Topology, values: list[int], user: str = "u{place}") -> str:
    """What a run of the topology over these values, one a record, ends with; each record has a user of its own, or `user`."""
    with fresh_log() as log:
        log.create_topic("in", "user string, n bigint", key="user", partitions=1)
        append(log, "in", [{"user": user.format(place=place), "n": n, "ts": place} for place, n in enumerate(values)])
        with pytest.raises(EvaluationError) as raised:
            execute(log, compile(app, log), Run(drain=False))
    return str(raised.value)


@pytest.mark.parametrize(("verb", "place"), in_turn(["agg", "select", "filter", "join"], [0, 1, 40, 99]))
def test_an_error_names_the_record_and_the_line(verb: str, place: int) -> None:
    """Whatever the step, and whether its rows are folded in the readers or run in a kernel, the record that fails is named."""
    app = sk.Topology("failing")
    stream, product = app.stream("in"), F.col("n") * 4
    if verb == "select":
        stream.select(product=product).to("out")
    elif verb == "filter":
        stream.filter(product > 1).to("out")
    elif verb == "agg":
        stream.group_by_key().agg(total=F.sum(product), store="totals")
    else:
        stream.join(app.table("in").rename(n="m")).select(product=product).to("out")

    message = failing(app, [LARGE if one == place else 1 for one in range(100)])

    assert message.startswith(f"topic in, partition 0, offset {place}, key user = 'u{place}': n * 4 failed with n = {LARGE}")
    assert Path(__file__).name in message.splitlines()[-1]


@pytest.mark.parametrize(("place", "other"), in_turn([3, 0, 41, 63], [2, 63, 1, 40]))
@pytest.mark.parametrize("verb", ["select", "with_columns", "agg", "flat_map"])
def test_of_several_failures_the_first_record_is_named_with_what_failed_there(verb: str, place: int, other: int) -> None:
    """One expression fails in one record, and another in another: the error has the record, the expression and the line of the earlier one."""
    app = sk.Topology("failing")
    stream, divided = app.stream("in"), F.lit(10) / F.col("n")
    product = F.col("n") * 4
    if verb == "select":
        stream.select(divided.alias("divided"), product=product).to("out")
    elif verb == "with_columns":
        stream.with_columns(divided=divided, product=product).to("out")
    elif verb == "agg":
        stream.group_by_key().agg(low=F.min(divided), total=F.sum(product), store="totals")
    else:
        stream.flat_map(F.explode(F.array(divided, product.cast("double"))), "some").to("out")

    message = failing(app, [{place: LARGE, other: 0}.get(one, 1) for one in range(64)])

    what = f"n * 4 failed with n = {LARGE}" if place < other else "10.0 / CAST(n AS DOUBLE) failed with CAST(n AS DOUBLE) = 0.0"
    assert message.startswith(f"topic in, partition 0, offset {min(place, other)}, key user = 'u{min(place, other)}': {what}")
    line = Path(__file__).read_text().splitlines()[int(message.rpartition(":")[2]) - 1]
    assert f".{verb}(" in line


def test_of_several_failures_in_one_record_the_first_expression_is_named() -> None:
    """In the order in which they were written, whichever fails in more records."""
    app = sk.Topology("failing")
    app.stream("in").select(b=F.lit(10) / F.col("n"), a=F.lit(1) / (F.col("n") - F.col("n"))).to("out")

    assert "offset 0, key user = 'u0': 1.0 / CAST(n - n AS DOUBLE)" in failing(app, [1, 0])
    assert "offset 0, key user = 'u0': 10.0 / CAST(n AS DOUBLE)" in failing(app, [0, 1])


def test_an_error_of_a_result_names_the_line() -> None:
    """Of a sum that passes the type, the record that made it do so is named."""
    app = sk.Topology("failing")
    app.stream("in").group_by_key().agg(total=F.sum("n"), store="totals").emit("every").to("out")

    message = failing(app, [2**63 - 1, 1], user="a")

    assert message.startswith("topic in, partition 0, offset 1, key user = 'a': found 9223372036854775808 for total = sum(n)")
    assert Path(__file__).name in message.splitlines()[-1]


AGGREGATED = {
    "count": lambda stream: stream.group_by_key().count(),
    "members": lambda stream: stream.group_by("n").agg(most=F.max("n")),
    "steps": lambda stream: stream.with_columns(m=F.col("n") + 1).group_by_key().agg(total=F.sum("m")),
    "windows": lambda stream: stream.group_by_key().windowed_by(sk.tumbling("1 hour", grace="1 minute")).count(),
    "hopping": lambda stream: stream.group_by_key().windowed_by(sk.hopping("1 hour", "1 minute", grace="1 minute")).count(),
    "sessions": lambda stream: stream.group_by_key().windowed_by(sk.session("1 hour", grace="1 minute")).count(),
    "sliding": lambda stream: stream.group_by_key().windowed_by(sk.sliding("1 hour", grace="1 minute")).count(),
    "table": lambda stream: stream.to_table().group_by("n").count(),
}


@pytest.mark.parametrize("on_error", ["fail", "skip", "one step skips", "dead letters"])
@pytest.mark.parametrize("kind", AGGREGATED)
def test_a_record_without_event_time_is_named_in_front_of_any_aggregation(kind: str, on_error: str) -> None:
    """Also where rows are folded by the readers and have no place: then they are read again; where it is left out, the others go on."""
    policy: Any = {"fail": "fail", "one step skips": "fail", "skip": "skip", "dead letters": sk.dead_letter("dead")}[on_error]
    app = sk.Topology("failing", on_error=policy)
    stream = app.stream("in", schema="user string, n bigint, at bigint", key="user", timestamp="at").select("n")
    if on_error == "one step skips":
        stream = stream.filter("n > 0", on_error="skip")
    AGGREGATED[kind](stream).to("out")
    rows = [{"user": "a", "n": 1, "at": 1}, {"user": "b", "n": 1, "at": None}, {"user": "c", "n": 1, "at": 2}]
    with TopologyTestDriver(app) as driver:
        if policy == "fail":
            with pytest.raises(
                EvaluationError, match="topic in, partition 0, offset 1, key user = 'b': its event time, column 'at'"
            ):
                driver.pipe("in", rows)
            return
        driver.pipe("in", rows)
        assert driver.newest("out")
        assert on_error == "skip" or [row["offset"] for row in driver.read("dead")] == [1]
