"""`--set NAME=VALUE` of commands that execute SQL."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

import typer

SettingsOption = Annotated[
    list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="A setting, as by SET; as often as needed.")
]


def given_settings(texts: Iterable[str] | None) -> dict[str, str]:
    """The settings that were given, by their names; the last of one name counts."""
    found = dict[str, str]()
    for text in texts or ():
        name, equals, value = text.partition("=")
        if not equals:
            raise typer.BadParameter(f"found {text!r}; expected NAME=VALUE, as in auto.offset.reset=earliest", param_hint="--set")
        found[name.strip()] = value.strip()
    return found
