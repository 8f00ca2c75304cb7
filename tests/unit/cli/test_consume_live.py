"""`streamkit consume` with --where, --group and --follow."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time

import pytest

import streamkit as sk
from streamkit.errors import ConfigError
from tests.kit.waiting import wait_until
from tests.unit.cli.command_process import CommandProcess
from tests.unit.cli.test_groups import committed


def numbers(output):
    return [json.loads(line)["number"] for line in output.splitlines()]


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("number > 1001", [1002, 1003]),
        ("amount is null or customer = 'ann'", [1001, 1002]),
        ("_offset < 1 and _timestamp >= '2023-11-14'", [1001]),
        ("_deleted", []),
    ],
)
def test_only_what_is_asked_for(streamkit, where, expected):
    """A condition is about the topic's columns and the record's own."""
    assert numbers(streamkit("consume", "orders", "--where", where, "--format", "json")) == expected


def test_the_limit_counts_what_is_printed(streamkit):
    """With a condition, --max counts the records for which it holds; a table says how many there are."""
    assert numbers(streamkit("consume", "orders", "--where", "number > 1001", "--max", "1", "--format", "json")) == [1002]
    output = streamkit("consume", "orders", "--where", "number > 1001")
    assert "2 records" in output and "1001" not in output


def test_a_condition_that_means_nothing_is_refused(as_program):
    """The refusal names the column; nothing is printed, nothing is committed."""
    code, output, errors = as_program("consume", "orders", "--where", "delay > 5", "--group", "g")
    assert (code, output) == (1, "")
    assert "names the column 'delay'; the topic has customer, number, amount, _timestamp" in errors


def test_a_group_goes_on_where_it_was(streamkit, root):
    """As a member of a group it prints what the group has not had yet, and commits what it printed and no more."""
    first = streamkit("consume", "orders", "--group", "billing", "--max", "1", "--format", "json")
    assert (numbers(first), committed(root)) == ([1001], {0: 1})
    rest = streamkit("consume", "orders", "--group", "billing", "--format", "json")
    assert (numbers(rest), committed(root)) == ([1002, 1003], {0: 3})
    assert streamkit("consume", "orders", "--group", "billing", "--format", "json") == ""


def test_a_group_passes_over_what_it_does_not_want(streamkit, root):
    """What the condition does not hold for is committed with the rest, but nothing behind the last record printed."""
    output = streamkit("consume", "orders", "--group", "g", "--where", "number >= 1002", "--max", "1", "--format", "csv")
    assert [line.split(",")[1] for line in output.splitlines()] == ["number", "1002"]
    assert committed(root, "g") == {0: 2}


def test_a_group_has_a_place_in_every_partition(streamkit, root):
    """Partitions of which nothing was printed count as lag from their beginning."""
    with sk.open_log(root) as log:
        log.create_topic("wide", "number bigint", partitions=2)
        with log.producer() as producer:
            producer.send_batch("wide", [{"number": number} for number in range(20_000)])
        ends = log.end_offsets("wide")
    streamkit("consume", "wide", "--group", "g", "--max", "1")
    with sk.open_log(root) as log:
        lags = {row.partition: row.lag for row in log.groups.describe("g").partitions}
    assert lags == {partition: end - (0 if partition else 1) for partition, end in ends.items()}


class Following(CommandProcess):
    """`streamkit consume --follow` in a process of its own."""

    def __init__(self, root, *arguments, topic="orders"):
        super().__init__(root, "consume", topic, "--follow", *arguments)

    def line(self):
        return self.stdout.readline()


def begun(root, group):
    """What a group has committed; None before its first member came."""
    try:
        return committed(root, group)
    except ConfigError:
        return None


def send(root, number):
    with sk.open_log(root) as log, log.producer() as producer:
        producer.send("orders", {"customer": "eve", "number": number, "amount": 1.0})


def test_following_from_the_beginning(root):
    """It prints what is there, then what comes as it comes, until it is interrupted; that is no error."""
    following = Following(root, "--from-beginning", "--format", "json")
    assert [json.loads(following.line())["number"] for _ in range(3)] == [1001, 1002, 1003]
    send(root, 2001)
    assert json.loads(following.line())["number"] == 2001
    assert following.end() == ("", "")


@pytest.mark.parametrize("member", [(), ("--group", "g")], ids=["alone", "member"])
def test_following_a_topic_that_gets_a_schema(root, member):
    """Records that are written under a later schema of Avro are printed with all of their fields."""
    fields = [{"name": name, "type": ["null", "int"], "default": None} for name in ("v", "z")]
    first, second = ({"type": "record", "name": "Followed", "fields": fields[:count]} for count in (1, 2))
    with sk.open_log(root) as log:
        log.create_topic("read", format="avro", format_schema=first, partitions=1)

        def send(value):
            with log.producer() as producer:
                producer.send("read", {"key": "k", "value": value})

        send({"v": 1})
        following = Following(root, "--from-beginning", "--format", "json", *member, topic="read")
        assert json.loads(following.line())["value"] == {"v": 1}
        log.alter_topic("read", format_schema=second)
        send({"v": 2, "z": 9})
        assert json.loads(following.line())["value"] == {"v": 2, "z": 9}
    assert following.end() == ("", "")


def test_a_condition_starts_no_thread():
    """The rows for which one holds are found in this thread alone: one of Arrow's that holds them aborts a program that ends."""
    code = """
import os
import numpy as np, pyarrow as pa, pyarrow.acero
from streamkit.query.position import EARLIEST
from streamkit.query.predicate import parse_predicate
from streamkit.query.wanted import Wanted

rows = pa.record_batch({"number": np.arange(200_000)})
wanted = Wanted(None, ("number",), None, EARLIEST, parse_predicate("number >= 50000", rows.schema))
before = len(os.listdir("/proc/self/task"))
found = wanted.matching(rows)
print(found.column(0).to_pylist() == list(range(50_000, 200_000)), len(os.listdir("/proc/self/task")) - before)
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "True 0\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_following_as_a_member(root, number):
    """A member that follows commits what it has printed, and leaves the group when it is interrupted."""
    following = Following(root, "--from-beginning", "--group", "g", "--where", "number != 1002", "--format", "csv")
    assert [following.line().split(",")[1] for _ in range(3)] == ["number", "1001", "1003"]
    send(root, 2001)
    assert following.line().split(",")[1] == "2001"
    following.end(number)
    with sk.open_log(root) as log:
        found = log.groups.describe("g")
    assert (found.members, [row.lag for row in found.partitions]) == ((), [0])


def test_a_member_that_printed_nothing_goes_on_where_it_began(root, streamkit):
    """What comes between two runs of `--follow --group` is printed by the next, also when the first had nothing to print."""
    following = Following(root, "--group", "g")
    wait_until(lambda: begun(root, "g") == {0: 3} or following.poll() is not None)
    following.end()
    send(root, 2001)
    assert numbers(streamkit("consume", "orders", "--group", "g", "--json")) == [2001]


def test_following_prints_tables(root):
    """Without --from-beginning only what comes is printed, a table at a time; --max ends it."""
    following = Following(root, "--max", "1")
    while following.poll() is None:
        send(root, 3001)
        time.sleep(0.1)
    code, output, errors = following.rest()
    assert (errors, code) == ("", 0)
    assert "3001" in output and "1001" not in output


def test_following_prints_one_header(root):
    """What comes later stands below what came first, without another header or an empty line."""
    following = Following(root, "--from-beginning")
    first = [following.line().split() for _ in range(5)]
    assert first[0] == ["customer", "number", "amount"] and [line[-2] for line in first[2:]] == ["1001", "bob", "1003"]

    send(root, 2001)
    assert "2001" in following.line()
    assert following.end() == ("", "")
