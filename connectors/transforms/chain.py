"""The transforms of a connector, one behind the other, with the predicates that say for which records each is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from streamkit.connectors.joined_rows import as_schema, joined_schema
from streamkit.connectors.reserved_columns import reserved_columns
from streamkit.connectors.transforms.classes import predicate_of, transform_of
from streamkit.connectors.transforms.insert_field import InsertField
from streamkit.connectors.transforms.predicates import Predicate
from streamkit.connectors.transforms.records import Records, records_of, rows_of
from streamkit.connectors.transforms.transform import Transform, TransformError, UnfitColumnsError
from streamkit.connectors.transforms.value_to_key import ValueToKey
from streamkit.errors import ConfigError, EvaluationError, SchemaError

_OF_CHAIN = ("type", "predicate", "negate", "plugin.version")


@dataclass(frozen=True)
class Link:
    """A transform, and the predicate that chooses its records."""

    transform: Transform
    predicate: Predicate | None
    is_negated: bool

    def apply(self, records: Records) -> Iterator[Records]:
        """The records as they come out, those that the predicate leaves alone among them."""
        if self.predicate is None:
            yield from self._applied(records)
            return
        if not records.count:  # for their columns alone: with and without the transform
            yield records
            yield from self._applied(records)
            return
        is_meant = self.predicate.holds(records) ^ self.is_negated
        if not is_meant.all():
            yield records.take(np.flatnonzero(~is_meant))
        if is_meant.any():
            yield from self._applied(records.take(np.flatnonzero(is_meant)))

    def _applied(self, records: Records) -> Iterator[Records]:
        try:
            yield from self.transform.apply(replace(records, key=records.key.bared(), value=records.value.bared()))
        except EvaluationError as error:
            raise TransformError(self.transform.said(str(error)), (), self.transform.class_name) from error
        except (SchemaError, pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            rows = tuple(int(records.rows[row]) for row in getattr(error, "rows", ()))
            said = str(error) if isinstance(error, SchemaError) else self.transform.said(str(error))
            is_of_columns = isinstance(error, UnfitColumnsError)
            raise TransformError(said, rows, self.transform.class_name, is_of_columns=is_of_columns) from error


@dataclass(frozen=True)
class Chain:
    """All transforms of a connector, in their order."""

    links: tuple[Link, ...]

    @property
    def keeps_columns(self) -> bool:
        """Whether rows leave the transforms with the columns that they came with, so that a topic's columns are those of its values."""
        return all(link.transform.keeps_columns for link in self.links)

    @property
    def makes_keys(self) -> bool:
        """Whether the transforms say what the key is, whatever it was before."""
        return any(isinstance(link.transform, ValueToKey) for link in self.links)

    def run(self, topic: str, rows: pa.Table, key: Sequence[str]) -> dict[str, pa.Table]:
        """The rows by topic; TransformError names the rows that a transform refuses."""
        return _by_topic(self.applied(records_of(topic, rows, key)), self.links[-1].transform.class_name)

    def applied(self, records: Records) -> list[Records]:
        """The records behind all transforms, in groups of one topic and of the same columns; ConfigError for names of StreamKit's own."""
        found = [records]
        for link in self.links:
            found = [one for some in found for one in link.apply(some)]
        for one in found:
            self._check_names(one)
        return found

    def _check_names(self, records: Records) -> None:
        """ConfigError for a name that StreamKit's own columns have: no record is to blame, so none is a dead letter."""
        aliases = ", ".join(link.transform.alias for link in self.links)
        said = reserved_columns(f"a row behind the transforms {aliases}", (*records.key.columns, *records.value.columns))
        if said:
            raise ConfigError(said)


def chain_of(settings: Mapping[str, Any], *, is_source: bool) -> Chain | None:
    """
    The chain that a connector's settings describe; None if they have no transforms.

    ConfigError for an unknown transform, predicate or setting, and for settings of aliases that are not listed.
    """
    transforms = _by_alias(settings["transforms"], settings["transforms."], "transforms")
    described = _by_alias(settings["predicates"], settings["predicates."], "predicates")
    predicates = {alias: predicate_of(alias, config) for alias, config in described.items()}
    links = tuple(_link(alias, config, predicates) for alias, config in transforms.items())
    for link in links:
        if is_source and isinstance(link.transform, InsertField) and link.transform.settings["offset.field"]:
            raise ConfigError(link.transform.said("offset.field is for sinks; a source's rows have no offset yet"))
    return Chain(links) if links else None


def _link(alias: str, config: Mapping[str, Any], predicates: Mapping[str, Predicate]) -> Link:
    name = config.get("predicate")
    if name is not None and name not in predicates:
        known = ", ".join(predicates) or "none"
        raise ConfigError(f"transforms.{alias}.predicate={name!r} is not among predicates; found {known}")
    negated = str(config.get("negate", "false")).lower()
    if negated not in ("true", "false"):
        raise ConfigError(f"transforms.{alias}.negate={config['negate']!r}; expected true or false")
    own = {key: value for key, value in config.items() if key not in _OF_CHAIN}
    transform = transform_of(alias, config.get("type"), own)
    return Link(transform, None if name is None else predicates[name], negated == "true")


def _by_alias(aliases: Sequence[str], settings: Mapping[str, Any], what: str) -> dict[str, dict[str, Any]]:
    """The settings of each alias, which begin with its name and a dot."""
    found: dict[str, dict[str, Any]] = {alias: {} for alias in aliases}
    if len(found) < len(aliases):
        raise ConfigError(f"{what}={','.join(aliases)!r} has a name twice; expected names that differ")
    for name, value in settings.items():
        alias = max((one for one in found if name.startswith(f"{one}.")), key=len, default=None)
        if alias is None:
            raise ConfigError(f"found the setting {what}.{name}, and {what}={','.join(aliases)!r}; expected its alias there")
        found[alias][name.removeprefix(f"{alias}.")] = value
    return found


def _by_topic(found: Sequence[Records], class_name: str) -> dict[str, pa.Table]:
    tables: dict[str, list[pa.Table]] = {}
    rows: dict[str, list[Any]] = {}
    for records in [one for one in found if one.count] or found:
        tables.setdefault(records.topic, []).append(_rows(records, class_name))
        rows.setdefault(records.topic, []).append(records.rows)
    return {name: _ordered(some, np.concatenate(rows[name]), class_name) for name, some in tables.items()}


def _rows(records: Records, class_name: str) -> pa.Table:
    try:
        return rows_of(records)
    except SchemaError as error:
        raise TransformError(str(error), (), class_name) from error


def _ordered(tables: Sequence[pa.Table], rows: np.ndarray, class_name: str) -> pa.Table:
    """The rows of one topic, in the order in which they came."""
    if len(tables) == 1:
        return tables[0]
    schema = joined_schema([table.schema for table in tables])
    if schema is None:  # then they pass apart
        raise TransformError("records of one topic have columns of types that differ", (), class_name)
    joined = pa.concat_tables([as_schema(table, schema) for table in tables])
    return joined.take(pa.array(np.argsort(rows, kind="stable")))
