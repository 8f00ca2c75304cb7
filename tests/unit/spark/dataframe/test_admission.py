"""A bound on the records of a trigger."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from streamkit.spark.dataframe.admission import admitted

LAGS = st.lists(st.integers(0, 1_000), min_size=1, max_size=6)


@given(LAGS, st.integers(1, 2_000))
def test_as_many_as_there_may_be(lags, records_max):
    """As many as allowed and there are, never beyond an end, and something of each partition where there are enough."""
    start = {at: 10 * at for at in range(len(lags))}
    end = {at: start[at] + lag for at, lag in enumerate(lags)}
    taken = {at: stop - start[at] for at, stop in admitted(start, end, records_max).items()}
    assert sum(taken.values()) == min(records_max, sum(lags))
    assert all(0 <= taken[at] <= lag for at, lag in enumerate(lags))
    if records_max >= sum(lag > 0 for lag in lags):
        assert all(taken[at] for at, lag in enumerate(lags) if lag)


def test_no_bound():
    """Without a bound, all."""
    assert admitted({0: 1, 1: 0}, {0: 5, 1: 9}, None) == {0: 5, 1: 9}
