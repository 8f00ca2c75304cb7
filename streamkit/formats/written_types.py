"""Which columns the schema of a format takes: a type whose values it can never hold is found before any value is written."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from streamkit.data_type import INTEGERS, FieldPath, decimal_of, element_of, entry_of, fields_of
from streamkit.formats.format import Format

_FLOATS = ("float", "double")
_TIMES = ("timestamp", "timestamp_ntz")
_MEMBER = re.compile("member[0-9]+")
_WRITTEN_AS_TEXT = ("date", "timestamp", "timestamp_ntz", "binary")  # in JSON, and decimals


def why_unwritable(format: Format, written: str, named: str, path: FieldPath, defaults: Mapping[FieldPath, Any]) -> str | None:
    """
    Why no value of a type fits a schema that has another type at this place; None if some do.

    Whole numbers fit into narrower ones, and decimals into those with fewer digits before the point: there each value decides. `defaults`
    are those of the schema, by path, in which an element is `""`.
    """
    if written == "void":
        return None
    if format.name == "avro" and (members := _members(named)):
        return _why_no_member(format, written, members, path, defaults)
    for inner_written, inner_named, name in _inner(format, written, named):
        if reason := why_unwritable(format, inner_written, inner_named, (*path, name), defaults):
            return reason
    if (fields := fields_of(written)) and (its := fields_of(named)):
        return _other_fields(format, [name for name, _ in fields], [name for name, _ in its], path, defaults)
    return None if _is_taken(format, written, named) else f"its schema has {_shown(path)} as {named}, and {written} is written"


def _why_no_member(
    format: Format, written: str, members: Mapping[str, str], path: FieldPath, defaults: Mapping[FieldPath, Any]
) -> str | None:
    """Why no value of a type is one of an Avro union of several types; a struct of its members says which each value is, others are what fits."""
    fields = dict(fields_of(written) or ())
    if fields and fields.keys() <= members.keys():
        reasons = (why_unwritable(format, type, members[name], (*path, name), defaults) for name, type in fields.items())
        return next(filter(None, reasons), None)
    is_taken = any(why_unwritable(format, written, type, (*path, name), defaults) is None for name, type in members.items())
    if is_taken or (entry_of(written) and any(map(fields_of, members.values()))):  # a map may be a record
        return None
    return f"its schema has {_shown(path)} as one of {', '.join(members.values())}, and {written} is written"


def _other_fields(
    format: Format, written: list[str], named: list[str], path: FieldPath, defaults: Mapping[FieldPath, Any]
) -> str | None:
    """Why a struct is none of the schema's: a field that it lacks, or has besides."""
    lost = [name for name in written if name not in named]
    if lost:
        return f"its schema has {_shown(path)} without the field {lost[0]!r}, which is written"
    missing = [name for name in named if name not in written and (*path, name) not in defaults]
    return (
        f"its schema has {_shown((*path, missing[0]))}, which is not written" if missing and format.name != "protobuf" else None
    )


def _inner(format: Format, written: str, named: str) -> Iterable[tuple[str, str, str]]:
    """The types within two nested types of a kind, and the name of the place."""
    if (element := element_of(written)) and (its := element_of(named)):
        return [(element, its, "")]
    if (entry := entry_of(written)) and (of_map := entry_of(named)):
        keys = [] if format.name == "json" else [(entry[0], of_map[0], "")]
        return [*keys, (entry[1], of_map[1], "")]
    if fields := fields_of(written):
        if format.name == "json" and (of_map := entry_of(named)):
            return [(inner, of_map[1], "") for _, inner in fields]
        types = dict(fields_of(named) or ())
        return [(inner, types[name], name) for name, inner in fields if name in types]
    return ()


def _is_taken(format: Format, written: str, named: str) -> bool:
    """Whether values of a type may be values of another, as far as their outermost level says."""
    if written == named or _is_same_kind(format, written, named) or (written in _TIMES and named in _TIMES):
        return True
    own, its = decimal_of(written), decimal_of(named)
    if format.name == "csv":
        return _is_taken_as_text(written, named)
    if format.name == "json" and (own or written in _WRITTEN_AS_TEXT):
        return named == "string"
    if written in INTEGERS:
        return named in (*INTEGERS, *_FLOATS) or bool(format.name == "protobuf" and its)
    if own and its:
        return own[1] <= its[1]
    return written in _FLOATS and named in _FLOATS


def _is_taken_as_text(written: str, named: str) -> bool:
    """Whether the text of a value in CSV may be one of another type: texts are what their readers make of them."""
    numbers = [type in (*INTEGERS, *_FLOATS) or decimal_of(type) is not None for type in (written, named)]
    has_point = written in _FLOATS or (decimal_of(written) or (0, 0))[1] > 0
    is_number = all(numbers) and not (has_point and named in INTEGERS)
    is_time = {written, named} <= {"date", *_TIMES}
    return "string" in (written, named) or is_number or is_time or (written in INTEGERS and named == "boolean")


def _is_same_kind(format: Format, written: str, named: str) -> bool:
    """Whether both are lists, maps or structs."""
    if format.name == "json" and fields_of(written) and entry_of(named):
        return True
    return any(kind(written) and kind(named) for kind in (element_of, entry_of, fields_of))


def _members(type: str) -> dict[str, str]:
    """The members of an Avro union of several types, in whose place a struct is; none of another type."""
    fields = dict(fields_of(type) or ())
    return fields if all(map(_MEMBER.fullmatch, fields)) else {}


def _shown(path: FieldPath) -> str:
    return repr(".".join(name or "[]" for name in path))
