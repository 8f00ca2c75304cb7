"""Which changes of an Avro schema a topic takes: whether values of the one can be read under the other, as Avro resolves schemas."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from streamkit.data_type import element_of, entry_of, fields_of
from streamkit.errors import SchemaError
from streamkit.formats.avro_schema import columns_of_avro, kind_of, parsed_schema, resolved

_PROMOTED = {
    "int": ("long", "float", "double"), "long": ("float", "double"), "float": ("double",), "string": ("bytes",), "bytes": ("string",),
}  # fmt: skip
_ADVICE = {
    "BACKWARD": "values that are there can be read under the new schema",
    "FORWARD": "values of the new schema can be read under the one before",
    "FULL": "values of either can be read under the other",
}


def check_compatible(topic: str, mode: str, earlier: Sequence[str], new: str) -> None:
    """SchemaError, with both schemas, unless the topic may have the schema behind the `earlier` ones, as its mode says."""
    name, _, reach = mode.partition("_")
    for old in reversed(earlier if reach else earlier[-1:]):
        found = list(_complaints(name, old, new))
        if found:
            raise SchemaError(
                f"the Avro schema of topic {topic} cannot change so: {'; '.join(found)}; schema.compatibility is {mode}: {_ADVICE[name]}\n"
                f"  there: {old}\n"
                f"  asked for: {new}"
            )


def _complaints(mode: str, old: str, new: str) -> Iterator[str]:
    if mode in ("BACKWARD", "FULL"):
        yield from unreadable(new, old)
    if mode in ("FORWARD", "FULL"):
        yield from unreadable(old, new)


def unreadable(reader: str, writer: str) -> list[str]:
    """Why values of the writer's schema cannot be read under the reader's; nothing if they can."""
    (read, read_names), (written, written_names) = parsed_schema(reader), parsed_schema(writer)
    return list(_Resolution(read_names, written_names).complaints(read, written, "", frozenset()))


class _Resolution:
    """Two schemas, each with its names."""

    def __init__(self, read_names: Mapping[str, Any], written_names: Mapping[str, Any]) -> None:
        self._read_names = read_names
        self._written_names = written_names

    def complaints(self, read: Any, written: Any, path: str, seen: frozenset[tuple[str, str]]) -> Iterator[str]:
        read, written = resolved(read, self._read_names), resolved(written, self._written_names)
        kinds = kind_of(read), kind_of(written)
        if kinds[1] == "union":
            for branch in written:
                yield from self.complaints(read, branch, path, seen)
        elif kinds[0] == "union":
            if all(any(True for _ in self.complaints(branch, written, path, seen)) for branch in read):
                yield f"{path or 'the value'} is written as {_shown(written)}, which no branch of the reader's union accepts"
        elif kinds[0] != kinds[1]:
            if kinds[0] not in _PROMOTED.get(kinds[1], ()):
                yield f"{path or 'the value'} is written as {_shown(written)} and read as {_shown(read)}"
        elif kinds[0] in ("array", "map"):
            inner = "items" if kinds[0] == "array" else "values"
            yield from self.complaints(read[inner], written[inner], f"{path}[]", seen)
        elif isinstance(read, dict) and "name" in read:
            yield from self._named(read, written, path, seen)
        else:
            yield from _logical(read, written, path)

    def _named(self, read: Any, written: Any, path: str, seen: frozenset[tuple[str, str]]) -> Iterator[str]:
        names = read["name"], written["name"]
        if _last(names[0]) != _last(names[1]) and names[1] not in read.get("aliases", ()):
            yield f"{path or 'the value'} is written as {names[1]} and read as {names[0]}"
        elif read["type"] == "enum":
            missing = sorted(set(written["symbols"]) - set(read["symbols"]))
            if missing and "default" not in read:
                yield f"{path or 'the value'} may be {missing[0]}, which the reader's enum {names[0]} does not have"
        elif read["type"] == "fixed":
            if read["size"] != written["size"]:
                yield f"{path or 'the value'} has {written['size']} bytes and is read as {read['size']}"
            yield from _logical(read, written, path)
        elif names not in seen:
            known = {field["name"]: field for field in written["fields"]}
            for field in read["fields"]:
                place = f"{path}.{field['name']}" if path else field["name"]
                found = next((known[name] for name in (field["name"], *field.get("aliases", ())) if name in known), None)
                if found is not None:
                    yield from self.complaints(field["type"], found["type"], place, seen | {names})
                elif "default" not in field:
                    yield f"{place} is not written, and the reader has no default for it"


def _logical(read: Any, written: Any, path: str) -> Iterator[str]:
    """Decimals of other digits are other numbers."""
    facts = [
        (one.get("precision"), one.get("scale", 0)) if isinstance(one, dict) and one.get("logicalType") == "decimal" else None
        for one in (read, written)
    ]
    if facts[0] != facts[1] and None not in facts:
        yield f"{path or 'the value'} is written as decimal{facts[1]} and read as decimal{facts[0]}"


def _shown(schema: Any) -> str:
    return str(schema.get("name", schema["type"])) if isinstance(schema, dict) else kind_of(schema)


def _last(name: str) -> str:
    return name.rpartition(".")[2]


@lru_cache(maxsize=256)
def differ_in_case(one: str, other: str) -> bool:
    """Whether a column of the one schema, or a field at any depth, is one of the other in another case only: then values are read by places."""
    names, others = (
        {name for column in columns_of_avro(text) for name in _names_below(column.name, column.type)} for text in (one, other)
    )
    in_another_case = {name.lower() for name in others - names}
    return any(name.lower() in in_another_case for name in names - others)


def _names_below(name: str, type: str) -> Iterator[str]:
    """The name, and as paths behind it those of the fields at any depth."""
    yield name
    inner = [
        *(fields_of(type) or ()),
        *(("element", one) for one in (element_of(type),) if one),
        *(("value", one[1]) for one in (entry_of(type),) if one),
    ]
    for field, below in inner:
        yield from _names_below(f"{name}.{field}", below)
