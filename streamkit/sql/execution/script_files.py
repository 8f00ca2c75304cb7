"""RUN SCRIPT: the statements of a file in place of the one that names it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from streamkit.errors import SqlError, SqlFault, TopologyError
from streamkit.expressions.sql.dialect import DIALECTS
from streamkit.plan.location import IN_PYTHON
from streamkit.sql.execution.session_settings import SessionSettings
from streamkit.sql.lowering.script_text import ScriptText
from streamkit.sql.reader.script import ScriptReading, read_on
from streamkit.sql.tree.statements import RunScript, Statement


@dataclass(frozen=True)
class PlacedStatement:
    """A statement, and the text that it stands in."""

    text: ScriptText
    statement: Statement


@dataclass
class ScriptFiles:
    """
    Puts the statements of files in place of RUN SCRIPT.

    The name of a file counts from the folder of the file that runs it. SET and DEFINE of a file count for all that is behind it, as if they
    stood there: `reading` is how the next statement is read, and goes on from text to text.
    """

    reading: ScriptReading
    may_read: bool = True

    @classmethod
    def of(cls, settings: SessionSettings, *, may_read: bool = True) -> ScriptFiles:
        """Those of texts that begin with a session's settings."""
        return cls(ScriptReading(DIALECTS[settings.script.meaning.name], dict(settings.variables)), may_read)

    def placed(self, text: ScriptText, around: tuple[Path, ...] = ()) -> list[PlacedStatement]:
        """The statements of a text, and of the files that it runs; SqlError with all that cannot be read."""
        of_files: dict[int, list[PlacedStatement]] = {}

        def run(statement: RunScript) -> None:
            try:
                of_files[id(statement)] = self._of_file(text, statement, around)
            except SqlError:
                raise
            except TopologyError as error:
                raise SqlError([SqlFault(error.message, text.at(statement.span))]) from None

        found = list[PlacedStatement]()
        for statement in read_on(text.text, self.reading, text.file, text.called_at, run):
            found += of_files[id(statement)] if isinstance(statement, RunScript) else [PlacedStatement(text, statement)]
        return found

    def _of_file(self, text: ScriptText, statement: RunScript, around: tuple[Path, ...]) -> list[PlacedStatement]:
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
        return self.placed(ScriptText(written, str(file)), (*around, file.resolve()))
