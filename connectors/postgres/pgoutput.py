"""PostgreSQL's logical replication, decoded: the messages of the plugin `pgoutput` (version 1 of its protocol), and the frames around them."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from streamkit.errors import CorruptionError

PROTOCOL_VERSION = 1
_LSN = re.compile("[0-9A-Fa-f]{1,8}/[0-9A-Fa-f]{1,8}")
POSTGRES_EPOCH_US = 946_684_800_000_000  # 2000-01-01, where PostgreSQL's times begin


class Unchanged:
    """In place of a value that the message leaves out: it lies outside the row (TOAST), and the update did not touch it."""

    def __repr__(self) -> str:
        return "UNCHANGED"


UNCHANGED: Final = Unchanged()
TupleValues: TypeAlias = Sequence[Any]  # of a row: bytes as PostgreSQL prints the value, None, or UNCHANGED


class Keepalive(NamedTuple):
    """A frame that says how far the server has read its log; `wants_reply` if it is about to lose patience."""

    end: int
    wants_reply: bool


class Begin(NamedTuple):
    """A transaction begins; all of it is committed, at `commit_lsn`."""

    commit_lsn: int
    time_us: int


class CommitMessage(NamedTuple):
    """A transaction ends; what comes later begins at `end`."""

    commit_lsn: int
    end: int


class RelationColumn(NamedTuple):
    name: str
    type_oid: int
    type_modifier: int
    is_identity: bool  # among what a deletion brings


class Relation(NamedTuple):
    """How a table was when the changes behind this message were made."""

    oid: int
    schema: str
    name: str
    identity: str  # d: the primary key, i: an index, f: every column, n: nothing
    columns: tuple[RelationColumn, ...]


class Insert(NamedTuple):
    oid: int
    new: TupleValues


class Update(NamedTuple):
    """`old` has the old key if it changed, all old values (`is_old_whole`) under REPLICA IDENTITY FULL, else it is None."""

    oid: int
    old: TupleValues | None
    new: TupleValues
    is_old_whole: bool


class Delete(NamedTuple):
    oid: int
    old: TupleValues


class Truncate(NamedTuple):
    oids: tuple[int, ...]


class Ignored(NamedTuple):
    """A message that changes no row: an origin, a type, a message of an application."""

    kind: str


ReplicationMessage: TypeAlias = Begin | CommitMessage | Relation | Insert | Update | Delete | Truncate | Ignored

_KIND = 25  # where the message begins in a frame of data, behind the frame's own kind, two places and a time
_KEEPALIVE = struct.Struct(">xQqB")
_STATUS = struct.Struct(">cQQQqB")
_BEGIN = struct.Struct(f">{_KIND + 1}xQqI")
_COMMIT = struct.Struct(f">{_KIND + 1}xBQQq")
_OID = struct.Struct(f">{_KIND + 1}xI")
_COLUMN = struct.Struct(">Ii")
_COUNT = struct.Struct(">H")
_ROW = _OID.size + 1  # where the first row of a change begins, behind its kind


def status(confirmed: int, now_us: int, *, wants_reply: bool) -> bytes:
    """The frame that says what the server need not keep any more."""
    return _STATUS.pack(b"r", confirmed, confirmed, confirmed, now_us - POSTGRES_EPOCH_US, wants_reply)


def message_of(frame: bytes) -> ReplicationMessage | Keepalive:
    """What the server sent."""
    kind = frame[0]
    if kind == 119:  # w: data
        reader = _READERS.get(frame[_KIND])
        if reader is None:
            raise _unknown("message", frame[_KIND : _KIND + 1])
        return reader(frame)
    if kind == 107:  # k
        end, _, wants_reply = _KEEPALIVE.unpack(frame)
        return Keepalive(end, bool(wants_reply))
    raise _unknown("frame", frame[:1])


def lsn_of(text: str) -> int:
    """A place in PostgreSQL's log, such as 0/16B3748, as a number of bytes."""
    high, _, low = text.partition("/")
    return (int(high, 16) << 32) + int(low, 16)


def is_lsn(value: object) -> bool:
    """Whether a value is a place in PostgreSQL's log as a text."""
    return isinstance(value, str) and _LSN.fullmatch(value) is not None


def lsn_text(lsn: int) -> str:
    """As PostgreSQL writes it."""
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"


def _begin(frame: bytes) -> Begin:
    commit_lsn, time_us, _ = _BEGIN.unpack(frame)
    return Begin(commit_lsn, time_us + POSTGRES_EPOCH_US)


def _commit(frame: bytes) -> CommitMessage:
    _, commit_lsn, end, _ = _COMMIT.unpack(frame)
    return CommitMessage(commit_lsn, end)


def _relation(frame: bytes) -> Relation:
    (oid,) = _OID.unpack_from(frame)
    schema, at = _text(frame, _OID.size)
    name, at = _text(frame, at)
    identity = chr(frame[at])
    (count,) = _COUNT.unpack_from(frame, at + 1)
    at += 1 + _COUNT.size
    columns = []
    for _ in range(count):
        flags = frame[at]
        column, at = _text(frame, at + 1)
        type_oid, modifier = _COLUMN.unpack_from(frame, at)
        at += _COLUMN.size
        columns.append(RelationColumn(column, type_oid, modifier, bool(flags & 1)))
    return Relation(oid, schema, name, identity, tuple(columns))


def _insert(frame: bytes) -> Insert:
    (oid,) = _OID.unpack_from(frame)
    return Insert(oid, _values(frame, _ROW)[0])


def _update(frame: bytes) -> Update:
    (oid,) = _OID.unpack_from(frame)
    if frame[_ROW - 1] == 78:  # N: only the new row
        return Update(oid, None, _values(frame, _ROW)[0], False)
    old, at = _values(frame, _ROW)
    return Update(oid, old, _values(frame, at + 1)[0], frame[_ROW - 1] == 79)  # O: all of the old row


def _delete(frame: bytes) -> Delete:
    (oid,) = _OID.unpack_from(frame)
    return Delete(oid, _values(frame, _ROW)[0])


def _truncate(frame: bytes) -> Truncate:
    (count,) = _OID.unpack_from(frame)
    return Truncate(struct.unpack_from(f">{count}I", frame, _OID.size + 1))


def _ignored(frame: bytes) -> Ignored:
    return Ignored(chr(frame[_KIND]))


def _values(frame: bytes, at: int) -> tuple[TupleValues, int]:
    """The values of a row that begins at a byte, and where it ends. It runs once a change, and so it is flat."""
    count = frame[at] << 8 | frame[at + 1]
    at += 2
    found: list[Any] = []
    for _ in range(count):
        kind = frame[at]
        if kind == 116:  # t: a text
            start = at + 5
            at = start + int.from_bytes(frame[at + 1 : start], "big")
            found.append(frame[start:at])
        elif kind == 110:  # n: null
            found.append(None)
            at += 1
        elif kind == 117:  # u: unchanged
            found.append(UNCHANGED)
            at += 1
        else:
            raise _unknown("kind of value", frame[at : at + 1])
    return tuple(found), at  # which the garbage collector leaves alone, where it would visit lists again and again


def _text(frame: bytes, at: int) -> tuple[str, int]:
    end = frame.index(0, at)
    return frame[at:end].decode(), end + 1


def _unknown(what: str, found: bytes) -> CorruptionError:
    return CorruptionError(
        f"PostgreSQL sent a {what} {found!r} that version {PROTOCOL_VERSION} of pgoutput's protocol does not have; nothing behind it was read"
    )


_READERS: dict[int, Callable[[bytes], ReplicationMessage]] = {
    ord("B"): _begin, ord("C"): _commit, ord("R"): _relation, ord("I"): _insert, ord("U"): _update, ord("D"): _delete,
    ord("T"): _truncate, ord("O"): _ignored, ord("Y"): _ignored, ord("M"): _ignored,
}  # fmt: skip
