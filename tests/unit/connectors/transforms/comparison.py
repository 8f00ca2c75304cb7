"""What our chain makes of a case, and what Connect made of it, as values that can be compared: types, values, topics, headers."""

from __future__ import annotations

import base64
import datetime as dt
import decimal
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa

from streamkit.connectors.transforms.chain import Chain, chain_of
from streamkit.connectors.transforms.extract_field import part_of
from streamkit.connectors.transforms.headers import headers_of
from streamkit.connectors.transforms.records import RecordPart, Records
from streamkit.connectors.transforms.transform import TransformError
from streamkit.errors import ConfigError
from streamkit.log.slab.frame import HEADERS_TYPE
from streamkit.names import HEADERS, OFFSET, PARTITION, TIMESTAMP

Json = Any
ERROR = "error"
REFUSED = "refused"
UNTYPED = "untyped"  # of a value that Connect gave without a schema
_TYPES = {
    "int8": pa.int8(), "int16": pa.int16(), "int32": pa.int32(), "int64": pa.int64(), "float": pa.float32(), "double": pa.float64(),
    "boolean": pa.bool_(), "string": pa.string(), "bytes": pa.binary(),
    "Timestamp": pa.timestamp("us", tz="UTC"), "Date": pa.date32(), "Time": pa.int32(),
}  # fmt: skip
_NAMES = {kind: name for name, kind in _TYPES.items() if name != "Time"}
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def ours(found: Json) -> Json:
    """What our chain makes of each record of a case: the record, None if it is left out, or ERROR; REFUSED if there is no such chain."""
    try:
        chain = chain_of(_settings(found["config"]), is_source=False)
    except ConfigError:
        return REFUSED
    assert chain is not None
    results: list[Json] = [None] * len(found["records"])
    numbered = enumerate(found["records"])
    for _, batch in groupby(numbered, key=lambda pair: _shape(pair[1], found["records"])):
        some = list(batch)
        records = _records([one for _, one in some])
        for number, result in _results(chain, records).items():
            results[some[number][0]] = result
    return results


def connects(answer: Json) -> Json:
    """Connect's answer in the same form."""
    if "refused" in answer:
        return REFUSED
    return [_of_connect(one) for one in answer["records"]]


def agree(mine: Json, theirs: Json) -> bool:
    """Whether two results are the same; a type that Connect does not tell is not compared."""
    if isinstance(mine, list) and isinstance(theirs, list):
        return len(mine) == len(theirs) and all(_agree_on_record(*pair) for pair in zip(mine, theirs, strict=True))
    return bool(mine == theirs)


def _agree_on_record(mine: Json, theirs: Json) -> bool:
    if not isinstance(mine, dict) or not isinstance(theirs, dict):
        return bool(mine == theirs)
    for name in ("key", "value"):
        if theirs[name] and theirs[name][0] == UNTYPED and mine[name]:
            mine, theirs = (one | {name: _without_nulls(one[name][1])} for one in (mine, theirs))
    return bool(mine == theirs)


def _without_nulls(value: Json) -> Json:
    """Without schemas Connect adds fields that are missing, as nulls."""
    return {name: one for name, one in value.items() if one is not None} if isinstance(value, dict) else value


def _settings(config: Json) -> Json:
    def of(prefix: str) -> Json:
        return {name.removeprefix(prefix): value for name, value in config.items() if name.startswith(prefix)}

    listed = {name: tuple(config[name].split(",")) if name in config else () for name in ("transforms", "predicates")}
    return {**listed, "transforms.": of("transforms."), "predicates.": of("predicates.")}


def _shape(record: Json, records: list[Json]) -> Json:
    """Records of the same shape go through together; one without a value goes with those that have one."""
    value = record["value"] or next((one["value"] for one in records if one["value"]), None)
    return record["topic"], record["key"] and str(record["key"]["schema"]), value and str(value["schema"])


def _records(records: list[Json]) -> Records:
    times = pa.array([one["timestamp"] for one in records], pa.int64()).cast(pa.timestamp("ms", tz="UTC"))
    headers = [
        [{"key": name, "value": None if text is None else text.encode()} for name, text in one["headers"]] or None
        for one in records
    ]
    facts = pa.table(
        {
            TIMESTAMP: times, PARTITION: pa.array([one["partition"] for one in records], pa.int32()),
            OFFSET: pa.array([one["offset"] for one in records], pa.int64()), HEADERS: pa.array(headers, HEADERS_TYPE),
        }
    )  # fmt: skip
    key, value = (_part(name, [one[name] for one in records]) for name in ("key", "value"))
    return Records(records[0]["topic"], key, value, facts, np.arange(len(records)))


def _part(name: str, found: list[Json]) -> RecordPart:
    schema = next((one["schema"] for one in found if one), None)
    if schema is None:
        return RecordPart({}, pa.array([False] * len(found)))
    values = [None if one is None else _value(schema, one["payload"]) for one in found]
    return part_of(name, pa.array(values, _type(schema)))


def _logical(schema: Json) -> str:
    return str(schema.get("name", "")).removeprefix("org.apache.kafka.connect.data.")


def _type(schema: Json) -> pa.DataType:
    if _logical(schema) == "Decimal":
        return pa.decimal128(38, int(schema["parameters"]["scale"]))
    if schema["type"] == "struct":
        return pa.struct([pa.field(one["field"], _type(one)) for one in schema["fields"]])
    if schema["type"] == "array":
        return pa.list_(_type(schema["items"]))
    if schema["type"] == "map":
        return pa.map_(_type(schema["keys"]), _type(schema["values"]))
    return _TYPES.get(_logical(schema)) or _TYPES[schema["type"]]


def _value(schema: Json, payload: Json) -> Json:
    if payload is None:
        return None
    if _logical(schema) == "Decimal":
        scale = int(schema["parameters"]["scale"])
        return decimal.Decimal(str(payload)).quantize(decimal.Decimal(1).scaleb(-scale))
    if _logical(schema) == "Timestamp":
        return _EPOCH + dt.timedelta(milliseconds=payload)
    if _logical(schema) == "Date":
        return dt.date(1970, 1, 1) + dt.timedelta(payload)
    if schema["type"] == "struct":
        return {one["field"]: _value(one, payload.get(one["field"])) for one in schema["fields"]}
    if schema["type"] == "array":
        return [_value(schema["items"], one) for one in payload]
    if schema["type"] == "map":
        return [(name, _value(schema["values"], one)) for name, one in payload.items()]
    if schema["type"] == "bytes":
        return base64.b64decode(payload)
    return float(payload) if schema["type"] in ("float", "double") else payload


def _results(chain: Chain, records: Records) -> dict[int, Json]:
    """Records by their number; those that fail are found one by one, as the runtime does it."""
    failed: dict[int, Json] = {}
    rest = np.arange(records.count)
    while True:
        try:
            found = chain.applied(_renumbered(records.take(rest)))
        except TransformError as error:
            wrong = [int(rest[row]) for row in error.rows] or [int(row) for row in rest]
            if len(wrong) > 1 and not error.rows:
                return failed | {
                    row: one for row in wrong for one in [_results(chain, _renumbered(records.take(np.array([row])))).get(0)]
                }
            failed |= dict.fromkeys(wrong, ERROR)
            rest = np.setdiff1d(rest, wrong)
            if not len(rest):
                return failed
        else:
            passed = {int(rest[one.rows[row]]): _of_ours(one, row) for one in found for row in range(one.count)}
            return failed | passed


def _renumbered(records: Records) -> Records:
    return Records(records.topic, records.key, records.value, records.facts, np.arange(records.count))


def _of_ours(records: Records, row: int) -> Json:
    headers = headers_of(records)[row].as_py() or []
    return {
        "topic": records.topic,
        "key": _datum(records.key, row),
        "value": _datum(records.value, row),
        "headers": [[pair["key"], None if pair["value"] is None else pair["value"].decode()] for pair in headers],
    }


def _datum(part: RecordPart, row: int) -> Json:
    if not part.valid[row].as_py():
        return None
    whole = part.whole
    return [_kind_of(whole.type), _plain(whole[row].as_py())]


def _kind_of(kind: pa.DataType) -> Json:
    if pa.types.is_struct(kind):
        return [[one.name, _kind_of(one.type)] for one in kind]
    if pa.types.is_list(kind):
        return {"array": _kind_of(kind.value_type)}
    if pa.types.is_map(kind):
        return {"map": _kind_of(kind.item_type)}
    return "Decimal" if pa.types.is_decimal(kind) else _NAMES.get(kind, UNTYPED)


def _of_connect(one: Json) -> Json:
    if one is None:
        return None
    if "error" in one:
        return ERROR
    return one | {name: _connects_datum(one[name]) for name in ("key", "value")}


def _connects_datum(found: Json) -> Json:
    if found is None or found["payload"] is None:
        return None
    if found["schema"] is None:
        return [UNTYPED, found["payload"]]
    return [_kind_of(_type(found["schema"])), _plain(_value(found["schema"], found["payload"]), _type(found["schema"]))]


def _plain(value: Json, kind: pa.DataType | None = None) -> Json:
    if kind is not None:
        value = pa.scalar(value, kind).as_py()  # floats of 32 bits, as both have them
    if isinstance(value, dict):
        return {name: _plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return repr(value) if isinstance(value, float | decimal.Decimal) else value
