"""Views of an application that runs in another process: what was sent is waited for, and each call is of one epoch."""

from __future__ import annotations

import math
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import streamkit as sk
from streamkit.errors import ConfigError
from streamkit.log.log import Log
from streamkit.state.view import StoreView
from streamkit.state.view_position import ViewPosition

KEYS = range(30)
TIMEOUT_S = 60.0
APPLICATION = """
    import sys

    import streamkit as sk
    from streamkit import functions as F

    app = sk.Topology("app")
    keyed = app.stream("in").group_by("k")
    keyed.agg(n=F.sum("a"), store="totals").emit("latest").to("out")
    keyed.windowed_by(sk.session("1 hour", grace="0 s", retention="2 hours")).agg(n=F.sum("a"), store="visits").emit("latest").to("out_visits")
    sk.run(app, log=sys.argv[1], engine="local", tasks=2).wait()
"""


@pytest.fixture(scope="module")
def log(tmp_path_factory: Any) -> Iterator[Log]:
    """A log with the topics of the application, which runs in a process of its own until the tests are over."""
    folder = tmp_path_factory.mktemp("beside")
    script = folder / "application.py"
    script.write_text(textwrap.dedent(APPLICATION))
    with sk.open_log(str(folder / "log")) as opened:
        for name in ("in", "other"):
            opened.create_topic(name, "k int, a bigint", key="k", partitions=2)
        process = subprocess.Popen([sys.executable, str(script), str(folder / "log")])
        try:
            deadline = time.monotonic() + TIMEOUT_S
            watch = opened.catalog.watch()
            while not any(state.name == "app" for state in opened.catalog.applications.every()):
                assert process.poll() is None, "the application has ended"
                assert time.monotonic() < deadline, "the application did not start"
                watch.wait(0.5)
            yield opened
            assert process.poll() is None, "the application has ended"
        finally:
            process.kill()
            process.wait()


def send(log: Log) -> list[Any]:
    """One more for each key, in one commit; its receipts."""
    with log.producer() as producer:
        receipts = [producer.send("in", {"k": k, "a": 1}, timestamp_ms=1) for k in KEYS]
        producer.flush()
    return receipts


def number(view: StoreView, key: int = 7) -> Any:
    """How often a key came."""
    row = view.get(key)
    return row and row["n"]


def view(log: Log, store: str = "totals") -> StoreView:
    return log.store("app", store)


def test_what_was_sent_is_read(log: Log) -> None:
    """By the receipts of records, by offsets and by the position of another view, with look-ups and scans."""
    found, visits = view(log), view(log, "visits")
    for _ in range(3):
        receipts = send(log)
        row = found.at_least(receipts, TIMEOUT_S).get(7)
        assert row is not None
        assert found.at_least(receipts[7], TIMEOUT_S).get(7) == row
        ends = {"in": log.end_offsets("in")}
        assert found.at_least(ends, TIMEOUT_S).to_arrow()["n"].to_pylist() == [row["n"]] * len(KEYS)
        assert visits.at_least(ends, TIMEOUT_S).sessions(7)["n"].to_pylist() == [row["n"]]
        assert found.position.is_reached(found.position.epoch, found.position.offsets)
        assert found.position.offsets["in"] == ends["in"]
        assert number(visits.at_least(found.position, TIMEOUT_S)) == row["n"]


def test_a_moment_begins_where_it_was_asked_to(log: Log) -> None:
    """`at_now` waits too, once, and stays there."""
    receipts = send(log)
    with view(log).at_least(receipts, TIMEOUT_S).at_now() as fixed:
        expected = fixed.to_arrow()
        assert fixed.position.offsets["in"] == log.end_offsets("in")
        assert view(log).at_least(send(log), TIMEOUT_S).count() == len(KEYS)
        assert fixed.to_arrow() == expected
        assert number(fixed) == expected["n"][0].as_py()


def test_a_fixed_view_is_not_waited_with(log: Log) -> None:
    """`at_least` of a view of `at_now` would give an epoch without what was sent: it is refused, and says how to have both."""
    with view(log).at_now() as fixed:
        receipts = send(log)
        with pytest.raises(ConfigError, match=r"at_least\(\) of a view of at_now\(\): .* call view.at_least\(…\).at_now\(\)"):
            fixed.at_least(receipts)
        with pytest.raises(ConfigError, match="wait for nothing"):
            fixed.at_least(fixed.position)
    with view(log).at_least(receipts, TIMEOUT_S).at_now() as fixed:
        assert fixed.position.offsets["in"] == log.end_offsets("in")


@pytest.mark.parametrize("timeout", ["x", None, -1, True, math.nan, "5"])
def test_a_timeout_is_seconds(log: Log, timeout: Any) -> None:
    """Anything else is refused at once, and not by the first call."""
    with pytest.raises(ConfigError, match=r"timeout=.*; expected seconds, 0 or more"):
        view(log).at_least(send(log), timeout)


@pytest.mark.parametrize("sent", [5, "in", {"in": 5}, {"in": {"x": 1}}, {"in": {0: None}}, [7]])
def test_what_is_waited_for_is_a_position(log: Log, sent: Any) -> None:
    """Offsets that are no numbers, too."""
    with pytest.raises(ConfigError, match=r"found .* to wait for; expected the position of a view"):
        view(log).at_least(sent)


ALL = {
    "get": lambda waiting: waiting.get(7),
    "find": lambda waiting: waiting.find(7),
    "many": lambda waiting: waiting.many([7]),
    "range": lambda waiting: waiting.range(),
    "prefix": lambda waiting: waiting.prefix(7),
    "count": lambda waiting: waiting.count(),
    "to_arrow": lambda waiting: waiting.to_arrow(),
    "to_pandas": lambda waiting: waiting.to_pandas(),
    "to_rows": lambda waiting: waiting.to_rows(),
    "to_spark": lambda waiting: waiting.to_spark(None),
    "position": lambda waiting: waiting.position,
    "expiry": lambda waiting: waiting.expiry(),
    "at_now": lambda waiting: waiting.at_now().__enter__(),
}


@pytest.mark.parametrize("call", ALL)
def test_all_calls_wait(log: Log, call: str) -> None:
    """Whatever tells of the store waits for what was asked for, also for the first of two positions."""
    end = log.end_offsets("in")[0]
    waiting = view(log).at_least({"in": {0: end + 1000}}, 0.05)
    for one in (waiting, waiting.at_least({"in": {0: end}}, 0.05)):
        with pytest.raises(TimeoutError):
            ALL[call](one)


def test_each_call_is_of_one_epoch(log: Log) -> None:
    """While records come all the time, in commits that add as much to all keys, whole stores are read with one number."""
    stop, found = threading.Event(), view(log)
    found.at_least(send(log), TIMEOUT_S).count()

    def keep_sending() -> None:
        with log.producer() as producer:
            while not stop.wait(0.005):
                for k in KEYS:
                    producer.send("in", {"k": k, "a": 1}, timestamp_ms=1)
                producer.flush()

    sender = threading.Thread(target=keep_sending)
    sender.start()
    seen: list[int] = []
    try:
        until = time.monotonic() + 3
        while time.monotonic() < until:
            for rows in (found.to_arrow(), found.many(list(KEYS)), found.range(0, 30), found.find(seen[-1] % 30 if seen else 0)):
                (number,) = set(rows["n"].to_pylist())
                seen.append(number)
    finally:
        stop.set()
        sender.join()
    assert seen == sorted(seen)
    assert len(set(seen)) > 3, "the application has made no epochs meanwhile"


def test_what_does_not_come_is_an_error(log: Log) -> None:
    """It says how far the application has come, and of a topic that it does not read which ones it does."""
    found = view(log)
    found.at_least(send(log), TIMEOUT_S).count()
    end = log.end_offsets("in")[0]
    with pytest.raises(
        TimeoutError, match=rf"has not got so far after 0.1 s: it has read in 0 to {end} of {end + 1}; is it running"
    ):
        found.at_least({"in": {0: end + 1}}, 0.1).get(7)
    epoch = found.position.epoch
    with pytest.raises(TimeoutError, match=f"it has committed epoch {epoch} of {epoch + 5}"):
        found.at_least(ViewPosition(epoch + 5, {}), 0).count()
    with pytest.raises(ConfigError, match=r"the application 'app' does not read the topic 'other'; it reads in$"):
        found.at_least({"other": {0: 1}}).get(7)
    with log.producer() as producer:
        waiting = producer.send("in", {"k": 1, "a": 1}, timestamp_ms=1)
        with pytest.raises(ConfigError, match=r"are not committed; call flush\(\)"):
            found.at_least(waiting)
    for wrong in (7, "in", [1], {"in": 3}):
        with pytest.raises(ConfigError, match="expected the position of a view, receipts of a producer, or offsets"):
            found.at_least(wrong)


def test_the_files_of_the_store_are_read_and_left_alone(log: Log) -> None:
    """A view takes what the application has written to its files, and nothing there is changed by it."""
    found = view(log)
    deadline = time.monotonic() + TIMEOUT_S
    while not list(Path(log.root, "stores").rglob("RUNS")):
        assert time.monotonic() < deadline, "the application has flushed nothing"
        send(log)
        time.sleep(0.5)
    total = number(found.at_least(send(log), TIMEOUT_S))
    assert found.reader is not None
    assert found.reader._local, "no local store was opened"
    assert number(found.at_least(send(log), TIMEOUT_S)) == total + 1
