"""Promises of the list of harnesses: nothing that has a full count is left out of it."""

from __future__ import annotations

import re

import pytest

from tests.torture.__main__ import HARNESSES, ROOT

FULL_COUNT = re.compile(r"\b(STREAMKIT_TORTURE|IS_TORTURE)\b")
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


def test_some_have_full_counts():
    """The search finds those that are known to have them."""
    assert {ROOT / "tests/log/test_rebuild.py", ROOT / "tests/crash/test_points.py"} <= set(WITH_FULL_COUNT)
