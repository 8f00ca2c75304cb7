"""What statements of the ksql dialect mean that do not say a format, as SET says it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from streamkit.sql.tree.statements import CreateSource, Property

VALUE, KEY, BOTH = "VALUE_FORMAT", "KEY_FORMAT", "FORMAT"


@dataclass(frozen=True)
class DefaultFormats:
    """The formats of values and of keys, None if SET says none, and whether a value of one column is an object that holds it."""

    value: str | None = None
    key: str | None = None
    wraps_one_column: bool = True

    def said_by(self, statement: CreateSource) -> CreateSource:
        """The statement that says the formats which it leaves out."""
        given = {one.name.upper() for one in statement.properties}
        said: list[Property] = []
        if self.value is not None and not given & {VALUE, BOTH}:
            said.append(Property(VALUE, self.value))
        if self.key is not None and not given & {KEY, BOTH}:
            said.append(Property(KEY, self.key))
        return replace(statement, properties=(*statement.properties, *said)) if said else statement
