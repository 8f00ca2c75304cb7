"""What is compiled ahead is what Python and pytest load."""

from __future__ import annotations

import importlib.util
import os

import pytest
from _pytest.assertion import rewrite

from tests.kit.compiled import compile_all, compiled_path

TEST = "def test_sum():\n    one = 1\n    assert one == 2\n"


def test_workers_find_what_was_compiled(tmp_path, pytestconfig, monkeypatch):
    """A worker compiles nothing of it again, and its assertions tell what they compared."""
    folder = tmp_path / "tests"
    folder.mkdir()
    test, module = folder / "test_sum.py", folder / "reference.py"
    test.write_text(TEST)
    module.write_text("ONE = 1\n")

    compile_all(pytestconfig, tmp_path)

    assert compiled_path(module).exists()
    monkeypatch.setattr(rewrite, "_rewrite_test", lambda *_: 1 / 0)  # pytest, if it had to compile the test itself
    hook = pytestconfig.stash[rewrite.assertstate_key].hook
    spec = importlib.util.spec_from_file_location("test_sum", test, loader=hook)
    assert spec is not None
    loaded = importlib.util.module_from_spec(spec)
    hook.exec_module(loaded)
    with pytest.raises(AssertionError, match="assert 1 == 2"):  # so its assertions are rewritten
        loaded.test_sum()


def test_a_changed_file_is_compiled_again(tmp_path, pytestconfig):
    """What was compiled before it changed is not loaded."""
    (tmp_path / "tests").mkdir()
    test = tmp_path / "tests" / "test_sum.py"
    test.write_text(TEST)
    compile_all(pytestconfig, tmp_path)
    before = compiled_path(test).read_bytes()
    test.write_text(TEST.replace("2", "3"))
    os.utime(compiled_path(test), (0, 0))

    compile_all(pytestconfig, tmp_path)

    assert compiled_path(test).read_bytes() != before
