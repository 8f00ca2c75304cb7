"""An operator is two files of the same name; what passes ask of it, it answers itself."""

from __future__ import annotations

import ast
import dataclasses
from pathlib import Path

import pytest

import streamkit.engine.operators as kernels_folder
import streamkit.plan.operators as records_folder
from streamkit.engine.stage.registry import _KERNELS
from streamkit.plan.operator import KINDS
from streamkit.plan.operator_traits import DROPPED, EACH_ALONE, EACH_ONCE, IN_ORDER, OF_FIRST_INPUT, PASSED, READ

ROOT = Path(__file__).parents[3]
RECORDS = "streamkit.plan.operators."
KERNELS = "streamkit.engine.operators."
PASSES = (
    "stages", "exchanges", "partials", "pruning", "explain", "program_check", "naming", "describe", "mermaid", "picture", "lowering",
)  # fmt: skip
ASKS_FOR_CLASS = {"isinstance", "issubclass", "type"}


def records():
    """The records of operators that have a file in the folder, and whose rows a kernel makes: sources are what readers read."""
    return [record for record in KINDS.values() if record.__module__.startswith(RECORDS) and not is_read_from_the_log(record)]


def is_read_from_the_log(record):
    """Whether an operator takes no inputs, so that nothing runs it."""
    return "input_read" in record.__dict__


def test_every_file_is_found():
    """A file in either folder is imported by itself, without a list that names it."""
    for folder in (records_folder, kernels_folder):
        files = {file.stem for file in Path(folder.__path__[0]).glob("*.py")} - {"__init__"}
        assert set(folder.NAMES) == files


@pytest.mark.parametrize("record", records(), ids=lambda record: record.kind)
def test_a_record_has_its_kernel_in_the_file_of_the_same_name(record):
    """What plan/operators/x.py records, engine/operators/x.py runs."""
    function = _KERNELS[record].function

    assert function.__module__ == KERNELS + record.__module__.removeprefix(RECORDS)


def test_kernels_stand_beside_records():
    """No file of kernels is without a file of records, and none registers a kernel for a record of another file."""
    ours = [(record, kernel) for record, kernel in _KERNELS.items() if record.__module__.startswith(RECORDS)]

    assert set(kernels_folder.NAMES) <= set(records_folder.NAMES)
    assert {record.__module__.removeprefix(RECORDS) for record, _ in ours} == set(kernels_folder.NAMES)


def test_what_is_read_from_the_log_has_no_kernel():
    """Readers make the rows of a source: no kernel runs it."""
    assert {record for record in KINDS.values() if is_read_from_the_log(record)}.isdisjoint(_KERNELS)


@pytest.mark.parametrize("record", records(), ids=lambda record: record.kind)
def test_what_a_kind_is_fits_together(record):
    """Readers look up no table and keep no store; stores and windows that traits speak of are fields; headers are treated in a known way."""
    traits, fields = record.traits, {one.name for one in dataclasses.fields(record)}

    assert traits.headers in (PASSED, OF_FIRST_INPUT, READ, DROPPED)
    assert traits.leaves_out in ("", EACH_ALONE, EACH_ONCE, IN_ORDER)
    assert fields.issuperset(traits.store_fields)
    assert not traits.is_looked_up or (traits.store_fields and traits.follows_rows and traits.passes_rows and traits.is_view)
    assert not traits.closes_windows or "window" in fields
    assert traits.stage_min > 0 or not (traits.looks_up or traits.store_fields or traits.holds_back or traits.keeps_lists)


@pytest.mark.parametrize("name", PASSES)
def test_passes_ask_no_operator_for_its_class(name):
    """A pass knows operators and nodes by their traits alone, so that a new one touches no pass."""
    tree = ast.parse((ROOT / "streamkit" / "plan" / f"{name}.py").read_text(encoding="utf-8"))
    called = {node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}

    assert called.isdisjoint(ASKS_FOR_CLASS)
    assert not [node for node in ast.walk(tree) if isinstance(node, ast.Match)]
