"""Failed records in the log of the process, as Connect's `errors.log.*` say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from streamkit.connectors.redaction import logger_of
from streamkit.connectors.runtime.failed_records import FailedConnector, class_of
from streamkit.connectors.runtime.pipeline import RecordFailure
from streamkit.connectors.runtime.sound_texts import shown_value
from streamkit.names import OFFSET, PARTITION, TIMESTAMP, TOPIC

_LOGGER = logger_of(__name__)


def log_failures(
    origin: FailedConnector, settings: Mapping[str, Any], topic: str, rows: pa.Table, failures: Sequence[RecordFailure]
) -> None:
    """Write an error for each, if `errors.log.enable` says so; where it was only with `errors.log.include.messages`."""
    if not settings["errors.log.enable"]:
        return
    for failure in failures:
        where = _where(topic, rows, failure) if settings["errors.log.include.messages"] else ""
        _LOGGER.error(
            "Error encountered in task %s-%d. Executing stage '%s' with class '%s'%s. %s",
            origin.connector, origin.task, failure.stage, class_of(origin, failure), where, origin.redacted(str(failure.error)),
        )  # fmt: skip


def _where(topic: str, rows: pa.Table, failure: RecordFailure) -> str:
    """The place of a record, and never its contents."""
    row = rows.slice(failure.row, 1)  # whose time may be of a year that no datetime has
    found = {name: shown_value(row[name]) for name in (TOPIC, PARTITION, OFFSET, TIMESTAMP) if name in rows.column_names}
    said = {"topic": repr(found.pop(TOPIC, topic)), **{name.removeprefix("_"): value for name, value in found.items()}}
    return f", where the record is {{{', '.join(f'{name}={value}' for name, value in said.items())}}}"
