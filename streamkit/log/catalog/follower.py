"""Looking at a catalog again whenever somebody has committed something."""

from __future__ import annotations

import threading
from collections.abc import Callable

from streamkit.errors import StreamKitError
from streamkit.log.catalog.catalog import Catalog

WAIT_SECONDS = 0.5  # the longest wait for a commit


def follow_catalog(
    catalog: Catalog,
    is_closed: threading.Event,
    look: Callable[[], None],
    tell: Callable[[Exception], None],
    pause_seconds: float,
) -> None:
    """
    Call `look` after commits, at least every half second, until `is_closed` is set and `catalog.end_waits()` was called.

    Between two looks are at least `pause_seconds`, however many commits there are. `tell` gets the error of a look that failed; it gets the
    same error only once until a look succeeds.
    """
    told = ""
    while not is_closed.is_set():
        watch = catalog.watch()  # before the look, so that no commit is missed
        try:
            look()
            told = ""
        except (StreamKitError, OSError) as error:
            if str(error) != told:
                told = str(error)
                tell(error)
        is_closed.wait(pause_seconds)
        watch.wait(WAIT_SECONDS)
