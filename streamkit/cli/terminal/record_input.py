"""Options that say how the records of a file are spelled, for the commands that read one."""

from __future__ import annotations

from typing import Annotated

import typer

DelimiterOption = Annotated[
    str | None,
    typer.Option(
        "--delimiter",
        metavar="CHARACTER",
        help="The character between the values of CSV, such as ; or a tab; a comma unless given, in .tsv a tab.",
        show_default=False,
    ),
]
EncodingOption = Annotated[
    str, typer.Option("--encoding", metavar="NAME", help="How CSV or JSON is encoded, such as latin-1, cp1252 or utf-16.")
]
