"""`streamkit store verify`."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from streamkit.state.tiered_store import TieredStore
from tests.kit.stored import put


def rows(output):
    return [line.split() for line in output.splitlines() if line.strip()]


def spoil(root: Path, task: int, store: int, make) -> None:
    """Write a pair into a task's files, made from the first one that a store has there, by its number."""
    opened = TieredStore(root / "stores" / "order-counts" / "1" / f"{task}-of-2")
    pairs = zip(*opened.scan(b"", b"\xff\xff"), strict=True)
    key, value = next((key, value) for key, value in pairs if int.from_bytes(key[2:4], "big") == store)
    position = opened.position()
    assert position is not None
    key, value = make(key, value)
    put(opened, [key], [value], position)
    opened.close()


def test_equal_stores(streamkit, application):
    """Each store of each task is shown with its rows, and a last line says that all are as their changelogs say."""
    output = streamkit("store", "verify", application)

    found = [row for row in rows(output) if row[0] in ("orders_of", "hourly")]
    assert [(row[0], row[1], row[4]) for row in found] == [
        (name, task, "equal") for task in "01" for name in ("orders_of", "hourly")
    ]
    assert sum(int(row[5]) for row in found if row[0] == "orders_of") == 2
    assert sum(int(row[5]) for row in found if row[0] == "hourly") == 3
    assert "the stores of 2 of 2 tasks are what the changelogs say" in output


def test_one_store(streamkit, application):
    """A store can be named, and is alone in the answer."""
    found = json.loads(streamkit("store", "verify", application, "hourly", "--json"))

    assert found["sound"] is True
    assert [(one["store"], one["task"], one["situation"], one["differences"]) for one in found["stores"]] == [
        ("hourly", 0, "equal", 0),
        ("hourly", 1, "equal", 0),
    ]
    assert sum(one["rows"] for one in found["stores"]) == 3
    assert all(one["bytes"] > 0 for one in found["stores"] if one["rows"])


def test_a_difference_is_shown_as_rows(streamkit, application, root):
    """A key that is missing and one whose bytes differ are shown by their columns, with what each side says; the exit code is 1."""
    spoil(root, 0, 1, lambda key, value: (key, value[:-1] + bytes([value[-1] ^ 7])))
    output = streamkit("store", "verify", application, code=1)

    assert ["hourly", "0", "of", "2", "different"] in [row[:5] for row in rows(output)]
    (line,) = [line for line in output.splitlines() if "window_start=" in line]
    assert "number=" in line and line.count("total=") == 2 and "bytes from 25 on 07" in line and "bytes from 25 on 00" in line
    assert "delete " + str(root / "stores" / "order-counts" / "1" / "0-of-2") in output
    assert "1-of-2" not in output


def test_a_missing_and_an_additional_key_have_nothing_on_one_side(streamkit, application, root):
    """JSON has a key's columns and bytes, and null for the side that does not have it."""
    spoil(root, 0, 1, lambda key, value: (key, None))
    spoil(root, 0, 0, lambda key, value: (b"\x00\x01\x00\x09else", b"x"))
    found = json.loads(streamkit("store", "verify", application, "--json", code=1))

    assert found["sound"] is False
    missing, stray = (one for one in found["stores"] if one["differences"])
    assert (missing["store"], missing["task"], stray["store"]) == ("hourly", 0, None)
    assert missing["first"][0]["here"] is None and missing["first"][0]["changelog"].keys() == {"total"}
    assert missing["first"][0]["key"].keys() == {"number", "window_start", "window_end"}
    assert stray["first"] == [
        {
            "key": {"key_group": 1, "store_number": 9}, "key_bytes": "00010009656c7365", "here": None, "here_bytes": "78",
            "changelog": None, "changelog_bytes": None,
        }
    ]  # fmt: skip


def test_a_damaged_folder_is_no_traceback(as_program, application, root):
    """A file with a wrong checksum is reported as damaged, with what becomes of it, and the exit code is 1."""
    (file,) = (root / "stores" / "order-counts" / "1" / "1-of-2").glob("*.run")
    file.write_bytes(b"\x00" + file.read_bytes()[1:])
    code, output, errors = as_program("store", "verify", application)

    assert (code, errors.strip()) == (1, "")
    assert ["orders_of", "1", "of", "2", "damaged"] in [row[:5] for row in rows(output)]
    assert "task 1 of 2: the file" in output and "is damaged; it is discarded when its application opens it again" in output
    assert "1 damaged: when next opened, its stores are restored from their changelogs" in output


def test_without_a_folder_nothing_is_verified(streamkit, application, root):
    """Where a host has no local stores, each line says so, and nothing is wrong with that."""
    shutil.rmtree(root / "stores")
    output = streamkit("store", "verify", application)

    assert [row[4] for row in rows(output) if row[0] in ("orders_of", "hourly")] == ["absent"] * 4
    assert "there is no local store on this host: when its task runs here, its stores are restored" in output
    assert "the stores of 0 of 2 tasks are what the changelogs say; 2 absent" in output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(("nobody",), "application 'nobody' does not exist"), (("order-counts", "daily"), "has no store 'daily'; it has orders_of")],
)
def test_what_cannot_be_verified(as_program, application, arguments, message):
    """Where there is no telling, the exit code is 2, and --json has the error too."""
    code, output, errors = as_program("store", "verify", *arguments, "--json")

    assert code == 2
    assert message in errors and message in json.loads(output)["error"]
