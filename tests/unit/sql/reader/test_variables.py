"""Variables of scripts."""

from __future__ import annotations

from typing import Any

import pytest

from streamkit.errors import SqlError
from streamkit.sql.reader.script import read_script


def items(statement):
    """The expressions of a query."""
    return [item.written.expression for item in statement.query.items]


def test_variables_are_replaced_as_text():
    """A variable may be a name, a number, a part of a text or several words; its name has no case."""
    script = "DEFINE a = 'clicks'; DEFINE more = '1, upper(b)'; SELECT ${MORE}, '-${A}-', `${a}` FROM ${a} WHERE x = '$${a}'"
    selected = read_script(script)[-1]

    assert selected == read_script("SELECT 1, upper(b), '-clicks-', `clicks` FROM clicks WHERE x = '${a}'")[0]


def test_variables_are_given_and_forgotten():
    """A script begins with the variables that it is given, and UNDEFINE forgets one."""
    assert read_script("SELECT ${a}", variables={"A": "1"}) == read_script("SELECT 1")
    with pytest.raises(SqlError, match="there is no variable a"):
        read_script("UNDEFINE a; SELECT ${a}", variables={"A": "1"})


def test_unknown_variables_are_texts_in_quotes_and_comments_alone():
    """Elsewhere they are an error that names the nearest."""
    assert read_script("SELECT '${b}' -- ${c}") == read_script("SELECT '$${b}'")
    with pytest.raises(SqlError, match=r"there is no variable topc; did you mean \$\{topic\}\?"):
        read_script("DEFINE topic = 'a'; SELECT a FROM ${topc}")


def test_places_are_those_before_variables_were_replaced():
    """An error behind a variable, and one in it, point into the text as it was written."""
    script = "DEFINE a = 'x y z'; SELECT 1, ${a} FROM t; SELECT '${a}' FORM t"
    with pytest.raises(SqlError) as caught:
        read_script(script)

    places: list[Any] = [fault.at for fault in caught.value.faults]
    starts = [place.start for place in places]
    assert starts == [script.index("${a} FROM"), script.index("FORM")]


def test_a_variable_is_no_further_statement():
    """A semicolon in a value ends nothing."""
    with pytest.raises(SqlError, match="found ;"):
        read_script("DEFINE a = '1; DROP TABLE t'; SELECT ${a}")
