"""Names, texts, numbers and types as a dialect writes them."""

from __future__ import annotations

import decimal
import re

from streamkit.data_type import element_of, entry_of
from streamkit.expressions.sql.dialect import UNIT_ARGUMENTS, Dialect
from streamkit.expressions.sql.expression_reader import ALSO_FUNCTIONS
from streamkit.expressions.sql.literal_reader import LITERAL_TYPES
from streamkit.plan.dotted_name import parts_of
from streamkit.plan.expression import Scalar
from streamkit.sql.reader.clause_reader import CLAUSES, MILLIS
from streamkit.sql.tree.span import Name
from streamkit.sql.tree.type_names import BUILT_IN, fields_in

_PLAIN = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_VARIABLE = re.compile(r"\$\{\w+\}")
_ESCAPES = {"\\": "\\\\", "'": "\\'", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\0": "\\0"}
_ESCAPED = re.compile(r"[\\'\n\r\t\0]")
KSQL_TYPES = {"string": "VARCHAR", "binary": "BYTES"}
QUOTED = frozenset(  # words that are names in most places, and begin something else in others
    "ADD ALL BOTH CASCADE COLLATE COLUMN CONNECTOR DELETE EXTENDED FUNCTION HOPPING IF LEADING OF OUTER OVER SESSION SINK SOURCE "  # noqa: SIM905
    "STREAMS TABLES TRAILING TUMBLING VALUES".split()
)
CASTING = ("CAST", "TRY_CAST")
CONSTRUCTORS = ("ARRAY", "MAP", "STRUCT", "DECIMAL")  # what begins a value in ksqlDB's dialect


def name_text(name: str, dialect: Dialect) -> str:
    """A name: as it is if it is read as itself, else in backticks."""
    key = name.upper()
    is_plain = (
        _PLAIN.fullmatch(name)
        and key not in dialect.reserved
        and key not in CLAUSES
        and key not in QUOTED
        and key not in LITERAL_TYPES
        and not (dialect.has_arrows and (key in UNIT_ARGUMENTS or key in CONSTRUCTORS))
        and dialect.as_name(name) == name
    )
    return name if is_plain else quoted_name(name)


def function_text(function: str, dialect: Dialect) -> str:
    """The name of a function that is called."""
    key = function.upper()
    shown = key if dialect.has_capital_names and key.lower() == function else function
    is_free = key not in dialect.reserved or (dialect.has_escapes and key in ALSO_FUNCTIONS)
    is_call = key not in CASTING and not (dialect.has_arrows and key in ("MAP", "STRUCT"))
    return shown if _PLAIN.fullmatch(function) and is_free and is_call else quoted_name(function)


def quoted_name(name: str) -> str:
    """A name in backticks."""
    return "`{}`".format(_unreplaced(name.replace("`", "``")))


def name_of(name: Name, dialect: Dialect) -> str:
    """A name of the tree."""
    return name_text(name.text, dialect)


def column_text(name: str, dialect: Dialect) -> str:
    """The dotted name of a column, a field or a source's column."""
    return ".".join(name_text(part, dialect) for part in parts_of(name))


def text_literal(text: str, dialect: Dialect) -> str:
    """A text between quotes."""
    inside = _ESCAPED.sub(lambda match: _ESCAPES[match[0]], text) if dialect.has_escapes else text.replace("'", "''")
    return f"'{_unreplaced(inside)}'"


def _unreplaced(text: str) -> str:
    """A text in which no variable is replaced."""
    return _VARIABLE.sub(lambda match: f"${match[0]}", text) if "${" in text else text


def literal_text(value: Scalar, dialect: Dialect) -> str:
    """A constant; TypeError if the dialect has none of its type."""
    if value is None or isinstance(value, bool):
        return {None: "NULL", True: "TRUE", False: "FALSE"}[value]
    if isinstance(value, str):
        return text_literal(value, dialect)
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return _double_text(value, dialect)
    if isinstance(value, decimal.Decimal):
        return _decimal_text(value, dialect)
    if isinstance(value, bytes) and dialect.has_escapes:
        return f"X'{value.hex()}'"
    raise TypeError(f"{dialect.name} has no literal of {value!r}")


def _double_text(value: float, dialect: Dialect) -> str:
    text = repr(value)
    if not text[-1].isdigit() or "n" in text:
        return f"CAST('{text}' AS DOUBLE)"  # NaN and the infinities
    return f"{text}D" if dialect.has_escapes else text if "e" in text else f"{text}E0"


def _decimal_text(value: decimal.Decimal, dialect: Dialect) -> str:
    text = str(value)
    if "." in text and "E" not in text:
        return text
    return f"{text}BD" if dialect.has_escapes else f"DECIMAL '{text}'"


def type_text(type: str, dialect: Dialect) -> str:
    """A type of a column."""
    if (element := element_of(type)) is not None:
        return f"ARRAY<{type_text(element, dialect)}>"
    if entry := entry_of(type):
        return "MAP<{}, {}>".format(*(type_text(part, dialect) for part in entry))
    if fields := fields_in(type):
        return "STRUCT<{}>".format(", ".join(f"{name_text(name, dialect)} {type_text(inner, dialect)}" for name, inner in fields))
    if type.startswith("`"):
        return quoted_name(type[1:-1].replace("``", "`"))
    if type.startswith("decimal("):
        return type.upper().replace(",", ", ")
    if type in BUILT_IN:
        return KSQL_TYPES.get(type, type.upper()) if dialect.has_arrows else type.upper()
    return name_text(type, dialect)


def duration_text(millis: int) -> str:
    """A span of time in the largest unit that has it as a whole."""
    units = [name for name in reversed(MILLIS) if name != "WEEK" and millis % MILLIS[name] == 0]  # ksqlDB has no weeks
    unit = units[0] if millis else "MILLISECOND"
    count = millis // MILLIS[unit]
    return f"{count} {unit}" if count == 1 else f"{count} {unit}S"
