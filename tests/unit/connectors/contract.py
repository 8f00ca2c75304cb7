"""What every source and every sink promises, whatever the foreign system: a subclass says how the system is filled and read."""

from __future__ import annotations

import json
import math
import random
import re
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import pytest

import streamkit as sk
from streamkit.connectors.runtime.identity import IDENTITY
from streamkit.connectors.runtime.positions import change_positions, read_positions
from streamkit.connectors.runtime.sink_task import SinkTask, reset_group
from streamkit.connectors.runtime.source_task import SourceTask
from streamkit.connectors.runtime.task import Orders
from streamkit.connectors.sink import Sink
from streamkit.connectors.source import Source
from streamkit.errors import ConfigError, FencedError, OutcomeUnknownError, StreamKitError
from streamkit.failpoints import SimulatedCrash, armed
from streamkit.log.topic.formats import OPAQUE_SCHEMA
from tests.kit.sampling import TAKES_ALL, in_turn

Row = tuple[Any, ...]
_NAN = float("nan")


def dies(point, at=1):
    """A with block in which the process dies when it comes to a point for the `at`-th time."""
    left = [at]

    def die():
        left[0] -= 1
        if left[0] == 0:
            raise SimulatedCrash(point)

    return armed(point, die)


def deaths(*points: str) -> list[tuple[str, ...]]:
    """Points at which tasks die, one after the other; in torture also at each of them alone."""
    return [points, *((point,) for point in points if TAKES_ALL)]


class InWays:
    """Tests that a subclass runs in several ways, which its fixtures know by `way`: what depends on it most in each, the others in turn."""

    WAYS: ClassVar[Sequence[Any]] = ()
    IN_EACH: ClassVar[Sequence[str]] = (
        "test_every_row_comes_once",
        "test_every_row_goes_once",
        "test_death",
        "test_polls_of_one",
        "test_what_was_made_again",
    )

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        if "way" in metafunc.fixturenames:
            name = metafunc.function.__name__
            turn = [one for one in dir(self) if one.startswith("test_")].index(name) % len(self.WAYS)
            is_whole = TAKES_ALL or name in self.IN_EACH
            metafunc.parametrize("way", self.WAYS if is_whole else [self.WAYS[turn]], ids=str)


class SourceContract(InWays):
    """A source brings each row exactly once, whatever dies when. Rows are numbered from 0 on, in the order they were added."""

    TOPIC = "numbers"
    NAMES_TOPIC = True  # whether settings name the topic, so that a start can look at it
    OTHER_TOPIC: ClassVar[Mapping[str, str]] = {"topic": "elsewhere"}  # settings that name another topic
    CHANGES: ClassVar[Mapping[str, str]] = {  # transforms after which rows have other columns
        "transforms": "renamed,told",
        "transforms.renamed.type": "ReplaceField$Value",
        "transforms.renamed.renames": "text:words",
        "transforms.told.type": "InsertField$Value",
        "transforms.told.static.field": "place",
        "transforms.told.static.value": "here",
    }

    @abstractmethod
    def source(self, **settings: Any) -> Source:
        """A new connector, always of the same name; with the same settings, and these."""

    @abstractmethod
    def add(self, first: int, count: int) -> None:
        """Put the rows `first` to `first + count` into the foreign system."""

    @abstractmethod
    def expected(self, first: int, count: int) -> Sequence[Row]:
        """What the topic has of these rows, as `found` shows it."""

    @abstractmethod
    def found(self, log: sk.Log) -> Sequence[Row]:
        """The rows of the topic."""

    def make_again(self) -> bool:
        """Delete what holds the rows in the foreign system, and make it again, empty; False of a system that has no such thing."""
        return False

    def fill_other(self, other: sk.Log) -> None:
        """Put the first four rows where a source finds them that writes to another log; most find what is there."""

    @pytest.fixture
    def log(self, tmp_path):
        with sk.open_log(tmp_path / "log") as log:
            yield log

    def run(self, log):
        SourceTask(self.source(), 0, 1, log, is_once=True).run(Orders())

    def check(self, log, count):
        assert sorted(self.found(log)) == sorted(self.expected(0, count))

    def test_every_row_comes_once(self, log):
        """What is there comes; what comes later comes the next time, alone."""
        self.add(0, 50)
        self.run(log)
        self.check(log, 50)
        self.add(50, 25)
        self.run(log)
        self.check(log, 75)
        self.run(log)
        self.check(log, 75)

    @pytest.mark.parametrize("points", deaths("connect.polled", "connect.staged", "connect.committed"), ids=" ".join)
    def test_death(self, log, points):
        """A task that dies after a poll, before or after its commit leaves nothing out and brings nothing twice."""
        for first, point in enumerate(points):
            self.add(20 * first, 20)
            with dies(point), pytest.raises(SimulatedCrash):
                self.run(log)
        self.add(20 * len(points), 20)
        self.run(log)
        self.check(log, 20 * len(points) + 20)

    def test_unknown_outcome(self, log):
        """A commit whose outcome got lost is settled: its rows are there once."""
        self.add(0, 30)

        def lose():
            raise OutcomeUnknownError(OSError("gone"))

        with armed("commit.outcome_unknown", lose):
            self.run(log)
        self.run(log)
        self.check(log, 30)

    def test_zombie(self, log):
        """A task that stood still while another took over its place can write no more."""
        self.add(0, 30)

        def take_over():
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr("streamkit.failpoints._armed", {})
                self.run(log)

        with armed("connect.polled", take_over), pytest.raises(FencedError):
            self.run(log)
        self.check(log, 30)

    @pytest.mark.parametrize("is_changed", [False, True], ids=["as_they_are", "transformed"])
    def test_polls_of_one(self, log, tmp_path, is_changed):
        """Rows that come one by one, each to a new task, are what they are in one poll: what the topic has says nothing of values."""
        settings = dict(self.CHANGES) if is_changed else {}
        for n in range(4):
            self.add(n, 1)
            SourceTask(self.source(**settings), n % 2, 2, log, is_once=True).run(Orders())
        for task in range(2):
            SourceTask(self.source(**settings), task, 2, log, is_once=True).run(Orders())
        with sk.open_log(tmp_path / "other") as other:
            self.fill_other(other)
            SourceTask(self.source(**settings), 0, 1, other, is_once=True).run(Orders())
            one_by_one, together = described(log, self.TOPIC), described(other, self.TOPIC)
            assert one_by_one == together, f"one by one:\n{one_by_one}\ntogether:\n{together}"

    def test_what_was_made_again(self, log):
        """What has the name of something that was deleted is another thing: an error, or by the setting read from its beginning."""
        self.add(0, 20)
        self.run(log)
        if not self.make_again():
            pytest.skip("nothing that could be made again")
        self.add(20, 40)
        for _ in range(2):
            with pytest.raises(
                ConfigError, match=r"made again.*lost.*recreated\.mode=begin, or streamkit connect offsets reset in"
            ):
                self.run(log)
        self.check(log, 20)
        SourceTask(self.source(**{"recreated.mode": "begin"}), 0, 1, log, is_once=True).run(Orders())
        self.check(log, 60)
        self.run(log)
        self.check(log, 60)

    def test_another_topic(self, log):
        """A topic that lacks what came before the position gets no part of the rows: settings that name another one are refused, with advice."""
        self.add(0, 20)
        self.run(log)
        self.add(20, 20)
        router = {"type": "RegexRouter", "regex": ".*", "replacement": "elsewhere"}
        routed = {"transforms": "t", **{f"transforms.t.{name}": value for name, value in router.items()}}
        for settings in (routed, self.OTHER_TOPIC):
            if not self.source().GOES_TOGETHER:
                pytest.skip("records that do not go together")
            with pytest.raises(ConfigError, match=r"would be written to .*without the former rows.*offsets reset in"):
                SourceTask(self.source(**settings), 0, 1, log, is_once=True).run(Orders())
        self.run(log)
        self.check(log, 40)

    def test_another_key(self, log):
        """The topic keeps its key, so a source with another `key` is refused when it is made or when it starts."""
        self.add(0, 2)
        self.run(log)
        if log.topic(self.TOPIC).schema == OPAQUE_SCHEMA or not self.NAMES_TOPIC:
            pytest.skip("a topic without columns, or one that no setting names")
        with pytest.raises(ConfigError, match="key"):
            SourceTask(self.source(key="text"), 0, 1, log, is_once=True).run(Orders())
        self.add(2, 2)
        self.run(log)
        self.check(log, 4)

    def test_a_topic_that_was_deleted(self, log):
        """Nor does one of the same name, in place of one that was deleted."""
        self.add(0, 20)
        self.run(log)
        log.delete_topic(self.TOPIC)
        self.add(20, 20)
        for _ in range(2):
            with pytest.raises(ConfigError, match=rf"topic {self.TOPIC}, which had .* was deleted.*offsets reset in"):
                self.run(log)
        change_positions(log, "in", dict.fromkeys(read_positions(log, "in")))
        self.run(log)
        self.check(log, 40)

    def test_positions_that_do_not_say_of_what(self, log):
        """A position of an earlier version, or one that was set by hand, is one of what is there when it is next seen."""
        self.add(0, 20)
        self.run(log)
        kept = read_positions(log, "in")
        change_positions(log, "in", {split: _silent(position) for split, position in kept.items()})
        self.run(log)
        assert read_positions(log, "in") == kept
        self.add(20, 20)
        self.run(log)
        self.check(log, 40)

    def test_positions_that_cannot_be(self, log):
        """A position of another form is refused before the source is opened, whoever wrote it; nothing is read, and the command that sets one is named."""
        self.add(0, 20)
        self.run(log)
        self.add(20, 20)
        kind, kept = type(self.source()), read_positions(log, "in")
        for split, position in kept.items():
            own = _silent(position)
            assert kind.position_fault(split, own) is None
            for name, value in own.items():
                for wrong in (True, -1, 3.5, "5", 2**63, math.inf, {}, [None]) if type(value) is int else (17, [17], {"a": 17}):
                    assert kind.position_fault(split, {**own, name: wrong}), (name, wrong)
            for wrong in ({**own, "nonsense": 1}, {**own, IDENTITY: 1}, {"nonsense": 1}):
                change_positions(log, "in", {split: wrong})
                with pytest.raises(
                    ConfigError, match=r"connector in: .* is no position of .*expected.*connect offsets set in .*POSITION"
                ):
                    self.run(log)
            change_positions(log, "in", {split: position})
        self.check(log, 20)
        self.run(log)
        self.check(log, 40)


def _silent(position: Mapping[str, Any]) -> Mapping[str, Any]:
    return {name: value for name, value in position.items() if name != IDENTITY}


def described(log: sk.Log, name: str) -> tuple[Any, ...]:
    """A topic's columns, key and format, and its rows."""
    topic = log.topic(name)
    names = [*topic.schema.names, "_deleted"]
    rows = log.read(name, columns=names).select(names).to_pylist()
    return str(topic.schema), topic.key, topic.format, sorted(map(repr, rows))


class SinkContract(InWays):
    """A sink writes each row exactly once, whatever dies when. The topic `numbers` has the rows (n, text), keyed by n."""

    @abstractmethod
    def sink(self, tasks: int = 1) -> Sink:
        """A new connector, always of the same name and settings, of the topic `numbers`."""

    @abstractmethod
    def written(self) -> Sequence[Row]:
        """The rows (n, text) of the foreign system."""

    @pytest.fixture
    def log(self, tmp_path):
        with sk.open_log(tmp_path / "log") as log:
            log.create_topic("numbers", "n bigint NOT NULL, text string", key="n", partitions=3)
            yield log

    def add(self, log, first, count):
        with log.producer() as producer:
            producer.send_batch("numbers", [{"n": n, "text": f"text {n}"} for n in range(first, first + count)])

    def run(self, log, task=0, tasks=1):
        SinkTask(self.sink(tasks), task, tasks, log, is_once=True).run(Orders())

    def check(self, count):
        assert sorted(self.written()) == [(n, f"text {n}") for n in range(count)]

    def test_every_row_goes_once(self, log):
        """What is there goes out; what comes later goes out the next time, alone."""
        self.add(log, 0, 50)
        self.run(log)
        self.check(50)
        self.add(log, 50, 25)
        self.run(log)
        self.check(75)
        self.run(log)
        self.check(75)

    @pytest.mark.parametrize("points", deaths("connect.polled", "connect.in_target", "connect.target_committed"), ids=" ".join)
    def test_death(self, log, points):
        """A task that dies after a poll, within the target's transaction or behind it leaves nothing out and writes nothing twice."""
        for first, point in enumerate(points):
            self.add(log, 20 * first, 20)
            with dies(point), pytest.raises(SimulatedCrash):
                self.run(log)
        self.add(log, 20 * len(points), 20)
        self.run(log)
        self.check(20 * len(points) + 20)

    def test_a_topic_that_was_made_again(self, log):
        """What the target knows of a topic of that name that is gone is no position of this one: an error, not rows that are left out."""
        name = self.sink().name
        self.add(log, 0, 20)
        self.run(log)
        log.delete_topic("numbers")
        log.create_topic("numbers", "n bigint NOT NULL, text string", key="n", partitions=3)
        self.add(log, 0, 50)
        for _ in range(2):
            with pytest.raises(
                ConfigError,
                match=rf"give the connector another name, and another target.*: streamkit connect offsets reset {name}",
            ):
                self.run(log)
        self.check(20)
        reset_group(log, name, ["numbers"])
        self.run(log)
        assert log.groups.describe(f"connect-{name}").lag == 0

    def drop(self) -> str | None:
        """Drop what holds the rows in the foreign system, and say what the error says to write all again; None of a target that has no such thing."""
        return None

    def forget(self) -> None:
        """Do what the error of a target that was dropped says, in the foreign system."""

    def test_a_target_that_was_dropped(self, log):
        """A new target lacks what came before the positions: an error with advice, not a part of the rows."""
        name = self.sink().name
        self.add(log, 0, 20)
        self.run(log)
        advice = self.drop()
        if advice is None:
            pytest.skip("nothing that is dropped without its positions")
        self.add(log, 20, 20)
        for _ in range(2):
            with pytest.raises(ConfigError, match=rf"{advice}.*streamkit connect offsets reset {name}"):
                self.run(log)
        self.forget()
        reset_group(log, name, ["numbers"])
        self.run(log)
        self.check(40)

    def test_two_tasks(self, log):
        """Two tasks share the partitions, and so does one that takes both over."""
        self.add(log, 0, 50)
        self.run(log, 0, 2)
        self.run(log, 1, 2)
        self.check(50)
        self.add(log, 50, 50)
        self.run(log)
        self.check(100)

    def test_zombie(self, log):
        """A task that stood still while another took over its partitions is refused by the target."""
        self.add(log, 0, 30)

        def take_over():
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr("streamkit.failpoints._armed", {})
                self.run(log)

        with armed("connect.polled", take_over), pytest.raises(FencedError):
            self.run(log)
        self.check(30)


class RefusingContract:
    """A sink leaves out the rows that its target refuses, and no others, however many there are and wherever they lie in a batch."""

    CASES: ClassVar[Sequence[Row]] = ((300, 1_000, 8), (40, 7, 2), (40, 1_000, 1)) if TAKES_ALL else ((50, 1_000, 3), (20, 7, 2))
    # rows, rows of a put at most, rows that are refused
    WAYS: ClassVar[Sequence[Any]] = ("any",)  # each case runs in each of these ways; fixtures read it from `way`

    @abstractmethod
    def refusing(self, batch_rows: int, errors: Mapping[str, str]) -> Sink:
        """A connector of the topic `numbers` that puts so many rows at a time, and has these settings."""

    @abstractmethod
    def begin(self, refused: Sequence[int]) -> None:
        """Make a target that takes no row whose n is one of these, each for a reason of its own that has n in it."""

    @abstractmethod
    def kept(self) -> Sequence[int]:
        """Every n of the target."""

    def bad(self, n: int) -> Row:
        """A row that the target refuses; it may refuse it for its text."""
        return (n, f"text {n}")

    def reason(self, n: int) -> str:
        """What the dead letter of a row says, as a regular expression."""
        return rf"\b{n}\b"

    ERRORS: ClassVar[Mapping[str, str]] = {"errors.tolerance": "all", "errors.deadletterqueue.topic.name": "bad"}

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        metafunc.parametrize(("case", "way"), in_turn(range(len(RefusingContract.CASES)), self.WAYS), ids=str)

    def test_rows_that_are_refused_go_alone(self, tmp_path, case, way):
        """Innocent rows of a batch are written; each guilty one is a dead letter with its own reason, and the class of the one cause."""
        count, batch_rows, _ = self.CASES[case]
        with sk.open_log(tmp_path / "log") as log:
            refused = self._fill(log, case)
            for _ in range(2):
                SinkTask(self.refusing(batch_rows, self.ERRORS), 0, 1, log, is_once=True).run(Orders())
            assert sorted(self.kept()) == [n for n in range(count) if n not in refused]
            letters = log.read("bad", columns=["value", "_headers"]).to_pylist()
        said = {json.loads(one["value"])["n"]: reason_of(one) for one in letters}
        assert (len(letters), sorted(said)) == (len(refused), refused)
        assert all(re.search(self.reason(n), text) for n, text in said.items()), said
        assert len({said_of(one, "exception.class.name") for one in letters}) == 1

    def test_nothing_passes_a_row_that_is_refused(self, tmp_path, case, way):
        """Without tolerance no row of a partition is in the target before one that it refuses, however often the task is tried."""
        batch_rows = self.CASES[case][1]
        with sk.open_log(tmp_path / "log") as log:
            refused = self._fill(log, case)
            for _ in range(2):
                with pytest.raises(
                    StreamKitError, match=r"TASK_PUT: .* to go on without such records, set errors\.tolerance=all"
                ):
                    SinkTask(self.refusing(batch_rows, {"errors.tolerance": "none"}), 0, 1, log, is_once=True).run(Orders())
            rows = log.read("numbers", columns=["n", "_partition", "_offset"]).to_pylist()
        first: dict[int, float] = dict.fromkeys((0, 1), math.inf)
        for row in rows:
            if row["n"] in refused:
                first[row["_partition"]] = min(first[row["_partition"]], row["_offset"])
        passed = {row["n"] for row in rows if row["_offset"] >= first[row["_partition"]]}
        assert not passed.intersection(self.kept())

    def _fill(self, log: sk.Log, case: int) -> list[int]:
        """Make the topic and a target of a case; every n that the target refuses."""
        count, _, some = self.CASES[case]
        refused = sorted(random.Random(case).sample(range(count), some))
        self.begin(refused)
        log.create_topic("numbers", "n bigint NOT NULL, text string", key="n", partitions=2)
        with log.producer() as producer:
            rows = [self.bad(n) if n in refused else (n, f"text {n}") for n in range(count)]
            producer.send_batch("numbers", [{"n": n, "text": text} for n, text in rows])
        return refused


def reason_of(letter):
    """What a dead letter says of its failure."""
    return said_of(letter, "exception.message")


def said_of(letter, header):
    """What a header of a dead letter says."""
    return next(pair["value"] for pair in letter["_headers"] if pair["key"].endswith(header)).decode()


def _one_key(id: float | None, city: str | None) -> Row:
    """A key as the log compares it; a set of Python takes two NaNs for two values."""
    return ("NaN" if id is not None and math.isnan(id) else id), city


class UpsertContract:
    """A target of upserts is what the topic says of each key last, however the rows are cut into puts."""

    BATCHES = (3, 100)  # rows of a put
    HAS_NULLS_IN_KEYS = False  # True: the target takes a key of which a part is null

    @abstractmethod
    def upserting(self, batch_rows: int) -> Sink:
        """A connector that upserts and deletes rows of the topic `people`, so many at a time."""

    @abstractmethod
    def kept(self) -> Sequence[Row]:
        """The rows in the foreign system: id, city, name."""

    def test_upserts_and_deletions(self, tmp_path):
        """Keys are written, written again and deleted within one put and over many: the newest counts. Zeros are one key, and so are NaNs."""
        with sk.open_log(tmp_path / "log") as log:
            nulls = [None] if self.HAS_NULLS_IN_KEYS else []
            may_be_null = "" if nulls else "NOT NULL"
            ids: list[float | None] = [*range(1, 13), 0.0, -0.0, 0.0, -0.0, _NAN, -_NAN, *nulls]
            cities: list[str | None] = ["a", "b", *nulls]
            log.create_topic("people", f"id double {may_be_null}, city string {may_be_null}, name string", key=["id", "city"])
            chance = random.Random(3)
            wanted: dict[Row, Any] = {}
            for batch in self.BATCHES:
                with log.producer() as producer:
                    for number in range(300 if TAKES_ALL else 120):
                        key: dict[str, Any] = {"id": chance.choice(ids), "city": chance.choice(cities)}
                        if set(key.values()) == {None}:
                            continue
                        if chance.random() < 0.2:
                            producer.delete("people", key)
                            wanted.pop(_one_key(*key.values()), None)
                        else:
                            producer.send("people", {**key, "name": f"n{number}"})
                            wanted[_one_key(*key.values())] = f"n{number}"
                SinkTask(self.upserting(batch), 0, 1, log, is_once=True).run(Orders())
                kept = self.kept()
                assert {_one_key(*key): name for *key, name in kept} == wanted and len(kept) == len(wanted)

    def test_deletions_of_keys_that_are_not_there(self, tmp_path):
        """A put of nothing but such deletions, first or later, moves the position in the target as any other."""
        with sk.open_log(tmp_path / "log") as log:
            log.create_topic("people", "id int NOT NULL, city string NOT NULL, name string", key=["id", "city"])
            for name in (None, None, "n", None, "m"):
                with log.producer() as producer:
                    key = {"id": 1 if name else 7, "city": "a"}
                    producer.send("people", {**key, "name": name}) if name else producer.delete("people", key)
                SinkTask(self.upserting(100), 0, 1, log, is_once=True).run(Orders())
            assert list(self.kept()) == [(1, "a", "m")]
