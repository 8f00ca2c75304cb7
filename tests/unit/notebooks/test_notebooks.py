"""Every notebook runs from top to bottom, and shows what it promises; what must hold, its cells assert themselves."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest

from tests.kit.oracle import flights as oracle
from tests.unit.notebook.conftest import ROOT, execute, notebook_of

NOTEBOOKS = ROOT / "notebooks"
SAID_BY_SPARK = """
from pathlib import Path
print(*(file.stat().st_size > 0 for file in Path(log_of_spark.root).rglob("spark.log")))
"""
# The client of these tests drops an output that a thread sends between two cells, which JupyterLab shows: so it is sent again in a cell.
WATCHES_HAVE_ENDED = """
import gc
import threading
import time
from streamkit.notebook.watch import Watch

while any(one.name.startswith("streamkit-watch-") for one in threading.enumerate()):
    time.sleep(0.02)
for one in gc.get_objects():
    if isinstance(one, Watch):
        assert one._has_ended
        one._show_again(is_last=True)
"""


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
    notebook = notebook_of(*cells)
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


def executed(name, *further):
    """A notebook after all its cells, and further ones, have run; nothing red stands below any of them."""
    notebook = nbformat.read(NOTEBOOKS / f"{name}.ipynb", as_version=4)
    notebook.cells += [nbformat.v4.new_code_cell(cell) for cell in further]
    execute(notebook)
    red = [(cell.id, output) for cell in notebook.cells for output in cell.get("outputs", ()) if output.get("name") == "stderr"]
    assert red == []
    return notebook


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
    The first notebook shows the graph, finds what pandas finds in this process and on Spark, and draws the delays.

    The session that its run starts writes its messages into the log's file.
    """
    notebook = executed("01_first_topology", WATCHES_HAVE_ENDED, SAID_BY_SPARK)
    expected = oracle.daily_delays()
    row = expected[
        (expected["origin"] == "JFK") & (expected["airline"] == "JetBlue Airways") & (expected["window_start"] == "2013-07-01")
    ]

    assert "text/html" in shown(cell_ending(notebook, "app"))
    assert "'drained': True" in shown(cell_ending(notebook, "run.status()"))["text/plain"]
    assert f"'flights': {row['flights'].item()}" in shown(cell_ending(notebook, "run.store("))["text/plain"]
    assert "image/png" in shown(cell_ending(notebook, "axes.set("))
    for wait in ("run.wait()", "run_on_spark.wait()"):
        assert (
            ", 340,098 records, " in (line := cell_ending(notebook, wait).outputs[0]["data"]["text/plain"])
            and ", ended after " in line
        )
    assert ">336,776 in, 336,776 out</text>" in shown(cell_ending(notebook, "run.watch()"))["text/html"]
    assert shown(cell_ending(notebook, "len(results("))["text/plain"] == str(len(expected))
    assert notebook.cells[-1].outputs[0]["text"] == "True\n"


def test_step_by_step():
    """Each trace is a page with a slider, and one of them has a late record."""
    notebook = executed("02_step_by_step")
    pages = [shown(cell)["text/html"] for cell in notebook.cells if cell.source.endswith("\ntrace")]

    assert len(pages) == 4 and all("type=&quot;range&quot;" in page for page in pages)
    assert "late" in shown(cell_ending(notebook, 'trace.epochs[5]["left_out"]'))["text/plain"]


def test_live():
    """The rows, the chart and the leaderboard go on over a kill; in the end the run has ended, and both generations are in its history."""
    notebook = executed("03_live", WATCHES_HAVE_ENDED)
    rows = shown(cell_ending(notebook, 'log.watch("clicks"'))["text/html"]
    chart = shown(cell_ending(notebook, 'log.watch("seconds"'))["text/html"]

    assert "<td>Rome</td>" in rows and "<td>Oslo</td>" not in rows and "<svg" in chart
    assert shown(cell_ending(notebook, "application.wait()"))["text/plain"] == "-9"
    page = shown(cell_ending(notebook, "run.watch()"))["text/html"]
    assert "<td>ended</td>" in page, page[:1500]


def test_time():
    """A late record is kept apart, a payment meets the rate of its moment, and a store is filled again."""
    notebook = executed("04_time")

    assert "99.0" in shown(cell_ending(notebook, "late"))["text/html"]
    assert shown(cell_ending(notebook, "[rates.valid_at("))["text/plain"] == "[1.1, 1.2, 1.3]"
    assert shown(cell_ending(notebook, "offsets"))["text/plain"] == "{0: 3}"


@pytest.mark.slow
def test_batch_and_stream():
    """Orders at once and in parts make the same rows, in pandas, in Delta Lake and on Spark."""
    pytest.importorskip("deltalake")
    notebook = executed("05_batch_and_stream")

    months, epochs = shown(cell_ending(notebook, "len(months("))["text/plain"].strip("()").split(", ")
    assert int(months) == 300 * 12 and int(epochs) > 5
    assert "customer-299" in shown(cell_ending(notebook, "spark_run.store("))["text/html"]


def test_when_it_goes_wrong():
    """The error names the record, the broken ones are sent again, and a start that would change the store says so before."""
    notebook = executed("06_when_it_goes_wrong")
    said = [
        "".join(output["text"] for output in cell.outputs if "text" in output) for cell in notebook.cells if "outputs" in cell
    ]

    assert any("topic payments, partition 0, offset 0, key account = 'a0'" in text for text in said)
    assert any("2 records were sent" in text for text in said)
    assert any("~ balances  the aggregate 'payments' was added" in text for text in said)
    assert ", 2 left out</text>" in shown(cell_ending(notebook, "run.watch()"))["text/html"]


@pytest.mark.parametrize("path", sorted(NOTEBOOKS.glob("*.ipynb")), ids=lambda path: path.name)
def test_notebook_is_kept_without_outputs(path):
    """Notebooks are kept without outputs, so that their changes can be read."""
    cells = [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]

    assert [cell.id for cell in cells if cell.outputs or cell.execution_count] == []


def test_every_notebook_has_a_test():
    """A new notebook runs in the suite: a test of this file names it."""
    text = Path(__file__).read_text(encoding="utf-8")

    assert [path.stem for path in NOTEBOOKS.glob("*.ipynb") if f'executed("{path.stem}"' not in text] == []
