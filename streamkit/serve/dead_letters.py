"""Records that could not be processed: which there are, and what was wrong with them."""

from __future__ import annotations

import itertools
from threading import Lock
from typing import Any

from streamkit.description.dead_letters import (
    dead_letter_counts,
    dead_letter_json,
    dead_letters,
    newest_dead_letters,
    replay_json,
)
from streamkit.log.dead_letter_replay import dead_letter_topics, replay, replayed
from streamkit.serve.answers import Answer
from streamkit.serve.cursors import topic_cursor, topic_offsets
from streamkit.serve.resource import Asked, Parameter, Resource

LETTERS = 100
ENDS = "ends"  # of a cursor: those of the topic when somebody looked
DRY_RUN = 'ask with {"dry_run": true} again, and send what that answer tells with its cursor'
_replaying = Lock()


def counts(asked: Asked) -> list[dict[str, Any]]:
    """How many there are, by topic, step and error."""
    return [row for name in dead_letter_topics(asked.log) for row in dead_letter_counts(asked.log, name)]


def letters(asked: Asked) -> Answer:
    """The newest ones, how many records the topic has, and where the next page goes on."""
    name, limit = asked.path["topic"], asked.rows("limit", "ask for the rest with the cursor of the answer")
    topic = asked.log.topic(name)
    before = None if asked["cursor"] is None else topic_offsets(asked.log, topic, asked["cursor"], "before")
    done = replayed(asked.log, name)
    found = newest_dead_letters(asked.log, name, asked["where"], asked["partition"], asked["offset"], before)
    reached, shown, is_cut = {**asked.log.end_offsets(name), **(before or {})}, list[dict[str, Any]](), False
    for one in itertools.takewhile(lambda _: asked.goes_on(), found):
        if is_cut := len(shown) == limit:
            break
        reached[one.place[0]] = one.place[1]
        shown.append(dead_letter_json(one, is_replayed=one.origin in done))
    is_complete = not is_cut and asked.goes_on()
    cursor = None if is_complete else topic_cursor(asked.log, topic, before=reached)
    total = asked.log.describe(name)["rows"]
    return Answer({"dead_letters": shown, "total": total, "cursor": cursor, "is_complete": is_complete})


def sent_again(asked: Asked) -> dict[str, Any]:
    """
    Each record once, however often this is asked; those who ask at the same time wait for each other.

    The cursor says where the topic ended. With it only the dead letters before that are sent, so nobody sends what came after a dry run.
    """
    name, is_dry = asked.path["topic"], asked["dry_run"]
    topic = asked.log.topic(name)
    with _replaying:
        ends = (
            asked.log.end_offsets(name)
            if asked["cursor"] is None
            else topic_offsets(asked.log, topic, asked["cursor"], ENDS, DRY_RUN)
        )
        letters = dead_letters(asked.log, name, asked["where"], asked["partition"], asked["offset"])
        found = replay(asked.log, name, (one for one in letters if one.place[1] < ends.get(one.place[0], 0)), is_dry=is_dry)
        return {**replay_json(name, found, is_dry=is_dry), "cursor": topic_cursor(asked.log, topic, **{ENDS: ends})}


CHOICE = (
    Parameter("where", str, "only those for which this condition holds"),
    Parameter("partition", int, "only this partition of the topic of dead letters, as often as needed", is_list=True, least=0),
    Parameter("offset", str, "none before this offset of the partition, which is one of the topic of dead letters"),
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
        "The dead letters of a topic, newest first, each as streamkit dlq show --json prints it; `total` counts all of the topic.",
        letters,
        dict[str, Any],
        (
            Parameter("limit", int, "how many at most", LETTERS, least=1),
            *CHOICE,
            Parameter("cursor", str, "go on where an answer ended"),
        ),
    ),
    Resource(
        "/api/v1/dead-letters/{topic}/replay",
        "Sends the records of dead letters to the topics that they came from, as streamkit dlq replay: all or none, and each once.",
        sent_again,
        dict[str, Any],
        method="POST",
        fields=(
            *CHOICE,
            Parameter("dry_run", bool, "only say what would be sent", False),
            Parameter("cursor", str, "only what was there when an answer of a dry run gave this"),
        ),
    ),
)
