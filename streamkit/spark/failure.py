"""The StreamKit error behind an error of Spark's, which carries only its text."""

from __future__ import annotations

import re

from streamkit import errors
from streamkit.errors import StreamKitError
from streamkit.log.catalog.catalog import Catalog

_RAISED = re.compile(
    r"streamkit\.errors\.(\w+): (.+?)(?:\n SQLSTATE: |\n\nDuring handling of |\n\nThe above exception |\n\tat |\Z)", re.DOTALL
)
_TOPIC_ID = re.compile(r"\btopic with id (\d+)")


_JVM_FRAME = re.compile(r"^\s+(at [\w.$<>/]+\(.*\)|\.\.\. \d+ more)\s*$\n?", re.MULTILINE)
_OF_THE_JVM = re.compile(r"\n*(JVM stacktrace:|=== Streaming Query ===|Driver stacktrace:).*", re.DOTALL)


class SparkError(Exception):
    """What Spark said of an error, without the frames of its JVM."""


def without_jvm_frames(text: str) -> str:
    """Spark's text without the JVM's frames and without its descriptions of JVM and query; frames of Python stay."""
    return _JVM_FRAME.sub("", _OF_THE_JVM.sub("", text)).strip()


def failure_of(exception: Exception, catalog: Catalog) -> Exception:
    """The error that a task, the planner or the commit raised last, with topics by their names; else the exception itself."""
    for name, message in reversed(_RAISED.findall(str(exception))):
        kind = getattr(errors, name, None)
        if isinstance(kind, type) and issubclass(kind, StreamKitError):
            return kind(_with_topic_names(message.strip(), catalog))
    return exception


def _with_topic_names(message: str, catalog: Catalog) -> str:
    """The message with the names of topics, since tasks know only their ids."""
    names = {topic.id: topic.name for topic in catalog.topics.every()}

    def name(found: re.Match[str]) -> str:
        return f"topic {names[int(found[1])]}" if int(found[1]) in names else found[0]

    return _TOPIC_ID.sub(name, message)
