"""What is left out of the reports of a worker is nothing that went wrong."""

from __future__ import annotations

import subprocess
import sys

TESTS = """
import pytest

@pytest.fixture
def broken():
    yield
    raise ValueError("the tear-down")

def test_good():
    pass

def test_bad():
    assert False, "the call"

def test_left(broken):
    pass

def test_asks(missing):
    pass

@pytest.mark.skip("the reason")
def test_skipped():
    pass
"""
CONFTEST = """
import pytest
from tests.kit.reporting import run_and_tell

@pytest.hookimpl
def pytest_runtest_protocol(item, nextitem):
    run_and_tell(item, nextitem)
    return True
"""


def test_what_goes_wrong_is_told(tmp_path, pytestconfig):
    """Failures of a call, of a tear-down and of a set-up, skips and what passed are counted and explained."""
    (tmp_path / "test_parts.py").write_text(TESTS)
    (tmp_path / "conftest.py").write_text(CONFTEST)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "no:xdist",
        "-ra",
        "-p",
        "no:cacheprovider",
        "--rootdir",
        str(tmp_path),
        str(tmp_path),
    ]
    found = subprocess.run(command, cwd=pytestconfig.rootpath, capture_output=True, text=True, check=False)

    assert found.returncode == 1
    assert "1 failed, 2 passed, 1 skipped, 2 errors" in found.stdout
    for text in ("the call", "the tear-down", "fixture 'missing' not found", "the reason"):
        assert text in found.stdout
