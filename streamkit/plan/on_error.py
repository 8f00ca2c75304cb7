"""What becomes of a record that makes a step fail: it ends the run, is left out, or goes to a dead-letter topic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

from streamkit.errors import Location, TopologyError
from streamkit.names import is_name, name_flaw, quoted_name
from streamkit.plan.location import user_location

FAIL, SKIP = "fail", "skip"
DEAD_LETTER = "dead_letter"  # what a program says of a step whose failing records go to a topic
DEAD_LETTERS = "dead-letters"  # the port of those records
NOTE = "note"  # of a step that leaves out no record: what its expressions give null for because they failed has dead letters
NULL_ON_FAILURE = "ksql_null_on_failure"  # the function that gives null where its argument fails
NULL_NESTED = "ksql_null_nested"  # the same of a part of an expression, while the rest of it goes on
FALSE_NESTED = "ksql_false_nested"  # a condition's part that is false where it fails
NOTING = (NULL_ON_FAILURE, NULL_NESTED, FALSE_NESTED)


@dataclass(frozen=True)
class DeadLetterTopic:
    """The topic to which records go that make a step fail."""

    topic: str

    def __str__(self) -> str:
        return f"dead_letter({self.topic!r})"


@dataclass(frozen=True)
class NotedTopic(DeadLetterTopic):
    """The topic of a step that cannot leave records out: it has those for which an expression is null because it failed."""


OnError: TypeAlias = str | DeadLetterTopic


def dead_letter(topic: str) -> DeadLetterTopic:
    """
    Send each record that makes a step fail to a topic, in the same transaction as the results of the others.

    The topic is created when the application starts, unless it exists. It has the whole record, so that `streamkit dlq replay` can
    send it again, and the error, the step, the line of the program and the attempt.

        orders.map_values(parse, "amount int", on_error=sk.dead_letter("broken_orders"))
    """
    if not is_name(topic):
        raise TopologyError(
            f"dead_letter() was given {quoted_name(topic)}: {name_flaw(topic)}; expected the name of a topic", user_location()
        )
    return DeadLetterTopic(topic)


def checked_on_error(value: Any, at: Location | None) -> OnError | None:
    """The value; TopologyError if it is none of those that there are."""
    if value is None or value in (FAIL, SKIP) or isinstance(value, DeadLetterTopic):
        return value  # type: ignore[no-any-return]
    raise TopologyError(f"on_error={value!r}; expected 'fail', 'skip' or sk.dead_letter('topic')", at)
