"""Functions that are called with nothing but nulls, or with nothing, give a value or say in words what they take."""

from __future__ import annotations

from contextlib import suppress

import pytest

import streamkit as sk
from streamkit.errors import StreamKitError
from streamkit.expressions.sql.dialect import DIALECTS
from streamkit.sql.execution.callable_functions import SCALAR, functions
from streamkit.sql.session import SqlSession

CALLS_MOST = 5  # arguments


@pytest.mark.parametrize("dialect", DIALECTS)
def test_functions_of_nulls(dialect):
    """A null without a type is an argument like others, for each function and any number of them; nothing but an error of StreamKit is raised."""
    with sk.open_log(":memory:") as log, SqlSession(log, settings={"streamkit.sql.dialect": dialect}) as session:
        values = 0
        for function in functions(dialect):
            for count in range(CALLS_MOST) if function.kind == SCALAR else ():
                with suppress(StreamKitError):
                    session.query(f"SELECT {function.name}({', '.join(['NULL'] * count)}) AS x")
                    values += 1
        assert values > 50


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    "operator", ["=", "<>", "<", "<=", ">", ">=", "+", "-", "*", "/", "%", "AND", "OR", "LIKE", "IS DISTINCT FROM"]
)
def test_operators_of_nulls(dialect, operator):
    """Two nulls without a type are computed with, or refused in words."""
    with (
        sk.open_log(":memory:") as log,
        SqlSession(log, settings={"streamkit.sql.dialect": dialect}) as session,
        suppress(StreamKitError),
    ):
        assert session.query(f"SELECT NULL {operator} NULL AS x").column(0).to_pylist() in ([None], [False], [True])
