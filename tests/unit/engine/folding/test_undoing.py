"""Subtractors that do not undo their adders are told where functions are called twice."""

from __future__ import annotations

import warnings

import pytest

import streamkit as sk
from streamkit.testing import TopologyTestDriver

ROWS = [
    {"user": "a", "city": "rome", "age": 0.1},
    {"user": "b", "city": "rome", "age": 1e17},
    {"user": "c", "city": "rome", "age": 0.1},
]
CHANGED = {"user": "a", "city": "rome", "age": 3.0}
GONE = {"user": "b", "city": None, "age": None, "_deleted": True}


def warnings_of(initial, adder, subtractor, schema, rows=(*ROWS, CHANGED, GONE)):
    """What is warned of while rows come, change and leave."""
    app = sk.Topology("undoing")
    users = app.table("users", schema="user string, city string, age double", key="user")
    users.group_by("city").aggregate(initial, adder, subtractor, schema, store="folded")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with TopologyTestDriver(app) as driver:
            for row in rows:
                driver.pipe("users", row)
    return [str(one.message) for one in caught if "subtractor" in str(one.message)]


def names_with(state, user):
    return {"names": [*(state["names"] or []), user["user"]], "ages": {**dict(state["ages"] or {}), user["user"]: user["age"]}}


def names_without(state, user):
    return {
        "names": [name for name in reversed(state["names"]) if name != user["user"]],
        "ages": {name: age for name, age in dict(state["ages"]).items() if name != user["user"]},
    }


UNDONE = {
    "a count": ({"n": 0}, lambda s, r: {"n": s["n"] + 1}, lambda s, r: {"n": s["n"] - 1}, "n int"),
    "a sum of doubles, up to rounding": (
        {"t": 0.0}, lambda s, r: {"t": s["t"] + r["age"]}, lambda s, r: {"t": s["t"] - r["age"]}, "t double",
    ),
    "a list, in another order": ({"names": [], "ages": {}}, names_with, names_without, "names array<string>, ages map<string, double>"),
    "a group that is deleted when it is empty": (
        {"n": 0}, lambda s, r: {"n": s["n"] + 1}, lambda s, r: {"n": s["n"] - 1} if s["n"] > 1 else None, "n int",
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", UNDONE)
def test_what_is_undone_is_not_told(kind):
    """No warning where the state is as before, but for rounding, for the order of lists, and for a state that is deleted when empty."""
    assert warnings_of(*UNDONE[kind]) == []


def test_a_subtractor_that_fails_fails_where_a_row_leaves():
    """A subtractor that raises is no error as long as no row leaves its group."""
    adder, failing = UNDONE["a count"][1], lambda state, user: {"n": 1 // 0}

    assert warnings_of({"n": 0}, adder, failing, "n int", ROWS) == []
    with pytest.raises(sk.errors.EvaluationError, match="division"):
        warnings_of({"n": 0}, adder, failing, "n int")


def test_what_is_left_over_is_told():
    """The warning names both functions, the column that differs, and the user's line; columns that are undone are not named."""

    def add(state, user):
        return {"n": state["n"] + 1, "oldest": max(state["oldest"], user["age"])}

    def take(state, user):
        return {"n": state["n"] - 1, "oldest": state["oldest"]}

    told = warnings_of({"n": 0, "oldest": 0.0}, add, take, "n int, oldest double")

    assert told and all(one.startswith("the subtractor take does not undo the adder add: ") for one in told)
    assert all("differed in oldest; " in one and "test_undoing.py:" in one for one in told)
