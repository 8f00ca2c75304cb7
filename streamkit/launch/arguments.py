"""The options of a run, for `streamkit run FILE` and `python FILE` alike."""

from __future__ import annotations

import copy
import functools
import inspect
import sys
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, cast

import typer

from streamkit.dsl.topology import Topology
from streamkit.engine.runs.options import AVAILABLE_NOW, Options


@dataclass(frozen=True)
class Arguments:
    """What a command line asked for."""

    log: str | None
    options: Options
    is_local: bool
    is_verbose: bool
    connectors: Literal["here", "external"] = "here"
    stands_by: bool = False
    rebuild: tuple[str, ...] = ()
    accepts_loss: bool = False
    name: str | None = None
    leader: str | None = None
    ui_port: int | None = None


def arguments_of(
    log: Annotated[
        str | None, typer.Option("--log", metavar="DIR|URL", help="Where the log is; else STREAMKIT_LOG, else .streamkit.")
    ] = None,
    local: Annotated[bool, typer.Option("--local", help="Run in this process, without Spark.")] = False,
    tasks: Annotated[
        int | None, typer.Option("--tasks", metavar="N", min=1, help="Kernel tasks; else as many as before, at first the cores.")
    ] = None,
    max_records_per_epoch: Annotated[
        int | None, typer.Option("--max-records-per-epoch", metavar="N", min=1, help="Records of an epoch at most.")
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Process what is available, then stop.")] = False,
    drain: Annotated[
        bool, typer.Option("--drain", help="Process everything available, then close all windows and stop.")
    ] = False,
    connectors: Annotated[
        str, typer.Option("--connectors", metavar="here|external", help="Where the connectors run that the topology asks for.")
    ] = "here",
    rebuild: Annotated[
        list[str] | None,
        typer.Option("--rebuild", metavar="STORE", help="Fill a store again from its topics first; may be repeated."),
    ] = None,
    name: Annotated[str | None, typer.Option("--as", metavar="NAME", help="Run it as an application of this name.")] = None,
    leader: Annotated[
        str | None, typer.Option("--from", metavar="APP", help="Run it beside APP, and write nothing until it takes APP over.")
    ] = None,
    accept_loss: Annotated[
        bool, typer.Option("--accept-loss", help="With --rebuild or --from: go on where topics have lost records.")
    ] = False,
    ui: Annotated[
        int | None,
        typer.Option("--ui", metavar="PORT", min=0, max=65_535, help="Also show pages of the log at this port of 127.0.0.1."),
    ] = None,
    verbose: Annotated[bool, typer.Option("--verbose", help="Also print what Spark says; else it is written to a file.")] = False,
) -> Arguments:
    """What the options mean together; both command lines read this signature."""
    if once and drain:
        raise typer.BadParameter("--drain goes on to close the windows, and --once does not; expected one of them")
    if connectors not in ("here", "external"):
        raise typer.BadParameter(f"--connectors {connectors}; expected here or external")
    if accept_loss and not (rebuild or leader):
        raise typer.BadParameter("--accept-loss says how stores are filled; expected --rebuild STORE or --from APP beside it")
    if leader is not None and (name is None or rebuild or once or drain):
        raise typer.BadParameter(
            "--from APP runs on beside APP; expected --as NAME with it, without --rebuild, --once or --drain"
        )
    options = Options(tasks, AVAILABLE_NOW if once else None, max_records_per_epoch, drain)
    where = cast(Literal["here", "external"], connectors)
    return Arguments(
        log,
        options,
        local,
        verbose,
        where,
        rebuild=tuple(dict.fromkeys(rebuild or ())),
        accepts_loss=accept_loss,
        name=name,
        leader=leader,
        ui_port=ui,
    )


def with_file(run: Callable[[str, Arguments], None], file: Any, unlisted: Collection[str] = ()) -> Callable[..., None]:
    """A command that takes a file, annotated so, beside the options of a run; help does not show the `unlisted` ones, which it refuses."""

    @functools.wraps(run)
    def command(file: str, **given: Any) -> None:
        run(file, arguments_of(**given))

    parameters = inspect.signature(arguments_of, eval_str=True).parameters
    options = [_unlisted(one) if name in unlisted else one for name, one in parameters.items()]
    first = inspect.Parameter("file", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=file)
    command.__signature__ = inspect.Signature([first, *options])  # type: ignore[attr-defined]
    command.__annotations__ = {}
    return command


def _unlisted(option: inspect.Parameter) -> inspect.Parameter:
    """An option that is taken, and that help does not show."""
    (said,) = option.annotation.__metadata__
    hidden = copy.copy(said)
    hidden.hidden = True
    return option.replace(annotation=Annotated[option.annotation.__origin__, hidden])


def parse_arguments(topology: Topology, words: Sequence[str] | None) -> Arguments:
    """What the words ask for, those of this process if None; a word that is no option ends the program with 2."""
    found: list[Arguments] = []
    program = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)

    @program.command(help=f"Run the topology {topology.name}, on Spark as one Structured Streaming query.")
    @functools.wraps(arguments_of)
    def keep(**given: Any) -> None:
        found.append(arguments_of(**given))

    try:
        program(words, prog_name=Path(sys.argv[0]).name)
    except SystemExit:
        if not found:  # help was asked for, or there was a mistake
            raise
    return found[0]
