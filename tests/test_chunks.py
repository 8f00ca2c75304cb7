"""Chunks of columns are gathered in one place alone, where none is dropped."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
GATHERING = re.compile(r"\.combine_chunks\(|\.to_batches\([^)]*\)\[|\.chunk\(|\.chunks\[0\]|\.to_batches\(\)\s*$")
FILES = [
    file for folder in ("streamkit", "connectors", "state", "pyspark_streamkit") for file in sorted((ROOT / folder).rglob("*.py"))
]


def test_no_chunk_is_taken_alone():
    """A table of more than 2 GiB of texts has several chunks whatever was asked for: who takes the first one loses rows in silence."""
    found = [
        f"{file.relative_to(ROOT)}:{number}"
        for file in FILES
        if file.name != "chunks.py"
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1)
        if GATHERING.search(line)
    ]
    assert found == []
