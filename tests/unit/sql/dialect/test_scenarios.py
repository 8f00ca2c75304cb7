"""The scenarios of the ksql dialect, as a session has their queries and as one application."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamkit.errors import StreamKitError
from tests.unit.sql.dialect.scenarios import Record, Scenario, scenarios_of, written_by_file, written_by_session

SCENARIOS = [one for file in sorted(Path(__file__).parent.glob("*.md")) for one in scenarios_of(file)]
RUN = [one for one in SCENARIOS if not one.error]
REFUSED = [one for one in SCENARIOS if one.error]


def _by_topic(records: list[Record], wanted: list[Record]) -> dict[str, list[Record]]:
    """The records of each topic that a scenario names, with times only where it gives them."""
    found: dict[str, list[Record]] = {one.topic: [] for one in wanted}
    for record in records:
        if record.topic in found:
            place = len(found[record.topic])
            same = [one for one in wanted if one.topic == record.topic]
            is_timed = place < len(same) and same[place].time is not None
            found[record.topic].append(record if is_timed else Record(record.topic, None, record.key, record.value))
    return found


@pytest.mark.parametrize("scenario", RUN, ids=str)
def test_a_scenario_in_a_session(scenario: Scenario) -> None:
    """Each query of a session writes what the scenario says."""
    assert _by_topic(written_by_session(scenario), scenario.wanted) == _by_topic(scenario.wanted, scenario.wanted)


@pytest.mark.parametrize("scenario", RUN, ids=str)
def test_a_scenario_as_one_application(scenario: Scenario) -> None:
    """The same statements as a file, whose queries read each other's rows, write the same."""
    assert _by_topic(written_by_file(scenario), scenario.wanted) == _by_topic(scenario.wanted, scenario.wanted)


@pytest.mark.parametrize("scenario", REFUSED, ids=str)
def test_what_is_refused(scenario: Scenario) -> None:
    """Statements that ksqlDB refuses are refused, in words that say why."""
    with pytest.raises(StreamKitError) as caught:
        written_by_session(scenario)
    assert scenario.error in str(caught.value)
