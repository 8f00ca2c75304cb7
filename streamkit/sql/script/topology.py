"""A script in SQL as a topology."""

from __future__ import annotations

from pathlib import Path

from streamkit.dsl.topology import Topology
from streamkit.errors import ConfigError, SqlError
from streamkit.plan.location import IN_PYTHON, TextLocation
from streamkit.sql.lowering.script_text import ScriptText
from streamkit.sql.reader.script import read_script
from streamkit.sql.script.script import lowered_script


def topology_of(text: str, name: str, file: str = IN_PYTHON) -> Topology:
    """
    The topology of a script: all its queries are one application, which is called `name` unless the script sets another.

    SqlError with all faults of the script, each with its place.
    """
    statements = read_script(text, file=file)
    topology, faults = lowered_script(statements, ScriptText(text, file), name)
    if faults:
        raise SqlError(
            sorted(faults, key=lambda one: (one.at.line, one.at.column) if isinstance(one.at, TextLocation) else (0, 0))
        )
    if not topology.roots:
        raise ConfigError(
            f"{'the text' if file == IN_PYTHON else repr(file)} has no query that goes on, so nothing would run; expected CREATE STREAM … AS "
            "SELECT, CREATE TABLE … AS SELECT, or INSERT INTO … SELECT"
        )
    return topology


def load_sql(path: str | Path) -> Topology:
    """
    Give the topology of a file in SQL; the application is called as the file without `.sql`, unless the file sets another name.

    ConfigError if there is no such file, TopologyError with the places of all faults in it.

        sk.run(sk.load_sql("shop.sql"))
    """
    if not isinstance(path, (str, Path)):
        raise ConfigError(f"the file of load_sql is {path!r}; expected its path, as in load_sql('shop.sql')")
    file = Path(path)
    try:
        text = file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text in UTF-8"
        raise ConfigError(f"cannot read {str(file)!r}: {reason}; expected a file with statements in SQL") from None
    return topology_of(text, file.stem, str(file))
