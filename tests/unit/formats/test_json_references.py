"""Schemas of JSON that refer to other subjects of a registry: one schema that means the same, or an error that says what is missing."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pyarrow as pa
import pytest

from streamkit.errors import SchemaError
from streamkit.formats.codec import Codec, declare_format
from streamkit.formats.json_references import bundled
from streamkit.formats.json_schema import columns_of_json_schema
from streamkit.schema import Schema

PLACE = {"type": "object", "properties": {"city": {"$ref": "#/$defs/City"}, "zip": {"$ref": "codes.json#/definitions/Zip"}},
         "$defs": {"City": {"type": "string"}}}  # fmt: skip
CODES = {"definitions": {"Zip": {"type": "integer"}, "City": {"type": "boolean"}}}
TRIP = {"type": "object", "properties": {
    "id": {"$ref": "#/definitions/Id"}, "start": {"$ref": "place.json"}, "stops": {"type": "array", "items": {"$ref": "place.json#"}},
    "city": {"$ref": "place.json#/$defs/City"}}, "definitions": {"Id": {"type": "integer"}, "City": {"type": "null"}}}  # fmt: skip
COLUMNS = "id bigint, start struct<city:string,zip:bigint>, stops array<struct<city:string,zip:bigint>>, city string"


class _Subjects(BaseHTTPRequestHandler):
    """A registry that can hold what a real one would not take: missing references, and those that go round."""

    answers: dict[str, dict[str, object]]

    def do_GET(self):
        found = self.answers.get(self.path)
        data = json.dumps(found or {"error_code": 40402, "message": "Version not found."}).encode()
        self.send_response(200 if found else 404)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *arguments):
        """Print nothing."""


@pytest.fixture
def registry():
    answers: dict[str, dict[str, object]] = {}
    handler = type("Handler", (_Subjects,), {"answers": answers})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield answers, f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


def entry(id, schema, *references, type="JSON"):
    """What a registry answers; references are pairs of a name and a subject, in version 1 unless they have one."""
    named = [{"name": one[0], "subject": one[1], "version": one[2] if len(one) > 2 else 1} for one in references]
    return {"id": id, "schemaType": type, "schema": json.dumps(schema), "references": named}


def refusal(url):
    with pytest.raises(SchemaError) as error:
        Codec(declare_format("json", None, {"schema.registry.url": url, "schema.registry.retries": 0}), None, "t").written
    return str(error.value)


def test_references_at_any_depth(registry):
    """A schema, a part of one, from several places; equal names within different schemas stay apart."""
    answers, url = registry
    whole = entry(1, TRIP, ("place.json", "place"))
    answers["/subjects/t-value/versions/latest"] = answers["/schemas/ids/1"] = whole
    answers["/subjects/place/versions/1"] = entry(2, PLACE, ("codes.json", "codes"))
    answers["/subjects/codes/versions/1"] = entry(3, CODES)
    codec = Codec(declare_format("json", None, {"schema.registry.url": url}), None, "t")
    assert codec.written == Schema.parse(COLUMNS)
    row = {"id": 1, "start": {"city": "a", "zip": 2}, "stops": [{"city": "b", "zip": 3}], "city": "c"}
    value = b"\0\0\0\0\1" + json.dumps(row).encode()
    assert codec.decode(pa.array([value])).to_pylist() == [row]


@pytest.mark.parametrize(
    ("base", "name", "reference"),
    [
        ("", "place.json", "place.json"),
        ("", "place.json", "./place.json"),
        ("http://a.org/trips/trip.json", "place.json", "place.json"),
        ("http://a.org/trips/trip.json", "http://a.org/trips/place.json", "place.json"),
        ("http://a.org/trips/trip.json", "place", "../places/place.json"),
        ("", "place", "http://a.org/places/place.json"),
    ],
)
def test_names_of_references(base, name, reference):
    """By the registry's name or by the `$id` of the import, whole or relative to the one that refers."""
    root = {"type": "object", "properties": {"p": {"$ref": reference}}, **({"$id": base} if base else {})}
    place = {"$id": "http://a.org/places/place.json", "type": "object", "properties": {"n": {"$ref": "#/definitions/n"}},
             "definitions": {"n": {"type": "integer"}}}  # fmt: skip
    found = columns_of_json_schema(bundled(json.dumps(root), {name: json.dumps(place)}))
    assert found == Schema.parse("p struct<n:bigint>")


def test_references_that_lead_nowhere(registry):
    """One that the registry lacks, one that nobody declared, one of two meanings, one that goes round: each is named."""
    answers, url = registry
    latest = "/subjects/t-value/versions/latest"
    answers[latest] = entry(1, TRIP, ("place.json", "place", 7))
    assert "refers to 'place.json', version 7 of the subject place: the schema registry" in refusal(url)
    answers[latest] = entry(2, TRIP)
    assert "refers to place.json; expected a reference within it" in refusal(url)
    answers[latest] = entry(3, TRIP, ("codes.json", "codes"))
    answers["/subjects/codes/versions/1"] = entry(4, CODES)
    assert "refers to place.json, which is none of its references in the registry; it has codes.json" in refusal(url)
    answers[latest] = entry(5, TRIP, ("place.json", "place", 1), ("codes.json", "codes", 2))
    answers["/subjects/place/versions/1"] = entry(6, PLACE, ("codes.json", "codes", 1))
    answers["/subjects/codes/versions/2"] = entry(7, {"definitions": {"Zip": {"type": "string"}}})
    assert "'codes.json' is version 2 of the subject codes and version 1 of codes in one schema, and they differ" in refusal(url)
    round_trip = {"type": "object", "properties": {"id": {"type": "integer"}, "back": {"$ref": "back.json"}}}
    back = {"type": "object", "properties": {"again": {"$ref": "again.json"}}}
    answers[latest] = entry(8, round_trip, ("back.json", "back"))
    answers["/subjects/back/versions/1"] = entry(9, back, ("again.json", "again"))
    answers["/subjects/again/versions/1"] = entry(10, round_trip, ("back.json", "back"))
    assert "the JSON Schema refers to itself, which no column can" in refusal(url)
