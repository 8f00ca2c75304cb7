"""Arrow reads a name that begins with a dot as a path, so who looks a field up by a user's name gives it in a list."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILES = [
    file for folder in ("streamkit", "connectors", "state", "pyspark_streamkit") for file in sorted((ROOT / folder).rglob("*.py"))
]


def bare_names(text: str) -> Iterator[int]:
    """The lines of a program that look up a field by a name which is neither a list, nor a constant."""
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Call(func=ast.Attribute(attr="struct_field"), args=[_, ast.Name(id=name)]) if not name.isupper():
                yield node.lineno
            case ast.Call(func=ast.Attribute(attr="struct_field"), args=[_, ast.Attribute()]):
                yield node.lineno


@pytest.mark.parametrize("text", ["pc.struct_field(values, name)", "pc.struct_field(\n  values, field.name)"])
def test_a_bare_name_is_seen(text):
    """A list, a place and a name of StreamKit's own are none."""
    assert [*bare_names(text)]
    assert not [*bare_names("pc.struct_field(v, [name]); pc.struct_field(v, VALUE); pc.struct_field(v, 0)")]


def test_fields_are_looked_up_in_lists():
    """A field `.a` of a user's struct is found as all others."""
    texts = {file: file.read_text(encoding="utf-8") for file in FILES}
    suspects = {file: text for file, text in texts.items() if "struct_field" in text}

    assert len(suspects) > 20
    assert {str(file.relative_to(ROOT)): lines for file, text in suspects.items() if (lines := [*bare_names(text)])} == {}
