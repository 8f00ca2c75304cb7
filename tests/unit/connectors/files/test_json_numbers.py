"""Numbers in JSON lines: what a line means does not depend on the lines of its block."""

from __future__ import annotations

import io

import pytest

from streamkit.connectors.files.record_file import FileFormat, RecordFile
from streamkit.errors import SchemaError
from streamkit.log.topic.topic import Topic
from streamkit.schema import Schema

COLUMNS = "d double, f float, n bigint"
SOUND = b'{"d":1.5,"f":1.5,"n":1}'
OTHER_WAY = b'{"d":1.5,"f":1.5,"n":1e0}'  # a block with a line like this is read line by line


def records(*lines):
    topic = Topic(1, "t", Schema.parse(COLUMNS), (), None, 1)
    file = RecordFile(io.BytesIO(b"\n".join(lines)), "x.json", FileFormat.JSON, topic, None)
    return [row for piece in file.pieces() for row in piece.records.select(["d", "f", "n"]).to_pylist()]


def outcome(*lines):
    try:
        return repr(records(*lines)[0])
    except SchemaError as error:
        assert error.rows == (0,)
        return "refused"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (b'{"d":-0,"f":-0,"n":-0}', "{'d': -0.0, 'f': -0.0, 'n': 0}"),
        (b'{"d":NaN,"f":1,"n":1}', "refused"),
        (b'{"d":"NaN","f":"-Infinity","n":1}', "{'d': nan, 'f': -inf, 'n': 1}"),
        (b'{"d":Infinity,"f":1,"n":1}', "refused"),
        (b'{"d":1,"f":1e39,"n":1}', "refused"),
        (b'{"d":1e400,"f":1,"n":1}', "refused"),
        (b'{"d":1,"d":2,"f":1,"n":1}', "refused"),
        (b'{"d":true,"f":1,"n":1}', "refused"),
        (b'{"d":1,"f":false,"n":1}', "refused"),
        (b'{"d":1,"f":1,"n":true}', "refused"),
    ],
)
def test_a_line_is_the_same_beside_any_other(line, expected):
    """Alone, beside lines that are read at once, and beside such as are read one by one."""
    assert outcome(line) == outcome(line, SOUND) == outcome(line, OTHER_WAY) == expected


@pytest.mark.parametrize("line", [b'{"d":true,"f":1,"n":1}', b'{"d":1,"f":false,"n":1}', b'{"d":1,"f":1,"n":true}'])
@pytest.mark.parametrize("sound", [SOUND, OTHER_WAY])
def test_a_truth_is_no_number_behind_one_either(line, sound):
    """Nor does a number before it in its block, read at once or one by one, make it one."""
    with pytest.raises(SchemaError, match=r"line 2: .*column '[dfn]'"):
        records(sound, line)


@pytest.mark.parametrize(
    ("type", "body"),
    [
        ("array<double>", b'{"v":[1.5,true]}'), ("array<double>", b'{"v":[1.5]}\n{"v":[true]}'), ("array<bigint>", b'{"v":[1,true]}'),
        ("struct<a: float>", b'{"v":{"a":1.5}}\n{"v":{"a":true}}'), ("map<string,double>", b'{"v":{"a":1.5,"b":true}}'),
        ("array<boolean>", b'{"v":[true,1]}'), ("array<date>", b'{"v":["2020-01-01",true]}'),
    ],
)  # fmt: skip
def test_a_truth_is_no_number_in_nested_values(type, body):
    """Elements, fields and values of maps stand beside each other too."""
    topic = Topic(1, "t", Schema.parse(f"v {type}"), (), None, 1)
    with pytest.raises(SchemaError, match=r"column ['\"]v"):
        list(RecordFile(io.BytesIO(body), "x.json", FileFormat.JSON, topic, None).pieces())
