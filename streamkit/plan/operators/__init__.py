"""
Every operator in a file of its own: the node that users declare, and the record that runs.

A file that is added here is found by itself; its kernel stands in `streamkit.engine.operators` under the same name.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

NAMES = tuple(sorted(module.name for module in iter_modules(__path__)))

for _name in NAMES:
    import_module(f"{__name__}.{_name}")
