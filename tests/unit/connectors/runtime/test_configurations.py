"""The newest configurations that the log keeps: what others read of them."""

from __future__ import annotations

import pytest

import streamkit as sk
from streamkit.connectors.files import FileSink, FileSource
from streamkit.connectors.runtime.configurations import publish_configuration, topics_of_sink


@pytest.fixture
def log(tmp_path):
    with sk.open_log(tmp_path / "log") as log:
        yield log


@pytest.mark.parametrize("topics", ["a,b", " a , b", ["a", "b"], ("a", "b")], ids=repr)
def test_the_topics_of_a_sink(log, tmp_path, topics):
    """A sink has the topics that its configuration names, however it was written; a source has none, nor has what nobody ran."""
    publish_configuration(log, FileSink("out", path=str(tmp_path), topics=topics), "worker")
    publish_configuration(log, FileSource("in", path=str(tmp_path), topic="a"), "worker")
    assert [topics_of_sink(log, name) for name in ("out", "in", "other")] == [["a", "b"], [], []]


def test_a_list_is_the_same_configuration_as_its_text(log, tmp_path):
    """A configuration in Python and the same in a file do not outdate each other."""
    publish_configuration(log, FileSink("out", path=str(tmp_path), topics=["a", "b"]), "worker")
    assert publish_configuration(log, FileSink("out", path=str(tmp_path), topics="a, b"), "worker") == []
