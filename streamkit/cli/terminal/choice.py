"""Options that take one of a few words."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any, TypeVar

import typer

from streamkit.cli.terminal import completion

Choice = TypeVar("Choice", bound=Enum)


def choice_option(name: str, kind: type[Choice], help: str) -> Any:
    """An option that takes one word of a kind, shown in its help and completed."""
    words = words_of(kind)
    return typer.Option(
        name,
        help=help,
        show_default=False,
        parser=_choice_of(kind),
        metavar="|".join(words),
        autocompletion=completion.choosing(words),
    )


def _choice_of(kind: type[Choice]) -> Callable[[str | Choice], Choice]:
    """A parser of an option; typer.BadParameter, which says what was found and what there is, for a word that is none of the kind's."""

    def parse(text: str | Choice) -> Choice:
        try:
            return kind(text)
        except ValueError:
            raise typer.BadParameter(f"found {text!r}; expected one of {', '.join(words_of(kind))}") from None

    return parse


def words_of(kind: type[Enum]) -> list[str]:
    """The words that an option of this kind takes."""
    return [str(one.value) for one in kind]
