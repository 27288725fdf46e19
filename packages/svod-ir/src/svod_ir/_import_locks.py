"""Imports that other threads are in the middle of: in the child of a fork, nobody would ever finish
them.

Who imports a module holds a lock of that module, and in the child everyone who imports it too waits
for that lock. Modules are imported where they are first needed, also by threads that compute for
the first time. Python frees none of these locks in the child, and there is nothing but its own
tables to look at: where they are not what they were in CPython 3.11 to 3.14, no import is found.
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
    """`importlib._bootstrap`, as far as it is used here."""

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
    """A module that another thread is importing, of those that svod consists of or uses; None if
    there is none.

    Others may take forever: a program may run inside an import.
    """
    me = threading.get_ident()
    for name, ref in list(getattr(_system, "_module_locks", {}).items()):
        package = name.partition(".")[0]
        if package in _PACKAGES or package.startswith("svod_"):
            owner = getattr(ref(), "owner", None)
            if owner is not None and owner != me:
                return name
    return None


def wait_for_import(name: str) -> None:
    """Return when the module is imported, or when the thread that imports it waits for this one."""
    _system._lock_unlock_module(name)  # pyright: ignore[reportPrivateUsage]
