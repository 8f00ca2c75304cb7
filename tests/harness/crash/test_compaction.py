"""An application goes on as if nothing had happened when its changelogs and inputs are compacted, and stores that were away for it come back."""

from __future__ import annotations

import shutil

import pytest

from streamkit.engine.runs.commit import commit_epoch
from streamkit.engine.runs.local import run_available, run_next, run_tasks
from streamkit.engine.runs.start import start
from streamkit.errors import EpochFailedError
from streamkit.log.opening import open_log
from streamkit.names import changelog_topic
from tests.harness.crash.processes import LeapingClock, run_epochs
from tests.kit import sales
from tests.kit.sales_outcome import LAST_RECORDS, check, folded_changelogs, local_state, outcome_of, stores_of
from tests.kit.sampling import TAKES_ALL

CHANGELOGS = [changelog_topic(sales.APPLICATION, store) for store in sales.STORES]


@pytest.fixture
def log(copied, loaded):
    with open_log(copied(loaded), LeapingClock()) as log:
        yield log


def started(log, records_max=sales.EPOCH_RECORDS):
    return start(log.catalog, log.storage, sales.load_program(), tasks=2, records_max=records_max)


def compact(log, topics=CHANGELOGS):
    """Compact until no deletion is left that could go."""
    return sum(partition.deletions for _ in range(3) for topic in topics for partition in log.compact(topic).partitions)


def purged(log):
    return {topic: log.catalog.manifest.purged_below(log.topic(topic).id) for topic in CHANGELOGS}


def test_a_running_application_does_not_notice(log, expected):
    """Changelogs and compacted outputs are compacted after every epoch, under a planner that knows nothing of it: equal results."""
    planner = started(log)
    run_epochs(planner, log, "some")
    assert any(offsets for found in purged(log).values() for offsets in found.values())
    assert local_state(planner) == folded_changelogs(log)
    assert outcome_of(log) == expected
    check(log)


def test_inputs_may_be_compacted_where_they_were_read(copied, loaded, expected):
    """The table's topic is compacted between the chunks that the application has read: equal results."""
    folder = copied(loaded)
    shutil.rmtree(folder)
    with open_log(folder, LeapingClock()) as log:
        sales.create_inputs(log)
        planner = None
        for number in range(sales.CHUNKS):
            sales.append_chunk(log, number)
            planner = planner or started(log)
            run_available(planner)
            compact(log, ["customers"])
        found = outcome_of(log)
        assert (found.exact, found.newest, found.stores) == (expected.exact, expected.newest, expected.stores)
        assert log.describe("customers")["rows"] < sales.CHUNKS * sales.CHUNK_CUSTOMERS / 3


def test_a_store_that_missed_deletions_is_restored_once(log, expected):
    """Crash point 27: stores kept aside while the deletions that they lack leave the changelogs are discarded, once, and equal the fold."""
    planner = started(log)
    assert run_next(planner)
    assert run_next(planner)
    stores, aside = f"{log.root}/stores", f"{log.root}/aside"
    shutil.copytree(stores, aside)
    held = local_state(planner)
    run_available(planner)
    deleted, rows = set(held) - set(folded_changelogs(log)), stores_of(log)
    assert deleted and compact(log)
    shutil.rmtree(stores)
    shutil.copytree(aside, stores)

    assert stores_of(log) == rows, "views do not trust a local store that lacks deletions either"
    planner = started(log)
    assert local_state(planner) == folded_changelogs(log)
    sales.append_chunk(log, sales.CHUNKS)
    assert run_next(planner)
    assert log.catalog.epochs.last(log.catalog.applications.get(sales.APPLICATION).id, 1)[0].metrics["restored"] == 0


def test_plans_do_not_mix_what_was_before_a_compaction_with_what_came_after(log):
    """A planner whose anchor is older than the compaction restores lost stores to the fold: no deletion falls between the two."""
    planner = started(log)
    assert run_next(planner)
    planner = started(log)
    assert planner.anchor.plan_files
    while run_next(planner):
        pass
    assert compact(log)
    shutil.rmtree(f"{log.root}/stores")

    assert local_state(planner) == folded_changelogs(log)


def test_holes_in_inputs_do_not_depend_on_the_cut(copied, loaded):
    """Inputs whose superseded and last records are gone give the same results in one epoch and in many; positions reach the ends."""
    folder = copied(loaded)
    with open_log(folder, LeapingClock()) as log, log.producer() as producer:
        for customer in [*range(9), *range(1, 9, 2)]:
            if customer % 2:
                producer.delete("customers", {"customer": f"c{customer}"}, timestamp_ms=sales.START_MS + customer)
            else:
                producer.send("customers", {"customer": f"c{customer}", "region": "west"}, timestamp_ms=sales.START_MS)
        producer.flush()
        assert compact(log, ["customers"])
        ends = {topic: log.end_offsets(topic) for topic in ("customers", "orders")}
        topic_id = log.topic("customers").id
        extents = [extent for partition in ends["customers"] for extent in log.catalog.manifest.extents(topic_id, partition)]
        assert sum(extent.rows for extent in extents) == 5
        assert not all(extent.is_dense for extent in extents)
        assert any(extent.next_offset < ends["customers"][extent.partition] for extent in extents)

    outcomes = []
    for number, (tasks, records_max) in enumerate([(1, None), (2, 37 if TAKES_ALL else 75)]):
        with open_log(shutil.copytree(folder, folder.parent / str(number))) as log:
            run_available(start(log.catalog, log.storage, sales.load_program(), tasks=tasks, records_max=records_max))
            outcomes.append(outcome_of(log))
            positions = log.catalog.applications.get(sales.APPLICATION).positions
            assert {topic: positions[log.topic(topic).id] for topic in ends} == ends
    assert outcomes[0] == outcomes[1]


def test_what_an_application_has_yet_to_read_of_deletions_stays(copied, loaded):
    """A stopped application that stands before a deletion finds it after any number of compactions; then it may go."""
    with open_log(copied(loaded), LeapingClock()) as log:
        run_available(started(log, LAST_RECORDS))
        with log.producer() as producer:
            for customer in range(9):
                producer.delete("customers", {"customer": f"c{customer}"})
        assert compact(log, ["customers"]) == 0
        assert log.describe("customers")["rows"] == 9
        run_available(started(log))
        assert log.store(sales.APPLICATION, "customers").to_arrow().num_rows == 0
        assert compact(log, ["customers"]) == 9


def test_a_first_epoch_that_is_overtaken_by_a_purge_is_planned_anew(copied, loaded):
    """Deletions that went while an application's first epoch was under way do not leave what they deleted in its store."""
    with open_log(copied(loaded), LeapingClock()) as log:
        planner = started(log)
        before = planner.committed_end()
        end = planner.next_end(before)
        plan, parts = planner.plan(before, end, 2)
        with log.producer() as producer:
            for customer in range(9):
                producer.delete("customers", {"customer": f"c{customer}"})
        assert compact(log, ["customers"]) == 9
        with pytest.raises(EpochFailedError, match="dropped deletions up to offset"):
            commit_epoch(log.catalog, log.storage, planner.program, run_tasks(planner.program, plan, parts, log.storage))
        run_available(planner)
        assert log.store(sales.APPLICATION, "customers").to_arrow().num_rows == 0
