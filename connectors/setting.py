"""Settings of a connector: what each is called, what it may be, and a configuration checked against them."""

from __future__ import annotations

import base64
import difflib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from streamkit.connectors.placeholders import has_placeholder
from streamkit.connectors.redaction import HIDDEN
from streamkit.errors import ConfigError

KINDS = ("string", "integer", "boolean", "list", "texts")
_SECRET = re.compile("(?i)password|secret|token|key|jaas|auth|credential|userinfo")
_PASSWORD = re.compile(
    r"(?i)://(?P<user>[^:/@\s]*):(?P<of_user>[^/?#\s]*(?=@)|[^@\s]+(?=@))"  # up to the last @ before the path, else to the first @ there is
    r"|[?&](?:[\w.-]*(?:password|secret|token|signature)|(?:[\w.-]*[._-])?(?:(?:api|access|auth)?key|sig|auth|code))=(?P<parameter>[^&#\s]+)"
    r"|\bpassword=(?P<password>[^@&\s]+)"
)
_MALFORMED = re.compile(
    r"://[^:/@\s]*:((?:(?!://).)*[/?#@\s](?:(?!://).)*)@", re.DOTALL
)  # a password with a character that ends it for a library
_TRUTHS = {"true": True, "false": False}


@dataclass(frozen=True)
class Required:
    """In place of a default: the setting must be given."""


REQUIRED = Required()


@dataclass(frozen=True)
class Setting:
    """
    A setting by its name, such as `bootstrap.servers`.

    `kind` is `string`, `integer`, `boolean`, `list` (texts with commas between) or `texts` (of which one may be empty). A name that ends in a dot stands for
    every name that begins so, and its value is a dict of texts. `is_secret` keeps the value out of logs, status and plans;
    of such a prefix, the values whose names sound secret (password, token, key and the like); if `shown_names` are given, all but these.
    """

    name: str
    doc: str
    kind: str = "string"
    default: Any = REQUIRED
    choices: tuple[str, ...] = ()
    least: int | None = None
    most: int | None = None
    is_secret: bool = False
    shown_names: tuple[str, ...] | None = None  # in lower case

    @property
    def is_prefix(self) -> bool:
        return self.name.endswith(".")

    def hides(self, name: str) -> bool:
        """Whether the value of a name that begins as this secret one does is a secret."""
        if self.shown_names is None:
            return _SECRET.search(name) is not None
        return name.removeprefix(self.name).lower() not in self.shown_names

    def read(self, written: Any) -> Any:
        """The value that a text (or a value of JSON) stands for; ConfigError if it is of another kind."""
        value = _READERS[self.kind](written)
        if value is None:
            raise ConfigError(f"{self.name}={self.shown(written)}; expected {_EXPECTED[self.kind]}")
        if self.choices and value not in self.choices:
            raise ConfigError(f"{self.name}={self.shown(written)}; expected one of {', '.join(self.choices)}")
        if self.least is not None and isinstance(value, int) and value < self.least:
            raise ConfigError(f"{self.name}={self.shown(written)}; expected at least {self.least}")
        if self.most is not None and isinstance(value, int) and value > self.most:
            raise ConfigError(f"{self.name}={self.shown(written)}; expected at most {self.most}")
        return value

    def shown(self, written: Any) -> str:
        """The value as messages show it."""
        return HIDDEN if self.is_secret else repr(written)


def read_settings(owner: str, settings: Iterable[Setting], config: Mapping[str, Any]) -> dict[str, Any]:
    """
    Every setting's value, by its name; settings that are not given have their defaults.

    ConfigError for an unknown name (with those that are nearest), a required one that is missing, and a value of another kind.
    """
    known = {setting.name: setting for setting in settings}
    prefixes = [setting for setting in known.values() if setting.is_prefix]
    found: dict[str, Any] = {setting.name: {} for setting in prefixes}
    for name, written in config.items():
        if name in known and not known[name].is_prefix:
            found[name] = known[name].read(written)
            if found[name] == () and isinstance(known[name].default, Required):
                raise ConfigError(f"{owner}: {name} is empty; expected {known[name].doc}")
        elif prefix := next((one for one in prefixes if name.startswith(one.name) and name != one.name), None):
            found[prefix.name][name.removeprefix(prefix.name)] = prefix.read(written)
        else:
            raise ConfigError(f"{owner} has no setting {name!r}; {_nearest(name, known)}")
    for setting in known.values():
        if setting.name not in found:
            if isinstance(setting.default, Required):
                raise ConfigError(f"{owner} needs the setting {setting.name!r}: {setting.doc}")
            found[setting.name] = setting.default
    return found


def secrets_of(settings: Iterable[Setting], config: Mapping[str, Any]) -> Iterator[str]:
    """The texts of a configuration that nobody may see, passwords within addresses too."""
    for written in config.values():
        yield from _passwords(str(written))
    for setting in settings:
        if setting.is_secret:
            for name, written in config.items():
                if name == setting.name or (setting.is_prefix and name.startswith(setting.name) and setting.hides(name)):
                    yield str(written)


def written_secret(settings: Iterable[Setting], config: Mapping[str, Any]) -> str | None:
    """The first setting whose value is secret and is written out, where a placeholder would keep it elsewhere; None if there is none."""
    declared = tuple(settings)
    written = (name for name, value in config.items() if any(secrets_of(declared, {name: value})) and not has_placeholder(value))
    return next(written, None)


def _passwords(text: str) -> Iterator[str]:
    """Passwords within an address, as it has them and as they are: a library's message may have them alone."""
    for match in _PASSWORD.finditer(text):
        found = match["of_user"] or match["parameter"] or match["password"] or ""
        yield from (found, unquote(found))
        if match["of_user"]:  # as HTTP's Basic sends it
            yield base64.b64encode(f"{unquote(match['user'])}:{unquote(found)}".encode()).decode()
    for match in _MALFORMED.finditer(text):
        yield match[1]


def _nearest(name: str, known: Iterable[str]) -> str:
    names = sorted(known)
    near = difflib.get_close_matches(name, names, 3)
    return f"did you mean {' or '.join(near)}?" if near else f"it has {', '.join(names)}"


def _text(written: Any) -> str | None:
    if isinstance(written, bool):
        return str(written).lower()
    return str(written) if isinstance(written, str | int | float) else None


def _integer(written: Any) -> int | None:
    text = _text(written)
    try:
        return None if text is None or isinstance(written, bool | float) else int(text)
    except ValueError:
        return None


def _boolean(written: Any) -> bool | None:
    return _TRUTHS.get((_text(written) or "").strip().lower())


def _list(written: Any) -> tuple[str, ...] | None:
    found = _texts(written)
    return found if found is None or isinstance(written, list | tuple) else tuple(part for part in found if part)


def _texts(written: Any) -> tuple[str, ...] | None:
    if isinstance(written, list | tuple):
        return tuple(written) if all(isinstance(one, str) for one in written) else None
    text = _text(written)
    return None if text is None else tuple(part.strip() for part in text.split(","))


_READERS = {"string": _text, "integer": _integer, "boolean": _boolean, "list": _list, "texts": _texts}
_EXPECTED = {
    "string": "a text",
    "integer": "an integer",
    "boolean": "true or false",
    "list": "texts with commas between, or a list of them",
    "texts": "texts with commas between, or a list of them",
}
