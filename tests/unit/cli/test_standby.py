"""`streamkit standby`: another process goes on where a run was killed."""

from __future__ import annotations

import re
import signal
from contextlib import contextmanager

import pytest
import typer
from typer.testing import CliRunner

from streamkit.cli.main import program
from streamkit.cli.run import standby
from streamkit.log.opening import open_log
from tests.kit.program import Program
from tests.kit.waiting import wait_until
from tests.unit.cli.command_process import CODE, CommandProcess

TOPOLOGY = """
import streamkit as sk
from streamkit import functions as F

app = sk.Topology("amounts")
app.stream("amounts").group_by("name").agg(n=F.count("*"), total=F.sum("amount"), store="totals_of").to("totals")
"""
TRYING_SOON = f"""
from streamkit.engine.runs import standby
from streamkit.log.database import sqlite

failed = standby.Standby.failed

def told(self, error):
    failed(self, error)
    print("a takeover failed", flush=True)

standby.Standby.failed = told
standby.PAUSE_MS = 1_000
sqlite.BUSY_TIMEOUT_MS = 300
{CODE}
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


@contextmanager
def locked(root):
    """The catalog as a run leaves it that is frozen within a commit."""
    with open_log(root) as log, log.catalog.database.write():
        yield


@contextmanager
def unmounted(root):
    """The disk of the standby is away."""
    (root.parent / "disk").rename(root.parent / "elsewhere")
    yield
    (root.parent / "elsewhere").rename(root.parent / "disk")


@pytest.mark.parametrize(("hindrance", "told"), [(locked, "was locked for 300 ms"), (unmounted, "which does not exist")])
def test_a_takeover_that_cannot_be_now_comes_later(root, hindrance, told):
    """What hinders it is said once, and the process takes over when it is gone; the run there is then stopped as ever."""
    (root.parent / "disk").mkdir()
    (root.parent / "link").symlink_to(root.parent / "disk")
    with open_log(root) as log:
        send(log, *range(10))
        first = command(root, "run")
        wait_until(lambda: records(log) == 10)
        other = Program(
            None,
            *("standby", str(root.parent / "amounts.py"), "--local", "--tasks", "1"),
            code=TRYING_SOON,
            environment={"STREAMKIT_LOG": str(root), "STREAMKIT_LOCAL_DIR": str(root.parent / "link")},
            has_errors=True,
        )
        errors = other.stderr
        assert errors is not None
        said: list[str] = []

        def hears(text):
            said.append(errors.readline())
            assert said[-1], f"it has ended: {said}"
            return text in said[-1]

        wait_until(lambda: hears("standing by for amounts"))
        with hindrance(root):
            first.kill()
            wait_until(lambda: hears("amounts could not be taken over, and this process stands by again") and told in said[-1])
            failures = [other.stdout.readline() for _ in range(3)]
            assert failures == 3 * ["a takeover failed\n"]  # it tries again, without another word
        send(log, *range(10, 20))
        wait_until(lambda: records(log) == 20)
        other.send_signal(signal.SIGTERM)
        assert other.wait() == 128 + signal.SIGTERM
        assert not [line for line in errors if "could not be taken over" in line]
        assert log.catalog.applications.get("amounts").generation == 2


def test_what_could_not_take_over_ends_at_once(root):
    """A number of tasks that no start would take is refused before it is needed."""
    refused = CommandProcess(root, "standby", str(root.parent / "amounts.py"), "--local", "--tasks", "999")
    code, _, errors = refused.rest()
    assert code == 1
    assert "ConfigError: a start of amounts would be refused, so this process could not take it over: tasks=999" in errors


def test_help_shows_no_option_that_is_refused():
    """Each option of a run that `streamkit standby --help` does not show is refused, in words that say why; all others are shown."""
    shown, of_a_run = (CliRunner().invoke(program, [name, "--help"]).output.split("Options:")[1] for name in ("standby", "run"))
    hidden = set(re.findall("--[a-z-]+", of_a_run)) - set(re.findall("--[a-z-]+", shown))
    assert hidden == {"--once", "--drain", "--rebuild", "--from", "--accept-loss"}
    values = {"--rebuild": ["totals_of"], "--from": ["other", "--as", "more"]}
    for option in sorted(hidden):
        refused = CliRunner().invoke(program, ["standby", "amounts.py", option, *values.get(option, [])])
        assert refused.exit_code == 2 and "expected" in refused.output, (option, refused.output)


@pytest.mark.parametrize("option", ["once", "drain"])
def test_a_run_that_ends_by_itself_has_no_standby(root, option):
    """`--once` and `--drain` make no sense of a run that stands by."""
    with pytest.raises(typer.BadParameter, match="ends by itself"):
        standby(str(root.parent / "amounts.py"), log=str(root), **{option: True})
