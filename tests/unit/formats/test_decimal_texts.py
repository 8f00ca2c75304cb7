"""Numbers that are written out as decimals: by every reader the number itself, or an error."""

from __future__ import annotations

import decimal
import random
from decimal import Decimal

import pyarrow as pa
import pytest

from streamkit.connectors.files.record_text import parse_texts
from streamkit.errors import SchemaError
from streamkit.formats.codec import Codec, declare_format
from streamkit.schema import Schema, SchemaColumn
from tests.unit.test_decimals import fits

SCALES = (0, 2, 18, 37, 38)
TEXTS = (
    "1.10", "-.5", "5.", "1e3", "1e25", "12e36", "1e40", "-1e-38", "1e-400", "798605e32", "99999999999999999999999999999999999999.9",
    str(2**127), f"{2**128 + 1}.00", str(2**255), f"{2**256 + 1}.00", "0" * 90 + "1.5", "1.5" + "0" * 90, "1" * 90,
    "9.6e21", "1e-41", "1e-77", "1e-100", "0e-100", "0e-999999999", "0e999999999", "1e-400000000", "1e400000000", "5e-12725",
)  # fmt: skip


def written(count=60):
    """Texts of all lengths, with and without a point and an exponent."""
    chance = random.Random(7)
    for _ in range(count):
        digits = str(chance.randrange(1, 10 ** chance.randint(1, 80)))
        point = chance.randint(0, len(digits)) if chance.random() < 0.5 else len(digits)
        exponent = f"e{chance.randint(-60, 60)}" if chance.random() < 0.5 else ""
        yield f"{digits[:point] or 0}.{digits[point:] or 0}{exponent}"


def by_format(name, before="", after=""):
    def read(text, type):
        columns = Schema.parse(f"a {type}")
        found = Codec(declare_format(name, f"a {type}" if name == "csv" else None), columns)
        return found.decode(pa.array([f"{before}{text}{after}".encode()])).column(0).to_pylist()[0]

    return read


def of_list(text, type):
    return by_format("json", '{"a":[{"b":', "}]}")(text, f"array<struct<b:{type}>>")[0]["b"]


def of_map(text, type):
    return dict(by_format("json", '{"a":{"k":', "}}")(text, f"map<string,{type}>"))["k"]


def of_file(text, type):
    return parse_texts(SchemaColumn("a", type), pa.array([text])).to_pylist()[0]


READERS = {
    "csv": by_format("csv"), "string": by_format("string"), "text in JSON": by_format("json", '{"a":"', '"}'),
    "JSON": by_format("json", '{"a":', "}"), "list": of_list, "map": of_map, "file": of_file,
}  # fmt: skip


@pytest.mark.parametrize("reader", READERS)
def test_a_number_is_itself_or_refused(reader):
    """No reader makes another number of one with too many digits, and all take a number that fits, as JSON has it."""
    is_arrows = reader in ("text in JSON", "JSON", "list")  # whose reader takes 76 digits at most
    with decimal.localcontext(prec=1_000):
        for scale in SCALES:
            for text in (*TEXTS, *written()):
                number = Decimal(text)
                is_json = not text.startswith(("0" * 2, "-.")) and not text.endswith(".")
                is_taken = (
                    fits(number, pa.decimal128(38, scale))
                    and (is_json or reader not in ("JSON", "list", "map"))
                    and not (is_arrows and len(text) > 76)
                )
                try:
                    found = READERS[reader](text, f"decimal(38,{scale})")
                except SchemaError:
                    assert not is_taken, (text, scale)
                else:
                    assert found == number, (text, scale)
