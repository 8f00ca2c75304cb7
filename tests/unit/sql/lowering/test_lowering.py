"""Queries become the streams and tables that the same has in Python."""

from __future__ import annotations

import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import streamkit as sk
from streamkit import functions as F
from streamkit.dsl.stream import Stream
from streamkit.errors import TopologyError
from streamkit.sql.tree.query import WindowClause, Within
from streamkit.testing import TopologyTestDriver
from tests.kit.sql_queries import join, lowered_query, query, rows_of

MINUTE_MS, HOUR_MS, DAY_MS = 60_000, 3_600_000, 86_400_000
ONE = F.count(F.lit(1))


@pytest.fixture
def app():
    return sk.Topology("queries")


@pytest.fixture
def clicks(app):
    return app.stream(
        "clicks", schema="id int, user string, url string, n int, tags array<string>, at struct<city:string>", key="id"
    )


@pytest.fixture
def views(app):
    return app.stream("views", schema="view int, user string, page string", key="view")


@pytest.fixture
def users(app):
    return app.table("users", schema="id string, name string, url string, city string", key="id")


@pytest.fixture
def levels(app):
    return app.table("levels", schema="id string, level int", key="id")


def test_a_query_for_all_columns_is_its_source(clicks):
    """`SELECT *` makes no step."""
    assert rows_of(query(["*"], "clicks"), clicks=clicks) == clicks


def test_conditions_and_expressions_are_a_filter_and_a_select(clicks):
    """WHERE is a filter before the expressions, which have their names by AS, and a column its own."""
    asked = query(["c.url", ("upper(c.user)", "who"), "c.at.city"], "clicks c", where="c.n > 3")

    expected = clicks.filter(F.col("n") > 3).select("url", F.upper("user").alias("who"), F.col("at.city").alias("city"))
    assert rows_of(asked, clicks=clicks) == expected


def test_a_result_without_a_name_has_its_text_as_one(clicks):
    """An expression is called by its text, without the source."""
    assert lowered_query(query(["upper(c.user)"], "clicks c"), clicks=clicks).source.columns == (
        ("id", "int"),
        ("upper(user)", "string"),
    )


def test_names_are_found_in_any_case(clicks):
    """A name in another case means the column, whose own spelling the result has."""
    assert rows_of(query(["URL", "N"], "clicks"), Clicks=clicks) == clicks.select("url", "n")


def test_the_key_has_the_name_that_the_query_gives_it(users):
    """A key column that has another name in SELECT is called so; a name that another column has goes to the key, and that one gets a new one."""
    assert rows_of(query([("id", "user_id"), "name"], "users"), users=users) == users.rename(id="user_id").select(
        "user_id", "name"
    )

    swapped = lowered_query(query([("id", "name"), ("name", "id")], "users"), users=users)
    assert (swapped.source.columns, swapped.source.key) == ((("name", "string"), ("id", "string")), ("name",))


def test_a_key_beside_its_copy_keeps_its_name(users):
    """A key column under its own name and another one is copied."""
    asked = query(["id", ("id", "copy")], "users")

    assert rows_of(asked, users=users) == users.select("id", F.col("id").alias("copy"))


def test_fields_of_a_struct(clicks):
    """`at.*` are the fields, where `at` is a column and no source."""
    assert rows_of(query(["at.*"], "clicks"), clicks=clicks) == clicks.select(F.col("at.city").alias("city"))


def test_columns_that_are_not_known_are_taken_by_name(app):
    """A stream without a schema takes names as they are, without the source before them."""
    clicks = app.stream("clicks")
    asked = query(["c.url", ("upper(user)", "who")], "clicks c", where="c.n > 3")

    assert rows_of(asked, clicks=clicks) == clicks.filter(F.col("n") > 3).select("url", F.upper("user").alias("who"))
    assert rows_of(query(["*", ("n + 1", "m")], "clicks"), clicks=clicks) == clicks.select("*", (F.col("n") + 1).alias("m"))


def test_a_join_without_known_columns_takes_those_that_are_named(app):
    """Of a source whose columns are not known, a join takes the columns that the query names with it."""
    clicks, users = app.stream("clicks"), app.table("users")
    asked = query(["c.url", "u.name"], "clicks c", join("inner", "users u", "c.user = u.id"))

    expected = clicks.select("url", "user").join(users.select("name", "id"), on={"user": "id"}).select("url", "name")
    assert rows_of(asked, clicks=clicks, users=users) == expected
    with pytest.raises(TopologyError, match=r"the columns of c are not known, so \* cannot name them"):
        rows_of(query(["*"], "clicks c", join("inner", "users u", "c.user = u.id")), clicks=clicks, users=users)


def test_stars_tell_columns_of_one_name_apart(clicks, users):
    """The later one has its source in its name; a column that both sides are joined by is there once, and again if its source asks for it."""
    every = query(["*"], "clicks c", join("left", "users u", "c.user = u.id"))
    each = query(["c.*", "u.*"], "clicks c", join("left", "users u", "c.user = u.id"))
    own = ("id", "user", "url", "n", "tags", "at")

    for asked, others in ((every, ("name", "u_url", "city")), (each, ("u_id", "name", "u_url", "city"))):
        columns = lowered_query(asked, clicks=clicks, users=users).source.columns or ()
        assert tuple(name for name, _ in columns) == (*own, *others)
    assert rows_of(every, clicks=clicks, users=users) == clicks.join(users.rename(url="u_url"), on={"user": "id"}, how="left")


def test_a_stream_meets_a_table(clicks, users):
    """Columns of the table that the stream has, too, are renamed before; the table's key is not there twice."""
    asked = query(["c.url", "name", ("u.url", "site"), "u.id"], "clicks c", join("left", "users u", "c.user = u.id"))
    found = lowered_query(asked, clicks=clicks, users=users)

    assert found.source.key == ("user",)
    assert dict(found.source.columns or ()) == {
        "user": "string",
        "url": "string",
        "name": "string",
        "site": "string",
        "id": "string",
    }


def test_a_join_that_renames_nothing_is_that_of_python(clicks, levels):
    """Conditions in either order, and an expression as a computed column with the name that SELECT gives it."""
    plain = query(["url", "level"], "clicks c", join("inner", "levels l", "l.id = c.user"))
    computed = query([("lower(c.user)", "who"), "level"], "clicks c", join("inner", "levels l", "lower(c.user) = l.id"))

    assert rows_of(plain, clicks=clicks, levels=levels) == clicks.join(levels, on={"user": "id"}).select("url", "level")
    expected = clicks.with_columns(F.lower("user").alias("who")).join(levels, on={"who": "id"}).select("who", "level")
    assert rows_of(computed, clicks=clicks, levels=levels) == expected


def test_streams_are_joined_within_a_time(clicks, views):
    """WITHIN and GRACE are the join's window; RIGHT exchanges the sides, and before and after with them."""
    within = Within(MINUTE_MS, 2 * MINUTE_MS, 5000)
    window = sk.within(before="1 minute", after="2 minutes", grace="5 s")
    turned = sk.within(before="2 minutes", after="1 minute", grace="5 s")
    for kind, expected in {
        "inner": clicks.join(views, on={"user": "user"}, within=window),
        "left": clicks.join(views, on={"user": "user"}, how="left", within=window),
        "full": clicks.join(views, on={"user": "user"}, how="outer", within=window),
        "right": views.join(clicks, on={"user": "user"}, how="left", within=turned),
    }.items():
        asked = query(["url", "page"], "clicks c", join(kind, "views v", "c.user = v.user", within))
        assert rows_of(asked, clicks=clicks, views=views) == expected.select("url", "page"), kind


def test_a_join_of_streams_without_grace_waits_for_a_day(clicks, views):
    """Of records with partners; one that keeps records without a partner must say for how long they wait."""
    asked = query(["url", "page"], "clicks c", join("inner", "views v", "c.user = v.user", Within(HOUR_MS, HOUR_MS)))
    window = sk.within("1 hour", grace="22 hours")

    assert rows_of(asked, clicks=clicks, views=views) == clicks.join(views, on={"user": "user"}, within=window).select(
        "url", "page"
    )
    with pytest.raises(TopologyError, match="expected GRACE PERIOD"):
        kept = query(["url"], "clicks c", join("left", "views v", "c.user = v.user", Within(HOUR_MS, HOUR_MS)))
        rows_of(kept, clicks=clicks, views=views)


def test_tables_are_joined_by_their_keys_or_by_a_foreign_key(app, users, levels):
    """The side that has the other's key comes first, whichever the query names first."""
    orders = app.table("orders", schema="number int, customer string, total int", key="number")
    by_key = query(["name", "level"], "users u", join("full", "levels l", "u.id = l.id"))
    foreign = query(["number", "name"], "orders o", join("left", "users u", "o.customer = u.id"))
    turned = query(["number", "name"], "users u", join("inner", "orders o", "o.customer = u.id"))
    computed = query(["number", "name"], "orders o", join("inner", "users u", "lower(o.customer) = u.id"))
    handles = {"users": users, "levels": levels, "orders": orders}

    assert rows_of(by_key, **handles) == users.join(levels, how="outer").select("name", "level")
    named = orders.join(users, on={"customer": "id"}, how="left").select("number", "name")
    assert rows_of(foreign, **handles) == named
    assert rows_of(turned, **handles) == orders.join(users, on={"customer": "id"}).select("number", "name")
    lower = orders.with_columns(F.lower("customer").alias("rowkey")).join(users, on={"rowkey": "id"}).select("number", "name")
    assert rows_of(computed, **handles) == lower
    with pytest.raises(TopologyError, match="a LEFT JOIN keeps rows of the side that has the other's key"):
        rows_of(query(["number", "name"], "users u", join("left", "orders o", "o.customer = u.id")), **handles)


def test_joins_in_a_chain(clicks, users, levels):
    """Each join takes what the joins before it gave."""
    asked = query(
        ["c.url", "name", "level"],
        "clicks c",
        join("left", "users u", "c.user = u.id"),
        join("inner", "levels l", "c.user = l.id"),
    )
    expected = clicks.join(users.rename(url="u_url"), on={"user": "id"}, how="left").join(levels, on={"user": "id"})

    assert rows_of(asked, clicks=clicks, users=users, levels=levels) == expected.select(F.col("url"), "name", "level")


def test_equalities_beyond_the_key_are_a_filter_of_an_inner_join(clicks, users):
    """A table is looked up by its key; what else an inner join compares is compared behind it."""
    asked = query(["name"], "clicks c", join("inner", "users u", "c.user = u.id AND c.n = length(u.name)"))
    joined = clicks.join(users.rename(url="u_url"), on={"user": "id"}).filter(F.col("n") == F.length("name"))

    assert rows_of(asked, clicks=clicks, users=users) == joined.select("name")
    with pytest.raises(TopologyError, match="looked up by its whole key, and that of u is id"):
        rows_of(query(["name"], "clicks c", join("left", "users u", "c.user = u.name")), clicks=clicks, users=users)


def test_groups_have_the_names_of_select(clicks):
    """A group column is called as SELECT calls it, and so is an aggregate; an aggregate inside of an expression is computed once."""
    asked = query(
        [("user", "who"), ("count(*)", "clicked"), ("sum(n) / count(*)", "mean")],
        "clicks",
        group_by=["user"],
        having="sum(n) > 10",
    )
    counted = clicks.group_by(F.col("user").alias("who")).agg(ONE.alias("clicked"), F.sum("n").alias("sum(n)"))
    mean = F.col("sum(n)") / F.col("clicked")

    expected = counted.filter(F.col("sum(n)") > 10).select("who", "clicked", mean.alias("mean"))
    assert rows_of(asked, clicks=clicks) == expected


@pytest.mark.parametrize("by", ["upper(user)", "who", "1"])
def test_groups_by_an_expression_by_its_name_and_by_its_number(clicks, by):
    """GROUP BY may repeat an expression of SELECT, or name it, or count it."""
    asked = query([("upper(user)", "who"), ("count(*)", "n_clicks")], "clicks", group_by=[by])

    assert rows_of(asked, clicks=clicks) == clicks.group_by(F.upper("user").alias("who")).agg(ONE.alias("n_clicks"))


def test_a_column_comes_before_a_name_of_select_in_group_by(clicks):
    """Where both are there, GROUP BY means the column; the result then has the name of SELECT by a rename behind the groups."""
    asked = query([("upper(url)", "user"), ("count(*)", "visits")], "clicks", group_by=["upper(url)"])
    found = lowered_query(asked, clicks=clicks)

    assert found.source.columns == (("user", "string"), ("visits", "bigint"))
    assert found.source.key == ("user",)


def test_names_of_select_in_having_stand_for_their_expressions(clicks):
    """Outside of aggregates; inside of one a name means the column of the rows."""
    asked = query(["user", ("sum(n)", "n")], "clicks", group_by=["user"], having="n > 3 AND max(n) < 9")
    folded = clicks.group_by("user").agg(F.sum("n").alias("n"), F.max("n").alias("max(n)"))

    expected = folded.filter((F.col("n") > 3) & (F.col("max(n)") < 9)).select("user", "n")
    assert rows_of(asked, clicks=clicks) == expected


def test_groups_without_aggregates_are_the_distinct_values(clicks):
    """A group has its key alone."""
    asked = query(["user"], "clicks", group_by=["user"])

    assert lowered_query(asked, clicks=clicks).source.columns == (("user", "string"),)


def test_windows(clicks):
    """WINDOW is tumbling, hopping or session windows; without GRACE a window waits for the rest of a day, with EMIT FINAL not at all."""
    for clause, emit, window in [
        (WindowClause("tumbling", HOUR_MS, grace_ms=5000), "", sk.tumbling("1 hour", grace="5 s")),
        (WindowClause("tumbling", HOUR_MS), "changes", sk.tumbling("1 hour", grace="23 hours")),
        (WindowClause("tumbling", HOUR_MS), "final", sk.tumbling("1 hour", grace="0 s")),
        (WindowClause("tumbling", 2 * DAY_MS), "", sk.tumbling("2 days", grace="0 s")),
        (WindowClause("hopping", HOUR_MS, MINUTE_MS, grace_ms=0), "", sk.hopping("1 hour", "1 minute", grace="0 s")),
        (WindowClause("session", HOUR_MS, None, DAY_MS, 1000), "", sk.session("1 hour", grace="1 s", retention="1 day")),
    ]:
        asked = query(["user", ("count(*)", "clicked")], "clicks", group_by=["user"], window=clause, emit=emit)
        found = lowered_query(asked, clicks=clicks)
        assert found.rows == clicks.group_by("user").windowed_by(window).agg(ONE.alias("clicked")), clause
        assert found.is_final == (emit == "final")


def test_bounds_of_windows_are_columns(clicks):
    """They may be computed with behind the groups, and in HAVING; those that SELECT names make no step."""
    window = WindowClause("tumbling", HOUR_MS, grace_ms=0)
    plain = query(["user", "window_start", ("count(*)", "clicked")], "clicks", group_by=["user"], window=window)
    asked = query(
        ["user", ("hour(window_end)", "hour")], "clicks", group_by=["user"], window=window, having="hour(window_start) > 3"
    )
    grouped = clicks.group_by("user").windowed_by(sk.tumbling("1 hour", grace="0 s"))

    assert rows_of(plain, clicks=clicks) == grouped.agg(ONE.alias("clicked"))
    counted = grouped.agg(ONE.alias("count")).filter(F.hour("window_start") > 3)
    assert rows_of(asked, clicks=clicks) == counted.select("user", F.hour("window_end").alias("hour"))


def test_groups_of_a_table(users):
    """The rows of a table are grouped as they are now."""
    asked = query(["city", ("count(*)", "users")], "users", group_by=["city"])

    assert rows_of(asked, users=users) == users.group_by("city").agg(ONE.alias("users"))


def test_another_key(clicks):
    """PARTITION BY gives the stream a key of columns, and of expressions under the names that SELECT gives them."""
    asked = query([("upper(user)", "who"), "url", "n"], "clicks", partition_by=["upper(user)", "n"])

    expected = clicks.select_key(F.upper("user").alias("who"), "n").select("who", "url", "n")
    assert rows_of(asked, clicks=clicks) == expected


def test_no_key(clicks):
    """PARTITION BY NULL gives the stream no key; its column stays."""
    found = lowered_query(query(["*"], "clicks", partition_by=[]), clicks=clicks)

    assert found.rows == clicks.without_key()
    assert found.source.key == ()


def test_a_row_for_each_element(clicks):
    """EXPLODE is a flat_map before the select; several go side by side, and shorter ones are padded with null."""
    asked = query(["user", ("explode(tags)", "tag")], "clicks")
    inside = query([("upper(explode(tags))", "tag")], "clicks")
    grouped = query([("explode(tags)", "tag"), ("count(*)", "times")], "clicks", group_by=["tag"])

    assert rows_of(asked, clicks=clicks) == clicks.flat_map(F.explode("tags").alias("tag")).select("user", "tag")
    assert rows_of(inside, clicks=clicks) == clicks.flat_map(F.explode("tags").alias("col")).select(F.upper("col").alias("tag"))
    assert rows_of(grouped, clicks=clicks) == clicks.flat_map(F.explode("tags").alias("tag")).group_by("tag").agg(
        ONE.alias("times")
    )


def test_several_arrays_side_by_side(app):
    """The n-th elements of all stand in one row; a null array is an empty one, and rows without any element go."""
    rows = app.stream("rows", schema="id int, a array<int>, b array<string>", key="id")
    rows_of(query(["id", ("explode(a)", "one"), ("explode(b)", "other")], "rows"), rows=rows).to("out")

    with TopologyTestDriver(app) as driver:
        driver.pipe("rows", [{"id": 1, "a": [1, 2], "b": ["x"]}, {"id": 2, "a": None, "b": ["y"]}, {"id": 3, "a": None, "b": []}])
        assert driver.read("out", "id", "one", "other") == [
            {"id": 1, "one": 1, "other": "x"},
            {"id": 1, "one": 2, "other": None},
            {"id": 2, "one": None, "other": "y"},
        ]


def test_a_query_in_from(clicks):
    """It is read as a source of its name."""
    inner = query(["user", ("n * 2", "twice")], "clicks", where="n > 1")
    asked = query(["q.twice"], (inner, "q"), where="q.user IS NOT NULL")

    doubled = clicks.filter(F.col("n") > 1).select("user", (F.col("n") * 2).alias("twice"))
    assert rows_of(asked, clicks=clicks) == doubled.filter(F.col("user").isNotNull()).select("twice")


def test_final_results_in_from(clicks):
    """What reads a query with EMIT FINAL reads its final results."""
    inner = query(
        ["user", ("count(*)", "n")], "clicks", group_by=["user"], window=WindowClause("tumbling", HOUR_MS), emit="final"
    )
    counted = clicks.group_by("user").windowed_by(sk.tumbling("1 hour", grace="0 s")).agg(ONE.alias("n"))

    expected = counted.suppress(sk.window_closes()).filter(F.col("n") > 1)
    assert rows_of(query(["*"], (inner, "q"), where="n > 1"), clicks=clicks) == expected


def test_record_columns_of_each_side_of_a_join(clicks, users):
    """`c._timestamp` is the time of the click; without a source it is that of the joined record."""
    asked = query([("c._timestamp", "clicked"), ("_timestamp", "at_")], "clicks c", join("inner", "users u", "c.user = u.id"))

    stamped = clicks.with_columns(F.col("_timestamp").alias("c_timestamp")).join(users.rename(url="u_url"), on={"user": "id"})
    expected = stamped.select(F.col("c_timestamp").alias("clicked"), F.col("_timestamp").alias("at_"))
    assert rows_of(asked, clicks=clicks, users=users) == expected


def read(app, topic, *columns):
    """The rows of a topic after some clicks and users came, sorted."""
    with TopologyTestDriver(app) as driver:
        driver.pipe(
            "users",
            [{"id": "a", "name": "Ann", "url": "x", "city": "Oslo"}, {"id": "b", "name": "Bo", "url": "y", "city": "Rome"}],
        )
        driver.pipe("levels", [{"id": "b", "level": 2}, {"id": "c", "level": 3}])
        for number, user in enumerate(("a", "b", "z", None)):
            click: dict[str, object] = {"id": number, "user": user, "url": f"/{number}", "n": number, "tags": [], "at": None}
            driver.pipe("clicks", click, timestamp="2020-01-02")
        return sorted(driver.read(topic, *columns), key=repr)


def test_columns_of_the_side_without_a_row_are_null(app, clicks, users, levels):
    """The compared column of a side is null where that side has no row, so that WHERE … IS NULL finds these."""
    unknown = query(["c.id", ("u.id", "uid")], "clicks c", join("left", "users u", "c.user = u.id"), where="u.id IS NULL")
    both = query(["u.id", ("l.id", "lid"), "level"], "users u", join("full", "levels l", "u.id = l.id"))
    key = query(["id", "name", "level"], "users u", join("full", "levels l", "u.id = l.id"))
    handles = {"clicks": clicks, "users": users, "levels": levels}
    rows_of(unknown, **handles).to("unknown")
    rows_of(both, **handles).to("both")
    rows_of(key, **handles).to("keyed")

    assert read(app, "unknown", "id", "uid") == [{"id": 2, "uid": None}, {"id": 3, "uid": None}]
    assert read(app, "both", "id", "lid", "level")[-1] == {"id": None, "lid": "c", "level": 3}
    assert {row["id"] for row in read(app, "keyed", "id", "name", "level")} == {"a", "b", "c"}


EXPRESSIONS = {
    "n": F.col("n"),
    "user": F.col("user"),
    "n + 1": F.col("n") + 1,
    "upper(url)": F.upper("url"),
    "coalesce(user, 'nobody')": F.coalesce("user", F.lit("nobody")),
    "CASE WHEN n > 3 THEN 'many' ELSE 'few' END": F.when(F.col("n") > 3, "many").otherwise("few"),
}
CONDITIONS = {
    "n > 3": F.col("n") > 3,
    "user IS NOT NULL AND n < 7": F.col("user").isNotNull() & (F.col("n") < 7),
    "url LIKE '/a%'": F.col("url").like("/a%"),
    "n IN (1, 2, 3)": F.col("n").isin(1, 2, 3),
}
AGGREGATES = {"count(*)": ONE, "sum(n)": F.sum("n"), "max(url)": F.max("url"), "count_distinct(n)": F.count_distinct("n")}
WINDOWS = {
    WindowClause("tumbling", MINUTE_MS, grace_ms=1000): sk.tumbling("1 minute", grace="1 s"),
    WindowClause("session", 5000, grace_ms=0): sk.session("5 s", grace="0 s"),
    None: None,
}


def of(choices, **bounds):
    return st.lists(st.sampled_from(sorted(choices)), unique=True, **bounds)


@st.composite
def twins(draw):
    """A query, and a function that builds the same in Python of the stream and the table."""
    where = draw(of(CONDITIONS, max_size=1))
    joins = draw(st.booleans())
    clauses = {"where": where[0]} if where else {}
    joined = (join("left", "levels l", "clicks.user = l.id"),) if joins else ()

    def rows(clicks, levels):
        found = clicks.join(levels, on={"user": "id"}, how="left") if joins else clicks
        return found.filter(CONDITIONS[where[0]]) if where else found

    if draw(st.booleans()):
        chosen = [text for text in draw(of(EXPRESSIONS, min_size=1)) if text != "user" or not joins]  # the key is the user then
        kept = ["user"] if joins else ["url"]
        items: list[object] = [*kept, *((text, f"r{number}") for number, text in enumerate(chosen))]
        named: list[object] = [*kept, *(EXPRESSIONS[text].alias(f"r{number}") for number, text in enumerate(chosen))]
        return query(items, "clicks", *joined, **clauses), lambda *handles: rows(*handles).select(*named)
    group, folds = draw(of(EXPRESSIONS, min_size=1, max_size=2)), draw(of(AGGREGATES, min_size=1))
    window = draw(st.sampled_from(list(WINDOWS)))
    names = {text: f"g{number}" for number, text in enumerate(group)} | {text: f"a{number}" for number, text in enumerate(folds)}
    having = draw(st.booleans())
    clauses |= {"having": f"{folds[0]} IS NOT NULL"} if having else {}
    asked = query(list(names.items()), "clicks", *joined, group_by=group, window=window, **clauses)

    def table(clicks, levels):
        grouped = rows(clicks, levels).group_by(*(EXPRESSIONS[text].alias(names[text]) for text in group))
        grouped = grouped if window is None else grouped.windowed_by(WINDOWS[window])
        folded = grouped.agg(*(AGGREGATES[text].alias(names[text]) for text in folds))
        return folded.filter(F.col(names[folds[0]]).isNotNull()) if having else folded

    return asked, table


def sources_of(app):
    clicks = app.stream("clicks", schema="id int, user string, url string, n int", key="id")
    return clicks, app.table("levels", schema="id string, level int", key="id")


def results(app, handle, records):
    (handle if isinstance(handle, Stream) else handle.emit("every")).to("out")
    with TopologyTestDriver(app) as driver:
        if "levels" in repr(handle.node):
            driver.pipe("levels", [{"id": "a", "level": 1}, {"id": "b", "level": 2}])
        driver.pipe("clicks", records)
        return driver.read("out")


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(twins(), st.integers(0, 2**32 - 1))
def test_a_query_and_the_same_in_python_are_one_topology(both, seed):
    """Random queries give the steps that the same has in Python, and so the same rows."""
    asked, build = both
    chosen = random.Random(seed)
    records = [
        {"id": number, "user": chosen.choice(["a", "b", "z", None]), "url": chosen.choice(["/a", "/b"]), "n": chosen.randrange(9)}
        for number in range(12)
    ]
    one, other = sk.Topology("twins"), sk.Topology("twins")
    clicks, levels = sources_of(one)
    mine, theirs = rows_of(asked, clicks=clicks, levels=levels), build(*sources_of(other))

    assert mine.node == theirs.node
    assert results(one, mine, records) == results(other, theirs, records)
    assert one == other
