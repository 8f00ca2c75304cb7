"""
What shows that nothing is lost: the harnesses, what each guards, and for which text of both all seeded bugs were last caught.

A run of `python -m tests.torture` that passes writes that down, in `caught.json`: a digest for each harness. The ordinary suite takes one
seeded bug of each test whose harness has the digest written down, and all of the others, so that what was changed is shown again. So it
is with `catalogs`: its tests run on every catalog, or most of them on SQLite alone.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
CAUGHT = Path(__file__).with_name("caught.json")
HARNESSES = {  # what takes long in one test comes first, so that no worker is alone in the end
    "maintenance": "tests/log/maintenance/test_maintenance_model.py tests/log/test_clock_jumps.py tests/crash/test_maintenance_points.py",
    "groups": "tests/log/consume/test_group_model.py tests/log/consume/test_group_processes.py tests/log/consume/test_time_lookup.py "
    "tests/log/produce/test_read_process_write.py",
    "machine": "tests/log/test_state_machine.py",
    "state": "tests/state/test_key.py tests/state/test_key_index.py tests/state/test_layout.py tests/state/test_nested_value.py tests/state/test_row.py "
    "tests/state/test_view.py",
    "compaction": "tests/log/maintenance/test_compaction_crashes.py tests/log/maintenance/test_deletion_readers.py "
    "tests/log/maintenance/test_segment.py tests/log/maintenance/test_survivors.py tests/state/test_compaction.py",
    "damage": "tests/damage",
    "faults": "tests/log/test_call_faults.py tests/log/test_step_faults.py tests/log/catalog/test_commit_faults.py "
    "tests/log/produce/test_interrupts.py tests/log/produce/test_interrupts_bugs.py tests/log/produce/test_producer_faults.py",
    "loss": "tests/log/rescue/test_fsck.py tests/log/rescue/test_backup.py tests/log/rescue/test_backup_target.py tests/log/catalog/test_journal.py "
    "tests/log/rescue/test_rebuild.py tests/log/test_salvage.py tests/crash/test_rebuild.py tests/log/rescue/test_fsck_bugs.py tests/log/test_salvage_bugs.py",
    "postgres": "tests/crash/test_postgres.py tests/log/database/test_postgres.py",
    "catalogs": "tests/log/catalog/test_epochs.py tests/log/catalog/test_gap.py "
    "tests/log/catalog/test_pins.py tests/log/catalog/test_replacements.py "
    "tests/log/catalog/test_retention.py tests/log/consume/test_consumer.py "
    "tests/log/consume/test_group_commits.py tests/log/consume/test_groups.py "
    "tests/log/maintenance/test_merge.py tests/log/maintenance/test_orphans.py "
    "tests/log/maintenance/test_trash.py tests/log/produce/test_producer.py "
    "tests/log/produce/test_sequences.py tests/log/produce/test_silent_producers.py "
    "tests/log/test_log.py tests/log/test_statistics.py "
    "tests/log/topic/test_alteration.py tests/log/topic/test_declaration.py",
    "siege": "tests/history tests/log/database/test_contention.py",
    "engine": "tests/crash/test_points.py tests/crash/test_commit_faults.py tests/crash/test_random.py tests/crash/test_power.py "
    "tests/crash/test_kill.py tests/crash/test_laws.py tests/crash/test_faults.py tests/crash/test_compaction.py tests/crash/test_commit_checks.py",
    "simulation": "tests/simulation",
    "power": "tests/power",
    "expressions": "tests/expressions",
    "operators": "tests/engine tests/testing",
    "conformance": "tests/conformance",
    "topologies": "tests/dsl/test_long_chains.py tests/topologies/test_examples.py tests/topologies/test_loading.py tests/topologies/nexmark/test_queries.py",
    "connectors": "tests/connectors",
    "values": "tests/formats tests/test_recast.py "
    "tests/log/values tests/log/test_nested_topics.py tests/log/rows/test_event_time.py tests/log/rows/test_nested_conversion.py tests/log/slab/test_frame.py "
    "tests/log/topic/test_formats.py tests/log/topic/test_evolution.py tests/log/catalog/test_assignors.py tests/log/maintenance/test_compaction.py",
    "dataframes": "tests/spark/dataframe",
    "spark": "tests/spark/test_run.py tests/spark/test_postgres.py",
    "cli": "tests/cli/test_main.py tests/cli/test_consume_position.py tests/cli/query/test_condition.py tests/cli/query/test_predicate.py",
    "wheel": "tests/wheel",
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
    "topologies": "topologies",
    "connectors": "connectors",
    "values": f"streamkit/formats {LOG}/values {LOG}/rows {LOG}/slab",
    "dataframes": "streamkit/spark/dataframe",
    "spark": "streamkit/spark/spark_run.py",
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
