"""The commands of the program and where they are; one is loaded when it is asked for, because to load all takes half a second."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup

from streamkit.cli.loading import ended_by_an_interrupt

HOMES = {  # of each command the file, and there the function, or the program of several
    "init": "init.init",
    "topics": "topics.program",
    "produce": "produce.produce",
    "consume": "consume.consume",
    "compact": "compact.compact",
    "offsets": "offsets.offsets",
    "groups": "groups.program",
    "run": "run.run",
    "standby": "run.standby",
    "explain": "run.explain",
    "plan": "plan.plan",
    "trace": "trace.trace",
    "stats": "stats.stats",
    "maintain": "stats.maintain",
    "connect": "connect.program",
    "sql": "sql.program",
    "serve": "serve.serve",
    "apps": "applications.program",
    "store": "stores.program",
    "dlq": "dlq.program",
    "storage": "storage.program",
    "fsck": "fsck.fsck",
    "backup": "backup.backup",
    "rebuild": "backup.rebuild",
}


class Commands(TyperGroup):
    """All commands by name, in the order of the help."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(HOMES)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of a name; None if there is none."""
        if cmd_name not in HOMES:
            return None
        if cmd_name not in self.commands:
            self.commands[cmd_name] = load(cmd_name)
        return self.commands[cmd_name]


def load(name: str) -> Any:
    """Load the command of a name: a function becomes a command, a program of several a group."""
    file, _, attribute = HOMES[name].partition(".")
    with ended_by_an_interrupt():
        found = getattr(import_module(f"streamkit.cli.{file}"), attribute)
    holder = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    if isinstance(found, typer.Typer):
        holder.add_typer(found, name=name)
        return typer.main.get_group(holder).commands[name]
    holder.command(name)(found)
    return typer.main.get_command(holder)
