"""The name that a connector's slot and publication have unless its settings say one."""

from __future__ import annotations

import hashlib
import re
from typing import Any

from streamkit.connectors.postgres.table_name import NAME_BYTES_MAX

_PREFIX = "streamkit_"
_NO_LETTERS = re.compile(r"[^a-z0-9_]")
_FORMER_LENGTH = 50
_DIGEST_LENGTH = 8


def own_name(connector: str) -> str:
    """The name as it is, or with a digest behind it where PostgreSQL's rules for slots change it: `a-b` and `a_b` are two connectors."""
    former = former_name(connector)
    if former == _PREFIX + connector:
        return former
    digest = hashlib.sha256(connector.encode()).hexdigest()[:_DIGEST_LENGTH]
    return f"{former[: NAME_BYTES_MAX - _DIGEST_LENGTH - 1]}_{digest}"


def former_name(connector: str) -> str:
    """The name without a digest, which earlier versions gave."""
    return _PREFIX + _NO_LETTERS.sub("_", connector.lower())[:_FORMER_LENGTH]


def mark_of(connector: str) -> str:
    """The comment on a publication that a connector has made."""
    return f"made by StreamKit for the connector {connector}"


def has_made(connection: Any, publication: str, connector: str) -> bool:
    """Whether the connector has made the publication of that name."""
    query = "SELECT 1 FROM pg_publication WHERE pubname = %s AND obj_description(oid, 'pg_publication') = %s"
    return connection.execute(query, (publication, mark_of(connector))).fetchone() is not None
