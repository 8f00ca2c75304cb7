"""How far an application had come when a view of a store was read, and waiting until it has come so far."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from streamkit.errors import ConfigError
from streamkit.log.catalog import applications, topics
from streamkit.log.catalog.catalog import Catalog
from streamkit.log.database.database import Transaction
from streamkit.log.produce.receipt import Receipt

LOOK_SECONDS = 0.5  # between two looks, where no commit is heard of
TIMEOUT_SECONDS = 30.0


@dataclass(frozen=True)
class ViewPosition:
    """The newest epoch of an application, and of each topic that it reads the offset behind the records it had taken, by partition."""

    epoch: int
    offsets: Mapping[str, Mapping[int, int]]

    @classmethod
    def behind(cls, sent: Any) -> ViewPosition:
        """
        The position behind what is given: such a position, receipts of records, or offsets by topic and partition.

        ConfigError for receipts of records that are not committed, or that were refused, and for anything else.
        """
        if isinstance(sent, ViewPosition):
            return sent
        if isinstance(sent, Receipt):
            return cls(0, _behind_receipts([sent]))
        if isinstance(sent, Mapping) and all(isinstance(offsets, Mapping) for offsets in sent.values()):
            with suppress(TypeError, ValueError, OverflowError):  # then one of them is no whole number
                return cls(
                    0, {str(topic): {int(at): int(offset) for at, offset in offsets.items()} for topic, offsets in sent.items()}
                )
        if isinstance(sent, Iterable) and not isinstance(sent, str | Mapping):
            receipts = list(sent)
            if all(isinstance(one, Receipt) for one in receipts):
                return cls(0, _behind_receipts(receipts))
        raise ConfigError(
            f"found {sent!r} to wait for; expected the position of a view, receipts of a producer, or offsets by topic and partition, "
            "as in {'orders': log.end_offsets('orders')}"
        )

    def joined(self, other: ViewPosition) -> ViewPosition:
        """The position behind both."""
        topics = {**self.offsets, **other.offsets}
        offsets = {
            topic: {
                partition: max(one.offsets.get(topic, {}).get(partition, 0) for one in (self, other))
                for partition in {**self.offsets.get(topic, {}), **other.offsets.get(topic, {})}
            }
            for topic in topics
        }
        return ViewPosition(max(self.epoch, other.epoch), offsets)

    def is_reached(self, epoch: int, offsets: Mapping[str, Mapping[int, int]]) -> bool:
        """Whether an application that stands there has come so far."""
        return epoch >= self.epoch and not self.missing(offsets)

    def missing(self, offsets: Mapping[str, Mapping[int, int]]) -> list[tuple[str, int, int, int]]:
        """The topic partitions that have not come so far: topic, partition, where it stands, and where it should."""
        return [
            (topic, partition, offsets.get(topic, {}).get(partition, 0), wanted)
            for topic, ends in self.offsets.items()
            for partition, wanted in ends.items()
            if offsets.get(topic, {}).get(partition, 0) < wanted
        ]


def wait_for(catalog: Catalog, application: str, wanted: ViewPosition, timeout: float) -> None:
    """
    Wait until an application has committed an epoch with all records up to a position.

    ConfigError if it does not read one of the topics, TimeoutError if it is not there after so many seconds.
    """
    deadline = time.monotonic() + timeout
    watch = catalog.watch()  # before the look, so that a commit meanwhile is not missed
    while (missing := missing_of(catalog, application, wanted)) is not None:
        left_s = deadline - time.monotonic()
        if left_s <= 0:
            raise TimeoutError(unreached_text(application, missing, timeout))
        watch.wait(min(left_s, LOOK_SECONDS))


def missing_of(catalog: Catalog, application: str, wanted: ViewPosition) -> str | None:
    """What an application has yet to do up to a position, in words, None if it is there; ConfigError as `wait_for`."""
    epoch, offsets = catalog.read(lambda transaction: _stands(transaction, application, wanted))
    if wanted.is_reached(epoch, offsets):
        return None
    parts = [f"{topic} {partition} to {stands} of {end}" for topic, partition, stands, end in wanted.missing(offsets)]
    return f"it has read {', '.join(parts)}" if parts else f"it has committed epoch {epoch} of {wanted.epoch}"


def unreached_text(application: str, missing: str, seconds: float) -> str:
    """What is said when the wait is over."""
    return (
        f"the application {application!r} has not got so far after {seconds} s: {missing}; is it running (streamkit apps list)?"
    )


def _stands(transaction: Transaction, application: str, wanted: ViewPosition) -> tuple[int, dict[str, dict[int, int]]]:
    """The newest epoch, and the offsets of the wanted topics."""
    moment = applications.moment_of(transaction, application)
    positions = applications.positions_of(transaction, moment.id)
    read = applications.inputs_of(transaction, moment.id)
    found = {}
    for name, ends in wanted.offsets.items():
        topic = topics.get(transaction, name)
        topic_id = topic.id
        if beyond := [partition for partition in ends if not 0 <= partition < topic.partitions]:
            raise ConfigError(f"found the partition {beyond[0]} of {name!r}; expected one of 0 to {topic.partitions - 1}")
        if topic_id not in read and name in {one for one, _ in applications.program_inputs(transaction, moment.id)}:
            raise ConfigError(
                f"the application {application!r} has read a former topic {name!r}, which was deleted and made again; it reads the new one from its "
                "beginning once it is started again"
            )
        if topic_id not in read:
            names = sorted(topic.name for topic in topics.every(transaction) if topic.id in read)
            raise ConfigError(
                f"the application {application!r} does not read the topic {name!r}; it reads {', '.join(names) or 'none'}"
            )
        found[name] = positions.get(topic_id, {})
    return moment.epoch, found


def _behind_receipts(receipts: Iterable[Receipt]) -> dict[str, dict[int, int]]:
    ends: dict[str, dict[int, int]] = {}
    for receipt in receipts:
        if receipt.error is not None:
            raise receipt.error
        if not receipt.is_done:
            raise ConfigError(f"the records of {receipt!r} are not committed; call flush(), or receipt.result(), before")
        for partition, (_, following) in (receipt.offsets or {}).items():
            known = ends.setdefault(receipt.topic, {})
            known[partition] = max(known.get(partition, 0), following)
    return ends
