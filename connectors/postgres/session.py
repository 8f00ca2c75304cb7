"""
What a session must be like for connectors, whatever the address, the user's role, the database or the environment says.

Each of these settings changes what a statement means, what a text is read as, or how a value is spelled. Those that say what values
are in the database, such as `search_path`, the order of `DateStyle` and `lc_monetary`, are left as they are.
"""

from __future__ import annotations

from collections.abc import Mapping

QUOTING, REPLICATION_ROLE = "quote_all_identifiers", "session_replication_role"
# Of a driver's own first query, which servers of any version have.
AT_ONCE = {QUOTING: "off", "statement_timeout": "0", "lock_timeout": "0", "exit_on_error": "off"}
_OF_ALL = {
    "client_encoding": "UTF8",
    "standard_conforming_strings": "on",
    QUOTING: "off",  # also of names of types
    "array_nulls": "on",
    "DateStyle": "ISO",  # its order stays: a database may read 01.02.2020 by day, month and year
    "TimeZone": "UTC",
    "extra_float_digits": "3",
    "bytea_output": "hex",
    "xmloption": "content",
    "transform_null_equals": "off",
    "exit_on_error": "off",
    "default_transaction_isolation": "read committed",
    "default_transaction_read_only": "off",
    "default_transaction_deferrable": "off",
    "statement_timeout": "0",
    "lock_timeout": "0",
    "transaction_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
    "idle_session_timeout": "0",
    "timezone_abbreviations": "Default",  # elsewhere EST is a zone of Australia
    "synchronous_commit": "on",  # a position that is said to be committed outlives the server
    "zero_damaged_pages": "off",  # which would leave out rows of pages that are broken
    "ignore_checksum_failure": "off",
    REPLICATION_ROLE: "origin",  # by another one foreign keys and triggers do nothing
    "lc_messages": "C",  # which only a superuser may set, as those of damaged pages and of replication
}
_STRICTER = {
    "synchronous_commit": ("local", "remote_write", "remote_apply")
}  # what stays as it is: each outlives the server, too
SOURCE = _OF_ALL | {"IntervalStyle": "iso_8601", "row_security": "off"}  # an error where policies would hide rows
TARGET = _OF_ALL | {"IntervalStyle": "postgres"}  # by which texts are read, too: a minus counts for one field


def beginning(settings: Mapping[str, str]) -> str:
    """The statement that a session begins with; it leaves out settings that the server has not, or that the user may not set."""
    stricter = " OR ".join(f"s.name = '{name}' AND s.setting IN {kept}" for name, kept in _STRICTER.items())
    values = ", ".join(f"('{name}', '{value}')" for name, value in settings.items())
    return (
        f"SELECT set_config(s.name, v.value, false) FROM (VALUES {values}) AS v (name, value) JOIN pg_catalog.pg_settings s USING (name) "
        f"WHERE (s.context = 'user' OR current_setting('is_superuser') = 'on') AND NOT ({stricter})"
    )
