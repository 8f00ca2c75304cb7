"""Paths to fields within structs, as Connect's second syntax spells them: dots between, backticks around names with dots."""

from __future__ import annotations

import re
from collections.abc import Callable

from streamkit.errors import ConfigError

_QUOTED = re.compile(r"`((?:[^`\\]|\\`|\\|`(?!\.|$))*)`(?:\.|$)")


def steps_of(path: str, said: Callable[[str], str]) -> list[str]:
    r"""The names of a path: `a.b` has two, `` `a.b` `` one; a backtick before a dot within a name is written `` \` ``."""
    steps, place = [], 0
    while place < len(path):
        if path[place] == "`":
            match = _QUOTED.match(path, place)
            if match is None:
                raise ConfigError(said(f"field={path!r} has only one backtick of a pair; expected a path such as a.`b.c`"))
            steps.append(match[1].replace("\\`", "`"))
            place = match.end()
        else:
            end = path.find(".", place)
            end = len(path) if end < 0 else end
            steps.append(path[place:end])
            place = end + 1
    return [*steps, ""] if path.endswith(".") or not path else steps
