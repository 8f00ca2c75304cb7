"""Every notebook runs from top to bottom, and shows what it promises."""

from __future__ import annotations

import os
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from tests.oracle import flights as oracle
from tests.spark.attached import way_to

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
ATTACH = "from tests.spark.attached import attach; attach()"


def executed(name, environment):
    """The notebook after all its cells have run in a fresh kernel; a cell that fails raises."""
    notebook = nbformat.read(NOTEBOOKS / name, as_version=4)
    notebook.cells.insert(0, nbformat.v4.new_code_cell(ATTACH))
    client = NotebookClient(notebook, timeout=240, kernel_name="python3", resources={"metadata": {"path": str(NOTEBOOKS)}})
    client.execute(env=os.environ | environment)
    return notebook


def cell_ending(notebook, line):
    """The code cell whose last line begins so."""
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    return next(cell for cell in cells if cell.source.splitlines()[-1].startswith(line))


def shown(cell):
    """What a cell shows, by kind of content."""
    contents = [output["data"] for output in cell.outputs if "data" in output]
    return {kind: content for data in contents for kind, content in data.items()}


def test_first_topology(spark):
    """The first notebook shows the graph, finds what pandas finds, and draws the delays."""
    notebook = executed("01_first_topology.ipynb", way_to(spark))
    expected = oracle.daily_delays()
    row = expected[
        (expected["origin"] == "JFK") & (expected["airline"] == "JetBlue Airways") & (expected["window_start"] == "2013-07-01")
    ]

    assert "text/html" in shown(cell_ending(notebook, "app"))
    assert "'drained': True" in shown(cell_ending(notebook, "run.status()"))["text/plain"]
    assert f"'flights': {row['flights'].item()}" in shown(cell_ending(notebook, "run.store("))["text/plain"]
    assert "image/png" in shown(cell_ending(notebook, "axes.set("))


@pytest.mark.parametrize("path", sorted(NOTEBOOKS.glob("*.ipynb")), ids=lambda path: path.name)
def test_notebook_is_kept_without_outputs(path):
    """Notebooks are kept without outputs, so that their changes can be read."""
    cells = [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]

    assert [cell.id for cell in cells if cell.outputs or cell.execution_count] == []
