"""
Whether our tree of a text and Spark's are the same.

Our tree is written out with every operator in parentheses, and Spark reads both. The same tree of its parser, or the same expression after
analysis with constants computed, is agreement.
"""

from __future__ import annotations

from streamkit.errors import StreamKitError
from streamkit.expressions.analysis.catalyst import spark_sql
from streamkit.expressions.analysis.sql import parse_sql


def ours(text):
    """Our tree of a text in Spark's spelling; None if we refuse the text."""
    try:
        return spark_sql(parse_sql(text))
    except StreamKitError:
        return None


def disagreements(oracle, texts):
    """Lines about the texts that we read otherwise than Spark does, or that Spark cannot read; those that we refuse are none."""
    pairs = [(text, written) for text in texts if (written := ours(text)) is not None]
    found, left = [], []
    for text, written in pairs:
        theirs, same = oracle.parsed(text), oracle.parsed(written)
        if theirs is None:
            found.append(f"{text}: Spark cannot read it, we read {written}")
        elif same is None:
            found.append(f"{text}: Spark cannot read what we make of it: {written}")
        elif not theirs.equals(same):
            left.append((text, written))
    analysed = oracle.folded([one for pair in left for one in pair])
    found += [
        f"{text}: Spark has {analysed[text]}, we have {analysed[written]} ({written})"
        for text, written in left
        if analysed[text] != analysed[written]
    ]
    return found
