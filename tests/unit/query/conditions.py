"""Conditions by chance, for the tests of --where."""

from __future__ import annotations

from hypothesis import strategies as st

SIGNS = st.sampled_from(["=", "==", "!=", "<>", "<", "<=", ">", ">="])


def conditions(comparisons: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Comparisons, joined, negated and in brackets."""
    return st.recursive(
        comparisons,
        lambda inner: st.one_of(
            st.tuples(inner, st.sampled_from(["AND", "or"]), inner).map(" ".join),
            inner.map(lambda text: f"NOT ({text})"),
            inner.map(lambda text: f"({text})"),
        ),
        max_leaves=6,
    )
