"""The hash of a typed expression, which each keeps once it was asked for it."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys

from streamkit.plan.expression import ComputedConstant, TypedExpression

MAKE = """
import pickle, sys
from streamkit.plan.expression import TypedExpression
sum_ = TypedExpression("add", "int", (TypedExpression("column", "int", (), "a"), TypedExpression("literal", "int", (), 1)))
hash(sum_)
sys.stdout.buffer.write(pickle.dumps(sum_))
"""


def test_a_hash_stays_in_its_process() -> None:
    """An expression of another process has the hash that the same has here, where texts hash differently."""
    other = {**os.environ, "PYTHONHASHSEED": "1" if os.environ.get("PYTHONHASHSEED") != "1" else "2"}
    made = subprocess.run([sys.executable, "-c", MAKE], capture_output=True, check=True, env=other).stdout

    here = TypedExpression("add", "int", (TypedExpression("column", "int", (), "a"), TypedExpression("literal", "int", (), 1)))

    assert hash(pickle.loads(made)) == hash(here)
    assert {here: "found"}[pickle.loads(made)] == "found"


def test_a_computed_constant_is_the_literal_that_it_is() -> None:
    """It is equal to that literal and made of it, whether one of them was asked for its hash or not."""
    written, asked = TypedExpression("literal", "int", (), 1), TypedExpression("literal", "int", (), 1)
    hash(asked)

    computed = ComputedConstant.of(asked)

    assert isinstance(computed, ComputedConstant)
    assert computed == written == asked == computed.as_written()
    assert len({computed, written, asked}) == 1
