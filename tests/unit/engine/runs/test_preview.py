"""What a start would change, told before it."""

from __future__ import annotations

import pytest

from streamkit.engine.runs.compile import compile_with_settings
from streamkit.engine.runs.preview import preview
from streamkit.engine.runs.start import start
from streamkit.plan.program_change import SAME
from tests.kit.engine_run import fresh_log
from tests.unit.engine.cases import CASES
from tests.unit.engine.random_data import create_topics


@pytest.mark.parametrize("case", CASES)
def test_a_program_that_has_started_changes_nothing(case):
    """Before the first start something is new, and after it nothing: programs of all operators are equal to what the catalog kept."""
    with fresh_log() as log:
        create_topics(log)
        program = compile_with_settings(CASES[case].topology, log)
        first = preview(log.catalog, program)
        start(log.catalog, log.storage, program)
        again = preview(log.catalog, program)

    assert first.known is None
    assert SAME not in {change.fate for change in first.changes}
    assert {change.fate for change in again.changes} == {SAME}
    assert first.refusals == again.refusals == ()
    named = {(change.subject, change.name) for change in first.changes}
    assert named == {(change.subject, change.name) for change in again.changes}
