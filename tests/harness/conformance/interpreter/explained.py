"""Whether a result that differs from Kafka Streams' is one that StreamKit's rules ask for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.harness.conformance.comparison import first_difference
from tests.harness.conformance.interpreter.rules import Rules
from tests.harness.conformance.interpreter.run import Json, results


def explained(case: Json, expected: Sequence[Any], found: Sequence[Any]) -> tuple[str, ...] | None:
    """
    The switches of `Rules` that make what is found out of what Kafka Streams gives; none if both say the same.

    None if the rules do not explain it: by Kafka's rules the interpreter gives something else than `expected`, or by StreamKit's
    something else than `found`. No switch that is named can be left out.
    """
    if not _gives(case, Rules.kafka(), expected):
        return None
    asked = (Rules.streamkit(), Rules.streamkit().without("changes_have_old"))  # who runs a case may not ask for old values
    rules = next((rules for rules in asked if _gives(case, rules, found)), None)
    if rules is None:
        return None
    for name in Rules.names():
        fewer = rules.without(name)
        if _gives(case, fewer, found):
            rules = fewer
    return tuple(name for name in Rules.names() if getattr(rules, name))


def difference(case: Json, expected: Sequence[Any], found: Sequence[Any]) -> str | None:
    """The first step that differs, in words; None if none does. A step that failed is a dictionary; why it failed is not compared."""
    failed, has_failed = (bool(steps) and isinstance(steps[-1], dict) for steps in (expected, found))
    if failed != has_failed:
        return f"step {min(len(expected), len(found)) - 1}: {'expected' if failed else 'found'} that it fails"
    return first_difference(case, expected[:-1], found[:-1]) if failed else first_difference(case, expected, found)


def _gives(case: Json, rules: Rules, expected: Sequence[Any]) -> bool:
    return difference(case, expected, results(case, rules)) is None
