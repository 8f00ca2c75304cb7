"""INSERT … VALUES one after the other: a statement each as they are written, and one for each stream or table as they are done."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby

from streamkit.errors import StreamKitError
from streamkit.sql.execution.inserting import insert_values
from streamkit.sql.execution.registered_functions import UserFunctions, with_functions
from streamkit.sql.execution.script_files import PlacedStatement
from streamkit.sql.execution.script_state import Changed, ScriptState
from streamkit.sql.tree.span import Name
from streamkit.sql.tree.statements import InsertValues

Target = tuple[Name, tuple[Name, ...] | None]  # the stream or table of a statement, and the columns that it lists


def neighbours(statements: Sequence[PlacedStatement]) -> Iterator[list[PlacedStatement]]:
    """The statements in their order; INSERT … VALUES side by side in one text are together."""

    def common(numbered: tuple[int, PlacedStatement]) -> object:
        number, placed = numbered
        return (id(placed.text),) if isinstance(placed.statement, InsertValues) else number

    for _, group in groupby(enumerate(statements), common):
        yield [placed for _, placed in group]


def insert_together(state: ScriptState, together: Sequence[PlacedStatement], functions: UserFunctions) -> list[Changed] | None:
    """What neighbours insert, in their order; None and nothing if a row is wrong, which its own statement tells."""
    state.text = together[0].text
    before = {topic: list(batches) for topic, batches in state.rows.items()}
    inserts = [
        with_functions(placed.statement, functions, placed.text)
        for placed in together
        if isinstance(placed.statement, InsertValues)
    ]
    done: list[tuple[int, Changed]] = []
    try:
        for numbers in _parts(state, inserts):
            some = [inserts[number] for number in numbers]
            whole = replace(some[0], rows=tuple(row for one in some for row in one.rows))
            done += zip(numbers, insert_values(state, whole, [len(one.rows) for one in some]), strict=True)
    except StreamKitError:
        state.rows = before
        return None
    return [changed for _, changed in sorted(done, key=lambda numbered: numbered[0])]


def _parts(state: ScriptState, inserts: Sequence[InsertValues]) -> list[list[int]]:
    """Which statements are done as one: all of a stream or table, but those side by side where several write one topic, whose order counts."""
    targets: list[Target] = [(one.name, one.columns) for one in inserts]
    numbers: dict[Target, list[int]] = {}
    for number, target in enumerate(targets):
        numbers.setdefault(target, []).append(number)
    sources = [state.source(name.text) for name, _ in numbers]
    topics = {source.topic for source in sources if source is not None}
    if len(topics) == len(numbers):
        return list(numbers.values())
    return [list(group) for _, group in groupby(range(len(targets)), lambda number: targets[number])]
