"""The expressions that are compared: a file of SQL texts a family, and random nested ones."""

from __future__ import annotations

import re
import zlib
from pathlib import Path

from tests.kit.sampling import TAKES_ALL, covering
from tests.unit.expressions.parity.random_expressions import random_expressions

WORD = re.compile(r"'(?:[^'\\]|\\.|'')*'|(\w+|[-+*/%|&^<>=!~]+|\[)")  # outside of texts


def read_family(path):
    """The texts of a file, one a line; lines that start with -- are comments."""
    return [line for line in Path(path).read_text(encoding="utf-8").splitlines() if line and not line.startswith("--")]


FAMILIES = {path.stem: read_family(path) for path in sorted(Path(__file__).parent.glob("*.sql"))}
FAMILIES["random"] = random_expressions(80)


def chosen(family, zone):
    """
    The texts of a family that a run compares: all in torture.

    Else few of them: in UTC as many as have every function, operator and column of the family, some 870, and a fiftieth of the
    others; in another zone a sixteenth. Which ones these are depends on the text alone.
    """
    if TAKES_ALL:
        return FAMILIES[family]
    texts = FAMILIES[family]
    needed, parts = ({*covering(texts, words_of)}, 50) if zone == "UTC" else (set(), 16)
    return [text for text in texts if text in needed or zlib.crc32(f"{zone} {text}".encode()) % parts == 0]


def words_of(text):
    """The functions, operators and columns in a text."""
    return {match[1] for match in WORD.finditer(text) if match[1] and not match[1][0].isdigit()}
