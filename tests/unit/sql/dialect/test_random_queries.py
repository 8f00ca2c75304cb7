"""A random query of the ksql dialect gives what the rules of ksqlDB say, computed row by row in Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.kit.sampling import examples
from tests.unit.sql.dialect.scenarios import Record, Scenario, written_by_session

Row = dict[str, Any]
Rule = Callable[[Row], Any]
SOURCE = "CREATE STREAM S (K INT KEY, V INT, W INT, T STRING) WITH (KAFKA_TOPIC = 's', VALUE_FORMAT = 'JSON', PARTITIONS = 1);\n"
HALF = 1 << 31


class FailedError(Exception):
    """An expression fails in a row."""


def _wrapped(value: int) -> int:
    return (value + HALF) % (2 * HALF) - HALF


def _calculated(sign: str, one: Any, other: Any) -> Any:
    """Arithmetic of INTEGER: null of null, wrapping, truncating; a division by zero fails."""
    if one is None or other is None:
        return None
    if sign in "/%":
        if other == 0:
            raise FailedError
        quotient = abs(one) // abs(other) * (1 if (one < 0) == (other < 0) else -1)
        return _wrapped(quotient if sign == "/" else one - quotient * other)
    return _wrapped(one + other if sign == "+" else one - other if sign == "-" else one * other)


def _compared(sign: str, one: Any, other: Any) -> bool:
    """A comparison, which is false with null."""
    if one is None or other is None:
        return False
    return bool({"=": one == other, "<>": one != other, "<": one < other, ">=": one >= other}[sign])


def _element(values: list[Any], place: int | None) -> Any:
    """An element by its place from 1, or from the end; null where there is none, and a place that is null fails."""
    if place is None:
        raise FailedError
    places = {**{at + 1: one for at, one in enumerate(values)}, **{at - len(values): one for at, one in enumerate(values)}}
    return places.get(place)


@st.composite
def numbers(draw: st.DrawFn, depth: int = 2) -> tuple[str, Rule]:
    """The text of an expression that is an INTEGER, and its rule."""
    if depth == 0 or draw(st.booleans()):
        if draw(st.booleans()):
            name = draw(st.sampled_from(["V", "W"]))
            return name, lambda row: row[name]
        number = draw(st.integers(0, 9))
        return str(number), lambda row: number
    sign = draw(st.sampled_from("+-*/%["))
    (one, first), (other, second) = draw(numbers(depth - 1)), draw(numbers(depth - 1))
    if sign == "[":
        return f"ARRAY[V, W][{one}]", lambda row: _element([row["V"], row["W"]], first(row))
    return f"({one} {sign} {other})", lambda row: _calculated(sign, first(row), second(row))


@st.composite
def conditions(draw: st.DrawFn, depth: int = 2) -> tuple[str, Rule]:
    """The text of a condition, and its rule: it is never null, unless it fails."""
    kind = draw(st.sampled_from(["compare", "null", "between"] + (["and", "or", "not"] if depth else [])))
    if kind == "compare":
        sign = draw(st.sampled_from(["=", "<>", "<", ">="]))
        (one, first), (other, second) = draw(numbers(1)), draw(numbers(1))
        return f"({one} {sign} {other})", lambda row: _compared(sign, first(row), second(row))
    if kind == "null":
        return "(T IS NULL)", lambda row: row["T"] is None
    if kind == "between":
        return "(V BETWEEN 2 AND W)", lambda row: _compared(">=", row["V"], 2) and _compared(">=", row["W"], row["V"])
    one, first = draw(conditions(depth - 1))
    if kind == "not":
        return f"(NOT {one})", lambda row: not first(row)
    other, second = draw(conditions(depth - 1))
    if kind == "and":
        return f"({one} AND {other})", lambda row: first(row) and second(row)
    return f"({one} OR {other})", lambda row: first(row) or second(row)


ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "V": st.none() | st.sampled_from([0, 1, 2, -7, 2**31 - 1, -(2**31)]),
            "W": st.none() | st.integers(-3, 9),
            "T": st.none() | st.sampled_from(["a", "b"]),
        }
    ),
    min_size=1,
    max_size=6,
)


def _or_null(rule: Rule, row: Row) -> Any:
    try:
        return rule(row)
    except FailedError:
        return None


def _given(rows: list[Row]) -> list[Record]:
    return [Record("s", place, place, row) for place, row in enumerate(rows)]


@examples(15)
@given(query=st.tuples(numbers(), numbers(1), conditions(), conditions(1)), rows=ROWS)
def test_a_projection_and_a_condition(query: Any, rows: list[Row]) -> None:
    """What fails is null in its column, and drops the row in WHERE."""
    (a, first), (b, second), (shown, third), (where, condition) = query
    text = f"{SOURCE}CREATE STREAM O AS SELECT K, {a} AS A, {b} AS B, {shown} AS C FROM S WHERE {where};"
    wanted = [
        Record("O", place, place, {"A": _or_null(first, row), "B": _or_null(second, row), "C": _or_null(third, row)})
        for place, row in enumerate(rows)
        if _or_null(condition, row)
    ]
    assert written_by_session(Scenario("", "", text, _given(rows))) == wanted


@examples(15)
@given(
    group=numbers(1),
    value=numbers(1),
    having=st.tuples(st.sampled_from("SCN"), st.sampled_from(["=", "<>", "<", ">="]), st.integers(-3, 5)),
    rows=ROWS,
)
def test_groups(group: Any, value: Any, having: tuple[str, str, int], rows: list[Row]) -> None:
    """
    A row whose group is null or fails is dropped; SUM is 0 of nothing, wraps, and COUNT leaves out nulls.

    HAVING deletes what it kept before; of a new group, if it would keep one of no rows.
    """
    (by, key_of), (summed, value_of), (measure, sign, number) = group, value, having
    asked = {"S": f"SUM({summed})", "C": f"COUNT({summed})", "N": "COUNT(*)"}[measure]
    text = (
        f"{SOURCE}CREATE TABLE O AS SELECT {by} AS G, SUM({summed}) AS S, COUNT({summed}) AS C, COUNT(*) AS N FROM S "
        f"GROUP BY {by} HAVING {asked} {sign} {number};"
    )
    groups: dict[int, list[Any]] = {}
    wanted = []
    for place, row in enumerate(rows):
        key = _or_null(key_of, row)
        if key is None:
            continue
        before = _of_group(groups.setdefault(key, []))
        groups[key].append(_or_null(value_of, row))
        result = _of_group(groups[key])
        if _compared(sign, result[measure], number):
            wanted.append(Record("O", place, key, result))
        elif _compared(sign, before[measure], number):
            wanted.append(Record("O", place, key, None))
    assert written_by_session(Scenario("", "", text, _given(rows))) == wanted


def _of_group(values: list[Any]) -> dict[str, int]:
    known = [one for one in values if one is not None]
    return {"S": _wrapped(sum(known)), "C": len(known), "N": len(values)}
