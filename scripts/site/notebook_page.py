"""A notebook as a page: its texts, and its cells as code."""

from __future__ import annotations

import json
from pathlib import Path

_NOTE = "This page is the notebook `{path}` of the repository.\nOpen it in Jupyter to run it and to see its results.\n"


def notebook_page(file: Path, root: Path) -> str:
    """The text of the page: the notebook's heading, where the notebook is, then all cells in their order."""
    cells = [_cell(cell) for cell in json.loads(file.read_text(encoding="utf-8"))["cells"]]
    heading, _, rest = cells[0].partition("\n")
    note = _NOTE.format(path=file.relative_to(root).as_posix())
    return "\n\n".join([heading, note, rest.strip(), *cells[1:]]) + "\n"


def _cell(cell: dict[str, object]) -> str:
    source = cell["source"]
    text = (source if isinstance(source, str) else "".join(source)).strip()  # type: ignore[arg-type]
    return f"```python\n{text}\n```" if cell["cell_type"] == "code" else text
