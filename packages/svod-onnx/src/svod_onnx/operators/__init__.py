"""The operators, by theme; importing this registers them."""

from __future__ import annotations

import importlib
import pkgutil

__all__ = ["THEMES"]

THEMES = tuple(sorted(module.name for module in pkgutil.iter_modules(__path__)))

for _theme in THEMES:
    importlib.import_module(f"{__name__}.{_theme}")
