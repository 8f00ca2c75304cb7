"""The order of rows by small numbers, whichever way it is found."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from streamkit.arrays import Integers
from streamkit.expressions.core.accumulation import FEW_CODES, grouped_order, stable_order


@pytest.mark.parametrize("count", [1, 2, FEW_CODES, FEW_CODES + 1, 1 << 17])
@pytest.mark.parametrize("rows", [0, 1, 1000])
@pytest.mark.parametrize("dtype", [np.uint16, np.int32, np.int64])
def test_rows_of_one_number_keep_their_order(count: int, rows: int, dtype: type[np.integer[Any]]) -> None:
    """Few numbers are looked for, many are sorted: both give the stable order, and where each number begins."""
    codes: Integers = np.random.default_rng(count + rows).integers(0, min(count, 1 << 16), rows).astype(dtype)
    wanted = np.argsort(codes, kind="stable").tolist()
    assert stable_order(codes).tolist() == wanted
    order, borders = grouped_order(codes, count)
    assert order.tolist() == wanted
    assert len(borders) == count + 1
    assert all((codes[order[first:end]] == code).all() for code, (first, end) in enumerate(pairwise(borders)))
