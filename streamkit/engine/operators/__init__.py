"""The kernel of every operator, in a file of the operator's name; a file that is added here is found by itself."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

NAMES = tuple(sorted(module.name for module in iter_modules(__path__)))

for _name in NAMES:
    import_module(f"{__name__}.{_name}")
