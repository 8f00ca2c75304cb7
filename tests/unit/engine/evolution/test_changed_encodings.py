"""An output goes on in the form in which its records are: otherwise one key would be two for tables and compaction."""

from __future__ import annotations

from typing import Any

import pytest

import streamkit as sk
from streamkit import functions as F
from streamkit.engine.runs.compile import compile
from streamkit.engine.runs.preview import preview
from streamkit.errors import TopologyError
from tests.kit.engine_run import Run, append, execute, fresh_log


@pytest.fixture
def log():
    with fresh_log() as log:
        log.create_topic("in", "k string, j string, v int", key="k", partitions=1)
        yield log


def written(*key, v="v", **arguments):
    app = sk.Topology("t")
    rows = app.stream("in").with_columns(v=F.expr(v))
    (rows.select_key(*key) if key else rows).to("out", **{"value_format": "json", **arguments})
    return app


def run(log, app):
    append(log, "in", [{"k": "a", "j": "b", "v": 1, "ts": 1}])
    execute(log, compile(app, log), Run(drain=False))


CHANGES: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "a key's format": ({}, {"key_format": "json"}, "its keys are string, and would be json"),
    "a key's columns": ({"key_format": "json"}, {"key": ["j"], "key_format": "json"}, "its keys are json of k string"),
    "another column more": ({}, {"key": ["k", "j"]}, "its keys are string, and would be json"),
    "a type": ({}, {"v": "cast(v as string)"}, "the column 'v' of its values is int, and would be string"),
    "a type that is wider than the reader's": ({}, {"v": "v / 2"}, "the column 'v' of its values is int, and would be double"),
}


@pytest.mark.parametrize("case", CHANGES)
def test_another_form_is_refused(log, case):
    """At the start and by the plan, with the user's line; a topic that was made again takes it, and so does one without records."""
    one, other, reason = CHANGES[case]
    first, second = (
        written(*changed.get("key", ()), **{k: v for k, v in changed.items() if k != "key"}) for changed in (one, other)
    )
    run(log, first)
    with pytest.raises(TopologyError, match=reason) as raised:
        run(log, second)
    assert "test_changed_encodings.py" in str(raised.value) and "streamkit topics delete out" in str(raised.value)
    assert reason in preview(log.catalog, compile(second, log)).refusals[0]

    run(log, first)
    log.delete_topic("out")
    run(log, second)


@pytest.mark.parametrize("other", [{}, {"v": "cast(v as bigint)"}, {"key_format": "string"}])
def test_the_same_form_goes_on(log, other):
    """Wider whole numbers are the same text."""
    run(log, written())
    run(log, written(**other))
    assert len(log.read("out").column("key").to_pylist()) == 2


def test_two_forms_in_one_program_are_refused(log):
    """Two streams to one topic, with keys as text and as JSON."""
    app = sk.Topology("t")
    app.stream("in").to("out", value_format="json")
    app.stream("in").filter("v > 1").to("out", value_format="json", key_format="json")
    with pytest.raises(TopologyError, match="go to the topic 'out' with keys in two forms"):
        compile(app, log)
