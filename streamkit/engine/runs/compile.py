"""From topology to program: the passes, in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol

from streamkit.config import Settings
from streamkit.dsl.topology import Topology
from streamkit.errors import TopologyError
from streamkit.expressions.aggregates import of_table, state_columns
from streamkit.expressions.analysis.analysis import ExpressionAnalyzer
from streamkit.plan.added_topics import WithAddedTopics
from streamkit.plan.analysis import Analyzer
from streamkit.plan.explain import explain_change, explain_inputs, explain_names, explain_plan, explain_program
from streamkit.plan.inputs import KnownTopics, resolve_inputs, sources_of
from streamkit.plan.lowering import infer_types
from streamkit.plan.naming import KnownNames, StepNames, name_steps
from streamkit.plan.node import Node
from streamkit.plan.operators.write import To
from streamkit.plan.outputs import fit_outputs, made_outputs
from streamkit.plan.passes import PASSES, assemble
from streamkit.plan.program import Input, Program
from streamkit.plan.pruning import keep_columns, prune_columns
from streamkit.plan.refusal import Refuse, RefusedTopic, stop_at
from streamkit.plan.retiming import check_times
from streamkit.plan.said_partitions import check_said_partitions
from streamkit.plan.steps import Pass, Plan
from streamkit.plan.topics_read_back import with_topics_read_back

if TYPE_CHECKING:
    from streamkit.log.log import Log


class KnownLog(KnownTopics, Protocol):
    """The part of a log that the compiler reads; the settings say how many key groups and changelog partitions there are."""

    @property
    def settings(self) -> Settings: ...


class PassResult(NamedTuple):
    """What one pass gave: as a text, which is made when it is asked for, and as a plan once there is one."""

    name: str
    text: Callable[[], str]
    plan: Plan | None


def compile(topology: Topology, log: KnownTopics | None = None, analyzer: Analyzer | None = None) -> Program:
    """
    Compile a topology to the program that readers and kernels run.

    `log` says what the topics hold; without one, every source needs `schema=`. `analyzer` resolves expressions;
    by default by Spark's rules in the topology's time zone. Raises TopicNotFoundError for a missing input topic, and TopologyError (with the
    user's line) for unknown columns, types that do not fit, keys that do not match and outputs that do not fit their topics.
    """
    return _compiled(topology, log, analyzer, stop_at)


def compile_with_settings(
    topology: Topology, log: Log, analyzer: Analyzer | None = None, *, keeps_columns: bool = False, is_tested: bool = False
) -> Program:
    """
    `compile`, with the numbers of key groups and changelog partitions that the settings of an open log ask for.

    `keeps_columns`: rows keep the columns that nobody reads further down, for whoever looks at them on their way. `is_tested`: topics get what
    they get in a test driver, which is every change of a table of the ksql dialect.
    """
    passes = tuple(keep_columns if keeps_columns and one is prune_columns else one for one in PASSES)
    return compile_passing_over(topology, log, stop_at, analyzer, passes, is_tested=is_tested)


def compile_passing_over(
    topology: Topology,
    log: KnownLog,
    refuse: Refuse,
    analyzer: Analyzer | None = None,
    passes: Sequence[Pass] = PASSES,
    *,
    is_tested: bool = False,
) -> Program:
    """
    As `compile_with_settings`; `refuse` is called with each topic that does not fit, and may go on.

    A topic that is read is then taken for what its source says of itself, and one that is written for what is written.
    """
    program = _compiled(topology, log, analyzer, refuse, passes, is_tested=is_tested)
    return replace(program, key_groups=log.settings.key_groups, changelog_partitions=log.settings.changelog_partitions)


def explain(topology: Topology, log: KnownTopics | None = None, analyzer: Analyzer | None = None) -> str:
    """
    What every pass of `compile` gives, as text: the steps, their types and stages, and the program at the end.

    An output that does not fit its topic, which a start would refuse, is told of behind all.
    """
    return explain_and_compile(topology, log, analyzer)[0]


def explain_and_compile(
    topology: Topology, log: KnownTopics | None = None, analyzer: Analyzer | None = None
) -> tuple[str, Program]:
    """What `explain` and `compile` give, of one compilation."""
    refused: list[RefusedTopic] = []

    def note(one: RefusedTopic) -> None:
        if one.is_input:
            stop_at(one)
        refused.append(one)

    results = list(_passes(topology, log, analyzer, note))
    assert results[-1].plan is not None
    program = _assembled(topology, results[-1].plan)
    sections = [("topology", topology.describe()), *((result.name, result.text()) for result in results)]
    sections.append(("program", explain_program(program)))
    sections += [("a start would be refused", str(one.error)) for one in refused]
    return "\n\n".join(f"== {name} ==\n{text}" for name, text in sections), program


def _compiled(
    topology: Topology,
    log: KnownTopics | None,
    analyzer: Analyzer | None,
    refuse: Refuse,
    passes: Sequence[Pass] = PASSES,
    *,
    is_tested: bool = False,
) -> Program:
    *_, last = _passes(topology, log, analyzer, refuse, passes, is_tested=is_tested)
    assert last.plan is not None
    return _assembled(topology, last.plan)


def _assembled(topology: Topology, plan: Plan) -> Program:
    program = assemble(plan)
    topology.check_dropped(store.name for store in program.stores)
    unlogged, topics = _unlogged(topology, program), topology.added_topics
    return replace(program, dropped_stores=topology.dropped_stores, unlogged=unlogged, topics=topics)


def _unlogged(topology: Topology, program: Program) -> tuple[str, ...]:
    """The stores without a log, sorted: those that were named, and what else their steps keep, since neither is of use without the other."""
    found: set[str] = set()
    known = [store.name for store in program.stores]
    for name, at in topology.unlogged_stores.items():
        if name not in known:
            raise TopologyError(
                f"disable_logging({name!r}) names no store of the topology; it has {', '.join(sorted(known)) or 'none'}", at
            )
        keeper = program.keeper(name)
        found |= {name} if keeper.kind == "process" else set(keeper.stores)
    return tuple(sorted(found))


def _passes(
    topology: Topology,
    log: KnownTopics | None,
    analyzer: Analyzer | None,
    refuse: Refuse = stop_at,
    passes: Sequence[Pass] = PASSES,
    *,
    is_tested: bool = False,
) -> Iterator[PassResult]:
    roots = tuple(one.as_tested if is_tested and isinstance(one, To) else one for one in topology.roots)
    if not roots:
        raise TopologyError(
            f"the topology {topology.name!r} has no end: nothing would run; expected a stream or table that goes to a topic with "
            ".to('…'), or a table with store='…'"
        )
    if log is not None:
        check_said_partitions(topology.said_partitions, log, refuse)
    log = log and WithAddedTopics.of(log, topology.added_topics)
    names = name_steps(roots, KnownNames.of("" if log is None else log.program_before(topology.name)))
    analyzer = analyzer or ExpressionAnalyzer(topology.time_zone)
    typed = partial(_typed, topology, names, analyzer)
    if log is not None:
        log = with_topics_read_back(
            log, roots, lambda ends, known: made_outputs(typed(ends, resolve_inputs(ends, known, refuse)))
        )
    inputs = resolve_inputs(roots, log, refuse)
    yield PassResult("resolve_inputs", partial(explain_inputs, inputs.values()), None)
    yield PassResult("name_steps", partial(explain_names, names), None)
    plan = typed(roots, inputs)
    check_times(plan, {name: node for node, name in names.steps.items()})
    yield PassResult("infer_types", partial(explain_plan, plan), plan)
    read_at = {source.topic: source.at for source in reversed(sources_of(roots))}
    for one in (fit_outputs(log, refuse, read_at), *passes):
        before, plan = plan, one(plan)
        yield PassResult(one.__name__, partial(explain_change, before, plan), plan)


def _typed(topology: Topology, names: StepNames, analyzer: Analyzer, roots: Sequence[Node], inputs: dict[Node, Input]) -> Plan:
    """What is above these ends of a topology, as typed operators."""
    return infer_types(topology.name, roots, names, inputs, analyzer, state_columns, of_table, topology.on_error)
