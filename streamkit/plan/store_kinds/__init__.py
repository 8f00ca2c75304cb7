"""
Every kind of store that processors keep in a file of its own: what users call, and the definition that they get.

A file that is added here is found by itself; what processors see of such a store stands in `streamkit.engine.processors.store_kinds`
under the same name.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

NAMES = tuple(sorted(module.name for module in iter_modules(__path__)))  # what users call has the name of its file

for _name in NAMES:
    import_module(f"{__name__}.{_name}")

CALLED = f"sk.{NAMES[0]}(…), {', '.join(NAMES[1:-1])} or {NAMES[-1]}"
