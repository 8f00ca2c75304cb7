"""Debezium's unwrap: the row after the change in place of the envelope."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.connectors.setting import Setting
from streamkit.connectors.transforms.extract_field import part_of
from streamkit.connectors.transforms.headers import added, headers_of
from streamkit.connectors.transforms.records import RecordPart, Records
from streamkit.connectors.transforms.texts import texts
from streamkit.connectors.transforms.transform import Transform
from streamkit.errors import ConfigError
from streamkit.names import HEADERS

_MODES = {  # what becomes of a deletion, and whether Debezium's tombstone behind it passes
    "drop": ("drop", False),
    "tombstone": ("none", False),
    "delete-to-tombstone": ("none", False),
    "rewrite": ("rewrite", False),
    "rewrite-with-tombstone": ("rewrite", True),
}
_OF_ENVELOPE = ("op", "ts_ms", "ts_us", "ts_ns")
_OF_TRANSACTION = ("id", "data_collection_order", "total_order")
DELETED_FIELD = "__deleted"


class ExtractNewRecordState(Transform):
    """
    Gives `after`; of a deletion what `delete.tombstone.handling.mode` says. Other values pass as they are.

    `tombstone` and `delete-to-tombstone` make a deletion a tombstone and leave Debezium's own out, `drop` leaves both out,
    `rewrite` gives `before` with `__deleted` = "true" (all others have "false"), `rewrite-with-tombstone` also the tombstone.
    """

    NAME = "ExtractNewRecordState"
    PACKAGE = "io.debezium.transforms."
    SETTINGS = (
        Setting(
            "delete.tombstone.handling.mode", "what is done with deletions and tombstones", default=None, choices=tuple(_MODES)
        ),
        Setting("delete.handling.mode", "the older name for deletions", default=None, choices=("drop", "rewrite", "none")),
        Setting("drop.tombstones", "the older name for tombstones", "boolean", None),
        Setting("add.fields", "fields of the envelope that become columns, such as op,source.ts_ms", "list", ()),
        Setting("add.fields.prefix", "what their names begin with", default="__"),
        Setting("add.headers", "fields of the envelope that become headers", "list", ()),
        Setting("add.headers.prefix", "what their names begin with", default="__"),
    )

    def check(self) -> None:
        deletions, drops = self.settings["delete.handling.mode"], self.settings["drop.tombstones"]
        mode = self.settings["delete.tombstone.handling.mode"]
        if (deletions, drops) == (None, None):
            self._deletions, self._has_tombstones = _MODES[mode or "tombstone"]
        elif mode is None:
            self._deletions, self._has_tombstones = deletions or "drop", drops is False
        else:
            raise ConfigError(self.said("found delete.tombstone.handling.mode and an older name for it; expected one of them"))

    def apply(self, records: Records) -> Iterable[Records]:
        value, is_value = records.value, np.asarray(records.value.valid)
        if self._has_tombstones and not is_value.all():
            yield self._tombstones(records.take(np.flatnonzero(~is_value)))
        if _is_envelope(value) and not records.count:
            yield self._unwrapped(records, "after", "false")
            return
        if not _is_envelope(value):
            yield records.take(np.flatnonzero(is_value))
            return
        is_row = is_value & np.asarray(value.columns["after"].is_valid())
        is_deletion = is_value & ~is_row
        if "before" in value.columns:
            is_deletion &= np.asarray(value.columns["before"].is_valid())
        if is_row.any():
            yield self._unwrapped(records.take(np.flatnonzero(is_row)), "after", "false")
        if self._deletions == "rewrite" and is_deletion.any():
            yield self._unwrapped(records.take(np.flatnonzero(is_deletion)), "before", "true")
        elif self._deletions == "none":
            yield _emptied(self._with_headers(records.take(np.flatnonzero(is_deletion))))

    def _tombstones(self, records: Records) -> Records:
        """Debezium's tombstones, whose only header can be that of the operation."""
        names = [text.partition(":") for text in self.settings["add.headers"] if text.partition(":")[0] == "op"]
        if not names:
            return _emptied(records)
        headers = [self.settings["add.headers.prefix"] + (name or path) for path, _, name in names]
        values = [pa.array(["d"] * records.count, pa.string())] * len(headers)
        return _emptied(records.with_fact(HEADERS, added(headers_of(records), headers, values)))

    def _unwrapped(self, records: Records, side: str, deleted: str) -> Records:
        envelope, told = records.value, self._with_headers(records)
        columns = dict(part_of(side, envelope.columns[side]).columns)
        if self._deletions == "rewrite":
            columns[DELETED_FIELD] = pa.array([deleted] * records.count, pa.string())
        for text in self.settings["add.fields"]:
            name, column = _field(envelope, text)
            if column is not None:
                columns[self.settings["add.fields.prefix"] + name] = column
        valid = envelope.columns[side].is_valid()
        return replace(told, value=RecordPart(columns, valid, True, frozenset(columns)))

    def _with_headers(self, records: Records) -> Records:
        names = self.settings["add.headers"]
        if not names or not records.count:
            return records
        found = [(name, column) for text in names for name, column in [_field(records.value, text)] if column is not None]
        prefix = self.settings["add.headers.prefix"]
        headers = added(headers_of(records), [prefix + name for name, _ in found], [texts(column) for _, column in found])
        return records.with_fact(HEADERS, headers)


def _is_envelope(value: RecordPart) -> bool:
    """Whether a value has `op` and the structs `before` and `after`, or one of them."""
    columns = value.columns if value.is_struct else {}
    return {"op", "after"} <= columns.keys() and pa.types.is_struct(columns["after"].type)


def _field(envelope: RecordPart, text: str) -> tuple[str, pa.Array | None]:
    """
    A field of the envelope, and its name; None if it has none.

    `source.ts_ms` is called `source_ts_ms`, and `op:operation` `operation`; a field without a struct is that of the envelope,
    of the transaction, or of the source.
    """
    path, _, name = text.partition(":")
    owner, _, field = path.rpartition(".")
    if not owner and field not in _OF_ENVELOPE:
        owner = "transaction" if field in _OF_TRANSACTION else "source"
    whole = envelope.columns.get(owner)
    is_there = whole is not None and pa.types.is_struct(whole.type) and whole.type.get_field_index(field) >= 0
    column = pc.struct_field(whole, [field]) if is_there else envelope.columns.get(field)
    return name or path.replace(".", "_"), column


def _emptied(records: Records) -> Records:
    """The records without values."""
    return replace(records, value=RecordPart({}, pa.array(np.zeros(records.count, bool))))
