"""Error codes of Kafka's answers: which pass by themselves, and what the others mean for a connector."""

from __future__ import annotations

from streamkit.errors import ConfigError, FencedError, StreamKitError, TopicNotFoundError

NONE = 0
OFFSET_OUT_OF_RANGE = 1
CORRUPT_MESSAGE = 2
UNKNOWN_TOPIC_OR_PARTITION = 3
LEADER_NOT_AVAILABLE = 5
MESSAGE_TOO_LARGE = 10
NETWORK_EXCEPTION = 13  # a broker says it of others; here it is also a request that was not answered, since its connection broke
NOT_COORDINATOR = 16
RECORD_LIST_TOO_LARGE = 18
INVALID_TIMESTAMP = 32
DUPLICATE_SEQUENCE_NUMBER = 46
INVALID_PRODUCER_EPOCH = 47
CONCURRENT_TRANSACTIONS = 51
OPERATION_NOT_ATTEMPTED = 55  # of a request with another part that is refused
INVALID_RECORD = 87
PRODUCER_FENCED = 90
UNKNOWN_TOPIC_ID = 100
INCONSISTENT_TOPIC_ID = 103

# What passes: a leader or coordinator that is elsewhere, not there yet or loading, replicas that lag, a disk that was taken away, quotas.
PASSING = frozenset(
    {
        UNKNOWN_TOPIC_OR_PARTITION, LEADER_NOT_AVAILABLE, 6, 7, 8, 9, NETWORK_EXCEPTION, 14, 15, NOT_COORDINATOR, 19, 20, CONCURRENT_TRANSACTIONS, 56,
        70, 71, 72, 74, 75, 78, 89, UNKNOWN_TOPIC_ID, INCONSISTENT_TOPIC_ID, 106,
    }
)  # fmt: skip
COORDINATOR_MOVED = frozenset({NETWORK_EXCEPTION, 15, NOT_COORDINATOR})
NO_TOPIC = frozenset({UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID, INCONSISTENT_TOPIC_ID})
_FENCED = frozenset({INVALID_PRODUCER_EPOCH, PRODUCER_FENCED})
_NOT_LET_IN = frozenset({33, 34, 58})  # SASL: no such mechanism, out of turn, a wrong password
_REFUSED = frozenset(
    {17, 29, 30, 31, 35, 50, 53, 61, 65}
)  # not authorised, a topic or version that there is none of, a timeout beyond the broker's


def meaning_of(code: int, name: str, where: str, topic: str | None = None) -> Exception:
    """A broker's error, by its code and Kafka's name of it, as one of ours: fenced, refused for good, or gone for a while."""
    about = "" if topic is None else f" for the topic {topic}"
    if code in _FENCED:
        return FencedError(f"{where}: a newer instance of the connector writes; this one stops")
    if code in _NOT_LET_IN:
        return ConfigError(
            f"{where} refuses the connector's login: {name}; see the settings kafka.security.protocol and kafka.sasl.*"
        )
    if code in _REFUSED:
        return ConfigError(f"{where} refuses{about}: {name}")
    if code in NO_TOPIC and topic is not None:
        return TopicNotFoundError(f"{where} has no topic {topic!r}, or not that partition of it; create it first")
    if code == CORRUPT_MESSAGE:
        return StreamKitError(f"{where} has damaged records, or got some{about}: {name}")
    return ConnectionError(f"{where} does not answer as it should{about}: {name}")
