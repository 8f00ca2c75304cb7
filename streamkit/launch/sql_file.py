"""A file in SQL under python and spark-submit: `spark-submit …/streamkit/launch/sql_file.py shop.sql --log DIR`."""

from __future__ import annotations

import sys

from streamkit.errors import StreamKitError
from streamkit.launch.main import main
from streamkit.sql.script.topology import load_sql

USAGE = "expected the file, then the options of a run, as in: sql_file.py shop.sql --log DIR"


def main_of_file(arguments: list[str]) -> None:
    """Run the topology of a file in SQL with the options behind it, as `sk.main` does; exits with 1 and the message if it cannot be read."""
    if not arguments or not arguments[0].endswith(".sql"):
        sys.exit(f"found {' '.join(arguments) or 'no arguments'}; {USAGE}")
    try:
        topology = load_sql(arguments[0])
    except StreamKitError as error:
        sys.exit(f"{type(error).__name__}: {error}")
    main(topology, arguments[1:])


if __name__ == "__main__":
    main_of_file(sys.argv[1:])
