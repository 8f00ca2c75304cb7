"""A kind of store is two files of the same name, found by themselves; programs and the catalog know the kinds as they always did."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import streamkit as sk
import streamkit.engine.processors.store_kinds as seen_folder
import streamkit.plan.store_kinds as declared_folder
from streamkit.dsl.foreign_names import FOREIGN_CLASSES
from streamkit.engine.processors.processor_store import _STORES, ProcessorStore, processor_store_of
from streamkit.errors import TopologyError
from streamkit.plan.store_definition import _KINDS, StoreDefinition
from streamkit.schema import Schema

COLUMNS: dict[str, Any] = {"key": "k string", "value": "v int"}
OF_COLUMNS = f"key={Schema.parse('k string')!r}, value={Schema.parse('v int')!r}"
DECLARED = {
    "key value": (
        sk.key_value_store("s", **COLUMNS),
        f"StoreDefinition(name='s', kind='key_value', {OF_COLUMNS}, retention_ms=None, window_size_ms=None, retain_duplicates=False)",
    ),
    "window": (
        sk.window_store("s", **COLUMNS, size="1 s", retention="2 s"),
        f"StoreDefinition(name='s', kind='window', {OF_COLUMNS}, retention_ms=2000, window_size_ms=1000, retain_duplicates=False)",
    ),
    "duplicates": (
        sk.window_store("s", **COLUMNS, size="1 s", retention="2 s", retain_duplicates=True),
        f"StoreDefinition(name='s', kind='window', {OF_COLUMNS}, retention_ms=2000, window_size_ms=1000, retain_duplicates=True)",
    ),
    "session": (
        sk.session_store("s", **COLUMNS, retention="2 s"),
        f"StoreDefinition(name='s', kind='session', {OF_COLUMNS}, retention_ms=2000, window_size_ms=None, retain_duplicates=False)",
    ),
    "versioned": (
        sk.versioned_store("s", **COLUMNS, history_retention="2 s"),
        f"StoreDefinition(name='s', kind='versioned', {OF_COLUMNS}, retention_ms=2000, window_size_ms=None, retain_duplicates=False)",
    ),
}


def test_every_file_is_found():
    """A file in either folder is imported by itself, without a list that names it, and each stands in both."""
    for folder in (declared_folder, seen_folder):
        assert set(folder.NAMES) == {file.stem for file in Path(folder.__path__[0]).glob("*.py")} - {"__init__"}
    assert declared_folder.NAMES == seen_folder.NAMES


@pytest.mark.parametrize("name", declared_folder.NAMES)
def test_users_call_what_the_file_is_named(name):
    """What users call has the name of its file, is of the package, and stands in the texts that say how to declare a store."""
    assert getattr(sk, name) is getattr(import_module(f"streamkit.plan.store_kinds.{name}"), name)
    assert name in FOREIGN_CLASSES["Stores"]
    with pytest.raises(TopologyError, match=rf"add_store\(\) was given 's'; expected sk\..*\b{name}\b"):
        sk.Topology("app").add_store("s")  # type: ignore[arg-type]


@pytest.mark.parametrize("definition", _KINDS.values(), ids=_KINDS)
def test_what_processors_see_stands_in_the_file_of_the_same_name(definition):
    """What plan/store_kinds/x.py declares, processors see as engine/processors/store_kinds/x.py says."""
    store = _STORES[definition]

    assert issubclass(store, ProcessorStore)
    assert store.__module__.rpartition(".")[2] == definition.__module__.rpartition(".")[2]


@pytest.mark.parametrize(("definition", "text"), DECLARED.values(), ids=DECLARED)
def test_a_definition_is_written_as_the_catalog_knows_it(definition, text):
    """Of the text a digest is kept, by which a start knows a step again, and programs have the same fields; a program is read back."""
    plain = json.loads(json.dumps(definition.to_json()))

    assert repr(definition) == text
    assert sorted(plain) == ["key", "kind", "name", "retain_duplicates", "retention_ms", "value", "window_size_ms"]
    assert StoreDefinition.from_json(plain) == definition


def test_a_kind_that_no_processor_sees_is_named():
    """A definition whose second file was forgotten says where it is expected."""
    definition = sk.key_value_store("s", **COLUMNS)
    seen = _STORES.pop(type(definition))
    try:
        with pytest.raises(LookupError, match=r"'key_value' have no class for processors; expected one in streamkit\.engine"):
            processor_store_of(definition)
    finally:
        _STORES[type(definition)] = seen
