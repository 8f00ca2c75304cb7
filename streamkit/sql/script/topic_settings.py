"""The settings of a topic that several statements of a file are about: what one of them says counts for all."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from streamkit.sql.lowering.script_text import ScriptText
from streamkit.sql.tree.span import TextSpan
from streamkit.sql.tree.statements import CreateSource, Property

SETTINGS_OF_TOPICS = {"RETENTION_MS": "retention.ms", "CLEANUP_POLICY": "cleanup.policy"}  # as WITH and as topics call them


@dataclass
class TopicSettings:
    """What the statements of a file say of a topic, by the words of WITH, each with its place."""

    topic: str
    text: ScriptText
    said: dict[str, tuple[str, TextSpan]] = field(default_factory=dict)
    defaults: dict[str, str] = field(default_factory=dict)

    def say(self, name: str, value: str, span: TextSpan) -> None:
        """Keep a setting; TopologyError if a statement before says another value of it."""
        known, at = self.said.setdefault(name, (value, span))
        if known != value:
            raise self.text.error(
                f"{name} of the topic {self.topic} is {value} here, and {known} at {self.text.at(at)}; expected the same, or one of them alone",
                span,
            )

    def unless_said(self, settings: dict[str, str]) -> None:
        """Keep what a result has where no statement says a setting."""
        self.defaults |= {name: settings[key] for name, key in SETTINGS_OF_TOPICS.items()}

    def added_to(self, statement: CreateSource) -> CreateSource:
        """A declaration with the settings that other statements say of its topic."""
        own = {one.name.upper() for one in statement.properties}
        values = {**self.defaults, **{name: value for name, (value, _) in self.said.items()}}
        added = tuple(Property(name, value) for name, value in values.items() if name not in own)
        return replace(statement, properties=(*statement.properties, *added)) if added else statement


def result_settings(*, is_table: bool) -> dict[str, str]:
    """The settings of a result's topic unless WITH says more: all of it stays, of a table the newest rows."""
    return {"cleanup.policy": "compact" if is_table else "delete", "retention.ms": "-1"}
