"""Names of tables as settings have them: `orders`, `sales.items`, and in double quotes whatever else, as in `"Sales Data"."Order.Lines"`."""

from __future__ import annotations

import re

from streamkit.errors import ConfigError

NAME_BYTES_MAX = 63  # of any name; PostgreSQL cuts longer ones without an error, so that two of them may be one
_NO_NAME = re.compile(r"[^a-zA-Z0-9._-]")  # what the name of a topic cannot have
_PLAIN = re.compile(r"[^\".,\s*]+")
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
    for part in parts:
        if len(part.replace("*", "").encode()) > NAME_BYTES_MAX:
            raise ConfigError(
                f"found the table {written!r}, whose part {part!r} has {len(part.encode())} bytes; expected at most {NAME_BYTES_MAX}: PostgreSQL cuts "
                "longer names, so that two of them may be one table"
            )
    return tuple(parts)


def is_pattern(written: str) -> bool:
    """Whether a `*` outside of quotes stands for any letters."""
    return "*" in re.sub(r'"(?:[^"]|"")*"', "", written)


def likes_of(written: str) -> tuple[str | None, str]:
    """The patterns of LIKE for the schema, None for the schema of the user, and for the table."""
    parts = [re.sub(r"([\\%_])", r"\\\1", part).replace("*", "%") for part in table_parts(written)]
    return (parts[0], parts[1]) if len(parts) == 2 else (None, parts[0])


def spelled(schema: str | None, table: str) -> str:
    """The name of a table as the setting has it."""
    return ".".join(one if _PLAIN.fullmatch(one) else quoted_name(one) for one in (schema, table) if one is not None)


def topic_name(written: str) -> str:
    """The name as a topic can have it: what it cannot have is `_`."""
    return _NO_NAME.sub("_", ".".join(table_parts(written)))
