"""Cache of compiled objects on disk, shared by all compilers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from svod_codegen._elf import is_foreign_object

if TYPE_CHECKING:
    from collections.abc import Callable

    from svod_codegen.disk_store import DiskStore

__all__ = ["get_object"]


def get_object(store: DiskStore, key: str, compile_source: Callable[[], bytes]) -> bytes:
    """Return the object stored under `key`; on a miss, call `compile_source` and store its result.

    If another process is compiling it, wait for its result.
    """
    cached = _find_object(store, key)
    if cached is not None:
        return cached
    if not store.claim(key):
        store.wait(key)
        cached = _find_object(store, key)
        if cached is not None:
            return cached
    try:
        code = compile_source()
        store.put(key, code)
    finally:
        store.release(key)
    return code


def _find_object(store: DiskStore, key: str) -> bytes | None:
    cached = store.get(key)
    if cached is not None and is_foreign_object(cached):
        # Code for another processor would crash the process. A key names the processor, but the
        # folder may have been copied or damaged.
        store.reject(key)
        return None
    return cached
