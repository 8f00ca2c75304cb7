"""The views of notebooks in a real browser, as anywidget loads them: one text a module, with a model beside it."""

from __future__ import annotations

import os
import re
import shutil

import pytest

import streamkit as sk
from streamkit.notebook.view_module import view_module, view_style
from streamkit.serve.pages import page_files
from tests.kit.waiting import wait_until
from tests.unit.notebook.conftest import send_orders, totals

CHROMIUM = os.environ.get("STREAMKIT_CHROMIUM") or shutil.which("chromium")
SCRIPT = "<script>document.title='broken'</script><b>"
RENDER = """async ([view, style, page, values]) => {
  const load = text => import(URL.createObjectURL(new Blob([text], {type: 'text/javascript'})));
  const {default: {render}} = await load(view), {Model} = await load(page);
  const css = document.createElement('style'), el = document.createElement('div');
  css.textContent = style;
  document.head.append(css);
  document.body.replaceChildren(el);
  window.model = new Model(values);
  await render({model, el});
}"""

pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="there is no Chromium; STREAMKIT_CHROMIUM names one that is not on the PATH"
)


@pytest.fixture(scope="module")
def browser():
    sync_api = pytest.importorskip("playwright.sync_api")
    with sync_api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture
def page(browser):
    """An empty page; in the end no script of it has failed, and nothing was asked of any host."""
    opened = browser.new_page()
    errors, asked = [], []
    opened.on("pageerror", lambda error: errors.append(str(error)))
    opened.on("console", lambda message: errors.append(message.text) if message.type in ("error", "warning") else None)
    opened.on("request", lambda request: asked.append(request.url) if not request.url.startswith("blob:") else None)
    yield opened
    opened.close()
    assert errors == [] and asked == []


def render(page, watch):
    page.evaluate(RENDER, [view_module(watch.VIEW), view_style(), page_files()["model.js"].decode(), watch._values])


def put(page, watch):
    """The values of the watch in the model, but the drawing, which never changes."""
    page.evaluate(
        "values => window.model.put(values)", {name: value for name, value in watch._values.items() if name != "drawing"}
    )


def numbers(path):
    return [float(text) for text in re.findall(r"[\d.]+", path)]


def test_a_run_moves(page, log):
    """The graph has rates once there are two looks, a chosen box tells its figures, and in the end totals stand in their place."""
    run = sk.run(totals(), log=log, engine="local")
    watch = run.watch()
    wait_until(lambda: run.records() == 70)
    repr(watch)
    render(page, watch)
    assert page.locator(".graph .box").count() == 4 and "running" in page.locator(".facts").first.inner_text()

    send_orders(log, 70, 30)
    wait_until(lambda: run.records() == 100)
    first_ms = watch._values["looked_ms"]
    repr(watch)
    watch._values["looked_ms"] = first_ms + 2_000
    put(page, watch)
    figures = page.locator(".graph .box .figure").all_text_contents()
    assert figures[0].startswith("15/s · ")
    page.locator(".graph .box").first.click()
    assert page.evaluate("window.model.get('chosen')") == "stream-orders"
    assert page.locator(".panel").inner_text().split("rows in")[1].split()[0] == "100"

    run.stop()
    repr(watch)
    put(page, watch)
    assert page.locator(".graph .box .figure").first.text_content() == "100 in"
    assert "The run has ended" in page.inner_text("body")
    page.locator("summary").click()
    assert page.locator(".bars .bar").count() == len(watch._values["epochs"])


def test_rows_and_their_chart_are_drawn(page, log):
    """A table has the rows, those that are new are marked, values are text whatever they look like, and the chart has its lines."""
    watch = log.watch("orders", chart=("id", "amount", "customer"), rows=10)
    repr(watch)
    render(page, watch)
    assert page.locator("tbody tr").count() == 10 and page.locator("svg.chart path.line").count() == 7
    with log.producer() as producer:
        producer.send("orders", {"id": 1, "customer": SCRIPT, "amount": 1.5})
    repr(watch)
    put(page, watch)
    assert SCRIPT in page.locator("tbody tr.new").inner_text() and page.locator("tbody b").count() == 0
    assert page.title() != "broken"


def test_a_chart_in_the_browser_is_the_chart_of_saved_notebooks(page, log):
    """Both have the same points."""
    watch = log.watch("orders", chart=("id", "amount"))
    html = watch._repr_html_()
    render(page, watch)
    drawn = page.locator("svg.chart path.line").get_attribute("d")
    (saved,) = re.findall(r'd="(M[^"HV]+)" fill="none"', html)
    assert len(numbers(drawn)) == 2 * 70 and numbers(drawn) == numbers(saved)


def test_styles_stay_inside(page, log):
    """What is outside of the view looks as before."""
    page.set_content("<table><tr><td>mine</td></tr></table><h1>mine</h1>")
    before = page.evaluate("['td', 'h1'].map(name => getComputedStyle(document.querySelector(name)).cssText)")
    page.add_style_tag(content=view_style())
    assert page.evaluate("['td', 'h1'].map(name => getComputedStyle(document.querySelector(name)).cssText)") == before
    watch = log.watch("orders")
    repr(watch)
    render(page, watch)
    assert page.evaluate("getComputedStyle(document.querySelector('.streamkit td')).paddingLeft") == "12px"
