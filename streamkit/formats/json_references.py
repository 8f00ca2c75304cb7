"""JSON Schemas that refer to other schemas of a registry, as one schema that has them all."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import urljoin

from streamkit.errors import SchemaError

_NOWHERE = "http://registry.invalid/"  # where a schema without an `$id` lies, so that ./a.json is a.json
IMPORTED = "x-imported"  # where the other schemas lie in the one that is made


def bundled(text: str, imports: Mapping[str, str]) -> str:
    """
    The schema with the imported ones in it, and with references that lead there.

    A reference names an import as the registry does, or by the `$id` of the import, whole or relative to that of who refers.
    SchemaError for a reference to a schema that is not imported.
    """
    documents = {name: json.loads(imported) for name, imported in imports.items()}
    places = {name: f"#/{IMPORTED}/{number}" for number, name in enumerate(documents)}
    found = _located(json.loads(text), "#", documents, places)
    if not isinstance(found, dict):
        return text
    inside = {str(number): _located(one, places[name], documents, places) for number, (name, one) in enumerate(documents.items())}
    return json.dumps({**found, IMPORTED: inside})


def _located(document: Any, place: str, documents: Mapping[str, Any], places: Mapping[str, str]) -> Any:
    """A schema whose references are those of the whole, in which it lies at `place`."""
    own = _id_of(document)
    base = urljoin(_NOWHERE, own)
    known = {urljoin(base, alias): places[name] for name, one in documents.items() for alias in (name, _id_of(one)) if alias}

    def located(part: Any) -> Any:
        if isinstance(part, list):
            return [located(one) for one in part]
        if not isinstance(part, dict):
            return part
        changed = {name: located(one) for name, one in part.items()}
        reference = part.get("$ref")
        if isinstance(reference, str):
            changed["$ref"] = target(reference)
        return changed

    def target(reference: str) -> str:
        address, _, inner = reference.partition("#")
        whole = urljoin(base, address)
        if not address or (own and whole == base.partition("#")[0]):
            return place + inner
        if whole in known:
            return known[whole] + inner
        raise SchemaError(
            f"the JSON Schema refers to {reference}, which is none of its references in the registry; it has "
            f"{', '.join(documents) or 'none'}"
        )

    return located(document)


def _id_of(document: Any) -> str:
    found = document.get("$id") if isinstance(document, dict) else None
    return found if isinstance(found, str) else ""
