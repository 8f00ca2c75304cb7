"""Adds to a schema the fields that only another schema has: they follow its own fields, and the rest of the schema does not change."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from streamkit.errors import SchemaError
from streamkit.formats.avro_schema import avro_fields_of, check_avro_schema, columns_of_avro, parsed_schema
from streamkit.formats.json_schema import check_json_schema, object_within
from streamkit.formats.protobuf_schema import check_protobuf, compiled
from streamkit.schema import Schema

_FIELD = re.compile(r"  ((?:optional |repeated )?)(\S.*?) (\w+) = [0-9]+(.*;)")  # of a message that is made of columns
_NESTED = re.compile(r"  message (\w+) \{")
_IMPORT = re.compile(r'^\s*import\s+(?:public\s+|weak\s+)?"([^"]+)"\s*;', re.MULTILINE)
_SYNTAX = re.compile(r"\b(?:syntax|edition)\s*=\s*[^;]*;")
_WORD = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'|[\w.]+|\S", re.DOTALL)
_WITHOUT_LABEL = re.compile(r"^( +)(?!optional |repeated |message |map<)(\S+ \w+ = )", re.MULTILINE)
_NUMBERS_KEPT = range(19_000, 20_000)  # by Protobuf itself


def grown_schema(format: str, schema: str, wanted: str, message: str = "", former: Iterable[str] = ()) -> str:
    """
    A schema with the fields that another one has, and it has not; that one is made of columns.

    `message` is the one of a Protobuf file that values are, and `former` versions have used numbers that no field gets again. SchemaError for a schema
    that takes no field, as of Avro one that is no record, and for one that nobody could read then, as where Protobuf has reserved the name.
    """
    if format == "protobuf":
        return check_protobuf(_grown_protobuf(schema, wanted, message, former))
    if format == "avro":
        known = columns_of_avro(schema)
        lacking = Schema(tuple(column for column in columns_of_avro(wanted) if column.name not in known))
        return check_avro_schema(with_avro_fields(schema, lacking))
    return check_json_schema(_grown_json(schema, wanted))


def with_avro_fields(schema: str, new: Schema) -> str:
    """
    The schema of a record with a field for each of the columns, whose nested records have names of their own.

    They are the ones that `avro_of` gives all columns at once, where no type is called so: a registry takes no other for the same field later.
    """
    record = json.loads(schema)
    if not isinstance(record, dict) or record.get("type") != "record":
        raise SchemaError(f"the schema is no record, so it takes no {', '.join(new.names)}; found {schema}, expected a record")
    aliases = {alias for field in record["fields"] for alias in field.get("aliases", ())}
    if taken := [name for name in new.names if name in aliases]:
        raise SchemaError(
            f"the schema has {', '.join(taken)} as another name of a field, so it takes no field of that name; expected another name"
        )
    names = {name.rpartition(".")[2] for name in parsed_schema(schema)[1]}
    start, first = record["name"], len(names)
    while True:
        fields = avro_fields_of(new, start, first)
        made = parsed_schema(json.dumps({"type": "record", "name": start, "fields": fields}))[1]
        if not names & {name.rpartition(".")[2] for name in made} - {start.rpartition(".")[2]}:
            return json.dumps({**record, "fields": [*record["fields"], *fields]})
        start += "_"


def _grown_json(schema: str, wanted: str) -> str:
    root = json.loads(schema)
    properties = object_within(root)["properties"]
    added = object_within(json.loads(wanted))["properties"]
    properties.update({name: one for name, one in added.items() if name not in properties})
    return json.dumps(root)


@dataclass(frozen=True)
class _MadeField:
    """A field of a message that is made of columns, and the message within that its type is, or empty."""

    label: str
    type: str
    name: str
    end: str
    nested: str

    def text(self, number: int) -> str:
        """The field with another number, after which its message is called."""
        type, nested = self.type, self.nested
        if own := _NESTED.match(nested):
            name = f"{self.name[:1].upper()}{self.name[1:]}_{number}"
            type = re.sub(rf"\b{own[1]}\b", name, type)
            nested = nested.replace(own[0], f"  message {name} {{", 1)
        return f"{nested}  {self.label}{type} {self.name} = {number}{self.end}\n"


def _grown_protobuf(schema: str, wanted: str, message: str, former: Iterable[str]) -> str:
    """The text with more lines in its message; their numbers are greater than all that it or a former version uses or reserves."""
    found = _message(schema, wanted, message)
    names = {field.name for field in found.fields}
    number, lines = max([_last_number(found), *_numbers_before(former, found.full_name)]), list[str]()
    for field in _made_fields(wanted):
        if field.name in names:
            continue
        number = number + 1 if number + 1 not in _NUMBERS_KEPT else _NUMBERS_KEPT.stop
        lines.append(field.text(number))
    added, place = "".join(lines), _end_of(schema, found)
    if not (syntax := _SYNTAX.search(schema)) or "proto2" in syntax[0]:
        added = _WITHOUT_LABEL.sub(r"\1optional \2", added)
    grown = f"{schema[:place].rstrip()}\n{added}{schema[place:]}"
    imported = {one[1] for one in _IMPORT.finditer(schema)}
    more = "".join(f'\nimport "{one[1]}";' for one in _IMPORT.finditer(wanted) if one[1] not in imported)
    start = syntax.end() if syntax else 0
    return f"{grown[:start]}{more}{grown[start:]}" if start else f"{more.lstrip()}\n{grown}".lstrip()


def _message(schema: str, wanted: str, name: str) -> Any:
    """The message that gets fields; SchemaError if it is the first for want of a name, and another one of the file has more of them."""
    file, names = compiled(schema), [field.name for field in _made_fields(wanted)]
    found = file.named(name)
    known = {field for field in names if field in found.fields_by_name}
    for other in () if name else file.file.message_types_by_name.values():
        its = [field for field in names if field in other.fields_by_name]
        if known < set(its):
            raise SchemaError(
                f"values are the message {found.full_name}, which is the first of the file, and {other.full_name} has {', '.join(its)}; "
                f"expected a topic whose format has message={other.full_name}"
            )
    return found


def _made_fields(text: str) -> Iterator[_MadeField]:
    nested: dict[str, str] = {}
    within: str | None = None
    for line in text.splitlines():
        if within is not None:
            nested[within] += f"{line}\n"
            within = None if line == "  }" else within
        elif start := _NESTED.fullmatch(line):
            within = start[1]
            nested[within] = f"{line}\n"
        elif field := _FIELD.fullmatch(line):
            own = next((one for one in re.findall(r"\w+", field[2]) if one in nested), "")
            yield _MadeField(field[1], field[2], field[3], field[4], nested.get(own, ""))


def _numbers_before(former: Iterable[str], message: str) -> Iterator[int]:
    """The greatest number of each former version, in the message of a name, or in its first if it was called otherwise then."""
    for text in former:
        for name in (message, ""):
            try:
                yield _last_number(compiled(text).named(name))
                break
            except SchemaError:  # it has no such message, or imports files of other subjects
                continue


def _last_number(message: Any) -> int:
    """The greatest number that a message uses, or says that nobody uses."""
    from google.protobuf import descriptor_pb2

    own = descriptor_pb2.DescriptorProto()
    message.CopyToProto(own)
    ranges = [*own.reserved_range, *own.extension_range]
    ends = [one.end - 1 for one in ranges if one.end <= 1 << 28]  # others go to the greatest number that there is
    return max([*(field.number for field in own.field), *ends], default=0)


def _end_of(text: str, message: Any) -> int:
    """Where the text of a message ends, before its brace; SchemaError for a text that is none of a .proto file."""
    wanted = message.full_name.removeprefix(f"{message.file.package}." if message.file.package else "").split(".")
    words = [one for one in _WORD.finditer(text) if not one[0].startswith(("//", "/*"))]
    around: list[str] = []
    for number, word in enumerate(words):
        if word[0] == "{":
            is_message = number > 1 and words[number - 2][0] == "message"
            around.append(words[number - 1][0] if is_message else "")
        elif word[0] == "}" and around:
            if around == wanted:
                return word.start()
            around.pop()
    raise SchemaError(
        f"the schema of the message {message.full_name} is no text of a .proto file, so no field can be added to it"
    )
