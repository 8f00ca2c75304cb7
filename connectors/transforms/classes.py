"""From Connect's names to the classes: `ReplaceField$Value`, with or without its package."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from streamkit.connectors.transforms.cast import CastTransform
from streamkit.connectors.transforms.drop_headers import DropHeaders
from streamkit.connectors.transforms.expr import Expr
from streamkit.connectors.transforms.extract_field import ExtractField
from streamkit.connectors.transforms.extract_new_record_state import ExtractNewRecordState
from streamkit.connectors.transforms.filter import FilterTransform
from streamkit.connectors.transforms.flatten import Flatten
from streamkit.connectors.transforms.header_from import HeaderFrom
from streamkit.connectors.transforms.hoist_field import HoistField
from streamkit.connectors.transforms.insert_field import InsertField
from streamkit.connectors.transforms.insert_header import InsertHeader
from streamkit.connectors.transforms.mask_field import MaskField
from streamkit.connectors.transforms.predicates import PREDICATES, Predicate
from streamkit.connectors.transforms.regex_router import RegexRouter
from streamkit.connectors.transforms.replace_field import ReplaceField
from streamkit.connectors.transforms.set_schema_metadata import SetSchemaMetadata
from streamkit.connectors.transforms.timestamp_converter import TimestampConverter
from streamkit.connectors.transforms.timestamp_router import TimestampRouter
from streamkit.connectors.transforms.transform import CONNECT, Transform
from streamkit.connectors.transforms.value_to_key import ValueToKey
from streamkit.errors import ConfigError

TRANSFORMS: dict[str, type[Transform]] = {
    kind.NAME: kind
    for kind in (
        CastTransform, DropHeaders, Expr, ExtractField, ExtractNewRecordState, FilterTransform, Flatten, HeaderFrom, HoistField, InsertField,
        InsertHeader, MaskField, RegexRouter, ReplaceField, SetSchemaMetadata, TimestampConverter, TimestampRouter, ValueToKey,
    )
}  # fmt: skip


def transform_of(alias: str, name: Any, settings: Mapping[str, Any]) -> Transform:
    """The transform of that name, with its settings; ConfigError if there is none."""
    where = f"transforms.{alias}.type"
    if name is None:
        raise ConfigError(f"the transform {alias} needs the setting {where}; expected one of {_names()}")
    short, _, side = str(name).partition("$")
    package, _, short = short.rpartition(".")
    kind = TRANSFORMS.get(short)
    if kind is None or package not in ("", kind.PACKAGE.rstrip(".")):
        raise ConfigError(f"{where}={name!r}; expected one of {_names()}")
    if side not in (kind.SIDES or ("",)):
        expected = " or ".join(f"{short}${one}" for one in kind.SIDES) or short
        raise ConfigError(f"{where}={name!r}; expected {expected}")
    return kind(alias, side, settings)


def predicate_of(alias: str, config: Mapping[str, Any]) -> Predicate:
    """The predicate that a configuration describes; ConfigError if there is none."""
    own = {key: value for key, value in config.items() if key not in ("type", "plugin.version")}
    name = str(config.get("type", ""))
    package, _, short = name.rpartition(".")
    if short not in PREDICATES or package not in ("", f"{CONNECT}predicates"):
        raise ConfigError(f"predicates.{alias}.type={name!r}; expected one of {', '.join(PREDICATES)}")
    return PREDICATES[short](alias, own)


def _names() -> str:
    return ", ".join(f"{name}${'|'.join(kind.SIDES)}" if kind.SIDES else name for name, kind in sorted(TRANSFORMS.items()))
