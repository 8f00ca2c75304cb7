"""A connector: its name, its configuration, and the settings that every one of its kind has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from streamkit.connectors.placeholders import filled, kept_elsewhere
from streamkit.connectors.redaction import Redaction, redact_error
from streamkit.connectors.setting import Setting, read_settings, secrets_of
from streamkit.errors import ConfigError, SchemaError, StreamKitError
from streamkit.names import check_name
from streamkit.schema import Schema

if TYPE_CHECKING:
    from streamkit.connectors.transforms.chain import Chain

DEAD_LETTERS = "errors.deadletterqueue.topic.name"
COMMON = (
    Setting("tasks.max", "how many tasks share the work", "integer", 1, least=1),
    Setting("value.format", "how the bytes of a value are read or written, such as json or avro", default=None),
    Setting("value.", "settings of the value's format, such as value.schema", default=None),
    Setting("key.format", "how the bytes of a key are read or written", default=None),
    Setting("key.schema", "the columns of keys and their types, such as 'id bigint'", default=None),
    Setting("key", "the key columns, with commas between", "list", ()),
    Setting("schema.registry.", "where the schema registry is (schema.registry.url), and how to reach it", is_secret=True),
    Setting(
        "errors.tolerance",
        "what happens if a record fails: none stops the task, all goes on",
        default="none",
        choices=("none", "all"),
    ),
    Setting("errors.retry.timeout", "how long, in ms, an operation is tried again; -1 is for ever", "integer", 0, least=-1),
    Setting("errors.retry.delay.max.ms", "the longest wait between two tries, in ms", "integer", 60_000, least=1),
    Setting("errors.log.enable", "whether failed records are logged", "boolean", False),
    Setting("errors.log.include.messages", "whether the log says topic, partition and offset", "boolean", False),
    Setting(DEAD_LETTERS, "the topic of the log to which failed records are written", default=""),
    Setting(
        "errors.deadletterqueue.topic.replication.factor", "accepted without effect: the log keeps its own copies", "integer", 3
    ),
    Setting("errors.deadletterqueue.context.headers.enable", "whether they say in headers what failed", "boolean", True),
    Setting("transforms", "the aliases of the transforms, in their order", "list", ()),
    Setting("transforms.", "settings of the transforms, by alias", default=None),
    Setting("predicates", "the aliases of the predicates", "list", ()),
    Setting("predicates.", "settings of the predicates, by alias", default=None),
)


class Connector:
    """
    Data of a foreign system into the log, or out of it; `Source` and `Sink` are the two kinds.

    A subclass lists its own `SETTINGS`. In Python a setting is given by its name with underscores for dots
    (`bootstrap_servers=`), or within `config`. `config` is kept as it was written, placeholders such as `${env:X}` too;
    `settings` has the values. `redacted(text)` is a text without its secrets, for errors, logs and status.
    ConfigError for an unknown setting, a missing one, or a value of another kind.
    """

    KIND: ClassVar[tuple[Setting, ...]] = ()  # what a source or a sink has
    IS_SOURCE: ClassVar[bool] = False
    SETTINGS: ClassVar[tuple[Setting, ...]] = ()

    def __init__(self, name: str, config: Mapping[str, Any] | None = None, /, **settings: Any) -> None:
        self.name = check_name(name, "connector")
        self.config = dict(config or {}) | {key.replace("_", "."): value for key, value in settings.items()}
        declared = self.declared()
        values = filled(self.config)
        self.redacted = Redaction(secrets_of(declared, values), kept_elsewhere(self.config))
        try:
            self.settings: dict[str, Any] = read_settings(f"the connector {name} ({type(self).__name__})", declared, values)
            self._check_key()
            self._check_dead_letters()
            self.chain = self._transforms()
            self.check()
        except Exception as error:
            redact_error(error, self.redacted)
            raise

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    @classmethod
    def declared(cls) -> tuple[Setting, ...]:
        """All settings of the connector; a setting of the class replaces a common one of the same name."""
        return tuple({one.name: one for one in (*COMMON, *cls.KIND, *cls.SETTINGS)}.values())

    def check(self) -> None:
        """Raise ConfigError for settings that do not go together; a subclass says which. It opens nothing."""

    def check_client(self) -> None:
        """Raise ConfigError for settings that a foreign library does not take, which is asked for that; nothing is connected to."""

    def _check_key(self) -> None:
        """The key columns are those of `key.schema`, where that says them."""
        text, names = self.settings["key.schema"], self.settings["key"]
        if text is None:
            return
        try:
            found = Schema.parse(text).names
        except SchemaError as error:
            raise ConfigError(f"key.schema={text!r}: {error}") from None
        if names and set(names) != set(found):
            raise ConfigError(f"found key={','.join(names)} and key.schema={text!r}; expected the same columns in both")
        self.settings["key"] = tuple(names) or tuple(found)

    def _check_dead_letters(self) -> None:
        """Dead letters have a topic of their own: rows between them would be neither."""
        letters = self.settings[DEAD_LETTERS]
        own = [self.settings["topic"]] if self.IS_SOURCE else self.settings["topics"]
        if letters and letters in own:
            raise ConfigError(
                f"found {DEAD_LETTERS}={letters}, which is the topic that the connector {'writes to' if self.IS_SOURCE else 'reads'}; expected a "
                "topic of its own for dead letters"
            )

    def _transforms(self) -> Chain | None:
        """The transforms, if there are any; ConfigError says what is wrong with them."""
        if not any(self.settings[name] for name in ("transforms", "transforms.", "predicates", "predicates.")):
            return None
        from streamkit.connectors.transforms.chain import chain_of  # it brings expressions, which few connectors need

        return chain_of(self.settings, is_source=self.IS_SOURCE)

    def again(self) -> Connector:
        """A connector of the same name and configuration: each task has its own."""
        return type(self)(self.name, self.config)

    def is_retryable(self, error: Exception) -> bool:
        """Whether an error may pass, so that the task is started again after a while; a subclass knows the errors of its library."""
        return isinstance(error, ConnectionError | TimeoutError) or (isinstance(error, StreamKitError) and error.is_retryable)


def needed(module: str, extra: str) -> ConfigError:
    """The error for a library that is not installed, and belongs to an extra."""
    return ConfigError(
        f"this connector needs the package {module}, which is not installed; run: pip install 'pyspark-streamkit[{extra}]'"
    )
