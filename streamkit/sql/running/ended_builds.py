"""
What was built beside a query and was ended by an earlier version of StreamKit: its application and its topic, which stayed.

Nothing of the kind comes about any more, since a start makes nothing for a query that was changed or terminated meanwhile.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from streamkit.log.catalog.sql_changes import SqlMovedError
from streamkit.log.log import Log
from streamkit.sql.execution.definitions import Definitions
from streamkit.sql.execution.queries import APPLICATION_START
from streamkit.sql.running.wanted_application import wanted_applications

BUILT_APPLICATION = re.compile(
    rf"{re.escape(APPLICATION_START)}C[ST]AS_.+_\d+(-\d+)", re.DOTALL
)  # as a statement names one that is built


def remove_ended_builds(log: Log) -> list[str]:
    """Remove applications that were built beside queries and are wanted by none, each with its topic; returns their names."""
    objects = log.catalog.sql.objects()
    definitions = Definitions.of(log, objects)
    wanted = wanted_applications(objects.queries)
    states = log.catalog.applications.every()
    ended = {one.name: topic for one in states if one.name not in wanted for topic in _topics_built(log, one.name)}
    used = {one.topic for one in objects.sources} | {name for one in objects.queries for name in one.sources}
    read = {topic_id for one in states if one.name not in ended for topic_id in log.catalog.applications.inputs_of(one.id)}
    for name, built in ended.items():
        definitions = definitions.with_seen(name).with_ended(name)
        topic = definitions.find_topic(built)
        if topic is not None and topic.name not in used and topic.id not in read:  # nobody has begun to use it meanwhile
            definitions = definitions.without_topic(topic.name)
    change = definitions.change()
    if change is None:
        return []
    try:
        paths = log.catalog.sql.commit(change)
    except SqlMovedError:  # a statement was first; the next runner sees what is left
        return []
    storage = log.storage_now()
    for path in paths:
        storage.delete(path)
    return list(ended)


def _topics_built(log: Log, application: str) -> Iterator[str]:
    """Where an application writes that was built beside a query; nothing of another one, also of a user's own whose name is alike."""
    named = BUILT_APPLICATION.fullmatch(application)
    if named is None:
        return
    try:
        outputs = [str(one["topic"]) for one in json.loads(log.program_before(application))["outputs"]]
    except (ValueError, LookupError, TypeError):  # of a form that is not known
        return
    yield from (one for one in outputs if one.endswith(named[1]))
