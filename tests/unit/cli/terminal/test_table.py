"""Tables on a narrow terminal, and tables that grow."""

from __future__ import annotations

import re

import pytest

import streamkit as sk
from streamkit.cli.terminal.table import FollowedTable, show_table

ANSI = re.compile(r"\x1b\[[0-9;]*m")
BIG = 123_456_789_012


@pytest.fixture
def terminal(monkeypatch, capsys):
    """A terminal that is so wide; gives the lines that were printed there, without their colours."""

    def lines(width, show):
        monkeypatch.setenv("FORCE_COLOR", "1")
        monkeypatch.setenv("COLUMNS", str(width))
        show()
        return [ANSI.sub("", line).rstrip() for line in capsys.readouterr().out.splitlines()]

    return lines


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_numbers_stay_whole(terminal, width):
    """However narrow the terminal is, each number is on one line, and no line is wider than the terminal."""
    titles = ["topic", *(f"n{place}" for place in range(8))]
    rows = [["orders", *(BIG + place for place in range(8))], ["a topic with a rather long name", *range(8)]]
    lines = terminal(width, lambda: show_table(titles, rows))

    for place in range(8):
        assert any(f"{BIG + place:,}" in line for line in lines)
    assert max(map(len, lines)) <= width
    assert sum(line.lstrip().startswith("orders") for line in lines) >= (4 if width == 40 else 1)


def test_stats_keep_their_numbers_whole(terminal, streamkit, root):
    """`stats` on a terminal of 80 columns has sizes and times in one piece."""
    with sk.open_log(root) as log:
        held = log.describe("orders")

    lines = terminal(80, lambda: print(streamkit("stats")))
    assert any(f"{held['bytes']:,}" in line for line in lines)
    assert max(map(len, lines)) <= 80


def test_a_growing_table_has_one_header(capsys):
    """Rows that come later stand below the first ones, in their columns; a column that is added has its title printed."""
    table = FollowedTable(thousands="")
    table.add(("user", "n"), [("ann", 1000), ("bartholomew", 2)])
    table.add(("user", "n"), [("bob", 30)])
    table.add(("user", "n"), [("ann", 4)])
    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines() if line.strip()]

    assert [line.split() for line in lines if "─" not in line] == [
        ["user", "n"],
        ["ann", "1000"],
        ["bartholomew", "2"],
        ["bob", "30"],
        ["ann", "4"],
    ]
    assert {len(line) for line in lines if not line.strip().startswith("─") and "user" not in line} == {len(lines[0])}

    table.add(("user", "n", "_deleted"), [("ann", None, True)])
    assert capsys.readouterr().out.split()[:3] == ["user", "n", "_deleted"]
