"""The pages as a user sees them, in a real browser."""

from __future__ import annotations

import ast
import os
import re
import shutil
import sqlite3
import time
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

import streamkit as sk
from streamkit import functions as F
from streamkit.connectors import run as run_connectors
from streamkit.connectors.files.source import FileSource
from streamkit.connectors.runtime.status import FAILED, TaskStatus, read_requests, write_status
from streamkit.serve import refusals
from streamkit.serve.limits import ServeLimits
from streamkit.serve.server import Server
from tests.kit.waiting import wait_until
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


def hide(page, is_hidden):
    """Let a page believe that another tab lies over it, or no more; a browser without windows shows all of its pages."""
    page.evaluate(
        "is => { Object.defineProperty(document, 'hidden', {get: () => is, configurable: true});"
        " document.dispatchEvent(new Event('visibilitychange')); }",
        is_hidden,
    )


def test_many_pages_of_one_browser(browser, running, log):
    """
    A browser opens six connections to a server, and each of twelve pages is live all the same: those of tails see each record once.

    Queries that go on keep their connections: two may run, and a third waits for one of them, and says so.
    """
    _, address = running
    context = browser.new_context(base_url=address)
    paths = ["/applications/totals"] * 6 + ["/topics/orders?live=true"] * 6
    pages, errors = [context.new_page() for _ in (*paths, *"sql")], list[str]()
    for opened in pages:
        opened.set_default_timeout(WAIT_MS)
        opened.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    for opened, path in zip(pages, paths, strict=False):
        opened.goto(path)
    queries = pages[len(paths) :]
    for opened in queries:
        opened.goto("/sql")
        opened.fill("textarea", "SELECT id FROM orders EMIT CHANGES")
        opened.get_by_role("button", name="Run").click()
        expect(opened, "/rows so far|Waiting, since/.test(document.body.innerText)")
    assert ["Waiting, since" in opened.inner_text("body") for opened in queries] == [False, False, True]
    for opened in pages[:6]:
        expect(opened, "document.querySelector('.graph svg .box')")
    for opened in pages[6:12]:
        expect(opened, "document.querySelector('.records + *, .records') && !document.body.innerText.includes('Connecting')")
    hide(pages[6], True)
    for number in range(5_000, 5_010):
        send_orders(log, number, 1)
        pages[0].wait_for_timeout(300)
    hide(pages[6], False)
    for opened in pages[6:12]:
        expect(opened, "document.body.innerText.includes('5009')")
        shown = re.findall(r"\b50\d\d\b", text_of(opened, ".records"))
        assert sorted(shown) == [str(number) for number in range(5_000, 5_010)]
    for opened in queries[:2]:
        expect(opened, "document.body.innerText.includes('5009')")
    queries[1].close()  # it waits for whichever ends first
    expect(queries[2], "document.body.innerText.includes('rows so far')")
    context.close()
    assert errors == []


SLOW_LOCKS = """{
  const request = navigator.locks.request.bind(navigator.locks);
  navigator.locks.request = async (...asked) => { await new Promise(done => setTimeout(done, 500)); return request(...asked); };
}"""


@pytest.mark.parametrize(
    "path", ["/topics/orders?live=true", "/applications/totals", "/sql?text=SELECT+id+FROM+orders+EMIT+CHANGES&run=true"]
)
@pytest.mark.parametrize("is_slow", ["locks", "answers"])
def test_a_page_that_is_left_while_it_is_drawn_keeps_no_stream(page, path, is_slow):
    """Whatever it waited for then, no connection is held behind the page that is shown."""
    waiting, is_left = [], False

    def wait(route):
        if is_left:
            route.continue_()
        else:
            waiting.append(route)

    if is_slow == "locks":
        page.add_init_script(SLOW_LOCKS)
    else:
        page.route("**/api/v1/**", wait)
    page.goto(path)
    page.wait_for_timeout(100)
    while is_slow == "answers" and not waiting:
        page.wait_for_timeout(20)
    is_left = True
    page.get_by_role("link", name="Groups").click()
    for route in waiting:
        route.continue_()
    expect(page, "document.querySelector('h1')?.textContent === 'Groups'")
    page.wait_for_timeout(2_000)
    assert page.evaluate("async () => { const all = await navigator.locks.query(); return [...all.held, ...all.pending]; }") == []


def shown_ids(opened):
    return sorted(int(id) for id in re.findall(r"\b5\d\d\d\b", text_of(opened, ".records")))


def test_tails_of_a_topic_that_is_made_again(browser, log):
    """Each of five tails says that their topic is gone, also one that waited for its turn; once it is there again, each shows its records once."""
    with Server(log, port=0) as server:
        context = browser.new_context(base_url=server.address)
        pages = [context.new_page() for _ in range(5)]
        for opened in pages:
            opened.set_default_timeout(WAIT_MS)
            opened.goto("/topics/orders?live=true")
        for opened in pages:
            expect(opened, "document.body.innerText.includes('Waiting for records')")
        send_orders(log, 5_000, 1)
        for opened in pages:
            expect(opened, "document.querySelector('.records').innerText.includes('5000')")
        log.delete_topic("orders")
        for opened in pages:
            expect(opened, "/orders.* What is shown is of/.test(document.querySelector('#situation').innerText)")
            assert shown_ids(opened) == [5_000]
        log.create_topic("orders", "amount double, id bigint, customer string", partitions=2)
        send_orders(log, 5_100, 3)
        for opened in pages:
            expect(opened, "document.querySelector('.records').innerText.includes('5102')")
        send_orders(log, 5_103, 1)
        for opened in pages:
            expect(opened, "document.querySelector('.records').innerText.includes('5103')")
            assert shown_ids(opened) == [5_100, 5_101, 5_102, 5_103]
            assert opened.locator("#situation").inner_text() == "" and "made again" in text_of(opened, "p[role=status]")
            assert "amount double, id bigint" in text_of(opened, "dl.facts")
        context.close()


@pytest.mark.parametrize("live", [True, False])
def test_the_figures_of_a_topic_are_those_of_its_records(page, log, live):
    """The head counts records that come right after it was drawn, too, and those that Show finds."""
    page.goto(f"/topics/orders?live={str(live).lower()}")
    expect(page, "/records\\s+60\\b/.test(document.querySelector('dl.facts')?.innerText)")
    if live:
        expect(page, "document.body.innerText.includes('Waiting for records')")
    send_orders(log, 5_000, 3)
    if not live:
        page.get_by_role("button", name="Show").click()
    expect(page, "document.querySelector('.records').innerText.includes('5002')")
    expect(page, "/records\\s+63\\b/.test(document.querySelector('dl.facts').innerText)")


def test_a_tail_without_records_knows_of_when_it_is(browser, log):
    """What it shows is of the server's last answer, not of its last record."""
    server = Server(log, port=0)
    server.__enter__()
    opened = browser.new_page(base_url=server.address)
    opened.goto("/topics/orders?live=true")
    expect(opened, "document.body.innerText.includes('Waiting for records')")
    began = time.time()
    for _ in range(2):
        opened.wait_for_event("response", lambda answer: answer.url.endswith("/topics/orders"))
    server.__exit__(None, None, None)
    expect(opened, "document.querySelector('#situation').innerText.includes('What is shown is of')")
    hours, minutes, seconds = re.findall(r"\d+", text_of(opened, "#situation").partition("is of")[2])
    shown = int(hours) * 3600 + int(minutes) * 60 + int(seconds)
    assert (shown - began) % 86_400 < 43_200  # after it, also across midnight
    opened.close()


ABSENT = (
    "/topics/nothing",
    "/topics/nothing?live=true",
    "/groups/nobody",
    "/applications/nobody",
    "/connectors/nobody",
    "/applications/nobody/stores/none",
    "/applications/totals/stores/none",
    "/dead-letters/nothing",
)
IS_ONE_LINE = "(new Set([...document.querySelectorAll('nav a')].map(one => one.getBoundingClientRect().top))).size === 1"


def test_what_is_not_there_is_said_once(browser, running):
    """One place says it, with a hint that speaks of pages, also after the page has asked again; the head stays one line."""
    context = browser.new_context(viewport={"width": 1280, "height": 900}, base_url=running[1])
    pages = [context.new_page() for _ in ABSENT]
    for opened, path in zip(pages, ABSENT, strict=True):
        opened.goto(path)
    for opened in pages:
        expect(opened, "document.querySelector('.problem strong')")
    pages[0].wait_for_timeout(3_000)
    for opened in pages:
        (message,) = opened.locator(".problem strong:visible").all_inner_texts()
        assert opened.inner_text("body").count(message[:40]) == 1
        assert not re.search(r"/api/|openapi|header", opened.inner_text("main"))
        assert opened.evaluate(IS_ONE_LINE)
    context.close()


def test_a_tail_waits_for_a_topic_that_is_not_there_yet(browser, log):
    """Once it is made, the page shows it."""
    with Server(log, port=0) as server:
        opened = browser.new_page(base_url=server.address)
        opened.goto("/topics/later?live=true")
        expect(opened, "document.querySelector('.problem')")
        log.create_topic("later", "id bigint")
        expect(opened, "!document.querySelector('.problem') && document.body.innerText.includes('Waiting for records')")
        with log.producer() as producer:
            producer.send("later", {"id": 5_000})
        expect(opened, "document.querySelector('.records').innerText.includes('5000')")
        opened.close()


def test_the_head_says_briefly_that_a_topic_is_gone(browser, log):
    """However many topics there are, it says all of it in a line, with the time; its title has the rest."""
    for number in range(40):
        log.create_topic(f"one_of_many_topics_{number}", "id bigint")
    with Server(log, port=0) as server:
        opened = browser.new_page(viewport={"width": 1280, "height": 900}, base_url=server.address)
        opened.goto("/topics/orders?live=true")
        expect(opened, "document.body.innerText.includes('Waiting for records')")
        log.delete_topic("orders")
        expect(
            opened,
            "/^topic 'orders' does not exist. What is shown is of [\\d:]+[.]$/.test(document.querySelector('#situation').innerText)",
        )
        assert opened.evaluate(
            "document.querySelector('#situation').scrollWidth <= document.querySelector('#situation').clientWidth"
        )
        assert opened.evaluate(IS_ONE_LINE) and "one_of_many" in opened.locator("#situation").get_attribute("title")
        opened.close()


def text_in(node):
    """The text of an expression that is one, with dots for what is put in."""
    return "".join(str(one.value) if isinstance(one, ast.Constant) else "…" for one in getattr(node, "values", [node]))


def hints_of_the_server():
    """The texts in the sources of the server that are hints, and more of the same calls."""
    calls = ("RefusedError", "bad_request", "absent", "rows")
    for file in Path(refusals.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", getattr(node.func, "attr", "")) in calls:
                yield from map(text_in, [*node.args, *(one.value for one in node.keywords)])
    yield from (hint for _, _, hint in refusals._KNOWN)


def test_hints_are_in_words_of_the_pages(page):
    """Whatever the server says to those who ask it by HTTP, a page says in words of its own, or not at all."""
    page.goto("/")
    hints = sorted({hint for hint in hints_of_the_server() if " " in hint})
    assert "see /api/v1/topics" in hints and len(hints) > 50
    shown = page.evaluate(
        "async hints => { const {problem} = await import('/static/dom.js'); return hints.map(hint => problem({message: '', hint}).innerText); }",
        hints,
    )
    assert [text for text in shown if re.search(r"/api/|openapi|Authorization|raw=|offset=|cursor|Content-", text)] == []
    assert sum(map(bool, shown)) > 40


def test_a_condition_that_does_not_fit_for_a_while(browser, log):
    """A tail whose condition the topic refuses after it was made again goes on once it fits again."""
    with Server(log, port=0) as server:
        opened = browser.new_page(base_url=server.address)
        opened.goto("/topics/orders?live=true&where=amount+>+1")
        expect(opened, "document.body.innerText.includes('Waiting for records')")
        for schema, words in (("id bigint, amount array<int>", "amount"), ("id bigint, customer string, amount double", "")):
            log.delete_topic("orders")
            log.create_topic("orders", schema)
            expect(opened, f"document.querySelector('#situation').innerText.includes('{words}')")
        send_orders(log, 5_000, 1)
        expect(opened, "document.querySelector('.records').innerText.includes('5000')")
        expect(opened, "document.querySelector('#situation').innerText === ''")
        opened.close()


def test_a_tail_that_is_paused_shows_what_came_once_it_goes_on(page, log):
    """Meanwhile it says how many came, and that it is paused."""
    page.goto("/topics/orders?live=true")
    expect(page, "document.body.innerText.includes('Waiting for records')")
    send_orders(log, 5_000, 2)
    expect(page, "document.querySelector('.records').innerText.includes('5001')")
    page.get_by_role("button", name="Pause").click()
    send_orders(log, 5_002, 3)
    expect(page, "/5 records since .*paused/.test(document.body.innerText)")
    assert shown_ids(page) == [5_000, 5_001]
    page.get_by_role("button", name="Go on").click()
    expect(page, "document.querySelector('.records').innerText.includes('5004')")
    assert shown_ids(page) == [*range(5_000, 5_005)]
    assert page.locator("tr.new").count() == 3


def test_a_tail_of_another_log(browser, log, tmp_path):
    """A server that begins again over another log has other records at the same offsets: a tail does not mix them."""
    server = Server(log, port=0)
    server.__enter__()
    opened = browser.new_page(base_url=server.address)
    opened.goto("/topics/orders?live=true")
    expect(opened, "document.body.innerText.includes('Waiting for records')")
    send_orders(log, 5_000, 5)
    expect(opened, "document.querySelector('.records').innerText.includes('5004')")
    server.__exit__(None, None, None)
    with sk.open_log(tmp_path / "other") as other:
        other.create_topic("orders", "id bigint, customer string, amount double", key="customer", partitions=2)
        send_orders(other, 5_100, 100)
        with Server(other, port=urlsplit(server.address).port or 0):
            expect(opened, "document.body.innerText.includes('the log is another one or an older copy')")
            expect(opened, "document.querySelector('.records').innerText.includes('5199')")
            assert shown_ids(opened) == [*range(5_100, 5_200)]
    opened.close()


def test_a_tail_beyond_the_streams_of_a_server_waits_for_one(browser, log):
    """It says why it has none, and goes on once another page is closed; a question that is wrong is not asked again."""
    with Server(log, port=0, limits=ServeLimits(streams=1)) as server:
        first, second = [browser.new_page(base_url=server.address) for _ in range(2)]
        for opened in (first, second):
            opened.goto("/topics/orders?live=true")
            expect(opened, "/Waiting for records|Connecting/.test(document.body.innerText)")
        expect(second, "document.querySelector('#situation').innerText.includes('1 streams are open')")
        first.close()
        expect(second, "document.querySelector('#situation').innerText === ''")
        send_orders(log, 5_000, 1)
        expect(second, "document.querySelector('.records').innerText.includes('5000')")
        asked = []
        second.on("request", lambda request: asked.append(request.url))
        second.goto("/topics/orders?live=true&where=amount+%3E")
        expect(second, "document.querySelector('.records .problem')?.innerText.includes('amount')")
        before = len(asked)
        second.wait_for_timeout(4_000)
        assert len(asked) == before
        second.close()


def test_live_pages_outlive_a_server_and_its_token(browser, log, tmp_path):
    """
    Pages whose server begins again with another token ask for it, and go on once it is given in one of them: a tail behind its last record.

    A query says that it ends.
    """
    token = tmp_path / "token"
    token.write_text("0123456789abcdef-old\n")
    server = Server(log, port=0, token_file=str(token))
    server.__enter__()
    context = browser.new_context(base_url=server.address)
    context.add_cookies([{"name": "streamkit_token", "value": "0123456789abcdef-old", "url": server.address}])
    tail, query, other, early = [context.new_page() for _ in range(4)]
    tail.goto("/topics/orders?live=true")
    other.goto("/connectors")
    query.goto("/sql?text=SELECT+id+FROM+orders+EMIT+CHANGES&run=true")
    expect(query, "document.querySelector('.results .note')?.textContent.includes('0 rows')")
    expect(tail, "document.body.innerText.includes('Waiting for records')")
    send_orders(log, 5_000, 1)
    for opened in (tail, query):
        expect(opened, "document.body.innerText.includes('5000')")
    server.__exit__(None, None, None)
    expect(tail, "document.querySelector('#situation').innerText.includes('does not answer')")
    expect(query, "document.querySelector('.results .problem')?.innerText.includes('the server ends')")
    assert "5000" in text_of(query, ".results") and query.get_by_role("button", name="Stop").count() == 0
    token.write_text("0123456789abcdef-new\n")
    with Server(log, port=urlsplit(server.address).port or 0, token_file=str(token)):
        early.goto("/topics/orders")  # has nothing to show yet
        for opened in (tail, other, early):
            expect(opened, "document.querySelector('input[name=token]')")
            expect(opened, "document.body.innerText.includes('refused the token')")
        send_orders(log, 5_001, 1)
        tail.get_by_label("token").fill("0123456789abcdef-new")
        tail.get_by_role("button", name="Go on").click()
        for opened in (tail, other, early):
            expect(opened, "!document.querySelector('input[name=token]')")
        expect(early, "document.querySelector('.records').innerText.includes('5001')")
        expect(tail, "document.querySelector('.records').innerText.includes('5001')")
        assert shown_ids(tail) == [5_000, 5_001]
        expect(other, "document.querySelector('#situation').innerText === ''")
    context.close()


def test_the_graph_is_that_of_the_program_that_runs(page, running, log):
    """A page that is open while the application starts again with another program shows the new steps."""
    run, _ = running
    page.goto("/applications/totals")
    expect(page, "document.querySelector('.graph svg .box')")
    run.stop()
    app = totals()
    app.stream("orders").filter("amount > 7", name="seven").to("sevens")
    other = sk.run(app, log=log, engine="local")
    try:
        send_orders(log, 1_000, 1)
        expect(page, "document.querySelector('.graph').textContent.includes('amount > 7')")
    finally:
        other.stop()


def test_new_epochs_come_behind_those_shown(page, running, log):
    """A page asks for the epochs since its last look alone, and shows the same as the server says of all, the commit of each among it."""
    run, address = running

    def make_epochs(first, count):
        for number in range(first, first + count):
            send_orders(log, number, 1)
            wait_until(lambda: run.lag() == 0)

    make_epochs(1_000, 62)
    asked = []
    page.on("request", lambda request: asked.append(request.url) if "/epochs?" in request.url else None)
    page.goto("/applications/totals")
    expect(page, "document.querySelectorAll('.bars .bar').length === 60")
    for first in (2_000, 3_000):
        make_epochs(first, 3)
        newest = httpx.get(f"{address}/api/v1/applications/totals/epochs?last=1").json()[0]["epoch"]
        expect(page, f"document.querySelector('.bars .bar:last-child').title.startsWith('epoch {newest}:')")
    assert any(not url.endswith("last=60") for url in asked)
    known = httpx.get(f"{address}/api/v1/applications/totals/epochs?last=60").json()
    titles = [bar.get_attribute("title").split(":")[0] for bar in page.locator(".bars .bar").all()]
    assert titles == [f"epoch {one['epoch']}" for one in known]
    parts = page.locator(".bars .bar .commit").all()
    assert all(part.get_attribute("style") != "height: 0px;" for part in parts[:-1])  # the newest does not know its commit yet


def test_earlier_changes_of_a_key_are_told(page, running, log):
    """The newest changes are shown, with a way to all of them; only where these are all it is said what compaction leaves."""
    run, _ = running
    for number in range(102):
        send_orders(log, 7 * number, 1)
        wait_until(lambda: run.lag() == 0)
    page.goto("/applications/totals/stores/per_customer?key.customer=c0&history=true")
    expect(page, "document.body.innerText.includes('The newest 100 changes of this key, oldest first; there are earlier ones.')")
    page.get_by_role("button", name="Earlier changes").click()
    expect(page, "/1\\d\\d changes of this key, oldest first; compaction/.test(document.body.innerText)")
    assert not page.get_by_role("button", name="Earlier changes").is_visible()


def test_a_step_is_chosen_by_the_keyboard(page):
    """A box can be reached and chosen without a mouse; the address then is of that step."""
    page.goto("/applications/totals")
    page.locator(".graph .box").first.focus()
    page.keyboard.press("Enter")
    expect(page, "location.search === '?step=stream-orders'")
    assert "declared at" in text_of(page, ".panel")


def markup(amount):
    """An application whose conditions look like HTML."""
    app = sk.Topology("marked")
    app.stream("orders").filter((F.col("customer") != SCRIPT) & (F.col("amount") > amount), name="large").to("copies")
    app.stream("orders").filter(f"amount > {amount}", name=f"step_{amount}").to("others")
    return app


def test_the_programs_of_an_application_are_compared(page, log):
    """The list has the starts that changed it; the chosen one shows what changed, as text, and has an address; a new start is told."""
    for amount in (1, 1, 2):
        sk.run(markup(amount), log=log, engine="local", trigger="available_now").wait()
    page.goto("/applications/marked?step=large")
    expect(page, "document.querySelectorAll('tr a[href*=\"program=\"]').length === 2")
    page.get_by_role("link", name="3", exact=True).focus()
    page.keyboard.press("Enter")
    expect(page, "document.querySelectorAll('.changes table').length === 3")
    assert page.url.endswith("/applications/marked?step=large&program=3")
    assert "3 changes since the program of generation 1." in text_of(page, ".changes")
    (steps,) = [rows for rows in page.locator(".changes table").all_inner_texts() if rows.startswith("steps")]
    lines = [" ".join(line.split()) for line in steps.splitlines() if line.strip()]
    for sign, amount in (("-", 1), ("+", 2)):
        (told,) = [line for line in lines if line.startswith(f"{sign} filter: ") and "<b>" in line]
        assert "<script>document.title=" in told and f"amount > {amount}" in told
    signs = page.locator(".changes tbody tr td:first-child").all_inner_texts()
    assert sorted(signs) == ["+", "-", "=", "=", "=", "~"]
    assert page.locator(".changes b").count() == 0 and page.title() != "broken"
    assert page.evaluate("document.activeElement.textContent") == "3"
    page.reload()
    expect(page, "document.querySelectorAll('.changes table').length === 3")
    sk.run(markup(4), log=log, engine="local", trigger="available_now").wait()
    expect(page, "document.querySelectorAll('tr a[href*=\"program=\"]').length === 3")
    expect(page, "document.documentElement.scrollWidth <= innerWidth")
    page.goto("/applications/marked?program=1")
    expect(page, "document.body.innerText.includes('It was the first start.')")


def test_a_start_with_the_same_program_is_told(page, log):
    """The list has the starts that changed the program, so it says why the last start is none of them; a start that changes it takes the words away."""
    for amount in (1, 1):
        sk.run(markup(amount), log=log, engine="local", trigger="available_now").wait()
    page.goto("/applications/marked")
    expect(
        page, "document.body.innerText.includes('Generation 2 has committed nothing yet, so the program of generation 1 counts.')"
    )
    send_orders(log, 5_000, 1)
    sk.run(markup(1), log=log, engine="local", trigger="available_now").wait()
    words = "Generation 3 runs the program of generation 1, since its start changed nothing."
    expect(page, f"document.body.innerText.includes('{words}')")
    assert page.locator("tr a[href*='program=']").all_inner_texts() == ["1"]
    sk.run(markup(3), log=log, engine="local", trigger="available_now").wait()
    expect(page, "document.querySelectorAll('tr a[href*=\"program=\"]').length === 2")
    assert "since its start changed nothing" not in text_of(page, "main")


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


def test_a_store_with_versions_is_asked_for_an_event_time(browser, log):
    """The page of a table with history has a field for an event time, which the address keeps; that of another store has none."""
    log.create_topic("prices", "coin string, price int", key="coin")
    app = sk.Topology("history")
    app.table("prices", versioned="10 days", store="prices")
    with log.producer() as producer:
        for day in (1, 2, 3):
            producer.send("prices", {"coin": "EUR", "price": day * 111}, timestamp_ms=1_769_817_600_000 + day * 86_400_000)
    sk.run(app, log=log, engine="local", trigger="available_now").wait()
    sk.run(totals(), log=log, engine="local", trigger="available_now").wait()
    with Server(log, port=0) as server:
        opened = browser.new_page(base_url=server.address)
        opened.goto("/applications/history/stores/prices")
        expect(opened, "document.querySelector('tbody')?.innerText.includes('333')")
        opened.get_by_label("valid at event time").fill("2026-02-02T12:00:00Z")
        opened.get_by_role("button", name="List").click()
        expect(opened, "document.querySelector('tbody')?.innerText.includes('222')")
        assert "valid_at=2026-02-02T12%3A00%3A00Z" in opened.url
        opened.reload()
        expect(opened, "document.querySelector('tbody')?.innerText.includes('222')")
        opened.goto("/applications/totals/stores/per_customer")
        expect(opened, "document.querySelectorAll('tbody tr').length === 7")
        assert not opened.get_by_label("valid at event time").count()


NOTES = (None, "", "null", "x")  # in a column beside the key


def test_each_key_of_a_list_leads_to_its_row(browser, log):
    """
    Keys with null, an empty text, bytes and a number that JavaScript would round are links, and their addresses find the row again.

    In the list, in the row and in its history null, and an empty text or empty bytes, are words, in columns of the key and in others.
    """
    log.create_topic("marks", "tag string, code binary, number bigint, note string, n int", key=["tag", "code", "number"])
    app = sk.Topology("marking")
    app.table("marks", store="marks")
    keys = [(None, b"\xff\xfb", 2**63 - 1), ("", b"", None), ("a b+c&d=e/f?g#h%20", None, -(2**53) - 1), ('"', b"\x00", 0)]
    with log.producer() as producer:
        for number, (tag, code, bound) in enumerate(keys):
            producer.send("marks", {"tag": tag, "code": code, "number": bound, "note": NOTES[number], "n": 100 + number})
    sk.run(app, log=log, engine="local", trigger="available_now").wait()
    with Server(log, port=0) as server:
        opened = browser.new_page(base_url=server.address, viewport={"width": 1280, "height": 900})
        errors: list[str] = []
        opened.on("pageerror", lambda error: errors.append(str(error)))
        for place in range(len(keys)):
            opened.goto("/applications/marking/stores/marks")
            expect(opened, "document.querySelectorAll('tbody tr').length === 4")
            row = opened.locator("tbody tr").nth(place)
            n = row.inner_text().split()[-1]
            cells = row.locator("td").all_inner_texts()
            values = (*keys[int(n) - 100], NOTES[int(n) - 100])
            assert [cells[at] for at, value in enumerate(values) if value in (None, "", b"")] == [
                "null" if value is None else "empty" for value in values if value in (None, "", b"")
            ]
            row.locator("a").click()
            for again in (False, True):
                opened.reload() if again else None
                expect(opened, "document.body.innerText.includes('1 row of this key')")
                assert opened.locator("tbody tr td").all_inner_texts() == cells
            opened.get_by_role("button", name="Its history").click()
            expect(opened, "document.body.innerText.includes('1 change of this key')")
            assert opened.locator("tbody tr td").all_inner_texts()[-len(cells) :] == cells
        opened.goto("/applications/marking/stores/marks")
        opened.get_by_label("tag is null").check()
        opened.get_by_label("code", exact=True).fill("//s=")
        opened.get_by_label("number", exact=True).fill(str(2**63 - 1))
        opened.get_by_role("button", name="Look up").click()
        expect(opened, "document.body.innerText.includes('1 row of this key')")
        assert errors == []


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
    page.get_by_role("button", name="Send the record of texts").click()
    expect(page, "document.querySelectorAll('tbody button').length === 4")
    assert len(log.read("texts")) == 26


def test_what_would_be_sent_again_is_of_what_is_shown(page, log):
    """Once other dead letters are asked for, a preview of those before is taken away, also one whose answer comes later."""
    letters_of(log, 20)
    waiting = []

    def wait(route):
        waiting.append(route)

    page.goto("/dead-letters/failed?where=offset+%3E%3D+10")
    for is_late in (False, True):
        if is_late:
            page.route("**/replay", wait)
        page.locator("tbody button").first.click()
        if not is_late:
            expect(page, "document.querySelector('.panel')?.innerText.includes('would go back')")
        page.get_by_label("where").fill("offset >= 12")
        page.get_by_role("button", name="Show").click()
        expect(page, "document.body.innerText.includes('4 dead letters that match')")
        if is_late:
            with page.expect_response("**/replay"):
                waiting[0].continue_()
            page.wait_for_timeout(300)
        assert page.locator(".panel").count() == 0 and "would go back" not in text_of(page, "main")
        page.get_by_label("where").fill("offset >= 10")
        page.get_by_role("button", name="Show").click()
        expect(page, "document.body.innerText.includes('5 dead letters that match')")


def test_no_more_is_sent_again_than_was_said(page, log):
    """Dead letters that come between the preview and the click wait for another click."""
    letters_of(log, 20)
    page.goto("/dead-letters/failed")
    page.get_by_role("button", name="Send all of these again …").click()
    expect(page, "document.body.innerText.includes('10 records would go back to texts')")
    letters_of(log, 14)
    page.get_by_role("button", name="Send 10 records again").click()
    expect(page, "document.body.innerText.includes('10 records went back to texts')")
    expect(page, "document.querySelectorAll('tbody tr').length === 17 && document.querySelectorAll('tbody button').length === 7")


def test_a_key_with_a_line_break_leads_to_its_own_row(browser, log):
    """A field of one line cannot show the break; the address is asked for as it is, until somebody types."""
    log.create_topic("lines", "name string, n int", key="name")
    app = sk.Topology("lined")
    app.table("lines", store="lines")
    keys = ["ab", "a\nb", "a\r\nb", "a\rb"]
    with log.producer() as producer:
        for number, name in enumerate(keys):
            producer.send("lines", {"name": name, "n": 100 + number})
    sk.run(app, log=log, engine="local", trigger="available_now").wait()
    with Server(log, port=0) as server:
        opened = browser.new_page(base_url=server.address)
        for place in range(len(keys)):
            opened.goto("/applications/lined/stores/lines")
            expect(opened, "document.querySelectorAll('tbody tr').length === 4")
            row = opened.locator("tbody tr").nth(place)
            number = row.locator("td").nth(1).inner_text()
            row.locator("a").click()
            for again in (False, True):
                opened.reload() if again else None
                expect(opened, "document.body.innerText.includes('1 row of this key')")
                assert opened.locator("tbody tr td").nth(1).inner_text() == number
        opened.get_by_label("name", exact=True).fill("ab")
        opened.get_by_role("button", name="Look up").click()
        expect(opened, "location.search === '?key.name=ab'")
        expect(opened, "document.querySelector('tbody tr td:nth-child(2)')?.innerText === '100'")
        opened.close()


def test_figures_of_failed_records_lead_to_their_dead_letters(page, log):
    """From the errors of an application, and from what the graph and the panel say that a step left out, to the letters of that step."""
    letters_of(log, 40)
    page.goto("/applications/parsing?step=even")
    expect(page, "document.querySelector('.graph a[href] text.dropped')?.textContent === '20 left out'")
    of_step = "/dead-letters?application=parsing&operator=even"
    assert page.locator(f".panel a[href='{of_step}']").inner_text() == "20"
    assert page.locator("dl.facts a[href='/dead-letters?application=parsing']").inner_text() == "20"
    assert page.locator(f".graph a[href='{of_step}']").count() == 1
    page.locator(".graph a[href]").click()
    expect(page, "document.body.innerText.includes('Those of the step even of parsing.')")
    page.get_by_role("link", name="failed", exact=True).click()
    expect(page, "document.body.innerText.includes('20 dead letters that match; the topic has 20 in all.')")
    page.goto("/dead-letters?application=nobody")
    expect(page, "document.body.innerText.includes('There are none: only a step or a connector')")
    page.goto("/")
    expect(page, "document.querySelector('td a[href=\"/dead-letters?application=parsing\"]')?.textContent === '20'")


def cells_of(page, selector="table"):
    """The texts of a table's rows, and which columns are numbers, which are on the right."""
    rows = [row.split("\t") for row in page.locator(f"{selector} tbody tr").all_inner_texts()]
    numbers = page.locator(f"{selector} th").evaluate_all(
        "found => found.map(one => getComputedStyle(one).textAlign === 'right')"
    )
    return [[cell.strip() for cell in row] for row in rows], numbers


def test_values_are_shown_as_they_are(page, log):
    """Whole numbers have all their digits, floats as few as they need; numbers are on the right, and times have milliseconds."""
    log.create_topic(
        "values", "id bigint, small float, large double, exact decimal(20,2), `a, b` struct<n: bigint>, word string", partitions=1
    )
    with log.producer() as producer:
        row = {
            "id": 2**60 + 1,
            "small": 0.1,
            "large": 1234.56640625,
            "exact": Decimal("1.50"),
            "a, b": {"n": 2**60 + 3},
            "word": "007",
        }
        producer.send("values", row, timestamp_ms=1_700_000_000_000)
        producer.send("values", {**row, "id": None, "small": 1 / 3}, timestamp_ms=1_700_000_000_120)
    for live in ("", "&live=true"):
        page.goto(f"/topics/values?limit=20{live}")
        if live:
            expect(page, "document.body.innerText.includes('Waiting for records')")
            with log.producer() as producer:
                producer.send("values", row, timestamp_ms=1_700_000_000_000)
        expect(page, "document.querySelector('.records th.number + th.number + th + th.number')")
        rows, numbers = cells_of(page, ".records table")
        assert rows[0][2:] == [
            "2023-11-14 22:13:20.000",
            "1152921504606846977",
            "0.1",
            "1234.56640625",
            "1.50",
            '{"n":"1152921504606846979"}',
            "007",
        ]
        assert numbers == [True, True, False, True, True, True, True, False, False]
        if not live:
            assert rows[1][2:5] == ["2023-11-14 22:13:20.120", "", "0.33333334"]


def test_figures_have_units(page):
    """Sizes are in the same units everywhere, and what tasks took is not called as their number is."""
    page.goto("/applications/totals")
    expect(page, "document.body.innerText.includes('processing')")
    expect(page, "document.querySelector('td a[href$=\"/stores/hourly\"]')")
    titles = page.locator("th").all_inner_texts()
    assert titles.count("tasks") == 1 and {"planning", "processing", "commit", "size of its changelog"} <= set(titles)
    (stores,) = [text for text in page.locator("table").all_inner_texts() if "per_customer" in text]
    assert len(re.findall(r"\t[\d.]+ (?:B|KiB)(?:\n|$)", stores)) == 2
    page.goto("/log")
    expect(page, "document.body.innerText.includes('A file waits to be deleted once')")


def test_the_log_is_checked(page, log):
    """The page says which folders there are, who maintains, and once asked whether the log is whole, else what is wrong."""
    page.goto("/log")
    expect(page, "document.body.innerText.includes('Maintenance runs beside totals')")
    assert log.root in page.inner_text("body")
    page.get_by_role("button", name="Check the log").click()
    expect(page, "document.body.innerText.includes('The log is whole')")
    log.create_topic("hurt", "n int", partitions=1)
    with log.producer() as producer:
        producer.send_batch("hurt", [{"n": number} for number in range(100_000)])
    largest = max(Path(log.root).glob("slabs/**/*.slab"), key=lambda file: file.stat().st_size)
    largest.unlink()
    page.get_by_role("button", name="Check the log").click()
    expect(page, "document.body.innerText.includes('The log is not whole')")
    assert largest.name in page.inner_text("body")


def test_what_a_group_would_do_has_an_address(page, log):
    """Who opens it sees the same preview, and nothing is done by that."""
    log.groups.reset("readers", {"orders": {0: 3, 1: 4}})
    page.goto("/groups/readers")
    page.get_by_label("from: earliest, latest, an offset or a time").fill("earliest")
    page.get_by_label("topics, with commas between").fill("orders")
    page.get_by_role("button", name="Read on from there …").click()
    expect(page, "document.body.innerText.includes('Let readers read on from there')")
    assert page.url.endswith("/groups/readers?to=earliest&topics=orders")
    page.reload()
    expect(page, "document.body.innerText.includes('Let readers read on from there')")
    assert [row.committed for row in log.groups.describe("readers").partitions] == [3, 4]
    page.get_by_role("button", name="Let readers read on from there").click()
    expect(page, "location.search === ''")
    assert [row.committed for row in log.groups.describe("readers").partitions] == [0, 0]


def test_where_a_connector_is_is_said_in_words(page, log, tmp_path):
    """What a position has beside plain values is shown on request; the task that is chosen has an address, and shows why it failed."""
    (tmp_path / "in.csv").write_text("a,b\n1,2\n3,4\n")
    source = FileSource("reading", {"path": str(tmp_path / "in.csv"), "format": "csv", "topic": "lines", "tasks.max": "2"})
    run_connectors([source], log, once=True)
    write_status(log, [TaskStatus("reading", task, FAILED, "w", "c", f"reason {task}") for task in (0, 1)])
    page.goto("/connectors/reading")
    expect(page, "/byte 12, done, line 4, rows 2/.test(document.body.innerText)")
    assert "3470" not in text_of(page, "main")
    assert page.locator("td details").evaluate("one => one.textContent.includes('\"mark\"')")
    expect(page, "document.body.innerText.includes('reason 0') && document.body.innerText.includes('reason 1')")
    page.locator("td a[href$='?task=1']").click()
    expect(page, "location.search === '?task=1' && !document.body.innerText.includes('reason 0')")
    page.reload()
    expect(
        page,
        "document.querySelector('tr.chosen') && document.body.innerText.includes('reason 1') && !document.body.innerText.includes('reason 0')",
    )
    page.go_back()
    expect(page, "document.body.innerText.includes('reason 0')")


def test_a_connector_that_is_not_there(browser, running, log, tmp_path):
    """Its page says so, and has neither buttons nor rows of it; they come when it is started."""
    _, address = running
    page = browser.new_page(base_url=address)  # of which the browser notes that the server has said 404
    page.set_default_timeout(WAIT_MS)
    page.goto("/connectors/later")
    page.wait_for_selector(".problem")
    assert "later" in text_of(page, ".problem") and not page.get_by_role("button", name="Pause").is_visible()
    assert "Positions" not in text_of(page, "main") and "Tasks" not in text_of(page, "main")
    (tmp_path / "in.csv").write_text("a,b\n1,2\n")
    source = FileSource("later", {"path": str(tmp_path / "in.csv"), "format": "csv", "topic": "lines"})
    run_connectors([source], log, once=True)
    write_status(log, [TaskStatus("later", 0, FAILED, "w", "c", "reason 0")])
    expect(page, "!document.querySelector('.problem') && document.body.innerText.includes('reason 0')")
    assert page.get_by_role("button", name="Pause").is_visible()
    page.close()


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


@pytest.mark.parametrize("width", [1000, 1280, 1920])
@pytest.mark.parametrize("branches", [3, 5, 6])
def test_a_graph_stays_whole_beside_the_panel_of_a_step(browser, log, width, branches):
    """Where the panel would take the room that a graph needs to be read, it is below; it is in view then."""
    app = sk.Topology("branches")
    orders = app.stream("orders")
    for number in range(branches):
        orders.filter(f"amount > {number}", name=f"filter_{number}").to(f"out_{number}")
    sk.run(app, log=log, engine="local", trigger="available_now").wait()
    with Server(log, port=0) as server:
        opened = browser.new_page(viewport={"width": width, "height": 700}, base_url=server.address)
        opened.goto("/applications/branches")
        expect(opened, "document.querySelector('.graph .box .figure')?.textContent")
        is_whole = "document.querySelector('.graph').scrollWidth <= document.querySelector('.graph').clientWidth"
        fits = opened.evaluate(is_whole)
        assert fits or (width == 1000 and branches > 5)
        opened.locator(".graph .box").last.click()
        expect(opened, "document.querySelector('.panel').innerText.includes('declared at')")
        assert opened.evaluate(is_whole) == fits
        panel = opened.locator(".panel").bounding_box()
        assert panel["width"] >= 320 and panel["y"] < 700
        opened.close()


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


def test_what_was_asked_for_last_is_shown(page):
    """A list of rows whose answer comes after that of a key, which was asked for later, does not replace it."""
    waiting = []

    def wait(route):
        waiting.append(route)

    page.route("**/stores/per_customer/rows*", wait)
    page.goto("/applications/totals/stores/per_customer")
    expect(page, "document.querySelector('input[name=customer]')")
    page.locator("input[name=customer]").fill("c1")
    page.get_by_role("button", name="Look up").click()
    expect(page, "document.body.innerText.includes('1 row of this key.')")
    with page.expect_response("**/stores/per_customer/rows*"):
        waiting[0].continue_()
    page.wait_for_timeout(300)
    assert "1 row of this key." in text_of(page, "main")


def test_back_leads_to_what_was_chosen_before(page):
    """Each key that is looked up, each step, each page is a place of its own: back shows the one before, not the page before the site's."""
    page.goto("/applications/totals/stores/per_customer")
    expect(page, "document.querySelector('input[name=customer]')")
    for customer in ("c1", "c2"):
        page.locator("input[name=customer]").fill(customer)
        page.get_by_role("button", name="Look up").click()
        expect(
            page,
            f"document.body.innerText.includes('1 row of this key.') && document.querySelector('td')?.innerText === '{customer}'",
        )
    page.go_back()
    expect(
        page,
        "document.querySelector('tbody')?.innerText.includes('c1') && document.querySelector('input[name=customer]').value === 'c1'",
    )
    page.go_back()
    expect(page, "document.body.innerText.includes(' rows.') && document.querySelector('input[name=customer]').value === ''")
    page.goto("/applications/totals")
    for box in (0, 1):
        page.locator(".graph .box").nth(box).click()
    page.go_back()
    expect(page, "document.querySelector('.graph .box.chosen') === document.querySelector('.graph .box')")


def test_dead_letters_begin_with_the_newest(page, log):
    """The page has the newest, says how many there are, leads to the record, and has the reason in view before long values."""
    letters_of(log, 240)
    page.goto("/dead-letters/failed")
    expect(
        page,
        "document.body.innerText.includes('100 dead letters, the newest; the topic has 120 in all, and there are older ones.')",
    )
    offsets = [int(text.split("/")[1]) for text in page.locator("tbody td:last-child").all_inner_texts()]
    assert max(offsets) == offsets[0] and len(set(offsets)) == 100
    reason = page.locator("thead th", has_text="message").bounding_box()
    assert reason["x"] + reason["width"] < 1280
    page.get_by_role("button", name="Older ones").click()
    expect(page, "document.body.innerText.includes('20 dead letters, older ones; the topic has 120 in all.')")
    page.go_back()
    expect(page, "document.body.innerText.includes('100 dead letters, the newest')")
    place = page.locator("tbody tr").first.locator("a").inner_text()
    page.locator("tbody tr").first.locator("a").click()
    expect(page, f"document.querySelector('.records tbody tr td:nth-child(2)')?.innerText === '{place.split('/')[1]}'")
    page.goto("/topics/failed?limit=500")
    expect(
        page, "document.body.innerText.includes('120 records.') && document.querySelectorAll('.records tbody tr').length === 120"
    )
    assert page.evaluate("Math.max(...[...document.querySelectorAll('.records tbody tr')].map(row => row.offsetHeight))") < 100


def test_an_unknown_application_has_no_tables(browser, log):
    """Its page says that there is none, and nothing of epochs or stores that it would not have."""
    with Server(log, port=0) as server:
        opened = browser.new_page(base_url=server.address)
        opened.goto("/applications/nope")
        expect(opened, "document.querySelector('[role=alert]')")
        assert opened.locator("h2").count() == 0 and "No epoch" not in opened.inner_text("body")
        opened.close()


def test_a_server_that_is_gone_is_said_with_the_time(browser, log):
    """What the page still shows is old then: its header says of when, in a colour that can be read on its ground."""
    server = Server(log, port=0)
    server.__enter__()
    opened = browser.new_page(base_url=server.address)
    opened.goto("/log")
    expect(opened, "document.querySelector('h2')")
    server.__exit__(None, None, None)
    expect(
        opened,
        r"/The server does not answer\. What is shown is of \d\d:\d\d:\d\d\./.test(document.querySelector('#situation').innerText)",
    )
    assert opened.evaluate(CONTRAST) > 4.5
    opened.close()


CONTRAST = """() => {
  const light = text => text.match(/[\\d.]+/g).slice(0, 3).map(one => one / 255)
    .map(one => one <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4).reduce((sum, one, at) => sum + one * [0.2126, 0.7152, 0.0722][at], 0);
  const style = getComputedStyle(document.getElementById('situation')), ground = style.backgroundColor;
  const both = [light(style.color), light(/, 0\\)$/.test(ground) ? getComputedStyle(document.querySelector('header')).backgroundColor : ground)].sort();
  return (both[1] + 0.05) / (both[0] + 0.05);
}"""


def test_sql_has_rows_and_an_address(page):
    """What is executed is in the address, by which its rows come again; what would change something waits for a click."""
    page.goto("/sql")
    page.locator("textarea").fill("SELECT id, customer FROM orders WHERE id < 3 ORDER BY id")
    page.keyboard.press("Control+Enter")
    expect(page, "document.querySelectorAll('.results tbody tr').length === 3")
    assert page.locator(".results tbody tr").all_inner_texts() == ["0\t\nc0", "1\t\nc1", "2\t\nc2"]
    page.reload()
    expect(page, "document.querySelectorAll('.results tbody tr').length === 3")
    page.goto("/sql?text=CREATE+STREAM+made+(a+INT)+WITH+(PARTITIONS+=+1)&run=true")
    expect(page, "document.querySelector('.results')?.innerText.includes('wait for Run')")
    page.get_by_role("button", name="Run").click()
    expect(page, "[...document.querySelectorAll('td button')].some(one => one.textContent === 'made')")


def test_sql_begins_with_the_dialect_of_the_server(browser, log):
    """The page of a server for users of ksqlDB reads in their dialect, also from an address that names none; another one is in the address."""
    with Server(log, port=0, sql_dialect="ksql") as server:
        opened = browser.new_page(base_url=server.address)
        opened.set_default_timeout(WAIT_MS)
        opened.goto("/sql?text=SELECT+ROWTIME,+K+FROM+nosuch&run=true")
        expect(opened, "document.querySelector('.problem')?.textContent.includes('NOSUCH')")  # as ksqlDB folds names
        assert opened.input_value("select[name=dialect]") == "ksql" and "dialect" not in opened.url
        opened.select_option("select[name=dialect]", "spark")
        expect(opened, "location.search.includes('dialect=spark')")
        opened.reload()
        expect(opened, "document.querySelector('select[name=dialect]')?.value === 'spark'")
        opened.close()


def test_the_button_of_a_source_reads_that_source(browser, log):
    """Names that differ in case, or are words of SQL, are written as the chosen dialect reads them."""
    with Server(log, port=0, allows_changes=True, sql_dialect="ksql") as server:
        named = (("`Mixed`", "a"), ("MIXED", "b"), ("`select`", "c"))
        made = "; ".join(f"CREATE STREAM {name} ({column} INT) WITH (PARTITIONS=1)" for name, column in named)
        filled = "; ".join(f"INSERT INTO {name} VALUES (1)" for name, _ in named)
        for text in (made, filled):
            httpx.post(f"{server.address}/api/v1/sql/statements", json={"text": text}).raise_for_status()
        opened = browser.new_page(base_url=server.address)
        opened.set_default_timeout(WAIT_MS)
        opened.goto("/sql")
        for source, ksql, column in (("Mixed", "`Mixed`", "A"), ("MIXED", "MIXED", "B"), ("select", "`select`", "C")):
            opened.locator("td button", has_text=re.compile(f"^{source}$")).click()
            expect(opened, f"document.querySelector('.results th')?.innerText === '{column}'")
            assert opened.input_value("textarea") == f"SELECT * FROM {ksql} LIMIT 20"
        with opened.expect_response(lambda answer: answer.url.endswith("/sql/sources?dialect=spark")):
            opened.select_option("select[name=dialect]", "spark")
        opened.locator("td button", has_text=re.compile("^Mixed$")).click()
        expect(opened, "document.querySelector('textarea').value === 'SELECT * FROM Mixed LIMIT 20'")
        opened.close()


def test_sql_has_words_and_faults(page):
    """Tab accepts the word that is offered; what is wrong is marked while one types, and has a button that leads to its place."""
    page.goto("/sql")
    area = page.locator("textarea")
    area.press_sequentially("SELECT * FROM ord")
    expect(page, "document.querySelector('.words li')?.innerText.startsWith('orders')")
    page.keyboard.press("Tab")
    assert area.input_value() == "SELECT * FROM orders"
    area.press_sequentially(";\nSELEC 1")
    expect(page, "document.querySelector('.editor mark')?.textContent === 'SELEC'")
    page.locator("textarea").fill("SHOW STREAMS;\nSELEC <b>1</b>")
    expect(page, "document.querySelector('.said').innerText.startsWith('line 2:1')")
    assert page.locator(".editor b").count() == 0


def test_words_that_come_late_are_offered(page):
    """The page offers words whose answer comes behind the one about faults."""
    text, held = "SELECT * FROM ord", []

    def hold(route):
        held.append(route)

    def is_about_the_text(answer):
        return answer.url.endswith("/sql/faults") and answer.request.post_data_json["text"] == text

    page.goto("/sql")
    page.route("**/api/v1/sql/words", hold)
    with page.expect_response(is_about_the_text):
        page.locator("textarea").press_sequentially(text)
    for route in held:
        route.continue_()
    expect(page, "document.querySelector('.words li')?.innerText.startsWith('orders')")
    page.unroute("**/api/v1/sql/words")


def test_places_behind_characters_that_a_browser_counts_twice(browser, running):
    """What is wrong is marked there, and a word takes the place of the one that was typed."""
    page = browser.new_page(base_url=running[1])
    page.set_default_timeout(WAIT_MS)
    page.goto("/sql")
    area = page.locator("textarea")
    area.fill("SELECT '😁😁😁' AS e, FROM orders")
    expect(page, "document.querySelector('.editor mark')?.textContent === 'FROM'")
    page.get_by_role("button", name="Run").click()
    page.get_by_role("button", name="line 1:").click()
    assert area.evaluate("area => area.value.slice(area.selectionStart, area.selectionEnd)") == "FROM"
    area.fill("")
    area.press_sequentially("SELECT '😁😁😁' AS e FROM ord")
    expect(page, "document.querySelector('.words li')?.innerText.startsWith('orders')")
    page.keyboard.press("Tab")
    assert area.input_value() == "SELECT '😁😁😁' AS e FROM orders"
    page.close()


def test_words_are_offered_below_the_one_that_is_typed(page):
    """Not over the line of help, and not once the word has all its letters."""
    page.goto("/sql")
    area = page.locator("textarea")
    area.press_sequentially("SELECT *\nFROM ord")
    expect(page, "document.querySelector('.words li')?.innerText.startsWith('orders')")
    words, help_line = page.locator(".words").bounding_box(), page.locator(".keys").bounding_box()
    assert words["y"] + words["height"] < help_line["y"]
    line = 20
    assert area.bounding_box()["y"] + 2 * line < words["y"] < area.bounding_box()["y"] + 3.5 * line
    area.press_sequentially("er")
    expect(page, "document.querySelector('.words li')?.innerText.startsWith('orders')")
    area.press_sequentially("s")
    expect(page, "document.querySelector('.words').hidden")
    area.press_sequentially(" where")
    page.wait_for_event("response", lambda answer: answer.url.endswith("/sql/faults"))
    assert page.locator(".words").is_hidden()


def test_what_a_run_finds_is_said_once(browser, running):
    """Below the button, also once the text is checked again; another fault is said as before."""
    page = browser.new_page(base_url=running[1])
    page.set_default_timeout(WAIT_MS)
    page.goto("/sql")
    area = page.locator("textarea")
    area.fill("SELECT id FROM orders WHER id = 1;\nSELECT 1 FROM")
    page.get_by_role("button", name="Run").click()
    expect(page, "document.querySelector('.results .problem')?.innerText.includes('line 1:')")
    assert text_of(page, ".said") == ""
    with page.expect_response("**/sql/faults"):
        area.press("Control+End")
        area.press_sequentially(" ")
    expect(page, "document.querySelector('.editor mark')")
    assert text_of(page, ".said") == ""
    area.fill("SELEC 1")
    expect(page, "document.querySelector('.said').innerText.startsWith('line 1:1')")
    page.close()


def test_what_a_run_finds_stays_marked(browser, running):
    """A column that is not there is marked behind Run, and the check of what was typed before does not take the mark away."""
    page = browser.new_page(base_url=running[1])
    page.set_default_timeout(WAIT_MS)
    page.goto("/sql")
    page.locator("textarea").fill("SELECT n FROM orders")
    page.get_by_role("button", name="Run").click()
    expect(page, "document.querySelector('.results .problem')?.innerText.includes('line 1:8')")
    for _ in range(2):
        page.wait_for_event(
            "response", lambda answer: "/sql/sources" in answer.url
        )  # a check that was still waiting would be over
    assert page.locator(".editor mark").all_text_contents() == ["n"]
    page.close()


def test_sql_shows_rows_as_they_come(page, log):
    """A query that goes on shows what is sent, newest first, as text; Stop ends it."""
    page.goto("/sql?text=SELECT+id,+customer+FROM+orders+WHERE+id+>=+1000+EMIT+CHANGES&run=true")
    expect(page, "document.querySelector('.results .note')?.textContent.includes('0 rows')")
    with log.producer() as producer:
        producer.send("orders", {"id": 1_000, "customer": SCRIPT, "amount": 1.0})
    expect(page, "document.querySelectorAll('.results tr.new').length === 1")
    assert SCRIPT in text_of(page, ".results tbody") and page.title() != "broken"
    page.get_by_role("button", name="Stop").click()
    expect(page, "document.querySelector('.results .note')?.textContent.includes('Stopped')")


def test_sql_shows_the_place_of_a_row_that_fails(page, log):
    """What ends a query that goes on has its line and carets in a font whose letters are as wide as each other, so that they point at the word."""
    page.goto("/sql?text=SELECT+id,+1/(id-id)+AS+n+FROM+orders+EMIT+CHANGES&run=true")
    expect(page, "document.querySelector('.results .note')?.textContent.includes('0 rows')")
    with log.producer() as producer:
        producer.send("orders", {"id": 1_001, "customer": "c", "amount": 1.0})
    page.wait_for_selector(".results .problem pre")
    (line, carets) = page.locator(".results .problem pre").inner_text().splitlines()[1:3]
    assert carets.strip(" ") == "^" * len("1/(id-id)") and line[carets.index("^") :].startswith("1/(id-id)")
    assert "monospace" in page.locator(".results .problem pre").evaluate("one => getComputedStyle(one).fontFamily")
    assert "^" not in page.locator(".results .problem strong").inner_text()


def test_sql_controls_queries(page, log):
    """Queries are paused and resumed, and terminated for good after a second click."""
    with sk.SqlSession(log) as session:
        session.execute("CREATE TABLE sums AS SELECT customer, sum(amount) AS s FROM orders GROUP BY customer")
    page.goto("/sql")
    page.get_by_role("button", name="Pause").click()
    expect(page, "document.body.innerText.includes('paused')")
    page.get_by_role("button", name="Resume").click()
    expect(page, "document.body.innerText.includes('waiting')")
    page.get_by_role("button", name="Terminate").click()
    page.get_by_role("button", name="Terminate for good").click()
    expect(page, "document.body.innerText.includes('There is no persistent query.')")
    assert log.catalog.sql.objects().queries == ()


def test_a_trace_shows_where_a_record_is(browser, log, tmp_path):
    """The partition and the offset of a record are in view in a window of 1280 pixels, also beside many columns."""
    log.create_topic("readings", "id bigint, sensor string, city string, temperature string, at string", key="id")
    app = sk.Topology("traced")
    app.stream("readings").with_columns(temperature=F.col("temperature").cast("double")).to("degrees")
    row = {"id": 365_127, "sensor": "s8", "city": "São Paulo", "temperature": "19.16", "at": "2026-11-29T07:43:32.252550+00:00"}
    sk.trace(app, {"readings": [row]}, log=log).to_html(str(tmp_path / "trace.html"))
    opened = browser.new_page(viewport={"width": 1280, "height": 900})
    opened.goto(f"file://{tmp_path / 'trace.html'}")
    expect(opened, "document.querySelector('table')")
    for name in ("_partition", "_offset"):
        heads = opened.locator(f"th:text-is('{name}')")
        assert heads.count() == 2  # of the record that was taken, and of the one that was written
        for box in (head.bounding_box() for head in heads.all()):
            assert box["x"] + box["width"] < 1280
    assert opened.locator("th:text-is('_timestamp')").count() == 2
    assert not any(
        "+00:00" in text for text in opened.locator("table:has(th:text-is('_timestamp')) td:last-child").all_inner_texts()
    )
    opened.close()
