"""SELECT … EMIT: a query that goes on."""

from __future__ import annotations

from dataclasses import replace

from streamkit.dsl.stream import Stream
from streamkit.dsl.table import Table
from streamkit.dsl.topology import Topology
from streamkit.engine.runs.compile import compile_passing_over
from streamkit.errors import TopologyError
from streamkit.names import fresh_token
from streamkit.plan.expression import Literal
from streamkit.plan.location import written_at
from streamkit.plan.on_error import FAIL
from streamkit.plan.refusal import stop_at
from streamkit.sql.execution.queries import CopiedLog
from streamkit.sql.execution.script_state import ScriptState
from streamkit.sql.execution.selecting import SessionRelations
from streamkit.sql.lowering.expression_parts import below
from streamkit.sql.lowering.lowering import LoweredQuery, lowered
from streamkit.sql.lowering.meaning import Meaning
from streamkit.sql.lowering.named_types import with_named_types
from streamkit.sql.lowering.scope import QuerySource
from streamkit.sql.pull.plan import PullPlan
from streamkit.sql.pull.planning import planned
from streamkit.sql.pull.relation import no_relation
from streamkit.sql.push.passing import PassingRows, is_passing
from streamkit.sql.push.private_run import GivenColumns, PrivateRun
from streamkit.sql.push.subscription import PushedRows
from streamkit.sql.tree.query import Query, SelectColumn
from streamkit.sql.tree.span import Written
from streamkit.sql.tree.statements import TABLE

OUTPUT = "pushed"


def check_pushed(state: ScriptState, query: Query) -> None:
    """TopologyError at the place of a mistake of a query that goes on, as statements have left streams, tables and topics; nothing is read."""
    if _passing_plan(state, query) is None:
        _checked_topology(state, query)


def pushed_rows(state: ScriptState, query: Query) -> PushedRows:
    """The source of the rows of a query that goes on; TopologyError at the place of a mistake."""
    plan = _passing_plan(state, query)
    if plan is not None:
        is_lenient = state.settings.script.what_fails != FAIL
        at = state.text.at(query.span)
        return PassingRows(state.log, plan, state.settings.offset_reset, at, leaves_out_failing=is_lenient)
    topology, result = pushed_topology(state, query)
    sources = (state.source(name.text) for name in query.sources_read())
    tables = {
        one.topic for one in sources if one is not None and one.kind == TABLE
    }  # some of them are read as streams of their changes
    given = GivenColumns(result.named, result.source.of_key, state.text.at(query.span))
    return PrivateRun(state.log, topology, OUTPUT, state.settings.offset_reset, given, tables)


def pushed_lines(state: ScriptState, query: Query) -> list[str]:
    """How the rows of a query that goes on are made, a line each."""
    plan = _passing_plan(state, query)
    if plan is not None:
        return ["each record by itself, by a consumer"]
    return ["in this process, with stores in memory", *_checked_topology(state, query).describe().splitlines()]


def _checked_topology(state: ScriptState, query: Query) -> Topology:
    """The topology of a query, once it has been compiled."""
    topology, _ = pushed_topology(state, query)
    compile_passing_over(topology, CopiedLog(state.definitions), stop_at)
    return topology


def pushed_topology(state: ScriptState, query: Query) -> tuple[Topology, LoweredQuery]:
    """The topology of a query, whose rows go to a topic that only its reader has, and what the query stands for."""
    script = state.settings.script
    topology = Topology(f"query-{fresh_token()[:8]}", script.time_zone, script.what_fails)
    query = _with_one_group(with_named_types(query, state.types, state.text_in_dialect), script.meaning)
    sources: dict[str, QuerySource] = {}
    for name in query.sources_read():
        if name.text in sources:
            continue
        stored = state.source(name.text)
        if stored is None:
            raise state.error(no_relation(name.text, state.definitions.names()), name.span)
        sources[name.text] = state.reading.added_to(stored, topology).source
    found = lowered(replace(query, limit=None), sources, state.text, replace(script.meaning, shows_bounds=True))
    rows: Stream | Table = found.rows
    with written_at(state.text.in_dialect(is_ksql=script.meaning.names_results).at(query.span)):
        if isinstance(rows, Table) and found.is_final:
            rows = rows.emit("final")
        rows.to(OUTPUT, partitions=1)
    return topology, found


def _with_one_group(query: Query, meaning: Meaning) -> Query:
    """The query with all rows as one group, if it has aggregates without GROUP BY, as a query that is run once may have them."""
    every = (part for item in query.items if isinstance(item, SelectColumn) for part in below(item.written.expression))
    has_aggregates = query.group_by is None and any(meaning.is_aggregate(part) for part in every)
    return replace(query, group_by=(Written(Literal("all"), query.span),)) if has_aggregates else query


def _passing_plan(state: ScriptState, query: Query) -> PullPlan | None:
    """The plan of a query that looks at each record of one stream alone; None for any other."""
    is_plain = not (query.joins or query.group_by is not None or query.having or query.partition_by is not None or query.window)
    if not is_plain or query.emit == "final":
        return None
    try:
        script = state.settings.script
        plan = planned(
            replace(query, emit="", limit=None), SessionRelations.of(state), state.text, script.meaning, script.time_zone
        )
    except TopologyError:
        return None  # what the topology says of it counts
    return plan if is_passing(plan) else None
