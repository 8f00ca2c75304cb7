"""The page of the HTTP interface, from docs/openapi.json."""

from __future__ import annotations

import json

from scripts.site.pages import ROOT
from scripts.site.reference.sentences import row, table

INTRODUCTION = """# HTTP

`streamkit serve` answers these requests; [serve](../serve.md) has examples, forms, limits and safety.
[openapi.json](../openapi.json) describes them with all types, in OpenAPI 3.1.
"""


def page() -> str:
    """The text of the page."""
    paths = json.loads((ROOT / "docs" / "openapi.json").read_text(encoding="utf-8"))["paths"]
    rows = []
    for path, methods in paths.items():
        for method, operation in methods.items():
            asked = [f"`{one['name']}`" for one in operation.get("parameters", []) if one["in"] == "query"]
            rows.append(row(f"`{method.upper()} {path}`", operation["summary"], ", ".join(asked)))
    return "\n".join([INTRODUCTION, *table("request", "what it gives", "parameters"), *rows, ""])
