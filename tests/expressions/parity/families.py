"""The expressions that are compared: a file of SQL texts a family, and random nested ones."""

from __future__ import annotations

import zlib
from pathlib import Path

from tests.expressions.parity.random_expressions import random_expressions
from tests.sampling import TAKES_ALL


def read_family(path):
    """The texts of a file, one a line; lines that start with -- are comments."""
    return [line for line in Path(path).read_text(encoding="utf-8").splitlines() if line and not line.startswith("--")]


FAMILIES = {path.stem: read_family(path) for path in sorted(Path(__file__).parent.glob("*.sql"))}
FAMILIES["random"] = random_expressions(80)


def chosen(family, zone):
    """
    The texts of a family that a run compares: all in torture.

    Else half of them in UTC and a quarter in another zone, some 1,550 and 250: which ones depends on the text alone.
    Of the longest family it is a quarter, because each of its functions stands there with several types.
    """
    if TAKES_ALL:
        return FAMILIES[family]
    share = 4 if zone == "UTC" and family != "argument_types" else 2
    return [text for text in FAMILIES[family] if zlib.crc32(f"{zone} {text}".encode()) % 8 < share]
