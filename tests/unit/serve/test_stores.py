"""Rows of stores."""

from __future__ import annotations

import json

import pytest

import streamkit as sk
from streamkit import functions as F
from streamkit.log.opening import open_log
from tests.unit.serve.conftest import send_orders, serving, totals

STORES = "/api/v1/applications/totals/stores"

pytestmark = pytest.mark.usefixtures("worked")


def pages(get, path, **parameters):
    page = get(path, **parameters)
    found = page["rows"]
    while page["cursor"] is not None:
        assert page["is_complete"] is False and len(found) < 10_000
        page = get(path, **parameters, cursor=page["cursor"])
        found += page["rows"]
    assert page["is_complete"] is True
    return found


def test_the_program_says_the_same(get, described):
    """Descriptions, the row of a key, its windows and all rows are what --json of the command line prints."""
    assert get(STORES) == described("store", "list", "totals")
    assert get(f"{STORES}/hourly") == described("store", "list", "totals")[1]
    assert get(f"{STORES}/per_customer", customer="c3")["rows"] == described("store", "get", "totals", "per_customer", "c3")
    windows = get(f"{STORES}/hourly", customer="c3")["rows"]
    assert windows == described("store", "get", "totals", "hourly", "c3")
    assert len(windows) > 3
    one = get(f"{STORES}/hourly", customer="c3", window=windows[1]["window_start"])["rows"]
    assert one == [windows[1]]
    for store in ("per_customer", "hourly"):
        assert get(f"{STORES}/{store}/rows", limit=1_000)["rows"] == described("store", "scan", "totals", store)


@pytest.mark.parametrize("limit", [1, 2, 5, 100])
@pytest.mark.parametrize(
    ("store", "asked"),
    [
        ("per_customer", {}),
        ("per_customer", {"start": "c2", "end": "c5"}),
        ("per_customer", {"starts_with": "c"}),
        ("per_customer", {"prefix": "c4"}),
        ("hourly", {}),
        ("hourly", {"start": "2023-11-14T23:00:00Z", "end": "2023-11-15T03:00:00Z"}),
        ("hourly", {"prefix": "c1"}),
        ("hourly", {"starts_with": "c"}),
    ],
)
def test_pages_have_each_row_once(get, store, asked, limit):
    """Cursors lead through all rows, in the order of one large page, whatever bounds them."""
    path = f"{STORES}/{store}/rows"
    assert pages(get, path, limit=limit, **asked) == get(path, limit=1_000, **asked)["rows"] != []


def test_what_is_not_there(refused, api):
    """A key without a row, a store that is none, a column that is none: each in words."""
    assert refused(f"{STORES}/per_customer", customer="nobody")[0] == 404
    assert "there are" in refused(f"{STORES}/nothing")[1] or refused(f"{STORES}/nothing")[0] == 404
    status, said = refused(f"{STORES}/per_customer", client="c1")
    assert (status, "'client', which is no key column" in said) == (400, True)
    assert refused(f"{STORES}/per_customer", window="2023-11-14")[0] == 400
    assert refused(f"{STORES}/per_customer/rows", limit=10**6)[0] == 413
    assert refused(f"{STORES}/per_customer/rows", cursor="x")[0] == 400
    assert refused(f"{STORES}/per_customer/rows", start="a", starts_with="c")[0] == 400
    answer = api.get(f"{STORES}/<script>alert(1)<%2Fscript>")
    assert answer.status_code == 404 and answer.headers["Content-Type"] == "application/json"


def test_rows_in_other_forms(api):
    """Lines of JSON and an Arrow stream have the same rows, with the cursor in a header."""
    import pyarrow as pa

    path = f"{STORES}/per_customer/rows"
    rows = api.get(path, params={"limit": 2}).json()
    lines = api.get(path, params={"limit": 2}, headers={"Accept": "application/x-ndjson"})
    assert lines.headers["X-StreamKit-Cursor"] == rows["cursor"]
    arrow = api.get(path, params={"limit": 2}, headers={"Accept": "application/vnd.apache.arrow.stream"})
    assert pa.ipc.open_stream(arrow.content).read_all().to_pylist() == rows["rows"]
    assert len(lines.text.splitlines()) == 2


def test_keys_of_other_kinds():
    """Keys of several columns, of numbers, with nulls, and with names that parameters have, are found and paged."""
    with open_log(":memory:") as log:
        log.create_topic("orders", "limit bigint, city string, amount double", partitions=2)
        app = sk.Topology("totals")
        app.stream("orders").group_by("limit", "city").agg(n=F.count("*"), store="per_key").to("out")
        with log.producer() as producer:
            for number in range(40):
                row = {"limit": number % 5 or None, "city": "ab"[number % 2] if number % 3 else None, "amount": 1.0}
                producer.send("orders", row)
        sk.run(app, log=log, engine="local", trigger="available_now").wait()
        with serving(log) as client:
            get = lambda path, **parameters: client.get(path, params=parameters).json()  # noqa: E731
            every = get(f"{STORES}/per_key/rows", limit=1_000)["rows"]
            assert len(every) > 10
            for limit in (1, 3, 7):
                assert pages(get, f"{STORES}/per_key/rows", limit=limit) == every
            row = next(one for one in every if one["limit"] and one["city"])
            assert get(f"{STORES}/per_key", limit=row["limit"], city=row["city"])["rows"] == [row]
            assert get(f"{STORES}/per_key", **{"key.limit": row["limit"], "city": row["city"]})["rows"] == [row]


def test_rows_as_they_were(worked, api):
    """`as_of` names an epoch or a time: the row of a key, and pages of rows; what is not known is said."""
    base = "/api/v1/applications/totals/stores/per_customer"
    then = api.get(f"{base}/rows").json()["rows"]
    epoch, moment = (
        api.get(base).headers["X-StreamKit-Epoch"],
        api.get("/api/v1/applications/totals/epochs").json()[-1]["committed_at"],
    )
    send_orders(worked, 1_000, 30)
    sk.run(totals(), log=worked, engine="local", trigger="available_now").wait()
    now = api.get(f"{base}/rows").json()["rows"]
    assert sum(row["n"] for row in now) == sum(row["n"] for row in then) + 30
    assert api.get(f"{base}/rows", params={"as_of": epoch}).json()["rows"] == then
    assert api.get(f"{base}/rows", params={"as_of": moment}).json()["rows"] == then
    first = api.get(f"{base}/rows", params={"as_of": epoch, "limit": 3}).json()
    rest = api.get(f"{base}/rows", params={"as_of": epoch, "cursor": first["cursor"]}).json()
    assert first["rows"] + rest["rows"] == then
    for other in ({}, {"as_of": epoch, "start": "c3"}, {"as_of": epoch, "prefix": "c3"}, {"as_of": epoch, "starts_with": "c"}):
        refused = api.get(f"{base}/rows", params={**other, "cursor": first["cursor"]})
        assert refused.status_code == 400 and "the same question as for the page before" in refused.json()["message"]
    hours = api.get(f"{STORES}/hourly/rows", params={"as_of": epoch, "cursor": first["cursor"]})
    assert hours.status_code == 400 and "found store=hourly, and a cursor of store=per_customer" in hours.json()["message"]
    for row in then:
        assert api.get(base, params={"customer": row["customer"], "as_of": epoch}).json()["rows"] == [row]
    assert api.get(f"{base}/rows", params={"as_of": "99999"}).status_code == 400
    assert api.get(f"{base}/rows", params={"as_of": "noon"}).status_code == 400


def test_what_became_of_a_key(worked, api, printed):
    """Each change has its epoch and the row behind it, oldest first, as the command line prints them."""
    base = "/api/v1/applications/totals/stores/per_customer/history"
    send_orders(worked, 1_000, 30)
    sk.run(totals(), log=worked, engine="local", trigger="available_now").wait()
    changes = api.get(base, params={"customer": "c3"}).json()["changes"]
    assert [change["n"] for change in changes] == sorted(change["n"] for change in changes) and len(changes) >= 2
    assert changes[-1]["n"] == api.get(base.removesuffix("/history"), params={"customer": "c3"}).json()["rows"][0]["n"]
    assert json.loads(printed("store", "history", "totals", "per_customer", "c3")) == changes
    assert api.get(base, params={"customer": "c3", "limit": 1}).json() == {"changes": changes[-1:], "is_complete": False}
    assert api.get(base, params={"customer": "nobody"}).json()["changes"] == []
    assert api.get(base).status_code == 400
