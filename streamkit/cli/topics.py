"""`streamkit topics`: which topics there are, what is in them, and how they come, change and go."""

from __future__ import annotations

import os
from typing import Annotated, Any

import typer

from streamkit.cli.terminal import completion
from streamkit.cli.terminal.location import LogOption, wanted_location
from streamkit.cli.terminal.rendering import JsonOption, counted, show_facts, show_json
from streamkit.cli.terminal.table import show_table
from streamkit.description.topics import topics_described
from streamkit.errors import ConfigError
from streamkit.log.log import Log
from streamkit.log.opening import open_existing_log, open_log
from streamkit.log.topic.formats import declare_format
from streamkit.log.topic.settings import SETTINGS
from streamkit.log.topic.topic import declare_topic

program = typer.Typer(help="Show, create, alter and delete topics.", no_args_is_help=True, rich_markup_mode=None)
TopicNameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The topic's name.", autocompletion=completion.topics)]
NewTopicArgument = Annotated[str, typer.Argument(metavar="NAME", help="The name of the topic to create.")]
InternalOption = Annotated[bool, typer.Option("--all", help="Also show the applications' own topics, such as changelogs.")]
ConfigOption = Annotated[
    list[str] | None,
    typer.Option(
        "--config",
        metavar="NAME=VALUE",
        help=f"A setting, as often as needed: {', '.join(SETTINGS)}.",
        autocompletion=completion.settings,
    ),
]

TopicFormatOption = Annotated[
    str | None,
    typer.Option(
        "--format",
        metavar="FORMAT",
        help="In place of a schema: json, avro, protobuf, csv, string or bytes.",
        autocompletion=completion.formats,
    ),
]
FormatSchemaOption = Annotated[
    str | None,
    typer.Option(
        "--format-schema",
        metavar="FILE",
        help="The file with the schema of the values: Avro, JSON, .proto, or columns for csv.",
    ),
]
FormatConfigOption = Annotated[
    list[str] | None,
    typer.Option(
        "--format-config", metavar="NAME=VALUE", help="A setting of the format, such as schema.registry.url, as often as needed."
    ),
]


@program.command("list")
def list_topics(
    everything: InternalOption = False,
    as_json: JsonOption = False,
    log: LogOption = None,
) -> None:
    """Show the topics with their keys and sizes."""
    with open_existing_log(log) as opened:
        topics = list(topics_described(opened, opened.topics(internal=everything)))
    if as_json:
        show_json(topics)
        return
    rows = [(topic["name"], ", ".join(topic["key"]), len(topic["partitions"]), topic["rows"], topic["bytes"]) for topic in topics]
    show_table(("topic", "key", "partitions", "records", "bytes"), rows)


@program.command("describe")
def describe_topic(topic: TopicNameArgument, as_json: JsonOption = False, log: LogOption = None) -> None:
    """Show the schema, settings and partitions of a topic."""
    with open_existing_log(log) as opened:
        _show(opened, topic, as_json=as_json)


@program.command("create")
def create_topic(
    topic: NewTopicArgument,
    schema: Annotated[
        str | None,
        typer.Option(
            "--schema",
            metavar="COLUMNS",
            help='Its columns and their Spark SQL types, as in "user string not null, amount double".',
        ),
    ] = None,
    key: Annotated[
        list[str] | None,
        typer.Option("--key", metavar="COLUMN", help="A key column, as often as needed; else records have no key."),
    ] = None,
    timestamp: Annotated[
        str | None,
        typer.Option(
            "--timestamp", metavar="COLUMN", help="The column with the event time; else it is given, or the time of arrival."
        ),
    ] = None,
    partitions: Annotated[
        int | None, typer.Option("--partitions", metavar="N", help="How many; else the setting topic_partitions.")
    ] = None,
    config: ConfigOption = None,
    form: TopicFormatOption = None,
    format_schema: FormatSchemaOption = None,
    format_config: FormatConfigOption = None,
    as_json: JsonOption = False,
    log: LogOption = None,
) -> None:
    """
    Create a topic, and the log if there is none.

    A topic that exists and was declared equally is left as it is; one that differs is an error.
    """
    if schema is None and form is None:
        raise ConfigError(
            f"topic {topic}: found neither --schema nor --format; expected its columns, as in --schema 'user string, amount double', "
            "or a format of opaque values, as in --format json"
        )
    settings = _settings(config)
    text = None if format_schema is None else _text_of(format_schema)
    opaque = None if form is None and text is None else declare_format(form, text, _settings(format_config))
    declare_topic(
        topic, schema, key or None, timestamp, 1 if partitions is None else partitions, settings, format=opaque
    )  # before a log is made for it
    with open_log(wanted_location(log)) as opened:
        opened.create_topic(
            topic,
            schema,
            key or None,
            timestamp,
            partitions,
            settings,
            format=form,
            format_schema=text,
            format_settings=_settings(format_config) or None,
        )
        _show(opened, topic, as_json=as_json)


@program.command("alter")
def alter_topic(
    topic: TopicNameArgument,
    partitions: Annotated[
        int | None, typer.Option("--partitions", metavar="N", help="The new number of partitions, not smaller.")
    ] = None,
    config: ConfigOption = None,
    delete_config: Annotated[
        list[str] | None,
        typer.Option(
            "--delete-config",
            metavar="NAME",
            help="A setting that gets its default value again, as often as needed.",
            autocompletion=completion.setting_names,
        ),
    ] = None,
    schema: Annotated[
        str | None, typer.Option("--schema", metavar="COLUMNS", help="The whole new schema: more columns, wider types.")
    ] = None,
    format_schema: Annotated[
        str | None,
        typer.Option("--format-schema", metavar="FILE", help="The file with the new schema of an opaque topic's values."),
    ] = None,
    as_json: JsonOption = False,
    log: LogOption = None,
) -> None:
    """Change partitions, settings or schema of a topic."""
    settings = _altered(_settings(config), delete_config)
    if partitions is None and schema is None and format_schema is None and not settings:
        raise ConfigError(
            f"topic {topic}: found nothing to change; expected --partitions, --config, --delete-config, --schema or --format-schema"
        )
    with open_existing_log(log) as opened:
        before = opened.describe(topic)
        opened.alter_topic(topic, partitions, settings, schema, None if format_schema is None else _text_of(format_schema))
        if before["key"] and before["rows"] and partitions is not None and partitions > len(before["partitions"]):
            typer.echo(
                f"warning: topic {before['name']} has a key and {before['rows']:,} records: with more partitions, new records of a key may "
                "go to another one than those that are there, and are not in order with them",
                err=True,
            )
        _show(opened, topic, as_json=as_json)


@program.command("delete")
def delete_topic(
    topic: TopicNameArgument,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    as_json: JsonOption = False,
    log: LogOption = None,
) -> None:
    """
    Delete a topic with its records.

    Programs that still use it get an error.
    """
    with open_existing_log(log) as opened:
        described = opened.describe(topic)
        if not yes:
            typer.confirm(f"Delete {topic} with its {counted(described['rows'], 'record')}?", abort=True, err=True)
        opened.delete_topic(topic)
    if as_json:
        show_json({"deleted": described["name"], "id": described["id"], "rows": described["rows"]})
    else:
        print(f"{topic} is deleted.")


def _show(log: Log, topic: str, *, as_json: bool) -> None:
    described = log.describe(topic)
    if as_json:
        show_json(described)
        return
    given = ", ".join(f"{name}={value}" for name, value in log.topic(topic).config)
    facts = [
        ("topic", described["name"]),
        ("key", ", ".join(described["key"]) or "none"),
        ("timestamp", described["timestamp"] or "given with each record, else the time of arrival"),
        ("settings", given or "defaults"),
        ("schema version", described["version"]),
        ("format", described["format"]),
        ("format schema", described["format_schema"]),
    ]
    show_facts([(name, value) for name, value in facts if value is not None])
    columns = log.topic(topic).schema
    show_table(("column", "type", "null"), [(column.name, column.type, "yes" if column.nullable else "no") for column in columns])
    partitions = [(str(part["partition"]), *list(part.values())[1:]) for part in described["partitions"]]
    show_table(("partition", "start offset", "end offset", "records", "bytes"), partitions)


def _settings(config: list[str] | None) -> dict[str, Any]:
    """Settings by name; ConfigError for one that is not written NAME=VALUE, or given twice."""
    settings: dict[str, Any] = {}
    for text in config or ():
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise ConfigError(f"found --config {text}; expected NAME=VALUE, as in retention.ms=3600000")
        _add(settings, name.strip(), value.strip())
    return settings


def _altered(given: dict[str, Any], deleted: list[str] | None) -> dict[str, Any]:
    """The settings that are given, and those that go back to their default as None."""
    for name in deleted or ():
        _add(given, name, None)
    return given


def _add(settings: dict[str, Any], name: str, value: str | None) -> None:
    if name in settings:
        raise ConfigError(f"the setting {name} is given twice; expected it once, with --config or --delete-config")
    settings[name] = value


def _text_of(path: str) -> str:
    try:
        with open(os.path.expanduser(path), encoding="utf-8") as file:
            return file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"the file {path!r} with the schema cannot be read: {error}") from error
