"""The topology of the crash tests is the one that was compiled, and has something to lose."""

from __future__ import annotations

from streamkit.plan.operator import port_of
from streamkit.plan.operators.aggregate import Aggregate
from streamkit.plan.operators.emit import Emit
from streamkit.plan.operators.fold import Fold
from streamkit.plan.operators.materialize import Materialize
from streamkit.plan.operators.table_join import TableJoin
from tests.kit import sales


def test_the_compiled_program_is_current():
    """`python -m tests.kit.sales` would write what is there."""
    assert sales.compile_program() == sales.load_program()


def test_it_has_what_a_crash_could_tear():
    """Two kernels, a table and a join, aggregates folded and not, every emission."""
    program = sales.load_program()
    kinds = {type(operator) for operator in program.operators}
    aggregates = [operator for operator in program.operators if isinstance(operator, Aggregate)]

    assert program.stages == 2 and {Materialize, TableJoin, Fold} <= kinds
    assert {aggregate.folded for aggregate in aggregates} == {True, False}
    assert {port_of(operator.inputs[0]) for operator in program.operators if isinstance(operator, Emit)} == {
        "latest",
        "every",
        "final",
    }


def test_its_results_are_of_every_kind(expected):
    """Windows were emitted, closed and expired, records were late, stores hold something."""
    assert all(expected.exact.values()) and all(expected.newest.values()) and all(expected.stores.values())
    assert expected.counts["records"] == sales.RECORDS
    assert sum(expected.counts["late"].values()) > 5
    starts = {row["window_start"] for row in expected.stores["totals"]}
    assert len(starts) < len({row["window_start"] for rows in expected.exact["final_totals"].values() for row in rows})
