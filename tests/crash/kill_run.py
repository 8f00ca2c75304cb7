"""
The process that gets killed: the sales on Spark, until everything is processed and all windows are closed.

    python -m tests.crash.kill_run LOG TASKS RECORDS        tasks 0: as many as before
"""

from __future__ import annotations

import sys

from streamkit.launch.run import run
from streamkit.log.opening import open_log
from tests.crash import sales


def main(folder: str, tasks: str, records_max: str) -> None:
    with open_log(folder) as log:
        run(sales.load_program(), log=log, tasks=int(tasks) or None, max_records_per_epoch=int(records_max), drain=True).wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
