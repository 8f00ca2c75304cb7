"""An application that runs in this process, epoch by epoch, and that can die and start again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from streamkit.engine.epoch.epoch import EpochEnd
from streamkit.engine.epoch.report import EpochClaim
from streamkit.engine.runs.local import run_epoch, run_next
from streamkit.engine.runs.planner import EVERYTHING, Planner
from streamkit.engine.runs.start import start
from streamkit.errors import ConfigError
from streamkit.expressions.python.python_functions import called_twice
from streamkit.failpoints import POINTS, SimulatedCrash, armed
from streamkit.log.log import Log
from streamkit.plan.program import Program
from streamkit.state.stores import MemoryStores

EXTENTS_MAX = 24  # a plan file in memory costs less than to name more changes in every plan
EpochLimit = Callable[[], int]  # how many records the next epoch takes at most


class SteppedRun:
    """
    The generations of one application, one after another, each with tasks of its own and stores in memory.

    `records_max` bounds an epoch, as `max_records_per_epoch` does. A generation that dies loses its stores; the next one restores
    them from the changelogs. Users' functions are called twice, so that one which is not deterministic is an error: an epoch that
    is repeated after a crash must give what it gave. Each epoch runs within a block of `traced`.
    """

    def __init__(
        self,
        log: Log,
        program: Program,
        records_max: int | None = None,
        traced: Callable[[], AbstractContextManager[object]] = nullcontext,
    ) -> None:
        self._log = log
        self._program = program
        self._records_max = records_max
        self._traced = traced
        self._planner: Planner | None = None
        self._stores = MemoryStores()
        self._end: EpochEnd | None = None  # of the last epoch of this generation
        self._point: str | None = None
        self.is_counted = _is_counted(program)

    @property
    def is_alive(self) -> bool:
        return self._planner is not None

    def start(self, tasks: int) -> None:
        """Begin a generation."""
        log = self._log
        self._planner = start(
            log.catalog,
            log.storage,
            self._program,
            tasks=tasks,
            records_max=self._records_max,
            settings=log.settings,
            clock=log.clock,
        )

    def die(self) -> None:
        """Lose what is not committed, and every store."""
        self._planner, self._stores, self._end, self._point = None, MemoryStores(), None, None

    def die_at(self, point: str) -> None:
        """Die when this fail point is reached; ConfigError, which lists them, if there is none of that name."""
        if point not in POINTS:
            raise ConfigError(f"there is no fail point {point!r}; there are {', '.join(POINTS)}")
        self._point = point

    def process(self, cut: EpochLimit = lambda: EVERYTHING, *, waiting: int | None = None, epochs: int | None = None) -> int:
        """
        Run epochs of at most `cut()` records until nothing is left, at most `epochs`; returns how many records they took.

        If it is known that so many records are `waiting`, an epoch that took them all may be the last, which spares a look.
        """
        taken = 0
        while self._planner is not None and epochs != 0:
            claim = self._next_epoch(cut())
            if claim is None:
                break
            taken += claim.end.records
            epochs = None if epochs is None else epochs - 1
            if taken == waiting and self.is_counted:
                break
        return taken

    def drain(self) -> None:
        """Run the epoch that closes all windows, if one is open."""
        planner = self._planner
        if planner is None:
            return
        before = planner.committed_end()
        if (end := planner.closing_end(before)) is not None:
            with called_twice(), self._mortal(), self._traced():
                run_epoch(planner, before, end, planner.application.tasks, self._stores)
                self._end = None

    def _next_epoch(self, records: int) -> EpochClaim | None:
        claim, planner = None, self._planner
        assert planner is not None
        with called_twice(), self._mortal(), self._traced():
            claim = run_next(
                planner, splits=planner.application.tasks, stores=self._stores, records_max=records, before=self._end
            )
            self._planner = planner.with_near_anchor(EXTENTS_MAX)
            self._end = self._end if claim is None else claim.end
        return claim

    @contextmanager
    def _mortal(self) -> Iterator[None]:
        """Die in the block if the fail point is reached that was asked for."""
        if self._point is None:
            yield
            return
        try:
            with armed(self._point, _crash):
                yield
        except SimulatedCrash:
            self.die()


def _is_counted(program: Program) -> bool:
    """Whether each row that is piped is one record to process, and nothing else makes an epoch."""
    inputs = [source.topic for source in program.inputs]
    reads_output = bool(set(inputs) & {output.topic for output in program.outputs})
    return len(set(inputs)) == len(inputs) and not reads_output and not any(one.follows_clock for one in program.operators)


def _crash() -> None:
    raise SimulatedCrash
