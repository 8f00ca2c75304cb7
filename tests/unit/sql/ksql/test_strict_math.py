"""
Functions of angles and exponents have the bits of Java's StrictMath.

strict_math.tsv is what `java StrictMathByJava.java` prints for the lines of `edges()`: two arguments and the results of FUNCTIONS, as hexadecimal bits.
So the table needs no Java, and a test with Java says that it is true.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from streamkit.expressions.ksql import strict_math

HERE = Path(__file__).parent
FUNCTIONS = (
    strict_math.sinh,
    strict_math.cosh,
    strict_math.tanh,
    strict_math.asin,
    strict_math.acos,
    strict_math.atan,
    strict_math.cbrt,
    strict_math.atan2,
)
NAN = 0x7FF8 << 48

# The upper words of the numbers at which StrictMath changes its steps, of subnormal numbers, of 1, of 10, of infinity and of NaN.
HIGH_WORDS = (
    "00000000 00000001 00100000 3c600000 3c800000 3c900000 3e200000 3e300000 3e400000 3fd62e42 3fd62e43 3fdc0000 3fe00000 3fe62e42 3fe60000 "
    "3fef3333 3ff00000 3ff0a2b2 3ff30000 40038000 40240000 402bb9d3 40360000 40436000 4043687a 40862e42 408633ce 43d00000 44100000 7fe00000 "
    "7ff00000 7ff80000"
)


def edges() -> tuple[np.ndarray, np.ndarray]:
    """Each of these numbers, those next to it and the last with its upper word, of both signs, each with the one that is 45 places on."""
    words = np.array([int(word, 16) << 32 for word in HIGH_WORDS.split()])
    bits = np.concatenate([words, words[1:-1] - 1, words[:-2] + 1, words[:-2] + 0x8FB9F87D, words[:-2] + 0x8FB9F87E])
    sizes = bits.view(np.float64)
    numbers = np.concatenate([sizes, -sizes[sizes == sizes]])
    return numbers, np.roll(numbers, 45)


def _bits(numbers: np.ndarray) -> np.ndarray:
    """The bits of numbers; of each NaN the same, as Java's doubleToLongBits has them."""
    return np.where(np.isnan(numbers), NAN, numbers.view(np.int64))


def _computed(x: np.ndarray, y: np.ndarray) -> list[np.ndarray]:
    return [_bits(function(x, y) if function is strict_math.atan2 else function(x)) for function in FUNCTIONS]


def _lines(x: np.ndarray, y: np.ndarray, results: list[np.ndarray]) -> list[str]:
    columns = [_bits(x), _bits(y), *results]
    return ["\t".join(f"{int(bits) & 2**64 - 1:016x}" for bits in row) for row in zip(*columns, strict=True)]


def _by_java(x: np.ndarray, y: np.ndarray) -> list[str]:
    java = shutil.which("java")
    if java is None or shutil.which("javac") is None:
        pytest.skip("no Java that compiles")
    done = subprocess.run(
        [java, str(HERE / "StrictMathByJava.java")], input="\n".join(_lines(x, y, [])), capture_output=True, text=True, check=True
    )
    return done.stdout.split("\n")[:-1]


def test_bits_at_the_edges_are_those_of_the_table() -> None:
    """Zeros, subnormal numbers, infinities, NaN, and the bounds between the steps of each function."""
    assert _lines(*edges(), _computed(*edges())) == (HERE / "strict_math.tsv").read_text().splitlines()


def test_table_is_what_java_says() -> None:
    """The table was not written by hand."""
    assert (HERE / "strict_math.tsv").read_text().splitlines() == _by_java(*edges())


def test_bits_of_random_numbers_are_those_of_java() -> None:
    """Numbers of all sizes, of usual ones, and between -1 and 1, in more than one block."""
    chance = np.random.default_rng(11)
    count = 4000
    x, y = (
        np.concatenate(
            [
                chance.integers(-(2**63), 2**63 - 1, count).view(np.float64),
                chance.uniform(-1, 1, count),
                chance.uniform(-4, 4, count),
                chance.uniform(-50, 50, count),
                chance.uniform(-712, 712, count),
                np.exp2(chance.uniform(-60, 10, count)) * chance.choice([-1, 1], count),
            ]
        )
        for _ in range(2)
    )

    assert _lines(x, y, _computed(x, y)) == _by_java(x, y)


def test_no_numbers_give_none() -> None:
    """A batch without rows."""
    assert [len(bits) for bits in _computed(np.empty(0), np.empty(0))] == [0] * len(FUNCTIONS)
