"""`streamkit backup` and `streamkit rebuild`: against the loss of a log, and of its catalog."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from streamkit.cli.terminal.location import LogOption, wanted_location
from streamkit.cli.terminal.rendering import JsonOption, show_facts, show_json, show_line
from streamkit.cli.terminal.table import show_table
from streamkit.errors import ConfigError
from streamkit.log.opening import open_existing_log
from streamkit.log.rescue.rebuild import Rebuilt
from streamkit.log.rescue.rebuild import rebuild as rebuild_catalog
from streamkit.log.salvage import Salvaged, salvage


def backup(
    target: Annotated[str, typer.Argument(metavar="TARGET", help="A new folder, or one with an earlier backup of the log.")],
    verify: Annotated[bool, typer.Option("--verify", help="Read the whole backup, and copy damaged slabs of it again.")] = False,
    as_json: JsonOption = False,
    log: LogOption = None,
) -> None:
    """
    Back up a log as of one moment, while it is used.

    The folder opens as a log. On the same file system slabs are hard links: they need no room, but are lost with the same disk.
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


def rebuild(
    from_slabs: Annotated[
        bool, typer.Option("--from-slabs", help="The last resort: write the rows that the slabs hold into a new log.")
    ] = False,
    to: Annotated[
        str | None, typer.Option("--to", metavar="FOLDER", help="The folder of the new log; LOG-recovered unless given.")
    ] = None,
    storage_root: Annotated[
        list[str] | None,
        typer.Option("--storage-root", metavar="FOLDER", help="Another folder with slabs of the log, as often as needed."),
    ] = None,
    as_json: JsonOption = False,
    log: LogOption = None,
) -> None:
    """
    Rebuild a lost or damaged catalog.

    It is made from its newest copy and the journal. Stop everything that uses the log first. Ends with 1 if commits that the journal tells
    of were lost; they are listed. With --from-slabs, where copies and journal are lost too, a new log is made of what the slabs
    hold: rows without the names, keys and offsets of their topics. It ends with 1 if some cannot be read.
    """
    location = wanted_location(log)
    if from_slabs:
        _rebuild_from_slabs(location, to, storage_root or (), as_json)
    if to or storage_root:
        raise ConfigError("--to and --storage-root are for --from-slabs; a rebuilt catalog takes its place in the log itself")
    done = rebuild_catalog(location)
    if as_json:
        show_json(done.to_json())
    else:
        _show(done)
    raise typer.Exit(0 if done.is_complete else 1)


def _rebuild_from_slabs(location: str, to: str | None, storage_roots: Sequence[str], as_json: bool) -> None:
    done = salvage(location, to, storage_roots)
    if as_json:
        show_json(done.to_json())
    else:
        _show_salvaged(done)
    raise typer.Exit(0 if done.is_complete else 1)


def _show_salvaged(done: Salvaged) -> None:
    show_facts((("new log", done.target), ("slabs", done.slabs), ("frames", done.frames), ("rows", done.rows)))
    show_table(
        ("topic", "schema", "partitions", "rows", "repeated rows left out", "key columns seen"),
        [
            (topic.name, topic.schema, topic.partitions, topic.rows, topic.repeated, ", ".join(topic.key_columns))
            for topic in done.topics
        ],
    )
    for note in done.notes:
        show_line(note)
    print(f"{len(done.unproven)} slabs are of the last commit of their writer: whether it was committed is not known")
    if done.alike:
        print(f"{len(done.alike)} slabs hold the same as another one of their commit; their rows are in the new log twice")
    print("deleted rows whose files were still there are rows again; names, keys, settings, groups and applications are lost")
    if done.unreadable:
        print(f"not complete: {len(done.unreadable)} frames or slabs cannot be read:")
        show_table(
            ("slab", "position", "reason"), [(one.path, one.position, one.reason) for one in done.unreadable], thousands=""
        )


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
        show_line(note)
    if done.unadopted:
        print(
            f"slabs that no commit names, not adopted: {len(done.unadopted)}; they hold what a process was writing when it died or, if "
            "the journal has lost its end as well, acknowledged records: `streamkit rebuild --from-slabs` reads them, while they are there"
        )
        show_table(("slab",), [(path,) for path in done.unadopted])
    if done.missing:
        print(
            f"{len(done.missing)} slabs that the catalog names are gone; `streamkit rebuild --from-slabs` finds what was written from them:"
        )
        show_table(("slab",), [(path,) for path in done.missing])
    if done.end is not None:
        show_line(f"not complete: {done.end}")
    if done.lost:
        print(f"lost are {len(done.lost)} commits:")
        show_table(("commit", "slabs"), [(commit.number, ", ".join(commit.slabs)) for commit in done.lost], thousands="")
    print("`streamkit fsck --deep` checks the log with its new catalog")
