"""Records that could not be processed: which there are, and what was wrong with them."""

from __future__ import annotations

import itertools
from threading import Lock
from typing import Any

from streamkit.description.dead_letters import dead_letter_counts, dead_letter_json, dead_letters, replay_json
from streamkit.log.dead_letter_replay import dead_letter_topics, replay, replayed
from streamkit.serve.answers import Answer
from streamkit.serve.resource import Asked, Parameter, Resource

LETTERS = 100
_replaying = Lock()


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


def sent_again(asked: Asked) -> dict[str, Any]:
    """Each record once, however often this is asked; those who ask at the same time wait for each other."""
    name, is_dry = asked.path["topic"], asked["dry_run"]
    asked.log.topic(name)
    with _replaying:
        letters = dead_letters(asked.log, name, asked["where"], asked["partition"], asked["offset"])
        return replay_json(name, replay(asked.log, name, letters, is_dry=is_dry), is_dry=is_dry)


CHOICE = (
    Parameter("where", str, "only those for which this condition holds"),
    Parameter("partition", int, "only this partition, as often as needed", is_list=True, least=0),
    Parameter("offset", str, "begin at this offset of the partition"),
)
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
        (Parameter("limit", int, "how many at most", LETTERS, least=1), *CHOICE),
    ),
    Resource(
        "/api/v1/dead-letters/{topic}/replay",
        "Sends the records of dead letters to the topics that they came from, as streamkit dlq replay: all or none, and each once.",
        sent_again,
        dict[str, Any],
        method="POST",
        fields=(*CHOICE, Parameter("dry_run", bool, "only say what would be sent", False)),
    ),
)
