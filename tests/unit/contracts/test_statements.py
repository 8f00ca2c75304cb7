"""What the catalog's SQL relies on, of every database that it may lie in: values, order, ids, references."""

from __future__ import annotations

import hashlib

import pytest

from streamkit.errors import FormatVersionError, StreamKitError
from streamkit.log.catalog import sql_changes, tables

LARGEST = (1 << 63) - 1


def insert(transaction, name=None, step=0):
    transaction.execute("INSERT INTO producer (name, epoch, step, token) VALUES (?, 1, ?, '')", (name, step))


def count(database):
    with database.read() as transaction:
        return transaction.execute("SELECT count(*) FROM producer")[0][0]


def names(database):
    with database.read() as transaction:
        return [name for (name,) in transaction.execute("SELECT name FROM producer ORDER BY name")]


@pytest.mark.parametrize(
    ("versions", "era", "advice"),
    [(1, "", "upgrade StreamKit"), (-5, ", from before the first release", "load the data into a new log")],
)
def test_another_format_is_refused(database, versions, era, advice):
    """A catalog that a newer StreamKit wrote, or one from before the first release, is left alone, and its user told what to do."""
    with database.write() as transaction:
        transaction.execute("UPDATE log SET format = format + ?", (versions,))

    message = f"format {tables.FORMAT_VERSION + versions}{era}; this StreamKit uses format {tables.FORMAT_VERSION}: {advice}"
    with pytest.raises(FormatVersionError, match=message):
        tables.prepare(database)


def test_format_3_is_upgraded(database):
    """A catalog of a format before gets the tables and the column that it lacks, and keeps what it has; a second time nothing changes."""
    with database.write() as transaction:
        insert(transaction, "kept")
        transaction.execute("DROP TABLE inline_slab")
        transaction.execute("DROP TABLE application_program")
        transaction.execute("ALTER TABLE log DROP COLUMN inline_bytes")
        for table in ("sql_change", "sql_source", "sql_query", "sql_type"):
            transaction.execute(f"DROP TABLE {table}")
        transaction.execute("UPDATE log SET format = 3")

    for _ in range(2):
        tables.prepare(database)
        with database.read() as transaction:
            assert transaction.execute("SELECT format, inline_bytes FROM log") == [(tables.FORMAT_VERSION, 0)]
            assert transaction.execute("SELECT path, size, data FROM inline_slab") == []
            assert transaction.execute("SELECT generation, program FROM application_program") == []
            assert sql_changes.objects(transaction) == sql_changes.SqlObjects()
            assert transaction.execute("SELECT name FROM producer") == [("kept",)]


def test_tables_do_not_change_within_a_format():
    """A change of a table is a new format, or an older StreamKit would open what it does not know."""
    words = " ".join(" ".join(tables.TABLES).split())

    assert (tables.FORMAT_VERSION, hashlib.sha256(words.encode()).hexdigest()[:16]) == (7, "805e5303d4d6462f")


@pytest.mark.parametrize("text", ["x'; DROP TABLE producer; --", "? ?1 $1 %s %", 'a "b"\n\\n\t', "größe 日本 🦊", ""])
def test_values_are_bound(database, text):
    """Values are bound, never pasted, and come back as they were: a hostile name is a name."""
    with database.write() as transaction:
        insert(transaction, text)

    with database.read() as transaction:
        assert transaction.execute("SELECT name FROM producer WHERE name = ?", (text,)) == [(text,)]
        assert transaction.execute("SELECT '?', '%s' FROM producer WHERE name = ?", (text,)) == [("?", "%s")]


@pytest.mark.parametrize("number", [0, 1, -1, 40_000, 1 << 31, 1 << 40, LARGEST, -LARGEST - 1])
def test_integers_have_64_bits(database, number):
    """Every integer of 64 bits comes back as itself, in a column and in a comparison."""
    with database.write() as transaction:
        insert(transaction, "n", number)

    with database.read() as transaction:
        ((found,),) = transaction.execute("SELECT step FROM producer WHERE step = ? AND step >= ?", (number, number))
    assert (found, type(found)) == (number, int)


def test_sums_and_counts_are_integers(database):
    """What adds up integers is one, and null over no rows."""
    with database.write() as transaction:
        assert transaction.execute("SELECT sum(step) FROM producer") == [(None,)]
        transaction.execute_many("INSERT INTO producer (epoch, step, token) VALUES (1, ?, '')", [(1 << 40,), (5,)])
        (row,) = transaction.execute("SELECT sum(step), count(*), max(step), coalesce(sum(epoch), 0) FROM producer")

    assert row == ((1 << 40) + 5, 2, 1 << 40, 2) and {type(value) for value in row} == {int}


def test_truth_is_one_or_zero(database):
    """A truth value is stored as an integer."""
    with database.write() as transaction:
        transaction.execute_many("INSERT INTO producer (epoch, step, token) VALUES (1, ?, '')", [(True,), (False,)])

    with database.read() as transaction:
        assert transaction.execute("SELECT step FROM producer ORDER BY step") == [(0,), (1,)]


def test_texts_are_ordered_by_code_point(database):
    """Names sort as Python sorts them, whatever the language of the server."""
    unsorted = ["b", "B", "a", "é", "Z", "_", "-", "10", "9", "ab", "日"]
    with database.write() as transaction:
        for name in unsorted:
            insert(transaction, name)

    assert names(database) == sorted(unsorted)


def test_numbered_placeholders_take_their_parameter(database):
    """A numbered placeholder may come in any order, twice, or not at all."""
    with database.write() as transaction:
        rows = [("unused", 7, "b"), ("unused", 8, "a")]
        transaction.execute_many("INSERT INTO producer (epoch, step, name, token) VALUES (?2, ?2, ?3, ?3)", rows)

    with database.read() as transaction:
        assert transaction.execute("SELECT epoch, step, name, token FROM producer ORDER BY name") == [
            (8, 8, "a", "a"),
            (7, 7, "b", "b"),
        ]


def test_many_rows_may_be_none_and_come_from_anywhere(database):
    """Rows of parameters may be any iterable, an empty one too."""
    with database.write() as transaction:
        transaction.execute_many("INSERT INTO producer (epoch, step, token) VALUES (1, ?, '')", [])
        transaction.execute_many("INSERT INTO producer (epoch, step, token) VALUES (1, ?, '')", ([n] for n in range(500)))

    assert count(database) == 500


def test_rows_are_returned_by_what_changes_them(database):
    """RETURNING gives the rows of an insert, an update and a deletion; an upsert names what it meets."""
    upsert = (
        "INSERT INTO producer (name, epoch, step, token) VALUES (?, 1, ?, '') "
        "ON CONFLICT (name) DO UPDATE SET step = excluded.step RETURNING step"
    )
    with database.write() as transaction:
        assert transaction.execute(upsert, ("a", 1)) == [(1,)]
        assert transaction.execute(upsert, ("a", 2)) == [(2,)]
        assert transaction.execute("UPDATE producer SET epoch = epoch + 1 RETURNING name, epoch") == [("a", 2)]
        assert transaction.execute("UPDATE producer SET epoch = 0") == []
        assert transaction.execute("DELETE FROM producer RETURNING name") == [("a",)]


def test_ids_never_come_back(database):
    """The id of a deleted row is not given out again, so that what is made again is something else."""
    statement = "INSERT INTO topic (name, declaration, created_ms) VALUES ('t', '{}', 0) RETURNING id"
    with database.write() as transaction:
        ((first,),) = transaction.execute(statement)
        transaction.execute("DELETE FROM topic")
    with database.write() as transaction:
        ((second,),) = transaction.execute(statement)

    assert second > first


def test_references_hold(database):
    """Rows go with what they belong to; a row that belongs to nothing, or breaks a rule of its table, is refused."""
    with database.write() as transaction:
        ((topic,),) = transaction.execute("INSERT INTO topic (name, declaration, created_ms) VALUES ('t', '', 0) RETURNING id")
        transaction.execute("INSERT INTO topic_partition (topic_id, partition, next_offset) VALUES (?, 0, 0)", (topic,))
        transaction.execute("DELETE FROM topic")
        assert transaction.execute("SELECT * FROM topic_partition") == []
    for owner, offset in ((topic, 0), (None, 0), (topic, -1)):
        with pytest.raises(StreamKitError), database.write() as transaction:
            transaction.execute(
                "INSERT INTO topic_partition (topic_id, partition, next_offset) VALUES (?, 0, ?)", (owner, offset)
            )


def test_tables_are_found_by_name(database):
    """A table is there or not, whatever tables others have elsewhere."""
    with database.read() as transaction:
        assert (transaction.has_table("log"), transaction.has_table("pg_class"), transaction.has_table("nothing")) == (
            True,
            False,
            False,
        )
