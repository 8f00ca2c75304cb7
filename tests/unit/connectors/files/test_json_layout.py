"""Objects of JSON that are no lines: in a list, or printed over several lines."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamkit.connectors.files import source as file_source
from streamkit.errors import SchemaError
from tests.kit.sampling import TAKES_ALL, examples
from tests.unit.connectors.files.test_growing import Follower, leave_alone
from tests.unit.connectors.files.test_guesses import read

TEXT = st.text(st.sampled_from('x"\\\n{}[], é'), max_size=5)
OBJECTS = st.lists(st.fixed_dictionaries({"v": TEXT, "l": st.lists(TEXT, max_size=2)}), min_size=1, max_size=5)
SCHEMA = "id bigint, v string, l array<string>"


def written(objects, layout, indent, end):
    """Objects as text in a layout."""
    texts = [json.dumps({"id": n, **one}, indent=indent, ensure_ascii=False) for n, one in enumerate(objects)]
    if layout == "list":
        text = "[" + end + f",{end}".join(texts) + end + "]" + end
    else:
        text = ("" if layout == "concatenated" else end).join(texts) + end
    return text.replace("\n", end).encode() if indent else text.encode()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("layouts") / "in"


@pytest.mark.parametrize("schema", [{}, {"schema": SCHEMA}], ids=["guessed", "declared"])
@examples(60)
@given(
    objects=OBJECTS,
    layout=st.sampled_from(["list", "lines", "concatenated"]),
    indent=st.sampled_from([None, 2]),
    end=st.sampled_from(["\n", "\r\n", "\r"]),
    block_bytes=st.sampled_from([1, 7, 1 << 20]),
    data=st.data(),
)
def test_every_layout(folder, schema, objects, layout, indent, end, block_bytes, data):
    """The objects are the same however they lie, and whatever blocks they are cut into."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("streamkit.connectors.files.record_blocks.BLOCK_BYTES", block_bytes)
        mark = data.draw(st.sampled_from([b"", b"\xef\xbb\xbf"]))
        _, rows = read(folder, "a.json", mark + written(objects, layout, indent, end), **schema)
    assert [{name: row[name] for name in ("id", "v", "l")} for row in rows] == [{"id": n, **one} for n, one in enumerate(objects)]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b'[{"id":1},\n{"id":"x"}]', "line 2: column 'id': found 'x'"),
        (b'[{"id":1},\n\n7]', "line 3: found '7', expected an object"),
        (b'{\n"id":1\n}\n{\n"id":"x"\n}\n', "line 4: column 'id': found 'x'"),
        (b'{\n"id":1\n}\nno\n{"id":2}', "line 4: found 'no', which is no JSON"),
        (b'[{"id":1},{"id":2}', "it ends within a list"),
        (b'[{"id":1}] x', "line 1: found 'x', which is no JSON"),
        (
            b'{"id":1}\n{\n"id":2}',
            "line 2: found '{', which is no JSON.*; objects over several lines are read in files whose first one lies so",
        ),
        (b'{"id":1,}\n{"id":2}\n', "line 1: found"),
        (b'{"id":1},\n{"id":2},\n', r"line 1: found '\{\"id\":1\},', which is no JSON"),
        (b'{\n"id":1\n},\n{"id":2}\n', "line 3: found ',', which is no JSON"),
        (b'[{"id":1}\n{"id":2}]', r"line 2: found '\}\{\"id\":2\}', which is no JSON"),
        (b'[{"id":1}] {"id":2}', r"line 1: found '\]\{\"id\":2\}', which is no JSON"),
        (b'[{"id":1}]\n[{"id":2}]', r"line 2: found '\]\[\{"),
        (b'[{"id":1},\n]', "line 1: found ',', which is no JSON"),
        (b'[,{"id":1}]', "line 1: found ',', which is no JSON"),
        (b'[{"id":1},,{"id":2}]', "line 1: found ',', which is no JSON"),
        (b'[{"id":1},\n"a,b",{"id":2}]', "line 2: found '\"a,b\"', expected an object"),
        (b'[{"id":1}}]', r"line 1: found '\}', which is no JSON"),
    ],
)
def test_what_is_wrong_is_named_by_its_line(folder, data, message):
    """Also in lists and in objects over several lines, and with tolerance all others come."""
    with pytest.raises(SchemaError, match=rf"a\.json(, |: ){message}"):
        read(folder, "a.json", data, schema="id bigint")


def test_a_bad_object_is_left_out_alone(folder):
    """Of a list, and of objects over several lines."""
    for data in (b'[{"id":1},{"id":"x"},\n {"id":3}]', b'{\n"id":1}{"id":\n"x"}\n{"id":3}'):
        _, rows = read(folder, "a.json", data, schema="id bigint", errors_tolerance="all")
        assert [row["id"] for row in rows] == [1, 3]


TOKENS = st.lists(
    st.sampled_from(['{"id":1}', '{"id":2},', ",", ",\n", "null", "3", '"a,]"', "[4]", "}", "]", " ", "\n"]), max_size=7
)


@examples(150)
@given(TOKENS, st.sampled_from([1, 7]))
def test_lists_are_json(folder, tokens, block_bytes):
    """A file that begins a list is read without an error if it is a list of objects by JSON's rules; with tolerance, in any blocks alike."""
    text = "[" + "".join(tokens) + "]"
    try:
        found = json.loads(text)
        expected = [one["id"] for one in found]
    except (ValueError, TypeError):
        with pytest.raises(SchemaError):
            read(folder, "a.json", text.encode(), schema="id bigint")
    else:
        assert [row["id"] for row in read(folder, "a.json", text.encode(), schema="id bigint")[1]] == expected
    whole, cut = Letters(), Letters()
    rows = whole.read(folder, text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("streamkit.connectors.files.record_blocks.BLOCK_BYTES", block_bytes)
        assert (cut.read(folder, text), cut.found) == (rows, whole.found)


class Letters:
    """Reads a file with tolerance, and keeps what was refused."""

    def __init__(self):
        self.found = []

    def read(self, folder, text):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(
                file_source.FileSource, "refuse_record", lambda _, topic, record, error: self.found.append((record, str(error)))
            )
            try:
                _, rows = read(folder, "a.json", text.encode(), schema="id bigint", errors_tolerance="all")
            except SchemaError as error:
                return str(error)
        return [row["id"] for row in rows]


def test_values_of_a_list_fail_one_by_one(folder):
    """Of values that are no objects each is a record of its own."""
    letters = Letters()
    assert letters.read(folder, '[{"id":1},null,3,{"id":3},"a,b"]') == [1, 3]
    assert [record for record, _ in letters.found] == [b"null", b"3", b'"a,b"']


@pytest.mark.parametrize("layout", ["list", "documents"])
def test_every_cut(tmp_path, monkeypatch, layout):
    """A file that grows has each object once, at whatever byte it is looked at."""
    monkeypatch.setattr(file_source, "LOOK_SECONDS", 0.0)
    data = written([{"v": "a]}"}, {"v": 'b\\"'}, {"v": "c"}], layout, 1, "\n")
    path = tmp_path / "in" / "a.json"
    path.parent.mkdir()
    for cut in range(len(data) + 1) if TAKES_ALL else range(layout == "list", len(data) + 1, 2):
        follower = Follower(tmp_path / "in", schema="id bigint, v string, l array<string>")
        with path.open("wb") as file:
            for piece in (data[:cut], data[cut:]):
                file.write(piece)
                file.flush()
                follower.poll()
                follower.begin()
                follower.poll()
        leave_alone(path)
        follower.poll()
        follower.poll()
        assert follower.rows == [(0, "a]}"), (1, 'b\\"'), (2, "c")], cut
        path.unlink()
