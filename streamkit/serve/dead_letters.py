"""Records that could not be processed: which there are, and what was wrong with them."""

from __future__ import annotations

import itertools
from typing import Any

from streamkit.description.dead_letters import dead_letter_counts, dead_letter_json, dead_letters
from streamkit.log.dead_letter_replay import dead_letter_topics, replayed
from streamkit.serve.answers import Answer
from streamkit.serve.resource import Asked, Parameter, Resource

LETTERS = 100


def counts(asked: Asked) -> list[dict[str, Any]]:
    """How many there are, by topic, step and error."""
    return [row for name in dead_letter_topics(asked.log) for row in dead_letter_counts(asked.log, name)]


def letters(asked: Asked) -> Answer:
    """The first ones."""
    name, limit = asked.path["topic"], asked.rows("limit", "ask for the rest with offset")
    asked.log.topic(name)
    done = replayed(asked.log, name)
    found = dead_letters(asked.log, name, asked["where"], asked["partition"], asked["offset"])
    shown = itertools.islice(itertools.takewhile(lambda _: asked.goes_on(), found), limit)
    return Answer([dead_letter_json(one, is_replayed=one.origin in done) for one in shown])


RESOURCES = (
    Resource(
        "/api/v1/dead-letters",
        "How many dead letters there are of each step and error, as streamkit dlq list --json.",
        counts,
        list[dict[str, Any]],
    ),
    Resource(
        "/api/v1/dead-letters/{topic}",
        "The dead letters of a topic, as streamkit dlq show --json.",
        letters,
        list[dict[str, Any]],
        (
            Parameter("limit", int, "how many at most", LETTERS, least=1),
            Parameter("where", str, "only those for which this condition holds"),
            Parameter("partition", int, "only this partition, as often as needed", is_list=True, least=0),
            Parameter("offset", str, "begin at this offset of the partition"),
        ),
    ),
)
