"""
Word count: how often each word was written so far.

    streamkit topics create lines --schema "line string"
    echo '{"line": "To be, or not to be"}' | streamkit produce lines - --format json
    python topologies/word_count.py --once
    streamkit consume word_counts
"""

from __future__ import annotations

import streamkit as sk
from streamkit import functions as F

app = sk.Topology("word-count")
lines = app.stream("lines", schema="line string")

words = lines.flat_map(F.explode(F.split(F.lower("line"), r"\W+")).alias("word")).filter("word <> ''")
word_counts = words.group_by("word").count(store="word_counts")
word_counts.to("word_counts")

if __name__ == "__main__":
    sk.main(app)
