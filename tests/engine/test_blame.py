"""An error in the data names the record: topic, partition, offset, key, and the user's line."""

from __future__ import annotations

from pathlib import Path

import pytest

import streamkit as sk
from streamkit import functions as F
from streamkit.engine.compile import compile
from streamkit.errors import EvaluationError
from tests.engine.engine_run import Run, append, execute, fresh_log

LARGE = 2**62


def failing(app: sk.Topology, values: list[int], user: str = "u{place}") -> str:
    """What a run of the topology over these values, one a record, ends with; each record has a user of its own, or `user`."""
    with fresh_log() as log:
        log.create_topic("in", "user string, n bigint", key="user", partitions=1)
        append(log, "in", [{"user": user.format(place=place), "n": n, "ts": place} for place, n in enumerate(values)])
        with pytest.raises(EvaluationError) as raised:
            execute(log, compile(app, log), Run(drain=False))
    return str(raised.value)


@pytest.mark.parametrize("place", [0, 1, 40, 99])
@pytest.mark.parametrize("verb", ["select", "filter", "agg", "join"])
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


def test_an_error_of_a_result_names_the_line() -> None:
    """Of a sum that passes the type, the record that made it do so is named."""
    app = sk.Topology("failing")
    app.stream("in").group_by_key().agg(total=F.sum("n"), store="totals").emit("every").to("out")

    message = failing(app, [2**63 - 1, 1], user="a")

    assert message.startswith("topic in, partition 0, offset 1, key user = 'a': found 9223372036854775808 for total = sum(n)")
    assert Path(__file__).name in message.splitlines()[-1]
