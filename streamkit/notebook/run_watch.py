"""`run.watch()`: the graph of a run with what its steps do, where it stands, and what its last epochs took."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import replace
from html import escape
from typing import Any, final

import numpy as np

from streamkit.connectors.files.record_lines import json_text
from streamkit.description.applications import epochs_of
from streamkit.engine.runs.application_run import Run
from streamkit.engine.runs.step_figures import StepFigures, step_figures
from streamkit.html_table import html_table
from streamkit.log.catalog.applications import ApplicationState
from streamkit.log.input_lag import input_partitions
from streamkit.log.log import Log
from streamkit.notebook.watch import Watch
from streamkit.plan.graph.graph import Box, BoxText
from streamkit.plan.graph.layout import drawing_of
from streamkit.plan.graph.program_graph import graph_of_program
from streamkit.plan.picture import picture
from streamkit.serve.graph import drawn_program
from streamkit.state.restoring import restoring_now, restoring_text

EPOCHS = 40
# What the view of epochs shows, and no more: the values travel to the browser after each epoch.
EPOCH_FIGURES = (
    "epoch", "time", "records", "lag", "plan_ms", "tasks_ms", "commit_ms", "slowest_task_ms", "mean_task_ms", "oldest_since_arrival_ms", "late",
)  # fmt: skip
STEP_TITLES = ("step", "rows in", "rows out", "busy", "left out")


@final
class RunWatch(Watch):
    """A run, shown in a notebook; it ends with the run, and then shows the totals of the application."""

    VIEW = "run"

    def __init__(self, run: Run) -> None:
        super().__init__(run.log)
        self._run = run
        self._epoch: tuple[int, int] | None = None  # generation and number of the newest that is known
        self._figures: tuple[StepFigures, ...] = ()
        self._values |= {
            "drawing": drawn_program(run.program), "steps": [], "facts": [], "epochs": [], "looked_ms": None, "chosen": None
        }  # fmt: skip

    def _end_of(self) -> str | None:
        return (
            None if self._run.is_active else "The run has ended; the figures are totals since the first start of the application."
        )

    def _is_over(self) -> bool:
        return super()._is_over() or self._run._has_ended.is_set()

    def _look(self, log: Log) -> Mapping[str, Any]:
        is_active = self._run.is_active  # before the look, which then sees the last epoch
        state = log.catalog.applications.get(self._run.program.application)
        self._figures = step_figures(self._run.program, state.metrics)
        found = {
            "facts": self._facts(log, state),
            "steps": [one.to_json() for one in self._figures],
            "looked_ms": time.monotonic() * 1000 if is_active else None,
        }
        if self._epoch != (state.generation, state.epoch) or not is_active:
            self._epoch = (state.generation, state.epoch)
            found["epochs"] = self._newest_epochs(log)
        return found

    def _leave(self) -> None:
        """Looks at a run open nothing."""

    def _newest_epochs(self, log: Log) -> list[dict[str, Any]]:
        """The last epochs as values of JSON; only those are read that are not known, and the one before them, whose commit is told later."""
        known: list[dict[str, Any]] = self._values["epochs"]
        newest = known[-1]["epoch"] if known else 0
        state = log.catalog.applications.get(self._run.program.application)
        read = epochs_of(log, state.name, max(1, min(EPOCHS, state.epoch - newest + 1)))
        chosen = [{name: epoch[name] for name in EPOCH_FIGURES} for epoch in read]
        fresh: list[dict[str, Any]] = json.loads(json_text(chosen))
        first = fresh[0]["epoch"] if fresh else newest + 1
        return [*(epoch for epoch in known if epoch["epoch"] < first), *fresh][-EPOCHS:]

    def _facts(self, log: Log, state: ApplicationState) -> list[list[str]]:
        """Names and texts of what there is to say, without what is nothing."""
        metrics, run = state.metrics, self._run
        counts = {name: sum(metrics.get(name, {}).values()) for name in ("late", "null_key", "error")}
        utc = None if state.stream_time_ms is None else f"{np.datetime64(state.stream_time_ms, 'ms')}Z"
        restoring = restoring_now(log.storage.root, state.name)
        facts = {
            "state": run._situation(),
            "epoch": f"{state.epoch:,}",
            "records": f"{int(metrics.get('records', 0)) - (run._records_before or 0):,}",
            "records that wait": f"{sum(one.lag for one in input_partitions(log, state)):,}",
            "stream time": utc,
            "tasks": str(state.tasks),
            "late": f"{counts['late']:,}",
            "without a key": f"{counts['null_key']:,}" if counts["null_key"] else None,
            "errors": f"{counts['error']:,}" if counts["error"] else None,
            "waits for": run.waits_for(),
            "restores": restoring_text(restoring) if restoring else None,
        }
        return [[name, text] for name, text in facts.items() if text is not None]

    def _text(self) -> str:
        facts = dict(self._values["facts"])
        told = [f"{name} {facts[name]}" for name in ("epoch", "records", "records that wait", "late") if name in facts]
        note = f"; {self._values['note']}" if self._values["note"] else ""
        return f"{self._run.program.application!r}: {', '.join([facts.get('state', 'unknown'), *told])}{note}"

    def _html(self) -> str:
        application = self._run.program.application
        graph = graph_of_program(self._run.program)
        totals = {one.step: one for one in self._figures}
        boxes = tuple(replace(box, texts=(*box.texts, *_totals(box, totals))) for box in graph.boxes)
        note = f"<div><i>{escape(self._values['note'])}</i></div>" if self._values["note"] else ""
        facts = html_table(f"run of {application}", self._values["facts"])
        steps = html_table("since the first start of the application", map(_step_row, self._figures), STEP_TITLES)
        return (
            f"{facts}{note}{picture(drawing_of(replace(graph, boxes=boxes)))}<details><summary>Steps</summary>{steps}</details>"
        )


def _step_row(figures: StepFigures) -> tuple[Any, ...]:
    left_out = ", ".join(f"{reason.replace('_', ' ')} {rows:,}" for reason, rows in figures.counts.items())
    return figures.step, figures.rows_in, figures.rows_out, f"{figures.busy_us / 1000:,.1f} ms", left_out


def _totals(box: Box, totals: Mapping[str, StepFigures]) -> list[BoxText]:
    """A line of a box: rows in and out, and those that it left out."""
    own = [totals[step] for step in box.steps if step in totals]
    if not own:
        return []
    left_out = sum(sum(one.counts.values()) for one in own)
    text = f"{sum(one.rows_in for one in own):,} in, {sum(one.rows_out for one in own):,} out"
    return [BoxText("figures", f"{text}, {left_out:,} left out" if left_out else text)]
