"""
Every kind of windows in a file of its own: what users call, what they declare by it, and what operators ask of such windows.

A file that is added here is found by itself.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

NAMES = tuple(sorted(module.name for module in iter_modules(__path__)))

for _name in NAMES:
    import_module(f"{__name__}.{_name}")

CALLS = tuple(
    name for name in NAMES if hasattr(import_module(f"{__name__}.{name}"), name)
)  # what users call has the name of its file
CALLED = f"{', '.join(f'{name}(…)' for name in CALLS[:-1])} or {CALLS[-1]}(…)"
