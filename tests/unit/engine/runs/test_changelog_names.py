"""Promises of the names of changelogs: a topic is the changelog of one store only, whatever applications and stores are called."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import streamkit as sk
from streamkit import functions as F
from streamkit.engine.runs.compile import compile
from streamkit.engine.runs.preview import preview
from streamkit.engine.runs.start import start
from streamkit.errors import ConfigError, StreamKitError
from streamkit.failpoints import armed
from streamkit.log.catalog import applications
from tests.kit.engine_run import Run, execute, fresh_log, stored

PARTS = ("a", "b", "c", "changelog", "a.rebuild")
NAMES = st.lists(st.sampled_from(PARTS), min_size=1, max_size=3).map("-".join)


def topology(application, store, condition="true", output="counts"):
    """An application with one store, and one output."""
    app = sk.Topology(application)
    app.stream("in").filter(condition, name="filtered").group_by("g").agg(n=F.count("*"), store=store).to(output)
    return app


def begun(log, application, store, **given):
    """Start an application, after what `plan` says of the start; whether it began."""
    program = compile(topology(application, store, **given), log)
    refusals = preview(log.catalog, program).refusals
    try:
        start(log.catalog, log.storage, program)
    except ConfigError as error:
        assert refusals == (str(error),)
        return False
    assert not refusals
    return True


def fed_log(log, rows=6):
    """A log with records of three groups."""
    log.create_topic("in", "g string, v int")
    with log.producer() as producer:
        producer.send_batch("in", [{"g": "xyz"[number % 3], "v": number} for number in range(rows)])


@given(st.lists(st.tuples(NAMES.filter(lambda name: not name.endswith(".rebuild")), NAMES), min_size=2, max_size=6, unique=True))
def test_a_start_is_refused_exactly_if_its_changelog_is_of_another_store(pairs):
    """Of applications and stores of few parts, the first of those that give the same topic has it; plan says so before."""
    owners: dict[str, tuple[str, str]] = {}
    with fresh_log() as log:
        fed_log(log)
        for number, (application, store) in enumerate(pairs):
            name = f"{application}-{store}-changelog"
            if any(application == one and store != other for one, other in pairs[:number]):
                continue  # a changed program, which another test has
            assert begun(log, application, store, output=f"out{number}") == (name not in owners)
            owners.setdefault(name, (application, store))
        found = {
            log.catalog.topics.get_by_id(one.changelog_topic_id).name: (state.name, one.name)
            for state in log.catalog.applications.every()
            for one in state.stores.values()
        }
    assert found == owners


def test_the_refusal_names_the_owner_and_nothing_is_written():
    """Neither a topic for the output nor the application is there afterwards."""
    with fresh_log() as log:
        fed_log(log)
        assert begun(log, "a", "b-c")
        before = log.topics(internal=True)
        expected = r"topic a-b-c-changelog is the changelog of the store 'b-c' of the application 'a'.*expected another name of the store"
        with pytest.raises(ConfigError, match=expected):
            start(log.catalog, log.storage, compile(topology("a-b", "c", output="others"), log))

        assert log.topics(internal=True) == before
        assert [state.name for state in log.catalog.applications.every()] == ["a"]


def test_a_topic_of_users_is_not_taken_for_a_changelog():
    """The message says what the topic is in the way of."""
    with fresh_log() as log:
        fed_log(log)
        log.create_topic("a-b-changelog", "g string")
        program = compile(topology("a", "b"), log)
        with pytest.raises(
            StreamKitError, match="topic a-b-changelog already, which is no changelog; expected another name of the store"
        ) as refused:
            start(log.catalog, log.storage, program)
        assert preview(log.catalog, program).refusals == (str(refused.value),)
        assert "counts" not in log.topics()


def test_of_two_starts_at_once_one_is_refused():
    """The second begins and commits between the look of the first and its commit."""
    with fresh_log() as log:
        fed_log(log)
        others = [compile(topology("a-b", "c", output="others"), log)]

        def begin_another():
            if others:
                start(log.catalog, log.storage, others.pop())

        with armed("start.before_commit", begin_another), pytest.raises(ConfigError, match="of the application 'a-b'"):
            start(log.catalog, log.storage, compile(topology("a", "b-c"), log))
        assert [state.name for state in log.catalog.applications.every()] == ["a-b"]


@pytest.mark.parametrize("first", [0, 1])
def test_applications_that_share_a_changelog_already_are_reset_one_after_the_other(first, monkeypatch):
    """A log of an earlier version may have such ones: the next start and fsck say so, and each may be reset; both begin from scratch then."""
    pairs = [("a", "b-c"), ("a-b", "c")]
    with fresh_log() as log:
        fed_log(log)
        with monkeypatch.context() as earlier:
            earlier.setattr(applications, "check_changelog", lambda *_: None)
            earlier.setattr(type(log.catalog.applications), "check_changelog", lambda *_: None)
            for number, (application, store) in enumerate(pairs):
                start(log.catalog, log.storage, compile(topology(application, store, output=f"out{number}"), log))
        program = compile(topology("a", "b-c", output="out0"), log)
        with pytest.raises(ConfigError, match="begin both again, with `streamkit apps reset a` and `streamkit apps reset a-b`"):
            start(log.catalog, log.storage, program)
        assert any("a-b-c-changelog is that of the store b-c of a, too" in finding.message for finding in log.fsck().findings)

        former, latter = pairs[first], pairs[1 - first]
        log.catalog.applications.reset(former[0])
        assert "a-b-c-changelog" in log.topics(internal=True)
        log.catalog.applications.reset(latter[0])
        assert "a-b-c-changelog" not in log.topics(internal=True)

        assert not [finding for finding in log.fsck().findings if finding.kind == "store"]
        execute(log, compile(topology(former[0], former[1], output=f"out{first}"), log), Run())
        assert stored(log, *former)
        assert not begun(log, *latter, output="out2")
