"""The way in SQL, for messages that advise a way in Python."""

from __future__ import annotations

OF_PYTHON = ("drop_store(", "store=", "name=")
LACKING = "its schema does not have"  # begins what a topic of Avro lacks
OF_SESSION = (
    "\n  in SQL, which has no store=, name= and drop_store: leave the statements as they were; or CREATE OR REPLACE the query WITH (BACKFILL = true); "
    "or DROP what it fills, DELETE TOPIC, and CREATE it again"
)
OF_FILE = (
    "\n  in a file of SQL, which has no store=, name= and drop_store: leave the statements as they were; or begin again under another name, by "
    "SET 'streamkit.application' = '…' in the file; or drop the stores in Python: app = sk.load_sql(FILE), app.drop_store(…), sk.run(app)"
)


def ways_of_result(topic: str, grown: str, *, is_replaced: bool) -> str:
    """
    What a statement can do whose result does not fit the topic that is there.

    `grown` is why it does not fit, if the topic gets what it lacks by a declaration. `is_replaced` says that the topic is that of a former result.
    """
    if is_replaced:
        return "\n  in SQL: CREATE OR REPLACE … WITH (BACKFILL = true) builds the result again, whatever has changed"
    adds = (
        f"CREATE STREAM or CREATE TABLE of the topic {topic} with this column, before this statement, adds it; "
        if LACKING in grown
        else ""
    )
    return (
        f"\n  in SQL: {adds}WITH (KAFKA_TOPIC = 'another') behind the name writes to another topic; DROP … DELETE TOPIC deletes a topic with its stream "
        f"or table, and `streamkit topics delete {topic}` one that has none any more"
    )


def ways_of_session(message: str) -> str:
    """What a session can do where a message advises what Python can; else nothing."""
    return OF_SESSION if any(one in message for one in OF_PYTHON) else ""


def ways_of_file(message: str) -> str:
    """What a file can do there."""
    return OF_FILE if any(one in message for one in OF_PYTHON) else ""
