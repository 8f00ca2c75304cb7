"""What is written fits the topics that exist, or the error says how they could be made to fit."""

from __future__ import annotations

import shlex
from typing import Any

import pytest

import streamkit as sk
from streamkit.cli.main import program
from streamkit.errors import TopologyError


class NoExpressions:
    """An analysis of nothing: the topologies here have no expressions."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"there is nothing to analyse: {name}")


def refusal(log, app):
    """Why the topology is refused over a log."""
    with pytest.raises(TopologyError, match="exists and does not fit") as refused:
        sk.compile(app, log, NoExpressions())
    return str(refused.value)


@pytest.fixture
def root(tmp_path):
    with sk.open_log(tmp_path) as log:
        log.create_topic("clicks", "user string not null, page string, n bigint not null", key="user", partitions=1)
    return tmp_path


@pytest.fixture
def app():
    app = sk.Topology("copying")
    app.stream("clicks").to("out")
    return app


def test_columns_that_a_topic_lacks_can_be_added(root, app):
    """The error for added columns names the command that adds them; once it has run, the topology fits."""
    from typer.testing import CliRunner

    with sk.open_log(root) as log:
        log.create_topic("out", "user string not null", key="user", partitions=1)
        message = refusal(log, app)
    command = message.partition("to add the new columns, ")[2].partition(";")[0]
    assert command == "streamkit topics alter out --schema 'user string NOT NULL, page string, n bigint'"
    result = CliRunner().invoke(program, shlex.split(command)[1:], env={"STREAMKIT_LOG": str(root)}, catch_exceptions=False)
    assert result.exit_code == 0, result.output

    with sk.open_log(root) as log:
        assert sk.compile(app, log, NoExpressions()).outputs[0].schema.names == ("user", "page", "n")


@pytest.mark.parametrize(
    ("schema", "key"),
    [
        ("user string not null, page int", "user"),
        ("user string not null, page string, n bigint not null, more int not null", "user"),
        ("user string not null", None),
        ("user string not null, PAGE string", "user"),
    ],
    ids=["another type", "a column more", "another key", "another case"],
)
def test_what_adding_cannot_make_fit_is_not_offered(root, app, schema, key):
    """Where added columns would not be enough, the error offers another topic only."""
    with sk.open_log(root) as log:
        log.create_topic("out", schema, key=key, partitions=1)
        message = refusal(log, app)

    assert "alter" not in message and "write to another topic, or delete this one" in message


class ChangingLog:
    """A log from which a topic that the topology does not use is deleted, and another one added, behind each look of the compiler."""

    def __init__(self, log: sk.Log) -> None:
        self.log, self.looks = log, 0
        log.create_topic("other0", "n bigint")

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.log, name)

        def looked(*given: Any, **named: Any) -> Any:
            result = found(*given, **named)
            self.log.delete_topic(f"other{self.looks}")
            self.looks += 1
            self.log.create_topic(f"other{self.looks}", "n bigint")
            return result

        return looked if name in ("topics", "topic") else found


def test_topics_of_others_may_come_and_go_meanwhile(root):
    """As those of other queries that are replaced: what is compiled is the same, also with a topic that a start creates."""
    app = sk.Topology("copying")
    app.add_topic("added", "user string not null, page string, n bigint not null", key="user")
    app.stream("clicks").to("out")
    app.stream("clicks").to("added")
    with sk.open_log(root) as log:
        log.create_topic("out", "user string not null, n bigint not null, page string", key="user", partitions=1)
        still = sk.compile(app, log, NoExpressions())
        changing: Any = ChangingLog(log)
        assert sk.compile(app, changing, NoExpressions()) == still
        assert changing.looks > 1
