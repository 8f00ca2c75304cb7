"""An alteration: the changes to a topic."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from streamkit.errors import ConfigError, SchemaError
from streamkit.formats.codec import altered
from streamkit.formats.format import Format, Schemas
from streamkit.log.topic.evolution import check_evolution
from streamkit.log.topic.settings import SettingValue, check_config, check_setting_name, check_settings
from streamkit.log.topic.topic import Topic, check_compaction, check_partitions
from streamkit.schema import Schema, check_user_schema


@dataclass(frozen=True)
class Alteration:
    """
    New values for parts of a topic; None leaves a part as it is, a setting of None goes back to its default.

    `is_by_owner`: whoever keeps the topic for itself asks for it. Others may not alter an internal topic.
    """

    partitions: int | None = None
    config: Mapping[str, SettingValue | None] = field(default_factory=dict)
    schema: Schema | None = None
    format_schema: Schemas | None = None
    is_by_owner: bool = False

    def applied_to(self, topic: Topic) -> Topic:
        """The topic after the alteration; ConfigError or SchemaError if the topic itself does not allow it."""
        if topic.internal and not self.is_by_owner:
            raise ConfigError(
                f"topic {topic.name} belongs to an application or to a connector, which alone declares it; expected a topic of yours"
            )
        return check_compaction(
            replace(
                topic,
                partitions=self._partitions(topic),
                config=self._config(topic),
                schema=self._schema(topic),
                version=topic.version + (self._schema(topic) != topic.schema),
                format=self._format(topic),
            )
        )

    def _partitions(self, topic: Topic) -> int:
        if self.partitions is None:
            return topic.partitions
        partitions = check_partitions(topic.name, self.partitions)
        if partitions < topic.partitions:
            raise ConfigError(
                f"topic {topic.name} has {topic.partitions} partitions; found partitions={partitions}, expected more: "
                "removing a partition would remove its rows"
            )
        return partitions

    def _config(self, topic: Topic) -> tuple[tuple[str, str], ...]:
        check_config(self.config)
        given = check_settings({name: value for name, value in self.config.items() if value is not None})
        named = {check_setting_name(name) for name in self.config}
        kept = [(name, value) for name, value in topic.config if name not in named]
        return tuple(sorted((*kept, *given)))

    def _schema(self, topic: Topic) -> Schema:
        if self.schema is None or self.schema == topic.schema:
            return topic.schema
        if topic.format is not None:
            raise SchemaError(f"topic {topic.name} has the format {topic.format.name}, whose schema is fixed: {topic.schema}")
        wanted = check_user_schema(self.schema)
        check_evolution(topic, wanted)
        return wanted

    def _format(self, topic: Topic) -> Format | None:
        if self.format_schema is None:
            return topic.format
        if topic.format is None:
            raise ConfigError(f"topic {topic.name} has columns, and no format whose schema could change; expected schema=")
        return altered(topic.format, self.format_schema, topic.name)
