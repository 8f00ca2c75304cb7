"""Constants: as JSON scalars in plans, as Arrow scalars where they are computed with."""

from __future__ import annotations

import decimal
from typing import Any

import numpy as np
import pyarrow as pa

from streamkit.data_type import to_arrow
from streamkit.decimals import decimals_of_python
from streamkit.plan.expression import TypedExpression

_NUMPY_TYPES = {"date": "datetime64[D]", "timestamp": "datetime64[us]", "timestamp_ntz": "datetime64[us]"}
_ARROW_INTEGERS = {"date": pa.int32(), "timestamp": pa.int64(), "timestamp_ntz": pa.int64()}


def literal(value: Any, type: str) -> TypedExpression:
    """A constant of a Spark type; `value` as `to_json` writes it."""
    return TypedExpression("literal", type, (), value)


def to_scalar(value: Any, type: str) -> pa.Scalar:
    """The Arrow scalar of a literal; `value` as `to_json` writes it."""
    if value is None:
        return pa.scalar(None, to_arrow(type))
    if type in _NUMPY_TYPES:
        moment = int(np.array(value, _NUMPY_TYPES[type]).astype(np.int64))
        return pa.scalar(moment, _ARROW_INTEGERS[type]).cast(to_arrow(type))
    if type == "binary":
        return pa.scalar(bytes.fromhex(value), pa.binary())
    if type.startswith("decimal"):
        return decimals_of_python([decimal.Decimal(value)], to_arrow(type))[0]
    return pa.scalar(float(value) if type in ("float", "double") else value, to_arrow(type))


def to_json(scalar: pa.Scalar, type: str) -> Any:
    """
    What a plan writes for a constant: numbers, text and booleans as they are.

    Dates and timestamps as ISO text, binary as hexadecimal text, decimals as text, and as text also the doubles that JSON
    cannot tell apart: NaN, Infinity, -0.0.
    """
    if not scalar.is_valid:
        return None
    if type in _NUMPY_TYPES:
        return moment_text(scalar.cast(_ARROW_INTEGERS[type]).as_py(), type)
    value: Any = scalar.as_py()
    if type == "binary":
        return str(value.hex())
    if type in ("float", "double"):
        return value if np.isfinite(value) and (value or not np.signbit(value)) else str(value)
    return str(value) if type.startswith("decimal") else value


def moment_text(moment: int, type: str) -> str:
    """ISO text of days (date) or microseconds (timestamps) since 1970, for any year."""
    return str(np.array(moment, _NUMPY_TYPES[type]))
