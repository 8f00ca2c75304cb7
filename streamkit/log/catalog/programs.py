"""The programs with which an application was started lately: each that did something else than the one before it."""

from __future__ import annotations

from dataclasses import dataclass

from streamkit.log.database.database import Transaction

KEPT = 20  # of each application


@dataclass(frozen=True)
class StartedProgram:
    """
    A program that did something else than the one before: the generation that began with it, since when, its tasks, and its JSON text.

    A start that first brings state forward has its program from the end of that on; until then the one before counts.
    """

    generation: int
    started_ms: int
    tasks: int
    text: str


def note(transaction: Transaction, now_ms: int, application_id: int, program_hash: str) -> None:
    """
    Remember the program that an application has now, unless the newest one of its history has the same hash.

    Texts of equal hashes differ in the lines of the user's file at most. The text stays in the catalog on its way, so the journal has it once.
    """
    newest = "SELECT program_hash FROM application_program WHERE application_id = ? ORDER BY generation DESC LIMIT 1"
    if transaction.execute(newest, (application_id,)) == [(program_hash,)]:
        return
    transaction.execute(
        "INSERT INTO application_program (application_id, generation, started_ms, tasks, program_hash, program) "
        "SELECT id, generation, ?, tasks, ?, program FROM application WHERE id = ? ON CONFLICT (application_id, generation) DO UPDATE SET "
        "started_ms = excluded.started_ms, program_hash = excluded.program_hash, program = excluded.program",
        (now_ms, program_hash, application_id),
    )
    transaction.execute(
        "DELETE FROM application_program WHERE application_id = ? AND generation <= "
        "(SELECT generation FROM application_program WHERE application_id = ? ORDER BY generation DESC LIMIT 1 OFFSET ?)",
        (application_id, application_id, KEPT),
    )


def started(transaction: Transaction, application_id: int) -> list[StartedProgram]:
    """The programs of an application's last starts that changed it, newest first; none of a log that has not been written since format 5."""
    if not transaction.has_table("application_program"):
        return []
    statement = (
        "SELECT generation, started_ms, tasks, program FROM application_program WHERE application_id = ? ORDER BY generation DESC"
    )
    return [StartedProgram(*row) for row in transaction.execute(statement, (application_id,))]
