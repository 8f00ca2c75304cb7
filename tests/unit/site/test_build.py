"""The site as `make docs` builds it: every link leads somewhere, every page can be found, and no other host is asked."""

from __future__ import annotations

import functools
import os
import re
import shutil
import threading
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from scripts.site import pages
from scripts.site.build import build, gather

pytest.importorskip("zensical", reason="the site is built by Python 3.11 or newer")
yaml = pytest.importorskip("yaml")

CHROMIUM = os.environ.get("STREAMKIT_CHROMIUM") or shutil.which("chromium")
# What a page loads when it is opened; a link that a reader may follow is none of these
LOADED = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src", "object": "data"}
NOT_LOADED = {"canonical", "next", "prev", "alternate"}


class _Loads(HTMLParser):
    """Collects the addresses that a page loads."""

    def __init__(self):
        super().__init__()
        self.found = []

    def handle_starttag(self, tag, attrs):
        named = dict(attrs)
        if tag in LOADED and named.get("rel") not in NOT_LOADED and (address := named.get(LOADED[tag])):
            self.found.append(address)


def loads_of(html):
    parser = _Loads()
    parser.feed(html)
    return parser.found


def entries(nav):
    """All pages of a navigation."""
    for entry in nav:
        for one in entry.values() if isinstance(entry, dict) else [entry]:
            yield from entries(one) if isinstance(one, list) else [one]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site, built as `make docs` does, in a folder of its own; every link and every anchor leads somewhere, or there is none."""
    folder = tmp_path_factory.mktemp("site")
    assert build(folder) == 0
    return folder / "site"


@pytest.fixture(scope="module")
def address(site):
    """A plain web server over the site."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(site)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.slow
def test_no_page_loads_from_another_host(site):
    """All scripts, styles and pictures of all pages are files of the site."""
    files = sorted(site.rglob("*.html"))
    foreign = {address for file in files for address in loads_of(file.read_text(encoding="utf-8")) if urlsplit(address).netloc}

    assert foreign == set()
    assert len(files) > 50


@pytest.mark.slow
def test_classes_are_documented(site):
    """The page of classes has their methods with arguments, and the learning pages have the cells of notebooks."""
    classes = (site / "reference" / "classes" / "index.html").read_text(encoding="utf-8")
    notebook = (site / "learn" / "04_time" / "index.html").read_text(encoding="utf-8")

    assert {"late_to", "max_records_per_epoch", "auto_offset_reset", "advance_wall_clock"} <= set(re.findall(r"\w+", classes))
    assert "Event time" in notebook or "event time" in notebook


def test_every_page_is_in_the_navigation():
    """The navigation has every page once, and no other; its seven parts are those of the folders."""
    settings = yaml.safe_load((pages.ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    places = {str(pages.place_of(source)) for source in pages.sources()}
    listed = list(entries(settings["nav"]))

    assert sorted(listed) == sorted(place for place in places if place.endswith(".md"))
    parts = [name for entry in settings["nav"] if isinstance(entry, dict) for name in entry]
    assert [part.lower().replace(" ", "-") for part in parts] == list(pages.PARTS)


def test_links_follow_the_pages():
    """A link leads to the place of its page in the site; one to code becomes its text, and one that leads nowhere stays, for the build."""
    source = Path("docs/how-to/late-data.md")
    text = "[a](../event-time.md#late-data) [b](../../conf/alerts.yaml) [c](nothing.md) [d](https://x.y)\n```\n[e](../state.md)\n```\n"

    assert pages.moved(source, text) == (
        "[a](../inside/event-time.md#late-data) b [c](nothing.md) [d](https://x.y)\n```\n[e](../state.md)\n```\n"
    )


def test_pages_are_gathered_afresh(tmp_path):
    """A page that has gone leaves nothing in the folder that the site is built from."""
    (tmp_path / "gone.md").write_text("# Gone")
    gather(tmp_path)

    assert not (tmp_path / "gone.md").exists()
    assert (tmp_path / "index.md").exists()


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium; STREAMKIT_CHROMIUM names one that is not on the PATH")
def test_search_finds_pages_without_the_network(address):
    """In a browser the search finds a page and opens it; no script fails, and no other host is asked."""
    sync_api = pytest.importorskip("playwright.sync_api")
    errors, asked = [], set()
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(base_url=address)
        page.set_default_timeout(60_000)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
        page.on("request", lambda request: asked.add(urlsplit(request.url).netloc))
        page.goto("/")
        page.locator(".md-search__button").first.click()
        page.get_by_role("combobox", name="Search").fill("late records")
        page.locator("a", has_text="Late records").and_(page.locator("a", has=page.locator("mark"))).first.click()
        page.wait_for_url(re.compile("late"))
        browser.close()

    assert errors == []
    assert asked == {urlsplit(address).netloc}
