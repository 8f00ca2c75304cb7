"""Numbers in columns of decimals, by every way into a topic: the number itself, or a SchemaError."""

from __future__ import annotations

import random
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from streamkit.errors import SchemaError
from streamkit.log.rows.python_rows import RowReader
from streamkit.log.rows.records import records_of
from streamkit.log.topic.topic import declare_topic
from tests.kit.sampling import TAKES_ALL
from tests.unit.test_decimals import FAR, fits, written

NOW_MS = 1_800_000_000_000
TYPES = [*(f"decimal(38,{scale})" for scale in range(39)), "decimal(10,2)", "decimal(1,1)", "decimal(18,9)"]
NUMBERS = ("300", "9.6e21", "1", "0.1", "-1e18", "12345678.25", "1e37", "99999999999999999999.999999999999999999")


def quick(topic, number):
    """As `send` takes it; None if it goes the long way."""
    reader = RowReader(topic, NOW_MS)
    found = reader.read({"v": number}, 7)
    return found and reader.batch([found[0]], NOW_MS)


def arrow(kind):
    """A column of Arrow of that type, if it has the number."""

    def convert(topic, number):
        try:
            array = pa.array([int(number) if pa.types.is_integer(kind) else number], kind)
        except (pa.ArrowException, OverflowError):
            return None
        return records_of(topic, pa.table({"v": array}), 7)[0] if array[0].as_py() == number else None

    return convert


WAYS = {
    "send": quick,
    "rows": lambda topic, number: records_of(topic, [{"v": number}], 7)[0],
    "frame": lambda topic, number: records_of(topic, pd.DataFrame({"v": [number]}, dtype=object), 7)[0],
    **{str(kind): arrow(kind) for kind in (pa.int8(), pa.int64(), pa.uint64(), pa.decimal128(38, 0), pa.decimal128(38, 18), pa.decimal128(38, 38))},
}  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
def test_a_number_is_itself_or_refused(way):
    """No digit is lost and none is made up, whatever the scale of the column, the class of the number and its exponent; the error names row and column."""
    choose = random.Random(None if TAKES_ALL else 3)
    is_arrow = way not in ("send", "rows", "frame")
    for type_name in TYPES:
        topic = declare_topic("t", f"v {type_name}")
        type = topic.schema["v"].arrow.type
        near = [f"{choose.choice((1, -1)) * choose.randrange(10 ** choose.randint(1, 20))}" for _ in range(10)]
        for text in (*NUMBERS, *near, *([] if is_arrow else FAR), *written(choose, 10)):
            number = Decimal(text)
            if is_arrow and abs(number.adjusted()) > 80:
                continue
            try:
                found = WAYS[way](topic, number)
            except SchemaError as error:
                assert not fits(number, type), (text, type)
                assert "row 0, column 'v': found " in str(error) and error.rows == (0,)
            else:
                if found is not None:
                    assert fits(number, type), (text, type, found)
                    assert found["v"].to_pylist() == [number], (text, type)
                    found.validate(full=True)


@pytest.mark.parametrize("number", [300, np.int64(300), np.uint8(200), True])
def test_an_integer_of_python_is_no_other_number(number):
    """One that has no room before the point is refused, also within other values."""
    for type_name, value in (
        ("{}", number),
        ("array<{}>", [number]),
        ("struct<a:{}>", {"a": number}),
        ("map<string,{}>", {"a": number}),
    ):
        topic = declare_topic("t", f"v {type_name.format('decimal(38,38)')}")
        assert RowReader(topic, NOW_MS).read({"v": value}, 7) is None
        with pytest.raises(SchemaError, match="row 0, column"):
            records_of(topic, [{"v": value}], 7)


NESTED = (
    ("{}", lambda value: value), ("array<{}>", lambda value: [value]), ("struct<a:{}>", lambda value: {"a": value}),
    ("map<string,{}>", lambda value: [("a", value)]),
)  # fmt: skip


@pytest.mark.parametrize("scale", [0, 2, 18])
@pytest.mark.parametrize(
    "number", [1, 2**63 - 1, 2**63, -(2**63), -(2**63) - 1, 2**64, 10**20 - 1, 10**37, -(10**38) + 1, 10**38, 10**400]
)
def test_an_integer_of_python_may_have_more_than_64_bits(number, scale):
    """A column of decimals takes it if it has the digits, by every way, alone and beside a Decimal, also within other values."""
    for type_name, within in NESTED:
        topic = declare_topic("t", f"v {type_name.format(f'decimal(38,{scale})')}")
        value, other = within(number), within(Decimal(1))
        frames = [pd.DataFrame({"v": pd.Series([value, *others], dtype=object)}) for others in ((), (other,), (None,))]
        for rows in ([{"v": value}], [{"v": value}, {"v": other}], [{"v": None}, {"v": value}], *frames):
            if abs(number) < 10 ** (38 - scale):
                assert within(Decimal(number)) in records_of(topic, rows, 7)[0]["v"].to_pylist()
            else:
                with pytest.raises(SchemaError, match=f"it has more than {38 - scale} digits before the point"):
                    records_of(topic, rows, 7)
