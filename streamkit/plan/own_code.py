"""
Which code is the user's own, and what of a library, or of the process, is told by its name alone.

A module is a library by where its file lies, not by its name: a file of the user's may be called `queue.py`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from functools import lru_cache
from pathlib import PurePath
from types import BuiltinFunctionType, FunctionType, MethodType, MethodWrapperType, ModuleType
from typing import Any

from streamkit.plan.inspection import attribute

_STANDARD_FOLDER = PurePath(os.__file__).parent
_INSTALLED = ("site-packages", "dist-packages")  # the folders of libraries
_OURS = ("streamkit", "pyspark")
_VALUES = frozenset((str, bytes, int, float, bool, type(None), tuple, frozenset))
_NOT_OF_THE_PROCESS = frozenset((*_VALUES, FunctionType, BuiltinFunctionType, ModuleType))


def is_library_module(name: str) -> bool:
    """Whether a module is of Python, of StreamKit, or of an installed library."""
    package = name.partition(".")[0]
    if package in _OURS:
        return True
    module = sys.modules.get(name)
    if module is None and package != name:
        return is_library_module(package)
    file = getattr(module, "__file__", None)
    if file is None and module is not None:  # text that ran as a module has a name for what Python brings; code in C has none
        return "__builtins__" not in vars(module)
    if file is None:
        return name in sys.stdlib_module_names
    return _is_library_file(str(file))


def is_own_class(kind: type) -> bool:
    """Whether a class is of the user's own modules."""
    return not is_library_module(str(kind.__module__))


def owner_of(value: Any) -> Any:
    """The object whose method a value is, if Python itself made that method, such as `get` of a dict; else None."""
    owner = value.__self__ if issubclass(type(value), (BuiltinFunctionType, MethodWrapperType)) else None
    return None if isinstance(owner, ModuleType) else owner


def library_name(value: Any) -> str | None:
    """
    The name of a function, class or module of a library; None of the user's own, and of what is neither.

    A function is of the module whose names its code uses, not of the one that a decorator wrote on it.
    """
    if type(value) in _VALUES:
        return None
    if isinstance(value, ModuleType):
        return f"module {value.__name__ if is_library_module(value.__name__) else own_module_name(value.__name__)}"
    if type(value) is FunctionType:
        return f"{value.__globals__['__name__']} {value.__qualname__}" if _is_of_library(value.__globals__) else None
    if type(value) is MethodType or owner_of(value) is not None:
        return None
    name, module = attribute(value, "__qualname__"), attribute(value, "__module__")
    if not isinstance(name, str) or not isinstance(module, str) or not is_library_module(module):
        return None
    return f"{module} {name}" if issubclass(type(value), BuiltinFunctionType) or is_importable(value) else None


def is_importable(value: Any) -> bool:
    """Whether a function or class is found in its module by its name."""
    found = _module_of(value)
    for name in str(attribute(value, "__qualname__", "")).split("."):
        found = attribute(found, name)
    return found is value


def is_elsewhere(value: Any, names: Mapping[str, Any]) -> bool:
    """
    Whether a function or class is of another module than the one that has these names, which imports it.

    A function is of the module whose names its code uses: a decorator of another module may give its own function the name and the
    module of what it decorates.
    """
    if isinstance(value, type):
        return value.__module__ != names.get("__name__") and is_importable(value)
    function = attribute(value, "__wrapped__") if type(value).__module__ == "functools" else value
    if type(function) is not FunctionType or function.__globals__ is names:
        return False
    return function.__globals__ is getattr(_module_of(value), "__dict__", None) and is_importable(value)


def own_module_name(name: str) -> str:
    """What a module of the user's is called however the program is started: the name that imports give it, or that of its file."""
    module = sys.modules.get(name) if name == "__main__" else None
    spec, file = getattr(module, "__spec__", None), getattr(module, "__file__", None)
    return spec.name.removesuffix(".__main__") if spec is not None else PurePath(file).stem if file else name


def _module_of(value: Any) -> Any:
    """The module that a function or class says it is of."""
    return sys.modules.get(str(attribute(value, "__module__")))


def names_of_the_process() -> dict[int, str]:
    """What `os` and `sys` hold of this process, such as its environment and its arguments: names by addresses."""
    return {
        id(value): f"{module.__name__}.{name} of the process"
        for module in (sys, os)
        for name, value in vars(module).items()
        if type(value) not in _NOT_OF_THE_PROCESS and not isinstance(value, type)
    }


def _is_of_library(names: Mapping[str, Any]) -> bool:
    """Whether the names that a function uses are those of a library's module."""
    name = names.get("__name__")
    if not isinstance(name, str):
        return False
    if getattr(sys.modules.get(name), "__dict__", None) is names or not names.get("__file__"):
        return is_library_module(name)
    return name.partition(".")[0] in _OURS or _is_library_file(str(names["__file__"]))


@lru_cache(maxsize=1_000)
def _is_library_file(file: str) -> bool:
    path = PurePath(file)
    return any(folder in path.parts for folder in _INSTALLED) or _STANDARD_FOLDER in path.parents
