"""The pages as files: what is served, and what they may not do."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from streamkit.serve.pages import ADDRESSES, page_files
from tests.unit.serve.conftest import serving

FOLDER = Path(__file__).parents[3] / "streamkit" / "serve" / "static"


@pytest.mark.parametrize("address", ADDRESSES)
def test_each_address_is_a_page(api, address):
    """Whatever page an address is of, a browser gets the one file whose script shows it, also where a state follows."""
    answer = api.get(
        address.replace("{", "").replace("}", ""), params={"any": "state"}, headers={"Accept": "text/html,*/*;q=0.8"}
    )
    assert answer.status_code == 200 and answer.headers["content-type"] == "text/html; charset=utf-8"
    assert "/static/pages.js" in answer.text
    assert "default-src 'self'" in answer.headers["content-security-policy"]


def test_files_are_served_and_no_others(api):
    """The files of the pages are served with their kinds; what lies elsewhere is not, however it is spelled."""
    for name in page_files():
        answer = api.get(f"/static/{name}")
        assert answer.status_code == 200 and answer.content == (FOLDER / name).read_bytes()
    assert api.get("/static/views/graph.js").headers["content-type"] == "text/javascript; charset=utf-8"
    for name in ("../pages.py", "..%2fpages.py", "%2e%2e/pages.py", "views", "views/", "nothing.js", "/etc/passwd"):
        assert api.get(f"/static/{name}").status_code == 404


def test_a_person_gets_a_page_where_there_is_none(api):
    """The page says so; who asks for JSON, or for a path of the API, gets words in JSON, all with 404."""
    page = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
    for path, headers, form in (("/nowhere", page, "text/html"), ("/nowhere", {}, "json"), ("/api/v1/topics/nix", page, "json")):
        answer = api.get(path, headers=headers)
        assert answer.status_code == 404 and form in answer.headers["content-type"]
        assert "default-src 'self'" in answer.headers["content-security-policy"]
    assert "/static/pages.js" in api.get("/nowhere", headers=page).text


def test_all_files_belong_to_the_package():
    """Each file of the folder is one that is served, so that none is forgotten in a wheel."""
    found = {path.relative_to(FOLDER).as_posix() for path in FOLDER.rglob("*") if path.is_file()}
    assert found == set(page_files())


@pytest.mark.parametrize("name", sorted(page_files()))
def test_no_file_names_another_host(name):
    """Pages load nothing from elsewhere, and no script makes HTML of a text."""
    text = page_files()[name].decode()
    assert not re.findall(r"(?:https?:)?//(?!www\.w3\.org/)[a-z0-9.-]+\.[a-z]{2,}", text)
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function", text)


@pytest.mark.skipif(shutil.which("node") is None, reason="there is no Node.js to read the scripts with")
@pytest.mark.parametrize("name", sorted(one for one in page_files() if one.endswith(".js")))
def test_scripts_are_modules(name, tmp_path):
    """Each script is one that a browser can read, and views export what draws them."""
    file = tmp_path / "script.mjs"
    file.write_bytes(page_files()[name])
    done = subprocess.run(["node", "--check", file], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert not name.startswith("views/") or re.search(
        r"^export (async )?function render\(\{model, el", file.read_text(), re.MULTILINE
    )


def test_the_graph_has_room_for_figures(worked):
    """The drawing has a box for each step, with its lines, the stores, the user's line, and room for what the step does now."""
    with serving(worked) as client:
        drawing = client.get("/api/v1/applications/totals/graph").json()
        steps = {one["step"] for one in client.get("/api/v1/applications/totals/steps").json()}
        assert client.get("/api/v1/applications/nobody/graph").status_code == 404
    boxes = {box["id"]: box for box in drawing["boxes"]}
    assert steps == {step for box in boxes.values() for step in box["steps"]}
    assert {store for box in boxes.values() for store in box["stores"]} == {"per_customer", "hourly"}
    assert all((box["lines"][-1]["part"], box["lines"][-1]["text"]) == ("figures", "") for box in boxes.values())
    assert all(flow["start"] in boxes and flow["end"] in boxes and len(flow["points"]) >= 2 for flow in drawing["flows"])
    assert "conftest.py" in boxes["stream-orders"]["line"]
