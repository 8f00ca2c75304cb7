"""
Whether a group was given every row, and none again, in the manner of `checker`.

A pure function of the history of its members. Each anomaly is named:

    skipped         below what the group has committed, and no member was given it
    misread         given to a member, and not what the log has at this offset
    again           given by a poll that began when somebody had been told that the group was past it
    rewound         the group stands before an offset that somebody was told it had committed
    uncopied        of a group that copies in transactions: below what it has committed, and not copied
    copied twice    copied more than once
    unsettled       copied, and not below what the group has committed
    disordered      the copies of a partition are not in the order of its offsets
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from tests.kit.checker import Anomaly
from tests.kit.history import Committed, History, Place


def check_deliveries(history: History) -> list[Anomaly]:
    """All anomalies of the groups of a history; empty if it is sound."""
    return [anomaly for group in history.positions for anomaly in _anomalies(history, group)]


def _anomalies(history: History, group: str) -> Iterator[Anomaly]:
    yield from _skipped(history, group)
    yield from _misread(history, group)
    yield from _again(history, group)
    yield from _rewound(history, group)
    if group in history.copies:
        yield from _copies(history, group)


def _skipped(history: History, group: str) -> Iterator[Anomaly]:
    given: dict[Place, set[int]] = defaultdict(set)
    for took in history.took:
        if took.group == group:
            given[took.place].update(took.offsets)
    for place, position in history.positions[group].items():
        if missing := sorted(set(range(position)) - given[place]):
            yield Anomaly("skipped", f"group {group} has committed {position} at {place}, and nobody was given {missing[:20]}")


def _misread(history: History, group: str) -> Iterator[Anomaly]:
    held = {place: dict(rows) for place, rows in history.log.items()}
    for took in history.took:
        for offset, row in zip(took.offsets, took.rows, strict=True):
            if took.group == group and held[took.place].get(offset) != tuple(row):
                found = held[took.place].get(offset)
                yield Anomaly("misread", f"{took.member} was given {row} at offset {offset} of {took.place}, where {found} is")


def _again(history: History, group: str) -> Iterator[Anomaly]:
    commits: dict[Place, list[Committed]] = defaultdict(list)
    for committed in history.committed:
        if committed.group == group:
            commits[committed.place].append(committed)
    for took in history.took:
        known = (found.offset for found in commits[took.place] if found.ended_ns < took.begun_ns)
        if took.group == group and took.first < (reached := max(known, default=0)):
            yield Anomaly("again", f"{took.member} was given offset {took.first} of {took.place} after {reached} was committed")


def _rewound(history: History, group: str) -> Iterator[Anomaly]:
    for committed in history.committed:
        position = history.positions[group].get(committed.place, 0)
        if committed.group == group and committed.offset > position:
            yield Anomaly("rewound", f"{committed.member} was told {committed.offset} at {committed.place}, found {position}")


def _copies(history: History, group: str) -> Iterator[Anomaly]:
    copies = history.copies[group]
    for place in sorted({*copies, *history.positions[group]}):
        position, offsets = history.positions[group].get(place, 0), copies.get(place, [])
        counts = Counter(offsets)
        if twice := sorted(offset for offset, count in counts.items() if count > 1):
            yield Anomaly("copied twice", f"of {place} the offsets {twice[:20]}")
        if missing := sorted(set(range(position)) - counts.keys()):
            yield Anomaly(
                "uncopied", f"group {group} has committed {position} at {place}, and there is no copy of {missing[:20]}"
            )
        if early := sorted(offset for offset in counts if offset >= position):
            yield Anomaly("unsettled", f"group {group} has committed {position} at {place}, and there are copies of {early[:20]}")
        if offsets != sorted(offsets):
            yield Anomaly("disordered", f"the copies of {place} are {offsets[:20]} …")
