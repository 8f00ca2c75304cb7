"""Which column a name means."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from streamkit.dsl.stream import Stream
from streamkit.errors import TopologyError
from streamkit.names import RESERVED_COLUMNS, spellings
from streamkit.plan.dotted_name import part, parts_of
from streamkit.plan.expression import Alias, Call, Expression, Lambda, Literal, Reference
from streamkit.plan.expression_text import expression_name
from streamkit.sql.ksql.expressions import PSEUDO_COLUMNS, MeaninglessExpressionError
from streamkit.sql.lowering.expression_parts import below, is_parameter, rewritten
from streamkit.sql.lowering.meaning import Meaning
from streamkit.sql.lowering.other_names import advice_on_column, advice_on_name
from streamkit.sql.lowering.scope import OF_ROWS, ROW_TIMES, Scope, ScopeColumn, fresh_name
from streamkit.sql.lowering.script_text import ScriptText
from streamkit.sql.tree.span import TextSpan, Written

ROWKEY = "ROWKEY"  # ksqlDB's name of a key that a join makes
NAMING_FUNCTIONS = ("struct", "arrays_zip")  # the fields of what they give are named as their arguments are


@dataclass(frozen=True)
class QueryNames:
    """
    Finds the columns that the expressions of a query name.

    `others` are names that are no columns of the rows yet, such as the bounds of a window that a later clause makes.
    """

    scope: Scope
    text: ScriptText
    meaning: Meaning
    others: tuple[str, ...] = ()

    def resolved_value(self, written: Written, clause: str) -> Expression:
        """What is written over the rows; TopologyError for the word NULL alone where the dialect asks for a type."""
        if self.meaning.names_results and written.expression == Literal(None):
            raise self.text.error(f"NULL has no type in {clause}; expected one, as of CAST(NULL AS STRING)", written.span)
        return self.resolved(written)

    def resolved(self, written: Written) -> Expression:
        """The expression over the rows as they are, in the dialect's meaning; TopologyError names the word that is wrong."""
        self.text.places.put_written(written)
        return self.resolved_part(written.expression, written.span)

    def resolved_part(self, expression: Expression, around: TextSpan) -> Expression:
        """A part of an expression over the rows as they are."""
        self._check_functions(expression, around)
        tree = self._tree(expression, around)
        resolved = self._meant(tree, around)
        return rewritten(resolved, self._computed, self.text.places) if self.scope.computed else resolved

    def condition(self, written: Written, clause: str) -> Expression:
        """The condition of a clause over the rows."""
        resolved = self.resolved_value(written, clause)
        return self.text.places.replaced(self.meaning.condition(resolved), resolved)

    @property
    def made_up_name(self) -> str:
        """What the key that a join made is called: ROWKEY, with a number behind it if a source has such a column."""
        return fresh_name(ROWKEY, [one.name for one in self.scope.shown])

    def kept_type(self, written: Written) -> str | None:
        """The type of an expression whose column keeps values of another type; None of any other one."""
        if not self.meaning.names_results:
            return None
        return self.meaning.kept_type(self._tree(written.expression, written.span), self._types)

    def _tree(self, expression: Expression, around: TextSpan) -> Expression:
        """The expression in which names are those of the rows."""

        def prepare(part: Expression) -> Expression | None:
            new = self.meaning.prepared(part)
            return None if new is part else new

        def change_within(lambdas: tuple[Lambda, ...]) -> Callable[[Expression], Expression | None]:
            def change(part: Expression) -> Expression | None:
                if isinstance(part, Reference):
                    return None if any(is_parameter(part, one) for one in lambdas) else self._column(part, around)
                if isinstance(part, Lambda):
                    body = rewritten(part.body, change_within((*lambdas, part)), self.text.places)
                    return part if body is part.body else replace(part, body=body)
                if isinstance(part, Call) and part.function.lower() in NAMING_FUNCTIONS:
                    return self._naming(part, change)
                return None

            return change

        return rewritten(rewritten(expression, prepare, self.text.places), change_within(()), self.text.places)

    @property
    def _types(self) -> dict[str, str] | None:
        """The types of the columns, with those of the bounds of windows that a later clause makes; None unless all are known."""
        types = self.scope.types
        return None if types is None else {**types, **dict.fromkeys(self.others, "timestamp")}

    def _meant(self, tree: Expression, around: TextSpan) -> Expression:
        """What the dialect means by a tree over the rows."""
        rows = self.scope.rows
        has_places = isinstance(rows, Stream) and rows.node.traits.are_records
        try:
            return self.meaning.expression(tree, self._types, has_places=has_places, placed=self.text.places.replaced)
        except MeaninglessExpressionError as error:
            raise TopologyError(error.message, self.text.at_part(error.part, around)) from None

    def _computed(self, expression: Expression) -> Expression | None:
        """The column that has the expression already."""
        name = self.scope.computed.get(expression)
        return None if name is None else Reference(part(name))

    def result_name(self, expression: Expression) -> str:
        """
        The name of a result that the query gives none: that of its column or field, else the text of the expression.

        Where results are numbered, it is empty for an expression.
        """
        inner = expression
        if isinstance(inner, Alias):
            return inner.name
        if isinstance(inner, Reference):
            return parts_of(inner.name)[-1]
        if self.meaning.names_results:
            return field_name_of(inner) or ""
        return expression_name(rewritten(expression, self._without_source, self.text.places))

    def found(self, reference: Reference, around: TextSpan) -> ScopeColumn | None:
        """The column that a name means, without the fields behind it; None if no source has it."""
        parts = parts_of(reference.name)
        if self._own_column(parts) is not None:
            return None
        found = self._find(parts, reference, around)
        return None if found is None else found[0]

    def _without_source(self, part_: Expression) -> Expression | None:
        if not isinstance(part_, Reference):
            return None
        parts = parts_of(part_.name)
        has_source = len(parts) > 1 and self._source(parts[0]) is not None
        return Reference(".".join(part(one) for one in parts[1:])) if has_source else part_

    def _naming(self, call: Call, change: Callable[[Expression], Expression | None]) -> Expression:
        """A call whose arguments name the fields of its result: a column that has another name in the rows keeps the one it is written with."""
        arguments = []
        for argument in call.arguments:
            new = rewritten(argument, change, self.text.places)
            if isinstance(argument, Reference) and isinstance(new, Reference):
                wanted = parts_of(argument.name)[-1]
                new = new if parts_of(new.name)[-1] == wanted else Alias(new, wanted)
            arguments.append(new)
        same = all(one is other for one, other in zip(arguments, call.arguments, strict=True))
        return call if same else Call(call.function, tuple(arguments))

    def _column(self, reference: Reference, around: TextSpan) -> Expression:
        parts = parts_of(reference.name)
        self._check_whose(parts, reference, around)
        if (own := self._own_column(parts)) is not None:
            return self.text.places.replaced(own, reference)
        found = self._find(parts, reference, around)
        if found is not None:
            column, rest = found
            name = ".".join(part(one) for one in (column.column, *rest))
            return reference if name == reference.name else self.text.places.replaced(Reference(name), reference)
        if self.scope.columns is None:
            return self._unknown(reference, parts)
        if parts[0].lower() in self.others:
            return reference
        raise self._missing(reference, parts, around)

    def _own_column(self, parts: Sequence[str]) -> Expression | None:
        """What the dialect alone calls so: columns of the record and bounds of windows, and the key that a join made up."""
        if not self.meaning.names_results:
            return None
        source = self._source(parts[0]) if len(parts) > 1 else None
        name = parts[0] if source is None else parts[1]
        own = self.scope.named(name, source, keeps_case=True)
        if own and (own[0].name == name or name not in PSEUDO_COLUMNS):  # ROWTIME is more exact than a column `rowtime`
            return None
        if source is None and (made_up := self.scope.made_up_column) and name == self.made_up_name:
            return Reference(part(made_up))
        if (bound := self.meaning.bound(name)) is not None:
            every = [one for one in self.scope.columns or () if one.is_bound and one.name == bound]
            found = [one.column for one in every if source in (None, one.source)]
            of_join = [one.column for one in every if source is None and not one.source]  # where no side is there in each row
            found = of_join or found
            is_in_key = source is None and bound in found  # also where a side of a join has a bound of its own
            column = bound if is_in_key or (not found and bound in self.others) else next(iter(found), None)
            return None if column is None else Call("unix_timestamp", (Reference(part(column)),))
        if name in OF_ROWS and not isinstance(self.scope.rows, Stream):
            kept = [one for one in self.scope.columns or () if one.name == name and source in (None, one.source)]
            if kept or len(self.scope.sources) < 2:
                return Reference(kept[0].column) if kept else None
        if source is None or len(self.scope.sources) == 1:
            return self.meaning.record_column(name, is_stream=isinstance(self.scope.rows, Stream))
        # A join that is run once has what the records of each side have beside their columns among its own.
        of_record = self.scope.named(PSEUDO_COLUMNS.get(name.upper(), ""), source, keeps_case=True)
        value = self.meaning.record_column(name, is_stream=bool(of_record))
        of_side = Reference(part(of_record[0].column)) if of_record else None
        return (
            None
            if value is None
            else rewritten(value, lambda one: of_side if isinstance(one, Reference) else None, self.text.places)
        )

    def _check_whose(self, parts: Sequence[str], reference: Reference, around: TextSpan) -> None:
        """TopologyError for ROWTIME, ROWPARTITION or ROWOFFSET without its source, where each row has those of several."""
        name = parts[0]
        is_of_record = self.meaning.names_results and name == name.upper() and name.lower() in self.meaning.record_columns
        if not is_of_record or len(self.scope.sources) < 2:
            return
        if isinstance(self.scope.rows, Stream) or any(one.name == name for one in self.scope.shown):
            return
        kept = (PSEUDO_COLUMNS[name], name)  # of records, and of rows of tables
        sources = [one for one in self.scope.sources if any(self.scope.named(each, one, keeps_case=True) for each in kept)]
        if sources:
            choices = " or ".join(f"{part(source)}.{name}" for source in sources)
            of_each = "the time" if name == ROW_TIMES else "that of a record"
            raise TopologyError(
                f"{name} may be {of_each} of each source of the join; expected {choices}", self.text.at_part(reference, around)
            )

    def _unknown(self, reference: Reference, parts: Sequence[str]) -> Expression:
        """A name of the only source, whose columns are not known: as it is, without the source before it."""
        if len(parts) > 1 and self._source(parts[0]) is not None:
            return self.text.places.replaced(Reference(".".join(part(one) for one in parts[1:])), reference)
        return reference

    def _find(self, parts: Sequence[str], reference: Reference, around: TextSpan) -> tuple[ScopeColumn, Sequence[str]] | None:
        """The column that the first parts of a name mean, and the parts behind it, which name fields."""
        source = self._source(parts[0]) if len(parts) > 1 else None
        if source is not None:
            if found := self.scope.named(parts[1], source, keeps_case=self.meaning.names_results):
                self._check_one_spelling(found, reference, around)
                return found[0], parts[2:]
            if len(self.scope.sources) == 1 and (record := self._record_column(parts[1])):
                return record, parts[2:]
        if record := self._record_column(parts[0]):
            return record, parts[1:]
        self._check_known(parts, reference, around)
        found = self.scope.named(parts[0], None, keeps_case=self.meaning.names_results)
        self._check_one_spelling(found, reference, around)
        are_apart = self.meaning.names_results and len({column.source for column in found}) > 1
        if are_apart or len({column.column for column in found}) > 1:
            joined = None if self.meaning.names_results else self._joined(found)
            found = [joined or self._raise_ambiguous(found, reference, around)]
        return (found[0], parts[1:]) if found else None

    def _check_one_spelling(self, found: Sequence[ScopeColumn], reference: Reference, around: TextSpan) -> None:
        """TopologyError for a name that may be several columns of one source, which differ in case only."""
        for source in {column.source for column in found}:
            names = dict.fromkeys(column.name for column in found if column.source == source)
            if len(names) > 1:
                raise TopologyError(
                    f"{reference.name!r} may be any of the columns {', '.join(names)}, which differ in case only; expected one of these "
                    f"spellings, in quotes, as in `{next(iter(names))}`",
                    self.text.at_part(reference, around),
                )

    def _check_known(self, parts: Sequence[str], reference: Reference, around: TextSpan) -> None:
        """TopologyError for a name without its source, if a source of the join may have such a column, too."""
        unknown = self.scope.partly_known
        if not unknown or len(self.scope.sources) < 2:
            return
        is_made = any(column.column == parts[0] and not column.source for column in self.scope.columns or ())
        if not is_made and parts[0].lower() not in self.others:
            raise TopologyError(
                f"whose column {parts[0]!r} is, is not known, since the columns of {' and '.join(unknown)} are not; expected "
                f"{unknown[0]}.{parts[0]}, or schema= where {unknown[0]} is declared",
                self.text.at_part(reference, around),
            )

    def _record_column(self, name: str) -> ScopeColumn | None:
        """What each record of a stream has beside its columns."""
        if self.meaning.names_results:
            return None
        is_there = name.lower() in self.meaning.record_columns and isinstance(self.scope.rows, Stream)
        return ScopeColumn("", name.lower(), name.lower()) if is_there else None

    def _source(self, name: str) -> str | None:
        """The source that a name means, in its own spelling."""
        if name in self.scope.sources:
            return name
        return next(iter(spellings(name, self.scope.sources, keeps_case=self.meaning.names_results)), None)

    def _joined(self, found: Sequence[ScopeColumn]) -> ScopeColumn | None:
        """The column of a join that compares all of these, under their one name."""
        name = found[0].name.lower()
        joined = self.scope.joined.get(name)
        if joined is None or not {column.source for column in found} <= joined[1]:
            return None
        type = next((one.type for one in self.scope.columns or () if one.column == joined[0]), None)
        return ScopeColumn("", found[0].name, joined[0], type)

    def _raise_ambiguous(self, found: Sequence[ScopeColumn], reference: Reference, around: TextSpan) -> ScopeColumn:
        choices = " or ".join(f"{column.source}.{part(column.name)}" for column in found)
        raise TopologyError(
            f"the column {reference.name!r} is in {' and in '.join(column.source for column in found)}; expected {choices}",
            self.text.at_part(reference, around),
        )

    def _missing(self, reference: Reference, parts: Sequence[str], around: TextSpan) -> TopologyError:
        at = self.text.at_part(reference, around)
        source = self._source(parts[0]) if len(parts) > 1 else None
        shown = self.scope.shown
        if source is not None:
            names = [column.name for column in shown if column.source == source]
            hint = self._advice(parts[1])
            return TopologyError(f"{source} has no column {parts[1]!r}; {listing(parts[1], names)}{hint}", at)
        if parts[0].lower() in RESERVED_COLUMNS:
            return TopologyError(self._refused_record_column(parts[0].lower()), at)
        names = [column.name for column in shown]
        if len(parts) > 1:
            sources = ", ".join(self.scope.sources)
            return TopologyError(
                f"there is no source {parts[0]!r}, and no column of that name; the sources are {sources}, "
                f"{listing(parts[0], names, self.scope.sources)}",
                at,
            )
        hint = self.text.quoting_hint(reference) or self._advice(parts[0])
        return TopologyError(f"there is no column {parts[0]!r}; {listing(parts[0], names)}{hint}", at)

    def _advice(self, name: str) -> str:
        """What stands for a name that is no column."""
        return advice_on_name(name) if self.meaning.names_results else advice_on_column(name)

    def _refused_record_column(self, name: str) -> str:
        if name in self.meaning.record_columns:
            return f"{name} is a column of a stream's records, and this is a table; expected it in a query over the stream"
        return f"{name} cannot be read by an expression; {' and '.join(self.meaning.record_columns)} of a stream can"

    def _check_functions(self, expression: Expression, around: TextSpan) -> None:
        """TopologyError for a function that there is not, at its name."""
        for call in below(expression):
            if isinstance(call, Call):
                self.meaning.check_function(call, expression, self.text.at_function(call, around))


def field_name_of(expression: Expression | None) -> str | None:
    """The name of the field of a struct that an expression is, as it is written; None of any other one."""
    match expression:
        case Call("get_field", (_, Literal(value=name))):
            return str(name)
    return None


def listing(name: str, names: Iterable[str], sources: Sequence[str] = ()) -> str:
    """The columns that there are, and the nearest to a name, which may be one of the sources, too."""
    there = list(dict.fromkeys(names))
    if not there:
        return "a SELECT without FROM has no columns"
    near = [*there, *sources]
    close = difflib.get_close_matches(name.lower(), [one.lower() for one in near], 1)
    nearest = next((one for one in near if close and one.lower() == close[0]), None)
    return f"the columns are {', '.join(there)}" + (f"; did you mean {nearest!r}?" if nearest else "")
