"""Calls that lack an argument, or have one of another type, say what was found and what is expected, and not Python's raw errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import streamkit as sk
from streamkit.errors import ConfigError, StreamKitError, TopologyError

run: Any = sk.run  # as one calls it who does not know its arguments
hopping: Any = sk.hopping
session: Any = sk.session
CALLS: dict[str, tuple[Callable[[Any, Any], Any], type[StreamKitError], str]] = {
    "tasks": (
        lambda app, log: run(app, log=log, engine="local", tasks="2"),
        ConfigError,
        "tasks='2'; expected a whole number",
    ),
    "a path": (
        lambda app, log: run("app.py", log=log, engine="local"),
        ConfigError,
        "'app.py' as what to run; expected a Topology",
    ),
    "no log": (lambda app, log: run(app, log=f"{log.location}-no", engine="local"), ConfigError, "name one with log="),
    "within": (
        lambda app, log: app.stream("in").drop_duplicates("k"),
        TopologyError,
        r'expected it, as in drop_duplicates\("order_id"',
    ),
    "distinct": (lambda app, log: app.stream("in").distinct(), TopologyError, "without within="),
    "a zone": (
        lambda app, log: hopping("1 day", "1 hour", grace="0 s", time_zone="UTC"),
        TopologyError,
        r"tumbling\(…, time_zone=…\)",
    ),
    "a name": (lambda app, log: session("1 day", grace="0 s", width=1), TopologyError, "accepts no width=; expected gap"),
    "months": (
        lambda app, log: sk.tumbling("10000 months", grace="0 s", time_zone="UTC"),
        TopologyError,
        "expected 1 to 9999 days",
    ),
}


@pytest.mark.parametrize("case", CALLS)
def test_a_misspelt_call_says_what_is_expected(tmp_path, case):
    """In the words of who calls it from Python."""
    call, error, reason = CALLS[case]
    with sk.open_log(tmp_path / "log") as log:
        log.create_topic("in", "k string", key="k")
        app = sk.Topology("a")
        app.stream("in").to("out")
        with pytest.raises(StreamKitError, match=reason) as raised:
            call(app, log)
    assert type(raised.value) is error
