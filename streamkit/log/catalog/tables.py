"""The tables of the catalog, and the version of the whole log's format."""

from __future__ import annotations

from streamkit.errors import FormatVersionError
from streamkit.log.catalog import history
from streamkit.log.database.database import Database, Transaction
from streamkit.names import fresh_token

FORMAT_VERSION = 7

INLINE_SLAB = "CREATE TABLE inline_slab (path TEXT PRIMARY KEY, size INTEGER NOT NULL, data BLOB NOT NULL)"
APPLICATION_PROGRAM = """
    CREATE TABLE application_program (
        application_id INTEGER NOT NULL REFERENCES application (id) ON DELETE CASCADE, generation INTEGER NOT NULL,
        started_ms INTEGER NOT NULL, tasks INTEGER NOT NULL, program_hash TEXT NOT NULL, program TEXT NOT NULL,
        PRIMARY KEY (application_id, generation)
    ) WITHOUT ROWID
    """
SQL_TABLES = (
    # A script of SQL that changes anything is one row; `queries` counts the numbers that ids of queries have used up.
    "CREATE TABLE sql_change (number INTEGER PRIMARY KEY, token TEXT NOT NULL UNIQUE, queries INTEGER NOT NULL)",
    """
    CREATE TABLE sql_source (
        name TEXT PRIMARY KEY, kind TEXT NOT NULL, topic TEXT NOT NULL, columns TEXT NOT NULL, key TEXT NOT NULL, formats TEXT NOT NULL,
        timestamp TEXT, windows TEXT, is_read_only INTEGER NOT NULL, query TEXT, dialect TEXT NOT NULL, text TEXT NOT NULL,
        changed_ms INTEGER NOT NULL
    ) WITHOUT ROWID
    """,
    """
    CREATE TABLE sql_query (
        id TEXT PRIMARY KEY, number INTEGER NOT NULL UNIQUE, version INTEGER NOT NULL, sink TEXT NOT NULL, sources TEXT NOT NULL,
        application TEXT NOT NULL, settings TEXT NOT NULL, wanted TEXT NOT NULL, failure TEXT NOT NULL, dialect TEXT NOT NULL,
        text TEXT NOT NULL, changed_ms INTEGER NOT NULL
    ) WITHOUT ROWID
    """,
    "CREATE TABLE sql_type (name TEXT PRIMARY KEY, type TEXT NOT NULL, changed_ms INTEGER NOT NULL) WITHOUT ROWID",
)
UPGRADES = {
    3: ("ALTER TABLE log ADD COLUMN inline_bytes INTEGER NOT NULL DEFAULT 0", INLINE_SLAB),
    4: (),  # frames may be shared from then on, which an older StreamKit cannot read
    5: (APPLICATION_PROGRAM,),
    6: SQL_TABLES,
}  # by the format that they lead on from
TABLES = (
    """
    CREATE TABLE log (
        id INTEGER PRIMARY KEY CHECK (id = 1), format INTEGER NOT NULL, settled INTEGER NOT NULL,
        replication_factor INTEGER NOT NULL DEFAULT 1, min_insync_replicas INTEGER NOT NULL DEFAULT 1,
        inline_bytes INTEGER NOT NULL DEFAULT 0
    )
    """,
    "CREATE TABLE storage_root (number INTEGER PRIMARY KEY, path TEXT NOT NULL UNIQUE, token TEXT NOT NULL)",
    """
    CREATE TABLE history (
        id INTEGER PRIMARY KEY CHECK (id = 1), log_id TEXT NOT NULL, timeline INTEGER NOT NULL, commits INTEGER NOT NULL, token TEXT NOT NULL
    )
    """,
    # AUTOINCREMENT: the id of a deleted topic never comes back, so a topic that is created again is another topic.
    """
    CREATE TABLE topic (
        id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE, declaration TEXT NOT NULL, created_ms INTEGER NOT NULL,
        layout INTEGER NOT NULL DEFAULT 0
    )
    """,
    """
    CREATE TABLE topic_schema (
        topic_id INTEGER NOT NULL REFERENCES topic (id) ON DELETE CASCADE, version INTEGER NOT NULL, schema TEXT NOT NULL,
        created_ms INTEGER NOT NULL, PRIMARY KEY (topic_id, version)
    ) WITHOUT ROWID
    """,
    """
    CREATE TABLE topic_partition (
        topic_id INTEGER NOT NULL REFERENCES topic (id) ON DELETE CASCADE, partition INTEGER NOT NULL,
        next_offset INTEGER NOT NULL CHECK (next_offset >= 0), start_offset INTEGER NOT NULL DEFAULT 0,
        cleaned_offset INTEGER NOT NULL DEFAULT 0, purged_below INTEGER NOT NULL DEFAULT 0,
        horizon_offset INTEGER NOT NULL DEFAULT 0, horizon_ms INTEGER NOT NULL DEFAULT 0,
        PRIMARY KEY (topic_id, partition), CHECK (start_offset <= next_offset)
    ) WITHOUT ROWID
    """,
    """
    CREATE TABLE slab (
        id INTEGER PRIMARY KEY AUTOINCREMENT, path TEXT NOT NULL UNIQUE, writer TEXT NOT NULL,
        size INTEGER NOT NULL, checksum INTEGER NOT NULL, appended_ms INTEGER NOT NULL DEFAULT 0,
        first_appended_ms INTEGER NOT NULL DEFAULT 0
    )
    """,
    "CREATE INDEX slab_by_writer ON slab (writer)",
    """
    CREATE TABLE extent (
        topic_id INTEGER NOT NULL, partition INTEGER NOT NULL, base_offset INTEGER NOT NULL, next_offset INTEGER NOT NULL,
        slab_id INTEGER NOT NULL REFERENCES slab (id), position INTEGER NOT NULL, length INTEGER NOT NULL,
        min_timestamp INTEGER NOT NULL, max_timestamp INTEGER NOT NULL, rows INTEGER NOT NULL,
        PRIMARY KEY (topic_id, partition, base_offset),
        FOREIGN KEY (topic_id, partition) REFERENCES topic_partition (topic_id, partition) ON DELETE CASCADE,
        CHECK (rows >= 1 AND base_offset + rows <= next_offset)
    ) WITHOUT ROWID
    """,
    "CREATE INDEX extent_by_slab ON extent (slab_id)",
    "CREATE TABLE trash (path TEXT PRIMARY KEY, dropped_ms INTEGER NOT NULL)",
    INLINE_SLAB,
    """
    CREATE TABLE application (
        id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE, generation INTEGER NOT NULL, epoch INTEGER NOT NULL,
        token TEXT NOT NULL, stream_time_ms INTEGER, tasks INTEGER NOT NULL, key_groups INTEGER NOT NULL, key_hash TEXT NOT NULL,
        program_hash TEXT NOT NULL, program TEXT NOT NULL, drained INTEGER NOT NULL, metrics TEXT NOT NULL
    )
    """,
    """
    CREATE TABLE application_position (
        application_id INTEGER NOT NULL REFERENCES application (id) ON DELETE CASCADE, topic_id INTEGER NOT NULL,
        partition INTEGER NOT NULL, next_offset INTEGER NOT NULL, previous_offset INTEGER NOT NULL DEFAULT 0,
        replay_offset INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (application_id, topic_id, partition)
    ) WITHOUT ROWID
    """,
    """
    CREATE TABLE application_input (
        application_id INTEGER NOT NULL REFERENCES application (id) ON DELETE CASCADE, topic_id INTEGER NOT NULL,
        is_whole INTEGER NOT NULL, PRIMARY KEY (application_id, topic_id)
    ) WITHOUT ROWID
    """,
    """
    CREATE TABLE pin (
        token TEXT NOT NULL, topic_id INTEGER NOT NULL, partition INTEGER NOT NULL, first_offset INTEGER NOT NULL,
        PRIMARY KEY (token, topic_id, partition),
        FOREIGN KEY (topic_id, partition) REFERENCES topic_partition (topic_id, partition) ON DELETE CASCADE
    ) WITHOUT ROWID
    """,
    """
    CREATE TABLE application_store (
        application_id INTEGER NOT NULL REFERENCES application (id) ON DELETE CASCADE, name TEXT NOT NULL,
        number INTEGER NOT NULL, changelog_topic_id INTEGER NOT NULL,
        PRIMARY KEY (application_id, name), UNIQUE (application_id, number)
    ) WITHOUT ROWID
    """,
    """
    CREATE TABLE epoch (
        application_id INTEGER NOT NULL REFERENCES application (id) ON DELETE CASCADE, epoch INTEGER NOT NULL,
        generation INTEGER NOT NULL, token TEXT NOT NULL, stream_time_ms INTEGER, timestamp_ms INTEGER NOT NULL, metrics TEXT NOT NULL,
        PRIMARY KEY (application_id, epoch)
    ) WITHOUT ROWID
    """,
    APPLICATION_PROGRAM,
    """
    CREATE TABLE producer (
        id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT UNIQUE, epoch INTEGER NOT NULL, step INTEGER NOT NULL, token TEXT NOT NULL,
        seen_ms INTEGER NOT NULL DEFAULT 0
    )
    """,
    """
    CREATE TABLE producer_sequence (
        producer_id INTEGER NOT NULL REFERENCES producer (id) ON DELETE CASCADE,
        topic_id INTEGER NOT NULL REFERENCES topic (id) ON DELETE CASCADE,
        sequence INTEGER NOT NULL, offsets TEXT NOT NULL, PRIMARY KEY (producer_id, topic_id, sequence)
    ) WITHOUT ROWID
    """,
    "CREATE TABLE identity (id INTEGER PRIMARY KEY CHECK (id = 1), token TEXT NOT NULL, is_claimed INTEGER NOT NULL)",
    "CREATE TABLE consumer_group (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE, generation INTEGER NOT NULL, assignor TEXT NOT NULL)",
    """
    CREATE TABLE group_member (
        group_id INTEGER NOT NULL REFERENCES consumer_group (id) ON DELETE CASCADE, member_id TEXT NOT NULL, instance_id TEXT,
        client TEXT NOT NULL, session_timeout_ms INTEGER NOT NULL, joined INTEGER NOT NULL,
        PRIMARY KEY (group_id, member_id), UNIQUE (group_id, instance_id)
    ) WITHOUT ROWID
    """,
    """
    CREATE TABLE group_subscription (
        group_id INTEGER NOT NULL, member_id TEXT NOT NULL, topic TEXT NOT NULL, PRIMARY KEY (group_id, member_id, topic),
        FOREIGN KEY (group_id, member_id) REFERENCES group_member (group_id, member_id) ON DELETE CASCADE
    ) WITHOUT ROWID
    """,
    # One owner a partition, by the primary key. Owner and target are members; the target is null when nobody subscribes.
    """
    CREATE TABLE group_assignment (
        group_id INTEGER NOT NULL REFERENCES consumer_group (id) ON DELETE CASCADE, topic_id INTEGER NOT NULL,
        partition INTEGER NOT NULL, owner TEXT NOT NULL, target TEXT, PRIMARY KEY (group_id, topic_id, partition),
        FOREIGN KEY (topic_id, partition) REFERENCES topic_partition (topic_id, partition) ON DELETE CASCADE
    ) WITHOUT ROWID
    """,
    """
    CREATE TABLE group_offset (
        group_id INTEGER NOT NULL REFERENCES consumer_group (id) ON DELETE CASCADE, topic_id INTEGER NOT NULL,
        partition INTEGER NOT NULL, next_offset INTEGER NOT NULL CHECK (next_offset >= 0), committed_ms INTEGER NOT NULL,
        PRIMARY KEY (group_id, topic_id, partition),
        FOREIGN KEY (topic_id, partition) REFERENCES topic_partition (topic_id, partition) ON DELETE CASCADE
    ) WITHOUT ROWID
    """,
    *SQL_TABLES,
)


def prepare(database: Database) -> None:
    """
    Create the tables of a new catalog, or bring those that are there to this format; FormatVersionError if that cannot be done.

    An older StreamKit refuses the log from then on. A catalog that may only be read stays as it is.
    """
    with database.read() as transaction:
        found = _format(transaction)
    if found == FORMAT_VERSION or (found is not None and database.is_read_only):
        return
    with database.write() as transaction:
        found = _format(transaction)  # another process may have been first
        if found is None:
            for statement in TABLES:
                transaction.execute(statement)
            transaction.execute("INSERT INTO log (id, format, settled) VALUES (1, ?, 0)", (FORMAT_VERSION,))
            history.begin(transaction, fresh_token())
        elif found < FORMAT_VERSION:
            for number in range(found, FORMAT_VERSION):
                for statement in UPGRADES[number]:
                    transaction.execute(statement)
            transaction.execute("UPDATE log SET format = ?", (FORMAT_VERSION,))


def _format(transaction: Transaction) -> int | None:
    """The format of a catalog that this StreamKit can use; None if there are no tables yet."""
    return check_format(transaction) if transaction.has_table("log") else None


def check_format(transaction: Transaction) -> int:
    """The format of a catalog; FormatVersionError if this StreamKit can neither use nor upgrade it."""
    ((version,),) = transaction.execute("SELECT format FROM log")
    if version > FORMAT_VERSION:
        raise FormatVersionError(f"the log has format {version}; this StreamKit uses format {FORMAT_VERSION}: upgrade StreamKit")
    if version < min(UPGRADES):
        raise FormatVersionError(
            f"the log has format {version}, from before the first release; this StreamKit uses format {FORMAT_VERSION}: load the data into a new log"
        )
    return int(version)
