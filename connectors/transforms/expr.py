"""Expressions of StreamKit as a transform: columns made of columns, and rows chosen by a condition."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa

from streamkit.connectors.setting import Setting
from streamkit.connectors.transforms.records import RecordPart, Records
from streamkit.connectors.transforms.transform import Transform
from streamkit.data_type import from_arrow, to_arrow
from streamkit.errors import ConfigError, TopologyError
from streamkit.expressions.analysis.analysis import ExpressionAnalyzer, check_functions, result_name
from streamkit.expressions.analysis.arrow import evaluate_all, mask
from streamkit.expressions.analysis.sql import parse_sql
from streamkit.plan.expression import Call, Expression, Literal, SqlText
from streamkit.recast import recast
from streamkit.schema import Schema, SchemaColumn


class Expr(Transform):
    """
    Gives the columns `select`, of the rows where `where` is true; both are SQL texts of StreamKit's expressions.

    They can use the columns of the value, and those columns of the key that the value does not have. `*` in front means all columns of the
    value. Tombstones are passed on as they are.
    """

    NAME = "expr"
    PACKAGE = ""
    SETTINGS = (
        Setting("select", "columns with commas between, such as *, upper(name) AS name", default=None),
        Setting("where", "a condition", default=None),
    )

    @property
    def keeps_columns(self) -> bool:
        return not self.settings["select"]

    def check(self) -> None:
        if not self.settings["select"] and not self.settings["where"]:
            raise ConfigError(self.said("found neither select nor where; expected one of them, or both"))
        self._has_all, self._select = False, list[tuple[str, Expression]]()
        try:
            if self.settings["select"]:
                self._has_all, self._select = _selected(self.settings["select"])
            self._where = parse_sql(self.settings["where"]) if self.settings["where"] else None
            for expression in [one for _, one in self._select] + ([] if self._where is None else [self._where]):
                check_functions(expression)
        except TopologyError as error:
            raise ConfigError(self.said(str(error))) from None

    def apply(self, records: Records) -> Iterable[Records]:
        value = records.value
        if not value.is_struct and value.valid.true_count:
            raise self.unfit(
                f"expressions need a value of columns; found one that is {from_arrow(value.whole.type)}", value.valid
            )
        is_value = np.asarray(value.valid)
        if records.count and not is_value.any():
            yield records
            return
        try:
            kept, columns = self._evaluated(records.take(np.flatnonzero(is_value)))
        except TopologyError as error:
            raise self.unfit(str(error), value.valid) from error
        rows = np.sort(np.concatenate([np.flatnonzero(is_value)[kept], np.flatnonzero(~is_value)]))
        if columns is None:
            yield records.take(rows)
            return
        places = np.full(records.count, -1, np.int64)
        places[np.flatnonzero(is_value)[kept]] = np.arange(len(kept))
        taken = pa.array(places[rows], mask=places[rows] < 0)
        touched = frozenset(name for name, _ in self._select)
        part = RecordPart(
            {name: column.take(taken) for name, column in columns.items()}, value.valid.take(pa.array(rows)), True, touched
        )
        yield replace(records.take(rows), value=part)

    def _evaluated(self, records: Records) -> tuple[np.ndarray, Mapping[str, pa.Array] | None]:
        """Which rows stay, and their new columns."""
        visible = {**records.key.columns, **records.value.columns} if records.key.is_struct else dict(records.value.columns)
        columns = {name: _canonical(column) for name, column in visible.items()}
        schema = Schema(tuple(SchemaColumn(name, from_arrow(column.type)) for name, column in columns.items()))
        batch = pa.record_batch(list(columns.values()), schema.arrow)
        analyzer, kept = ExpressionAnalyzer(), np.arange(records.count)
        if self._where is not None:
            is_kept = mask(analyzer.predicate(schema, self._where), batch)
            kept, batch = np.flatnonzero(np.asarray(is_kept)), batch.filter(is_kept)
        if not self._select and not self._has_all:
            return kept, None
        found = evaluate_all(analyzer.project(schema, self._select), batch)
        others = {name: column.take(pa.array(kept)) for name, column in records.value.columns.items()} if self._has_all else {}
        return kept, {**others, **found}


def _selected(text: str) -> tuple[bool, list[tuple[str, Expression]]]:
    """Whether all columns are wanted, and the named expressions besides."""
    rest = text.strip()
    has_all = rest.startswith("*")
    if has_all:
        rest = rest[1:].lstrip()
        if not rest:
            return True, []
        if not rest.startswith(","):
            raise TopologyError(f"expected a comma behind *, in {text}")
        rest = rest[1:]
    whole = parse_sql(f"struct({rest})")
    if not isinstance(whole, Call) or whole.function.lower() not in ("struct", "named_struct"):
        raise TopologyError(f"expected columns with commas between, in {text}")
    return has_all, [_named(argument, text) for argument in whole.arguments if isinstance(argument, Expression)]


def _named(expression: Expression, text: str) -> tuple[str, Expression]:
    name = result_name(expression)
    if name is None or isinstance(expression, Literal | SqlText):
        raise TopologyError(f"an expression has no name; write it as <expression> AS <name>, in {text}")
    return name, expression


def _canonical(column: pa.Array) -> pa.Array:
    """The column in the type that StreamKit has for it."""
    kind = to_arrow(from_arrow(column.type))
    return recast(column, kind)
