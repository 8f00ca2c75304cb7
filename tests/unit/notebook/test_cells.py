"""Watches in a real kernel: they move while a cell blocks, a saved notebook has the last figures, and nothing of it needs widgets."""

from __future__ import annotations

import re

import pytest

from streamkit.notebook.widget import VIEW_TYPE, has_widgets
from tests.unit.notebook.conftest import ROOT, execute, notebook_of

BEGIN = """
import tempfile, threading, time
import streamkit as sk
from tests.unit.notebook.conftest import send_orders, totals

log = sk.open_log(tempfile.mkdtemp())
log.create_topic("orders", "id bigint, customer string, amount double", key="customer", partitions=2)
send_orders(log, 0, 70)
run = sk.run(totals(), log=log, engine="local")
graph = run.watch()
graph
"""
WATCH_TOO = """
while run.records() < 70:
    time.sleep(0.02)
tail = log.watch("orders", chart=("_timestamp", "amount"))
board = run.store("per_customer").watch("total desc")
display(tail, board)
"""
BLOCK = """
send_orders(log, 70, 30)
seen = graph.looks
while graph.looks < seen + 3 or "rows since it is watched 30" not in repr(tail):  # nothing but this cell runs
    time.sleep(0.02)
"""
END = """
from streamkit.notebook.open_watches import current_execution

assert current_execution().request
run.stop()
tail.close()
board._widget.widget.close() if board._widget else board.close()
while any(one.name.startswith("streamkit-watch-") for one in threading.enumerate()):
    time.sleep(0.02)
"""


def outputs_of(notebook, number):
    return [output for output in notebook.cells[number].outputs if output.output_type == "display_data"]


@pytest.mark.skipif(not has_widgets(), reason="anywidget is not installed")
def test_widgets_move_while_a_cell_blocks():
    """
    States reach the browser while a cell runs Python and nothing else; in the end outputs have the last figures as HTML, too.

    A run that ends, a widget that is closed and a watch that is closed leave no thread.
    """
    notebook = notebook_of(BEGIN, WATCH_TOO, BLOCK, END)
    client = execute(notebook, ROOT)

    moved = [state for cell, state in client.sent if cell == 2]
    assert any("rows" in state for state in moved) and any("steps" in state for state in moved)
    assert sum("looked_ms" in state for state in moved) >= 2
    assert [state["is_live"] for cell, state in client.sent if cell == 3 and "is_live" in state].count(False) >= 1
    (graph,), (tail, board) = outputs_of(notebook, 0), outputs_of(notebook, 1)
    assert [VIEW_TYPE in kinds for kinds in client.kinds] == [True, True, True]
    assert all(
        set(output.data) == {"text/plain", "text/html"} for output in (graph, tail, board)
    )  # saved, and opened without a kernel
    assert ">100 in, 100 out</text>" in graph.data["text/html"] and "ended" in graph.data["text/plain"]
    assert "<svg" in tail.data["text/html"] and "rows since it is watched 30" in tail.data["text/plain"]
    assert re.search(r"<td>c\d</td><td>1[45]</td>", board.data["text/html"])


def test_without_widgets_there_is_html_in_its_place():
    """Without the extra each cell has HTML alone, which is put in its own place while others run; no cell fails, and nothing is printed."""
    hide = "import sys\nsys.modules['anywidget'] = None"
    notebook = notebook_of(hide + BEGIN, WATCH_TOO, BLOCK, END)
    client = execute(notebook, ROOT)

    assert client.sent == []
    (graph,), (tail, board) = outputs_of(notebook, 0), outputs_of(notebook, 1)
    assert all(set(output.data) == {"text/plain", "text/html"} for output in (graph, tail, board))
    assert ">100 in, 100 out</text>" in graph.data["text/html"] and "rows since it is watched 30" in tail.data["text/plain"]
    assert [output for cell in notebook.cells for output in cell.outputs if output.output_type != "display_data"] == []
