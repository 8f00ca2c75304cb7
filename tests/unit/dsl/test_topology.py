"""Topologies as values."""

from __future__ import annotations

import subprocess
import sys
from typing import Any
from xml.etree import ElementTree as ET

import pytest

import streamkit as sk
from streamkit import functions as F
from streamkit.errors import ConfigError, SchemaError, TopologyError
from streamkit.plan.operators.aggregate import AggregateNode
from streamkit.plan.operators.write import To

SVG = "{http://www.w3.org/2000/svg}"


def delays(threshold=15):
    app = sk.Topology("flight-delays")
    planes = app.table("planes").rename(year="built")
    late = app.stream("flights").filter(F.col("dep_delay") > threshold).join(planes, on="tailnum", how="left")
    table = (
        late.group_by("origin").windowed_by(sk.tumbling("1 hour", grace="10 minutes")).agg(flights=F.count("*"), store="delays")
    )
    table.emit("final").to("hourly_delays")
    late.select("origin").to("late_flights")
    return app


def test_equal_declarations_are_equal():
    """Two topologies declared alike are equal; a different constant, name or sink makes them differ."""
    other_name = delays()
    other_name.name = "other"
    other_sink = delays()
    other_sink.stream("flights").to("copy")

    assert delays() == delays()
    assert delays(16) != delays()
    assert delays(15.0) != delays()
    assert other_name != delays()
    assert other_sink != delays()


def test_declaring_loads_nothing_heavy():
    """Building, describing and drawing a topology imports neither pyspark nor rocksdict nor apsw."""
    code = (
        "import sys, streamkit as sk; from streamkit import functions as F; app = sk.Topology('a');"
        "app.stream('s').group_by('k').agg(n=F.count('*'), store='n').to('t'); str(app), app.to_mermaid(), app._repr_html_();"
        "print(*[name for name in ('pyspark', 'rocksdict', 'apsw', 'pandas') if name in sys.modules])"
    )

    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split() == []


def test_unfinished_steps_are_not_part_of_it():
    """Handles that lead nowhere leave no trace; sinks and named stores do."""
    app = sk.Topology("a")
    stream = app.stream("s")
    stream.filter("x > 1")
    stream.group_by("k").agg(n=F.count("*"))
    unfinished = app.roots

    stream.group_by("k").agg(n=F.count("*"), store="n")
    stream.to("t")

    assert unfinished == ()
    assert [type(root) for root in app.roots] == [To, AggregateNode]
    assert list(app.stores) == ["n"]


def test_saying_the_same_twice_is_saying_it_once():
    """The same sink and the same named store may be declared again, as when a notebook's cell runs again."""
    app = sk.Topology("a")
    for _ in range(2):
        app.stream("s").group_by("k").agg(n=F.count("*"), store="n").emit("latest").to("t")

    assert len(app.sinks) == len(app.stores) == 1


@pytest.mark.parametrize(
    "end",
    [
        lambda rows: (rows.to("t"), rows.to("t")),
        lambda rows: (rows.foreach(print), rows.foreach(print)),
        lambda rows: (rows.peek(print).to("t"), rows.peek(print).to("u")),
        lambda rows: (rows.filter("x > 1").to("t", value_format="json"), rows.filter("x > 1").to("t", value_format="json")),
    ],
)
def test_two_calls_for_one_step_are_refused(end):
    """Kafka Streams makes two sinks, each with every record; here equal steps are one, and a name makes two of them."""
    app = sk.Topology("a")
    with pytest.raises(TopologyError, match=r"has the step '.*' already, declared at .*test_topology.py:\d+.*name=…"):
        end(app.stream("s"))


def test_a_name_makes_a_second_sink():
    """Each has every record."""
    app = sk.Topology("a")
    app.stream("s").to("t")
    app.stream("s").to("t", name="again")
    assert len(app.sinks) == 2


def test_second_store_of_a_name_is_refused():
    """Two different tables cannot have stores of one name; the message says where the first was declared."""
    app = sk.Topology("a")
    app.stream("s").group_by("k").agg(n=F.count("*"), store="n")

    with pytest.raises(TopologyError, match=r"there is a store 'n' already, declared at .*test_topology.py:\d+"):
        app.table("users", store="n")


@pytest.mark.parametrize("name", ["", "a b", "..", "x" * 250, None])
def test_names_are_checked(name):
    """The name becomes part of topic names, so it must be one."""
    with pytest.raises(ConfigError, match="topology name"):
        sk.Topology(name)


def test_schemas_are_checked():
    """A declared schema must be one, and leave StreamKit's own column names alone."""
    app = sk.Topology("a")

    with pytest.raises(SchemaError, match=r"colour(.|\n)*at .*test_topology"):
        app.stream("s", schema="user colour")
    with pytest.raises(SchemaError, match="_offset"):
        app.stream("s", schema="_offset bigint")
    assert app.stream("s", schema="a int, b int", key="a") == app.stream("s", schema="a INTEGER, b int", key=["a"])


def test_steps_remember_the_users_line():
    """Each step holds the file and line of the call that made it, not of StreamKit's own code."""
    app = sk.Topology("a")
    first = app.stream("s").filter("x > 1")
    second = first.group_by("k").count()

    assert first.node.at is not None
    assert second.node.at is not None
    assert first.node.at.file == __file__
    assert second.node.at.line == first.node.at.line + 1


def test_describe_shows_the_way_from_sources_to_sinks():
    """The text is a tree below each source; a join stands below its stream and is referred to below its table."""
    assert delays().describe().splitlines() == [
        "topology flight-delays",
        "stream flights",
        "└─ filter dep_delay > 15",
        "   └─ left join table planes on tailnum",
        "      ├─ group by origin, tumbling 1 hour, grace 10 minutes: flights = count(1) → store delays",
        "      │  └─ emit final",
        "      │     └─ to hourly_delays",
        "      └─ select origin",
        "         └─ to late_flights",
        "table planes",
        "└─ rename year to built",
        "   └─ ↦ left join table planes on tailnum",
    ]
    assert str(delays()) == delays().describe()
    assert "nothing yet" in sk.Topology("a").describe()


def test_mermaid_has_a_box_a_step_and_an_arrow_an_input():
    """The flowchart has every step once and quotes what Mermaid would take for markup."""
    app = sk.Topology("a")
    app.stream("s").filter(F.col("x") < 'a"b').to("t")

    assert app.to_mermaid().splitlines() == [
        "flowchart TD",
        '    n0(["stream s"])',
        "    n1[\"filter x #lt; 'a#quot;b'\"]",
        '    n2(["to t"])',
        "    n0 --> n1",
        "    n1 --> n2",
    ]


def groups_of(text):
    """The boxes of a picture, by the names of their steps."""
    return {group.get("data-step"): group for group in ET.fromstring(text).iter(f"{SVG}g")}


def lines_of(app):
    """The lines of text in each box of the picture, by the names of their steps."""
    return {step: [text.text for text in group.iter(f"{SVG}text")] for step, group in groups_of(app.to_svg()).items()}


def test_notebooks_get_a_picture():
    """A notebook gets text and a picture with a box for every step, the text in it escaped."""
    app = delays()
    app.stream("x").filter("a < '<script>'").to("y")

    bundle = app._repr_mimebundle_()

    assert bundle["text/plain"] == app.describe()
    assert len(groups_of(bundle["text/html"])) == 13
    assert "<script>" not in bundle["text/html"]
    assert app.to_svg() in bundle["text/html"]


def test_a_picture_is_a_file_of_its_own():
    """`to_svg` gives XML in the space of SVG, as large as it says, with whatever name and text: what no XML can hold is marked."""
    app = sk.Topology("a")
    app.stream("s").filter(F.col("x") == '<script>\x00\ufffe&"\n').to("t", name="end")
    root = ET.fromstring(app.to_svg().encode("utf-8"))

    assert root.tag == f"{SVG}svg"
    assert [root.get(name) for name in ("viewBox", "width")] == [
        f"0 0 {root.get('width')} {root.get('height')}",
        root.get("width"),
    ]
    assert [text for text in lines_of(app).values() if "filter" in text[0]] == [["filter x = '<script>\ufffd\ufffd&\" '"]]
    assert lines_of(app)["end"] == ["to t", "end"]


def test_boxes_tell_in_a_tooltip_what_they_do():
    """It says on one line what the box has on several."""
    titles = {step: group.findtext(f"{SVG}title") for step, group in groups_of(delays().to_svg()).items()}

    assert titles["aggregate-delays"] == "group by origin, tumbling 1 hour, grace 10 minutes: flights = count(1) → store delays"


def test_the_picture_has_connectors():
    """A connector has a box, with a dashed line to the source that it fills, and from the sink that it empties."""
    app = sk.Topology("copy")
    app.stream(sk.kafka("orders", bootstrap_servers="h:1"), schema="a string", key="a").to(sk.http("https://host/hook"))
    root = ET.fromstring(app.to_svg())

    assert lines_of(app)["connector:kafka.orders-source"] == ["kafka('orders')", "kafka.orders-source"]
    assert len([path for path in root.iter(f"{SVG}path") if path.get("stroke-dasharray")]) == 2


def test_the_picture_says_all_of_every_step():
    """Boxes hold whole labels, wrapped between words, each aggregate on a line of its own, keys and the names of stores."""
    app = sk.Topology("sums")
    orders = app.stream("orders", schema="user string, amount double", key="user")
    users = app.table("users").filter("city is not null and length(city) > 3 and city != 'nowhere in particular'")
    sums: dict[str, Any] = {f"amount_of_the_orders_{number}": F.sum("amount") for number in range(12)}
    orders.join(users, on="user").group_by("city").agg(**sums).to("sums")
    boxes = lines_of(app)

    assert boxes["stream-orders"] == ["stream orders", "key user"]
    assert boxes["filter-users"][-1] == "filter-users"
    assert " ".join(boxes["filter-users"][:-1]) == (
        "filter city is not null and length(city) > 3 and city != 'nowhere in particular'"
    )
    (grouped,) = [box for box in boxes.values() if box[0] == "group by city"]
    assert [line for line in grouped if line == "amount_of_the_orders_11 = sum(amount)"]


def test_steps_of_one_name_are_drawn_all_the_same():
    """That two have one name, compiling tells; the picture shows both."""
    app = sk.Topology("a")
    app.stream("s").filter("x > 1", name="same").to("t")
    app.stream("s").filter("x > 2", name="same").to("u")

    assert len(lines_of(app)) == 5


def test_repr_is_one_line():
    """The representation names sinks and stores."""
    assert repr(delays()) == "Topology('flight-delays', sinks=['hourly_delays', 'late_flights'], stores=['delays'])"
