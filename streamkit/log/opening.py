"""Opening a log: which catalog and which storage belong to a location."""

from __future__ import annotations

import importlib
import os

from streamkit.clock import Clock, SystemClock
from streamkit.config import Settings, load_settings
from streamkit.errors import ConfigError, OutcomeUnknownError, SetupError
from streamkit.log.catalog.catalog import Catalog
from streamkit.log.catalog.journal import Journal
from streamkit.log.catalog.transactions import RETRIES
from streamkit.log.database.address import Address, is_address, parse_address
from streamkit.log.database.database import ConnectionLostError
from streamkit.log.database.location import location_text, log_directory
from streamkit.log.database.sqlite import IN_MEMORY, SqliteDatabase
from streamkit.log.database.system_error import naming, obstacle
from streamkit.log.log import Log
from streamkit.log.rescue.loss import TRACES, check_begun, check_present, check_standing
from streamkit.log.storage.replicated_storage import ReplicatedStorage, open_storage
from streamkit.log.storage.storage import FileStorage, MemoryStorage, Storage, make_root
from streamkit.names import CATALOG_FILE, IDENTITY_FOLDER

NOT_IN_MEMORY = (
    "a log in memory is seen only by the process that opened it; expected a directory, as in .streamkit, or a postgresql:// URL"
)


def open_log(
    path_or_url: str | os.PathLike[str] | None = None,
    clock: Clock | None = None,
    vfs: str | None = None,
    *,
    is_known: bool = False,
) -> Log:
    """
    Open the log in a directory, which is made if it is missing; `:memory:` is a log in memory, which is lost when this object is closed.

    For a log that several hosts share: `postgresql://user@host/database?schema=name&storage=/shared/directory`. The catalog
    is in that schema (`streamkit` unless given), the slabs are in the directory, which every host must see; without
    `storage`, the setting `log_storage` (`$STREAMKIT_LOG_STORAGE`) names it. The first opening binds the two together.

    Without an argument: `$STREAMKIT_LOG`, else the setting `log` (`.streamkit`). `vfs` names a SQLite VFS for the catalog,
    for tests that inject faults. A server that does not answer gets five seconds, and the time of the setting `catalog_wait_ms` if the log
    `is_known`, because another process has it open. FormatVersionError if a newer StreamKit wrote it, ConfigError if there can be no log at the place,
    CatalogLostError if the catalog is missing beside slabs, or older than the log's journal, SetupError if psycopg is missing.
    """
    settings = load_settings()
    chosen = clock or SystemClock()
    location = location_text(path_or_url) if path_or_url is not None else settings.log
    if location == IN_MEMORY:
        return Log(location, MemoryStorage(), Catalog(SqliteDatabase(IN_MEMORY), chosen), chosen, settings)
    if is_address(location):
        return _open_shared(parse_address(location, settings.log_storage), chosen, settings, is_known=is_known)
    root = _directory(location)
    check_present(root)
    database = SqliteDatabase(os.path.join(root, CATALOG_FILE), vfs)
    try:
        check_begun(root, database)
        catalog = Catalog(database, chosen, Journal(root))
        check_standing(root, catalog)
        return Log(root, _opened(root, catalog), catalog, chosen, settings)
    except BaseException:
        database.close()
        raise


def open_existing_log(path_or_url: str | os.PathLike[str] | None = None) -> Log:
    """Open the log at a location as `open_log` does; ConfigError if there is none, because looking must not make one."""
    return open_log(existing_location(path_or_url))


def existing_location(path_or_url: str | os.PathLike[str] | None = None) -> str:
    """Where the log is that somebody means; ConfigError, which says how to make one, if there is none."""
    location = location_text(path_or_url) if path_or_url is not None else load_settings().log
    if location == IN_MEMORY:
        raise ConfigError(f"{NOT_IN_MEMORY}: {location!r} is a new one, with no topics")
    if has_log(location):
        return location
    if is_address(location):
        raise ConfigError(
            "the storage directory of the catalog's URL holds no log; correct it, mount it, or create a topic first: streamkit topics create"
        )
    raise ConfigError(
        f"there is no log at {log_directory(location)}; name one with log=, --log or STREAMKIT_LOG, or create a topic first: log.create_topic(), "
        "streamkit topics create, or CREATE STREAM in streamkit sql"
    )


def open_catalog(location: str) -> Catalog:
    """
    The catalog of a log that is there, for looking: of a log in a directory nothing is written, not even what opening it repairs.

    ConfigError if the place cannot be one; CorruptionError if there is no catalog.
    """
    settings = load_settings()
    if is_address(location):
        return _shared_catalog(parse_address(location, settings.log_storage), SystemClock(), settings.catalog_wait_ms)
    return Catalog(SqliteDatabase(os.path.join(log_directory(location), CATALOG_FILE), read_only=True))


def has_log(location: str) -> bool:
    """Whether there is a log at a location already, or what is left of one, as far as its files tell; opening one would make it."""
    if is_address(location):
        return os.path.isdir(os.path.join(parse_address(location, load_settings().log_storage).storage, IDENTITY_FOLDER))
    root = log_directory(location)
    with naming("look into", root):
        return any(_is_there(os.path.join(root, name)) for name in (CATALOG_FILE, IDENTITY_FOLDER, *TRACES))


def _is_there(path: str) -> bool:
    """Whether there is a file or folder; OSError if that cannot be told."""
    try:
        os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def _open_shared(address: Address, clock: Clock, settings: Settings, *, is_known: bool) -> Log:
    try:
        importlib.import_module("streamkit.log.database.postgres")
    except ImportError as error:
        raise SetupError(f"a log in PostgreSQL needs psycopg ({error}): pip install 'psycopg[binary]'") from error
    catalog = _shared_catalog(address, clock, settings.catalog_wait_ms, is_known=is_known)
    try:
        catalog.claim_storage(FileStorage(address.storage))
        storage = _opened(address.storage, catalog)
    except BaseException:
        catalog.close()
        raise
    heartbeats = importlib.import_module("streamkit.log.database.postgres_heartbeats").PostgresHeartbeats(
        address, settings.catalog_wait_ms
    )
    return Log(
        storage.root, storage, catalog, clock, settings, address.text, has_password=address.has_password, heartbeats=heartbeats
    )


def _shared_catalog(address: Address, clock: Clock, wait_ms: int, *, is_known: bool = False) -> Catalog:
    """The catalog in PostgreSQL; opened again when its server starts again meanwhile, since it makes only what is missing."""
    postgres = importlib.import_module("streamkit.log.database.postgres")
    for left in reversed(range(RETRIES + 1)):
        try:
            return Catalog(postgres.PostgresDatabase(address, wait_ms, is_known=is_known), clock)
        except (ConnectionLostError, OutcomeUnknownError):
            if not left:
                raise
    raise AssertionError("a loop that returns or raises")


def _opened(root: str, catalog: Catalog) -> Storage:
    """The storage of a log, after a warning of each root that cannot be used."""
    storage = open_storage(root, catalog.replication())
    if isinstance(storage, ReplicatedStorage):
        storage.warn_of_unusable()
    return storage


def _directory(location: str) -> str:
    """The absolute directory of a location, made if it is missing."""
    root = log_directory(location)
    try:
        make_root(root)
    except OSError as error:
        raise ConfigError(f"the log directory {root} cannot be used: {obstacle(error)}") from error
    return root
