"""Ways in which a log could be wrong, each of which a siege has to notice; planted in its processes alone."""

from __future__ import annotations

from typing import Any

from streamkit.errors import FencedError
from streamkit.log.catalog import groups, manifest
from streamkit.log.catalog.catalog import CatalogManifest
from streamkit.log.catalog.groups import MemberStanding
from streamkit.log.catalog.span import UNBOUNDED
from streamkit.log.consume.assignment import AssignmentChange
from streamkit.log.consume.consumer import Consumer
from streamkit.log.consume.membership import Membership
from streamkit.log.database.database import Transaction
from streamkit.log.produce.draft import Draft
from streamkit.log.produce.outbox import Outbox
from streamkit.log.produce.producer import Producer
from streamkit.log.produce.receipt import Receipt
from streamkit.log.slab.reference import SlabReference


def plant(bug: str) -> None:
    """Make this process wrong."""
    (BUGS | MEMBER_BUGS | GROUP_BUGS)[bug]()


def _forget_sequences() -> None:
    original = Producer.send_batch

    def send_batch(producer: Producer, topic: str, data: Any, sequence: int | None = None) -> Receipt:
        return original(producer, topic, data)

    _replace(Producer, send_batch=send_batch)


def _acknowledge_early() -> None:
    original = Outbox._deliver

    def deliver(outbox: Outbox, draft: Draft) -> None:
        if draft.settlement.is_done.is_set():
            original(outbox, draft)
        else:
            draft.settlement.succeed({})  # it stays behind, and leaves before the next one

    _replace(Outbox, _deliver=deliver)


def _commit_within_transactions() -> None:
    original = Producer.send_batch

    def send_batch(producer: Producer, *arguments: Any, **options: Any) -> Receipt:
        receipt = original(producer, *arguments, **options)
        outbox = producer._outbox
        outbox._in_transaction, was_open = False, outbox._in_transaction
        outbox.flush()
        outbox._in_transaction = was_open
        return receipt

    _replace(Producer, send_batch=send_batch)


def _commit_what_is_taken_back() -> None:
    _replace(Outbox, discard=Outbox.end)


def _assign_offsets_outside() -> None:
    original = manifest._partition_ends
    known: dict[tuple[int, int], int] = {}

    def ends(transaction: Transaction, slabs: list[SlabReference]) -> dict[tuple[int, int], int]:
        found = original(transaction, slabs)
        known.update({place: end for place, end in found.items() if place not in known})
        return known

    _replace(manifest, _partition_ends=ends)


def _read_an_old_manifest() -> None:
    original = CatalogManifest.cut
    known: list[Any] = []

    def cut(noun: CatalogManifest, topic_ids: Any, since: Any, until: Any = UNBOUNDED) -> Any:
        if not known or len(list(since)) == 1:
            known.append(original(noun, topic_ids, since, until))
        return known[0] if len(list(since)) > 1 else known[-1]

    _replace(CatalogManifest, cut=cut)


def _begin_behind() -> None:
    original = Membership._compared

    def compared(membership: Membership, found: MemberStanding) -> AssignmentChange:
        change = original(membership, found)
        return AssignmentChange(
            change.lost, change.revoked, {place: (offset or 0) + 1 for place, offset in change.assigned.items()}
        )

    _replace(Membership, _compared=compared)


def _trust_the_own_membership() -> None:
    _replace(Membership, check_alive=lambda membership: None)


def _let_anybody_commit() -> None:
    _trust_the_own_membership()
    _replace(groups, _check_owner=lambda *_: None)


def _commit_offsets_apart() -> None:
    count = iter(range(1, 1_000_000))

    def send_offsets(producer: Producer, consumer: Any) -> None:
        consumer.commit()
        if next(count) % 5 == 0:
            raise FencedError("whoever writes the rows may fail after this")

    _replace(Producer, send_offsets=send_offsets)


def _poll_again_from_the_start() -> None:
    original = Consumer.poll
    count = iter(range(1, 1_000_000))

    def poll(consumer: Consumer, timeout: float = 1.0) -> Any:
        if next(count) % 15 == 0:
            consumer.seek_to_beginning()
        return original(consumer, timeout)

    _replace(Consumer, poll=poll)


def _replace(place: Any, **changes: Any) -> None:
    for name, value in changes.items():
        setattr(place, name, value)


BUGS = {
    "sequences are forgotten": _forget_sequences,
    "acknowledged before the commit": _acknowledge_early,
    "a transaction commits as it goes": _commit_within_transactions,
    "what is taken back is committed": _commit_what_is_taken_back,
    "offsets are assigned outside the transaction": _assign_offsets_outside,
    "readers keep an old manifest": _read_an_old_manifest,
}
GROUP_BUGS = {  # of processes that are stopped until they have lost their membership
    "a member does not look how long it was silent": _trust_the_own_membership,
    "whoever has been a member may commit": _let_anybody_commit,
}
MEMBER_BUGS = {
    "a member that takes over passes over a row": _begin_behind,
    "offsets are committed before the rows of their transaction": _commit_offsets_apart,
    "a member is given what its group has done": _poll_again_from_the_start,
}
