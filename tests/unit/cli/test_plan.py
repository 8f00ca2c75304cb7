"""`streamkit plan`."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from itertools import count

import pytest

import streamkit as sk
from streamkit.cli.topology_file import load_topology
from streamkit.engine.runs.compile import compile_with_settings
from streamkit.engine.runs.local import run_available
from streamkit.engine.runs.start import start
from streamkit.errors import StreamKitError
from streamkit.log.upkeep import Upkeep

FILE = """
import streamkit as sk
from streamkit import functions as F

app = sk.Topology("shop")
orders = app.stream("orders")
orders.group_by("customer").agg(n=F.count("*"), total=F.sum("amount"), store="by_customer").to("totals")
windows = sk.tumbling("1 hour", grace="0 seconds", retention="10 days")
orders.group_by("number").windowed_by(windows).count(store="hourly").emit("final").to("hours")
orders.map_values(lambda row: {"twice": 2}, "twice int").to("doubled")
"""
MORE = """
app.stream("customers").group_by("city").count(store="by_city").to("cities")
"""
CHANGES = {
    "the same": [],
    "another order": [('n=F.count("*"), total=F.sum("amount")', 'total=F.sum("amount"), n=F.count("*")')],
    "another function": [('"twice": 2', '"twice": 3')],
    "a filter": [('orders.group_by("customer")', 'orders.filter("amount > 1").group_by("customer")')],
    "another output": [('.to("hours")', '.to("by_hour")')],
    "another application": [('"shop"', '"store"')],
    "another store": [('"by_customer"', '"customers_of"')],
    "another store and another output": [('"by_customer"', '"customers_of"'), ('"hours"', '"by_hour"')],
    "another aggregate": [('F.sum("amount")', 'F.max("amount")')],
    "another window": [('"1 hour"', '"2 hours"')],
    "less": [('orders.group_by("number")', 'orders.filter("false").group_by("number")'), ('.count(store="hourly")', ".count()")],
    "another type": [('"twice int"', '"twice string"')],
    "no topic": [('app.stream("orders")', 'app.stream("order")')],
}


@pytest.fixture
def edit(tmp_path, root):
    """Write a file with the topology, with some texts replaced and lines added; returns its path."""
    numbers = count()  # a file that is rewritten within a second at the same length would be taken from Python's cache

    def write(*changes, more=""):
        path, text = tmp_path / f"shop_{next(numbers)}.py", FILE
        for before, now in changes:
            assert before in text
            text = text.replace(before, now)
        path.write_text(text + more)
        return str(path)

    return write


@pytest.fixture(scope="module")
def ran_once(filled, tmp_path_factory):
    """The folder of a log on which the application has run with two tasks."""
    folder = tmp_path_factory.mktemp("ran")
    (folder / "shop.py").write_text(FILE)
    with sk.open_log(shutil.copytree(filled, folder / "log")) as log:
        run_available(start_of(log, str(folder / "shop.py"), tasks=2), drain=True)
    return folder / "log"


@pytest.fixture
def ran(ran_once, root):
    """The application has run on the log with two tasks; nothing else was done to it."""
    shutil.rmtree(root)
    shutil.copytree(ran_once, root)


def start_of(log, path, **options):
    return start(log.catalog, log.storage, compile_with_settings(load_topology(path), log), **options)


def refusals(root, path):
    """With what a start ends: nothing, or the message of its error."""
    try:
        with sk.open_log(root) as log:
            start_of(log, path)
    except StreamKitError as error:
        return [str(error)]
    return []


def content(root):
    """All that the catalog of a log holds, and the files beside it."""
    with closing(sqlite3.connect(root / "catalog.db")) as database:
        rows = list(database.iterdump())
    files = {str(path): path.stat().st_size for path in root.rglob("*") if path.is_file()}
    return rows, {path: size for path, size in files.items() if ".db" not in path}


def fates(shown, subject):
    return {change["name"]: change["fate"] for change in shown[subject]}


def text_of(shown, subject, name):
    return next(change["text"] for change in shown[subject] if change["name"] == name)


@pytest.mark.parametrize("change", CHANGES)
def test_a_plan_tells_how_a_start_ends(streamkit, root, edit, ran, change):
    """
    A start goes on where its plan ends with 0, and fails with the plan's own words where it ends with 2.

    Neither the plan nor a refused start changes anything.
    """
    path = edit(*CHANGES[change])
    before = content(root)
    starts = change in list(CHANGES)[:6]
    shown = json.loads(streamkit("plan", path, "--json", code=0 if starts else 2))

    assert content(root) == before
    assert shown["starts"] == starts
    assert shown["refusals"] == refusals(root, path)
    assert (content(root) == before) is not starts


def test_without_an_application_all_is_new(streamkit, root, edit):
    """On a log where the application has not run, a plan says which topics and stores would be created, and creates none."""
    before = content(root)
    shown = json.loads(streamkit("plan", edit(), "--json"))

    assert (shown["generation"], shown["starts"]) == (0, True)
    assert fates(shown, "inputs") == {"orders": "added"}
    assert fates(shown, "stores") == {"by_customer": "added", "hourly": "added"}
    assert set(fates(shown, "outputs").values()) == {"added"}
    assert text_of(shown, "outputs", "totals") == "topic is created: partitions=1, cleanup.policy=compact"
    assert text_of(shown, "stores", "hourly") == "begins empty; changelog shop-hourly-changelog"
    assert "shop: new in this log" in streamkit("plan", edit())
    assert content(root) == before


def test_the_same_topology_changes_nothing(streamkit, edit, ran):
    """What has not changed stays: each store, input and output, and all steps, which are only counted."""
    output = streamkit("plan", edit())

    assert not [line for line in output.splitlines() if line.strip()[:1] in set("+-~!")]
    assert "= orders  stream, goes on where it was read to" in output
    assert "steps as before" in output
    assert output.endswith("A start would be accepted.\n")


def test_parts_in_another_order_are_mapped(streamkit, edit, ran):
    """Aggregates in another order are kept as they are stored, so only the store says so, and the aggregation has not changed."""
    shown = json.loads(streamkit("plan", edit(*CHANGES["another order"]), "--json"))

    assert fates(shown, "stores") == {"by_customer": "changed", "hourly": "same"}
    assert "they keep the order in which they are stored" in text_of(shown, "stores", "by_customer")
    assert fates(shown, "steps")["aggregate-by_customer"] == "same"


def test_a_function_with_other_code_has_changed(streamkit, edit, ran):
    """A function of the user whose code is another is a changed step, though its line in the plan is the same."""
    shown = json.loads(streamkit("plan", edit(*CHANGES["another function"]), "--json"))

    assert [name for name, fate in fates(shown, "steps").items() if fate == "changed"] == ["map_values-orders"]
    assert set(fates(shown, "stores").values()) == {"same"}


def test_what_came_and_went_is_told(streamkit, edit, ran):
    """A new input is read from its beginning, a new store lacks what was read before, an output that went keeps its topic."""
    shown = json.loads(streamkit("plan", edit(('.to("doubled")', '.to("twofold")'), more=MORE), "--json"))

    assert fates(shown, "inputs") == {"orders": "same", "customers": "added"}
    assert text_of(shown, "inputs", "customers") == "stream, read from its beginning"
    assert fates(shown, "outputs") == {
        "totals": "same", "hours": "same", "twofold": "added", "cities": "added", "doubled": "gone",
    }  # fmt: skip
    assert text_of(shown, "outputs", "cities") == "topic is created: partitions=2, cleanup.policy=compact"
    assert "without the records read before" in text_of(shown, "stores", "by_city")
    assert fates(shown, "steps")["aggregate-hourly"] == "same"


def test_a_renamed_store_is_told_the_name_that_goes_on(streamkit, edit, ran):
    """A store under another name would orphan its state; the plan says which name goes on with it."""
    shown = json.loads(streamkit("plan", edit(*CHANGES["another store"]), "--json", code=2))

    assert fates(shown, "stores") == {"customers_of": "added", "hourly": "same", "by_customer": "refused"}
    assert "customers_of would hold the same rows; store='by_customer'" in text_of(shown, "stores", "by_customer")


def test_all_reasons_are_told_at_once(streamkit, edit, ran):
    """A plan does not stop at the first reason, as a start does: each is told, with what accepts it."""
    output = streamkit("plan", edit(*CHANGES["another aggregate"], *CHANGES["another window"]), "--tasks", "1000", code=2)

    assert output.count("A start would be refused: ") == 3
    assert "tasks=1000; expected 1 to 128" in output
    assert "! hourly       the size of its windows was 1 hour, and is 2 hours" in output
    assert "or start from scratch with `streamkit apps reset shop`" in output


@pytest.mark.parametrize("setting", ["key_groups", "changelog_partitions"])
def test_settings_that_are_fixed_at_the_first_start_are_checked(root, streamkit, edit, ran, monkeypatch, setting):
    """Other key groups or changelog partitions than those of the first start are refused by the plan as by the start."""
    monkeypatch.setenv(f"STREAMKIT_{setting.upper()}", "8")
    shown = json.loads(streamkit("plan", edit(), "--json", code=2))

    assert shown["refusals"][:1] == refusals(root, edit())


def test_other_tasks_are_shown(streamkit, edit, ran):
    """The number of tasks is that of the last start, unless another is asked for."""
    kept, asked = (json.loads(streamkit("plan", edit(), "--json", *words))["tasks"] for words in ([], ["--tasks", "3"]))

    assert kept == [{"name": "tasks", "fate": "same", "text": "2", "before": ""}]
    assert asked == [{"name": "tasks", "fate": "changed", "text": "3", "before": "2"}]


def test_a_run_that_a_start_would_end_is_told(streamkit, root, edit, ran):
    """While a run of the application goes on, the plan says that a start would end it."""
    with sk.open_log(root) as log:
        state = log.catalog.applications.get("shop")
        upkeep = Upkeep(log, state.id, state.generation)
        try:
            assert "It would end the run that is active now." in streamkit("plan", edit())
        finally:
            upkeep.close()
    assert "goes on now" not in streamkit("plan", edit())


def test_after_a_reset_a_start_begins_again(streamkit, edit, ran):
    """An application that was reset starts with empty stores, whatever they held, and reads from the beginning."""
    streamkit("apps", "reset", "shop", "--yes")
    shown = json.loads(streamkit("plan", edit(*CHANGES["another window"]), "--json"))

    assert fates(shown, "stores") == {"by_customer": "added", "hourly": "added"}
    assert text_of(shown, "stores", "hourly").startswith("begins empty; ")
    assert text_of(shown, "inputs", "orders") == "stream, read from its beginning"


def test_topics_that_do_not_fit_are_told_beside_all_else(root, streamkit, edit, ran):
    """Of topics that do not fit, as inputs or outputs, each is refused at its place, and everything else is told as ever."""
    with sk.open_log(root) as log:
        log.create_topic("other", "a int", key="a", partitions=1)
    more = """
app.stream("gone", schema="a int", key="a").to("other")
app.stream("orders").select("customer").to("hours")
app.stream("other", schema="b string").to("shop-hourly-changelog")
"""
    changes = [('.to("hours")', '.to("by_hour")'), *CHANGES["another aggregate"], *CHANGES["a filter"]]
    shown = json.loads(streamkit("plan", edit(*changes, more=more), "--json", code=2))

    assert fates(shown, "inputs") == {"gone": "refused", "orders": "same", "other": "refused"}
    assert text_of(shown, "inputs", "gone") == "topic does not exist"
    assert text_of(shown, "inputs", "other") == "topic has a int, key ['a']; the topology has b string, key []"
    assert fates(shown, "outputs") == {
        "by_hour": "added", "doubled": "same", "hours": "refused", "other": "added", "shop-hourly-changelog": "refused", "totals": "same",
    }  # fmt: skip
    assert "the topology has number int, customer string, key ['number']" in text_of(shown, "outputs", "hours")
    assert fates(shown, "stores") == {"by_customer": "refused", "hourly": "same"}
    assert [reason.replace("\n", ";").partition(";")[0].partition(":")[0] for reason in shown["refusals"]] == [
        "the topic 'gone' does not exist",
        "the topic 'other' does not hold what schema= says",
        "the topic 'hours' exists and does not fit",
        "the topic 'shop-hourly-changelog' is the changelog of the store 'hourly'",
        "the store 'by_customer' of 'shop' does not hold what the topology now stores in it",
    ]
    assert all("shop_" in reason.rpartition("\n  at ")[2] for reason in shown["refusals"])


def test_all_missing_topics_are_told_at_once(streamkit, edit, ran):
    """Where a missing topic leaves unknown what would be read, there is no program to compare; all such topics are told."""
    more = 'app.stream("clicks").to("copies")\napp.table("user").to("users")\n'
    shown = json.loads(streamkit("plan", edit(more=more), "--json", code=2))

    assert set(shown) == {"application", "starts", "refusals"}
    assert [reason.partition(";")[0] for reason in shown["refusals"]] == [
        "the topic 'clicks' does not exist",
        "the topic 'user' does not exist",
    ]


def test_a_store_whose_changelog_is_taken_is_refused_at_its_place(root, streamkit, edit):
    """A topic of the changelog's name that is something else refuses the store, and tasks out of range refuse the tasks."""
    with sk.open_log(root) as log:
        log.create_topic("shop-hourly-changelog", "a int", key="a", partitions=1)
    shown = json.loads(streamkit("plan", edit(), "--json", "--tasks", "1000", code=2))

    assert fates(shown, "stores") == {"by_customer": "added", "hourly": "refused"}
    assert fates(shown, "tasks") == {"tasks": "refused"}
    assert text_of(shown, "stores", "hourly") in shown["refusals"]
    assert len(shown["refusals"]) == 2
