"""
What shows that nothing is lost: the harnesses, what each guards, and for which text of both all seeded bugs were last caught.

A run of `python -m tests.harness.torture` that passes writes that down, in `caught.json`: a digest for each harness. The ordinary suite takes one
seeded bug of each test whose harness has the digest written down, and all of the others, so that what was changed is shown again. So it
is with `catalogs`: its tests run on every catalog, or most of them on SQLite alone.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[3]
CAUGHT = Path(__file__).with_name("caught.json")
HARNESSES = {  # what takes long in one test comes first, so that no worker is alone in the end
    "maintenance": (
        "tests/unit/log/maintenance/test_maintenance_model.py tests/unit/log/test_clock_jumps.py "
        "tests/harness/crash/test_maintenance_points.py"
    ),
    "groups": (
        "tests/unit/log/consume/test_group_model.py tests/unit/log/consume/test_group_processes.py "
        "tests/unit/log/consume/test_time_lookup.py tests/unit/log/produce/test_read_process_write.py"
    ),
    "machine": "tests/unit/log/test_state_machine.py",
    "state": (
        "tests/unit/state/test_key.py tests/unit/state/test_key_index.py tests/unit/state/test_layout.py "
        "tests/unit/state/test_nested_value.py tests/unit/state/test_row.py tests/unit/state/test_sorted_run.py "
        "tests/unit/state/test_unlogged_stores.py tests/unit/state/test_verification.py tests/unit/state/test_view.py "
        "tests/unit/state/test_view_verbs.py tests/unit/state/test_window_changelog.py"
    ),
    "compaction": (
        "tests/unit/log/maintenance/test_compaction_crashes.py tests/unit/log/maintenance/test_deletion_readers.py "
        "tests/unit/log/maintenance/test_segment.py tests/unit/log/maintenance/test_survivors.py "
        "tests/unit/state/test_compaction.py"
    ),
    "damage": "tests/harness/damage",
    "faults": (
        "tests/unit/log/test_call_faults.py tests/unit/log/test_step_faults.py "
        "tests/unit/log/catalog/test_commit_faults.py tests/unit/log/produce/test_interrupts.py "
        "tests/unit/log/produce/test_interrupts_bugs.py tests/unit/log/produce/test_producer_faults.py"
    ),
    "loss": (
        "tests/unit/log/rescue/test_fsck.py tests/unit/log/rescue/test_backup.py "
        "tests/unit/log/rescue/test_backup_target.py tests/unit/log/catalog/test_journal.py "
        "tests/unit/log/rescue/test_rebuild.py tests/unit/log/test_salvage.py tests/harness/crash/test_rebuild.py "
        "tests/unit/log/rescue/test_fsck_bugs.py tests/unit/log/test_salvage_bugs.py"
    ),
    "postgres": (
        "tests/harness/crash/test_postgres.py tests/unit/log/database/test_postgres.py tests/unit/contracts/test_commit_watch.py"
    ),
    "catalogs": (
        "tests/unit/log/catalog/test_epochs.py tests/unit/log/catalog/test_gap.py tests/unit/log/catalog/test_pins.py "
        "tests/unit/log/catalog/test_replacements.py tests/unit/log/catalog/test_retention.py "
        "tests/unit/log/consume/test_consumer.py tests/unit/log/consume/test_group_commits.py "
        "tests/unit/log/consume/test_groups.py tests/unit/log/maintenance/test_merge.py "
        "tests/unit/log/maintenance/test_orphans.py tests/unit/log/maintenance/test_trash.py "
        "tests/unit/log/produce/test_producer.py tests/unit/log/produce/test_sequences.py "
        "tests/unit/log/produce/test_silent_producers.py tests/unit/log/test_log.py tests/unit/log/test_statistics.py "
        "tests/unit/log/topic/test_alteration.py tests/unit/log/topic/test_declaration.py"
    ),
    "siege": "tests/harness/history tests/unit/log/database/test_contention.py",
    "engine": (
        "tests/harness/crash/test_points.py tests/harness/crash/test_commit_faults.py "
        "tests/harness/crash/test_random.py tests/harness/crash/test_power.py tests/harness/crash/test_kill.py "
        "tests/harness/crash/test_laws.py tests/harness/crash/test_faults.py tests/harness/crash/test_compaction.py "
        "tests/harness/crash/test_commit_checks.py"
    ),
    "simulation": "tests/harness/simulation",
    "power": "tests/harness/power",
    "expressions": "tests/unit/expressions tests/unit/sql/ksql tests/unit/sql/dialect tests/unit/sql/session/test_inserted_values.py",
    "operators": "tests/unit/engine tests/unit/plan/window_kinds tests/unit/testing",
    "conformance": "tests/harness/conformance",
    "language": (
        "tests/unit/sql/reader tests/unit/sql/printer tests/unit/sql/pull tests/unit/plan/graph "
        "tests/unit/sql/session/test_groups_once_and_kept.py tests/unit/sql/session/test_order_of_records.py "
        "tests/unit/sql/session/test_names_of_columns.py tests/unit/sql/session/test_aggregates_of_tables.py "
        "tests/unit/sql/session/test_random_lambdas.py tests/unit/sql/session/test_unreadable_records.py "
        "tests/unit/sql/session/test_followed_tables.py tests/unit/sql/session/test_keys_in_two_spellings.py "
        "tests/unit/sql/session/test_rows_beside_their_records.py"
    ),
    "queries": "tests/harness/crash/test_query_runner.py",
    "server": (
        "tests/unit/serve/test_kafka_rest.py tests/unit/serve/test_key_texts.py tests/unit/serve/test_records.py "
        "tests/unit/serve/test_stores.py tests/unit/serve/test_tail.py"
    ),
    "topologies": (
        "tests/unit/dsl/test_long_chains.py tests/unit/topologies/test_examples.py "
        "tests/unit/topologies/test_loading.py tests/unit/topologies/nexmark/test_queries.py"
    ),
    "connectors": "tests/unit/connectors",
    "values": (
        "tests/unit/formats tests/unit/test_recast.py tests/unit/log/values tests/unit/log/test_nested_topics.py "
        "tests/unit/log/rows/test_event_time.py tests/unit/log/rows/test_nested_conversion.py "
        "tests/unit/log/rows/test_python_columns.py tests/unit/log/rows/test_decimals.py tests/unit/test_decimals.py "
        "tests/unit/log/slab/test_frame.py tests/unit/log/slab/test_shared_frame.py tests/unit/log/topic/test_formats.py "
        "tests/unit/log/topic/test_evolution.py tests/unit/log/catalog/test_assignors.py "
        "tests/unit/log/maintenance/test_compaction.py"
    ),
    "dataframes": "tests/unit/spark/dataframe",
    "spark": "tests/unit/spark/test_run.py tests/unit/spark/test_postgres.py tests/unit/spark/test_task_placement.py",
    "cli": (
        "tests/unit/cli/test_main.py tests/unit/cli/test_consume_position.py tests/unit/query/test_condition.py "
        "tests/unit/query/test_predicate.py"
    ),
    "wheel": "tests/unit/wheel",
}
LOG = "streamkit/log"
GUARDED = {  # the rooms whose promises a harness shows, not all that it uses
    "maintenance": f"{LOG}/maintenance",
    "groups": f"{LOG}/consume",
    "machine": f"{LOG}/log.py {LOG}/topic {LOG}/catalog",
    "state": "state",
    "compaction": f"{LOG}/maintenance state",
    "damage": f"{LOG}/slab",
    "faults": f"{LOG}/storage {LOG}/produce",
    "loss": f"{LOG}/rescue {LOG}/salvage.py",
    "postgres": f"{LOG}/database",
    "catalogs": f"{LOG}/database",
    "siege": f"{LOG}/catalog {LOG}/produce {LOG}/consume {LOG}/database",
    "engine": "streamkit/engine state",
    "simulation": f"{LOG}/catalog {LOG}/produce {LOG}/consume {LOG}/maintenance",
    "power": f"{LOG}/storage {LOG}/database {LOG}/catalog",
    "expressions": "streamkit/expressions",
    "operators": "streamkit/engine/operators",
    "conformance": "streamkit/engine/operators",
    "language": "streamkit/sql/reader streamkit/sql/printer streamkit/sql/tree streamkit/sql/pull streamkit/plan/graph",
    "queries": "streamkit/sql/running",
    "server": "streamkit/serve",
    "topologies": "topologies",
    "connectors": "connectors",
    "values": f"streamkit/formats {LOG}/values {LOG}/rows {LOG}/slab",
    "dataframes": "streamkit/spark/dataframe",
    "spark": "streamkit/spark/spark_run.py streamkit/spark/task_placement.py streamkit/spark/owners.py",
    "cli": "streamkit/cli/consume.py",
    "wheel": "pyproject.toml",
}


def digest(name: str) -> str:
    """A digest of all code of a harness and of what it guards."""
    return digest_of([ROOT / path for path in f"{HARNESSES[name]} {GUARDED[name]}".split()])


def digest_of(paths: Iterable[Path]) -> str:
    """A digest of files and of all Python files in folders: their names and their text."""
    found = hashlib.sha256()
    files = {file for path in paths for file in (path.rglob("*.py") if path.is_dir() else [path])}
    for file in sorted(files):
        text = file.read_bytes()
        found.update(f"{file.relative_to(ROOT).as_posix()} {len(text)}\n".encode() + text)
    return found.hexdigest()


def changed() -> list[str]:
    """The harnesses whose seeded bugs were not all caught since they, or what they guard, have changed."""
    caught = json.loads(CAUGHT.read_text(encoding="utf-8")) if CAUGHT.exists() else {}
    return [name for name in HARNESSES if caught.get(name) != digest(name)]


def write_caught(names: Iterable[str]) -> None:
    """Write down that all seeded bugs of these harnesses were caught in the present text."""
    caught = json.loads(CAUGHT.read_text(encoding="utf-8")) if CAUGHT.exists() else {}
    caught |= {name: digest(name) for name in names}
    CAUGHT.write_text(json.dumps({name: caught[name] for name in HARNESSES if name in caught}, indent=1) + "\n", encoding="utf-8")


@cache
def harness_of(file: Path) -> str | None:
    """The harness that a test file belongs to."""
    owned = {name: [ROOT / path for path in paths.split()] for name, paths in HARNESSES.items()}
    return next((name for name, paths in owned.items() if any(path in (file, *file.parents) for path in paths)), None)
