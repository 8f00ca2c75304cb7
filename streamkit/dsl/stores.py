"""Stores of processors, for `Topology.add_store` and `Stream.process`."""

from __future__ import annotations

from streamkit.errors import ConfigError, SchemaError, TopologyError
from streamkit.plan.length import Duration, length_ms
from streamkit.plan.location import user_location
from streamkit.plan.store_definition import KEY_VALUE, SESSION, VERSIONED, WINDOW, StoreDefinition
from streamkit.schema import Schema, check_user_schema


def key_value_store(name: str, *, key: str | Schema, value: str | Schema) -> StoreDefinition:
    """
    Declare a store that keeps one value for each key.

    `key` and `value` are columns: key="customer string", value="orders int, last timestamp". A processor reads it by
    `get`, `range`, `prefix_scan` and `all`, and writes it by `put`, `put_if_absent`, `put_all` and `delete`.
    Raises TopologyError for columns that cannot be a key or a value.
    """
    return _definition(name, KEY_VALUE, key, value)


def window_store(
    name: str,
    *,
    key: str | Schema,
    value: str | Schema,
    size: Duration,
    retention: Duration,
    retain_duplicates: bool = False,
) -> StoreDefinition:
    """
    Declare a store that keeps a value for each key and start of a window.

    `size` tells when a window ends. A window is gone when stream time has reached its start plus `retention`, which is at
    least the size. With `retain_duplicates` every value that is put is kept, and none can be deleted.
    """
    size_ms, retention_ms = length_ms(size, "window size"), length_ms(retention, "retention")
    if size_ms <= 0 or retention_ms < size_ms:
        raise TopologyError(
            f"the store {name!r} keeps windows of {size} for {retention}; expected a positive size and at least as long a retention",
            user_location(),
        )
    return _definition(name, WINDOW, key, value, retention_ms, size_ms, retain_duplicates)


def session_store(name: str, *, key: str | Schema, value: str | Schema, retention: Duration) -> StoreDefinition:
    """
    Declare a store that keeps a value for each key, start and end of a session.

    A session is gone when stream time has reached its end plus `retention`.
    """
    return _definition(name, SESSION, key, value, length_ms(retention, "retention"))


def versioned_store(name: str, *, key: str | Schema, value: str | Schema, history_retention: Duration) -> StoreDefinition:
    """
    Declare a store that keeps the versions of each key's value, by the time from which each is valid.

    Versions that stopped being valid more than `history_retention` before stream time are gone, and older ones are not taken;
    the newest of a key stays.
    """
    return _definition(name, VERSIONED, key, value, length_ms(history_retention, "history retention"))


def _definition(
    name: str,
    kind: str,
    key: str | Schema,
    value: str | Schema,
    retention_ms: int | None = None,
    window_size_ms: int | None = None,
    retain_duplicates: bool = False,
) -> StoreDefinition:
    try:
        columns, values = (check_user_schema(Schema.parse(schema)) for schema in (key, value))
        return StoreDefinition(name, kind, columns, values, retention_ms, window_size_ms, retain_duplicates)
    except (SchemaError, ConfigError) as error:
        raise TopologyError(str(error), user_location()) from None
    except TopologyError as error:
        raise TopologyError(error.message, user_location()) from None
