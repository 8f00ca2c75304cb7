"""Names that cannot be used are refused where they are given, at the user's line."""

from __future__ import annotations

import inspect

import pytest

import streamkit as sk
from streamkit.errors import StreamKitError

SCHEMA = "user string, n bigint"
HOUR = sk.tumbling("1 hour", grace="0 seconds")
BAD = "two words"


def clicks(app):
    return app.stream("clicks", schema=SCHEMA, key="user")


def users(app):
    return app.table("users", schema=SCHEMA, key="user")


WRONG = {
    "topology": lambda app: sk.Topology(BAD),
    "stream": lambda app: app.stream(BAD),
    "stream of no text": lambda app: app.stream(None),
    "table": lambda app: app.table(BAD),
    "store of a table": lambda app: app.table("users", schema=SCHEMA, key="user", store=BAD),
    "global table": lambda app: app.global_table(BAD),
    "to": lambda app: clicks(app).to(BAD),
    "to of a table": lambda app: users(app).to(BAD),
    "to_table": lambda app: clicks(app).to_table(store=BAD),
    "count": lambda app: clicks(app).group_by_key().count(store=BAD),
    "count of a table": lambda app: users(app).group_by("n").count(store=BAD),
    "late_to": lambda app: clicks(app).group_by_key().windowed_by(HOUR, late_to=BAD),
    "dead_letter": lambda app: clicks(app).map_values(dict, "n bigint", on_error=sk.dead_letter(BAD)),
    "repartition": lambda app: clicks(app).repartition(name=BAD),
    "named": lambda app: clicks(app).filter("n > 1").named(BAD),
    "branch": lambda app: clicks(app).split().branch("n > 1", BAD),
    "default branch": lambda app: clicks(app).split().branch("n > 1", "many").default(BAD),
    "child": lambda app: clicks(app).process(lambda record, context: None, "n bigint").child(BAD),
    "store of a processor": lambda app: sk.key_value_store(BAD, key="user string", value="n bigint"),
    "topic of an endpoint": lambda app: app.stream(sk.kafka("clicks", topic=BAD)),
    "connector": lambda app: app.stream(sk.kafka("clicks", name=BAD)),
}


@pytest.mark.parametrize("verb", WRONG)
def test_a_bad_name_is_refused_at_the_users_line(verb):
    """Whichever verb is given a name that a topic cannot have, the error quotes it, says what is wrong, and ends with that line."""
    app, call = sk.Topology("t"), WRONG[verb]
    with pytest.raises(StreamKitError) as refused:
        call(app)

    line = inspect.getsourcelines(call)[1]
    found = "None" if verb == "stream of no text" else repr(BAD)
    why = "it is a NoneType" if verb == "stream of no text" else "its character 4 is U+0020 SPACE"
    assert found in str(refused.value) and why in str(refused.value)
    assert str(refused.value).endswith(f"\n  at {__file__}:{line}")
