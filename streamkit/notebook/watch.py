"""What moves in a notebook: an object that looks at something once a second, as long as that goes on, and shows what it finds."""

from __future__ import annotations

import os
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, TypeVar

from streamkit.cell_output import is_notebook
from streamkit.errors import CatalogUnavailableError
from streamkit.log.log import Log
from streamkit.notebook.looks import Looks
from streamkit.notebook.open_watches import current_execution, forget, keep_open
from streamkit.notebook.widget import ViewWidget, has_widgets
from streamkit.serve.health import LogPresence

Told = TypeVar("Told")
PLAIN_SECONDS = 2.0  # between two pictures where there are no widgets: each one is a whole new output
ATTEMPTS = 30  # looks without an answer of the catalog, after which a watch ends


class Watch(ABC):
    """
    Something that a notebook shows and keeps up to date.

    As the last line of a cell it is a widget if the extra `notebook` is installed, and else HTML that replaces itself. In the end both
    become HTML of the last look, because a saved notebook that is opened again has no widgets. Until it is shown, and outside of
    notebooks, it does nothing: its text and its HTML then show the present state. `close()` ends the updates.
    """

    VIEW = ""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._presence = LogPresence(log)
        self._values: dict[str, Any] = {"note": "", "is_live": False}
        self._at_work = threading.RLock()  # a look at a time: the thread's, or that of who shows it
        self._looks: Looks | None = None
        self._widget: ViewWidget | None = None
        self._outputs: list[Any] = []
        self._failures = 0
        self._has_ended = False
        self._is_telling = False  # within which nothing is looked at again, so that text and HTML agree
        self._shown_s = 0.0
        self.looks = 0

    @abstractmethod
    def _look(self, log: Log) -> Mapping[str, Any]:
        """The values that have changed since the last look; called by one thread at a time, with one log or another."""

    @abstractmethod
    def _html(self) -> str:
        """The values as HTML that needs nothing else."""

    @abstractmethod
    def _text(self) -> str:
        """The values in a line."""

    def _end_of(self) -> str | None:
        """Why what is watched goes on no more, in words; None as long as it does. It is asked before each look, which then is the last."""
        return None

    def _is_over(self) -> bool:
        """Whether what is watched goes on no more; asked often, so it looks at nothing."""
        return self._log.is_closed

    @abstractmethod
    def _leave(self) -> None:
        """Give back what looks have opened, if anything."""

    @property
    def is_live(self) -> bool:
        """Whether it is still updated."""
        return self._looks is not None and self._looks.is_alive

    def close(self) -> None:
        """End the updates; the last state stays, as HTML."""
        was_live = self.is_live
        if self._looks is not None:
            self._looks.stop()
        if was_live:
            self._show_again(is_last=True)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._now(self._text)})"

    def _repr_html_(self) -> str:
        return self._now(self._html)

    def _ipython_display_(self) -> None:
        """Show it in the cell that runs, and begin to look."""
        from IPython.display import display

        if is_notebook() and has_widgets() and self._widget is None:
            self._now(lambda: "")
            self._widget = ViewWidget(self.VIEW, self._values)
        output = display(self._bundle(), raw=True, display_id=True)  # type: ignore[no-untyped-call]
        if is_notebook() and not self._has_ended:
            self._outputs.append(output)
            self._begin()

    def _begin(self) -> None:
        if self._looks is None:
            self._looks = Looks(self._log, self._look_and_show, self._leave, self._is_over, type(self).__name__)
            keep_open(self, current_execution())
            self._looks.start()

    def _bundle(self) -> dict[str, Any]:
        text, page = self._now(lambda: (repr(self), self._html()))
        is_moving = self._widget is not None and not self._has_ended
        return {"text/plain": text, "text/html": page, **(self._widget.bundle() if self._widget and is_moving else {})}

    def _now(self, told: Callable[[], Told]) -> Told:
        """What `told` makes of the values, which are of this moment if no looks come."""
        if self._log.process != os.getpid():  # where the lock may be held for ever, by a thread that is not here
            self._values["note"] = self._absence()
            return told()
        with self._at_work:
            if not (self.is_live or self._has_ended or self._is_telling):
                self._look_once(self._log)
            self._is_telling, before = True, self._is_telling
            try:
                return told()
            finally:
                self._is_telling = before

    def _look_and_show(self, log: Log) -> bool:
        """A look of the thread; returns whether there shall be others."""
        with self._at_work:
            before = dict(self._values)
            goes_on = self._look_once(log)
            self._values["is_live"] = goes_on
            if self._widget is not None:
                if not self._widget.is_open:
                    goes_on = False
                with suppress(Exception):  # the kernel may be about to end
                    self._widget.put(self._values)
        now_s = time.monotonic()
        has_news = self._widget is None and self._values != before and now_s - self._shown_s >= PLAIN_SECONDS
        if has_news or not goes_on:
            self._shown_s = now_s
            self._show_again(is_last=not goes_on)
        return goes_on

    def _show_again(self, *, is_last: bool) -> None:
        """Put what there is to see now in the place of each output."""
        if is_last:
            self._finish()
        for output in self._outputs:
            with suppress(Exception):
                output.update(self._bundle(), raw=True)

    def _finish(self) -> None:
        forget(self)
        self._has_ended = True

    def _look_once(self, log: Log) -> bool:
        """Look, and keep what is found; returns whether it goes on. An error becomes a note: nobody could catch it."""
        gone = self._absence()
        has_own = self._log.is_closed and not log.is_closed  # a connection of the looks, by which a last one sees the end
        if gone is not None and not has_own:
            self._values["note"] = gone
            return False
        over = gone or self._end_of()
        try:
            self._values.update(self._look(log))
        except CatalogUnavailableError as error:
            self._failures += 1
            self._values["note"] = f"{error}"
            return self._failures < ATTEMPTS
        except Exception as error:  # noqa: BLE001  whatever it is, it is told where people look
            self._values["note"] = f"{type(error).__name__}: {error}"
            return False
        self.looks, self._failures = self.looks + 1, 0
        self._values["note"] = over or ""
        return over is None

    def _absence(self) -> str | None:
        """Why there is nothing to look at: the log was closed, deleted, or belongs to the process from which this one was forked."""
        if self._log.process != os.getpid():
            return "The log belongs to another process, from which this one was forked."
        if self._log.is_closed:
            return "The log was closed."
        return None if self._presence.is_there else f"The log at {self._log.root} was deleted."
