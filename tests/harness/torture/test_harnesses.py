"""Promises of the list of harnesses: nothing that has a full count is left out of it, and each is shown to catch what is wrong."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.harness.torture import harnesses
from tests.harness.torture.harnesses import GUARDED, HARNESSES, ROOT, changed, digest_of, harness_of, write_caught
from tests.kit.scheduling import TAKEN_CASES

FULL_COUNT = re.compile(r"\b(STREAMKIT_TORTURE|IS_TORTURE)\b")
SEEDED = re.compile(r'^@pytest\.mark\.parametrize\("bug", \[?\*?BUGS\b', re.MULTILINE)
SAMPLED = re.compile(r"^from tests\.kit\.sampling import", re.MULTILINE)
LISTED = [ROOT / path for paths in HARNESSES.values() for path in paths.split()]
FILES = [file for file in sorted((ROOT / "tests").rglob("test_*.py")) if file.parent.name != "torture"]
WITH_FULL_COUNT = [file for file in FILES if FULL_COUNT.search(file.read_text(encoding="utf-8"))]
WITH_BUGS = [file for file in FILES if SEEDED.search(file.read_text(encoding="utf-8"))]


def test_full_counts_and_bugs_are_in_a_harness():
    """A test file that does more under torture, or plants bugs, is run under torture, in one harness."""
    lost = [file for file in {*WITH_FULL_COUNT, *WITH_BUGS} if sum(path in (file, *file.parents) for path in LISTED) != 1]

    assert lost == []


def test_what_is_sampled_is_in_a_harness():
    """A test file of which an ordinary run takes a sample is run under torture, in one harness."""
    sampled = [file for file in FILES if SAMPLED.search(file.read_text(encoding="utf-8")) and file.name != "test_sampling.py"]

    assert {"test_semantics.py", "test_conformance.py"} <= {file.name for file in sampled}
    assert [file for file in sampled if sum(path in (file, *file.parents) for path in LISTED) != 1] == []


def test_full_counts_are_shown_to_catch_bugs():
    """A test file that does more under torture, or the one of its bugs beside it, plants some, called `BUGS`, and sees each caught."""
    assert [file for file in WITH_FULL_COUNT if not {file, file.with_name(f"{file.stem}_bugs.py")} & {*WITH_BUGS}] == []


def test_some_have_full_counts_and_some_bugs():
    """The search finds those that are known to have them."""
    assert {"test_rebuild.py", "test_points.py"} <= {file.name for file in WITH_FULL_COUNT}
    assert {"test_fsck_bugs.py", "test_siege.py"} <= {file.name for file in WITH_BUGS}


def test_every_harness_guards_something():
    """What a harness guards is there, so that a change of it is seen."""
    assert GUARDED.keys() == HARNESSES.keys()
    assert [path for paths in GUARDED.values() for path in paths.split() if not (ROOT / path).exists()] == []


def test_a_harness_is_known_by_its_files():
    """Files and folders lead to their harness, others to none."""
    assert harness_of(ROOT / "tests/harness/damage/test_hostile.py") == "damage"
    assert harness_of(Path(__file__)) is None


def test_a_digest_tells_texts_apart(tmp_path, monkeypatch):
    """Another text, another name and another file are another digest; what is not code does not matter."""
    monkeypatch.setattr(harnesses, "ROOT", tmp_path)
    digests = []
    for name, text in (("a.py", "1"), ("a.py", "2"), ("b.py", ""), ("a.txt", "3")):
        (tmp_path / name).write_text(text)
        digests.append(digest_of([tmp_path]))
    (tmp_path / "a.py").rename(tmp_path / "c.py")
    digests.append(digest_of([tmp_path]))

    assert digests[2] == digests[3] and len({*digests}) == 4


def test_what_was_caught_is_written_down(tmp_path, monkeypatch):
    """A harness has changed until it has passed in its present text; others stay as they are."""
    monkeypatch.setattr(harnesses, "CAUGHT", tmp_path / "caught.json")
    assert changed() == [*HARNESSES]
    write_caught(["damage"])
    write_caught(["power"])
    assert {*HARNESSES} - {*changed()} == {"damage", "power"}
    monkeypatch.setitem(HARNESSES, "damage", "tests/harness/crash/test_kill.py")
    assert "damage" in changed()


@pytest.mark.parametrize("name", TAKEN_CASES)
def test_what_is_taken_in_part_is_in_a_harness(name):
    """A test of which a run takes some cases exists, and `make torture` takes all of them."""
    file, _, function = name.partition("::")

    assert f"\ndef {function}(" in (ROOT / file).read_text(encoding="utf-8")
    assert harness_of(ROOT / file) is not None
