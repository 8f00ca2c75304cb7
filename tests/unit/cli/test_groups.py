"""`streamkit groups` and `streamkit offsets`."""

from __future__ import annotations

import json

import pytest

import streamkit as sk


@pytest.fixture
def read(root):
    """The group billing has read two of the three orders, and nobody is in it."""
    with sk.open_log(root) as log, log.consumer("orders", "billing", max_poll_records=2) as consumer:
        consumer.poll()
        consumer.commit()
    return "billing"


def words(output):
    return [line.split() for line in output.splitlines() if line.strip() and not set(line.strip()) <= {"─", " "}]


def committed(root, group="billing"):
    with sk.open_log(root) as log:
        return {row.partition: row.committed for row in log.groups.describe(group).partitions}


def test_groups_are_listed(streamkit, read):
    """A list has state, members, topics and lag."""
    assert words(streamkit("groups", "list"))[-1] == ["billing", "Empty", "0", "orders", "1"]
    (found,) = json.loads(streamkit("groups", "list", "--json"))
    assert (found["name"], found["state"], found["lag"], found["members"]) == ("billing", "Empty", 1, [])


def test_a_group_is_described(streamkit, root, read):
    """A description has the members, and owner, committed offset, end and lag of each partition."""
    with sk.open_log(root) as log, log.consumer("orders", "billing", instance_id="desk") as consumer:
        consumer.poll()
        lines = words(streamkit("groups", "describe", "billing"))
        found = json.loads(streamkit("groups", "describe", "billing", "--json"))

    assert ["state", "Stable"] in lines
    (member,) = found["members"]
    assert (member["instance_id"], member["topics"], member["partitions"]) == ("desk", ["orders"], 1)
    assert [member["member_id"][:8], member["client"], "desk", "orders", "1"] in lines
    assert lines[-1] == ["orders", "0", member["member_id"][:8], "2", "3", "1"]
    place = {"topic": "orders", "partition": 0, "owner": member["member_id"], "target": member["member_id"]}
    assert found["partitions"] == [place | {"committed": 2, "start_offset": 0, "end_offset": 3, "lag": 1}]


def test_an_unknown_group_is_named(as_program, read):
    """A group that does not exist is answered with those that do."""
    code, _, errors = as_program("groups", "describe", "sales")
    assert (code, errors) == (
        1, "error: consumer group 'sales' does not exist; there are billing: a group appears with its first consumer or commit\n",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("to", "offset"),
    [
        ("earliest", 0),
        ("latest", 3),
        ("1", 1),
        ("999", 3),
        ("2023-11-14T22:14:20Z", 1),
        ("2023-11-14T23:14:21+01:00", 2),
        ("2030-01-01", 3),
    ],
)
def test_a_group_is_reset(streamkit, root, read, to, offset):
    """A reset commits the offset that was meant, within what the partition has; a dry run only shows it."""
    rows = [{"topic": "orders", "partition": 0, "before": 2, "after": offset}]
    dry = json.loads(streamkit("groups", "reset", "billing", "--to", to, "--dry-run", "--json"))
    assert (dry, committed(root)) == ({"group": "billing", "dry_run": True, "partitions": rows}, {0: 2})

    assert words(streamkit("groups", "reset", "billing", "--to", to, "--topic", "orders"))[-2] == [
        "orders",
        "0",
        "2",
        str(offset),
    ]
    assert committed(root) == {0: offset}


def test_a_group_can_begin_with_a_reset(streamkit, root):
    """Offsets can be committed for a group before it has a consumer, for topics that are named."""
    streamkit("groups", "reset", "new", "--to", "latest", "--topic", "orders", "--topic", "customers")

    with sk.open_log(root) as log:
        assert log.consumer("orders", "new").poll(0) is None


@pytest.mark.parametrize("arguments", [("reset", "billing", "--to", "earliest"), ("delete", "billing", "--yes")])
def test_living_members_are_left_alone(as_program, root, read, arguments):
    """Neither reset nor delete takes effect while a member is alive."""
    with sk.open_log(root) as log, log.consumer("orders", "billing") as consumer:
        consumer.poll()
        code, _, errors = as_program("groups", *arguments)
    assert code == 1
    assert "consumer group billing has 1 member (" in errors
    assert committed(root) == {0: 2}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("billing", "--to", "yesterday"),
            "found the position 'yesterday'; expected earliest, latest, an offset, or a time such as",
        ),
        (("billing", "--to", "earliest", "--topic", "missing"), "topic 'missing' does not exist"),
        (("new", "--to", "earliest"), "consumer group new has committed nothing; name the topics"),
    ],
)
def test_a_reset_that_means_nothing_is_refused(as_program, root, read, arguments, message):
    """What cannot be meant is named, and nothing is committed."""
    code, _, errors = as_program("groups", "reset", *arguments)
    assert code == 1
    assert message in errors
    assert committed(root) == {0: 2}


def test_a_group_is_deleted(streamkit, read):
    """Deleting asks first, unless told not to."""
    streamkit("groups", "delete", "billing", answer="n\n", code=1)
    assert json.loads(streamkit("groups", "delete", "billing", "--yes", "--json")) == {"deleted": "billing"}
    assert json.loads(streamkit("groups", "list", "--json")) == []


def test_offsets_of_a_topic(streamkit):
    """Start and end of each partition, and the first offset of a time or later."""
    assert words(streamkit("offsets", "orders"))[-1] == ["0", "0", "3"]
    assert words(streamkit("offsets", "orders", "--at", "1700000060000"))[-1] == ["0", "0", "3", "1"]
    assert json.loads(streamkit("offsets", "orders", "--at", "2099-01-01", "--json")) == [
        {"partition": 0, "start_offset": 0, "end_offset": 3, "offset_at": None}
    ]
    assert json.loads(streamkit("offsets", "customers", "--json"))[1].keys() == {"partition", "start_offset", "end_offset"}
