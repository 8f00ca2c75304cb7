"""SELECT: the columns of the result, and what its key is called."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from streamkit.data_type import fields_of
from streamkit.dsl.stream import Stream
from streamkit.dsl.table import GlobalTable, Table
from streamkit.errors import TopologyError
from streamkit.expressions.core.column import Column
from streamkit.expressions.ksql.signature import has_times
from streamkit.names import WINDOW_START, spellings
from streamkit.plan.dotted_name import part, parts_of
from streamkit.plan.expression import Alias, Call, Expression, Literal, Reference
from streamkit.plan.location import TextLocation, written_at
from streamkit.sql.lowering.exploding import ChosenItem
from streamkit.sql.lowering.expression_parts import references, rewritten
from streamkit.sql.lowering.joining import MADE_UP_KEY
from streamkit.sql.lowering.names import ROWKEY, QueryNames, field_name_of
from streamkit.sql.lowering.scope import QuerySource, Scope, ScopeColumn, fresh_name, numbered_name
from streamkit.sql.tree.query import FieldsStar, SelectColumn, SelectItem, Star
from streamkit.sql.tree.span import TextSpan, Written

ALL = "*"


@dataclass(frozen=True)
class Projection:
    """The items of SELECT over the rows. `star` are the columns of `*` where these are others than all that are shown."""

    names: QueryNames
    star: tuple[ScopeColumn, ...] = ()

    def chosen(self, items: Sequence[SelectItem]) -> tuple[ChosenItem, ...]:
        """
        Each column of the result; `*` of rows whose columns are not known is one item that is called so.

        A column that a star gives has its source in its name, if another one before it has the name.
        """
        if self.names.meaning.names_results:
            return self._numbered(items)
        chosen: list[ChosenItem] = []
        taken: set[str] = set()
        for one in (one for item in items for one in self._of_item(item)):
            is_taken = one.source and one.name.lower() in taken
            name = fresh_name(f"{one.source}_{one.name}", taken) if is_taken else one.name
            taken.add(name.lower())
            chosen.append(replace(one, name=name))
        return tuple(chosen)

    def _numbered(self, items: Sequence[SelectItem]) -> tuple[ChosenItem, ...]:
        """
        Each column of the result, as ksqlDB names those that the query gives none.

        A column keeps its name, and has its source before it where several of them have one of that name, as all have that a star gives of a
        join. A field has its own name, with another number if it has one, and others are numbered; a new key has its number already.
        """
        scope = self.names.scope
        given = {item.alias.text for item in items if isinstance(item, SelectColumn) and item.alias is not None}
        new_keys = (name for name in scope.computed.values() if not name.startswith(ROWKEY))  # that of a join has no number
        numbered: dict[Expression, str] = {_reference(name): name for name in new_keys}
        taken = {*(one.name for one in scope.columns or () if one.name not in scope.computed.values()), *given}
        chosen: list[ChosenItem] = []
        for one in (one for item in items for one in self._of_item(item)):
            name = one.name
            if one.source and len(scope.sources) > 1:
                name = f"{one.source}_{name}"
            elif not one.is_named and (name == "" or field_name_of(one.written) is not None):
                name = numbered.get(one.expression) or numbered_name(name, taken)
                taken.add(name)
            chosen.append(replace(one, name=name))
        return tuple(chosen)

    def _of_item(self, item: SelectItem) -> list[ChosenItem]:
        match item:
            case Star():
                return self._star(item)
            case FieldsStar():
                return self._fields(item)
            case SelectColumn(written, alias):
                expression = self.names.resolved_value(written, "SELECT")
                name = alias.text if alias else self._own_name(written.expression)
                source = "" if alias else self._source_of_record(written.expression)
                type = self.names.kept_type(written)
                return [ChosenItem(expression, name, written.span, alias is not None, written.expression, source, type=type)]
        raise TypeError(f"no item of SELECT: {item!r}")

    def _own_name(self, expression: Expression) -> str:
        """The name of a result that has none: a column's is spelt as its source spells it."""
        if isinstance(expression, Reference):
            found = self.names.found(expression, TextSpan(0, 0))
            if found is not None and found.name.lower() == parts_of(expression.name)[-1].lower():
                return self._told_apart(found) if self.names.meaning.names_results else found.name
        return self.names.result_name(expression)

    def _source_of_record(self, expression: Expression) -> str:
        """The source before a column that ksqlDB has of every record, such as `l.ROWTIME`; empty for any other expression."""
        if not self.names.meaning.names_results or not isinstance(expression, Reference):
            return ""
        source, *rest = parts_of(expression.name)
        is_of_record = len(rest) == 1 and rest[0].lower() in self.names.meaning.record_columns
        return next(iter(spellings(source, self.names.scope.sources, keeps_case=True)), "") if is_of_record else ""

    def _told_apart(self, column: ScopeColumn) -> str:
        """The name of a column, with its source if several sources have one of that name."""
        sources = {one.source for one in self.names.scope.shown if one.name == column.name}
        return f"{column.source}_{column.name}" if column.source and len(sources) > 1 else column.name

    def _star(self, star: Star) -> list[ChosenItem]:
        scope = self.names.scope
        if star.qualifier is not None:
            return self._all_of(star, star.qualifier.text)
        if scope.columns is None:
            return [ChosenItem(Reference(ALL), ALL, star.span)]
        found: dict[str, ChosenItem] = {}
        if self.names.meaning.names_results and (made_up := scope.made_up_column):
            found[ROWKEY] = ChosenItem(_reference(made_up), self.names.made_up_name, star.span)
        is_each_named = self.names.meaning.names_results  # by its own source, also a column that a join compares
        in_from = sorted(scope.shown, key=lambda one: self._place_in_from(one.source))
        for column in (
            in_from if is_each_named else self.star or scope.shown
        ):  # what a join compares is once there else, as the side that is kept has it
            if is_each_named and column.is_bound:
                found |= {f"{item.source}.{item.name}": item for item in self._bound(column, star.span)}
            else:
                own = (column.copied if self.star else "") or column.column
                found.setdefault(f"{column.source}.{column.name}" if is_each_named else own, self._of_column(column, star.span))
        return [*found.values()]

    def _bound(self, column: ScopeColumn, span: TextSpan) -> list[ChosenItem]:
        """The bound of a window as `*` gives it, if it does: of a join that of each source, since the key has one of them alone."""
        is_joined = len(self.names.scope.sources) > 1
        if not is_joined and not self.names.meaning.shows_bounds:
            return []
        name = "WINDOWSTART" if column.name == WINDOW_START else "WINDOWEND"
        written = Reference(f"{part(column.source)}.{name}" if is_joined else name)
        return [ChosenItem(self.names.resolved_part(written, span), name, span, source=column.source if is_joined else "")]

    def _all_of(self, star: Star, source: str) -> list[ChosenItem]:
        """The columns of one source, or else the fields of a column of that name."""
        scope = self.names.scope
        own = next(iter(spellings(source, scope.sources, keeps_case=self.names.meaning.names_results)), None)
        if own is None:
            return self._fields_of(Reference(f"{part(source)}.*"), Reference(part(source)), star.span)
        if scope.columns is None:
            return [ChosenItem(Reference(ALL), ALL, star.span)]
        has_own_bounds = self.names.meaning.names_results
        every: list[ChosenItem] = []
        for column in scope.shown:
            if column.source == own:
                is_bound = has_own_bounds and column.is_bound
                every += self._bound(column, star.span) if is_bound else [self._of_column(column, star.span)]
        return every

    @staticmethod
    def _of_column(column: ScopeColumn, span: TextSpan) -> ChosenItem:
        """A column that a star stands for; `source` says whose it is."""
        type = column.type if column.type is not None and has_times(column.type) else None
        return ChosenItem(_reference(column.column), column.name, span, source=column.source, type=type)

    def _fields(self, item: FieldsStar) -> list[ChosenItem]:
        written = item.written
        self.names.text.places.put_written(written)
        if not isinstance(written.expression, Reference):
            return self._fields_of_expression(written)
        return self._fields_of(Reference(f"{written.expression.name}.*"), written.expression, written.span)

    def _fields_of_expression(self, written: Written) -> list[ChosenItem]:
        """All fields of a struct that is computed."""
        names, scope = self.names, self.names.scope
        type = scope.type_of(names.resolved(written), names.text.at(written.span))
        fields = None if type is None else fields_of(type)
        if fields is None:
            raise names.text.error(
                f"* gives the fields of a struct, and this is {type or 'of no known type'}; expected a struct", written.span
            )
        each = [(name, Call("get_field", (written.expression, Literal(name)))) for name, _ in fields]
        return [ChosenItem(names.resolved_part(field, written.span), name, written.span) for name, field in each]

    def _fields_of(self, star: Reference, struct: Reference, span: TextSpan) -> list[ChosenItem]:
        column = self.names.resolved_part(struct, span)
        assert isinstance(column, Reference)
        type = self.names.scope.type_of(column, self.names.text.at(span))
        if type is None:
            return [ChosenItem(Reference(f"{column.name}.*"), star.name, span)]
        fields = fields_of(type)
        if fields is None:
            raise self.names.text.error(
                f"{star.name} gives the fields of a struct, and {column.name} is {type}; expected it at a struct", span
            )
        return [ChosenItem(Reference(f"{column.name}.{part(name)}"), name, span) for name, _ in fields]

    def projected(self, items: Sequence[ChosenItem], span: TextSpan) -> QuerySource:
        """The rows with the columns of the result."""
        scope = self.names.scope
        self.check_distinct(items)
        if any(_is_star(item) for item in items):
            return self._unknown(items, span)
        scope, items = self._with_key_named(scope, items, span)
        if self._is_all(scope, items):
            return _source(scope, scope.names)
        with written_at(self._at(items, span)):
            rows = scope.rows.select(*(Column(Alias(item.expression, item.name)) for item in items))
        return self._result(scope, rows, items)

    def unnamed_key(self, items: Sequence[ChosenItem]) -> tuple[tuple[str, ...], ...]:
        """The columns of the key that no item is, without the bounds of windows, each by what the query may write for it."""
        chosen = {item.expression for item in items}
        key = [name for name in self.names.scope.key or () if name not in self.names.scope.bounds]
        return tuple(self._written(name) for name in key if _reference(name) not in chosen)

    def _written(self, key: str) -> tuple[str, ...]:
        """What a query may write for a column of the key: of a join the column of each side that it has compared, or ROWKEY."""
        scope = self.names.scope
        if key in scope.grouped:
            return (scope.grouped[key],)
        if scope.made_up_key:
            return (self.names.made_up_name,)
        if len(scope.sources) < 2:
            return (key,)
        return tuple(
            f"{one.source}.{one.name}" for one in scope.columns or () if one.source and key in (one.column, one.copied)
        ) or (key,)

    def with_key_of_joins(self, items: Sequence[ChosenItem]) -> tuple[ChosenItem, ...]:
        """
        The items of which one is the key that joins keep: of the columns that they compared, the one of the first source in FROM.

        In ksqlDB the column of either side is the key, also that of the side of a LEFT or RIGHT join that may have no row.
        """
        scope, found = self.names.scope, list(items)
        if not self.names.meaning.names_results or scope.made_up_key or len(scope.sources) < 2:
            return tuple(found)
        copies: dict[Expression, Expression] = {
            _reference(one.column): _reference(one.copied) for one in scope.columns or () if one.copied
        }
        for key in scope.key or ():
            compared = [n for n, one in enumerate(found) if copies.get(one.expression, one.expression) == _reference(key)]
            if key not in scope.bounds and compared:
                place = min(compared, key=lambda n: self._place_in_from(self._source_of(found[n])))
                found[place] = replace(found[place], expression=_reference(key), is_key=True)
        return tuple(found)

    def _source_of(self, item: ChosenItem) -> str:
        """The source of the column that an item is; empty for an expression."""
        column = self.names.found(item.written, item.span) if isinstance(item.written, Reference) else None
        return item.source or ("" if column is None else column.source)

    def _place_in_from(self, source: str) -> int:
        sources = self.names.scope.sources
        return sources.index(source) if source in sources else len(sources)

    def repeated_key(self, items: Sequence[ChosenItem]) -> tuple[str, ...]:
        """The columns of the key that the query writes more than once, of one source."""
        written: dict[Expression, set[str]] = {}
        for item in items:
            if item.written is not None and isinstance(item.written, Reference):
                written.setdefault(item.expression, set()).add(item.name)
        is_joined = len(self.names.scope.sources) > 1
        names = [name for name in self.names.scope.key or () if name not in self.names.scope.bounds]
        return () if is_joined else tuple(self._written(name)[0] for name in names if len(written.get(_reference(name), ())) > 1)

    def _at(self, items: Sequence[ChosenItem], span: TextSpan) -> TextLocation:
        """Where SELECT has its items."""
        return self.names.text.at(TextSpan(items[0].span.start, items[-1].span.end) if items[-1].span.end else span)

    def _unknown(self, items: Sequence[ChosenItem], span: TextSpan) -> QuerySource:
        """The rows with columns some of which are not known by name."""
        scope = self.names.scope
        if [item.expression for item in items] == [Reference(ALL)]:
            return QuerySource(scope.rows)
        columns = [Column(item.expression if _is_star(item) else Alias(item.expression, item.name)) for item in items]
        with written_at(self._at(items, span)):
            return QuerySource(scope.rows.select(*columns))

    def check_distinct(self, items: Sequence[ChosenItem]) -> None:
        """TopologyError if two results have one name; in ksqlDB's dialect names may differ in case only."""
        seen: set[str] = set()
        for item in items:
            name = self.names.meaning.folded(item.name)
            if name in seen and not _is_star(item):
                other = f"{item.name}_2" if item.name.isidentifier() else "another_name"
                raise TopologyError(
                    f"two results are called {item.name!r}; expected another name for one of them, as in … AS {other}",
                    self.names.text.at(item.span),
                )
            seen.add(name)

    def _with_key_named(self, scope: Scope, items: Sequence[ChosenItem], span: TextSpan) -> tuple[Scope, tuple[ChosenItem, ...]]:
        """The rows with their key under the names that SELECT gives its columns, and the items over these."""
        names = self._names_of_key(scope, items)
        if not names:
            return scope, tuple(items)
        others = [name for name in scope.names if name not in names]
        hidden = [name for name in others if name.lower() in {new.lower() for new in names.values()}]
        names |= {name: fresh_name(name, [*scope.names, *names.values()]) for name in hidden}
        with written_at(self._at(items, span)):
            rows = scope.rows.rename(names)
        columns = tuple(replace(one, column=names.get(one.column, one.column)) for one in scope.columns or ())
        key = tuple(names.get(name, name) for name in scope.key or ())

        def change(one: Expression) -> Expression | None:
            if not isinstance(one, Reference) or (first := parts_of(one.name)[0]) not in names:
                return None
            return Reference(".".join(part(name) for name in (names[first], *parts_of(one.name)[1:])))

        changed = tuple(replace(item, expression=rewritten(item.expression, change, self.names.text.places)) for item in items)
        return replace(scope, rows=rows, columns=columns, key=key), changed

    def _names_of_key(self, scope: Scope, items: Sequence[ChosenItem]) -> dict[str, str]:
        """New names of key columns: of a column that SELECT renames, and of a made-up column if SELECT uses its name for another one."""
        found: dict[str, str] = {}
        taken = [item.name for item in items]
        for name in scope.key or ():
            of_key = [item for item in items if item.expression == _reference(name)]
            named = [item for item in of_key if item.is_key] or [item for item in of_key if isinstance(item.written, Reference)]
            given = [item.name for item in named or of_key]  # ROWKEY, where the expression of a join stands beside it
            if name in given or (name in scope.bounds and not scope.made_up_key):
                continue
            if given:
                found[name] = given[0]
            elif name in taken and scope.made_up_key:
                found[name] = fresh_name(MADE_UP_KEY, [*scope.names, *taken, *found.values()])
        return found

    def _is_all(self, scope: Scope, items: Sequence[ChosenItem]) -> bool:
        """Whether the rows are the result as they are: all their columns in order, key columns wherever the query has them."""
        if any(item.expression != _reference(item.name) for item in items) or scope.columns is None:
            return False
        chosen = tuple(item.name for item in items)
        if chosen == scope.names:
            return True
        key = scope.key or ()
        is_made_here = not scope.sources  # an aggregate puts its key first, whatever the order of SELECT
        values = tuple(name for name in scope.names if name not in key)
        if is_made_here:
            return tuple(name for name in chosen if name not in key) == values
        hidden = {one.column for one in scope.columns} - {one.column for one in scope.shown}
        is_hidden_key = hidden and hidden <= set(key)
        return bool(is_hidden_key) and chosen == tuple(name for name in scope.names if name not in hidden)

    def _result(self, scope: Scope, rows: Stream | Table | GlobalTable, items: Sequence[ChosenItem]) -> QuerySource:
        """The columns that `select` gives: those of the key that SELECT does not name come first."""
        if scope.columns is None or scope.key is None:
            columns = tuple((item.name, None) for item in items) if scope.key == () else None
            return QuerySource(rows, columns, scope.key)
        types = scope.types or {}
        chosen = {item.name: item.type or scope.type_of(item.expression, self.names.text.at(item.span)) for item in items}
        key = {name: types.get(name) for name in scope.key if name not in chosen}
        return QuerySource(rows, tuple({**key, **chosen}.items()), scope.key, of_key=self._of_key(scope, items))

    @staticmethod
    def _of_key(scope: Scope, items: Sequence[ChosenItem]) -> tuple[tuple[str, Expression], ...]:
        """The results beside the key that are a column of it, or are computed of the bounds of its window alone."""
        key = {_reference(name) for name in scope.key or ()}
        bounds = {
            _reference(name) for name in scope.bounds if name in (scope.key or ())
        }  # a join has those of the other side, too
        found = []
        for item in items:
            named = set(references(item.expression))
            if item.name not in (scope.key or ()) and (item.expression in key or (named and named <= bounds)):
                found.append((item.name, item.expression))
        return tuple(found)


def _source(scope: Scope, names: Sequence[str]) -> QuerySource:
    """The rows of a scope as they are."""
    types = {one.column: one.type for one in scope.columns or ()}
    return QuerySource(scope.rows, tuple((name, types.get(name)) for name in names), scope.key)


def _reference(name: str) -> Reference:
    return Reference(part(name))


def _is_star(item: ChosenItem) -> bool:
    return isinstance(item.expression, Reference) and parts_of(item.expression.name)[-1] == ALL
