"""The command line of a topology file."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

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


def parse_arguments(topology: Topology, words: Sequence[str] | None) -> Arguments:
    """What the words ask for, those of this process if None; a word that is no option ends the program with 2."""
    found = _parser(topology).parse_args(words)
    options = Options(found.tasks, AVAILABLE_NOW if found.once else None, found.max_records_per_epoch, found.drain)
    return Arguments(found.log, options, found.local, found.verbose, found.connectors)


def _parser(topology: Topology) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=f"Run the topology {topology.name}, on Spark as one Structured Streaming query.")
    parser.add_argument("--log", metavar="DIR|URL", help="the log; STREAMKIT_LOG, else .streamkit")
    parser.add_argument("--local", action="store_true", help="run in this process, without Spark")
    parser.add_argument("--tasks", type=int, metavar="N", help="kernel tasks; else as many as before, at first the cores")
    parser.add_argument("--max-records-per-epoch", type=int, metavar="N", help="records an epoch takes at most")
    parser.add_argument("--verbose", action="store_true", help="show what Spark says too; else a file has it")
    parser.add_argument(
        "--connectors", choices=("here", "external"), default="here", help="where the connectors run that the topology asks for"
    )
    end = parser.add_mutually_exclusive_group()
    end.add_argument("--once", action="store_true", help="process what is available, then stop")
    end.add_argument("--drain", action="store_true", help="process everything available, close all windows, stop")
    return parser
