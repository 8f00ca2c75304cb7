"""The expressions that are compared: a file of SQL texts a family, and random nested ones."""

from __future__ import annotations

from pathlib import Path

from tests.expressions.parity.random_expressions import random_expressions


def read_family(path):
    """The texts of a file, one a line; lines that start with -- are comments."""
    return [line for line in Path(path).read_text(encoding="utf-8").splitlines() if line and not line.startswith("--")]


FAMILIES = {path.stem: read_family(path) for path in sorted(Path(__file__).parent.glob("*.sql"))}
FAMILIES["random"] = random_expressions(80)
