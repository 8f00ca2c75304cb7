"""Each layer imports only from those before it, and so does each room of the log, the expressions and the engine."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
LAYERS = (
    (
        "names",
        "arrays",
        "errors",
        "chunks",
        "civil_dates",
        "background_process",
        "cell_output",
        "clock",
        "conditionals",
        "config",
        "data_type",
        "decimals",
        "failpoints",
        "html_table",
        "java",
        "recast",
        "repeated_keys",
        "schema",
        "time_zone",
        "stop_signals",
        "zone_offsets",
    ),
    ("formats",),
    ("log",),
    ("plan",),
    ("expressions",),
    ("dsl",),
    ("functions",),
    ("state",),
    ("engine",),
    ("connectors",),
    ("query", "description"),
    ("spark",),
    ("sql",),
    ("serve",),
    ("notebook",),
    ("launch",),
    ("testing",),
    ("cli",),
)
CLI_ROOMS = ("terminal", "prompt", "")  # "" are the commands themselves
RANKS = {name: rank for rank, names in enumerate(LAYERS) for name in names}
OUTSIDE = ""  # the room of modules that lie in none
ROOMS = {
    "log": (
        "values",
        "topic",
        "database",
        "storage",
        "slab",
        "rows",
        "catalog",
        "consume",
        "maintenance",
        "produce",
        "rescue",
        OUTSIDE,
    ),
    "expressions": (
        "core",
        "logic",
        "numbers",
        "texts",
        "nested",
        "times",
        "casts",
        "json",
        "ksql",
        "python",
        "aggregates",
        "sql",
        "analysis",
    ),
    "engine": ("rows", "epoch", "stage", "folding", "processors", "evolution", "operators", "runs"),
}
REGISTRIES = {"streamkit.engine.stage.registry -> streamkit.engine.operators"}  # loaded when the first operator is asked for
SPARK_IMPORTERS = ("streamkit/spark/", "streamkit/expressions/analysis/catalyst.py")
FILES = sorted(
    [
        *(
            file
            for file in (ROOT / "streamkit").rglob("*.py")
            if not {"connectors", "state"} & set(file.relative_to(ROOT / "streamkit").parts[:1])
        )
    ]
    + [file for name in ("connectors", "state") for file in (ROOT / name).rglob("*.py")]
)
MODULES = {
    layer: {
        ".".join(file.relative_to(ROOT).with_suffix("").parts): file
        for file in sorted((ROOT / "streamkit" / layer).rglob("*.py"))
        if file != ROOT / "streamkit" / layer / "__init__.py"
    }
    for layer in ROOMS
}


def path_of(file):
    """The path as it is imported: state/store.py is streamkit/state/store.py."""
    path = file.relative_to(ROOT).as_posix()
    return path if path.startswith("streamkit/") else f"streamkit/{path}"


def layer_of(path):
    """The layer a file belongs to: the first name below streamkit; None for the package's own __init__."""
    name = path.split("/")[1].removesuffix(".py")
    return None if name == "__init__" else name


def name_at_the_end(node):
    """`b` of the expressions `b` and `a.b`; None of others."""
    return getattr(node, "id", None) or getattr(node, "attr", None)


def statements_below(node):
    """The statements right below one, and what holds statements: branches that handle errors, and cases."""
    return (child for child in ast.iter_child_nodes(node) if isinstance(child, ast.stmt | ast.excepthandler | ast.match_case))


def imports_below(tree):
    """Every module imported anywhere, also inside functions, save those for type checkers only."""
    for node in statements_below(tree):
        if isinstance(node, ast.If) and name_at_the_end(node.test) == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (
                [f"streamkit.{alias.name}" for alias in node.names] if node.module == "streamkit" else [node.module or ""]
            )
        yield from imports_below(node)


@cache
def imports_of(file):
    """The modules that a file imports when it runs; its tree is not kept, whose nodes would slow down all that is made beside them."""
    return tuple(imports_below(ast.parse(file.read_text(encoding="utf-8"))))


def upward_imports(file):
    """The names below streamkit that a file imports from layers after its own."""
    layer = layer_of(path_of(file))
    modules = [module.split(".") for module in imports_of(file)]
    used = {parts[1] for parts in modules if parts[0] == "streamkit" and len(parts) > 1}
    return sorted(name for name in used if layer is not None and RANKS.get(name, len(LAYERS)) > RANKS[layer])


def cli_room(parts):
    """The room of a module of the command line, given by the names behind streamkit.cli; "" for a command."""
    return parts[0] if parts and (ROOT / "streamkit" / "cli" / parts[0]).is_dir() else ""


def upward_rooms_of_cli(file):
    """The rooms of the command line that a file of it imports from after its own."""
    rank = CLI_ROOMS.index(cli_room(file.relative_to(ROOT / "streamkit" / "cli").parts))
    modules = [module.split(".") for module in imports_of(file)]
    used = {cli_room(parts[2:]) for parts in modules if parts[:2] == ["streamkit", "cli"] and len(parts) > 2}
    return sorted(room for room in used if CLI_ROOMS.index(room) > rank)


def test_rooms_of_the_command_line_import_downwards():
    """What stands on a terminal knows no command."""
    files = [file for file in FILES if path_of(file).startswith("streamkit/cli/")]

    assert {path_of(file): rooms for file in files if (rooms := upward_rooms_of_cli(file))} == {}


def imports_spark(file):
    return not {"pyspark", "py4j"}.isdisjoint(module.split(".")[0] for module in imports_of(file))


def test_files_import_downwards():
    """A file imports from its own layer and those before it."""
    assert {path_of(file): names for file in FILES if (names := upward_imports(file))} == {}


def test_files_do_without_spark():
    """Only streamkit/spark and the analysis by Catalyst import pyspark."""
    importers = [path_of(file) for file in FILES if imports_spark(file)]

    assert [path for path in importers if not path.startswith(SPARK_IMPORTERS)] == []
    assert importers  # those that may are seen


def test_every_name_below_streamkit_has_a_layer():
    """A new module or package gets its place in the order before it is used."""
    assert {layer_of(path_of(file)) for file in FILES} - {None} <= set(RANKS)


def room_of(module):
    """The room of a module, which may be one that does not exist; `OUTSIDE` for what lies in none."""
    layer, *parts = module.split(".")[1:]
    return parts[0] if len(parts) > 1 or module not in MODULES[layer] else OUTSIDE


@cache
def modules_used_by(file):
    """The modules of rooms that a file names: in any import, for type checkers too, and by `import_module`."""
    return tuple(modules_named_in(ast.parse(file.read_text(encoding="utf-8"))))


def modules_named_in(tree):
    for node in ast.walk(tree):
        names: list[Any] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [name for alias in node.names if is_module(name := f"{node.module}.{alias.name}")] or [node.module or ""]
        elif isinstance(node, ast.Call) and name_at_the_end(node.func) == "import_module":
            names = [argument.value for argument in node.args if isinstance(argument, ast.Constant)]
        yield from (name for name in names if is_below_rooms(name))


def is_module(name):
    return any(name in modules for modules in MODULES.values())


def is_below_rooms(name):
    parts = name.split(".")
    return len(parts) > 2 and parts[0] == "streamkit" and parts[1] in ROOMS


@pytest.mark.parametrize("layer", ROOMS)
def test_rooms_import_downwards(layer):
    """A file imports from its own room and those before it, also what is for type checkers only."""
    upward = {
        f"{module} -> {used}"
        for module, file in MODULES[layer].items()
        for used in modules_used_by(file)
        if used.split(".")[1] == layer and ROOMS[layer].index(room_of(used)) > ROOMS[layer].index(room_of(module))
    }

    assert upward - REGISTRIES == set()


def test_files_of_the_log_import_in_no_circle():
    """No file of the log imports itself by way of others, so that each can be read after those it names."""
    files = MODULES["log"]
    left = {module: set(modules_used_by(file)) & set(files) for module, file in files.items()}
    while ready := {module for module, used in left.items() if not used & set(left)}:
        left = {module: used for module, used in left.items() if module not in ready}

    assert left == {}


@pytest.mark.parametrize("layer", ROOMS)
def test_every_folder_is_a_room(layer):
    """A new folder gets its place in the order before it is used, and every room has files."""
    assert {room_of(module) for module in MODULES[layer]} == set(ROOMS[layer])


PLAN = ROOT / "streamkit" / "plan"
OPERATORS_OF_PLAN = "streamkit.plan.operators"
OPERATORS_NAMED_BY_PASSES = {  # what a pass puts into a plan by itself, and the nodes that name a topic
    "dead_letter_ports": {"dead_letters", "write"},
    "exchanges": {"exchange"},
    "inputs": {"source"},
    "outputs": {"project"},
    "pruning": {"project"},
    "topics_read_back": {"source", "write"},
    "program": {""},  # the folder, whatever is in it
}
PASSES_OF_PLAN = {
    "dead_letter_ports",
    "lowering",
    "naming",
    "stages",
    "exchanges",
    "partials",
    "pruning",
    "passes",
    "inputs",
    "outputs",
    "explain",
}


def operators_named_by(file):
    """The modules of plan/operators that a file imports; empty for the folder itself."""
    modules = set(imports_of(file))
    return {
        module.removeprefix(OPERATORS_OF_PLAN).removeprefix(".") for module in modules if module.startswith(OPERATORS_OF_PLAN)
    }


def test_passes_name_only_the_operators_that_they_add():
    """Inside the plan, only a pass that adds an operator by itself names it, so that another operator touches no pass."""
    named = {file.stem: operators_named_by(file) for file in sorted(PLAN.glob("*.py"))}

    assert {name: operators for name, operators in named.items() if operators} == OPERATORS_NAMED_BY_PASSES


def test_operators_of_the_plan_know_no_pass():
    """A file of plan/operators imports what operators share, and never a pass."""
    wrong = {
        f"{file.stem} -> {module}"
        for file in sorted((PLAN / "operators").glob("*.py"))
        for module in imports_of(file)
        if module.removeprefix("streamkit.plan.") in PASSES_OF_PLAN - {"naming"}  # naming has the rule for parts of names
    }

    assert wrong == set()


def test_only_verbs_and_the_engine_name_operators():
    """Outside the plan, operators are named by the DSL, which declares them, and by the engine, which runs them."""
    files = [file for file in FILES if operators_named_by(file) and not path_of(file).startswith("streamkit/plan/")]

    assert {layer_of(path_of(file)) for file in files} == {"dsl", "engine"}
