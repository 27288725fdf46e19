"""Cache of compiled objects on disk, shared by all compilers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from svod_codegen._elf import is_foreign_object

if TYPE_CHECKING:
    from collections.abc import Callable

    from svod_codegen.disk_store import DiskStore

__all__ = ["get_object"]


def get_object(store: DiskStore, key: str, compile_source: Callable[[], bytes]) -> bytes:
    """Return the object stored under `key`; on a miss, call `compile_source` and store its result."""
    cached = store.get(key)
    if cached is not None:
        # Code for another processor would crash the process. A key names the processor, but the
        # folder may have been copied or damaged.
        if not is_foreign_object(cached):
            return cached
        store.reject(key)
    code = compile_source()
    store.put(key, code)
    return code
