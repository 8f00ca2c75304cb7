"""Dead letters of a sink: which records are some, and that a record is none twice."""

from __future__ import annotations

from typing import ClassVar

import pytest

import streamkit as sk
from streamkit.connectors import Sink
from streamkit.connectors.runtime.positions import read_positions
from streamkit.connectors.runtime.sink_task import SinkTask
from streamkit.connectors.runtime.task import Orders
from streamkit.errors import ConfigError, SchemaError
from streamkit.failpoints import SimulatedCrash
from tests.connectors.contract import dies


class Forgetful(Sink):
    """A target that keeps no positions, and refuses rows without a name, some of them by number."""

    PUT: ClassVar[list[int]] = []

    def open(self, generation, partitions):
        return None

    def put(self, rows, ends):
        wrong = [place for place, name in enumerate(rows["name"].to_pylist()) if name is None]
        if wrong:
            raise SchemaError("found no name", tuple(wrong))
        self.PUT.extend(rows["id"].to_pylist())


def refused_letters(log):
    """The offsets of the records that are dead letters."""
    return [
        int(next(pair["value"] for pair in headers if pair["key"].endswith(".offset")))
        for headers in log.read("bad", columns=["_headers"])["_headers"].to_pylist()
    ]


def test_a_record_that_is_read_again_is_one_dead_letter(tmp_path, monkeypatch):
    """A sink that died before its offsets were committed gets a batch again: what was a dead letter is none again, what was not is."""
    monkeypatch.setattr(Forgetful, "PUT", [])
    config = {"topics": "people", "batch.rows": 3, "errors.tolerance": "all", "errors.deadletterqueue.topic.name": "bad"}
    config |= {"errors.deadletterqueue.context.headers.enable": True}
    with sk.open_log(tmp_path / "log") as log:
        log.create_topic("people", "id int, name string", partitions=1)

        def bring():
            SinkTask(Forgetful("out", config), 0, 1, log, is_once=True).run(Orders())

        def send(*names):
            with log.producer() as producer:
                producer.send_batch("people", [{"id": number, "name": name} for number, name in enumerate(names)])

        send("ann", None, "bob", None)
        with dies("connect.target_committed"), pytest.raises(SimulatedCrash):
            bring()
        assert (Forgetful.PUT, refused_letters(log)) == ([0, 2], [1])
        bring()
        send(None, "cid")
        bring()
        assert Forgetful.PUT == [0, 2, 0, 2, 1]
        assert refused_letters(log) == [1, 3, 4]
        kept = {split: position["offsets"] for split, position in read_positions(log, "out").items()}
        assert kept == {"people-0": [4]}


class Keeping(Sink):
    """A target that says how far it has come."""

    KEPT = 0

    def open(self, generation, partitions):
        return dict.fromkeys(partitions, self.KEPT)

    def put(self, rows, ends):
        """Take them."""


@pytest.mark.parametrize(
    ("kept", "message"),
    [(2, "the target has topic people, partition 0 up to offset 2, but 3 was committed: it has lost rows"),
     (4, "up to offset 4, but the topic ends at 3: it is another topic, or it has lost rows")],
)  # fmt: skip
def test_a_target_that_contradicts_the_log_is_told(tmp_path, monkeypatch, kept, message):
    """A target behind what was committed, or ahead of the topic, stops the task; one that is as far as either goes on."""
    with sk.open_log(tmp_path / "log") as log:
        log.create_topic("people", "id int, name string", partitions=1)
        with log.producer() as producer:
            producer.send_batch("people", [{"id": number, "name": "ann"} for number in range(3)])

        def bring(kept):
            monkeypatch.setattr(Keeping, "KEPT", kept)
            SinkTask(Keeping("out", {"topics": "people"}), 0, 1, log, is_once=True).run(Orders())

        bring(0)
        bring(3)
        with pytest.raises(ConfigError, match=message):
            bring(kept)
