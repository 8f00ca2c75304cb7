"""How large a number among the data may make a text or an array: what needs gigabytes is the failure of its record, not of the run."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.plan.expression import TypedExpression

ELEMENTS_MAX = 1 << 26  # of one array: what is computed on them takes 512 MiB a number
BYTES_MAX = 1 << 28  # of one text
_TOGETHER_MAX = 4  # times as many in the rows of a batch
FEW = 1 << 10  # elements that need no closer look


def check_elements(lengths: np.ndarray, valid: np.ndarray | bool = True) -> None:
    """ArrowInvalid if an array would have too many elements, ArrowCapacityError if the arrays of a batch would have them together."""
    _check(np.where(valid, lengths, 0), ELEMENTS_MAX, "an array would have {} elements")


def check_bytes(sizes: np.ndarray, valid: np.ndarray | bool = True) -> None:
    """As `check_elements`, of the bytes of texts and binary values."""
    _check(np.where(valid, sizes, 0), BYTES_MAX, "a value would have {} bytes")


def check_copies(values: pa.Array, times: np.ndarray) -> None:
    """As `check_bytes`, of values of any type that stand as often in a row's array."""
    if pa.types.is_string(values.type) or pa.types.is_binary(values.type):
        check_bytes(np.asarray(pc.fill_null(pc.binary_length(values), 0)).astype(np.float64) * times)
    elif pa.types.is_nested(values.type):
        sizes = np.zeros(len(values))
        for row in np.flatnonzero(times > FEW).tolist():
            sizes[row] = float(values.slice(row, 1).nbytes) * float(times[row])
        check_bytes(sizes)


def may_be_large(expression: TypedExpression, place: int) -> bool:
    """Whether the number at a place of the arguments may be one that makes too much."""
    number = expression.arguments[place]
    return number.name != "literal" or (number.value is not None and abs(number.value) > FEW)


def _check(sizes: np.ndarray, most: int, text: str) -> None:
    if sizes.max(initial=0) > most:
        raise pa.ArrowInvalid(f"{text.format(int(sizes.max()))}; expected at most {most}")
    if (together := sizes.sum(dtype=np.float64)) > _TOGETHER_MAX * most:
        raise pa.ArrowCapacityError(f"{int(together)} bytes or elements together; expected at most {_TOGETHER_MAX * most}")
