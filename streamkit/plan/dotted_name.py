"""Names of columns and of the fields in them, joined by dots: `station.name`; a part that holds a dot stands in backticks."""

from __future__ import annotations

import re

_PARTS = re.compile(r"(?:`((?:[^`]|``)+)`|([^.`]+))(?:\.|\Z)")


def parts_of(name: str) -> list[str]:
    """The parts between the dots; those in backticks may hold dots themselves. Where backticks stand otherwise, they are part of the name."""
    found = list(_PARTS.finditer(name))
    if not name or name.endswith(".") or "".join(match[0] for match in found) != name:
        return name.split(".")
    return [match[1].replace("``", "`") if match[1] else match[2] for match in found]


def part(name: str) -> str:
    """One part as it stands in a dotted name."""
    return "`{}`".format(name.replace("`", "``")) if "." in name or "`" in name else name
