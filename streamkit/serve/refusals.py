"""Errors as answers: a status, what happened in words, and what to do."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from streamkit import errors
from streamkit.errors import ConfigError, StreamKitError
from streamkit.log.database.system_error import error_text
from streamkit.plan.location import TextLocation

_logger = logging.getLogger(__name__)
_KNOWN: tuple[tuple[type[Exception], int, str], ...] = (  # the first that fits counts
    (errors.TopicNotFoundError, 404, "see /api/v1/topics"),
    (errors.StoreNotFoundError, 404, "see /api/v1/applications/{app}/stores"),
    (errors.OffsetOutOfRangeError, 404, "offset=earliest begins at the first record that is left"),
    (errors.TopologyError, 400, "correct the statement at the place that the message names"),
    (errors.SetupError, 501, "install what the message names where the server runs"),
    (errors.ConfigError, 400, "see /openapi.json for what each path takes"),
    (errors.SchemaError, 422, "see the schema of the topic at /api/v1/topics/{topic}"),
    (errors.EvaluationError, 422, "change the condition or the record that the message names"),
    (errors.FencedError, 409, "see what the other one has done before you send it again"),
    (errors.StoreLostError, 410, "ask the host where the application runs"),
    (errors.CorruptionError, 410, "streamkit fsck --deep says what else is damaged; restore it from a copy"),
    (errors.FormatVersionError, 501, "serve the log with the version of StreamKit that wrote it, or a newer one"),
    (errors.CatalogLostError, 503, "streamkit rebuild makes the catalog again"),
    (errors.CatalogUnavailableError, 503, "ask again once the catalog's server is back"),
    (TimeoutError, 504, "ask again, with more wait_seconds, or see whether the application runs"),
    (StreamKitError, 503, "ask again"),
    (OSError, 503, "see the host's disk and limits, then ask again"),
)


class RefusedError(Exception):
    """The request gets an error as its answer; `headers` and `facts` go with it."""

    def __init__(
        self,
        status: int,
        error: str,
        message: str,
        hint: str,
        headers: Mapping[str, str] | None = None,
        facts: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.error, self.message, self.hint = status, error, message, hint
        self.headers, self.facts = dict(headers or {}), dict(facts or {})

    def to_json(self) -> dict[str, Any]:
        """The body of the answer."""
        return {"error": self.error, "message": self.message, "hint": self.hint, **self.facts}


def refusal_of(error: Exception) -> RefusedError:
    """What is said of an error; one that nobody foresaw is told to the logger with its trace, and its sender only hears that it is."""
    if isinstance(error, RefusedError):
        return error
    for kind, status, hint in _KNOWN:
        if isinstance(error, kind):
            headers = {"Retry-After": "1"} if status == 503 else {}
            return RefusedError(status, _name(error), error_text(error), hint, headers, _faults(error))
    _logger.error("an answer failed by an unexpected error", exc_info=error)
    return RefusedError(
        500, "InternalError", "the server failed by an unexpected error", "its own log has more; please report it"
    )


def bad_request(message: str, hint: str = "see /openapi.json for what each path takes") -> RefusedError:
    """The request says something that cannot be meant."""
    return RefusedError(400, "BadRequest", message, hint)


def unreadable_json(error: Exception, what: str) -> RefusedError:
    """A text cannot be read as JSON; where Python's reader speaks of its own limits, in our words."""
    if isinstance(error, RecursionError):
        return bad_request(f"{what} nests too deep to be read", "send values that nest less")
    if "int_max_str_digits" in str(error):
        return bad_request(
            f"{what} has a whole number of too many digits", f"send numbers of {sys.get_int_max_str_digits():,} digits or fewer"
        )
    return bad_request(f"{what} is no JSON: {error}")


def check_change(*, allows_changes: bool) -> None:
    """RefusedError unless changes are allowed."""
    if not allows_changes:
        raise RefusedError(
            403, "ReadOnly", "this server changes nothing", "start it with --allow-changes", {"Connection": "close"}
        )


@contextmanager
def absent(hint: str) -> Iterator[None]:
    """A ConfigError within the block says that the thing asked for is not there."""
    try:
        yield
    except ConfigError as error:
        raise RefusedError(404, "NotFound", str(error), hint) from None


def _faults(error: Exception) -> dict[str, Any]:
    """Where a script in SQL is wrong: lines and columns from 1, and its characters from `start` to before `end`."""
    if not isinstance(error, errors.TopologyError):
        return {}
    faults = (
        error.faults if isinstance(error, errors.SqlError) else [errors.SqlFault(error.message, error.at)] if error.at else []
    )
    return {"faults": [fault_facts(one) for one in faults]} if faults else {}


def fault_facts(fault: errors.SqlFault) -> dict[str, Any]:
    """A fault with its line and column, and its characters in the text."""
    place = {"message": fault.message, "line": fault.at.line, "column": fault.at.column}
    return {**place, "start": fault.at.start, "end": fault.at.end} if isinstance(fault.at, TextLocation) else place


def _name(error: Exception) -> str:
    if isinstance(error, ConfigError):
        return "BadRequest"
    return "Timeout" if isinstance(error, TimeoutError) else type(error).__name__.removesuffix("Error")
