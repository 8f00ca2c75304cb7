"""`streamkit dlq`: records that could not be processed: which there are, what was wrong with them, and how to send them again."""

from __future__ import annotations

import sys
from itertools import islice
from typing import Annotated

import typer

from streamkit.cli.consume import MaxOption, OffsetOption, PartitionOption, WhereOption
from streamkit.cli.terminal import completion
from streamkit.cli.terminal.location import LogOption
from streamkit.cli.terminal.rendering import JsonOption, counted, show_json
from streamkit.cli.terminal.table import show_table
from streamkit.connectors.files.record_lines import write_json
from streamkit.description.dead_letters import (
    COUNTS,
    dead_letter_counts,
    dead_letter_json,
    dead_letters,
    dead_letters_counted,
    newest_dead_letters,
    replay_json,
)
from streamkit.log.dead_letter import DeadLetter
from streamkit.log.dead_letter_replay import dead_letter_topics, replay, replayed
from streamkit.log.opening import open_existing_log

program = typer.Typer(help="Show dead letters, and send their records again.", no_args_is_help=True, rich_markup_mode=None)
DeadLettersArgument = Annotated[
    str, typer.Argument(metavar="TOPIC", help="The dead-letter topic.", autocompletion=completion.topics)
]
TABLE_ROWS = 20


@program.command("list")
def list_dead_letters(as_json: JsonOption = False, log: LogOption = None) -> None:
    """
    Show the topics with dead letters.

    It shows how many there are for each step and error, and how many of their records were sent again.
    """
    with open_existing_log(log) as opened:
        found = [row for name in dead_letter_topics(opened) for row in dead_letter_counts(opened, name)]
    if as_json:
        show_json(found)
        return
    show_table(COUNTS, [tuple(row.values()) for row in found])


@program.command("show")
def show_dead_letters(
    topic: DeadLettersArgument,
    max_records: MaxOption = None,
    where: WhereOption = None,
    partitions: PartitionOption = None,
    offset: OffsetOption = None,
    oldest_first: Annotated[
        bool, typer.Option("--oldest-first", help="Begin with the oldest of each partition, in the order of the topic.")
    ] = False,
    as_json: JsonOption = False,
    log: LogOption = None,
) -> None:
    """
    Show the dead letters of a topic, the newest first.

    The record with its place, the error, the step and its line, and the attempt.

    In JSON, one object a line, `key` and `value` are the record's columns as JSON texts.
    """
    limit = max_records or (None if as_json else TABLE_ROWS)
    in_order = dead_letters if oldest_first else newest_dead_letters
    with open_existing_log(log) as opened:
        done = replayed(opened, topic)
        found = [*islice(in_order(opened, topic, where, partitions, offset), limit)]
        total = len(found) if len(found) != limit else dead_letters_counted(opened, topic, where, partitions, offset)
    if as_json:
        write_json(sys.stdout, [dead_letter_json(letter, is_replayed=letter.origin in done) for letter in found])
        return
    titles = ("offset", "record", "key", "value", "error", "message", "operator", "line", "attempt", "replayed")
    rows = [
        (_place(letter), _record(letter), letter.key, letter.value, letter.error, letter.message, letter.operator, letter.line,
         letter.attempt, "yes" if letter.origin in done else None)
        for letter in found
    ]  # fmt: skip
    more = "; --max N shows more, --json all" if len(found) < total else ""
    chosen = " that match" if where or partitions or offset else ""
    show_table(
        titles,
        rows,
        f"{len(found):,} of {counted(total, 'dead letter')}{chosen}, {'oldest' if oldest_first else 'newest'} first{more}",
    )


@program.command("replay")
def replay_dead_letters(
    topic: DeadLettersArgument,
    where: WhereOption = None,
    partitions: PartitionOption = None,
    offset: OffsetOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be sent.")] = False,
    as_json: JsonOption = False,
    log: LogOption = None,
) -> None:
    """
    Send the records of dead letters again.

    They are sent to the topics that they came from: all of them or none, and each once.

    A record is as it was, with its event time and headers, and the number of the attempt in a header. All readers of its topic
    get it again. Dead letters without a record, for example of results, are not sent.
    """
    with open_existing_log(log) as opened:
        found = replay(opened, topic, dead_letters(opened, topic, where, partitions, offset), is_dry=dry_run)
    if as_json:
        show_json(replay_json(topic, found, is_dry=dry_run))
        return
    show_table(("topic", "records"), list(found.sent.items()))
    total = sum(found.sent.values())
    verb = "would be sent" if dry_run else "was sent" if total == 1 else "were sent"
    print(
        f"{counted(total, 'record')} {verb}; {found.before:,} had been sent before, {found.rows:,} dead letters have no record."
    )


def _place(letter: DeadLetter) -> str:
    partition, offset = letter.place
    return f"{partition}/{offset}" if partition else str(offset)


def _record(letter: DeadLetter) -> str:
    if letter.topic:
        return f"{letter.topic} {letter.partition}/{letter.offset}"
    return "a row of the step" if letter.value else "a scheduled call"
