"""Which records of two streams meet in a join."""

from __future__ import annotations

from streamkit.errors import TopologyError
from streamkit.plan.grace import asking_for_grace
from streamkit.plan.join_window import JoinWindow
from streamkit.plan.length import Duration, length_ms, signed_length_ms
from streamkit.plan.location import user_location


@asking_for_grace
def within(
    around: Duration | None = None, *, before: Duration | None = None, after: Duration | None = None, grace: Duration
) -> JoinWindow:
    """
    Which records of two streams are joined: those whose event times are at most `around` apart.

    With `before` and `after`, a record of the left stream at t is joined with those of the right one in [t - before, t + after], both ends
    included; the one that is left out is 0. Either may be negative: `before="-5 seconds", after="1 minute"` are records 5 seconds to a
    minute later. `grace` is how long past that a record without a partner waits for late ones, before a left or outer
    join gives its row with nulls. Lengths are timedelta or text. TopologyError if -before is more than after.

        clicks.join(views, within=sk.within("5 seconds", grace="1 minute"))
        orders.join(payments, within=sk.within(after="1 hour", grace="0 s"))
    """
    if (around is None) == (before is None and after is None):
        raise TopologyError(
            "within() takes either one length for both sides, or before= and after=; "
            'expected within("5 seconds", grace="0 s"), or within(before="1 minute", after="5 minutes", grace="0 s")',
            user_location(),
        )
    if around is not None:
        before_ms = after_ms = length_ms(around, "length of the join window")
    else:
        before_ms, after_ms = (
            0 if length is None else signed_length_ms(length, f"{what} of the join window")
            for length, what in ((before, "before"), (after, "after"))
        )
    return JoinWindow(before_ms, after_ms, length_ms(grace, "grace"))
