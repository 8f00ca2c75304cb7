"""A command with values of a key as arguments: a value that begins with a minus, such as a number, is no option."""

from __future__ import annotations

import re
from typing import Any

from typer.core import TyperCommand

_NEGATIVE = re.compile(r"-(\.?\d|inf)", re.IGNORECASE)


class KeyCommand(TyperCommand):
    """A command that accepts -5 and -Infinity as arguments; other texts that begin with - are written behind --."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """The arguments behind all options, which is where a minus says nothing."""
        options: list[str] = []
        arguments: list[str] = []
        with_value = {
            name for one in self.params if not getattr(one, "is_flag", False) for name in one.opts if name.startswith("-")
        }
        left = list(args)
        while left:
            one = left.pop(0)
            if one == "--":
                arguments += left
                break
            if _NEGATIVE.match(one) or not one.startswith("-"):
                arguments.append(one)
                continue
            options.append(one)
            if one in with_value and left:
                options.append(left.pop(0))
        return super().parse_args(ctx, [*options, "--", *arguments] if arguments else options)
