"""Pass `infer_types`: every node becomes typed operators, one function a kind of node; exchanges come later."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import singledispatch

from streamkit.errors import TopologyError
from streamkit.names import WINDOW_END, WINDOW_START
from streamkit.plan import nodes, program
from streamkit.plan.analysis import Analyzer
from streamkit.plan.building import Building, StateColumns, asked_modes
from streamkit.plan.delay import delayed_window
from streamkit.plan.expression import Cast, Expression, Reference, TypedAggregate
from streamkit.plan.keys import (
    check_columns,
    check_table_key,
    common_key_types,
    join_columns,
    joined_names,
    key_names,
    make_schema,
    result_columns,
    typed,
)
from streamkit.plan.naming import Names
from streamkit.plan.program import Input, Output, Store
from streamkit.plan.steps import UNSTAGED, Plan, Step, column_of, typed_columns
from streamkit.schema import Column, Schema


def infer_types(
    application: str,
    roots: Iterable[nodes.Node],
    names: Names,
    inputs: dict[nodes.Source, Input],
    analyzer: Analyzer,
    state_columns: StateColumns,
) -> Plan:
    """
    The plan of a topology: typed operators without stages or exchanges.

    A table in front of a join is kept by a `Materialize`; a table that is emitted is emitted where it is kept, and the stateless
    steps above it follow. TopologyError says what cannot mean anything, at which line.
    """
    roots = tuple(roots)
    building = Building(names, inputs, analyzer, state_columns, asked_modes(roots))
    for root in roots:
        lower(root, building)
    kept = tuple(dict.fromkeys(inputs.values()))
    return Plan(
        application, tuple(building.steps.values()), kept, tuple(building.stores.values()), tuple(building.outputs.values())
    )


def lower(node: nodes.Node, building: Building) -> Step:
    """The step that gives a node's rows, with all steps below it added."""
    if node not in building.lowered:
        building.lowered[node] = _lower(node, building)
    return building.lowered[node]


@singledispatch
def _lower(node: nodes.Node, building: Building) -> Step:
    raise TopologyError(f"{type(node).__name__} ({node.kind}) is not supported yet", node.at)


@_lower.register
def _(node: nodes.StreamSource, building: Building) -> Step:
    return _source(node, building)


@_lower.register
def _(node: nodes.TableSource, building: Building) -> Step:
    """A table whose store has a name: it is kept up, whoever reads it."""
    return _materialized(node, _source(node, building), building)


@_lower.register
def _(node: nodes.StatelessStep, building: Building) -> Step:
    return _stateless(node, lower(node.child, building), building.name(node), building)


@_lower.register
def _(node: nodes.Join, building: Building) -> Step:
    left = lower(node.left, building)
    return _global_join(node, left, building) if node.right.relation == nodes.GLOBAL_TABLE else _table_join(node, left, building)


@_lower.register
def _(node: nodes.Aggregate, building: Building) -> Step:
    grouped, key = _grouped(node, lower(node.child, building), building)
    own = (WINDOW_START, WINDOW_END) if node.window else ()
    for name in own:
        if name in key:
            raise TopologyError(
                f"the group column {name!r} has the name of a window's bound; expected another: rename it before", node.at
            )
    aggregates = building.analyzer.aggregates(grouped.schema, node.aggregates, node.at)
    window = delayed_window(node)
    rows = _windows(node, window, grouped, key, building) if window else grouped
    store = building.names.stores[node]
    operator = program.Aggregate(
        building.name(node), UNSTAGED, (rows.id,), key, store, aggregates, False, building.modes.get(node, ()),
        window.size_ms if window else None, window.grace_ms if window else None,
    )  # fmt: skip
    _add_aggregate_store(node, store, grouped.schema.select(key), aggregates, building)
    bounds = [Column(name, "timestamp", False) for name in own]
    results = [Column(one.name, one.type, one.nullable) for one in aggregates]
    schema = make_schema([*grouped.schema.select(key), *bounds, *results], node.at)
    return building.add(Step(operator, schema, (*key, *own), key, True, node.at))


@_lower.register
def _(node: nodes.Emit, building: Building) -> Step:
    origin = nodes.table_origin(node.child)
    kept = lower(origin, building)
    emitted = f"{building.name(origin)}:emit-{node.mode}" if nodes.table_steps(node.child) else building.name(node)
    deletes = node.mode != "final"
    operator = program.Emit(emitted, UNSTAGED, (kept.id,), node.mode)
    step = building.add(replace(kept, operator=operator, table=deletes, at=node.at))
    for table_step in nodes.table_steps(node.child):
        step = _stateless(table_step, step, f"{building.name(table_step)}:{node.mode}", building)
    return step


@_lower.register
def _(node: nodes.To, building: Building) -> Step:
    rows = lower(node.child, building)
    policy = "compact" if isinstance(node.child, nodes.Emit) and node.child.mode == "latest" else "delete"
    if policy == "compact" and not rows.key:
        raise TopologyError("a table's newest rows need a key; expected a table with key columns", node.at)
    output = Output(node.topic, rows.schema, rows.key, rows.partition_by, policy, node.partitions)
    known = building.outputs.setdefault(node.topic, output)
    check_same_output(node, known, output)
    number = list(building.outputs).index(node.topic)
    return building.add(replace(rows, operator=program.Write(building.name(node), UNSTAGED, (rows.id,), number), at=node.at))


def check_same_output(node: nodes.To, known: Output, output: Output) -> None:
    """TopologyError if two streams that go to one topic differ."""
    same_rows = {(c.name, c.type) for c in known.schema} == {(c.name, c.type) for c in output.schema}
    if not same_rows or (known.key, known.cleanup_policy, known.partitions) != (
        output.key,
        output.cleanup_policy,
        output.partitions,
    ):
        raise TopologyError(
            f"two different streams go to the topic {node.topic!r}; expected the same columns, key and kind\n"
            f"  the one:   {known.schema}; key {list(known.key)}; {known.cleanup_policy}\n"
            f"  the other: {output.schema}; key {list(output.key)}; {output.cleanup_policy}",
            node.at,
        )


def _source(node: nodes.Source, building: Building) -> Step:
    found = building.inputs[node]
    operator = program.Source(building.name(node), UNSTAGED, (), building.input_number(node), found.schema.names)
    return building.add(Step(operator, found.schema, found.key, found.key, node.relation != nodes.STREAM, node.at))


def _stateless(node: nodes.Node, rows: Step, step_id: str, building: Building) -> Step:
    """A filter or a projection above rows of a stream or a table."""
    return building.add(_stateless_step(node, rows, step_id, building.analyzer))


def _stateless_step(node: nodes.Node, rows: Step, step_id: str, analyzer: Analyzer) -> Step:
    if isinstance(node, nodes.Filter):
        predicate = analyzer.predicate(rows.schema, node.predicate, node.at)
        is_table = rows.table and node.relation != nodes.STREAM  # a stream's filter drops rows, also among a table's changes
        return replace(rows, operator=program.Filter(step_id, UNSTAGED, (rows.id,), predicate, is_table, rows.key), at=node.at)
    columns = result_columns(node, rows.schema, rows.key, analyzer)
    if node.relation != nodes.STREAM:
        check_table_key(node, columns, rows.key)
    schema = make_schema(typed_columns(columns, rows.schema), node.at)
    key = key_names(node, rows.key)
    operator = program.Project(step_id, UNSTAGED, (rows.id,), columns, key, rows.table)
    return Step(operator, schema, key, key_names(node, rows.partition_by), rows.table, node.at)


def _materialized(table: nodes.Node, rows: Step, building: Building, variant: str = "") -> Step:
    """Keep a table in its store; its rows pass on."""
    name = building.names.stores[table] + variant
    values = [column for column in rows.schema.names if column not in rows.key]
    building.add_store(name, Store(name, 0, UNSTAGED, rows.schema.select(rows.key), rows.schema.select(values)))
    operator = program.Materialize(f"{building.name(table)}{variant}:materialize", UNSTAGED, (rows.id,), name)
    return building.add(replace(rows, operator=operator, at=table.at))


def _table_join(node: nodes.Join, left: Step, building: Building) -> Step:
    origin = nodes.table_origin(node.right)
    if not isinstance(origin, nodes.TableSource):
        raise TopologyError(
            "a join with the results of an aggregation is not supported yet; expected a table of the topology: write the results with "
            "table.to('topic'), and read them with app.table('topic')",
            node.at,
        )
    right = _source(origin, building)
    for step in nodes.table_steps(node.right):
        right = _stateless(step, right, building.name(step), building)
    on, types = _matched(node, left, right)
    left = _cast(left, dict(zip(on, types, strict=True)), f"{building.name(node)}:widen-stream", building)
    kept = _widened_table(node.right, right, types, building)
    columns = joined_names(node, left.schema, kept.schema, kept.key)
    assert isinstance(kept.operator, program.Materialize)
    operator = program.TableJoin(building.name(node), UNSTAGED, (left.id, kept.id), node.how, on, kept.operator.store, columns)
    return building.add(Step(operator, _joined_schema(node, columns, left.schema, kept.schema), on, on, False, node.at))


def _widened_table(table: nodes.Node, rows: Step, types: tuple[str, ...], building: Building) -> Step:
    """A table kept with key columns of these types: in its own store, or in another where they are wider than its own."""
    wanted = "-".join(types)
    widened = _cast(rows, dict(zip(rows.key, types, strict=True)), f"{building.name(table)}:widen-{wanted}", building)
    return _materialized(table, widened, building, "" if widened is rows else f"-{wanted}")


def _global_join(node: nodes.Join, left: Step, building: Building) -> Step:
    origin = nodes.table_origin(node.right)
    assert isinstance(origin, nodes.GlobalTableSource)
    found = building.inputs[origin]
    number = building.input_number(origin)
    source = program.Source(building.name(origin), UNSTAGED, (), number, found.schema.names)
    right = Step(source, found.schema, found.key, found.key, True, origin.at)
    table: list[program.Operator] = []
    for step in nodes.table_steps(node.right):
        right = _stateless_step(step, right, building.name(step), building.analyzer)
        table.append(right.operator)
    on, types = _matched(node, left, right)
    left = _cast(left, dict(zip(on, types, strict=True)), f"{building.name(node)}:widen-stream", building)
    widened = _cast_step(right, dict(zip(right.key, types, strict=True)), f"{building.name(node)}:widen-table", building.analyzer)
    table += [widened.operator] if widened is not right else []
    columns = joined_names(node, left.schema, widened.schema, widened.key)
    operator = program.GlobalJoin(building.name(node), UNSTAGED, (left.id,), node.how, on, number, columns, tuple(table))
    schema = _joined_schema(node, columns, left.schema, widened.schema)
    return building.add(replace(left, operator=operator, schema=schema, at=node.at))


def _matched(node: nodes.Join, left: Step, right: Step) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The stream's columns of a join in the order of the table's key, and the types they are compared in."""
    on = join_columns(node, left.schema, left.key, right.key)
    return on, common_key_types(node, left.schema, on, right.schema, right.key)


def _joined_schema(node: nodes.Join, columns: tuple[tuple[str, str], ...], left: Schema, right: Schema) -> Schema:
    joined = []
    for name, source in columns:
        side, _, column = source.partition(".")
        found = left[column] if side == "left" else right[column]
        joined.append(Column(name, found.type, found.nullable or (side == "right" and node.how == "left")))
    return make_schema(joined, node.at)


def _cast(rows: Step, types: dict[str, str], step_id: str, building: Building) -> Step:
    widened = _cast_step(rows, types, step_id, building.analyzer)
    return rows if widened is rows else building.add(widened)


def _cast_step(rows: Step, types: dict[str, str], step_id: str, analyzer: Analyzer) -> Step:
    """The rows with columns widened to these types; the same rows if they have them."""
    narrow = {name for name, type_name in types.items() if rows.schema[name].type != type_name}
    if not narrow:
        return rows
    expressions: list[tuple[str, Expression]] = [
        (name, Cast(Reference(name), types[name]) if name in narrow else Reference(name)) for name in rows.schema.names
    ]
    columns = typed(expressions, rows.schema, analyzer, rows.at)
    schema = make_schema(typed_columns(columns, rows.schema), rows.at)
    return replace(rows, operator=program.Project(step_id, UNSTAGED, (rows.id,), columns, rows.key, rows.table), schema=schema)


def _grouped(node: nodes.Aggregate, rows: Step, building: Building) -> tuple[Step, tuple[str, ...]]:
    """The rows with the columns they are grouped by, and the names of those."""
    if node.key is None:
        if not rows.key:
            raise TopologyError("group_by_key() needs a key, and the stream has none; expected group_by(…)", node.at)
        return rows, rows.key
    plain = [name for name, expression in node.key if expression == Reference(name)]
    check_columns(plain, rows.schema, node.at)
    key = tuple(name for name, _ in node.key)
    if len(plain) == len(key):
        return rows, key
    for name in key:
        if name in rows.schema and name not in plain:
            raise TopologyError(
                f"the group column {name!r} would hide the stream's column of that name; expected another name", node.at
            )
    computed = typed([pair for pair in node.key if pair[0] not in plain], rows.schema, building.analyzer, node.at)
    columns = (*((name, column_of(rows.schema, name)) for name in rows.schema.names), *computed)
    schema = make_schema(typed_columns(columns, rows.schema), node.at)
    operator = program.Project(f"{building.name(node)}:group", UNSTAGED, (rows.id,), columns, key)
    return building.add(Step(operator, schema, key, key, False, node.at)), key


def _windows(node: nodes.Aggregate, window: nodes.TimeWindow, rows: Step, key: tuple[str, ...], building: Building) -> Step:
    step_id = f"{building.name(node)}:windows"
    operator = program.Windows(step_id, UNSTAGED, (rows.id,), window.size_ms, window.advance_ms, window.grace_ms, key)
    return building.add(replace(rows, operator=operator, at=node.at))


def _add_aggregate_store(
    node: nodes.Aggregate, name: str, key: Schema, aggregates: tuple[TypedAggregate, ...], building: Building
) -> None:
    value = make_schema([column for one in aggregates for column in building.state_columns(one)], node.at)
    window = delayed_window(node)
    size_ms, retention_ms = (window.size_ms, window.retention_ms) if window else (None, None)
    building.add_store(name, Store(name, 0, UNSTAGED, key, value, size_ms, retention_ms))
