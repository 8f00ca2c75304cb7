"""Regular expressions that RE2 refuses are found as Java finds them, and what Java refuses is refused."""

from __future__ import annotations

import random
import shutil
import subprocess
from pathlib import Path

import pytest

from streamkit.expressions.ksql.java_patterns import java_pattern
from streamkit.expressions.texts.regular_expressions import in_order

PROGRAM = Path(__file__).parent / "FoundByJava.java"
TEXTS = "abcABéÉα1 _\n\r.-#\u2028]"
ATOMS = [
    r"a",
    r"b",
    r"c",
    r"A",
    r"é",
    r"É",
    r"α",
    r".",
    r"\d",
    r"\w",
    r"\s",
    r"\W",
    r"\D",
    r"[a-c]",
    r"[^a]",
    r"[a-c&&[^b]]",
    r"[\w&&[^a]]",
    r"[ab[^c]]",
    r"[]a]",
    r"[^]a]",
    r"[b[]-a]]",
    r"\p{L}",
    r"\p{Lu}",
    r"\P{L}",
    r"\p{IsGreek}",
    r"\p{Alpha}",
    r"\p{Punct}",
    r"^",
    r"$",
    r"\b",
    r"\B",
    r"\A",
    r"\z",
    r"\Z",
    r"\R",
    r"\h",
    r"\v",
    r"\x41",
    r"\u00e9",
    r"\Qa.\E",
    r"(?i)",
    r"(?i:B)",
    r"(?s)",
    r"(?m)",
    r"(?-i)",
    r"(?iu)",
    r"\.",
    r"\-",
    r"-",
    r"_",
    r"\n",
    r"[-a]",
    r"[a-]",
    r"[\-\]]",
    r"[^\d\s]",
    r"(?:a|b)",
    r"\p{Lower}",
    r"[\p{L}&&[^\p{Lu}]]",
    r"[a&&b]",
    r"\07",
    r"\e",
    r"\cA",
    r"(?x)",
    r"|a",
    r"|b",
    r"[A-z]",
    r"]",
    r"}",
]
QUANTIFIERS = ["", "", "", "", "*", "+", "?", "{2}", "{0,2}", "*?", "+?", "*+", "++", "?+", "{1,2}?", "{1,}+"]
OPENINGS = ["(", "(?:", "(?=", "(?!", "(?>", "(?<n>", "(?i:"]
WRONG = ["(", ")", "a)", "[a", "[]", "a{", "{2,1}a", "*a", "a**", r"\q", r"\k<n>", r"\p{Nope}", r"\p{IsNope}", "(?<1>a)", "(?R)", "[b-a]", "a\\",
    "(?<n>a)(?<n>b)", r"\x{110000}", "(?y)a"]  # fmt: skip


def _pattern(source: random.Random, depth: int = 0) -> str:
    parts = []
    for _ in range(source.randint(1, 4)):
        quantifier = source.choice(QUANTIFIERS)
        if source.random() < 0.25 and depth < 3:
            parts.append(f"{source.choice(OPENINGS)}{_pattern(source, depth + 1)}){quantifier}")
        elif source.random() < 0.1:
            parts.append(source.choice(["(?<=a)", "(?<!a)", r"(?<=[a-c]{1,2})", r"(?<!\d|é)"]))
        else:
            atom = source.choice(ATOMS)
            parts.append(atom if atom.startswith("(?") and ":" not in atom else atom + quantifier)
    return "".join(parts)


def _found(pattern: str, text: str) -> str:
    try:
        return " ".join(f"{match.start()}-{match.end()}" for match in in_order(java_pattern(pattern), text))
    except ValueError:
        return "refused"


def _found_by_java(cases: list[tuple[str, str]]) -> list[str]:
    java = shutil.which("java")
    if java is None or shutil.which("javac") is None:
        pytest.skip("no Java that compiles")
    lines = "".join("\t".join(part.encode("utf-16-be").hex() for part in case) + "\n" for case in cases)
    done = subprocess.run([java, str(PROGRAM)], input=lines, capture_output=True, text=True, check=True)
    return done.stdout.split("\n")[:-1]


def test_matches_are_those_of_java() -> None:
    """Patterns made at random of all that is read, over texts with line ends and letters beyond ASCII."""
    source = random.Random(5)
    cases = [(_pattern(source), "".join(source.choices(TEXTS, k=source.randint(0, 7)))) for _ in range(2000)]

    found = [_found(*case) for case in cases]

    assert [(case, one) for case, one in zip(cases, found)] == [(case, one) for case, one in zip(cases, _found_by_java(cases))]


@pytest.mark.parametrize("pattern", WRONG)
def test_what_is_refused(pattern: str) -> None:
    """A pattern that is none is an error, in words that name it."""
    with pytest.raises(ValueError, match="is not valid"):
        java_pattern(pattern)


def test_java_refuses_the_same() -> None:
    """Each of them is none to Java, either."""
    assert _found_by_java([(pattern, "") for pattern in WRONG]) == ["refused"] * len(WRONG)
