"""Imports in progress in other threads, which would never finish in the child of a fork.

A thread that imports a module holds the lock of that module. In the child, every import of that
module would wait for the lock, and modules are imported where they are first needed, also during
the first computation of a thread. Python does not free these locks in the child, and offers no API:
this module reads Python's own tables. If they are not as in CPython 3.11 to 3.14, no import is
found.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Final, Protocol, cast

__all__ = ["find_import", "wait_for_import"]


class _ModuleLock(Protocol):
    owner: int | None


class _ImportSystem(Protocol):
    """The part of `importlib._bootstrap` that is used here."""

    _module_locks: Mapping[str, Callable[[], _ModuleLock | None]]

    def _lock_unlock_module(self, name: str) -> None: ...


_system: Final = cast("_ImportSystem", import_module("importlib._bootstrap"))

_PACKAGES: Final = sys.stdlib_module_names | {
    "_cffi_backend",
    "cachetools",
    "llvmlite",
    "ml_dtypes",
    "numpy",
    "structlog",
}


def find_import() -> str | None:
    """A module of svod, or of its dependencies, that another thread is importing; None if there is
    none.

    Other modules are ignored, since a program may run inside of an import, and never return.
    """
    me = threading.get_ident()
    # A copy of the items, since other threads add and remove locks meanwhile.
    for name, ref in list(getattr(_system, "_module_locks", {}).items()):
        package = name.partition(".")[0]
        if package in _PACKAGES or package.startswith("svod_"):
            owner = getattr(ref(), "owner", None)
            if owner is not None and owner != me:
                return name
    return None


def wait_for_import(name: str) -> None:
    """Wait until the module is imported, or its importing thread waits for this thread (a
    deadlock).
    """
    _system._lock_unlock_module(name)  # pyright: ignore[reportPrivateUsage]
