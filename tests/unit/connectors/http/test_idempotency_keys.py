"""Keys of requests: no two records have one key, and a key that comes again stands for rows that are there."""

from __future__ import annotations

import random
from contextlib import suppress

import pytest

import streamkit as sk
from streamkit.connectors import run
from streamkit.connectors.http import HttpSink, HttpSource
from streamkit.connectors.runtime.sink_task import SinkTask
from streamkit.connectors.runtime.task import Orders
from streamkit.errors import ConfigError
from streamkit.failpoints import SimulatedCrash
from tests.kit.sampling import TAKES_ALL
from tests.unit.connectors.contract import dies
from tests.unit.connectors.http.test_http import receiving

TOPICS = ("east", "west")
TO_ONE_NAME = {
    "transforms": "r",
    "transforms.r.type": "RegexRouter",
    "transforms.r.regex": ".*",
    "transforms.r.replacement": "all",
}


class Sender:
    """A log, and a sink of its topics that always has the same name."""

    def __init__(self, folder, port):
        self.log = sk.open_log(folder)
        self.settings = {"url": f"http://127.0.0.1:{port}/", "topics": ",".join(TOPICS)}
        for name in TOPICS:
            self.create(name)

    def create(self, name):
        self.log.create_topic(name, "n bigint NOT NULL", key="n", partitions=2)

    def add(self, name, numbers):
        with self.log.producer() as producer:
            producer.send_batch(name, [{"n": n} for n in numbers])

    def send(self, **settings):
        SinkTask(HttpSink("out", self.settings | settings), 0, 1, self.log, is_once=True).run(Orders())

    def make_again(self, name):
        self.log.delete_topic(name)
        self.create(name)


@pytest.fixture
def there():
    with sk.open_log(":memory:") as log:
        yield log


def numbers(log):
    return sorted(row["n"] for row in log.read("clicks").to_pylist())


def test_a_topic_that_was_made_again(tmp_path, there):
    """Its offsets begin again, and its records are others: a receiver that remembers the former keys takes them."""
    with receiving(there, schema="n bigint") as post:
        sender = Sender(tmp_path / "log", post.port)
        for first in (0, 3, 6):
            sender.add("east", range(first, first + 3))
            sender.send()
            assert numbers(there) == [*range(first + 3)]
            sender.make_again("east")


@pytest.mark.parametrize("settings", [{}, TO_ONE_NAME], ids=["as they are", "to one name"])
def test_topics_of_two_logs(tmp_path, there, settings):
    """Sinks of one name send the same offsets of topics of one name: from two logs, and from two topics that a router gives one."""
    with receiving(there, schema="n bigint") as post:
        for number, name in enumerate("ab"):
            sender = Sender(tmp_path / name, post.port)
            for place, topic in enumerate(TOPICS):
                sender.add(topic, range(4 * number + 2 * place, 4 * number + 2 * place + 2))
            sender.send(**settings)
            assert numbers(there) == [*range(4 * number + 4)]


@pytest.mark.parametrize("seed", range(30 if TAKES_ALL else 2))
def test_every_record_arrives_once(tmp_path, there, seed):
    """Whatever is made again, whichever log sends, and wherever between its answers and its commit a task dies."""
    chance, count = random.Random(seed), 0
    with receiving(there, schema="n bigint") as post:
        senders = [Sender(tmp_path / name, post.port) for name in "ab"]
        for _ in range(12):
            sender, topic = chance.choice(senders), chance.choice(TOPICS)
            some = chance.randint(1, 4)
            sender.add(topic, range(count, count + some))
            count += some
            settings = {**chance.choice([{}, TO_ONE_NAME]), "batch.rows": chance.choice(["1", "3", "1000"])}
            with suppress(SimulatedCrash), dies("connect.target_committed", chance.randint(1, 4)):
                sender.send(**settings)
            if chance.random() < 0.4:
                sender.send(**settings)
                sender.make_again(topic)
        for sender in senders:
            sender.send()
        assert numbers(there) == [*range(count)]


BEGIN = {"recreated.mode": "begin"}
COLUMNS = {"schema": "n bigint"}


def post_each(post, count=8):
    """Requests whose keys lie in several buckets: the codes of their answers."""
    return {post({"n": n}, key=f"key {n}")[0] for n in range(count)}


@pytest.mark.parametrize("is_made_again", [False, True])
@pytest.mark.parametrize("settings", [{}, COLUMNS], ids=["any JSON", "columns"])
def test_a_topic_of_a_source_that_was_deleted(there, settings, is_made_again):
    """Its keys stand for rows that are gone: a start is refused with advice, and one that is told so takes the requests again."""
    with receiving(there, **settings) as post:
        assert post_each(post) == {200}
    topic = there.topic("clicks")
    there.delete_topic("clicks")
    if is_made_again:
        form = {"format": "json"} if topic.format else {"schema": str(topic.schema)}
        there.create_topic("clicks", **form)
    for _ in range(2):
        with pytest.raises(
            ConfigError, match=r"topic clicks, which had .* was deleted.*recreated\.mode=begin, or .*offsets reset in"
        ):
            run([HttpSource("in", {"topic": "clicks", "port": 0, **settings})], there, once=True)
    with receiving(there, **settings, **BEGIN) as post:
        assert post({"n": 0}, key="key 0")[0] == 200
        assert there.read("clicks").num_rows == 1
    for more in ({}, BEGIN):  # the keys are forgotten for good, and the new ones are not
        with receiving(there, **settings, **more) as post:
            assert post_each(post) == {200}
            assert there.read("clicks").num_rows == 8


@pytest.mark.parametrize("settings", [{}, BEGIN], ids=["fail", "begin"])
def test_a_topic_of_a_running_source_that_is_deleted(there, settings):
    """A repeat is not answered as if its row were there: 503, and the task starts again."""
    with receiving(there, **COLUMNS) as post:
        assert post({"n": 1}, key="a")[0] == 200
    with receiving(there, **COLUMNS, **settings) as post:
        assert post({"n": 1}, key="a")[0] == 200
        there.delete_topic("clicks")
        assert post({"n": 1}, key="a")[0] == 503
    with receiving(there, **COLUMNS, **BEGIN) as post:
        assert post({"n": 1}, key="a")[0] == 200
    assert numbers(there) == [1]


def test_another_topic_of_a_source(there):
    """Requests do not go together, so later ones may go to another topic; a repeat is one all the same, and routers come and go."""
    with receiving(there, **COLUMNS) as post:
        assert post({"n": 1}, key="a")[0] == 200
    for name, settings in (("others", {}), ("others", TO_ONE_NAME), ("clicks", {})):
        with receiving(there, name, **COLUMNS, **settings) as post:
            assert post({"n": 1}, key="a")[0] == 200
            assert post({"n": 2})[0] == 200
    assert [there.read(name).num_rows for name in ("clicks", "others", "all")] == [2, 1, 1]
