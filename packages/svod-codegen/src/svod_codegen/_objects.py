"""Compiled objects on disk: whichever compiler makes them, they are kept and checked alike."""

from __future__ import annotations

from typing import TYPE_CHECKING

from svod_codegen._elf import is_foreign_object

if TYPE_CHECKING:
    from collections.abc import Callable

    from svod_codegen.disk_store import DiskStore

__all__ = ["get_object"]


def get_object(store: DiskStore, key: str, compile_source: Callable[[], bytes]) -> bytes:
    """The object kept under `key`, or else the one that `compile_source` makes, which is
    kept then.
    """
    found = store.get(key)
    if found is not None:
        if not is_foreign_object(found):
            return found
        store.reject(key)
    code = compile_source()
    store.put(key, code)
    return code
