"""How far an application has come, in the headers of answers; and a request's wait until it has come so far."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping

from streamkit.errors import ConfigError
from streamkit.log.log import Log
from streamkit.serve.answers import header_text
from streamkit.serve.applications import application_state
from streamkit.serve.limits import ServeLimits
from streamkit.serve.live import LISTEN_SECONDS, Live, heard_within
from streamkit.serve.refusals import RefusedError, bad_request
from streamkit.state.state_reader import view_position
from streamkit.state.view_position import ViewPosition, missing_of, unreached_text

EPOCH_HEADER, POSITION_HEADER = "X-StreamKit-Epoch", "X-StreamKit-Position"


def position_headers(log: Log, application: str) -> dict[str, str]:
    """The newest epoch, and the offsets behind what it has read; an answer that is made later is of this epoch or a newer one."""
    state = application_state(log, application)
    found = log.catalog.read(lambda transaction: view_position(transaction, state))
    offsets = {topic: {str(one): offset for one, offset in sorted(ends.items())} for topic, ends in sorted(found.offsets.items())}
    return {EPOCH_HEADER: str(found.epoch), POSITION_HEADER: header_text(json.dumps(offsets))}


def wanted_position(text: str) -> ViewPosition:
    """What a request waits for: an epoch, or offsets by topic and partition."""
    if text.isdecimal() and text.isascii() and len(text) < 19:
        return ViewPosition(int(text), {})
    try:
        found = json.loads(text)
        if not isinstance(found, Mapping):
            raise ConfigError("no offsets by topic")
        return ViewPosition.behind(found)
    except (ValueError, RecursionError, ConfigError):
        raise bad_request(
            f'found wait_for={text[:100]!r}; expected an epoch, or offsets by topic and partition, such as {{"orders": {{"0": 12}}}}'
        ) from None


async def wait_for_position(log: Log, live: Live, limits: ServeLimits, application: str, text: str, seconds: float) -> None:
    """Wait, without a thread, until an application has committed what is wanted; TimeoutError if that takes longer."""
    wanted = wanted_position(text)
    if not seconds <= limits.wait_seconds:
        raise RefusedError(
            413,
            "TooLong",
            f"found wait_seconds={seconds:g}; expected at most {limits.wait_seconds:g}",
            "ask again when the wait is over",
        )
    await live.run_live(application_state, log, application)
    deadline_s = time.monotonic() + seconds
    while True:
        commit = live.commits.next()  # before the look
        missing = await live.run_live(missing_of, log.catalog, application, wanted)
        if missing is None:
            return
        left_s = deadline_s - time.monotonic()
        if left_s <= 0:
            raise TimeoutError(unreached_text(application, missing, seconds))
        await heard_within(commit, min(left_s, LISTEN_SECONDS))
        await asyncio.sleep(0)
