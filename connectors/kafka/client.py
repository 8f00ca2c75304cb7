"""Kafka's client: the library, what its errors mean here, and what each side of a connector needs of a cluster."""

from __future__ import annotations

import importlib
import re
import time
from collections.abc import Callable, Iterable
from typing import Any

from streamkit.connectors.connector import Connector, needed
from streamkit.connectors.kafka.client_settings import check_client_settings
from streamkit.connectors.placeholders import has_placeholder
from streamkit.connectors.setting import Setting
from streamkit.errors import ConfigError, FencedError, StreamKitError, TopicNotFoundError
from streamkit.names import is_name

ENDS_SECONDS = 30
LEADER_SECONDS = 10.0  # for a partition to get a leader: one that was made a moment ago has none yet
LEADER_PAUSE_SECONDS = 0.05
METADATA_SECONDS = (0.5, 4.5)  # who is not let in hears it soon; who is far away has more time
CLIENT_SETTINGS = (
    Setting("bootstrap.servers", "the brokers, such as host:9092,host:9092"),
    Setting("kafka.", "any setting of the client, such as kafka.security.protocol", default=None, is_secret=True),
)
_BROKER = re.compile(r"(?:\w+://)?(?:\[[^\s\[\]]+\]|[^\s:/\[\]]+)(?::(?P<port>[0-9]{1,5}))?")


def library() -> Any:
    """The module confluent_kafka."""
    try:
        return importlib.import_module("confluent_kafka")
    except ModuleNotFoundError:
        raise needed("confluent-kafka", "kafka") from None


class Errors:
    """Hears what a client says in the background, so that a time-out can be explained: the last reason, not that all brokers are down."""

    def __init__(self) -> None:
        self.last: Any = None

    def note(self, error: Any) -> None:
        if self.last is None or error.code() != library().KafkaError._ALL_BROKERS_DOWN:
            self.last = error


def check_client(connector: Connector) -> None:
    """Refuse a broker whose address cannot be one, because the client would try it for ever, and settings that are the connector's own."""
    written = connector.settings["bootstrap.servers"]
    for broker in written.split(","):
        found = _BROKER.fullmatch(broker.strip())
        if found is None or not 0 < int(found["port"] or 9092) < 65536:
            shown = "an address with @, which may hold a password" if "@" in written else repr(written)
            raise ConfigError(
                f"bootstrap.servers={shown}; expected something like host:9092,host:9092, with ports from 1 to 65535"
            )
    check_client_settings(connector.name, connector.settings["kafka."])


def check_topic(setting: str, name: str, written: str) -> None:
    """ConfigError for a setting that names no topic of Kafka; `name` is what is `written` with a topic in place of ${topic}."""
    if not is_name(name):
        raise ConfigError(
            f"{setting}={written!r}; expected the name of one topic, of a-z A-Z 0-9 . _ -, in which ${{topic}} is replaced by the other side's name"
        )


def client_config(connector: Connector, errors: Errors) -> dict[str, Any]:
    """What every client of a connector is made with."""
    return {
        "bootstrap.servers": connector.settings["bootstrap.servers"],
        "client.id": f"streamkit-{connector.name}",
        "error_cb": errors.note,
        "log_level": 2,
        "topic.metadata.refresh.interval.ms": 10_000,
        **connector.settings["kafka."],
        "allow.auto.create.topics": False,  # else a question about a topic creates it
    }


def partitions_of(client: Any, topic: str, connector: Connector, errors: Errors) -> int | None:
    """How many partitions a topic of Kafka has; None if there is none."""
    kafka = library()
    found = _metadata(client, topic, connector, errors)
    if found.error is not None:
        if found.error.code() == kafka.KafkaError.UNKNOWN_TOPIC_OR_PART:
            return None
        raise meaning(kafka.KafkaException(found.error), connector, errors)
    return len(found.partitions)


def _metadata(client: Any, topic: str, connector: Connector, errors: Errors) -> Any:
    """What the cluster says of a topic; its errors are told by what the client has heard in the background."""
    kafka = library()
    for seconds in METADATA_SECONDS:
        try:
            return client.list_topics(topic, timeout=seconds).topics[topic]
        except kafka.KafkaException as error:
            client.poll(0.1 if seconds == METADATA_SECONDS[0] else 0.5)
            found = meaning(error, connector, errors)
            if seconds == METADATA_SECONDS[-1] or isinstance(found, ConfigError):
                raise found from error
    raise AssertionError


def missing_topic(topic: str, connector: Connector) -> TopicNotFoundError:
    """The error for a topic that Kafka does not have."""
    return TopicNotFoundError(
        f"connector {connector.name}: Kafka at {connector.settings['bootstrap.servers']} has no topic {topic!r}; create it first"
    )


def meaning(error: Any, connector: Connector, errors: Errors) -> Exception:
    """A client's error as one of ours: fenced, refused for good, or gone for a while."""
    kafka = library()
    found = error.args[0] if error.args and isinstance(error.args[0], kafka.KafkaError) else None
    where = f"connector {connector.name}: Kafka at {connector.settings['bootstrap.servers']}"
    codes = kafka.KafkaError
    if found is None:
        return StreamKitError(f"{where}: {error}")
    if found.code() in (codes._FENCED, codes.INVALID_PRODUCER_EPOCH, codes.PRODUCER_FENCED):
        return FencedError(f"{where}: a newer instance of the connector writes; this one stops")
    heard = errors.last
    if heard is not None and heard.code() in (codes._AUTHENTICATION, codes._SSL, codes.SASL_AUTHENTICATION_FAILED):
        return ConfigError(
            f"{where} refuses the connector's login: {heard.str()}; see the settings kafka.security.protocol and kafka.sasl.*"
        )
    refused = (
        codes.TOPIC_AUTHORIZATION_FAILED,
        codes.CLUSTER_AUTHORIZATION_FAILED,
        codes.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        codes._INVALID_ARG,
    )
    if found.code() in refused:
        return ConfigError(f"{where} refuses: {found.str()}")
    said = f"; {heard.str()}" if heard is not None else ""
    return ConnectionError(f"{where} does not answer as it should: {found.str()}{said}")


def admin_client(connector: Connector, errors: Errors) -> Any:
    """A client that asks what there is; ConfigError for settings that the library does not take."""
    make = importlib.import_module("confluent_kafka.admin").AdminClient
    return made_client(make, client_config(connector, errors), connector)


def made_client(make: Callable[[dict[str, Any]], Any], config: dict[str, Any], connector: Connector) -> Any:
    """A client of the library; ConfigError for settings that it does not take, by the names under which they were given."""
    try:
        return make(config)
    except (library().KafkaException, TypeError, ValueError) as error:
        said = error.args[0].str() if error.args and hasattr(error.args[0], "str") else str(error)
        given = ", ".join(f"kafka.{name}" for name in connector.settings["kafka."]) or "none"
        raise ConfigError(
            connector.redacted(f"connector {connector.name}: {said}; the settings of the client that were given are {given}")
        ) from None


def check_client_values(connector: Connector) -> None:
    """ConfigError for settings of the client that the library does not know, or whose values it does not take; nothing is connected to."""
    given = {name: value for name, value in connector.settings["kafka."].items() if not has_placeholder(value)}
    made_client(library().Producer, {**given, "bootstrap.servers": "", "log_level": 0}, connector)


def topic_ids(client: Any, topics: Iterable[str]) -> dict[str, str]:
    """The ids of topics, which one that is made again has not; those are missing that the cluster does not tell."""
    kafka = library()
    found = client.describe_topics(kafka.TopicCollection(list(topics)), request_timeout=ENDS_SECONDS)
    ids = {}
    for topic, future in found.items():
        try:
            one = future.result().topic_id
        except kafka.KafkaException:  # an old cluster, or one that does not let the connector ask
            continue
        if one.get_most_significant_bits() or one.get_least_significant_bits():
            ids[topic] = str(one)
    return ids


def largest_batch(connector: Connector, errors: Errors, topic: str) -> int | None:
    """The `max.message.bytes` of a topic; None if the cluster does not say."""
    kafka, admin = library(), importlib.import_module("confluent_kafka.admin")
    client = admin_client(connector, errors)
    asked = admin.ConfigResource(admin.ResourceType.TOPIC, topic)
    try:
        found = client.describe_configs([asked], request_timeout=10)[asked].result()
    except kafka.KafkaException:
        return None
    return int(found["max.message.bytes"].value)


def written_ends(connector: Connector, errors: Errors, places: Iterable[tuple[str, int]]) -> dict[tuple[str, int], int]:
    """
    Where partitions of Kafka end, with what a reader of committed records does not see yet.

    That is more than transactions that are open: a commit has returned some milliseconds before its records can be read.
    """
    kafka, admin = library(), importlib.import_module("confluent_kafka.admin")
    asked = {kafka.TopicPartition(*place): admin.OffsetSpec.latest() for place in places}
    if not asked:
        return {}
    client = admin_client(connector, errors)
    without_leader = (kafka.KafkaError._NOENT, kafka.KafkaError.LEADER_NOT_AVAILABLE, kafka.KafkaError.NOT_LEADER_FOR_PARTITION)
    deadline = time.monotonic() + LEADER_SECONDS
    while True:
        found = client.list_offsets(asked, isolation_level=kafka.IsolationLevel.READ_UNCOMMITTED, request_timeout=ENDS_SECONDS)
        try:
            return {(place.topic, place.partition): future.result().offset for place, future in found.items()}
        except kafka.KafkaException as error:
            if error.args[0].code() not in without_leader or time.monotonic() > deadline:
                raise meaning(error, connector, errors) from error
        time.sleep(LEADER_PAUSE_SECONDS)
