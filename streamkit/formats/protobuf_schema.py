"""Protobuf schemas: .proto files compiled, as columns, and made from columns."""

from __future__ import annotations

import base64
import binascii
import contextlib
import os
import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from streamkit.data_type import array_of, element_of, entry_of, fields_of, map_of, struct_of
from streamkit.errors import ConfigError, SchemaError
from streamkit.formats.protobuf_messages import FILES, imports_for, message_for, options_for, type_of
from streamkit.schema import Schema, SchemaColumn

MAIN = "value.proto"
TIMESTAMP = "google.protobuf.Timestamp"
WRAPPERS = {
    f"google.protobuf.{name}Value"
    for name in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
}
_ATOMIC = {  # by descriptor.proto's numbers of types
    1: "double", 2: "float", 3: "bigint", 4: "decimal(20,0)", 5: "int", 6: "decimal(20,0)", 7: "bigint", 8: "boolean", 9: "string",
    12: "binary", 13: "bigint", 14: "string", 15: "int", 16: "bigint", 17: "int", 18: "bigint",
}  # fmt: skip
_WRITTEN = {
    "boolean": "bool", "tinyint": "int32", "smallint": "int32", "int": "int32", "bigint": "int64", "float": "float",
    "double": "double", "string": "string", "binary": "bytes", "timestamp": TIMESTAMP,
}  # fmt: skip
_WARNING = re.compile("WARNING:|[IW][0-9]{4} ")
_SYNTAX = 'syntax = "proto3";\n'
_OPTIONAL = re.compile(" optional (bool|int32|int64|float|double|string|bytes) ")
IMPORTS: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, eq=False)
class Compiled:
    """A .proto file: the messages in it, by their place and by their name."""

    file: Any

    def at(self, path: tuple[int, ...]) -> Any:
        """The message at a place; SchemaError if there is none."""
        try:
            if min(path) < 0:
                raise IndexError
            message = list(self.file.message_types_by_name.values())[path[0]]
            for number in path[1:]:
                message = message.nested_types[number]
        except IndexError:
            raise SchemaError(f"the Protobuf file has no message at the place {list(path)}") from None
        return message

    def named(self, name: str) -> Any:
        """The message of a name, full or not; the first if the name is empty. SchemaError if there is none."""
        if not name:
            return self.at((0,))
        for full, message in _all_messages(self.file.message_types_by_name.values()).items():
            if name in (full, full.removeprefix(f"{self.file.package}.")):
                return message
        known = ", ".join(_all_messages(self.file.message_types_by_name.values()))
        raise SchemaError(f"the Protobuf file has no message {name!r}; it has {known}")

    def class_of(self, message: Any) -> Any:
        """The class that reads a message."""
        from google.protobuf import message_factory

        return message_factory.GetMessageClass(message)


def path_of(message: Any) -> tuple[int, ...]:
    """The place of a message in its file."""
    around = message.containing_type
    beside = around.nested_types if around else message.file.message_types_by_name.values()
    number = [one.full_name for one in beside].index(message.full_name)
    return (*(path_of(around) if around else ()), number)


@lru_cache(maxsize=64)
def compiled(text: str, imports: tuple[tuple[str, str], ...] = IMPORTS) -> Compiled:
    """A .proto file compiled, with those that it imports by name; SchemaError says what protoc does not take."""
    try:
        import grpc_tools  # noqa: F401  # has the compiler
        from google.protobuf import descriptor_pool
    except ImportError as error:
        raise ConfigError(
            f"the format protobuf needs the package {error.name}, which is not installed; run: pip install 'pyspark-streamkit[registry]'"
        ) from error
    pool = descriptor_pool.DescriptorPool()
    main = _serialized(text)
    if main is None:
        for one in _compiled_files(text, imports):
            pool.Add(one)
        file = pool.FindFileByName(MAIN)
    else:
        for one in _files_behind(main, dict(imports)):
            pool.Add(one)
        file = pool.FindFileByName(main.name)
    if not file.message_types_by_name:
        raise SchemaError("the Protobuf file has no message; expected one, whose fields are the columns")
    return Compiled(file)


def _compiled_files(text: str, imports: tuple[tuple[str, str], ...]) -> list[Any]:
    """The descriptors of a text and of all that it imports, each before those that need it."""
    from google.protobuf import descriptor_pb2
    from grpc_tools import protoc

    with tempfile.TemporaryDirectory(prefix="streamkit-protobuf-") as folder:
        for name, content in ({**FILES, **dict(imports), MAIN: text}).items():
            place = _inside(Path(folder), name)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(content, encoding="utf-8")
        included = Path(protoc.__file__).parent / "_proto"
        output = Path(folder) / "descriptors"
        code, said = _protoc(
            ["protoc", f"-I{folder}", f"-I{included}", f"--descriptor_set_out={output}", "--include_imports", MAIN], folder
        )
        if code:
            lines = [line.replace(f"{folder}/", "") for line in said.splitlines() if not _WARNING.match(line)]
            raise SchemaError(f"the Protobuf file cannot be read: {'; '.join(lines) or 'protoc refuses it'}")
        return list(descriptor_pb2.FileDescriptorSet.FromString(output.read_bytes()).file)


def _serialized(text: str) -> Any:
    """The descriptor that Confluent's client for Python registers in base 64, in place of text; None for text."""
    from google.protobuf import descriptor_pb2
    from google.protobuf.message import DecodeError

    try:
        found = descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(text, validate=True))
    except (binascii.Error, DecodeError, ValueError):
        return None
    return found if found.name and found.message_type else None


def _files_behind(main: Any, imports: dict[str, str]) -> list[Any]:
    """A descriptor and those that it imports, each before those that need it; Google's own are compiled."""
    found: dict[str, Any] = {}

    def add(file: Any) -> None:
        for name in file.dependency:
            if name in found:
                continue
            inner = _serialized(imports[name]) if name in imports else None
            if inner is not None:
                inner.name = name
                add(inner)
                continue
            known = tuple((other, text) for other, text in imports.items() if _serialized(text) is None)
            for one in _compiled_files(f'syntax = "proto3";\nimport "{name}";\n', known):
                if one.name != MAIN:
                    found.setdefault(one.name, one)
        found[file.name] = file

    add(main)
    return list(found.values())


def check_protobuf(text: Any) -> str:
    """The text of a .proto file, if it can be read; else SchemaError."""
    if not isinstance(text, str):
        raise SchemaError(f"found {text!r} as a Protobuf schema; expected the text of a .proto file")
    compiled(text)
    return text


def columns_of_message(message: Any) -> Schema:
    """
    The columns of a message.

    Enums are strings, unsigned numbers of 64 bits decimal(20,0), messages structs, `Timestamp`, the wrappers of atomic types, and the dates, times
    of the day and decimals of `protobuf_messages` what they stand for. SchemaError for a message that holds itself, or has no fields.
    """
    if not message.fields:
        raise SchemaError(f"the message {message.full_name} has no fields; expected one, since each is a column")
    return Schema(tuple(SchemaColumn(field.name, field_type(field, (message.full_name,))) for field in message.fields))


def not_required(message: Any) -> list[str]:
    """The fields that a message may lack: all of proto3, and those of proto2 that are not `required`."""
    return [field.name for field in message.fields if not _is_required(field)]


def _is_required(field: Any) -> bool:
    found = getattr(field, "is_required", None)
    return bool(field.label == field.LABEL_REQUIRED if found is None else found)


def is_map(field: Any) -> bool:
    """Whether a repeated field is a map."""
    return bool(field.message_type is not None and field.message_type.GetOptions().map_entry)


def is_repeated(field: Any) -> bool:
    """Whether a field is a list."""
    found = getattr(field, "is_repeated", None)
    return bool(field.label == field.LABEL_REPEATED if found is None else found)


def is_same_field(field: Any, message: Any) -> bool:
    """Whether a message has a field of that name in the same bytes: of its number and type, and with such fields within."""
    other = message.fields_by_name.get(field.name)
    if other is None or (other.number, other.type, is_repeated(other)) != (field.number, field.type, is_repeated(field)):
        return False
    inner, its = field.message_type, other.message_type
    if inner is None or inner.full_name.startswith(("google.", "confluent.")):
        names = [None if one is None else str(one.full_name) for one in (inner, its)]
        return names[0] == names[1]
    return len(inner.fields) == len(its.fields) and all(is_same_field(one, its) for one in inner.fields)


def is_misread(field: Any, message: Any) -> bool:
    """
    Whether a message has a field of that name, in any case, whose bytes would be those of another one, or another value.

    So they are under another number, in a type that columns never have, and where one of both is a message of Google or Confluent.
    """
    near = [one for one in message.fields if one.name.lower() == field.name.lower()]
    other = message.fields_by_name.get(field.name) or (near[0] if near else None)
    if other is None:
        return False
    unmade = (
        field.TYPE_SINT32, field.TYPE_SINT64, field.TYPE_FIXED32, field.TYPE_FIXED64, field.TYPE_SFIXED32, field.TYPE_SFIXED64, field.TYPE_ENUM,
    )  # fmt: skip
    is_other_real = field.type != other.type and {field.type, other.type} & {field.TYPE_FLOAT, field.TYPE_DOUBLE}
    if other.number != field.number or other.type in unmade or is_other_real:
        return True
    inner, its = field.message_type, other.message_type
    known = {
        str(one.full_name) for one in (inner, its) if one is not None and one.full_name.startswith(("google.", "confluent."))
    }
    if known:
        return inner is None or its is None or inner.full_name != its.full_name
    return inner is not None and its is not None and any(is_misread(one, its) for one in inner.fields)


def field_type(field: Any, inside: tuple[str, ...]) -> str:
    """The type of a field's column."""
    if is_map(field):
        names = field.message_type.fields_by_name
        return map_of(_one(names["key"], inside, field), _one(names["value"], inside, field))
    return array_of(_one(field, inside, field)) if is_repeated(field) else _one(field, inside, field)


def _one(field: Any, inside: tuple[str, ...], declared: Any) -> str:
    """The type of one value of a field; `declared` is the field that has the options: of a map's values the map."""
    message = field.message_type
    if message is None:
        return _ATOMIC[field.type]
    if message.full_name == TIMESTAMP:
        return "timestamp"
    if message.full_name in WRAPPERS:
        return _ATOMIC[message.fields_by_name["value"].type]
    if known := type_of(message.full_name, declared):
        return known
    if message.full_name in inside:
        raise SchemaError(
            f"the message {message.full_name} contains itself, which no column can; expected a type that is not recursive"
        )
    if not message.fields:
        raise SchemaError(f"the message {message.full_name} has no fields, and a struct has some")
    return struct_of((one.name, field_type(one, (*inside, message.full_name))) for one in message.fields)


def protobuf_of(columns: Schema, name: str = "Record") -> str:
    """The text of a .proto file whose message holds rows of these columns; SchemaError for types that Protobuf has not."""
    return protobuf_of_types([(column.name, column.type) for column in columns], name)


def protobuf_of_types(columns: Sequence[tuple[str, str]], name: str = "Record") -> str:
    """The same for names and types. The type `time` is a time of the day; its column holds the milliseconds as int."""
    body = _message(name, list(columns), "")
    files = [*(["google/protobuf/timestamp.proto"] if TIMESTAMP in body else []), *imports_for(body)]
    return "".join((_SYNTAX, *(f'import "{file}";\n' for file in files), body))


def with_wrappers(text: str) -> str:
    """A .proto file of `protobuf_of` in which numbers and texts are messages of Google that hold one, and null is no message."""
    found, count = _OPTIONAL.subn(lambda match: f" google.protobuf.{match[1].capitalize()}Value ", text)
    found = found.replace("Uint", "UInt")
    return found.replace(_SYNTAX, f'{_SYNTAX}import "google/protobuf/wrappers.proto";\n', 1) if count else found


def _message(name: str, fields: list[tuple[str, str]], indent: str) -> str:
    lines, nested = [], []
    for number, (field, type) in enumerate(fields, 1):
        if not field.isidentifier() or not field.isascii():
            raise SchemaError(f"the column {field!r} has a name that Protobuf does not accept; expected letters, digits and _")
        inner = _innermost(type)
        message = f"{field[:1].upper()}{field[1:]}_{number}"
        if inner_fields := fields_of(inner):
            nested.append(_message(message, list(inner_fields), f"{indent}  "))
        written = message if fields_of(inner) else _scalar(inner, field)
        lines.append(f"{indent}  {_label(type, written)} {field} = {number}{options_for(inner)};\n")
    return f"{indent}message {name} {{\n{''.join(nested)}{''.join(lines)}{indent}}}\n"


def _innermost(type: str) -> str:
    if element := element_of(type):
        return element
    entry = entry_of(type)
    return entry[1] if entry else type


def _label(type: str, written: str) -> str:
    if element_of(type):
        return f"repeated {written}"
    if entry := entry_of(type):
        return f"map<{_scalar(entry[0], 'key')}, {written}>"
    return f"optional {written}"


def _scalar(type: str, field: str) -> str:
    written = _WRITTEN.get(type) or message_for(type)
    if written is None:
        raise SchemaError(
            f"the column {field!r} is {type}, for which Protobuf has no type; expected one of {', '.join(_WRITTEN)}, date, decimal"
        )
    return written


def _all_messages(messages: Any) -> dict[str, Any]:
    found = {}
    for message in messages:
        found[message.full_name] = message
        found |= _all_messages(message.nested_types)
    return found


def _inside(folder: Path, name: str) -> Path:
    """Where an imported file lies; its name may not lead out of the folder."""
    place = (folder / name).resolve()
    if folder.resolve() not in place.parents:
        raise SchemaError(f"the Protobuf schema imports {name!r}; expected a name within its folder")
    return place


def _protoc(arguments: list[str], folder: str) -> tuple[int, str]:
    """Run the compiler, which prints to the process's own error stream."""
    from grpc_tools import protoc

    said = Path(folder) / "said"
    kept = os.dup(2)
    try:
        with said.open("wb") as file:
            os.dup2(file.fileno(), 2)
            code = protoc.main(arguments)
    finally:
        os.dup2(kept, 2)
        with contextlib.suppress(OSError):
            os.close(kept)
    return code, said.read_text(encoding="utf-8", errors="replace")
