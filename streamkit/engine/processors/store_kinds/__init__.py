"""
What processors see of every kind of store, in a file of the kind's name.

A file that is added here is found by itself; what users call and declare stands in `streamkit.plan.store_kinds` under the same name.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

NAMES = tuple(sorted(module.name for module in iter_modules(__path__)))

for _name in NAMES:
    import_module(f"{__name__}.{_name}")
