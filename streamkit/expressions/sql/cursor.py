"""A place in the words of a text."""

from __future__ import annotations

from collections.abc import Sequence

from streamkit.expressions.sql.dialect import Dialect
from streamkit.expressions.sql.refusal import UnexpectedWordError
from streamkit.expressions.sql.word import Word


class WordCursor:
    """A place in the words of a text: `word` is the one that is read next."""

    def __init__(self, words: Sequence[Word], dialect: Dialect) -> None:
        self.words = words
        self.dialect = dialect
        self.place = 0
        self.word = words[0]

    def ahead(self, count: int = 1) -> Word:
        """A word further on."""
        place = self.place + count
        return self.words[place] if place < len(self.words) else self.words[-1]

    def move(self) -> Word:
        """The word here; the place is behind it then."""
        word = self.word
        if word.kind != "end":
            self.place += 1
            self.word = self.words[self.place]
        return word

    def move_to(self, place: int) -> None:
        """Go to a place, forwards or back."""
        self.place = place
        self.word = self.words[place]

    def is_at(self, *keys: str) -> bool:
        """Whether one of these signs or keywords is here."""
        return self.word.key in keys

    def is_before(self, *keys: str) -> bool:
        """Whether one of these signs or keywords is behind the word here."""
        return self.ahead().key in keys

    def took(self, *keys: str) -> bool:
        """Whether one of these signs or keywords is here; the place is behind it then."""
        if self.is_at(*keys):
            self.move()
            return True
        return False

    def expect(self, *keys: str) -> None:
        """Move behind one of these signs or keywords; UnexpectedWordError if none is here."""
        if not self.took(*keys):
            raise self.unexpected(" or ".join(keys))

    def unexpected(self, expected: str) -> UnexpectedWordError:
        """The error that something else was expected here."""
        word = self.word
        hint = ""
        if word.key in self.dialect.reserved:
            hint = f" (a column of that name stands in backticks: `{word.text}`)"
        elif word.kind in ("name", "quoted") and self.place:
            hint = " (a name for the result stands behind AS)"
        message = f"found {word.text} at character {word.start + 1}{hint}; expected {expected}"
        return UnexpectedWordError(message, word, expected, self.place)

    def name(self, expected: str = "a name") -> str:
        """A name, which is no reserved word unless it is quoted."""
        if self.word.key in self.dialect.reserved:
            raise self.unexpected(expected)
        return self.any_name(expected)

    def any_name(self, expected: str = "a name") -> str:
        """A name where nothing else can be: any word."""
        word = self.word
        if word.kind == "quoted":
            self.move()
            return str(word.value)
        if word.kind != "name":
            raise self.unexpected(expected)
        self.move()
        return self.dialect.as_name(word.text)
