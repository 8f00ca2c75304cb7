"""RUN SCRIPT: the statements of a file in place of the one that names it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from streamkit.errors import TopologyError
from streamkit.plan.location import IN_PYTHON
from streamkit.sql.execution.session_settings import SessionSettings
from streamkit.sql.lowering.script_text import ScriptText
from streamkit.sql.reader.script import read_script
from streamkit.sql.tree.statements import Define, RunScript, Set, Statement


@dataclass(frozen=True)
class PlacedStatement:
    """A statement, and the text that it stands in."""

    text: ScriptText
    statement: Statement


@dataclass
class ScriptFiles:
    """
    Puts the statements of files in place of RUN SCRIPT.

    The name of a file counts from the folder of the file that runs it. What a file sets counts for all statements that are executed behind
    it; how these are read is decided by what stands in their own text. `settings` are those where the next statement stands.
    """

    settings: SessionSettings
    may_read: bool = True

    def with_files(
        self, text: ScriptText, statements: Sequence[Statement], around: tuple[Path, ...] = ()
    ) -> Iterator[PlacedStatement]:
        """The statements of a text, and of the files that it runs; TopologyError at the place of one that cannot be read."""
        for statement in statements:
            if isinstance(statement, RunScript):
                yield from self._of_file(text, statement, around)
                continue
            with suppress(TopologyError):  # it is told when the statement is checked
                if isinstance(statement, Set):
                    self.settings = self.settings.with_set(statement, text)
            if isinstance(statement, Define):
                self.settings = self.settings.with_define(statement)
            yield PlacedStatement(text, statement)

    def _of_file(self, text: ScriptText, statement: RunScript, around: tuple[Path, ...]) -> Iterator[PlacedStatement]:
        if not self.may_read:
            raise text.error(
                "RUN SCRIPT reads a file, which is not allowed here; expected the statements of the file", statement.span
            )
        folder = Path() if text.file == IN_PYTHON else Path(text.file).parent
        file = folder / statement.file
        if file.resolve() in around:
            raise text.error(f"{file} runs itself; expected another file", statement.span)
        try:
            written = file.read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is no text in UTF-8"
            raise text.error(
                f"cannot read {str(file)!r}: {reason}; expected a file with statements in SQL", statement.span
            ) from None
        found = read_script(written, self.settings.script.meaning.name, self.settings.variables, str(file))
        yield from self.with_files(ScriptText(written, str(file)), found, (*around, file.resolve()))
