"""How many records of each partition a trigger takes when their number is bounded."""

from __future__ import annotations

from collections.abc import Mapping


def admitted(start: Mapping[int, int], end: Mapping[int, int], records_max: int | None) -> dict[int, int]:
    """
    The offsets to stop at: the ends, or before them so that `records_max` offsets lie between start and stop.

    Partitions share them by how much they hold, and each that holds any gets one if there are as many, so that none waits for ever.
    """
    waiting = {at: stop - start[at] for at, stop in end.items() if stop > start[at]}
    if records_max is None or sum(waiting.values()) <= records_max:
        return dict(end)
    fullest = sorted(waiting, key=lambda at: (-waiting[at], at))[:records_max]
    shares = dict.fromkeys(fullest, 1)
    left, spare = records_max - len(fullest), sum(waiting[at] - 1 for at in fullest)
    for at in fullest:
        share = left * (waiting[at] - 1) // spare if spare else 0
        shares[at] += share
        left, spare = left - share, spare - (waiting[at] - 1)
    return {at: start[at] + shares.get(at, 0) for at in end}
