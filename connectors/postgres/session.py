"""
What a session must be like for connectors, whatever the address, the user's role, the database or the environment says.

Each of these settings changes what a statement means, what a text is read as, or how a value is spelled. Those that say what values
are in the database, such as `search_path`, the order of `DateStyle` and `lc_monetary`, are left as they are.
"""

from __future__ import annotations

from collections.abc import Mapping

QUOTING = "quote_all_identifiers"
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
    "statement_timeout": "0",
    "transaction_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
    "idle_session_timeout": "0",
    "lc_messages": "C",  # which only a superuser may set
}
SOURCE = _OF_ALL | {"IntervalStyle": "iso_8601", "row_security": "off"}  # an error where policies would hide rows
TARGET = _OF_ALL | {"IntervalStyle": "postgres"}  # by which texts are read, too: a minus counts for one field


def beginning(settings: Mapping[str, str]) -> str:
    """The statement that a session begins with; it leaves out settings that the server has not, or that the user may not set."""
    values = ", ".join(f"('{name}', '{value}')" for name, value in settings.items())
    return (
        f"SELECT set_config(s.name, v.value, false) FROM (VALUES {values}) AS v (name, value) JOIN pg_catalog.pg_settings s USING (name) "
        "WHERE s.context = 'user' OR current_setting('is_superuser') = 'on'"
    )
