"""
The users' functions of a query, with what they capture, as a file: a model of 20 MB must not travel in every text of the job.

The file lies in the checkpoint's folder, whose name is a fresh one for each start, and goes with it. It is called by its digest, which
each process of the query compares before it unpickles anything.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import cloudpickle

from streamkit.errors import ConfigError, CorruptionError, TopologyError
from streamkit.expressions.python.python_functions import functions_in, known_functions
from streamkit.log.storage.storage import sync_folder
from streamkit.names import functions_path
from streamkit.plan.program import Program


def write_functions(program: Program, root: str, checkpoint: str) -> str:
    """
    Write the functions that a program calls beside a checkpoint of the log with this root; returns the path of their file below the root.

    Empty if there are none. TopologyError if one cannot leave this process.
    """
    functions = known_functions(functions_in(program))
    if not functions:
        return ""
    try:
        data = cloudpickle.dumps(functions)
    except Exception as error:
        raise TopologyError(
            f"the functions {', '.join(one.name for one in functions.values())} cannot be sent to the processes of the query: {error}; "
            "expected functions that capture no connection, lock or open file"
        ) from error
    path = functions_path(checkpoint, hashlib.sha256(data).hexdigest())
    file = Path(root, path)
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as opened:
        opened.write(data)
        opened.flush()
        os.fsync(opened.fileno())
    sync_folder(str(file.parent))
    return path


def read_functions(root: str, path: str) -> dict[str, Any]:
    """
    The functions of a file that `write_functions` has written, by their names in plans.

    ConfigError if it is gone, because a newer start or the end of the run has removed it; CorruptionError if it is not what was written.
    """
    try:
        data = Path(root, path).read_bytes()
    except FileNotFoundError as error:
        raise ConfigError(
            f"the functions of the query are not there: {path} is missing in {root}; expected it until the run ends or the application is "
            "started again: start it again"
        ) from error
    if hashlib.sha256(data).hexdigest() != os.path.basename(path):
        raise CorruptionError(
            f"the file of the query's functions, {path} in {root}, is not what was written; start the application again"
        )
    functions: dict[str, Any] = cloudpickle.loads(data)
    return functions
