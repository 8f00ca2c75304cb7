"""Connections to PostgreSQL as a source: texts in one spelling, and which errors pass."""

from __future__ import annotations

import importlib
import re
from collections.abc import Mapping
from typing import Any

from streamkit.connectors.connector import needed
from streamkit.connectors.postgres import session
from streamkit.errors import ConfigError

PASSING = ("08", "40", "53", "55", "57")  # classes of SQLSTATE: connection, serialization, resources, in use, shutdown
PORT_MAX = 65535
NOWHERE = "/nowhere"  # a folder without a socket of a server
_INTEGER = re.compile(r"\s*[+-]?\d+\s*")
_OF_ADDRESS = re.compile(
    r"invalid (integer value|port number|\"?\w+\"? value|connection option)|could not match \d+ (host|port)|missing \"=\""
)
NOTICING = {  # of a network that is cut: it says nothing, and a query would wait for hours
    "connect_timeout": 30,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 60_000,
}
NOTICING_OPTIONS = ("keepalives", *NOTICING)  # which are whole numbers


def library() -> Any:
    """The module psycopg."""
    try:
        return importlib.import_module("psycopg")
    except ModuleNotFoundError:
        raise needed("psycopg", "postgres") from None


def connect(url: str, **settings: Any) -> Any:
    """A connection in which values are spelled as `source_type` reads them, and that notices a server which is gone."""
    psycopg = library()
    connection = psycopg.connect(noticing(url), autocommit=True, **settings)
    try:
        connection.execute(session.beginning(session.SOURCE))
    except psycopg.OperationalError:  # such as a time limit, by which the server may end the session
        connection.close()
        connection = psycopg.connect(at_once(noticing(url)), autocommit=True, **settings)
        connection.execute(session.beginning(session.SOURCE))
    return connection


def check_encoding(connection: Any) -> None:
    """ConfigError for a database whose texts are of no encoding: the server converts none, and one that is no UTF-8 would stop the source."""
    if connection.info.parameter_status("server_encoding") == "SQL_ASCII":
        raise ConfigError(
            f"the database {connection.info.dbname} has the encoding SQL_ASCII, so nobody knows what its texts are, and PostgreSQL sends none "
            "that is no UTF-8; expected a database of UTF8, or another encoding: dump it, and restore it into one "
            f"(pg_dump -E LATIN1 {connection.info.dbname}, CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0)"
        )


def check_address(url: str) -> None:
    """
    ConfigError for an address that can be none, so that no task tries it again and again; nothing is opened, and nothing of it shown.

    Where the library is not there it is looked at when it is used.
    """
    try:
        psycopg = library()
    except ConfigError:
        return
    expected = (
        "expected something like postgresql://user:password@host:5432/database, with %2F for a / and %40 for an @ in a password"
    )
    if not url.strip():
        raise ConfigError(f"connection.url is empty; {expected}")
    try:
        found = psycopg.conninfo.conninfo_to_dict(url)
    except psycopg.ProgrammingError:
        raise ConfigError(f"connection.url is no address of PostgreSQL; {expected}") from None
    ports = [port for port in str(found.get("port") or "").split(",") if port]
    if not all(port.isascii() and port.isdigit() and 0 < int(port) <= PORT_MAX for port in ports):
        raise ConfigError(f"connection.url has a port that is no number from 1 to {PORT_MAX}; {expected}")
    if found.get("replication") is not None:
        raise ConfigError(
            "connection.url has an option that is not its own: a source sets replication where it needs it; expected none"
        )
    _check_options(found)


def _check_options(found: Mapping[str, Any]) -> None:
    """ConfigError for a value that the library refuses; it is asked for a socket that is not there, so that it opens nothing."""
    wrong = [name for name in NOTICING_OPTIONS if not _INTEGER.fullmatch(str(found.get(name, 0)))]
    hosts = str(found.get("hostaddr") or found.get("host") or "").count(",") + 1
    others = {name: value for name, value in found.items() if name not in ("hostaddr", "service")}
    address = library().conninfo.make_conninfo("", **others | {"host": ",".join([NOWHERE] * hosts)})
    if not wrong:
        connection = library().pq.PGconn.connect_start(address.encode())
        said = _OF_ADDRESS.search(connection.error_message.decode(errors="replace"))
        connection.finish()
        wrong = [said[0]] if said else []
    if wrong:
        raise ConfigError(
            f"connection.url has an option whose value can be none: {wrong[0]}; expected one that PostgreSQL's library takes, such as "
            "sslmode=require or keepalives=1"
        )


def is_of_address(error: Exception) -> bool:
    """Whether the library refuses the address itself: it would do so again."""
    return _OF_ADDRESS.search(str(error)) is not None


def noticing(url: str) -> str:
    """The address with keep-alives and time limits, where it has none of its own."""
    parts = library().conninfo
    return str(parts.make_conninfo(**NOTICING | parts.conninfo_to_dict(url)))


def at_once(url: str) -> str:
    """
    The address whose sessions have no time limit, and do not quote names of types, from their first statement on.

    The driver of the sink has a query of its own. A pooler may refuse such an address, so it is for where the plain one does not do.
    """
    parts = library().conninfo
    found = parts.conninfo_to_dict(url)
    options = [found.get("options") or "", *(f"-c {name}={value}" for name, value in session.AT_ONCE.items())]
    return str(parts.make_conninfo(**found | {"options": " ".join(options)}))


def passes(error: Exception) -> bool:
    """Whether an error of the library may go away by itself."""
    psycopg = library()
    if not isinstance(error, psycopg.Error):
        return False
    if error.sqlstate is None:
        return isinstance(error, psycopg.OperationalError) and not is_of_address(error)
    return error.sqlstate[:2] in PASSING


def gone() -> tuple[type[Exception], ...]:
    """The library's errors for a table, a column or another object that is not there any more."""
    errors = library().errors
    return (errors.UndefinedTable, errors.UndefinedColumn, errors.UndefinedObject)


def sqlstate_of(result: Any) -> str:
    """The code of a result's error; empty if it has none."""
    code = result.error_field(library().pq.DiagnosticField.SQLSTATE)
    return code.decode() if code else ""
