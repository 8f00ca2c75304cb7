"""The page of the settings of StreamKit and of topics."""

from __future__ import annotations

from dataclasses import fields

from scripts.site.pages import ROOT
from scripts.site.reference.sentences import row, table
from streamkit.config import PREFIX, Settings
from streamkit.log.topic.settings import SETTINGS, UNLIMITED

INTRODUCTION = f"""# Settings

## Settings of StreamKit

They come from the environment, as `{PREFIX}LOG` or `{PREFIX}MAX_RECORDS_PER_EPOCH`,
else from the TOML file that `{PREFIX}CONF` names, else from `conf/streamkit.toml` in the working folder, else they have their default.
An argument of a function or an option of the command line is stronger than all of these.
"""
TOPICS = """## Settings of topics

They have Kafka's names and meaning; give them by `config=` of `log.create_topic`, or by `streamkit topics alter --config`.
"""
MEANINGS = {
    "cleanup.policy": "what happens to old records: they are deleted by age or size, or the newest of each key is kept",
    "retention.ms": "how long records are kept, by event time; -1 is for ever",
    "retention.bytes": "how many bytes a partition keeps; -1 is all",
    "segment.bytes": "how large merged files become",
    "segment.ms": "for how long records are left alone by compaction in the background",
    "delete.retention.ms": "how long a tombstone is kept after compaction has first read it",
    "min.cleanable.dirty.ratio": "which part of a partition must be new before compaction in the background cleans it",
    "min.compaction.lag.ms": "how old a record must be before compaction may remove it",
    "max.compaction.lag.ms": "how old a record may become before compaction must clean it",
    "compression.type": "how frames are compressed",
    "max.message.bytes": "how large a record may be",
    "message.timestamp.before.max.ms": "how far an event time may lie behind the clock",
    "message.timestamp.after.max.ms": "how far an event time may lie ahead of the clock",
    "message.timestamp.type": "whether the event time is the record's own, or that of its arrival",
}


def page() -> str:
    """The text of the page."""
    rows = [
        row(f"`{field.name}`", f"`{field.default!r}`" if field.default != "" else "none", *_meaning(field.name))
        for field in fields(Settings)
    ]
    topics = [row(f"`{one.name}`", _number(one.default), _number(one.expected), MEANINGS[one.name]) for one in SETTINGS.values()]
    head = [INTRODUCTION, *table("setting", "default", "meaning", "more"), *rows, ""]
    return "\n".join([*head, TOPICS, *table("setting", "default", "what it may be", "meaning"), *topics, ""])


def _meaning(name: str) -> tuple[str, str]:
    """The comment above a setting in the file that describes all of them: its first sentence, and the rest."""
    lines = (ROOT / "conf" / "streamkit.toml").read_text(encoding="utf-8").splitlines()
    place = next(number for number, line in enumerate(lines) if line.startswith(f"# {name} = "))
    comment: list[str] = []
    while place and lines[place - 1].startswith("# "):
        place -= 1
        comment.insert(0, lines[place][2:])
    first, _, rest = " ".join(comment).partition(". ")
    return first.rstrip("."), rest


def _number(text: str) -> str:
    return text.replace(UNLIMITED, "no limit")
