"""
The names that StreamKit writes, and their inverses. (The marker of a storage root, `storage-root`, is in log/storage/storage_root.py.)

Files of a log, below its root:

    catalog.db                                   the catalog, when it is SQLite
    identity/<token>                             whose slabs these are, when the catalog is elsewhere
    heartbeats.db                                when members of groups, applications and pins were last alive; may be deleted at any time
    slabs/<writer>/<generation>/<step>-<token>.slab   writer: a<application id> or p<producer id>
    inline/<writer>/<generation>/<step>-<token>.slab  a small slab, which no file has: its bytes are in the catalog
    plans/<writer>/<generation>-<token>.plan     a stretch of the changelogs: when a generation starts, and when plans outgrow 512 extents or 1,024 epochs
    stores/<application>/<stage>/<task>-of-<tasks>/   local state, or below <local_dir>/<name of the root>-<hash of its path>/; may be deleted at any time
    restoring/<application>/<stage>-<task>-of-<tasks>  how far a task is that restores its store, while it does; may be deleted at any time
    checkpoints/<application>/<generation>-<token>/   Spark's own, or below <local_dir> too; disposable; in functions/<sha256> the users' functions
    journal/<timeline>-<first commit>-<token>.journal  what the catalog committed; see docs/log-format.md
    backups/catalog-<timeline>-<commit>-<token>.db     copies of the catalog
    catalog.db.damaged-<token>                   a catalog that a rebuilt one took the place of
    catalog.db.unfinished-<token>                a rebuilt catalog that is being written, in backups/ a copy; void when found
    damaged/<path>.<token>                       a copy of a file that failed a check and was set aside

And in the folder of a backup while it is not ended:

    unfinished-backup                            the id of the log
    slabs/….slab.unfinished-<token>              a slab that is being brought; void when found
"""

from __future__ import annotations

import difflib
import hashlib
import os
import re
import secrets
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from streamkit.errors import ConfigError, Location

TOPIC = "_topic"  # name of the topic a polled record came from
TIMESTAMP = "_timestamp"  # event time, ms since 1970 UTC
ROW_TIME = "_row_time"  # event time of a row of a table, ms, where that is not the time of its change
PARTITION = "_partition"  # partition of the topic the record came from
OFFSET = "_offset"  # its offset there
HEADERS = "_headers"
DELETED = "_deleted"  # true: the row deletes its key
ORDER = "_order"  # order key: stream time at the record (law 11)
INPUT = "_input"  # number of the input it came from; behind all inputs, of the operator that gave it
PATH = "_path"  # bytes that tell apart what one record caused, in their order; only behind what makes several rows of one
DUE = "_due"  # stream time at which a result was due, ms; only on results that time brings
SINCE = "_since"  # moment since which a row waits to be emitted; in stores only
KEY_GROUP = "_key_group"
CHANGE = "_change"  # what a row does to the group it travels to (see `streamkit.engine.folding.changes`)
INSTRUCTION = "_instruction"  # what a row does to the rows of its foreign key (see `streamkit.engine.operators.foreign_key_join`)
WINDOW = "_window"  # start of the window a row was assigned to, ms
ROW_NUMBER = "_row"  # which row of a batch one comes from, in what a function of batches gives
ALONE = "_alone"  # true: a row of a join found no partner when it came; only in stores
WINDOW_START = "window_start"
WINDOW_END = "window_end"

LOG_COLUMNS = (TIMESTAMP, PARTITION, OFFSET, HEADERS, DELETED)
ORDER_COLUMNS = (ORDER, INPUT, PARTITION, OFFSET)
RESERVED_COLUMNS = frozenset(
    (TOPIC, *LOG_COLUMNS, ROW_TIME, *ORDER_COLUMNS, PATH, DUE, KEY_GROUP, CHANGE, INSTRUCTION, WINDOW, ROW_NUMBER, ALONE)
)

CATALOG_FILE = "catalog.db"
IDENTITY_FOLDER = "identity"
HEARTBEATS_FILE = "heartbeats.db"
APPLICATION_HEARTBEATS = "application/"
EPOCH_HEARTBEATS = "epoch/"
PIN_HEARTBEATS = "pin/"
MAINTENANCE_HEARTBEATS = "maintenance/"
NAME_LENGTH_MAX = 249  # Kafka's limit on topic names
SLAB_NAMES_KEPT = 1024
DIGEST_LENGTH = 12
INLINE_FOLDER = "inline"  # of no folder: what begins so is in the catalog
_NAMELESS = {"Cc": "control character", "Cs": "half of a character", "Co": "private character", "Cn": "unassigned character"}
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_NAME = re.compile(r"[a-zA-Z0-9._-]+")
_SLAB = re.compile(r"slabs/([ap]\d+)/(\d+)/(\d+)-([0-9a-f]{32})\.slab")
_INLINE_SLAB = re.compile(_SLAB.pattern.replace("slabs", INLINE_FOLDER, 1))

_JOURNAL = re.compile(r"journal/(\d+)-(\d+)-[0-9a-f]{32}\.journal")
_CATALOG_COPY = re.compile(r"backups/catalog-(\d+)-(\d+)-[0-9a-f]{32}\.db")
_PLAN = re.compile(r"plans/[ap]\d+/(\d+)-[0-9a-f]{32}\.plan")
_STORE = re.compile(r"(?:.*/)?stores/([^/]+)/(\d+)/(\d+)-of-(\d+)")
_CHECKPOINT = re.compile(r"checkpoints/[^/]+/(\d+)-[0-9a-f]{32}")


def fresh_token() -> str:
    """A token of 128 random bits, as 32 hexadecimal digits; never used twice."""
    return secrets.token_hex(16)


def is_name(name: object) -> bool:
    """Whether Kafka would take it as a topic name."""
    return isinstance(name, str) and bool(_NAME.fullmatch(name)) and name not in (".", "..") and len(name) <= NAME_LENGTH_MAX


def check_name(name: str, what: str, at: Location | None = None) -> str:
    """Return `name` if Kafka would take it as a topic name; else raise ConfigError, which says what is wrong with it, and at which line."""
    if is_name(name):
        return name
    raise ConfigError(
        f"the {what} name {quoted_name(name)} cannot be used: {name_flaw(name)}; expected 1 to {NAME_LENGTH_MAX} of the characters "
        "a-z A-Z 0-9 . _ - and neither '.' nor '..'",
        at,
    )


def spellings(name: str, known: Iterable[str], *, keeps_case: bool = False) -> list[str]:
    """
    The name itself if it is among those known, else all of them that differ from it in case only.

    Where it `keeps_case`, as in ksqlDB's SQL, a name that is not all capitals is itself alone.
    """
    every = list(known)
    if name in every or (keeps_case and name != name.upper()):
        return [name] if name in every else []
    return [one for one in every if one.lower() == name.lower()]


def snake_case(name: str) -> str:
    """A name as Python writes it: `groupBy` is `group_by`."""
    return _HUMP.sub("_", name).lower()


def quoted_name(name: object) -> str:
    """A name as Python's ASCII has it, cut if it is long: a letter of another script is seen as such."""
    return ascii(name) if len(ascii(name)) <= 80 else f"{ascii(name)[:77]}..."


def name_flaw(name: object) -> str:
    """What is wrong with a text that is not a name."""
    if not isinstance(name, str):
        return f"it is a {type(name).__name__}"
    for position, character in enumerate(name):
        if not _NAME.fullmatch(character):
            return f"its character {position + 1} is {character_name(character)}"
    return f"it has {len(name)} characters" if len(name) not in (1, 2) else "it stands for a folder"


def character_name(character: str) -> str:
    """A character by its number and its name in Unicode, not by its looks."""
    nameless = _NAMELESS.get(unicodedata.category(character), "character")
    return f"U+{ord(character):04X} {unicodedata.name(character, nameless)}"


@dataclass(frozen=True)
class SlabName:
    """
    What the path of a slab says: who wrote it, in which generation, with which serial, under which token.

    The bytes of one that `is_inline` are in the catalog, and its path is the name of no file.
    """

    writer: str
    generation: int
    serial: int
    token: str
    is_inline: bool = False

    @property
    def path(self) -> str:
        folder = INLINE_FOLDER if self.is_inline else "slabs"
        return f"{folder}/{self.writer}/{self.generation}/{self.serial}-{self.token}.slab"

    @classmethod
    def parse(cls, path: str) -> SlabName | None:
        """The name behind a path; None if it is not the path of a slab."""
        return _slab_name(path)


@lru_cache(maxsize=SLAB_NAMES_KEPT)
def _slab_name(path: str) -> SlabName | None:
    match = (_INLINE_SLAB if is_inline(path) else _SLAB).fullmatch(path)
    return SlabName(match[1], int(match[2]), int(match[3]), match[4], is_inline(path)) if match else None


def is_inline(path: str) -> bool:
    """Whether the bytes of a slab are in the catalog, by its path."""
    return path.startswith(f"{INLINE_FOLDER}/")


def identity_path(token: str) -> str:
    return f"{IDENTITY_FOLDER}/{token}"


def application_writer(application_id: int) -> str:
    return f"a{application_id}"


def producer_writer(producer_id: int) -> str:
    return f"p{producer_id}"


def application_heartbeat(application_id: int, generation: int) -> str:
    """The name of the heartbeat by which a driver says that its application runs."""
    return f"application/{application_id}/{generation}"


def epoch_heartbeat(application_id: int, generation: int) -> str:
    """The name of the heartbeat by which it says when it planned the epoch under way."""
    return f"epoch/{application_id}/{generation}"


def pin_heartbeat(token: str) -> str:
    return f"{PIN_HEARTBEATS}{token}"


def maintenance_heartbeat(token: str) -> str:
    return f"{MAINTENANCE_HEARTBEATS}{token}"


def heartbeat_name(group: str, member_id: str = "") -> str:
    """The name under which a member of a group beats; without a member, what all of them begin with."""
    return f"group/{group}/{member_id}"


def slab_folder(writer: str) -> str:
    return f"slabs/{writer}"


CHANGELOG_END = "-changelog"


def changelog_topic(application: str, store: str) -> str:
    """The name of a store's changelog, in Kafka's own pattern, so that people find it."""
    return f"{application}-{store}{CHANGELOG_END}"


REBUILDING_END = ".rebuild"


def rebuilding(application: str) -> str:
    """The name of the application that fills stores of another one again; no topology may be called so."""
    return f"{application}{REBUILDING_END}"


def plan_path(writer: str, generation: int, token: str) -> str:
    return f"plans/{writer}/{generation}-{token}.plan"


def plan_folder(writer: str) -> str:
    return f"plans/{writer}"


def plan_generation(path: str) -> int | None:
    """The generation behind the path of a plan; None if it is not the path of a plan."""
    match = _PLAN.fullmatch(path)
    return int(match[1]) if match else None


def store_folder(application: str, stage: int, task: int, tasks: int) -> str:
    return f"stores/{application}/{stage}/{task}-of-{tasks}"


def local_root(root: str, local_dir: str) -> str:
    """
    The folder of this host that has the stores of the log at `root`: the root itself without a `local_dir`.

    Else one below it that no other log has, by the path of its root; `~` is the home of the user.
    """
    if not local_dir:
        return root
    digest = hashlib.sha256(root.encode()).hexdigest()[:DIGEST_LENGTH]
    return os.path.join(absolute_path(local_dir, "setting local_dir"), f"{os.path.basename(root)}-{digest}")


def absolute_path(path: str, what: str) -> str:
    """A path from the root on, `~` and `~name` being homes of users; ConfigError, which says `what` it is, if there is no such user."""
    expanded = os.path.expanduser(path)
    if expanded.startswith("~"):
        user = expanded.partition("/")[0]
        raise ConfigError(
            f"the {what} {path!r} cannot be used: there is no user {user[1:]!r} here; expected a path such as /data/log, or ./{user} for a folder "
            "of that name"
        )
    return os.path.abspath(expanded)


@dataclass(frozen=True)
class StorePlace:
    """What the folder of a task's stores says of the task."""

    application: str
    stage: int
    task: int
    tasks: int

    @classmethod
    def parse(cls, folder: str) -> StorePlace | None:
        """The task behind the path of a folder, absolute or not; None if it is none of stores."""
        match = _STORE.fullmatch(folder)
        return cls(match[1], *map(int, match.groups()[1:])) if match else None

    def __str__(self) -> str:
        return f"{self.application}, stage {self.stage}, task {self.task} of {self.tasks}"


def restoring_folder(application: str) -> str:
    """Where the tasks of an application that restore their stores say how far they are."""
    return f"restoring/{application}"


def restoring_path(place: StorePlace) -> str:
    return f"{restoring_folder(place.application)}/{place.stage}-{place.task}-of-{place.tasks}"


def checkpoints_folder(application: str) -> str:
    return f"checkpoints/{application}"


def checkpoint_folder(application: str, generation: int, token: str) -> str:
    return f"{checkpoints_folder(application)}/{generation}-{token}"


def functions_path(checkpoint: str, digest: str) -> str:
    """The file of the users' functions of the start that has this checkpoint."""
    return f"{checkpoint}/functions/{digest}"


def checkpoint_generation(path: str) -> int | None:
    """The generation behind the path of a checkpoint; None if it is not one."""
    match = _CHECKPOINT.fullmatch(path)
    return int(match[1]) if match else None


def spark_log_path(application: str) -> str:
    """The file that takes Spark's own messages while an application runs quietly."""
    return f"{checkpoints_folder(application)}/spark.log"


def application_folders(application: str) -> tuple[str, ...]:
    """The folders that hold an application's local state and checkpoints, all of which may be deleted."""
    return (f"stores/{application}", restoring_folder(application), checkpoints_folder(application))


LOCAL_FOLDERS = ("stores", "restoring", "checkpoints")  # whose files are none of the log


JOURNAL_FOLDER = "journal"
CATALOG_COPIES_FOLDER = "backups"
UNFINISHED_BACKUP = "unfinished-backup"


def journal_path(timeline: int, commit: int, token: str) -> str:
    return f"{JOURNAL_FOLDER}/{timeline}-{commit}-{token}.journal"


def journal_start(path: str) -> tuple[int, int] | None:
    """The timeline and the first commit behind the path of a journal file; None if it is not one."""
    match = _JOURNAL.fullmatch(path)
    return (int(match[1]), int(match[2])) if match else None


def catalog_copy_path(timeline: int, commit: int, token: str) -> str:
    return f"{CATALOG_COPIES_FOLDER}/catalog-{timeline}-{commit}-{token}.db"


def catalog_copy_place(path: str) -> tuple[int, int] | None:
    """The timeline and the commit behind the path of a copy of the catalog; None if it is not one."""
    match = _CATALOG_COPY.fullmatch(path)
    return (int(match[1]), int(match[2])) if match else None


_KNOWN_FILES = re.compile(
    r"(catalog|heartbeats)\.db(-wal|-shm|-journal)?|catalog\.db\.(damaged|unfinished)-[0-9a-f]{32}(-wal|-shm|-journal)?"
    r"|damaged/.+|identity/[0-9a-f]{32}|backups/catalog\.db\.unfinished-[0-9a-f]{32}(-journal)?"
    rf"|{UNFINISHED_BACKUP}|{_SLAB.pattern}\.unfinished-[0-9a-f]{{32}}"
)


def is_known_file(path: str) -> bool:
    """Whether a file of a log may be called so; local state and checkpoints are not files of the log."""
    return any(pattern.fullmatch(path) for pattern in (_KNOWN_FILES, _SLAB, _PLAN, _JOURNAL, _CATALOG_COPY))


def unfinished_file(path: str, token: str) -> str:
    """The path at which a replacement of `path` is written; a file found there later is void."""
    return f"{path}.unfinished-{token}"


def damaged_catalog(token: str) -> str:
    return f"{CATALOG_FILE}.damaged-{token}"


def meant(name: str, known: Iterable[str]) -> str:
    """The hint at the name that is spelt most like another one, whatever their case, to be put behind a message; empty if none is."""
    spelt = {one.lower(): one for one in known}
    close = difflib.get_close_matches(name.lower(), spelt, 1)
    return f"; did you mean {spelt[close[0]]!r}?" if close else ""
