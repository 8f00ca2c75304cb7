"""
Tables of cases in Markdown, which people can read: an expression, the columns that it reads, and its result.

    | `A / B` | A INTEGER [7, 1]; B INTEGER [2, 0] | INTEGER [3, fails] |

A column has a value for each row, as JSON: decimals and times are texts, bytes are texts of hexadecimal digits, maps and structs are objects.
A row that `fails` gives null, and is noted. Without columns there is one row. A case whose result begins with `error` is refused, with
a message that holds what follows. A bar inside an expression stands behind a backslash.
"""

from __future__ import annotations

import datetime as dt
import json
import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from streamkit.data_type import decimal_of, element_of, entry_of, fields_of, normalise_type, to_arrow
from streamkit.decimals import decimals_of_texts

FAILS = "<fails>"
ROW = re.compile(r"^\| `(?P<expression>(?:[^`|]|\\\||`(?! \|))+)` \|(?P<columns>.*?) \| (?P<result>.+) \|$")
CELL = re.compile(r"\s*(?P<name>\w+) (?P<type>[^\[]+?) (?P<values>\[.*\])\s*", re.DOTALL)
RESULT = re.compile(r"(?P<type>[^\[]+?) (?P<values>\[.*\])", re.DOTALL)


@dataclass(frozen=True)
class Case:
    """A row of a table."""

    expression: str
    columns: dict[str, tuple[str, list[Any]]]
    type: str
    values: list[Any]
    error: str
    place: str

    def __str__(self) -> str:
        return f"{self.place} {self.expression}"


def cases_of(file: Path) -> list[Case]:
    """The cases of all tables of a file."""
    found = []
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
        if line.startswith("| `"):
            match = ROW.match(line)
            assert match, f"{file.name}:{number} is no case: {line}"
            found.append(_case(match, f"{file.name}:{number}"))
    return found


def _case(match: re.Match[str], place: str) -> Case:
    columns = {}
    for part in filter(None, (part.strip() for part in _split(match["columns"]))):
        cell = CELL.fullmatch(part)
        assert cell, f"{place}: {part!r} is no column"
        columns[cell["name"]] = (spark_type(cell["type"]), _json(cell["values"]))
    expression = match["expression"].replace("\\|", "|")
    if match["result"].startswith("error"):
        return Case(expression, columns, "", [], match["result"].removeprefix("error").strip(), place)
    result = RESULT.fullmatch(match["result"])
    assert result, f"{place}: {match['result']!r} is no result"
    return Case(expression, columns, result["type"], _json(result["values"].replace("\\|", "|")), "", place)


def _split(text: str) -> list[str]:
    """The parts of a text between semicolons outside quotes."""
    return re.findall(r"""(?:[^;"]|"(?:[^"\\]|\\.)*")+""", text.replace("\\|", "|"))


def _json(text: str) -> Any:
    return json.loads(re.sub(r"(?<=[\[ ])fails(?=[\],])", r'"<fails>"', text))


def spark_type(text: str) -> str:
    """A type of ksqlDB by its name here."""
    if re.search(r"\bTIME\b", text):
        return (
            re.sub(r"\bTIME\b", "time", text).lower()
            if "STRUCT" not in text
            else text.replace("TIME", "time").replace("STRUCT", "struct").replace(" time", ":time")
        )
    return normalise_type(re.sub(r"\bBYTES\b", "binary", re.sub(r"\bVARCHAR\b", "string", text)))


def array_of_json(values: list[Any], type: str) -> pa.Array:
    """The column of values as the tables write them."""
    if decimal_of(type):
        return decimals_of_texts(pa.array(values, pa.string()), to_arrow(type))
    return pa.array([_value(value, type) for value in values], to_arrow(type))


def _value(value: Any, type: str) -> Any:
    if value is None:
        return None
    if type == "binary":
        return bytes.fromhex(value)
    if type == "date":
        return dt.date.fromisoformat(value)
    if type == "timestamp":
        return dt.datetime.fromisoformat(value).replace(tzinfo=dt.timezone.utc)
    if type == "double":
        return float(value)
    if decimal_of(type):
        return array_of_json([value], type)[0].as_py()
    if element := element_of(type):
        return [_value(one, element) for one in value]
    if entry := entry_of(type):
        pairs = value.items() if isinstance(value, dict) else value
        return [(_value(key, entry[0]), _value(item, entry[1])) for key, item in pairs]
    if fields := fields_of(type):
        return {name: _value(value.get(name), inner) for name, inner in fields}
    return value


def json_of(value: Any, type: str) -> Any:
    """A value as the tables write it."""
    if value is None:
        return None
    if type == "binary":
        return value.hex()
    if type == "timestamp":
        return value.strftime("%Y-%m-%dT%H:%M:%S.") + f"{value.microsecond // 1000:03}"
    if type == "double":
        return value if math.isfinite(value) else str(value)
    if type == "date" or decimal_of(type):
        return str(value)
    if element := element_of(type):
        return [json_of(one, element) for one in value]
    if entry := entry_of(type):
        pairs = [[json_of(key, entry[0]), json_of(item, entry[1])] for key, item in value]
        return dict(pairs) if entry[0] == "string" else pairs
    if fields := fields_of(type):
        return {name: json_of(value[name], inner) for name, inner in fields}
    return value
