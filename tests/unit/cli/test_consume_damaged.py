"""`streamkit consume` of a topic with a damaged frame."""

from __future__ import annotations

import pytest

import streamkit as sk
from tests.unit.cli.test_consume_live import numbers

pytestmark = pytest.mark.usefixtures("slabs_in_files")


@pytest.fixture
def damaged(root):
    """A topic of three partitions, two frames in each; the second of partition 1 is damaged. The numbers in the others."""
    with sk.open_log(root) as log:
        log.create_topic("numbers", "number int", key="number", partitions=3)
        for first in (0, 20):
            with log.producer() as producer:
                producer.send_batch("numbers", [{"number": number} for number in range(first, first + 20)])
        frame = log.catalog.manifest.extents(log.topic("numbers").id, 1)[1]
        rows = log.read("numbers").to_pylist()
    data = bytearray((root / frame.path).read_bytes())
    data[frame.position + 200] ^= 1
    (root / frame.path).chmod(0o644)
    (root / frame.path).write_bytes(data)
    return sorted(
        row["number"] for row in rows if (row["_partition"], row["_offset"]) < (1, frame.base_offset) or row["_partition"] == 2
    )


@pytest.mark.parametrize("group", [(), ("--group", "readers")], ids=["alone", "group"])
@pytest.mark.parametrize("form", ["json", "csv", "table"])
def test_what_can_be_read_is_printed_before_the_error(as_program, damaged, form, group):
    """The rows before the damaged frame and those of all other partitions, then the error, and exit code 1."""
    code, output, errors = as_program("consume", "numbers", "--format", form, "--max", "100", *group)

    found = {
        "json": lambda: numbers(output),
        "csv": lambda: [int(line.split(",")[0]) for line in output.splitlines()[1:]],
        "table": lambda: [int(word) for line in output.splitlines() for word in [line.strip(" │|")] if word.isdigit()],
    }[form]()
    assert sorted(found) == damaged, output
    assert code == 1
    assert "frame of topic numbers, partition 1" in " ".join(errors.split())


def test_a_group_commits_up_to_the_damage(as_program, root, damaged):
    """What was printed is committed, and nothing of the damaged frame, so that it is read once the file is restored."""
    as_program("consume", "numbers", "--json", "--group", "readers")

    with sk.open_log(root) as log:
        frame = log.catalog.manifest.extents(log.topic("numbers").id, 1)[1]
        lag = {place.partition: place.lag for place in log.groups.describe("readers").partitions}
        assert lag == {0: 0, 1: log.end_offsets("numbers")[1] - frame.base_offset, 2: 0}
