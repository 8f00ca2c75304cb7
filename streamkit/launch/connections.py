"""The connectors that a topology asks for: started beside its query and stopped with it, or written out to be run elsewhere."""

from __future__ import annotations

import atexit
import json
import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from streamkit.connectors.classes import CLASS, class_of, connector_of
from streamkit.connectors.connector import Connector
from streamkit.connectors.runtime.connected_topics import connected_topics
from streamkit.connectors.runtime.worker import Worker
from streamkit.connectors.runtime.worker_process import WorkerProcess, worker_processes
from streamkit.connectors.setting import written_secret
from streamkit.connectors.source import Source, kept_for_ever
from streamkit.dsl.topology import Topology
from streamkit.engine.runs.local_epochs import available_cores
from streamkit.engine.runs.options import Options
from streamkit.errors import ConfigError, SetupError, StreamKitError, TopicNotFoundError
from streamkit.log.log import Log
from streamkit.log.topic.settings import RETENTION_MS
from streamkit.plan.connection import Connection
from streamkit.plan.inputs import sources_of
from streamkit.plan.program import Program

Where = Literal["here", "external"]
PLACES = ("here", "external")
TOPIC_SECONDS = 60.0  # how long the first rows of a source may take, where they say what its topic holds
WAIT_SECONDS = 0.05

_logger = logging.getLogger(__name__)
_PARTITIONS, _TOPIC_CONFIG = "topic.partitions", "topic.config."


def begin_connections(
    topology: Topology | Program,
    log: Log,
    options: Options,
    where: Where = "here",
    is_stopped: Callable[[], bool] = lambda: False,
) -> Connections | None:
    """
    Start the sources that a topology asks for; None if there is nothing to run here.

    A bounded run's sources have come to their end when this returns. Else it returns as soon as their topics are there.
    """
    if where not in PLACES:
        raise ConfigError(f"connectors={where!r}; expected one of {', '.join(map(repr, PLACES))}")
    if isinstance(topology, Program) or not topology.connections:
        return None
    _check_circles(topology.connections, log)
    tables = {source.topic for source in sources_of(topology.roots) if source.relation != "stream"}
    for connection in topology.connections:
        _declare_topic(connection, log, is_table=connection.topic in tables)
    if where == "external":
        return None
    begun = Connections(topology.connections, log, is_bounded=options.is_bounded)
    try:
        begun.begin(is_stopped)
    except BaseException:
        begun.stop()
        raise
    return begun


def _check_circles(connections: Sequence[Connection], log: Log) -> None:
    """
    ConfigError where an application writes into a topic for a system, and a connector fills the same topic from such a system.

    Records would go round for ever: what the sink sends there, the source brings back. A sink that copies what a source brings is none of these.
    """
    known = connected_topics(log)
    sources = [(one.name, _system(one.kind), one.topic) for one in known if one.is_source]
    sources += [(one.name, _system(one.class_name), one.topic) for one in connections if one.is_source]
    sinks = [(one.name, _system(one.class_name), one.topic) for one in connections if not one.is_source]
    written = [(one.name, _system(one.kind), one.topic) for one in known if not one.is_source]
    own = {one.topic for one in connections if one.is_source}
    sinks += [one for one in written if one[2] in own and _is_output(log, one[2])]
    for source, system, topic in sources:
        for sink, other, emptied in sinks:
            if (system, topic) == (other, emptied) and source != sink:
                raise ConfigError(
                    f"an application writes into topic {topic}, from which {sink} sends its records to {system}, and {source} fills the same topic "
                    f"from {system}: records would go round; expected another topic for one of them, as in topic={f'{topic}-out'!r}"
                )


def _system(class_name: str) -> str:
    """The kind of system that a connector is for, from the name of its class: Kafka of KafkaSource and KafkaSink."""
    return class_name.rpartition(":")[2].rpartition(".")[2].removesuffix("Source").removesuffix("Sink")


def _is_output(log: Log, topic: str) -> bool:
    """Whether an application of the log writes a topic."""
    texts = (log.catalog.applications.program_of(state.name) for state in log.catalog.applications.every())
    return any(output.topic == topic for text in texts if text for output in Program.from_json(json.loads(text)).outputs)


class Connections:
    """
    Connectors beside a query: what a run takes as its companion.

    Those of a run that goes on are in processes of their own, one for the sources and one for the sinks, or as many as a connector has
    tasks and the host has cores, so that they hold no epoch up. Those of a bounded run, where nothing runs beside them, are in threads of
    this process; so are all where no other process could open the log, or make the connectors.
    """

    def __init__(self, connections: Sequence[Connection], log: Log, *, is_bounded: bool) -> None:
        self._topics = {one.topic: one.name for one in connections if one.is_source}
        made = [connector_of(one.name, configuration(one)) for one in connections]
        self._sources = [one for one in made if isinstance(one, Source)]
        self._sinks = [one for one in made if not isinstance(one, Source)]
        self._configurations = {one.name: configuration(one) for one in connections}
        self._log = log
        self._is_bounded = is_bounded
        self._running: list[Worker | WorkerProcess] = []
        self._source_workers: list[Worker | WorkerProcess] = []
        self._process = os.getpid()
        atexit.register(self.stop)

    def begin(self, is_stopped: Callable[[], bool]) -> None:
        """Start the sources, and wait for their end if the run is bounded, else for their topics."""
        self._source_workers = self._started(self._sources)
        if self._is_bounded:
            self._wait_for_end(self._source_workers, is_stopped)
        self._wait_for_topics(is_stopped)

    def follow(self) -> None:
        """The query has begun, so the topics of the sinks are there: start them, unless the run is bounded."""
        if not self._is_bounded:
            self._started(self._sinks)

    def check(self) -> None:
        """Raise the error of a connector that has failed."""
        for worker in list(self._running):
            worker.check()

    def finish(self) -> None:
        """The query has ended: the sinks take what is there, then all is over."""
        if self._is_bounded:
            self._wait_for_end(self._started(self._sinks), lambda: False)
        self.stop()

    def stop_sources(self) -> None:
        """End the sources after what they are doing."""
        for worker in self._source_workers:
            self._end(worker)

    def stop(self) -> None:
        """End all after what they are doing; nothing in a process that was forked from theirs."""
        if os.getpid() != self._process:
            return
        atexit.unregister(self.stop)
        for worker in list(self._running):
            self._end(worker)

    def _started(self, connectors: Sequence[Connector]) -> list[Worker | WorkerProcess]:
        if not connectors:
            return []
        found = self._started_apart(connectors) or [Worker(connectors, self._log, is_once=self._is_bounded).start()]
        self._running += found
        return found

    def _started_apart(self, connectors: Sequence[Connector]) -> list[Worker | WorkerProcess]:
        """The connectors in processes of their own; none where they have to be in this one."""
        if self._is_bounded or not self._log.opens_elsewhere:
            return []
        count = min(available_cores(), max(int(one.settings["tasks.max"]) for one in connectors))
        chosen = {one.name: self._configurations[one.name] for one in connectors}
        try:
            return list(worker_processes(chosen, self._log, count))
        except (SetupError, TypeError) as error:  # the latter for settings that are no JSON
            _logger.info("%s run in threads of this process, beside epochs: %s", ", ".join(chosen), error)
            return []

    def _end(self, worker: Worker | WorkerProcess) -> None:
        if worker in self._running:
            self._running.remove(worker)
            worker.stop()

    def _wait_for_end(self, workers: Sequence[Worker | WorkerProcess], is_stopped: Callable[[], bool]) -> None:
        for worker in workers:
            while not worker.wait(WAIT_SECONDS):
                if is_stopped():
                    self._end(worker)
                    return

    def _wait_for_topics(self, is_stopped: Callable[[], bool]) -> None:
        until = time.monotonic() + (0.0 if self._is_bounded else TOPIC_SECONDS)
        while missing := [topic for topic in self._topics if topic not in self._log.topics()]:
            self.check()
            if is_stopped():
                return
            if time.monotonic() >= until:
                raise TopicNotFoundError(
                    f"there is no topic {missing[0]!r}, and the connector {self._topics[missing[0]]} has brought no rows that would say what "
                    "it holds; expected rows, or schema= (and key=) where the topology reads it"
                )
            time.sleep(WAIT_SECONDS)


def configuration(connection: Connection) -> dict[str, Any]:
    """A connector's configuration as a file has it; placeholders stay."""
    topic = {"topic" if connection.is_source else "topics": connection.topic}
    return {CLASS: connection.class_name, **topic, **dict(connection.settings)}


def exported(topology: Topology) -> list[dict[str, Any]]:
    """
    The connectors that a topology asks for, as `streamkit connect run` takes them.

    ConfigError for a secret that is written out in the topology: a file would show it.
    """
    for connection in topology.connections:
        _check_secrets(connection)
    return [{"name": one.name, "config": {**_columns(one), **configuration(one)}} for one in topology.connections]


def _columns(connection: Connection) -> dict[str, Any]:
    """
    The settings by which a source makes its topic with the columns that the topology says.

    They are those of what it reads, if it has a setting for them, and no transform stands between.
    """
    if not _says_columns(connection):
        return {}
    assert connection.schema is not None
    names = {setting.name for setting in class_of(connection.class_name).declared()}
    given = [name for name, _ in connection.settings]
    name = "schema" if "schema" in names and not {"schema", "transforms"} & set(given) else "topic.schema"
    key = {"key": ",".join(connection.key)} if connection.key and "key" in names else {}
    return {name: connection.schema.ddl(), **key}


def _check_secrets(connection: Connection) -> None:
    name = written_secret(class_of(connection.class_name).declared(), dict(connection.settings))
    if name is not None:
        raise ConfigError(
            f"the connector {connection.name}: its {name} is secret and written out in the topology; a file would show it. "
            f"Write {name}=${{env:NAME}} there, and put the value into the environment"
        )


def _declare_topic(connection: Connection, log: Log, *, is_table: bool) -> None:
    """
    Create the topic of a source whose columns the topology says; one of bytes gets columns only where a format reads them.

    What is read as a table, or is one there, is kept for ever: rows that nobody changes are rows of it all the same.
    """
    settings: Mapping[str, Any] = dict(connection.settings)
    if _says_columns(connection) and connection.topic not in log.topics():
        source = connector_of(connection.name, configuration(connection))
        given = {key.removeprefix(_TOPIC_CONFIG): value for key, value in settings.items() if key.startswith(_TOPIC_CONFIG)}
        is_kept = is_table or (isinstance(source, Source) and RETENTION_MS in source.config_of(connection.topic))
        log.create_topic(
            connection.topic,
            connection.schema,
            key=connection.key,
            partitions=_partitions(connection, source),
            config={**(kept_for_ever(connection.key or ()) if is_kept else {}), **given},
        )


def _partitions(connection: Connection, source: Connector) -> int | None:
    """How many partitions the topic of a source gets: what is said, else as many as there are where its rows come from, if they have any there."""
    given = dict(connection.settings).get(_PARTITIONS)
    if given is not None or not isinstance(source, Source) or not source.keeps_partitions:
        return None if given is None else int(given)
    try:
        source.splits()
        return source.partitions_of(connection.topic)
    except (StreamKitError, OSError) as error:
        _logger.warning("%s: how many partitions its topic has cannot be asked, so %s gets as many as new topics get: %s",
                        connection.name, connection.topic, error)  # fmt: skip
        return None
    finally:
        source.close()


def _says_columns(connection: Connection) -> bool:
    """Whether the topology says the columns of a source's topic; one of bytes has columns only where a format reads them."""
    is_raw = getattr(class_of(connection.class_name), "IS_RAW", False)
    has_columns = not is_raw or any(name == "value.format" for name, _ in connection.settings)
    return connection.is_source and connection.schema is not None and has_columns
