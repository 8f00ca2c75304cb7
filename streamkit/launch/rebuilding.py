"""The rebuild of stores in front of a run, as both `sk.run` and command lines ask for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from streamkit.dsl.topology import Topology
from streamkit.engine.runs.compile import compile_with_settings
from streamkit.engine.runs.local_epochs import available_cores
from streamkit.engine.runs.options import Options
from streamkit.engine.runs.rebuild import Rebuild, rebuild_stores
from streamkit.log.log import Log
from streamkit.plan.program import Program


def rebuild_with(
    topology: Topology | Program,
    log: Log,
    options: Options,
    stores: Sequence[str],
    accepts_loss: bool,
    is_stopped: Callable[[], bool] = lambda: False,
    tell: Callable[[int, int], None] = lambda done, total: None,
) -> None:
    """Fill stores of a topology again from their topics in this process, with the options of the run that follows."""
    program = topology if isinstance(topology, Program) else compile_with_settings(topology, log)
    wanted = Rebuild(
        tuple(dict.fromkeys(stores)), accepts_loss, available_cores(), options.max_records_per_epoch, is_stopped, tell
    )
    rebuild_stores(log, program, wanted)
