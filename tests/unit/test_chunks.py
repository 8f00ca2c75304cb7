"""Chunks of columns are gathered in one place alone, where none is dropped."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILES = [
    file for folder in ("streamkit", "connectors", "state", "pyspark_streamkit") for file in sorted((ROOT / folder).rglob("*.py"))
]
LISTS = ("to_batches", "chunks", "iterchunks")  # methods and attributes that give a column's or table's pieces


def gathered(text: str) -> Iterator[int]:
    """The lines of a program that gather chunks, or take one of them: a call of Arrow's own, a subscript, next(), unpacking."""
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Call(func=ast.Attribute(attr="combine_chunks" | "chunk")):
                yield node.lineno
            case ast.Subscript(value=pieces) | ast.Call(func=ast.Name(id="next"), args=[pieces, *_]):
                if _named(pieces) in LISTS:
                    yield node.lineno
            case ast.Assign(targets=[ast.Tuple() | ast.List()], value=pieces):
                if _named(pieces) in LISTS:
                    yield node.lineno


def _named(node: ast.expr) -> str:
    """The attribute's name that an expression ends with, called or not, in iter() or not."""
    match node:
        case ast.Call(func=ast.Name(id="iter"), args=[inner]) | ast.Call(func=inner):
            return _named(inner)
        case ast.Attribute(attr=name):
            return name
    return ""


@pytest.mark.parametrize(
    "text",
    ["t.combine_chunks()", "t.to_batches()[0]", "t.to_batches(\n  max_chunksize=f(1)\n)[\n0]", "c.chunk(0)", "c.chunks[0]",
     "next(iter(t.to_batches()))", "(batch,) = t.to_batches()", "[one, *_] = c.chunks"],
)  # fmt: skip
def test_each_way_of_taking_a_chunk_is_seen(text):
    """Whatever lines it stands on; a loop over all pieces is none."""
    assert [*gathered(text)]
    assert not [*gathered("for batch in t.to_batches():\n  use(batch)")]


def test_no_chunk_is_taken_alone():
    """A table of more than 2 GiB of texts has several chunks whatever was asked for: who takes the first one loses rows in silence."""
    texts = {file: file.read_text(encoding="utf-8") for file in FILES if file.name != "chunks.py"}
    suspects = {
        file: text for file, text in texts.items() if any(word in text for word in ("chunk", "to_batches"))
    }  # to be parsed

    assert len(suspects) > 5
    assert [f"{file.relative_to(ROOT)}:{line}" for file, text in suspects.items() for line in gathered(text)] == []
