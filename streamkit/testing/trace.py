"""
`sk.trace`: what each record does on its way through a topology, to be read step by step.

The records go through the engine one at a time, in one process and in memory. So a trace needs no Spark, and changes nothing in a log.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from streamkit.dsl.topology import Topology
from streamkit.engine.runs.planner import EVERYTHING
from streamkit.errors import ConfigError, StreamKitError
from streamkit.testing.driver import ALL, ONE, DeclaredTopic, TopologyTestDriver
from streamkit.testing.trace_page import page

if TYPE_CHECKING:
    from streamkit.log.log import Log
    from streamkit.plan.analysis import Analyzer

RECORDS_MAX = 200


@final
@dataclass(frozen=True)
class Trace:
    """
    The epochs of a topology, most of them with one record; made by `streamkit.trace`.

    `epochs` are plain values, one dict each: `records`, `steps`, `stores` (rows before and after), `written`, `left_out` (by step and
    reason), `stream_time`, the `error` that ended it, and the `failed_step`. `text()` says the same in words, `to_html(path)` shows it as a page
    with a slider. A notebook shows a trace in place. `is_cut`: there were more records than were asked for.
    """

    application: str
    epochs: tuple[dict[str, Any], ...]
    lines: tuple[str, ...]
    picture: str
    is_cut: bool = False

    def __len__(self) -> int:
        return len(self.epochs)

    def __repr__(self) -> str:
        return f"Trace({self.application!r}, {len(self)} epochs{', cut' if self.is_cut else ''})"

    def text(self) -> str:
        """What each epoch did, in words."""
        found = [f"-- {number} of {len(self)}\n{lines}" for number, lines in enumerate(self.lines, 1)]
        return "\n\n".join(
            [*found, *(["-- there are more records; max_records= says how many epochs are traced"] if self.is_cut else [])]
        )

    def to_json(self) -> str:
        """The epochs as JSON text."""
        return json.dumps(self.epochs)

    def to_html(self, path: str | Path | None = None) -> str:
        """The trace as an HTML page that needs no other file; returned, and written to a file if a path is given."""
        text = page(self.application, self.picture, self.epochs, is_cut=self.is_cut)
        if path is not None:
            Path(path).write_text(text, encoding="utf-8")
        return text

    def _repr_html_(self) -> str:
        # A frame of its own, since a notebook's page may have several traces, and styles of its own.
        quoted = self.to_html().replace("&", "&amp;").replace('"', "&quot;")
        return f'<iframe srcdoc="{quoted}" style="width:100%;height:640px;border:0" title="trace of {self.application}"></iframe>'


def trace(
    topology: Topology,
    rows: Mapping[str, Any] | Sequence[tuple[str, Any]],
    *,
    before: Mapping[str, Any] | None = None,
    topics: Mapping[str, DeclaredTopic] | None = None,
    log: Log | None = None,
    max_records: int = RECORDS_MAX,
    drain: bool = False,
    analyzer: Analyzer | None = None,
) -> Trace:
    """
    Run records through a topology one at a time, and record what each one did.

    Args:
        topology: the topology; it runs only in this process.
        rows: by topic, rows as `pipe` of the test driver accepts them: dicts, tables or DataFrames, with `_timestamp` and `_deleted` if
            wanted, and with the places that `log.read` returns (`_partition`, `_offset`). The records are read by their times, as an
            application reads records that wait. Or pairs of topic and row, which are read in their order.
        before: rows that are processed before all others, and not traced, such as the rows of tables with which records are joined.
        topics: the columns of inputs that have no `schema=`, as for `TopologyTestDriver`.
        log: a log whose declarations of topics are used instead; its rows are not used.
        max_records: how many epochs are traced at most.
        drain: close all windows at the end, as an epoch of its own.
        analyzer: what types the expressions; see `streamkit.compile`.

    An error in a step ends the trace, and the last epoch shows the step and the error. ConfigError for options out of
    range, and what `streamkit.compile` raises.
    """
    if max_records < 1:
        raise ConfigError(f"max_records={max_records!r}; expected 1 or more")
    is_ordered = not isinstance(rows, Mapping)
    pairs = list(rows.items()) if isinstance(rows, Mapping) else list(rows)
    with TopologyTestDriver(
        topology,
        topics=topics,
        log=log,
        batching=ONE if is_ordered else ALL,
        analyzer=analyzer,
        traced_epochs=max_records + 1,
        keeps_columns=True,
    ) as driver:
        is_cut, error = False, None
        try:
            _process_untraced(driver, before or {})
            for topic, given in pairs[: max_records if is_ordered else None]:
                driver.pipe(topic, given)
            is_cut = len(pairs) > max_records if is_ordered else _step_through(driver, max_records)
            if drain and not is_cut:
                driver.drain()
        except StreamKitError as raised:
            error = raised
        epochs = driver.traced()[:max_records]
        if error is not None and not (epochs and epochs[-1].error):
            raise error  # it is of the rows, or of the topology, and of no step
        values, lines = tuple(one.to_json() for one in epochs), tuple(one.text() for one in epochs)
        return Trace(topology.name, values, lines, topology.to_svg(), is_cut)


def _process_untraced(driver: TopologyTestDriver, before: Mapping[str, Any]) -> None:
    for topic, given in before.items():
        driver.pipe(topic, given)
    while before and driver.step(EVERYTHING):
        pass
    driver.forget_traced()


def _step_through(driver: TopologyTestDriver, max_records: int) -> bool:
    """Process so many records one at a time; returns whether some are left."""
    for _ in range(max_records):
        if not driver.step():
            return False
    return driver.step()
