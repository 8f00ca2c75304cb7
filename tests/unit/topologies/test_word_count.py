"""Word count: lines in, counts of words out."""

from __future__ import annotations

from streamkit.testing import TopologyTestDriver
from topologies.word_count import app


def play(driver):
    driver.pipe("lines", {"line": "To be, or not to be"})
    driver.pipe("lines", [{"line": "that is the question:"}, {"line": None}, {"line": "...to be"}])


def test_words_are_counted():
    """Every word counts, in upper or lower case; neither punctuation nor a missing line is a word."""
    with TopologyTestDriver(app) as driver:
        play(driver)

        counts = {word: row["count"] for word, row in driver.newest("word_counts").items()}
        assert counts == {"to": 3, "be": 3, "or": 1, "not": 1, "that": 1, "is": 1, "the": 1, "question": 1}
        assert driver.store("word_counts").get("be") == {"word": "be", "count": 3}


def new_counts(driver):
    return {(row["word"], row["count"]) for row in driver.read("word_counts")}


def test_counts_go_on():
    """Each epoch gives the new counts of the words that came in it, and of no others."""
    with TopologyTestDriver(app) as driver:
        driver.pipe("lines", {"line": "to be to"})
        assert new_counts(driver) == {("to", 2), ("be", 1)}

        driver.pipe("lines", {"line": "be"})
        assert new_counts(driver) == {("be", 2)}
