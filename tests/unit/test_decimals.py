"""Whatever becomes a decimal is the number itself or refused: no overflow and no power of ten beyond Arrow's makes another of it."""

from __future__ import annotations

import ast
import decimal
import random
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from streamkit.decimals import DIGITS_MAX, decimals_of_numbers, decimals_of_python, decimals_of_texts, is_fit
from streamkit.recast import recast
from tests.kit.sampling import TAKES_ALL

ROOT = Path(__file__).parents[2]
INTEGERS = (pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())
SOURCES = (
    *INTEGERS, pa.decimal32(9, 0), pa.decimal32(9, 9), pa.decimal64(18, 0), pa.decimal64(18, 18),
    *(pa.decimal128(DIGITS_MAX, scale) for scale in (0, 1, 10, 18, 37, 38)), pa.decimal128(20, 5),
    *(pa.decimal256(76, scale) for scale in (0, 5, 38, 60, 76)),
)  # fmt: skip
FAR = (
    "1e-41", "1e-61", "-1e-100", "0e-77", "0e-100", "-0e-999999999", "0e400000000", "1e-400000000", "1e400000000", "1e-10000000", "5e-12725",
    "1e-999999999999", "1e999999999999", "0.000" + "9" * 38, "5" + "0" * 37 + "e-12725", "1." + "0" * 60, "1" + "0" * 60 + "e-60",
    "1" * 38 + "e-76", "9" * 39, "0." + "0" * 70 + "1e-9", "0." + "0" * 30 + "1e31", "00012.5000e1",
)  # fmt: skip


def types():
    """A type of 38 digits for each scale, and shorter ones."""
    yield from (pa.decimal128(DIGITS_MAX, scale) for scale in range(DIGITS_MAX + 1))
    yield from (pa.decimal128(*digits) for digits in ((1, 0), (1, 1), (10, 2), (18, 18), (20, 0), (37, 20)))


def fits(number, type):
    """Whether a decimal type has a number as it is."""
    with decimal.localcontext(prec=400):
        if not -500 < number.adjusted() < 500:
            return not number
        unscaled = number.scaleb(type.scale)
        return unscaled == unscaled.to_integral_value() and abs(unscaled) < 10**type.precision


def unscaled_near(choose, shift, limit):
    """Digits at powers of ten and two, and those that become others when they are multiplied by 10^shift at 64, 128 or 256 bits."""
    yield from (0, 1, -1, 7, limit, -limit)
    for power in range(0, 77, 5):
        yield from (10**power, -(10**power), 10**power - 1, choose.randrange(1, 10 ** (power + 1)))
    for bits in (31, 63, 127, 255):
        yield from (2**bits, 2**bits - 1, -(2**bits))
        for turns in (1, 2, choose.randrange(1, 10**9)):
            wrapped = choose.randrange(10 ** choose.randint(1, 38)) + turns * 2 ** (bits + 1)
            yield wrapped // 10 ** max(shift, 0)


def numbers_of(source, type, choose):
    """Numbers that a type of Arrow holds, as an array, and as Python has them."""
    scale = source.scale if pa.types.is_decimal(source) else 0
    limit = 10**source.precision - 1 if pa.types.is_decimal(source) else None
    found = {}
    for digits in unscaled_near(choose, type.scale - scale, limit or 127):
        if limit is None:
            low = -(2 ** (source.bit_width - 1)) if pa.types.is_signed_integer(source) else 0
            is_held = low <= digits < low + 2**source.bit_width
        else:
            is_held = abs(digits) <= limit
        if is_held:
            found[digits] = Decimal(f"{digits}e{-scale}")
    some = list(found.items()) if TAKES_ALL else choose.sample(list(found.items()), min(len(found), 25))
    return [(pa.array([digits if limit is None else number], source), number) for digits, number in some]


@pytest.mark.parametrize("source", SOURCES, ids=str)
def test_a_number_of_arrow_is_itself_or_refused(source):
    """Integers and decimals of any width, alone, as a scalar, in a list, and beside others."""
    choose = random.Random(None if TAKES_ALL else 1)
    for type in types():
        taken = []
        for array, number in numbers_of(source, type, choose):
            try:
                found = decimals_of_numbers(array, type)
            except pa.ArrowInvalid:
                assert not fits(number, type), (number, type)
                with pytest.raises(pa.ArrowInvalid):
                    recast(pa.ListArray.from_arrays([0, 1], array), pa.list_(type))
                continue
            assert found.type == type and found[0].as_py() == number and fits(number, type), (number, type)
            assert decimals_of_numbers(array[0], type).as_py() == number
            taken.append((array, number))
        together = pa.concat_arrays([pa.nulls(1, source), *(array for array, _ in taken)])
        assert decimals_of_numbers(together, type).to_pylist() == [None, *(number for _, number in taken)]
        assert (
            decimals_of_numbers(pa.nulls(2, source), type).null_count == 2
            and len(decimals_of_numbers(pa.array([], source), type)) == 0
        )


def test_what_is_nested_is_cast_as_what_stands_alone():
    """A struct with other or fewer fields, a map, a list of another kind, chunks and a dictionary: a number that does not fit is refused in each."""
    for number, is_taken in ((Decimal(5), True), (Decimal("9.6e21"), False)):
        array = pa.array([number], pa.decimal128(38, 0))
        narrow = pa.decimal128(38, 18)
        cases = [
            (pa.chunked_array([array]), narrow),
            (array.dictionary_encode(), narrow),
            (pa.ListArray.from_arrays([0, 1], array), pa.large_list(narrow)),
            (pa.StructArray.from_arrays([array, pa.array(["x"])], ["a", "b"]), pa.struct([("b", pa.string()), ("a", narrow)])),
            (pa.StructArray.from_arrays([array], ["a"]), pa.struct([("a", narrow), ("c", pa.int32())])),
            (pa.MapArray.from_arrays([0, 1], pa.array(["k"]), array), pa.map_(pa.string(), narrow)),
            (pa.MapArray.from_arrays([0, 1], array, pa.array([1])), pa.map_(narrow, pa.int32())),
        ]
        for values, type in cases:
            if is_taken:
                assert "5.000" in str(recast(values, type)), type
            else:
                with pytest.raises(pa.ArrowInvalid):
                    recast(values, type)


def written(choose, count):
    """Numbers of all lengths, with exponents near and far."""
    for _ in range(count):
        digits = str(choose.randrange(10 ** choose.randint(1, 45)))
        yield f"{choose.choice(('', '-'))}{digits}e{choose.choice((choose.randint(-90, 60), choose.randint(-(10**9), 10**9)))}"


def test_a_number_of_python_or_a_text_is_itself_or_refused():
    """Decimals of Python and texts, with any exponent, in every scale: both are taken, or refused, as the type says."""
    choose = random.Random(None if TAKES_ALL else 2)
    for type in types():
        taken = []
        for text in (*FAR, *written(choose, 60)):
            number = Decimal(text)
            outcomes = []
            for convert, value in ((decimals_of_python, [number]), (decimals_of_texts, pa.array([text]))):
                try:
                    outcomes.append(convert(value, type)[0].as_py())
                except pa.ArrowInvalid:
                    outcomes.append(None)
            wanted = number if fits(number, type) else None
            assert outcomes == [wanted, wanted] and is_fit(number, type) == (wanted is not None), (text, type, outcomes)
            taken += [text] if wanted is not None else []
        assert decimals_of_texts(pa.array([None, *taken]), type).to_pylist() == [None, *map(Decimal, taken)]


@pytest.mark.parametrize(
    "text", ["", ".", "e5", "1e", "1e+", "--1", "1e5e5", "٣", "1 e-50", "x", "1e-" + "9" * 5000, "+.e-50", "0x1e-5"]
)
def test_what_is_no_number_is_refused(text):
    """A text with an exponent that is no number of decimal digits, or has one without end."""
    with pytest.raises(pa.ArrowInvalid):
        decimals_of_texts(pa.array([text]), pa.decimal128(10, 2))


# Casts whose type is not written out where they stand, and is none of decimals
OTHERS = {
    "streamkit/decimals.py": "the casts that all others come to",
    "streamkit/recast.py": "what has no decimals inside",
    "streamkit/formats/time_texts.py": "times",
    "streamkit/formats/counted_times.py": "times, and integers for them",
    "streamkit/formats/number_texts.py": "integers and floats",
    "streamkit/formats/typed_texts.py": "booleans and texts",
    "connectors/debezium/connect_type.py": "times",
    "connectors/postgres/source_type.py": "what PostgreSQL writes as text, save numerics",
    "connectors/delta/source.py": "large types as plain ones",
    "connectors/runtime/sound_texts.py": "texts as bytes",
    "connectors/transforms/timestamp_converter.py": "times",
    "connectors/transforms/cast.py": "the types of CastTransform",
    "connectors/transforms/java_numbers.py": "the types of CastTransform",
    "streamkit/cli/produce.py": "times",
    "streamkit/log/values/python_values.py": "times as integers",
}
ROOMS = (
    "streamkit/*.py",
    "streamkit/formats/**/*.py",
    "streamkit/log/**/*.py",
    "streamkit/spark/**/*.py",
    "streamkit/cli/**/*.py",
)


def casts(file: Path) -> Iterator[int]:
    """The lines with a cast by Arrow to a type that may be one of decimals: neither written out, nor a constant."""
    for node in ast.walk(ast.parse(file.read_text())):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "cast" and node.args):
            continue
        target = node.args[-1]
        is_written = isinstance(target, ast.Call) and isinstance(target.func, ast.Attribute) and target.func.attr != "decimal128"
        is_constant = isinstance(target, ast.Constant) or (isinstance(target, ast.Name) and target.id.isupper())
        if not is_written and not is_constant:
            yield node.lineno


def test_all_casts_to_decimals_go_through_one_room():
    """Where values come from outside, no cast by Arrow itself is left that may meet a decimal; each exception still has its cast."""
    files = [file for pattern in (*ROOMS, "connectors/**/*.py") for file in ROOT.glob(pattern)]
    names = {file.relative_to(ROOT).as_posix(): file for file in files}
    own = {name for name in names if not name.startswith(("streamkit/connectors/", "streamkit/state/"))}
    found = {name: lines for name in sorted(own) if (lines := list(casts(names[name])))}

    assert {name: lines for name, lines in found.items() if name not in OTHERS} == {}, "use streamkit.recast.recast"
    assert set(OTHERS) <= set(found)
