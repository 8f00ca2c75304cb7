"""Promises of the list of harnesses: nothing that has a full count is left out of it, and each is shown to catch what is wrong."""

from __future__ import annotations

import re

import pytest

from tests.torture.__main__ import HARNESSES, ROOT

FULL_COUNT = re.compile(r"\b(STREAMKIT_TORTURE|IS_TORTURE)\b")
SEEDED = re.compile(r'^@pytest\.mark\.parametrize\("bug", \[?\*?BUGS\b', re.MULTILINE)
LISTED = [ROOT / path for paths in HARNESSES.values() for path in paths.split()]
WITH_FULL_COUNT = sorted(
    file
    for file in (ROOT / "tests").rglob("test_*.py")
    if file.parent.name != "torture" and FULL_COUNT.search(file.read_text(encoding="utf-8"))
)


@pytest.mark.parametrize("file", WITH_FULL_COUNT, ids=lambda file: file.relative_to(ROOT).as_posix())
def test_full_counts_are_in_a_harness(file):
    """A test file that does more under torture is run under torture, in one harness."""
    assert sum(path in (file, *file.parents) for path in LISTED) == 1


@pytest.mark.parametrize("file", WITH_FULL_COUNT, ids=lambda file: file.relative_to(ROOT).as_posix())
def test_full_counts_are_shown_to_catch_bugs(file):
    """A test file that does more under torture, or the one of its bugs beside it, plants some, called `BUGS`, and sees each caught."""
    beside = file.with_name(f"{file.stem}_bugs.py")
    assert any(SEEDED.search(one.read_text(encoding="utf-8")) for one in (file, beside) if one.exists())


def test_some_have_full_counts():
    """The search finds those that are known to have them."""
    assert {ROOT / "tests/log/rescue/test_rebuild.py", ROOT / "tests/crash/test_points.py"} <= set(WITH_FULL_COUNT)
