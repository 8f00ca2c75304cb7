"""Applications in the catalog: generations, stores, and where each application stands."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from streamkit.errors import ConfigError, FencedError, TopicExistsError
from streamkit.log.catalog import programs, topics
from streamkit.log.catalog.manifest import OffsetsByTopicId
from streamkit.log.catalog.sql_queries import QueriesSeen
from streamkit.log.database.database import Row, Transaction
from streamkit.log.topic.topic import Topic
from streamkit.names import check_name

KEY_HASH = "murmur2"
UNSET = 0  # key groups of an application that was reset
TIMES_METRIC = (
    "stream_times"  # among the metrics of an application: pairs of a name and a time, from which its next epoch goes on
)
EXPIRED_TIME = (
    "expired/"  # begins a name there: up to which event time the records of a changelog, whose id follows, are of expired windows
)
FOLLOWS_METRIC = "follows"  # among the metrics of an application: the one that it follows without writing, until it takes it over
SUCCESSOR_METRIC = "successor"  # the one that has taken its outputs over
TOOK_OVER_METRIC = "took_over"  # the one whose outputs it has taken over
LEADER_RESET_METRIC = "leader_reset"  # the one that it follows, if that was reset since it began to
ENDED_METRIC = "ended"  # the generation by which its run was ended, if a statement of SQL has done so
RECORD_KINDS = ("stream", "table")  # of a program's inputs: those read record by record
NO_TOKEN = ""  # the token of epoch 0, which nobody committed


@dataclass(frozen=True)
class StoreDeclaration:
    """A store that a program has, and its changelog topic, which is created unless it exists as declared."""

    name: str
    changelog: Topic


@dataclass(frozen=True)
class StoreState:
    """What the catalog keeps of a store: a number that never changes, and its changelog topic."""

    name: str
    number: int
    changelog_topic_id: int


@dataclass(frozen=True)
class ApplicationState:
    """
    Where an application stands: its newest generation, and what its last committed epoch left.

    `epoch` is 0 and `token` empty before the first commit. `positions` has the next offset to read by topic id and
    partition; a missing one is 0. `program_hash` is that of the start before, or of this one if there was none.
    """

    id: int
    name: str
    generation: int
    epoch: int
    token: str
    stream_time_ms: int | None
    tasks: int
    key_groups: int
    program_hash: str
    drained: bool
    metrics: dict[str, Any]
    positions: OffsetsByTopicId
    stores: dict[str, StoreState]

    @property
    def follows(self) -> str | None:
        """The application that this one follows, and writes nothing until it takes that one over; None for one that runs by itself."""
        return self.metrics.get(FOLLOWS_METRIC)

    @property
    def took_over(self) -> str | None:
        """The application whose outputs it has taken over; None if it has none."""
        return self.metrics.get(TOOK_OVER_METRIC)

    def behind(self, other: ApplicationState) -> int:
        """How many offsets it is behind another application, in the topics that both have read; one that has read nothing, in all."""
        return sum(
            max(0, end - self.positions.get(topic_id, {}).get(partition, 0))
            for topic_id, ends in other.positions.items()
            if topic_id in self.positions or not self.positions
            for partition, end in ends.items()
        )

    def has_lost(self, leader: ApplicationState) -> bool:
        """Whether the application that it follows was reset since, or has not read what this one has: then it goes on from nowhere."""
        return LEADER_RESET_METRIC in self.metrics or self._is_ahead(leader)

    def _is_ahead(self, leader: ApplicationState) -> bool:
        """Whether it has read more of a topic than its leader, in whose positions it stays."""
        read = leader.positions
        return any(
            offset > read.get(topic_id, {}).get(partition, 0)
            for topic_id, offsets in self.positions.items()
            if topic_id in read or not read
            for partition, offset in offsets.items()
        )

    @property
    def is_ended(self) -> bool:
        """Whether its newest generation is one that ended its run, and that no run has begun."""
        return self.metrics.get(ENDED_METRIC) == self.generation

    @property
    def successor(self) -> str | None:
        """The application that has taken its outputs over; None if none has."""
        return self.metrics.get(SUCCESSOR_METRIC)


@dataclass(frozen=True)
class ApplicationMoment:
    """The few values by which who has looked at an application before sees whether anything has changed since."""

    id: int
    generation: int
    epoch: int
    token: str
    tasks: int


def start(
    transaction: Transaction,
    now_ms: int,
    name: str,
    *,
    tasks: int | None,
    default_tasks: int,
    key_groups: int,
    program_hash: str,
    stores: Sequence[StoreDeclaration],
    program: str | None = "",
    inputs: Mapping[int, bool] | None = None,
    dropped: Collection[str] = (),
    compared: str | None = None,
    stale_times: Collection[str] = (),
    shifted_times: Mapping[str, int] | None = None,
    follows: str | None = None,
    seen: QueriesSeen | None = None,
) -> ApplicationState:
    """
    Begin a new generation of an application, which fences all older ones, and return its state.

    The first start stores the number of tasks (`default_tasks` unless given) and of key groups; later ones keep the tasks
    unless given. `inputs` are the ids of the topics it reads, and whether each epoch reads them from the beginning: retention
    asks for them. Stores that are `dropped` go with their changelog topics; their slabs are orphans then. So do the `stale_times`, by name;
    `shifted_times` take the place of others.
    A `program` of None keeps the one before, until an epoch converts what it left. `compared` is the program before that the start
    has been compared with. An application `follows` another one from its first start on, or never.
    ConfigError if key groups or hash differ from what is stored, if it follows another one than that, or has been taken over; FencedError if
    another program has started since the comparison, or if its queries of SQL are not those that were `seen` any more.
    """
    if seen is not None:
        seen.check(transaction, name)
    if not transaction.execute("SELECT 1 FROM application WHERE name = ?", (check_name(name, "application"),)):
        transaction.execute(
            "INSERT INTO application (name, generation, epoch, token, tasks, key_groups, key_hash, program_hash, program, drained, metrics) "
            "VALUES (?, 0, 0, ?, ?, ?, ?, ?, '', 0, '{}')",
            (name, NO_TOKEN, _check_tasks(default_tasks), key_groups, KEY_HASH, program_hash),
        )
    before = get(transaction, name)
    _check_following(transaction, before, follows)
    _keep_keys(transaction, before, key_groups)
    if compared is not None and program_of(transaction, before.name) not in (compared, program):
        raise FencedError(
            f"application {before.name}: generation {before.generation} has started with another program since this start looked at its state; "
            "start it again"
        )
    chosen = before.tasks if tasks is None else _check_tasks(tasks)
    transaction.execute(
        "UPDATE application SET generation = generation + 1, tasks = ?, program_hash = ?, program = coalesce(?, program) WHERE id = ?",
        (chosen, program_hash, program, before.id),
    )
    if program:
        programs.note(transaction, now_ms, before.id, program_hash)
    transaction.execute("DELETE FROM application_input WHERE application_id = ?", (before.id,))
    transaction.execute_many(
        "INSERT INTO application_input (application_id, topic_id, is_whole) VALUES (?, ?, ?)",
        [(before.id, topic_id, int(is_whole)) for topic_id, is_whole in (inputs or {}).items()],
    )
    _change_times(transaction, before, stale_times, shifted_times or {})
    for name_of_store in dropped:
        _drop_store(transaction, before, name_of_store)
    for store in stores:
        _declare_store(transaction, before, store, now_ms)
    state = get(transaction, name)
    return replace(state, program_hash=before.program_hash)


def create_topic(transaction: Transaction, now_ms: int, application: str, topic: Topic, seen: QueriesSeen | None) -> Topic:
    """Create a topic that a start of an application lacks; FencedError if its queries of SQL are not those that were `seen` any more."""
    if seen is not None:
        seen.check(transaction, application)
    return topics.create(transaction, now_ms, topic)


def _change_times(transaction: Transaction, state: ApplicationState, stale: Collection[str], shifted: Mapping[str, int]) -> None:
    """Leave those out of the stream times that the next epoch goes on from, and put others in their place."""
    if not (stale or shifted) or TIMES_METRIC not in state.metrics:
        return
    kept = {name: time for name, time in state.metrics[TIMES_METRIC] if name not in stale}
    times = [list(pair) for pair in sorted({**kept, **shifted}.items())]
    metrics = json.dumps({**state.metrics, TIMES_METRIC: times})
    transaction.execute("UPDATE application SET metrics = ? WHERE id = ?", (metrics, state.id))


def _check_following(transaction: Transaction, state: ApplicationState, follows: str | None) -> None:
    """Note which application a new one follows; ConfigError if it is not the one that was noted before, or it has been taken over."""
    if state.successor is not None:
        raise ConfigError(
            f"the outputs of the application {state.name!r} were taken over by {state.successor!r}, which goes on with them: run that one; or let "
            f"{state.name} start from scratch with `streamkit apps reset {state.name}`, which appends its results once more"
        )
    if follows is not None and state.follows is None and not state.epoch:
        _note(transaction, state, FOLLOWS_METRIC, follows)
    elif follows != state.follows:
        way = f"that as before, or `streamkit apps reset {state.name}` first, or another name"
        if state.follows is not None and follows is None:
            leader = get(transaction, state.follows)
            check_followed(state, leader)
            is_handed_over = leader.successor == state.name
            way = f"that as before (--from {state.follows}), " + (
                f"since it has taken {state.follows} over and has not read yet what that one has read"
                if is_handed_over
                else f"or `streamkit apps take-over {state.name}` first, or another name"
            )
        raise ConfigError(
            f"the application {state.name!r} {_following_text(state.follows)}; this start asks for one that {_following_text(follows)}: expected "
            f"{way}"
        )


def _following_text(follows: str | None) -> str:
    return "runs by itself" if follows is None else f"follows {follows!r} without writing"


def _note(transaction: Transaction, state: ApplicationState, name: str, value: str | int | None) -> None:
    """Keep a value among the metrics of an application, which no epoch changes; None takes it away."""
    metrics = {key: known for key, known in state.metrics.items() if key != name} | ({} if value is None else {name: value})
    transaction.execute("UPDATE application SET metrics = ? WHERE id = ?", (json.dumps(metrics), state.id))


def hand_over(transaction: Transaction, follower: str) -> ApplicationState:
    """
    Fence the application that another one follows, for good; returns it as it stands then.

    Its outputs are those of the follower, once that one has come to where it stands. ConfigError if that one follows none, or if the leader
    was reset.
    """
    state = get(transaction, follower)
    if state.follows is None:
        if state.took_over is not None:
            raise ConfigError(f"the application {follower!r} has taken over {state.took_over!r} already, and runs by itself")
        raise ConfigError(
            f"the application {follower!r} follows no other one, so there is none to take over; expected one that runs by "
            "streamkit run FILE --as NAME --from APP"
        )
    leader = get(transaction, state.follows)
    check_followed(state, leader)
    if leader.successor not in (None, follower):
        raise ConfigError(f"the application {leader.name!r} has been taken over by {leader.successor!r} already")
    transaction.execute("UPDATE application SET generation = generation + 1 WHERE id = ?", (leader.id,))
    _note(transaction, leader, SUCCESSOR_METRIC, follower)
    return get(transaction, leader.name)


def end_run(transaction: Transaction, name: str) -> None:
    """End the run of an application, if there is one: it commits nothing any more. Its state stays, and its next start goes on from there."""
    if not transaction.execute("SELECT 1 FROM application WHERE name = ?", (name,)):
        return
    state = get(transaction, name)
    transaction.execute("UPDATE application SET generation = generation + 1 WHERE id = ?", (state.id,))
    _note(transaction, state, ENDED_METRIC, state.generation + 1)


def check_followed(state: ApplicationState, leader: ApplicationState) -> None:
    """ConfigError if an application has read what its leader has not, since that one was reset: it could not take over without a gap."""
    if state.has_lost(leader):
        raise ConfigError(
            f"the application {leader.name!r} has been reset since {state.name!r} began to follow it, and reads its topics again: what {state.name} "
            "has read does not tell what that one has sent, so results would be sent twice, or never. Let it begin again, too, by "
            f"`streamkit apps reset {state.name}`"
        )


def lead(transaction: Transaction, name: str, generation: int) -> None:
    """Let an application that has come to where its former leader stands write from now on; FencedError if a newer generation has started."""
    state = get(transaction, name)
    if state.generation != generation:
        raise FencedError(f"application {name}: generation {state.generation} has started since generation {generation} followed")
    _note(transaction, state, FOLLOWS_METRIC, None)
    _note(transaction, get(transaction, name), TOOK_OVER_METRIC, state.follows)


def _check_tasks(tasks: int) -> int:
    if type(tasks) is not int or tasks < 1:
        raise ConfigError(f"tasks={tasks!r}; expected a whole number of at least 1")
    return tasks


def _keep_keys(transaction: Transaction, state: ApplicationState, key_groups: int) -> None:
    if state.key_groups == UNSET:
        transaction.execute("UPDATE application SET key_groups = ?, key_hash = ? WHERE id = ?", (key_groups, KEY_HASH, state.id))
    check_keys(transaction, state, key_groups)


def check_keys(transaction: Transaction, state: ApplicationState, key_groups: int) -> None:
    """ConfigError if an application keeps its state in another number of key groups, or by another hash, or was removed since it was looked at."""
    found = transaction.execute("SELECT key_groups, key_hash FROM application WHERE id = ?", (state.id,))
    if not found:
        raise ConfigError(f"application {state.name} was removed while it was compared; do it again")
    ((found_groups, found_hash),) = found
    if found_groups != UNSET and (found_groups, found_hash) != (key_groups, KEY_HASH):
        raise ConfigError(
            f"application {state.name} keeps its state in {found_groups} key groups by {found_hash}; this start asks for {key_groups} by {KEY_HASH}: "
            "they are fixed at the first start, so keep them or reset the application"
        )


@dataclass(frozen=True)
class CurrentInputs:
    """The topics that an application still reads: the ids of topics read record by record, and the names of deleted ones."""

    topic_ids: frozenset[int]
    missing: tuple[str, ...]


def current_inputs(transaction: Transaction, state: ApplicationState) -> CurrentInputs:
    """
    What the next start of an application's program reads on.

    A topic that was deleted and made again is a new one, which it reads from the beginning. One that was taken over reads nothing any more.
    """
    if state.successor is not None:
        return CurrentInputs(frozenset(), ())
    started = inputs_of(transaction, state.id)
    there = {topic.id for topic in topics.every(transaction)}
    read = {*state.positions, *(topic_id for topic_id, is_whole in started.items() if not is_whole)} & there
    if started.keys() <= there:
        return CurrentInputs(frozenset(read), ())
    missing = set()
    for name, kind in program_inputs(transaction, state.id):
        topic = topics.find(transaction, name)
        if topic is None:
            missing.add(name)
        elif topic.id not in started and kind in RECORD_KINDS:
            read.add(topic.id)
    return CurrentInputs(frozenset(read), tuple(sorted(missing)))


def program_inputs(transaction: Transaction, application_id: int) -> list[tuple[str, str]]:
    """The names of the topics that an application's program reads, and as what; none of a program whose form is not known."""
    try:
        found = json.loads(program_of_id(transaction, application_id))
        return [(str(one["topic"]), str(one["kind"])) for one in found["inputs"]]
    except (ValueError, LookupError, TypeError):
        return []


def inputs_of(transaction: Transaction, application_id: int) -> dict[int, bool]:
    """
    The ids of the topics that an application's newest generation was started on, also of topics that were deleted since.

    The value says whether each epoch reads the topic whole, as that of a global table.
    """
    found = transaction.execute("SELECT topic_id, is_whole FROM application_input WHERE application_id = ?", (application_id,))
    return {topic_id: bool(is_whole) for topic_id, is_whole in found}


def _drop_store(transaction: Transaction, state: ApplicationState, name: str) -> None:
    """Forget a store and its changelog. Its number may be given again: local stores that held its rows are not trusted."""
    changelog_id = state.stores[name].changelog_topic_id
    transaction.execute("DELETE FROM application_store WHERE application_id = ? AND name = ?", (state.id, name))
    _delete_changelog(transaction, changelog_id)


def _delete_changelog(transaction: Transaction, topic_id: int) -> tuple[str, ...]:
    """Delete the changelog of a store that was forgotten, unless it is one of another store too, as logs of earlier versions may have it."""
    for topic in topics.every(transaction):
        if topic.internal and topic.id == topic_id and not topics.stores_behind(transaction, topic):
            return topics.delete(transaction, topic.name)
    return ()


def check_changelog(transaction: Transaction, application: str, store: StoreDeclaration) -> None:
    """ConfigError or TopicExistsError, if a topic that is not the changelog of a store has the name of that."""
    name = store.changelog.name
    for owner, other in transaction.execute(
        "SELECT a.name, s.name FROM application_store s JOIN application a ON a.id = s.application_id "
        "JOIN topic t ON t.id = s.changelog_topic_id WHERE t.name = ? AND NOT (a.name = ? AND s.name = ?) ORDER BY a.name, s.name",
        (name, application, store.name),
    ):
        raise ConfigError(
            f"the store {store.name!r} of the application {application!r} cannot have its changelog: the topic {name} is the changelog of the "
            f"store {other!r} of the application {owner!r}, whose names give the same one; expected another name of the store, as in "
            f"store='{store.name}_2', or of the application{_mixed(transaction, application, store.name, owner)}"
        )
    existing = topics.find(transaction, name)
    if existing is not None and store.changelog.internal and not existing.internal:
        raise TopicExistsError(
            f"the store {store.name!r} of the application {application!r} cannot have its changelog: there is a topic {name} already, which is no "
            f"changelog; expected another name of the store, as in store='{store.name}_2', or `streamkit topics delete {name}` first"
        )
    if existing is not None:
        topics.fitted(existing, store.changelog)


def _mixed(transaction: Transaction, application: str, store: str, owner: str) -> str:
    """What to do if both have run, and so have rows of each other."""
    statement = "SELECT 1 FROM application_store s JOIN application a ON a.id = s.application_id WHERE a.name = ? AND s.name = ?"
    if not transaction.execute(statement, (application, store)):
        return ""
    return (
        f"; both have written into it, so what they have counted is wrong: begin both again, with `streamkit apps reset {application}` and "
        f"`streamkit apps reset {owner}`"
    )


def _declare_store(transaction: Transaction, application: ApplicationState, store: StoreDeclaration, now_ms: int) -> None:
    check_changelog(transaction, application.name, store)
    application_id, topic = application.id, topics.create(transaction, now_ms, store.changelog)
    found = transaction.execute(
        "SELECT changelog_topic_id FROM application_store WHERE application_id = ? AND name = ?", (application_id, store.name)
    )
    if found and found[0][0] != topic.id:
        raise ConfigError(
            f"store {store.name} has the topic with id {found[0][0]} as its changelog; found {topic.name} with id {topic.id}: reset the application"
        )
    if not found:
        transaction.execute(
            "INSERT INTO application_store (application_id, name, number, changelog_topic_id) "
            "SELECT ?, ?, coalesce(max(number) + 1, 0), ? FROM application_store WHERE application_id = ?",
            (application_id, store.name, topic.id, application_id),
        )


def get(transaction: Transaction, name: str) -> ApplicationState:
    """The state of an application; ConfigError, which lists those that exist, if there is none of that name."""
    for state in _states(transaction, "WHERE name = ?", (name,)):
        return state
    existing = [state.name for state in every(transaction)]
    raise ConfigError(
        f"application {name!r} does not exist; there {'are ' + ', '.join(existing) if existing else 'is none'}: an application appears with "
        "its first start"
    )


def turn(transaction: Transaction, name: str) -> tuple[int, int]:
    """The newest generation of an application, and its last committed epoch; ConfigError as `get`."""
    rows = transaction.execute("SELECT generation, epoch FROM application WHERE name = ?", (name,))
    if not rows:
        get(transaction, name)  # raises
    return rows[0][0], rows[0][1]


def moment_of(transaction: Transaction, name: str) -> ApplicationMoment:
    """Where an application stands, in few values; ConfigError as `get`."""
    rows = transaction.execute("SELECT id, generation, epoch, token, tasks FROM application WHERE name = ?", (name,))
    if not rows:
        get(transaction, name)  # raises
    return ApplicationMoment(*rows[0])


def program_of(transaction: Transaction, name: str) -> str:
    """The program of the newest generation, as JSON text; ConfigError as `get`."""
    return program_of_id(transaction, get(transaction, name).id)


def program_of_id(transaction: Transaction, application_id: int) -> str:
    """As `program_of`, of an application that is known."""
    ((program,),) = transaction.execute("SELECT program FROM application WHERE id = ?", (application_id,))
    return str(program)


def every(transaction: Transaction) -> list[ApplicationState]:
    """The states of all applications, by name."""
    return _states(transaction, "ORDER BY name", ())


def _states(transaction: Transaction, clause: str, parameters: Sequence[Any]) -> list[ApplicationState]:
    rows = transaction.execute(
        "SELECT id, name, generation, epoch, token, stream_time_ms, tasks, key_groups, program_hash, drained, metrics "
        f"FROM application {clause}",
        parameters,
    )
    return [_state(transaction, row) for row in rows]


def _state(transaction: Transaction, row: Row) -> ApplicationState:
    application_id, name, generation, epoch, token, stream_time_ms, tasks, key_groups, program_hash, drained, metrics = row
    statement = "SELECT name, number, changelog_topic_id FROM application_store WHERE application_id = ? ORDER BY number"
    stores = {name: StoreState(name, *rest) for name, *rest in transaction.execute(statement, (application_id,))}
    return ApplicationState(
        application_id, name, generation, epoch, token, stream_time_ms, tasks, key_groups, program_hash, bool(drained),
        json.loads(metrics), positions_of(transaction, application_id), stores,
    )  # fmt: skip


def positions_of(transaction: Transaction, application_id: int) -> OffsetsByTopicId:
    """The next offset an application reads, by topic id and partition."""
    positions: OffsetsByTopicId = {}
    statement = (
        "SELECT topic_id, partition, next_offset FROM application_position WHERE application_id = ? ORDER BY topic_id, partition"
    )
    for topic_id, partition, offset in transaction.execute(statement, (application_id,)):
        positions.setdefault(topic_id, {})[partition] = offset
    return positions


def reset(transaction: Transaction, name: str) -> tuple[str, ...]:
    """
    Forget where an application stands, and its stores with their internal changelog topics; its next start begins from scratch.

    The generation stays and grows, so an older run is fenced; one that follows it goes on no more. Returns the slabs that nothing refers to
    any more.
    """
    state = get(transaction, name)
    for one in every(transaction):
        if one.follows == name:
            _note(transaction, one, LEADER_RESET_METRIC, name)
    for table in ("application_position", "application_store", "epoch"):
        transaction.execute(f"DELETE FROM {table} WHERE application_id = ?", (state.id,))
    transaction.execute(
        "UPDATE application SET generation = generation + 1, epoch = 0, token = ?, stream_time_ms = NULL, drained = 0, "
        "metrics = '{}', key_groups = ? WHERE id = ?",
        (NO_TOKEN, UNSET, state.id),
    )
    changelogs = {store.changelog_topic_id for store in state.stores.values()}
    return tuple(path for topic_id in sorted(changelogs) for path in _delete_changelog(transaction, topic_id))


def remove(transaction: Transaction, name: str) -> tuple[str, ...]:
    """
    Forget an application with its stores and their internal changelog topics, if there is one of that name.

    An attempt of it that is under way commits nothing any more. Returns the slabs that nothing refers to any more.
    """
    if not transaction.execute("SELECT 1 FROM application WHERE name = ?", (name,)):
        return ()
    paths = reset(transaction, name)
    ((application_id,),) = transaction.execute("SELECT id FROM application WHERE name = ?", (name,))
    transaction.execute("DELETE FROM application_input WHERE application_id = ?", (application_id,))
    transaction.execute("DELETE FROM application WHERE id = ?", (application_id,))
    return paths
