"""Ways in which a log could be wrong, each of which a siege has to notice; planted in its processes alone."""

from __future__ import annotations

from typing import Any

from streamkit.log import manifest
from streamkit.log.catalog import Catalog
from streamkit.log.database import Transaction
from streamkit.log.draft import Draft
from streamkit.log.outbox import Outbox
from streamkit.log.producer import Producer
from streamkit.log.receipt import Receipt
from streamkit.log.reference import SlabReference


def plant(bug: str) -> None:
    """Make this process wrong."""
    BUGS[bug]()


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
    original = Catalog.extents_of
    known: list[Any] = []

    def extents_of(catalog: Catalog, topic_ids: Any, since: Any, limit: Any = None) -> Any:
        if not known or len(list(since)) == 1:
            known.append(original(catalog, topic_ids, since, limit))
        return known[0] if len(list(since)) > 1 else known[-1]

    _replace(Catalog, extents_of=extents_of)


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
