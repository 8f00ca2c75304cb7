"""Settings that a database, a role or an address may have, and that no result of a connector may depend on."""

from __future__ import annotations

from typing import Any

ODD = {
    "client_encoding": "LATIN1",
    "standard_conforming_strings": "off",
    "escape_string_warning": "off",
    "backslash_quote": "off",
    "quote_all_identifiers": "on",
    "array_nulls": "off",
    "DateStyle": "SQL",
    "IntervalStyle": "sql_standard",
    "TimeZone": "Asia/Tokyo",
    "extra_float_digits": "-10",
    "bytea_output": "escape",
    "xmloption": "document",
    "xmlbinary": "hex",
    "transform_null_equals": "on",
    "exit_on_error": "on",
    "default_transaction_isolation": "serializable",
    "default_transaction_read_only": "on",
    "default_transaction_deferrable": "on",
    "statement_timeout": "1",
    "lock_timeout": "1",
    "idle_in_transaction_session_timeout": "500",
    "timezone_abbreviations": "Australia",
    "session_replication_role": "replica",
    "zero_damaged_pages": "on",
    "ignore_checksum_failure": "on",
    "row_security": "off",
    "synchronous_commit": "off",
}


def set_oddly(connection: Any) -> None:
    """Give the connection's database these settings, for the sessions that begin from now on."""
    connection.execute(
        "; ".join(f"ALTER DATABASE {connection.info.dbname} SET {name} = '{value}'" for name, value in ODD.items())
    )
