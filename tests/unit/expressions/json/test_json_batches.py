"""JSON documents that are read by the batch, beside the same documents read one by one."""

from __future__ import annotations

import random
import re
from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from streamkit.data_type import element_of, fields_of
from streamkit.expressions.analysis.analysis import ExpressionAnalyzer
from streamkit.expressions.analysis.arrow import evaluate
from streamkit.expressions.json import batches as json_batches
from streamkit.expressions.json import functions as json_functions
from streamkit.plan.expression import SqlText
from streamkit.schema import Schema
from tests.kit.sampling import TAKES_ALL

Read = Callable[[pa.Array], pa.Array]
DOCUMENTS = 4_000 if TAKES_ALL else 400

NUMBERS = re.split(
    " ",
    "0 -0 1 -1 127 128 -129 2147483648 9223372036854775808 123456789012345678901 1e2 1E400 1e-400 -0.0 -0e5 1.10 100.0 12345678.9 "
    "9.6e21 1e-41 1e-400000000 0e-999999999 1e400000000 "
    "16777217.0 3.4e39 1e-46 01 +1 1. .5 - NaN Infinity -Infinity nan",
)
TEXTS = [
    '""',
    '"é😀"',
    '"{"',
    '"]["',
    '","',
    '" 1"',
    '"NaN"',
    "'x'",
    '"\\u0041"',
    '"\x7f"',
    '"a\tb"',
    '"a\nb"',
    '"\x00"',
    '"1_0"',
    '"1e2"',
]
MOMENTS = [
    f'"{text}"'
    for text in (
        "2024-01-05", "2024-1-5", "2024-02-30", "2024-01-05 10:00:00", "2024-01-05T10:00:00Z", "2024-01-05T10:00:00.123456789+02:00",
        "2024-01-05 10:00:00 Europe/Berlin", "19000", "12:30", "0001-01-01", "9999-12-31T23:59:59.999999", "10000-01-01", "2024",
    )
]  # fmt: skip
ODD = [*NUMBERS, *TEXTS, *MOMENTS, "null", "true", "nul", "[]", "{}", "[1]", "[null]", '{"a":1}', '{"a":1,"a":2}', '[1,"x"]']
USUAL = {
    "tinyint": ["0", "7", "-100"],
    "bigint": ["0", "12", "-100"],
    "float": ["1.5", "0.1", "3", "-2e-9"],
    "double": ["1.5", "0.1", "3", "-2e-9"],
    "decimal(5,2)": ["1.5", "3", '"2.25"', "123.45", "-0"],
    "decimal(38,18)": ["1.5", "3", "12345678901234567890.5"],
    "decimal(38,38)": ["0.5", "0", "0.00000000000000000000000000000000000001"],
    "boolean": ["true", "false"],
    "string": ['"a"', '"b c"', '"é"'],
    "date": MOMENTS[:1],
    "timestamp": MOMENTS[3:6],
    "timestamp_ntz": MOMENTS[3:4],
}
TYPES = (
    "struct<a:tinyint,b:string,c:double>",
    "struct<a:struct<b:array<bigint>,c:boolean>,d:float>",
    "struct<a:date,b:timestamp,c:timestamp_ntz,d:decimal(5,2)>",
    "struct<a:decimal(38,18),b:array<decimal(38,38)>>",
    "array<struct<a:bigint,b:array<string>>>",
    "array<double>",
)


def document(random: random.Random, type: str, odd: float) -> str:
    """A document of a type, with other values here and there."""
    if random.random() < odd:
        return random.choice(ODD)
    if (fields := fields_of(type)) is not None:
        pairs = [f'"{name}":{_space(random)}{document(random, inner, odd)}' for name, inner in fields if random.random() < 0.9]
        return f"{{{_space(random)}{','.join(pairs)}}}"
    if element := element_of(type):
        return f"[{','.join(document(random, element, odd) for _ in range(random.randrange(4)))}]"
    return random.choice(USUAL[type])


def _space(random: random.Random) -> str:
    return random.choice([""] * 40 + [" ", "\t", "\n", "\u00a0"])


def spoiled(random: random.Random, text: str) -> str:
    """The text with a character more, less or other, or broken off, or with another one behind it."""
    place = random.randrange(len(text) + 1)
    character = random.choice("{}[]\",:\\ \t\n'01-+.eEnNtI")
    return random.choice(
        (text[:place] + character + text[place:], text[:place] + character + text[place + 1 :], text[:place], f"{text},{text}")
    )


def documents(random: random.Random, type: str, count: int) -> pa.Array:
    """Half of them of the type, the others odd or spoiled."""
    texts = [document(random, type, random.choice((0, 0, 0.05))) for _ in range(count)]
    return pa.array([spoiled(random, text) if random.random() < 0.2 else text for text in texts])


def taken(texts: pa.Array, read: Read) -> tuple[pa.Array, list[pa.Array]]:
    """The texts that the reader takes, and what it makes of them."""
    try:
        return texts, [read(texts)]
    except pa.ArrowInvalid:
        if len(texts) == 1:
            return texts.slice(0, 0), []
    half = len(texts) // 2
    (left, some), (right, others) = taken(texts.slice(0, half), read), taken(texts.slice(half), read)
    return pa.concat_arrays([left, right]), some + others


def shown(value: pa.Scalar) -> str:
    """A value with the signs of its zeros; moments beyond Python's years are not shown."""
    try:
        return repr(value)
    except OverflowError:
        return "beyond"


def assert_reads_alike(texts: pa.Array, pattern: str, read: Read, read_exactly: Read) -> None:
    """What the reader of batches takes, is what the reader of documents makes; it takes enough of them."""
    fitting = texts.filter(pc.match_substring_regex(texts, pattern))
    kept, found = taken(fitting, read)
    assert len(kept) > len(texts) / 10
    ours, exact = pa.concat_arrays(found), read_exactly(kept)
    assert ours.type == exact.type
    for text, mine, theirs in zip(kept.to_pylist(), ours, exact, strict=True):
        assert mine.equals(theirs) and shown(mine) == shown(theirs), text


@pytest.mark.parametrize("type", TYPES)
def test_what_a_batch_reads_is_what_each_document_gives(type):
    """`from_json` may hand a document to Arrow only if it is refused, or read as Spark's parser reads it."""
    texts = documents(random.Random(type), type, DOCUMENTS)
    pattern = json_batches.OBJECTS if fields_of(type) else json_batches.ARRAYS
    assert_reads_alike(
        texts,
        pattern,
        lambda some: json_batches.read_values(some, type),
        lambda some: json_functions._from_each(some, type, "PERMISSIVE", "_corrupt_record"),
    )


@pytest.mark.parametrize(
    ("field", "kind"), [("tinyint", pa.int64()), ("double", pa.float64()), ("string", pa.string()), ("boolean", pa.bool_())]
)
def test_what_a_batch_finds_is_what_is_found_in_each_document(field, kind):
    """`get_json_object` by the batch writes numbers, texts and booleans as the reader of one document does."""
    texts = documents(random.Random(field), f"struct<a:struct<b:{field},c:string>,d:bigint>", DOCUMENTS)
    assert_reads_alike(
        texts,
        json_batches.OBJECTS,
        lambda some: json_functions._batch_by_names(some, ("a", "b"), kind),
        lambda some: pa.array([json_functions._got(text, ("a", "b")) for text in some.to_pylist()], pa.string()),
    )


def _results(call, texts):
    ((_, typed),) = ExpressionAnalyzer().project(Schema.parse("text string"), [("result", SqlText(call))])
    return evaluate(typed, pa.record_batch({"text": texts})).to_pylist()


@pytest.mark.parametrize(
    "call",
    [
        "from_json(text, 'a double, b string')",
        "from_json(text, 'a double, b string, _corrupt_record string')",
        "from_json(text, 'array<int>')",
        "from_json(text, 'a double, b binary')",
        "from_json(text, 'map<string, string>')",
        "get_json_object(text, '$.a')",
        "get_json_object(text, '$.b')",
    ],
)
def test_rows_of_a_batch_do_not_touch_each_other(call):
    """A broken, odd or missing document changes no other row of its batch, and each result stands in its own row."""
    texts: list[str | None] = [f'{{"a": {number}.5, "b": "{number}"}}' for number in range(300)]
    odd = (
        None,
        "",
        "null",
        '{"a": 1',
        '"b": 2}',
        '{"a": "x"}',
        '{"a": 1}, {"a": 2}',
        '{"_corrupt_record": "x"}',
        "[1, 2]",
        '{"a": 7}',
    )
    for place, text in enumerate(odd):
        texts[place * 27 + 3] = text
    alone = [_results(call, pa.array([text], pa.string()))[0] for text in texts]
    assert _results(call, pa.array(texts)) == alone
    assert any(result is not None for result in alone)


def test_a_moment_that_cannot_be_read_makes_its_row_alone_partial():
    """Dates are read by the batch; one that is none is null, and its neighbours keep theirs."""
    texts = [f'{{"day": "2024-01-{number % 28 + 1:02d}"}}' for number in range(300)]
    texts[150] = '{"day": "2024-02-30"}'
    days = [row["day"] for row in _results("from_json(text, 'day date')", pa.array(texts))]
    assert [number for number, day in enumerate(days) if day is None] == [150]
    assert str(days[151]) == "2024-01-12"


def test_batches_are_read_at_once(monkeypatch):
    """Documents of one shape, with a few odd ones, never come to the reader of documents; the odd ones do."""
    came: list[int] = []
    exactly = json_functions._from_each

    def counted(texts, *rest):
        came.append(len(texts))
        return exactly(texts, *rest)

    monkeypatch.setattr(json_functions, "_from_each", counted)
    texts = [f'{{"a": {number}}}' for number in range(10_000)]
    texts[5] = '{"a": '
    _results("from_json(text, 'a int')", pa.array(texts))
    assert came == [1]
