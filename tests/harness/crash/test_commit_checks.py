"""
What the commit of an epoch refuses: reports that do not agree or do not add up, and slabs that are not whole.

Each case spoils one thing; nothing becomes visible, and the unspoilt reports can still be committed.
"""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

import streamkit as sk
from streamkit.engine.runs import commit
from streamkit.engine.runs.commit import commit_epoch, functions_of
from streamkit.engine.runs.compile import compile
from streamkit.errors import EpochFailedError
from streamkit.log.opening import open_log
from tests.kit import sales
from tests.kit.sales_outcome import finish, visible
from tests.kit.sampling import TAKES_ALL

TASKS = 2


class Epoch:
    """A staged epoch on an open log: the reports of its attempt, and of a second attempt on the same input."""

    def __init__(self, folder, log, staged):
        self.folder, self.log, self.staged = folder, log, staged
        self.reports, self.others = staged.attempts

    def commit(self, reports):
        return commit_epoch(self.log.catalog, self.log.storage, self.staged.program, reports)

    def refuses(self, reports, message):
        """Whether the commit raises, says so, and leaves everything as it was."""
        before = visible(self.log)
        with pytest.raises(EpochFailedError, match=message):
            self.commit(reports)
        return visible(self.log) == before

    def slabs(self):
        return [kernel.slab.path for report in self.reports for kernel in report.kernels if kernel.slab]


@pytest.fixture(scope="function" if TAKES_ALL else "module")
def epoch(staged, fast_folder):
    """An epoch that is refused, in an ordinary run in all of the tests: then the unspoilt reports are committed."""
    folder = shutil.copytree(staged.folder, Path(tempfile.mkdtemp(dir=fast_folder)) / "log")
    with open_log(folder) as log:
        found = Epoch(folder, log, staged)
        yield found
        assert found.commit(found.reports) is not None
    shutil.rmtree(folder.parent)


@pytest.fixture
def committed(staged, copied):
    """An epoch that a test commits itself."""
    folder = copied(staged.folder)
    with open_log(folder) as log:
        yield Epoch(folder, log, staged)


def of_task(reports, task, **changes):
    """The reports, one of them changed."""
    return [replace(report, **changes) if report.task == task else report for report in reports]


def heard(report, spoil):
    """The kernels a task reports, with the first of the inner ones spoilt."""
    first = next(kernel for kernel in report.kernels if kernel.stage == 1)
    return tuple(spoil(kernel) if kernel is first else kernel for kernel in report.kernels)


def test_a_missing_task(epoch):
    """A task that did not report fails the epoch."""
    assert epoch.refuses(epoch.reports[:1], r"tasks \[0\] reported; expected each of 2 once")


def test_a_doubled_task(epoch):
    """A task that reported twice fails the epoch, though both reports say the same."""
    assert epoch.refuses([*epoch.reports, epoch.reports[0]], r"tasks \[0, 0, 1\] reported")
    assert epoch.refuses([epoch.reports[0], epoch.reports[0]], r"tasks \[0, 0\] reported")


def test_another_plan(epoch):
    """Tasks that ran different plans fail the epoch."""
    other = replace(epoch.reports[1].claim, splits=1)
    assert epoch.refuses(of_task(epoch.reports, 1, claim=other), "different plans")


def test_divergent_content_of_an_inner_kernel(epoch, expected):
    """Two attempts of an inner kernel that made different things fail the epoch: a key could be twice or nowhere."""
    spoilt = heard(epoch.reports[1], lambda kernel: replace(kernel, content="other"))
    assert epoch.refuses(of_task(epoch.reports, 1, kernels=spoilt), "2 different contents; expected 2 with one")


def test_an_inner_kernel_that_a_task_did_not_hear_of(epoch):
    """Every task must have heard of every inner kernel, or its input was not whole."""
    kernels = tuple(kernel for kernel in epoch.reports[1].kernels if kernel.stage == 2 or kernel.task == 0)
    assert epoch.refuses(of_task(epoch.reports, 1, kernels=kernels), "1 tasks heard of kernel 1, task 1")


def test_two_attempts_with_equal_content(committed, expected):
    """Where tasks heard of different attempts that made the same, one of the two slabs is adopted, the other never."""
    mixed = [committed.reports[0], committed.others[1]]
    inner = [
        {kernel.slab.path for report in mixed for kernel in report.kernels if (kernel.stage, kernel.task) == (1, task)}
        for task in range(TASKS)
    ]
    assert [len(paths) for paths in inner] == [2, 2]
    committed.commit(mixed)
    referenced = committed.log.catalog.manifest.referenced("a1")
    assert [len(paths & referenced) for paths in inner] == [1, 1]
    assert finish(committed.folder) == expected


@pytest.mark.parametrize("lost", [0, 1])
def test_either_attempt_can_stand_for_both(committed, lost, expected):
    """If the slab of one of two equal attempts is gone, the other one is adopted."""
    mixed = [committed.reports[0], committed.others[1]]
    for kernel in mixed[lost].kernels:
        if kernel.stage == 1:
            committed.log.storage.delete(kernel.slab.path)
    committed.commit(mixed)
    assert finish(committed.folder) == expected


def test_a_missing_slab(epoch):
    """A slab that is not there fails the epoch, whichever it is."""
    for path in dict.fromkeys(epoch.slabs()):
        file = epoch.folder / path
        kept = file.rename(file.with_suffix(".kept"))
        assert epoch.refuses(epoch.reports, "is missing")
        kept.rename(file)


@pytest.mark.parametrize("damage", ["cut", "footer", "trailer", "header", "other"])
def test_a_damaged_slab(epoch, damage):
    """A slab that was cut or changed at its head or end, or is another one, fails the epoch."""
    path = epoch.slabs()[0]
    file, kept = epoch.folder / path, (epoch.folder / path).read_bytes()
    other = next(one for one in sorted(file.parent.iterdir()) if one != file)
    flipped = {"header": 17, "footer": len(kept) - 40, "trailer": len(kept) - 20}
    if damage in flipped:
        at = flipped[damage]
        file.write_bytes(kept[:at] + bytes([kept[at] ^ 1]) + kept[at + 1 :])
    else:
        file.write_bytes(kept[:-64] if damage == "cut" else other.read_bytes())
    assert epoch.refuses(epoch.reports, "a staged slab is not whole")
    file.write_bytes(kept)


def test_a_slab_that_is_not_the_one_reported(epoch):
    """A slab that is whole, but not what its writer reported, fails the epoch."""
    report = epoch.reports[0]
    last = report.kernels[-1]
    other = replace(last, slab=replace(last.slab, size=last.slab.size + 64))
    assert epoch.refuses(of_task(epoch.reports, 0, kernels=(*report.kernels[:-1], other)), "not the one its writer reported")


def test_records_that_do_not_add_up(epoch, expected):
    """Readers that together took another number of records than was planned fail the epoch."""
    splits = tuple(replace(split, records=split.records - 1) if split.number == 1 else split for split in epoch.reports[0].splits)
    spoilt = [replace(report, splits=splits) for report in epoch.reports]
    assert epoch.refuses(spoilt, f"the readers read {sales.EPOCH_RECORDS - 1} records; expected {sales.EPOCH_RECORDS}")


@pytest.mark.parametrize("spoil", [lambda splits: splits[:1], lambda splits: (*splits, splits[0])])
def test_splits_that_are_not_each_heard_once(epoch, spoil):
    """A split that is missing, or came twice, fails the epoch, for one task and for all."""
    spoilt = [replace(report, splits=spoil(report.splits)) for report in epoch.reports]
    assert epoch.refuses(spoilt, "heard different things from the readers")
    assert epoch.refuses([epoch.reports[0], spoilt[1]], "heard different things from the readers")


def test_readers_that_sent_different_rows(epoch):
    """Two attempts of a reader that sent different rows fail the epoch."""
    splits = tuple(replace(split, content="other") for split in epoch.reports[1].splits)
    assert epoch.refuses(of_task(epoch.reports, 1, splits=splits), "heard different things from the readers")


def test_a_committed_epoch_again(committed, expected):
    """A commit that comes a second time, as after a lost answer, changes nothing."""
    committed.commit(committed.reports)
    after = visible(committed.log)
    assert committed.commit(committed.reports) is None
    assert committed.commit(committed.others) is None
    assert visible(committed.log) == after
    assert finish(committed.folder) == expected


def test_an_epoch_that_starts_elsewhere(epoch):
    """Input positions other than the catalog's fail the epoch."""
    claim = epoch.reports[0].claim
    positions = {topic: dict.fromkeys(ends, 0) for topic, ends in claim.before.positions.items()}
    spoilt = [
        replace(report, claim=replace(claim, before=replace(claim.before, positions=positions))) for report in epoch.reports
    ]
    assert epoch.refuses(spoilt, "the epoch starts at offset 0, the catalog is at")


def test_an_epoch_out_of_turn(epoch):
    """An epoch that is not the next one is refused."""
    claim = epoch.reports[0].claim
    later = replace(claim, end=replace(claim.end, epoch=claim.end.epoch + 1))
    assert epoch.refuses(
        [replace(report, claim=later) for report in epoch.reports], "epoch 4 cannot be committed, epoch 2 was the last"
    )


def test_a_topic_made_anew(committed):
    """An epoch planned before an output was deleted and created again is refused: its rows belong nowhere."""
    committed.log.delete_topic("counts")
    assert committed.refuses(committed.reports, "which does not exist")


def test_functions_of_the_stage_are_suspected_by_name(epoch, monkeypatch):
    """Where attempts at a stage made different things, its functions are named as the likely cause, and those of other stages are not."""
    functions = {0: ["parse in parse-in at shop.py:5"], 1: ["price in price-in at shop.py:7"], 2: ["sum in sums at shop.py:9"]}
    monkeypatch.setattr(commit, "functions_of", lambda _, stage: functions[stage])

    def message(reports):
        with pytest.raises(EpochFailedError) as failed:
            commit_epoch(epoch.log.catalog, epoch.log.storage, epoch.staged.program, reports)
        return str(failed.value)

    spoilt = heard(epoch.reports[1], lambda kernel: replace(kernel, content="other"))
    of_kernels = message(of_task(epoch.reports, 1, kernels=spoilt))
    assert "not deterministic is the likely cause: price in price-in at shop.py:7. Expected" in of_kernels

    split, *others = epoch.reports[1].splits
    of_readers = message(of_task(epoch.reports, 1, splits=(replace(split, content="other"), *others)))
    assert "is the likely cause: parse in parse-in at shop.py:5. Expected" in of_readers

    unheard = tuple(kernel for kernel in epoch.reports[1].kernels if kernel.stage != 1)
    assert "likely cause" not in message(of_task(epoch.reports, 1, kernels=unheard))


class Priced:
    def process(self, record):
        """Nothing."""


def test_functions_are_known_by_stage():
    """A program knows which functions and processors its stages call, of which step, and at which of the user's lines."""
    app = sk.Topology("app")
    stream = app.stream("in", schema="k string, v int", key="k").map_values(price, "w int")
    stream.process(Priced, "w int").to("out")
    functions = [functions_of(compile(app), stage) for stage in (0, 1)]

    assert [one.partition(" at ")[0] for one in functions[0]] == ["price in map_values-in"]
    assert [one.partition(" at ")[0] for one in functions[1]] == ["Priced in process-in"]
    assert all(f" at {__file__}:" in one for stage in functions for one in stage)


def price(row):
    return {"w": row["v"]}
