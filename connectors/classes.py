"""From `connector.class` to the class: `KafkaSource` is in the package `kafka`, a third party's is `module:Class`."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Mapping
from typing import Any

import streamkit.connectors
from streamkit.connectors.connector import Connector
from streamkit.errors import ConfigError

CLASS = "connector.class"
_OWN = re.compile(r"([A-Z][A-Za-z]*?)(Source|Sink)")


def connector_of(name: str, config: Mapping[str, Any]) -> Connector:
    """The connector that a configuration describes, checked; ConfigError says what is wrong with it."""
    settings = dict(config)
    settings.pop("name", None)
    if CLASS not in settings:
        raise ConfigError(
            f"the connector {name} needs the setting {CLASS!r}; expected one of {', '.join(known_classes())}, or module:Class"
        )
    found = class_of(str(settings.pop(CLASS)))
    return found(name, settings)


def class_of(text: str) -> type[Connector]:
    """The class of that name; ConfigError if there is none, or if it is no connector."""
    if ":" in text:
        module, _, name = text.partition(":")
        return _checked(text, _attribute(module, name, text))
    match = _OWN.fullmatch(text)
    package = _packages().get(match[1].lower()) if match else None
    if package is None or text not in known_classes():
        raise ConfigError(f"{CLASS}={text!r}; expected one of {', '.join(known_classes())}, or module:Class")
    return _checked(text, _attribute(f"streamkit.connectors.{package}", text, text))


def known_classes() -> list[str]:
    """The names of StreamKit's own connectors, found without importing them, in an archive of Python files too."""
    found = []
    for package in pkgutil.iter_modules(streamkit.connectors.__path__):
        if package.ispkg:
            text = pkgutil.get_data("streamkit.connectors", f"{package.name}/__init__.py") or b""
            found += re.findall(r"^ *from streamkit\.connectors\.\S+ import (\w+(?:Source|Sink))\b", text.decode(), re.MULTILINE)
    return sorted(set(found))


def _packages() -> dict[str, str]:
    """The packages by what their classes begin with: `files` has FileSource."""
    names = [package.name for package in pkgutil.iter_modules(streamkit.connectors.__path__) if package.ispkg]
    return {name.removesuffix("s") if name == "files" else name: name for name in names}


def _attribute(module: str, name: str, text: str) -> Any:
    try:
        return getattr(importlib.import_module(module), name)
    except ModuleNotFoundError as error:
        raise ConfigError(f"{CLASS}={text!r}: there is no module {error.name!r}") from error
    except AttributeError:
        raise ConfigError(f"{CLASS}={text!r}: the module {module} has no class {name}") from None


def _checked(text: str, found: Any) -> type[Connector]:
    if isinstance(found, type) and issubclass(found, Connector):
        return found
    raise ConfigError(f"{CLASS}={text!r} is no connector; expected a subclass of streamkit.connectors.Source or Sink")
