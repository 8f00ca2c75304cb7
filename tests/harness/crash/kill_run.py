"""
The process that gets killed: the sales on Spark or in one process.

    python -m tests.harness.crash.kill_run LOG ENGINE TASKS RECORDS END

Tasks 0: as many as before. END is `drain` (until everything is processed and all windows are closed) or `never`.
"""

from __future__ import annotations

import sys
from typing import Literal

from streamkit.launch.run import run
from streamkit.log.opening import open_log
from tests.kit import sales


def main(folder: str, engine: Literal["spark", "local"], tasks: str, records_max: str, end: Literal["drain", "never"]) -> None:
    count, limit = int(tasks) or None, int(records_max)
    with open_log(folder) as log:
        drain = end == "drain"
        run(sales.load_program(), log=log, tasks=count, max_records_per_epoch=limit, drain=drain, engine=engine).wait()


if __name__ == "__main__":
    main(*sys.argv[1:])  # type: ignore[arg-type]
