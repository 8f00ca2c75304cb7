"""The topology in a file: of Python, the one that it runs, else the one that it assigns at module level; of SQL, that of all its queries."""

from __future__ import annotations

import sys
import traceback
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import cloudpickle

from streamkit.dsl.handover import taking_over
from streamkit.dsl.topology import Topology
from streamkit.errors import ConfigError, Location, StreamKitError, TopologyError


def load_topology(path: str) -> Topology:
    """
    Run a Python file as an import would, and return its topology; `sk.main(topology)` in it says which, and runs nothing.

    A file whose name ends with `.sql` is read as a script. ConfigError if there is no such file, or no topology or more than one in it;
    TopologyError with the line if the file itself fails.
    """
    if path.endswith(".sql"):
        from streamkit.sql.script.topology import load_sql  # a file of Python pays for none

        return load_sql(path)
    with taking_over() as taken:
        module = _load_module(Path(path))
    found = {id(topology): (topology.name, topology) for topology in taken} or _assigned(module)
    if len(found) != 1:
        names = ", ".join(name for name, _ in found.values()) or "none"
        raise ConfigError(
            f"{path} has the topologies: {names}; expected one at module level, as in app = sk.Topology({Path(path).stem!r}), "
            "or sk.main(app) for the one to run"
        )
    ((_, topology),) = found.values()
    return topology


def _assigned(module: ModuleType) -> dict[int, tuple[str, Topology]]:
    """The topologies at module level, by identity, each with the first of its names."""
    found: dict[int, tuple[str, Topology]] = {}
    for name, value in vars(module).items():
        if isinstance(value, Topology):
            found.setdefault(id(value), (name, value))
    return found


def _load_module(path: Path) -> ModuleType:
    if not path.is_file():
        raise ConfigError(f"there is no file {str(path)!r}; expected a Python file with a topology")
    spec = spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ConfigError(f"{path} is no Python file; expected one with a topology")
    module = module_from_spec(spec)
    sys.modules[path.stem] = module
    cloudpickle.register_pickle_by_value(module)  # its functions travel whole, since tasks cannot import the file
    sys.path.insert(0, str(path.parent.resolve()))  # what lies beside it can be imported, as when it is run itself
    try:
        spec.loader.exec_module(module)
    except StreamKitError:
        raise
    except Exception as error:
        failed = f"{path} fails: {type(error).__name__}: {error}; no topology can be made of it"
        raise TopologyError(failed, _failing_line(error, path)) from error
    return module


def _failing_line(error: Exception, path: Path) -> Location | None:
    """The innermost line of the file, or of one beside it, in which an error was raised."""
    if isinstance(error, SyntaxError) and error.filename and error.lineno:
        return Location(error.filename, error.lineno)
    folder = path.parent.resolve()
    calls = [one for one in traceback.extract_tb(error.__traceback__) if Path(one.filename).resolve().parent == folder]
    return Location(calls[-1].filename, calls[-1].lineno or 1) if calls else None
