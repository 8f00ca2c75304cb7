"""Every notebook runs from top to bottom, and shows what it promises."""

from __future__ import annotations

import os
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from tests.kit.oracle import flights as oracle

NOTEBOOKS = Path(__file__).parents[3] / "notebooks"
SAID_BY_SPARK = """
from pathlib import Path
print(*(file.stat().st_size > 0 for file in Path(log.root).rglob("spark.log")))
"""


def execute(notebook):
    """Run all cells in a fresh kernel, whose JVM, if it starts one, is its own; a cell that fails raises."""
    environment = {**os.environ, "PYTHONPATH": str(NOTEBOOKS.parent)}
    client = NotebookClient(notebook, timeout=240, kernel_name="python3", resources={"metadata": {"path": str(NOTEBOOKS)}})
    client.execute(env=environment)


ORDERS = """
import tempfile
import streamkit as sk

log = sk.open_log(tempfile.mkdtemp())
log.create_topic("orders", "customer string, amount int", key="customer")
with log.producer() as producer:
    producer.send_batch("orders", [{"customer": name, "amount": 1} for name in ("ann", "bob", "ann")])
app = sk.Topology("spending")
app.stream("orders").group_by("customer").count(store="counts").to("spending")
"""


def outputs_of(*cells):
    """What each of these cells of a fresh notebook shows."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    execute(notebook)
    return [cell.outputs for cell in notebook.cells]


def test_wait_shows_a_line_that_moves():
    """While somebody waits in a notebook, one line says how far the run is, and in the end that it has ended; the next wait has its own."""
    _, shown, again = outputs_of(
        ORDERS,
        "run = sk.run(app, log=log, engine='local', trigger='available_now')\nrun.wait()",
        "sk.run(app, log=log, engine='local', trigger='available_now').wait()",
    )

    lines = [output["data"]["text/plain"] for output in shown if output.output_type == "display_data"]
    assert len(lines) == 1
    assert lines[0].startswith("spending: epoch 1, 3 records, ") and "lag 0, late 0, ended after " in lines[0]
    assert [output["data"]["text/plain"][:31] for output in again[:1]] == ["spending: epoch 1, 0 records, 0"]


def cell_ending(notebook, line):
    """The code cell whose last line begins so."""
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    return next(cell for cell in cells if cell.source.splitlines()[-1].startswith(line))


def shown(cell):
    """What a cell shows, by kind of content."""
    contents = [output["data"] for output in cell.outputs if "data" in output]
    return {kind: content for data in contents for kind, content in data.items()}


@pytest.mark.slow
def test_first_topology():
    """
    The first notebook shows the graph, finds what pandas finds, and draws the delays.

    The session that its run starts writes its messages into the log's file, and nothing red stands below the cell.
    """
    notebook = nbformat.read(NOTEBOOKS / "01_first_topology.ipynb", as_version=4)
    notebook.cells.append(nbformat.v4.new_code_cell(SAID_BY_SPARK))
    execute(notebook)
    expected = oracle.daily_delays()
    row = expected[
        (expected["origin"] == "JFK") & (expected["airline"] == "JetBlue Airways") & (expected["window_start"] == "2013-07-01")
    ]

    assert "text/html" in shown(cell_ending(notebook, "app"))
    assert "'drained': True" in shown(cell_ending(notebook, "run.status()"))["text/plain"]
    assert f"'flights': {row['flights'].item()}" in shown(cell_ending(notebook, "run.store("))["text/plain"]
    assert "image/png" in shown(cell_ending(notebook, "axes.set("))
    waited, said = cell_ending(notebook, "run.wait()").outputs, notebook.cells[-1].outputs
    assert [output for output in waited if output.output_type == "stream"] == []
    assert ", ended after " in waited[0]["data"]["text/plain"]
    assert said[0]["text"] == "True\n"


@pytest.mark.parametrize("path", sorted(NOTEBOOKS.glob("*.ipynb")), ids=lambda path: path.name)
def test_notebook_is_kept_without_outputs(path):
    """Notebooks are kept without outputs, so that their changes can be read."""
    cells = [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]

    assert [cell.id for cell in cells if cell.outputs or cell.execution_count] == []
