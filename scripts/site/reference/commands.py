"""The page of the command line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click
from typer.main import get_command

from scripts.site.reference.sentences import row, table
from streamkit.cli.main import program

INTRODUCTION = """# Command line

`streamkit --help` lists the commands, and `streamkit COMMAND --help` has what stands here.
`streamkit --install-completion` teaches the shell their names.
With `--json` a command prints JSON; `--log` says which log, else the environment (`STREAMKIT_LOG`), else `.streamkit`.
"""
COMMON = {"--json", "--log", "--help"}


def page() -> str:
    """The text of the page."""
    lines = [INTRODUCTION]
    root: Any = get_command(program)
    for name, command in _commands(root, "streamkit"):
        context = click.Context(command, info_name=name)
        usage = " ".join([name, *command.collect_usage_pieces(context)])
        lines += [f"## {name}", "", f"```shell\n{usage}\n```", "", *_sentences(command.help or "")]
        options = [
            row(f"`{', '.join(_names(parameter))}`", (parameter.help or "").replace("`", ""))
            for parameter in command.params
            if not COMMON & set(parameter.opts)
        ]
        if options:
            lines += [*table("argument or option", "meaning"), *options, ""]
    return "\n".join(lines)


def _commands(group: Any, path: str) -> Iterator[tuple[str, Any]]:
    """All commands below a group, with their whole names."""
    for name in group.list_commands(click.Context(group)):
        command = group.get_command(click.Context(group), name)
        if hasattr(command, "list_commands"):
            if command.invoke_without_command:
                yield f"{path} {name}", command
            yield from _commands(command, f"{path} {name}")
        else:
            yield f"{path} {name}", command


def _names(parameter: Any) -> list[str]:
    if parameter.param_type_name == "argument":
        return [str(parameter.metavar or parameter.name).upper()]
    ending = "" if parameter.is_flag else f" {parameter.metavar or ''}".rstrip()
    return [f"{name}{ending}" for name in parameter.opts]


def _sentences(text: str) -> list[str]:
    """The help of a command, a sentence a line."""
    lines: list[str] = []
    for paragraph in text.replace("\f", "").split("\n\n"):
        joined = " ".join(paragraph.split())
        lines += [*joined.replace(". ", ".\n").splitlines(), ""]
    return lines
