"""`streamkit topics`: which topics there are, and what is in them."""

from __future__ import annotations

from typing import Annotated

import typer

from streamkit.cli.location import LogOption, open_existing_log
from streamkit.cli.rendering import show_facts, show_table

program = typer.Typer(help="Topics of the log.", no_args_is_help=True, rich_markup_mode=None)


@program.command("list")
def list_topics(
    everything: Annotated[
        bool, typer.Option("--all", help="Show the topics of applications' own too, such as changelogs.")
    ] = False,
    log: LogOption = None,
) -> None:
    """Show the topics with their keys and sizes."""
    with open_existing_log(log) as opened:
        topics = [opened.describe(name) for name in opened.topics(internal=everything)]
    rows = [(topic["name"], ", ".join(topic["key"]), len(topic["partitions"]), topic["rows"], topic["bytes"]) for topic in topics]
    show_table(("topic", "key", "partitions", "records", "bytes"), rows)


@program.command("describe")
def describe_topic(topic: Annotated[str, typer.Argument(help="The topic's name.")], log: LogOption = None) -> None:
    """Show the schema, settings and partitions of a topic."""
    with open_existing_log(log) as opened:
        described = opened.describe(topic)
        schema = opened.topic(topic).schema
        given = dict(opened.topic(topic).config)
    show_facts(
        (
            ("topic", described["name"]),
            ("key", ", ".join(described["key"]) or "none"),
            ("timestamp", described["timestamp"] or "given with each record, else the time of arrival"),
            ("settings", ", ".join(f"{name}={value}" for name, value in given.items()) or "defaults"),
        )
    )
    show_table(("column", "type", "null"), [(column.name, column.type, "yes" if column.nullable else "no") for column in schema])
    partitions = [(str(part["partition"]), *list(part.values())[1:]) for part in described["partitions"]]
    show_table(("partition", "start offset", "end offset", "records", "bytes"), partitions)
