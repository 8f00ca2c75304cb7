"""`streamkit groups`: who reads together, how far they have come, and how to send them elsewhere."""

from __future__ import annotations

from typing import Annotated

import typer

from streamkit.cli.terminal import completion
from streamkit.cli.terminal.location import LogOption
from streamkit.cli.terminal.rendering import JsonOption, show_facts, show_json
from streamkit.cli.terminal.table import show_table
from streamkit.description.groups import group_json
from streamkit.log.catalog.group_description import GroupDescription
from streamkit.log.opening import open_existing_log
from streamkit.query.group_reset import reset_offsets

program = typer.Typer(help="Show, reset and delete consumer groups.", no_args_is_help=True, rich_markup_mode=None)
GroupArgument = Annotated[str, typer.Argument(metavar="GROUP", help="The group's name.", autocompletion=completion.groups)]


@program.command("list")
def list_groups(as_json: JsonOption = False, log: LogOption = None) -> None:
    """Show the groups with their members and lag."""
    with open_existing_log(log) as opened:
        found = [opened.groups.describe(name) for name in opened.groups.names()]
    if as_json:
        show_json([group_json(group) for group in found])
        return
    rows = [(group.name, group.state, len(group.members), ", ".join(_topics(group)), group.lag) for group in found]
    show_table(("group", "state", "members", "topics", "lag"), rows)


@program.command("describe")
def describe_group(group: GroupArgument, as_json: JsonOption = False, log: LogOption = None) -> None:
    """Show members, committed offsets and lag of a group."""
    with open_existing_log(log) as opened:
        found = opened.groups.describe(group)
    if as_json:
        show_json(group_json(found))
        return
    show_facts(
        (
            ("group", group),
            ("state", found.state),
            ("generation", found.generation),
            ("assignor", found.assignor),
            ("lag", found.lag),
        )
    )
    members = [
        (member.member_id[:8], member.client, member.instance_id, ", ".join(member.topics), member.partitions)
        for member in found.members
    ]
    show_table(("member", "client", "instance", "topics", "partitions"), members)
    partitions = [
        (row.topic, str(row.partition), _owner(row.owner, row.target), row.committed, row.end_offset, row.lag)
        for row in found.partitions
    ]
    show_table(("topic", "partition", "owner", "committed", "end offset", "lag"), partitions)


@program.command("reset")
def reset_group(
    group: GroupArgument,
    to: Annotated[
        str,
        typer.Option(
            "--to",
            metavar="WHERE",
            help="earliest, latest, an offset, or a time such as 2026-01-31T12:00:00Z.",
            autocompletion=completion.bounds,
        ),
    ],
    topics: Annotated[
        list[str] | None,
        typer.Option(
            "--topic",
            metavar="TOPIC",
            help="A topic, as often as needed; else all in which the group has committed.",
            autocompletion=completion.topics,
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be committed.")] = False,
    as_json: JsonOption = False,
    log: LogOption = None,
) -> None:
    """
    Set the committed offsets of a group. It is refused while a member is alive.

    An offset that a partition does not have becomes the nearest one that it has; a time, the first record of that time or later.
    """
    with open_existing_log(log) as opened:
        rows = reset_offsets(opened, group, to, topics or (), is_dry=dry_run)
    if as_json:
        show_json({"group": group, "dry_run": dry_run, "partitions": rows})
        return
    table = [(row["topic"], str(row["partition"]), row["before"], row["after"]) for row in rows]
    caption = "Nothing was committed: a dry run." if dry_run else f"{group} reads on from there."
    show_table(("topic", "partition", "before", "after"), table, caption=caption)


@program.command("delete")
def delete_group(
    group: GroupArgument,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    as_json: JsonOption = False,
    log: LogOption = None,
) -> None:
    """Forget a group and its committed offsets. It is refused while a member is alive."""
    with open_existing_log(log) as opened:
        found = opened.groups.describe(group)
        if not yes:
            count = sum(row.committed is not None for row in found.partitions)
            typer.confirm(f"Forget {group} and its committed offsets of {count} partitions?", abort=True, err=True)
        opened.groups.delete(group)
    if as_json:
        show_json({"deleted": group})
    else:
        print(f"{group} is forgotten.")


def _topics(group: GroupDescription) -> list[str]:
    return sorted({row.topic for row in group.partitions} | {topic for member in group.members for topic in member.topics})


def _owner(owner: str | None, target: str | None) -> str | None:
    """The owner, and who is to have the partition next."""
    return owner and (owner[:8] if owner == target else f"{owner[:8]} → {target[:8] if target else 'nobody'}")
