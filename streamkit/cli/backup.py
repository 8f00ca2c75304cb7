"""`streamkit backup` and `streamkit rebuild`: against the loss of a log, and of its catalog."""

from __future__ import annotations

from typing import Annotated

import typer

from streamkit.cli.location import LogOption, open_existing_log
from streamkit.cli.rendering import JsonOption, show_facts, show_json, show_table
from streamkit.config import load_settings
from streamkit.log.rebuild import Rebuilt
from streamkit.log.rebuild import rebuild as rebuild_catalog


def backup(
    target: Annotated[str, typer.Argument(metavar="TARGET", help="A new folder, or one with an earlier backup of the log.")],
    verify: Annotated[bool, typer.Option("--verify", help="Read the whole backup afterwards.")] = False,
    as_json: JsonOption = False,
    log: LogOption = None,
) -> None:
    """
    Back up a log as of one moment, while it is used.

    The folder opens as a log. On the same file system slabs are hard links, which take no room but share the disk's fate.
    """
    with open_existing_log(log) as opened:
        done = opened.backup(target, verify)
        opened.copy_catalog()
    if as_json:
        show_json(dict(vars(done)))
        return
    show_facts(
        (
            ("backup", done.target),
            ("commit", done.commit),
            ("bytes", done.bytes),
            ("slabs linked", done.linked),
            ("slabs copied", done.copied),
            ("slabs there before", done.kept),
            ("slabs removed", done.removed),
        )
    )


def rebuild(as_json: JsonOption = False, log: LogOption = None) -> None:
    """
    Rebuild a lost or damaged catalog.

    From its newest copy and the journal; stop everything that uses the log first. Ends with 1 if commits were lost; they are
    listed.
    """
    done = rebuild_catalog(log or load_settings().log)
    if as_json:
        show_json(done.to_json())
    else:
        _show(done)
    raise typer.Exit(0 if done.is_complete else 1)


def _show(done: Rebuilt) -> None:
    show_facts(
        (
            ("from", done.base or "the journal alone"),
            ("commits", done.standing.commits),
            ("of these from the journal", done.executed),
            ("old catalog", done.damaged or "none"),
        )
    )
    for note in done.notes:
        print(note)
    if done.unadopted:
        print(f"{len(done.unadopted)} slabs of steps that no commit names were not adopted:")
        show_table(("slab",), [(path,) for path in done.unadopted])
    if done.end is not None:
        print(f"not complete: {done.end}")
    if done.lost:
        print(f"lost are {len(done.lost)} commits:")
        show_table(("commit", "slabs"), [(commit.number, ", ".join(commit.slabs)) for commit in done.lost], thousands="")
    print("`streamkit fsck --deep` checks the log with its new catalog")
