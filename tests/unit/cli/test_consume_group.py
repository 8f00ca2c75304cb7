"""`streamkit consume --group` without --follow: what is there is printed, then committed, whoever else is in the group."""

from __future__ import annotations

import json
import re
import threading

import pyarrow as pa
import pytest

import streamkit as sk
from streamkit.cli.terminal.rendering import show_note
from streamkit.query.draining import drained
from tests.kit.program import Program
from tests.unit.cli.test_consume_live import numbers
from tests.unit.cli.test_groups import committed


@pytest.fixture
def spoiled(root):
    """An opaque topic of one partition: thirty JSON values, one that is none, one more."""
    with sk.open_log(root) as log:
        log.create_topic("spoiled", format="json", partitions=1)
        values = [*(b"%d" % (1000 + number) for number in range(30)), b"\xff", b"9999"]
        with log.producer() as producer:
            producer.send_batch("spoiled", pa.table({"key": pa.nulls(32, pa.binary()), "value": pa.array(values)}))
    return "spoiled"


@pytest.mark.parametrize("form", ["table", "json"])
def test_what_could_not_be_written_is_not_committed(root, form):
    """Where standard output takes nothing, the command fails and the group has had nothing."""
    code = "import os; os.dup2(os.open('/dev/full', os.O_WRONLY), 1); from streamkit.cli.main import main; main()"
    arguments = ("consume", "orders", "--group", "g", "--format", form, "--log", str(root))
    returned, _, errors = Program(None, *arguments, code=code, has_errors=True).ended()

    assert returned != 0
    assert "No space left" in errors
    assert committed(root, "g") == {0: 0}


@pytest.mark.parametrize("group", [(), ("--group", "g")], ids=["alone", "group"])
@pytest.mark.parametrize("form", ["table", "json", "csv"])
def test_records_before_one_that_cannot_be_decoded_are_printed(as_program, spoiled, root, form, group):
    """What comes before is printed and committed, and the error says where the record lies and how to get past it."""
    code, output, errors = as_program("consume", spoiled, "--format", form, "--max", "100", *group)

    assert code == 1
    assert re.findall(r"\b10\d\d\b", output) == [str(1000 + number) for number in range(30)]
    assert "partition 0, offset 30, column 'value': found b'\\xff', expected a value of format json" in errors
    if group:
        assert committed(root, "g") == {0: 30}


def test_a_group_gets_past_a_record_that_cannot_be_decoded(as_program, streamkit, spoiled, root):
    """With the condition that the error names the group goes on behind the record."""
    code, _, errors = as_program("consume", spoiled, "--group", "g", "--json")
    condition = re.findall(r'where "(.*)" passes', errors)[0]

    assert code == 1
    assert json.loads(streamkit("consume", spoiled, "--group", "g", "--json", "--where", condition))["value"] == 9999
    assert committed(root, "g") == {0: 32}


def test_a_condition_that_stands_before_the_fault_is_committed_up_to_it(as_program, spoiled, root):
    """Records that nobody wanted are passed over up to the one that cannot be decoded, and no further."""
    code, output, _ = as_program("consume", spoiled, "--group", "g", "--json", "--where", "_offset = 7 or _offset > 29")

    assert (code, [json.loads(line)["value"] for line in output.splitlines()]) == (1, [1007])
    assert committed(root, "g") == {0: 30}


def member_of(log, **arguments):
    return log.consumer("orders", "g", **arguments)


def test_it_ends_where_the_topic_ended_when_it_began(root):
    """A topic that is written to all the while is printed up to the end that it had."""
    with sk.open_log(root) as log, member_of(log, max_poll_records=1) as consumer, log.producer() as producer:
        found = []
        for table in drained(log, consumer, "orders", "g", threading.Event(), show_note):
            found += table["number"].to_pylist()
            producer.send_batch("orders", [{"customer": "eve", "number": 2000, "amount": 1.0}] * 2)
            producer.flush()

    assert found == [1001, 1002, 1003]


def test_it_ends_at_the_first_interrupt(root):
    """After an interrupt nothing more is read."""
    interrupted = threading.Event()
    with sk.open_log(root) as log, member_of(log, max_poll_records=1) as consumer:
        found = []
        for table in drained(log, consumer, "orders", "g", interrupted, show_note):
            found += table["number"].to_pylist()
            interrupted.set()

    assert found == [1001]


def test_partitions_of_a_silent_member_are_waited_for(root, streamkit, monkeypatch):
    """What a member has that has fallen silent is printed as soon as that member does not count any more."""
    monkeypatch.setattr("streamkit.log.consume.membership.HEARTBEAT_INTERVAL_MS", 100)
    with sk.open_log(root) as log, member_of(log, instance_id="till", session_timeout_ms=500) as consumer:
        consumer.poll()

    assert numbers(streamkit("consume", "orders", "--group", "g", "--json")) == [1001, 1002, 1003]


def test_waiting_ends_at_an_interrupt(root):
    """A member that waits for a silent one is not deaf to an interrupt."""
    interrupted = SetAtTheFourthLook()
    with sk.open_log(root) as log:
        with member_of(log, instance_id="till") as consumer:
            consumer.poll()
        with member_of(log) as consumer:
            assert list(drained(log, consumer, "orders", "g", interrupted, show_note)) == []
    assert interrupted.looks == 4


class SetAtTheFourthLook(threading.Event):
    """An interrupt that comes while somebody waits."""

    looks = 0

    def is_set(self):
        self.looks += 1
        if self.looks == 4:
            self.set()
        return super().is_set()


def test_partitions_of_others_are_named(root, as_program, monkeypatch):
    """What a live member of the group holds is left to it, and standard error says so."""
    monkeypatch.setattr("streamkit.log.consume.membership.HEARTBEAT_INTERVAL_MS", 100)
    with sk.open_log(root) as log, member_of(log) as consumer:
        consumer.poll()
        (holder,) = log.groups.describe("g").members
        code, output, errors = as_program("consume", "orders", "--group", "g", "--json")

    assert (code, output) == (0, "")
    assert f"note: not printed: partition 0, which member {holder.member_id[:8]}" in errors


def test_a_group_comes_to_the_end_of_a_compacted_topic(root, as_program):
    """Where the last records are gone, the group stands behind their places: it does not lag, and is not warned."""
    with sk.open_log(root) as log:
        log.create_topic(
            "kept", "id int, s string", key="id", partitions=1, config={"cleanup.policy": "compact", "delete.retention.ms": 0}
        )
        with log.producer() as producer:
            producer.send_batch("kept", [{"id": number, "s": "x"} for number in range(5)])
            producer.delete("kept", {"id": 3})
            producer.delete("kept", {"id": 4})
        for _ in range(3):
            log.compact("kept")
        assert log.read("kept").num_rows == 3

    found = [as_program("consume", "kept", "--group", "g", "--json") for _ in range(2)]
    assert [len(output.splitlines()) for _, output, _ in found] == [3, 0]
    assert [errors for _, _, errors in found] == ["", ""]
    assert committed(root, "g") == {0: 7}
