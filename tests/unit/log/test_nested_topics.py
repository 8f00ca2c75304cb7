"""Promises of topics with nested columns: what was sent is read, after everything that happens to a log."""

from __future__ import annotations

import shutil

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamkit.data_type import to_arrow
from streamkit.errors import SchemaError
from streamkit.log.opening import open_log
from streamkit.log.salvage import salvage
from tests.kit.nested import NESTED_TYPES, values_of
from tests.kit.sampling import examples

COLUMNS = "id string, tags array<string>, at struct<lat:double,lon:double>, props map<string,array<int>>"
COMPACTED = {"cleanup.policy": "compact"}


def row_of(number, version=0):
    return {
        "id": f"k{number}",
        "tags": [None, "é", f"v{version}"][: number % 4] if number % 5 else None,
        "at": {"lat": number / 2, "lon": None} if number % 3 else None,
        "props": {"a": [number, None], "b": None} if number % 2 else {},
    }


def filled(log, versions=3, keys=40):
    """A topic with some versions of some keys, a commit each, the last of which deletes the first key; and the newest rows."""
    log.create_topic("t", COLUMNS, key="id", partitions=2, config=COMPACTED)
    with log.producer() as producer:
        for version in range(versions):
            rows = [row_of(number, version) for number in range(keys)]
            for row in rows[: keys // 2]:
                producer.send("t", row)
            producer.send_batch("t", rows[keys // 2 :])
            producer.flush()
        producer.send("t", {"id": "k0"} | dict.fromkeys(("tags", "at", "props")) | {"_deleted": True})
    return {f"k{number}": row_of(number, versions - 1) for number in range(1, keys)}


def newest(log):
    """The newest row of each key, as a consumer without a group gets it."""
    found = {}
    for row in log.decode("t", log.read("t")):
        found[row["id"]] = {name: row[name] for name in ("id", "tags", "at", "props")}
    return {key: row for key, row in found.items() if row["props"] is not None}


@examples(25)
@given(st.data())
def test_what_is_sent_is_read(data):
    """Any values of any nested type are read as they were sent, one by one and together, whole and one column at a time."""
    kind = data.draw(NESTED_TYPES)
    values = data.draw(st.lists(values_of(kind), min_size=1, max_size=5))
    with open_log(":memory:") as log:
        log.create_topic("t", f"n int, v {kind}", partitions=1)
        with log.producer() as producer:
            for number, value in enumerate(values):
                producer.send("t", {"n": number, "v": value})
            producer.flush()
            producer.send_batch("t", pa.table({"n": pa.array([7] * len(values)), "v": pa.array(values, to_arrow(kind))}))
        expected = pa.array(values * 2, to_arrow(kind))
        assert log.read("t")["v"].combine_chunks().equals(expected)
        assert log.read("t", columns=["v"])["v"].combine_chunks().equals(expected)
        assert pa.concat_arrays([batch["v"] for batch in log.scan("t")]).equals(expected)


def test_maintenance_keeps_nested_values(tmp_path):
    """Merged, compacted, backed up, and salvaged without its catalog, a topic has the newest nested row of each key, and is whole."""
    folder = tmp_path / "log"
    with open_log(folder) as log:
        expected = filled(log)
        assert newest(log) == expected
        log.merge("t")
        assert newest(log) == expected
        log.compact("t")
        assert newest(log) == expected and log.read("t").num_rows <= len(expected) + 1 + 40
        assert log.fsck(deep=True).is_clean
        log.backup(tmp_path / "backup", verify=True)
    with open_log(tmp_path / "backup") as copy:
        assert newest(copy) == expected
    shutil.rmtree(folder / "journal")
    (folder / "catalog.db").unlink()
    with open_log(salvage(str(folder)).target) as found:
        (name,) = found.topics()
        assert {row["id"] for row in found.read(name).to_pylist()} >= set(expected)
        assert found.topic(name).schema["props"].type == "map<string,array<int>>"


def test_members_of_a_group_get_nested_values(empty_log):
    """A consumer hands nested rows out as Python has them: dicts, lists and dicts of maps."""
    expected = filled(empty_log, versions=1, keys=10)
    with empty_log.consumer("t", group="g", auto_offset_reset="earliest") as consumer:
        rows = consumer.poll(1000)
        found = {row["id"]: row for row in empty_log.decode("t", rows)}
        consumer.commit()
    assert {key: {name: found[key][name] for name in row} for key, row in expected.items()} == expected


def test_strings_that_repeat_stay_whole_beside_nested_ones(empty_log):
    """A frame keeps a text column as a dictionary and nested ones as they are."""
    empty_log.create_topic("d", "s string, v array<string>", partitions=1)
    rows = [{"s": f"s{n % 3}", "v": [f"s{n % 3}"] * (n % 4)} for n in range(3_000)]
    with empty_log.producer() as producer:
        producer.send_batch("d", rows)
    table = empty_log.read("d")
    assert table.select(["s", "v"]).to_pylist() == rows


def test_nested_columns_evolve_as_wholes(empty_log):
    """A nested column may be added where it may be null; what is inside one stays as it is, and the error says so."""
    empty_log.create_topic("e", "n int, at struct<lat:float>", partitions=1)
    with empty_log.producer() as producer:
        producer.send("e", {"n": 1, "at": {"lat": 0.5}})
    for changed in ("at struct<lat:double>", "at struct<lat:float,lon:float>", "at array<float>"):
        with pytest.raises(
            SchemaError, match=r"the column 'at' is struct<lat:float>, and .* is not wider; .* what is inside nested types stays"
        ):
            empty_log.alter_topic("e", schema=f"n int, {changed}")
    empty_log.alter_topic("e", schema="n bigint, at struct<lat:float>, tags map<string,int>")
    with empty_log.producer() as producer:
        producer.send("e", {"n": 2, "at": None, "tags": {"a": 1}})
    rows = [{name: row[name] for name in ("n", "at", "tags")} for row in empty_log.decode("e", empty_log.read("e"))]
    assert rows == [{"n": 1, "at": {"lat": 0.5}, "tags": None}, {"n": 2, "at": None, "tags": {"a": 1}}]


def test_maps_are_no_keys(empty_log):
    """A topic cannot have a map in its key; the error says what can be there."""
    with pytest.raises(SchemaError, match=r"topic t: the column 'props' is .* a map cannot be in a key, .*found key="):
        empty_log.create_topic("t", COLUMNS, key=["id", "props"])
    with pytest.raises(SchemaError, match=r"a map cannot be in a key, .*found partition_by="):
        empty_log.create_topic("t", COLUMNS, key="id", partition_by="props")


@pytest.mark.parametrize("column", ["tags", "at", "props"])
def test_nested_columns_are_no_event_time(empty_log, column):
    """A topic cannot have a nested column as its event time; the error says what can be one."""
    with pytest.raises(SchemaError, match="expected timestamp or timestamp_ntz"):
        empty_log.create_topic("t", COLUMNS, timestamp=column)
