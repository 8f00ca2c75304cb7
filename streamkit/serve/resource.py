"""What the server answers under a path: who answers, what may be asked, and what comes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from streamkit.log.log import Log
from streamkit.serve.forms import JSON
from streamkit.serve.limits import ServeLimits
from streamkit.serve.live import Live
from streamkit.serve.refusals import RefusedError, check_change


@dataclass(frozen=True)
class Parameter:
    """What may stand behind the `?` of a path: its type is int, float, bool or str; `is_list`: it may come several times."""

    name: str
    type: type
    doc: str
    default: Any = None
    is_list: bool = False
    least: int | None = None
    is_required: bool = False  # of the fields of a body


@dataclass(frozen=True)
class Body:
    """What a request brings, and the form that its Content-Type names."""

    form: str
    content: bytes


@dataclass(frozen=True)
class Asked:
    """
    A request that was checked: the names in its path, its parameters by name, and in which form the answer is wanted.

    `others` are parameters that the resource did not name, such as key columns. `goes_on` says whether anybody still waits.
    The fields of a body are among the values, unless the resource reads the `body` itself.
    """

    log: Log
    limits: ServeLimits
    path: Mapping[str, str]
    values: Mapping[str, Any]
    others: Mapping[str, str]
    form: str
    live: Live
    last_event: str | None = None
    goes_on: Callable[[], bool] = field(default=lambda: True)
    body: Body | None = None
    allows_changes: bool = False

    def check_change(self) -> None:
        """RefusedError unless the server changes something when it is asked to."""
        check_change(allows_changes=self.allows_changes)

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    def rows(self, name: str, way_on: str) -> int:
        """How many rows or the like a parameter asks for; RefusedError, which says the way on, if an answer may not have so many."""
        wanted: int = self.values[name]
        if wanted > self.limits.rows:
            raise RefusedError(413, "TooMany", f"found {name}={wanted}; expected at most {self.limits.rows:,}", way_on)
        return wanted


@dataclass(frozen=True)
class Resource:
    """
    A path, with `{names}` in it, and what it gives.

    `answer` is called in a thread, and gives a value for JSON, or an `Answer` of its own. `gives` is the type of the value, for the
    description. One of an application waits for `wait_for`, and says the epoch at which it looked.

    A POST changes something, so a server answers it only where changes are allowed. Its body is a JSON object of `fields`, or is in one of the
    `body_forms`, which the answer reads itself. One that `only_asks` changes nothing, and of one that `may_change` the answer itself finds
    out whether it would. `error_facts` are put beside the words of an error, for clients of another server.
    """

    path: str
    doc: str
    answer: Callable[[Asked], Any]
    gives: Any
    parameters: tuple[Parameter, ...] = ()
    forms: Sequence[str] = (JSON,)
    is_of_application: bool = False
    takes_others: str | None = None  # what the others are
    method: str = "GET"
    fields: tuple[Parameter, ...] = ()
    body_forms: Mapping[str, str] = field(default_factory=dict)  # and what each holds
    is_open: bool = False  # also to those without the token
    only_asks: bool = False
    may_change: bool = False
    error_facts: Callable[[RefusedError], Mapping[str, Any]] | None = None

    @property
    def is_change(self) -> bool:
        """Whether whoever sends it wants something changed, whatever it holds."""
        return self.method != "GET" and not self.only_asks and not self.may_change

    @property
    def every_parameter(self) -> tuple[Parameter, ...]:
        """Its own parameters, and those of all resources of applications."""
        return (*self.parameters, *(WAITING if self.is_of_application else ()))


WAITING = (
    Parameter(
        "wait_for",
        str,
        "answer only once the application has committed this: an epoch, or a position as X-StreamKit-Position gives it, such as "
        '{"orders": {"0": 12}}',
    ),
    Parameter("wait_seconds", float, "for how long at most; then 504", 10.0, least=0),
)
