"""Chains of transforms and the records that go through them, as JSON that Connect reads: listed ones, and random chains of these."""

from __future__ import annotations

import base64
import itertools
import random
from typing import Any

Json = Any
CONNECT = "org.apache.kafka.connect.transforms."
PREDICATES = f"{CONNECT}predicates."
DATA = "org.apache.kafka.connect.data."


def field(called: str, kind: Json, **more: Json) -> Json:
    """A field that may be null."""
    return {**(kind if isinstance(kind, dict) else {"type": kind}), "optional": True, "field": called, **more}


def struct(*fields: Json) -> Json:
    return {"type": "struct", "optional": True, "fields": list(fields)}


INNER = struct(field("a", "int32"), field("b", struct(field("c", "string"), field("d", "int64"))))
WIDE = struct(
    field("i8", "int8"), field("i16", "int16"), field("i32", "int32"), field("i64", "int64"), field("f32", "float"),
    field("f64", "double"), field("flag", "boolean"), field("text", "string"), field("number", "string"),
    field("bytes", "bytes"), field("moment", {"type": "int64", "name": f"{DATA}Timestamp", "version": 1}),
    field("day", {"type": "int32", "name": f"{DATA}Date", "version": 1}),
    field("amount", {"type": "bytes", "name": f"{DATA}Decimal", "version": 1, "parameters": {"scale": "2"}}),
    field("tags", {"type": "array", "items": {"type": "string", "optional": True}}), field("inner", INNER),
)  # fmt: skip
KEY = struct(field("id", "int64"), field("region", "string"))
WITH_MAP = struct(field("n", "int32"), field("map", {"type": "map", "keys": {"type": "string"}, "values": {"type": "int32"}}))


def _bytes(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


VALUES: list[Json] = [
    {"i8": 1, "i16": 300, "i32": 70000, "i64": 5_000_000_000, "f32": 1.5, "f64": 2.75, "flag": True, "text": "ada", "number": "42",
     "bytes": _bytes("xyz"), "moment": 1_700_000_000_123, "day": 19_000, "amount": 12.34, "tags": ["a", "b"],
     "inner": {"a": 7, "b": {"c": "deep", "d": 9}}},
    {"i8": -128, "i16": -32768, "i32": -2147483648, "i64": -9223372036854775808, "f32": -0.5, "f64": 1e300, "flag": False,
     "text": "", "number": "-7", "bytes": "", "moment": 0, "day": 0, "amount": -0.01, "tags": [], "inner": {"a": None, "b": None}},
    {"i8": 127, "i16": 32767, "i32": 2147483647, "i64": 9223372036854775807, "f32": 3e38, "f64": -3.99e9, "flag": True,
     "text": "TRUE", "number": "1.25", "bytes": _bytes("\x00\xff"), "moment": 86_400_000, "day": 1, "amount": 99999.99,
     "tags": [None], "inner": {"a": 1, "b": {"c": None, "d": None}}},
    {"i8": 0, "i16": 256, "i32": 0, "i64": 0, "f32": 0.0, "f64": -0.4, "flag": None, "text": "True", "number": "abc",
     "bytes": None, "moment": 1_583_020_799_000, "day": 18_320, "amount": 5.25, "tags": None, "inner": None},
    {name["field"]: None for name in WIDE["fields"]},
]  # fmt: skip
TIMES = [1_700_000_000_123, 0, 1_583_020_799_999, 86_400_000, 951_782_400_000, 4_102_444_800_000]


def record(number: int, key: Json, value: Json, *, topic: str = "orders-eu", headers: Json = ()) -> Json:
    return {
        "topic": topic, "partition": number % 3, "offset": 100 + number, "timestamp": TIMES[number % len(TIMES)],
        "headers": [list(pair) for pair in headers], "key": key, "value": value,
    }  # fmt: skip


def data(schema: Json, payload: Json) -> Json:
    return {"schema": schema, "payload": payload}


def _key(number: int) -> Json:
    return data(KEY, {"id": number, "region": ["eu", "us", None][number % 3]})


def wide_records() -> list[Json]:
    headers = [(), (("trace", "1"),), (("other", "x"), ("trace", "2"), ("trace", "3")), (("other", None),), ()]
    found = [record(n, _key(n), data(WIDE, value), headers=headers[n]) for n, value in enumerate(VALUES)]
    return [*found, record(5, _key(5), None, headers=(("trace", "gone"),))]


def bare_records(kind: Json, values: list[Json]) -> list[Json]:
    """Values without fields; the last is none at all."""
    schema = {**(kind if isinstance(kind, dict) else {"type": kind}), "optional": True}
    found = [record(n, data({"type": "int64", "optional": True}, n), data(schema, value)) for n, value in enumerate(values)]
    return [*found, record(len(values), data({"type": "int64", "optional": True}, 9), None)]


TEXT_TIMES = struct(field("at", "string"), field("n", "int64"), field("other", "string"))


def text_times(*texts: Json) -> list[Json]:
    return [record(n, _key(n), data(TEXT_TIMES, {"at": text, "n": n, "other": "o"})) for n, text in enumerate(texts)]


def numbered_times(*numbers: int | None) -> list[Json]:
    return [record(n, _key(n), data(TEXT_TIMES, {"at": "x", "n": one, "other": None})) for n, one in enumerate(numbers)]


def one(kind: str, *, package: str = CONNECT, **settings: str) -> Json:
    """A chain of one transform; `_` in the names of settings stands for a dot."""
    found = {"transforms": "a", "transforms.a.type": package + kind}
    return found | {f"transforms.a.{name.replace('_', '.')}": value for name, value in settings.items()}


def on_both(kind: str, **settings: str) -> list[Json]:
    return [one(f"{kind}${side}", **settings) for side in ("Key", "Value")]


def listed() -> list[Json]:
    """All transforms and predicates, with their settings."""
    wide = wide_records()
    cases = [{"config": config, "records": wide} for config in _wide_configs()]
    for kind in ("int8", "int16", "int32", "int64", "float32", "float64", "boolean", "string"):
        texts = [
            "1",
            "-128",
            "+5",
            " 6",
            "1e3",
            "NaN",
            "-Infinity",
            "0x1p3",
            "2.5f",
            "300",
            "99999999999",
            "true",
            "",
            None,
            "1_0",
        ]
        cases.append({"config": one("Cast$Value", spec=kind), "records": bare_records("string", texts)})
        cases.append({"config": one("Cast$Key", spec=kind), "records": bare_records("int64", [1, -1, 2**40, None])})
        doubles = [0.1, 1e10, -1.5e-7, 123456789.125, 1e300, 2.0**63, -(2.0**31) - 1, 65536.9, None]
        cases.append({"config": one("Cast$Value", spec=kind), "records": bare_records("double", doubles)})
    cases += [{"config": config, "records": found} for config, found in _time_cases()]
    for config in (one("Flatten$Value"), one("MaskField$Value", fields="map"), one("HoistField$Value", field="f")):
        with_map = [record(n, _key(n), data(WITH_MAP, {"n": n, "map": {"x": n}})) for n in range(2)]
        cases.append({"config": config, "records": with_map})
    for config in [
        *on_both("HoistField", field="f"), *on_both("ExtractField", field="x"), one("Flatten$Value"), one("ReplaceField$Value", exclude="x"),
        one("MaskField$Value", fields="x"), one("InsertField$Value", topic_field="x"), one("ValueToKey", fields="x"),
        one("HeaderFrom$Value", fields="x", headers="x", operation="copy"), one("Cast$Value", spec="x:string"),
    ]:  # fmt: skip
        cases.append({"config": config, "records": bare_records("string", ["a", "b"])})
    topics = ["orders-eu", "orders", "x.y.z", "2024-orders", "a$b"]
    for config in _router_configs():
        cases.append({"config": config, "records": [record(n, _key(n), None, topic=topic) for n, topic in enumerate(topics)]})
    cases += [{"config": config, "records": envelopes()} for config in _unwraps()]
    return cases


def _wide_configs() -> list[Json]:
    names = [found["field"] for found in WIDE["fields"]]
    found = [
        one("Cast$Value", spec=f"{name}:{kind}") for name in names for kind in ("int8", "int64", "float32", "boolean", "string")
    ]
    found += [
        one("Cast$Value", spec="i64:int32,f64:float32,number:float64,text:boolean"),
        one("Cast$Key", spec="id:string,region:boolean"),
    ]
    found += [one("Cast$Value", spec="missing:int8"), one("Cast$Value", spec="i8:int32", replace_null_with_default="false")]
    found += [one("MaskField$Value", fields=name) for name in names]
    found += [one("MaskField$Value", fields=name, replacement="7.9") for name in names if name != "inner"]
    found += [
        one("MaskField$Value", fields="i8,i16,text", replacement="300"),
        one("MaskField$Value", fields="i8", replacement="x"),
    ]
    found += on_both("MaskField", fields="id,region")
    found += on_both("ReplaceField", exclude="id,i8") + on_both("ReplaceField", include="id,i8,text")
    found += on_both("ReplaceField", renames="id:key,i8:tiny,text:words") + [
        one("ReplaceField$Value", include="text,i8", exclude="i8")
    ]
    found += [one("ReplaceField$Value", renames="i8:text"), one("ReplaceField$Value", renames="i8:i16,i16:i8", include="i8,i16")]
    found += [one("ExtractField$Value", field=name) for name in ("i8", "text", "moment", "tags", "inner", "missing")]
    found += [one("ExtractField$Key", field="id"), one("ExtractField$Key", field="nothing")]
    paths = ("inner.a", "inner.b", "inner.b.c", "inner.x", "`inner`.`b`.d", "text.a", "inner.b.", "i8")
    found += [one("ExtractField$Value", field=path, field_syntax_version="V2") for path in paths]
    found += on_both("HoistField", field="whole") + on_both("Flatten") + on_both("Flatten", delimiter="_")
    found += [one("Flatten$Value", delimiter="")]
    found += [one("ValueToKey", fields=fields) for fields in ("i8", "text,i64", "inner", "missing,text")]
    found += on_both("InsertField", topic_field="t", partition_field="p!", offset_field="o?", timestamp_field="ts")
    found += on_both("InsertField", static_field="s!", static_value="fixed") + [one("InsertField$Value", topic_field="text")]
    found += on_both("SetSchemaMetadata", schema_name="named", schema_version="3")
    found += [one("InsertHeader", header="h", value_literal=text) for text in ("v", "12", "true", "two words")]
    found += [one("DropHeaders", headers=names) for names in ("trace", "trace,other", "none")]
    for operation in ("move", "copy"):
        found += [one("HeaderFrom$Value", fields=name, headers="h", operation=operation) for name in names]
        found += [one("HeaderFrom$Key", fields="id,region", headers="h,trace", operation=operation)]
    found += [one("HeaderFrom$Value", fields="missing", headers="h", operation="copy")]
    found += [one("Filter")]
    for predicate in _predicates():
        for negate in ("false", "true"):
            for config in (
                one("Filter"),
                one("InsertField$Value", static_field="s", static_value="x"),
                one("HoistField$Value", field="f"),
            ):
                found.append(
                    config | predicate | {"transforms.a.predicate": "p", "transforms.a.negate": negate, "predicates": "p"}
                )
    return found


def _predicates() -> list[Json]:
    return [
        {"predicates.p.type": f"{PREDICATES}HasHeaderKey", "predicates.p.name": "trace"},
        {"predicates.p.type": f"{PREDICATES}RecordIsTombstone"},
        {"predicates.p.type": f"{PREDICATES}TopicNameMatches", "predicates.p.pattern": "orders-.*"},
        {"predicates.p.type": f"{PREDICATES}TopicNameMatches", "predicates.p.pattern": "orders"},
    ]


def _time_cases() -> list[tuple[Json, list[Json]]]:
    wide = wide_records()
    found: list[tuple[Json, list[Json]]] = []
    patterns = [
        "yyyy-MM-dd'T'HH:mm:ss.SSSX", "yyyy-MM-dd HH:mm:ss", "dd/MM/yy", "EEE, d MMM yyyy h:mm a z", "yyyyMMddHHmmssSSS", "EEEE MMMM G y",
        "D k K u 'o''clock' Z", "HH:mm", "yyyy", "M/d/yyyy H:m:s",
    ]  # fmt: skip
    for source in ("moment", "day"):
        for target in ("unix", "Date", "Time", "Timestamp"):
            found.append((one("TimestampConverter$Value", field=source, target_type=target), wide))
        found += [
            (one("TimestampConverter$Value", field=source, target_type="string", format=pattern), wide) for pattern in patterns
        ]
    for precision, unit in (("seconds", 1), ("milliseconds", 1_000), ("microseconds", 10**6), ("nanoseconds", 10**9)):
        numbers = numbered_times(0, 1_700_000_000 * unit + unit // 4, -5 * unit, None, 86_399 * unit)
        for target in ("unix", "Date", "Time", "Timestamp"):
            found.append((one("TimestampConverter$Value", field="n", target_type=target, unix_precision=precision), numbers))
        config = one("TimestampConverter$Value", field="moment", target_type="unix", unix_precision=precision)
        found.append((config, wide))
        config = one(
            "TimestampConverter$Value", field="n", target_type="string", format="yyyy-MM-dd HH:mm:ss", unix_precision=precision
        )
        found.append((config, numbers))
    texts: list[tuple[str, list[Json]]] = [
        ("yyyy-MM-dd HH:mm:ss", ["2024-02-29 12:34:56", "2023-02-29 25:61:61", "2024-1-2 3:4:5", "nothing", None, "2024-02-29 12:34:56 more"]),
        ("yyyyMMddHHmmssSSS", ["20240229123456789", "202402291234567891", "2024"]),
        ("dd/MM/yyyy", ["1/2/2024", "31/12/1999", "99/99/2024", "1-2-2024"]),
        ("yyyy-MM-dd'T'HH:mm:ss.SSSX", ["2024-02-29T12:34:56.7Z", "2024-02-29T12:34:56.789+02", "2024-02-29T12:34:56.789", None]),
        ("yyyy-MM-dd HH:mm:ss Z", ["2024-02-29 12:34:56 +0130", "2024-02-29 12:34:56 -0800", "2024-02-29 12:34:56 UTC"]),
        ("EEE, d MMM yyyy h:mm a", ["Thu, 29 Feb 2024 1:05 PM", "thu, 29 february 2024 12:05 am", "Fri, 29 Feb 2024 1:05 PM"]),
        ("d MMMM yyyy", ["3 march 2020", "3 Mar 2020", "3 Foo 2020"]),
        ("HH:mm", ["07:30", "7:5", "24:00"]),
        ("D yyyy", ["60 2024", "366 2023"]),
    ]  # fmt: skip
    for pattern, some in texts:
        for target in ("unix", "Timestamp", "Date", "Time", "string"):
            found.append((one("TimestampConverter$Value", field="at", target_type=target, format=pattern), text_times(*some)))
    found += [
        (one("TimestampConverter$Value", field="missing", target_type="unix"), wide),
        (one("TimestampConverter$Value", field="i32", target_type="unix"), wide),
        (one("TimestampConverter$Value", field="flag", target_type="unix"), wide),
        (one("TimestampConverter$Key", target_type="Timestamp"), bare_records("string", ["a"])),
        (one("TimestampConverter$Key", target_type="string", format="yyyy"), bare_records("string", ["a"])),
    ]
    return found


def _router_configs() -> list[Json]:
    found = [
        one("RegexRouter", regex=regex, replacement=replacement)
        for regex, replacement in [
            ("orders-(.*)", "$1"), ("(?<a>[a-z]+)-(.*)", "${a}_x"), ("orders", "all"), (".*", "one"), ("([^.]*)\\.([^.]*)\\.(.*)", "$3.$2.$1"),
            ("(\\d+)-(.*)", "$2-$1"), ("orders|orders-eu", "x"), ("(.*)", "\\$1"), ("(o)(r)(.*)", "$22$1"), ("\\p{Alpha}+", "letters"),
        ]
    ]  # fmt: skip
    found += [
        one("TimestampRouter"),
        one("TimestampRouter", topic_format="${topic}.${timestamp}.${topic}", timestamp_format="yyyy-'W'MM"),
    ]
    return found


def envelopes() -> list[Json]:
    """Changes of a table as Debezium tells them: read, created, updated, deleted, a tombstone, a truncation."""
    row = struct(field("id", "int32"), field("name", "string"))
    source = struct(field("table", "string"), field("lsn", "int64"), field("ts_ms", "int64"))
    transaction = struct(field("id", "string"), field("total_order", "int64"))
    envelope = {
        "type": "struct", "name": "server.public.t.Envelope", "version": 2, "optional": False,
        "fields": [field("before", row, name="server.public.t.Value"), field("after", row, name="server.public.t.Value"),
                   field("source", source), field("transaction", transaction), field("op", "string"), field("ts_ms", "int64")],
    }  # fmt: skip
    changes = [
        ("r", None, (1, "a")),
        ("c", None, (2, "b")),
        ("u", (2, "b"), (2, None)),
        ("d", (2, None), None),
        ("t", None, None),
    ]
    found = []
    for n, (op, before, after) in enumerate(changes):
        rows = [None if one is None else dict(zip(("id", "name"), one, strict=True)) for one in (before, after)]
        told = None if n == 0 else {"id": f"tx{n}", "total_order": n}
        value = {"before": rows[0], "after": rows[1], "op": op, "ts_ms": 1000 + n, "transaction": told}
        value["source"] = {"table": "t", "lsn": 50 + n, "ts_ms": 900 + n}
        found.append(record(n, _key(n), data(envelope, value)))
    return [*found, record(5, _key(3), None), record(6, _key(6), data(WIDE, VALUES[0]))]


def _unwraps() -> list[Json]:
    modes = ("drop", "tombstone", "rewrite", "rewrite-with-tombstone", "delete-to-tombstone")
    found = [unwrap()]
    for mode in modes:
        found.append(unwrap(delete_tombstone_handling_mode=mode))
        more = {
            "add_fields": "op,table,source.ts_ms,ts_ms:when,transaction.id,total_order",
            "add_headers": "op,lsn:place,missing",
        }
        found.append(unwrap(delete_tombstone_handling_mode=mode, **more))
    return [*found, unwrap(add_fields="op", add_fields_prefix="", add_headers="table", add_headers_prefix="dbz.")]


def unwrap(**settings: str) -> Json:
    return one("ExtractNewRecordState", package="io.debezium.transforms.", **settings)


def chains(count: int, seed: int) -> list[Json]:
    """Chains of two or three different transforms that are listed for wide records, drawn by a seed."""
    chance = random.Random(seed)
    pool = [config for config in _wide_configs() if "predicates" not in config and not _is_left_out(config)]
    pool += [config for config, found in _time_cases() if found == wide_records()] + _router_configs()
    by_kind = {kind: list(some) for kind, some in itertools.groupby(sorted(pool, key=_kind), key=_kind)}
    found = []
    for _ in range(count):
        kinds = chance.sample(sorted(by_kind), chance.choice((2, 3)))
        kinds.sort(key=f"{CONNECT}ExtractField$Value".__eq__)  # last: Connect knows a null in a field from a tombstone, we do not
        config: dict[str, Json] = {"transforms": ",".join("abc"[: len(kinds)])}
        for alias, kind in zip("abc", kinds, strict=False):
            drawn = chance.choice(by_kind[kind])
            config |= {f"transforms.{alias}.{name[13:]}": text for name, text in drawn.items() if name != "transforms"}
        records = wide_records()
        if f"{CONNECT}HoistField$Value" in config.values():
            records.pop()  # Connect has no schema for what it makes of a tombstone, and other rules for what has none
        found.append({"config": config, "records": records})
    return found


def _is_left_out(config: Json) -> bool:
    """Filter leaves nothing to compare; Connect's SetSchemaMetadata fails for values without columns, which we do not repeat."""
    return any(name in config["transforms.a.type"] for name in ("Filter", "SetSchemaMetadata"))


def _kind(config: Json) -> str:
    return str(config["transforms.a.type"])


def all_cases() -> list[Json]:
    return [*listed(), *chains(150, 1)]
