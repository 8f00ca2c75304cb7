"""`streamkit standby`: another process goes on where a run was killed."""

from __future__ import annotations

import signal

import pytest
import typer

from streamkit.cli.run import standby
from streamkit.log.opening import open_log
from tests.kit.waiting import wait_until
from tests.unit.cli.command_process import CommandProcess

TOPOLOGY = """
import streamkit as sk
from streamkit import functions as F

app = sk.Topology("amounts")
app.stream("amounts").group_by("name").agg(n=F.count("*"), total=F.sum("amount"), store="totals_of").to("totals")
"""


@pytest.fixture
def root(tmp_path):
    """A log with a topic of amounts, and the topology beside it."""
    (tmp_path / "amounts.py").write_text(TOPOLOGY)
    with open_log(tmp_path / "log") as log:
        log.create_topic("amounts", "name string, amount bigint", key="name", partitions=2)
    return tmp_path / "log"


def command(root, name):
    return CommandProcess(root, name, str(root.parent / "amounts.py"), "--local", "--tasks", "1")


def send(log, *amounts):
    with log.producer() as producer:
        for amount in amounts:
            producer.send("amounts", {"name": f"n{amount % 3}", "amount": amount})


def generation(log):
    return max((state.generation for state in log.catalog.applications.every()), default=0)


def records(log):
    return sum(int(state.metrics.get("records", 0)) for state in log.catalog.applications.every())


def test_a_killed_run_is_taken_over(root):
    """Whatever was sent before, while nobody ran, and after, counts once; a newer run takes over from the one that stood by."""
    with open_log(root) as log:
        first = command(root, "run")
        send(log, *range(10))
        wait_until(lambda: records(log) == 10)
        other = command(root, "standby")
        wait_until(lambda: "standing by for amounts" in other.stderr.readline())
        first.kill()
        send(log, *range(10, 20))
        wait_until(lambda: records(log) == 20)
        assert generation(log) == 2

        second = command(root, "run")
        wait_until(lambda: generation(log) == 3)
        send(log, *range(20, 30))
        wait_until(lambda: records(log) == 30)
        wait_until(lambda: "standing by for amounts" in other.stderr.readline())
        second.send_signal(signal.SIGTERM)
        assert second.rest()[0] == 128 + signal.SIGTERM
        other.send_signal(signal.SIGTERM)
        assert other.rest()[0] == 128 + signal.SIGTERM
        assert generation(log) == 3  # a run that was stopped is not followed
        found = {row["name"]: (row["n"], row["total"]) for row in log.store("amounts", "totals_of").to_arrow().to_pylist()}
        assert found == {f"n{number}": (10, sum(range(number, 30, 3))) for number in range(3)}


@pytest.mark.parametrize("option", ["once", "drain"])
def test_a_run_that_ends_by_itself_has_no_standby(root, option):
    """`--once` and `--drain` make no sense of a run that stands by."""
    with pytest.raises(typer.BadParameter, match="ends by itself"):
        standby(str(root.parent / "amounts.py"), log=str(root), **{option: True})
