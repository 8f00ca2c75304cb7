"""The pages as a user sees them, in a real browser."""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import time
from contextlib import closing
from urllib.parse import urlsplit

import pytest

import streamkit as sk
from streamkit.connectors import run as run_connectors
from streamkit.connectors.runtime.status import read_requests
from streamkit.serve.server import Server
from tests.unit.serve.conftest import letters_of, send_orders, totals
from topologies.connectors.sqlite_connector import SqliteSource

CHROMIUM = os.environ.get("STREAMKIT_CHROMIUM") or shutil.which("chromium")
SCRIPT = "<script>document.title='broken'</script><b>"
WAIT_MS = 60_000

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium; STREAMKIT_CHROMIUM names one that is not on the PATH"),
]


@pytest.fixture(scope="module")
def browser():
    """Chromium, without a window."""
    sync_api = pytest.importorskip("playwright.sync_api")
    with sync_api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture
def running(log):
    """An application that runs, and the server beside it."""
    run = sk.run(totals(), log=log, engine="local")
    with Server(log, port=0, allows_changes=True) as server:
        yield run, server.address
    run.stop()


@pytest.fixture
def page(browser, running):
    """A page of 1280 pixels; in the end no script of it has failed, and no other host was asked."""
    _, address = running
    opened = browser.new_page(viewport={"width": 1280, "height": 900}, base_url=address)
    opened.set_default_timeout(WAIT_MS)
    errors, asked = [], set()
    opened.on("pageerror", lambda error: errors.append(str(error)))
    opened.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    opened.on("request", lambda request: asked.add(urlsplit(request.url).netloc))
    yield opened
    opened.close()
    assert errors == []
    assert asked == {urlsplit(address).netloc}


def text_of(page, selector):
    return page.locator(selector).inner_text()


def expect(page, condition):
    """Wait until a script's condition holds in the page."""
    deadline = time.monotonic() + WAIT_MS / 1000
    while not page.evaluate(f"() => Boolean({condition})"):  # a wait within the page would need eval, which the pages forbid
        assert time.monotonic() < deadline, (
            f"not so within {WAIT_MS} ms: {condition}; the page has:\n{page.inner_text('body')[:2000]}"
        )
        page.wait_for_timeout(50)


def test_the_list_leads_to_the_application(page, running):
    """The list has each application with its state; a click leads to its page, and the browser's back leads back."""
    page.goto("/")
    page.get_by_role("link", name="totals", exact=True).click()
    expect(page, "document.querySelector('.graph svg .box')")
    assert urlsplit(page.url).path == "/applications/totals" and "totals" in page.title()
    assert "runs" in text_of(page, "dl.facts")
    page.go_back()
    expect(page, "document.querySelector('h1')?.textContent === 'Applications'")


def test_the_graph_moves_with_the_records(page, running, log):
    """What the boxes show goes on while records come, and once none come the panel has the totals that the server and the run have."""
    run, _ = running
    page.goto("/applications/totals?step=stream-orders")
    expect(page, "/\\/s · /.test(document.querySelector('.graph .box .figure')?.textContent)")
    send_orders(log, 1_000, 500)
    expect(page, "document.querySelector('path.flow.moving')")
    expect(page, "document.querySelector('.panel').innerText.includes('560')")
    steps = {one.step: one for one in run.steps()}
    assert steps["stream-orders"].rows_in == 560
    assert re.search(r"rows in\s+560\s+rows out\s+560", text_of(page, ".panel"))
    assert run.lag() == 0


def test_a_step_is_chosen_by_the_keyboard(page):
    """A box can be reached and chosen without a mouse; the address then is of that step."""
    page.goto("/applications/totals")
    page.locator(".graph .box").first.focus()
    page.keyboard.press("Enter")
    expect(page, "location.search === '?step=stream-orders'")
    assert "declared at" in text_of(page, ".panel")


def test_records_come_while_they_are_watched(page, log):
    """A record that is sent shows on the live tail; what its values hold is text, whatever it looks like."""
    page.goto("/topics/orders?live=true")
    expect(page, "document.body.innerText.includes('Waiting for records')")
    with log.producer() as producer:
        producer.send("orders", {"id": 7_777, "customer": SCRIPT, "amount": 1.5})
    expect(page, "document.body.innerText.includes('7777')")
    assert SCRIPT in text_of(page, ".records tbody") and page.locator(".records tbody b").count() == 0
    assert page.title() != "broken"


def test_a_condition_is_part_of_the_address(page):
    """Records are filtered by the server, and the address of what is shown shows the same again; what is wrong is said in words."""
    page.goto("/topics/orders")
    page.get_by_label("where").fill("amount >= 14")
    page.get_by_role("button", name="Show").click()
    expect(page, "document.body.innerText.includes('4 records')")
    page.reload()
    expect(page, "document.querySelectorAll('.records tbody tr').length === 4")


def test_what_is_refused_is_said(browser, running):
    """A condition that cannot be read, a topic or a page that is not there: each is told in words."""
    _, address = running
    opened = browser.new_page(base_url=address)
    opened.set_default_timeout(WAIT_MS)
    for path, words in (
        ("/topics/orders?where=amount+%3E", "amount"),
        ("/topics/nothing", "nothing"),
        ("/applications/nobody", "nobody"),
        ("/applications/totals/stores/none", "none"),
    ):
        opened.goto(path)
        opened.wait_for_selector(".problem")
        assert words in opened.locator(".problem").first.inner_text()
    opened.goto("/groups/billing")
    opened.get_by_label("from:").fill("noon")
    opened.keyboard.press("Enter")
    expect(opened, "[...document.querySelectorAll('.problem')].some(one => one.innerText.includes('noon'))")
    opened.close()


def test_a_store_is_looked_up(page):
    """The row of a key is found, with its windows; rows are listed from the first on."""
    page.goto("/applications/totals/stores/per_customer")
    expect(page, "document.querySelectorAll('tbody tr').length === 7")
    page.get_by_label("customer", exact=True).fill("c3")
    page.get_by_role("button", name="Look up").click()
    expect(page, "document.body.innerText.includes('1 row of this key')")
    assert text_of(page, "tbody").split()[0] == "c3"
    page.get_by_role("button", name="Its history").click()
    expect(page, "document.body.innerText.includes('change of this key')")
    assert "history=true" in page.url and text_of(page, "tbody").split()[0] == "1"
    page.goto("/applications/totals/stores/per_customer?as_of=0")
    expect(page, "document.body.innerText.includes('0 rows')")
    page.goto("/applications/totals/stores/hourly?key.customer=c3")
    expect(page, "/[0-9]+ rows of this key/.test(document.body.innerText)")


def test_the_token_is_asked_for(browser, log, tmp_path):
    """Where there is a token, a page asks for it, says when it is wrong, and then shows what was asked for, streams too."""
    (tmp_path / "token").write_text("0123456789abcdef-token\n")
    with Server(log, port=0, token_file=str(tmp_path / "token")) as server:
        opened = browser.new_page(base_url=server.address)
        opened.goto("/topics/orders?live=true")
        for token in ("wrong", "0123456789abcdef-token"):
            expect(opened, "document.querySelector('input[name=token]')?.value === ''")
            opened.get_by_label("token").fill(token)
            opened.get_by_role("button", name="Go on").click()
            expect(opened, "document.querySelector('input[name=token]')?.value !== '" + token + "'")
        expect(opened, "document.body.innerText.includes('Waiting for records')")
        send_orders(log, 90_000, 1)
        expect(opened, "document.body.innerText.includes('90000')")
        opened.close()


def test_dead_letters_are_sent_again_from_their_page(page, log):
    """What would be sent is said first; a double click sends each once; the rows say then that they were sent."""
    letters_of(log, 20)
    page.goto("/dead-letters/failed?where=offset+%3E%3D+10")
    page.get_by_role("button", name="Send all of these again …").click()
    expect(page, "document.body.innerText.includes('5 records would go back to texts')")
    assert len(log.read("texts")) == 20
    page.get_by_role("button", name="Send 5 records again").dblclick()
    expect(page, "document.body.innerText.includes('5 records went back to texts')")
    expect(page, "document.querySelectorAll('tbody tr').length === 5 && !document.querySelector('tbody button')")
    page.get_by_label("where").fill("")
    page.get_by_role("button", name="Show").click()
    expect(page, "document.querySelectorAll('tbody button').length === 5")
    page.locator("tbody button").first.click()
    page.get_by_role("button", name="Send 1 record again").click()
    expect(page, "document.querySelectorAll('tbody button').length === 4")
    assert len(log.read("texts")) == 26


def test_a_group_is_reset_from_its_page(page, log):
    """Where each partition would be is shown first, and then committed."""
    log.groups.reset("billing", {"orders": {0: 1, 1: 1}})
    page.goto("/groups/billing")
    page.get_by_role("button", name="Read on from there").click()
    page.get_by_role("button", name="Let billing read on from there").click()
    expect(page, "document.body.innerText.includes('billing reads on from latest')")
    assert log.groups.describe("billing").lag == 0


def test_a_connector_is_paused_from_its_page(page, log, tmp_path):
    """The list leads to the connector, with its tasks, positions and settings; what it is asked shows there."""
    with closing(sqlite3.connect(tmp_path / "in.db")) as database:
        database.executescript("CREATE TABLE people (id int, name text); INSERT INTO people VALUES (1, 'ann'), (2, 'bob')")
    run_connectors([SqliteSource("in", {"path": str(tmp_path / "in.db"), "tables": "people"})], log, once=True)
    page.goto("/connectors")
    page.get_by_role("link", name="in", exact=True).click()
    expect(page, "document.body.innerText.includes('in.db') && document.querySelectorAll('table').length === 3")
    page.get_by_role("button", name="Pause").click()
    expect(page, "document.querySelector('dl.facts').innerText.includes('to pause')")
    assert read_requests(log)["in"].is_paused


def test_a_server_that_only_reads_offers_no_changes(browser, log):
    """Its buttons are there and cannot be used; they say why."""
    letters_of(log, 4)
    with Server(log, port=0) as server:
        opened = browser.new_page(base_url=server.address)
        opened.goto("/dead-letters/failed")
        expect(opened, "document.querySelectorAll('button[title*=allow-changes]:disabled').length === 3")
        opened.close()


@pytest.mark.parametrize("path", ["/groups", "/dead-letters", "/connectors", "/log", "/topics"])
def test_other_pages_are_shown(page, log, path):
    """Each page has its title and its table, or says that there is nothing."""
    with log.consumer("orders", group="billing") as consumer:
        consumer.poll(timeout=10)
        consumer.commit()
    page.goto(path)
    expect(page, "document.querySelector('h1') && (document.querySelector('table') || document.querySelector('.quiet'))")
    if path == "/groups":
        page.get_by_role("link", name="billing").click()
        expect(page, "document.querySelector('h1')?.textContent === 'billing'")
    expect(page, "document.documentElement.scrollWidth <= innerWidth")


def test_an_application_with_many_steps_is_shown(browser, tmp_path):
    """Eighty steps have their boxes, each with room for its texts; the page itself grows no wider than the window."""
    app = sk.Topology("wide")
    stream = app.stream("orders")
    for number in range(76):
        stream = stream.filter(f"amount > {number}", name=f"filter_{number}")
        if number % 19 == 18:
            stream.to(f"out_{number}")
    with sk.open_log(tmp_path / "log") as log:
        log.create_topic("orders", "id bigint, customer string, amount double", key="customer", partitions=2)
        sk.run(app, log=log, engine="local", trigger="available_now").wait()
        with Server(log, port=0) as server:
            opened = browser.new_page(viewport={"width": 1280, "height": 900})
            opened.goto(f"{server.address}/applications/wide")
            opened.wait_for_selector(".graph .box")
            assert opened.locator(".graph .box").count() == 81
            assert opened.evaluate("document.documentElement.scrollWidth <= innerWidth")
            opened.close()
