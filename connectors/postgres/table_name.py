"""Names of tables as settings have them: `orders`, `sales.items`, and in double quotes whatever else, as in `"Sales Data"."Order.Lines"`."""

from __future__ import annotations

import re

from streamkit.errors import ConfigError

_NO_NAME = re.compile(r"[^a-zA-Z0-9._-]")  # what the name of a topic cannot have
_PART = re.compile(r'\s*(?:"((?:[^"]|"")+)"|([^".]+))\s*(\.|$)')


def quoted_name(name: str) -> str:
    """One name as SQL has it, with whatever it has in it."""
    return '"' + name.replace('"', '""') + '"'


def quoted_table(written: str) -> str:
    """A table's name as SQL has it; a dot outside of quotes stands between schema and table. Capitals count with and without quotes."""
    return ".".join(map(quoted_name, table_parts(written)))


def table_parts(written: str) -> tuple[str, ...]:
    """The schema, if there is one, and the table; ConfigError for a text that names none."""
    parts, at = [], 0
    while match := _PART.match(written, at):
        parts.append(match[1].replace('""', '"') if match[1] else match[2].strip())
        at = match.end()
        if not match[3]:
            break
    if at != len(written) or not 1 <= len(parts) <= 2 or not all(parts):
        raise ConfigError(
            f"found the table {written!r}; expected a name such as orders, sales.items, or in double quotes what has dots in it: "
            '"Sales Data"."Order.Lines"'
        )
    return tuple(parts)


def topic_name(written: str) -> str:
    """The name as a topic can have it: what it cannot have is `_`."""
    return _NO_NAME.sub("_", ".".join(table_parts(written)))
