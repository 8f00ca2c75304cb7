"""
A record as Kafka's REST proxies write it: a key and a value, each with a type that says what its data are.

`JSON` is a value of JSON, `STRING` a text, and `BINARY` bytes in base 64. A topic of columns has its key columns in the key, and the others in
the value; the key may also be given among the columns of the value. What is `BINARY` there is JSON, in base 64. In a topic of a format a text is
its bytes in UTF-8, and bytes are stored as they are; both are refused if the format cannot read them.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import pyarrow as pa

from streamkit.connectors.files.nested_json import once
from streamkit.connectors.files.record_lines import json_text
from streamkit.errors import SchemaError
from streamkit.formats.json_numbers import document_text, parse_number, parse_whole, refuse_constant
from streamkit.log.topic.formats import KEY, VALUE, decode
from streamkit.log.topic.topic import Topic
from streamkit.names import DELETED
from streamkit.serve.refusals import bad_request, unreadable_json
from streamkit.serve.writing import records_of_lines

TYPES = (IN_JSON, TEXT, BINARY) = ("JSON", "STRING", "BINARY")


@dataclass(frozen=True)
class GivenData:
    """A key or a value of a request: its type, and its data, which are None where there is none."""

    type: str
    data: Any


@dataclass
class GivenRecord:
    """A record of a request: its columns as JSON has them, and beside them key and value of a topic of a format, where they are bytes."""

    columns: dict[str, Any]
    stored: dict[str, bytes] = field(default_factory=dict)


def read_json(content: bytes) -> Any:
    """The value of a JSON text, whose numbers keep their digits as those of lines do; RefusedError if it is none."""
    try:
        return json.loads(
            content, object_pairs_hook=once, parse_float=parse_number, parse_int=parse_whole, parse_constant=refuse_constant
        )
    except (ValueError, RecursionError, SchemaError) as error:
        raise unreadable_json(error, "the body") from None


def check_fields(part: str, given: Mapping[str, Any], known: Collection[str]) -> None:
    """RefusedError if an object of a request has a field that nobody reads."""
    for name in given:
        if name not in known:
            raise bad_request(f"the field {name!r} of {part} is not known; expected some of: {', '.join(known)}")


def given_record(topic: Topic, key: GivenData, value: GivenData) -> GivenRecord:
    """A record of a topic; SchemaError if its key or its value is nothing that the topic holds."""
    if topic.format is None:
        return GivenRecord(_columns(topic, _of_columns(topic, KEY, key), _of_columns(topic, VALUE, value)))
    found = GivenRecord({KEY: None, VALUE: None})
    for name, one in ((KEY, key), (VALUE, value)):
        if one.data is None:
            continue
        if one.type != IN_JSON:
            found.stored[name] = _bytes(name, one)
        elif topic.format.name == "bytes":
            raise SchemaError(
                f"found the {name} {json_text(one.data)[:80]} in JSON; expected {BINARY} or {TEXT}: the topic {topic.name} holds bytes"
            )
        else:
            found.columns[name] = one.data
    return found


def records_of(topic: Topic, given: Sequence[GivenRecord]) -> pa.Table:
    """The records in the types of the topic; SchemaError names the one that does not fit."""
    try:
        lines = b"".join(document_text(one.columns).encode(errors="backslashreplace") + b"\n" for one in given)
    except RecursionError:
        raise bad_request("the body nests too deep; expected less depth") from None
    found = records_of_lines(topic, lines)
    for name in (KEY, VALUE):
        if topic.format is not None and any(name in one.stored for one in given):
            stored = pa.array([one.stored.get(name) for one in given], pa.binary())
            decode(topic.format, stored, name)  # refuses what readers could not read
            found = found.set_column(found.column_names.index(name), name, stored)
    return found


def _of_columns(topic: Topic, part: str, given: GivenData) -> Any:
    """The JSON of a key or a value of columns."""
    if given.data is None or given.type == IN_JSON:
        return given.data
    coded = _bytes(part, given)
    if given.type == BINARY:
        return read_json(coded)
    is_binary = part == KEY and len(topic.key) == 1 and topic.schema[topic.key[0]].type == "binary"
    return base64.b64encode(coded).decode() if is_binary else given.data


def _bytes(part: str, given: GivenData) -> bytes:
    """What a text or base 64 stands for."""
    try:
        if given.type == TEXT:
            return bytes(given.data.encode())
        return base64.b64decode(given.data, validate=True)
    except (binascii.Error, AttributeError, TypeError, ValueError):
        expected = "a text" if given.type == TEXT else "base 64"
        raise bad_request(f"found the {part} {json_text(given.data)[:80]} of type {given.type}; expected {expected}") from None


def _columns(topic: Topic, key: Any, value: Any) -> dict[str, Any]:
    """A record as an object of the topic's columns."""
    if key is not None and not isinstance(key, dict):
        if len(topic.key) != 1:
            raise SchemaError(f"found the key {json_text(key)[:80]}; expected an object of {', '.join(topic.key) or 'no column'}")
        key = {topic.key[0]: key}
    if value is None and key:
        return {**key, DELETED: True}
    if not isinstance(value, dict):
        raise SchemaError(f"found the value {json_text(value)[:80]}; expected an object of columns: the topic has {topic.schema}")
    for name, one in (key or {}).items():
        if name in value and not _is_same(value[name], one):
            raise SchemaError(
                f"column {name!r} is {document_text(one)[:80]} in the key and {document_text(value[name])[:80]} in the value"
            )
    return {**(key or {}), **value}


def _is_same(one: Any, other: Any) -> bool:
    """Whether two values of JSON are the same, numbers by all their digits."""
    if (
        isinstance(one, int | float)
        and isinstance(other, int | float)
        and not isinstance(one, bool)
        and not isinstance(other, bool)
    ):
        return Decimal(str(one)) == Decimal(str(other))
    return type(one) is type(other) and bool(one == other)
