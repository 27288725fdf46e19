"""Tuned opts, in the process and on disk: opts that earlier searches found, for use without a
search.

An entry belongs to a kernel, a target and a compiler, whatever the configuration of the search was.
If nothing was ever stored, a look-up costs one check of a directory in each process."""

from __future__ import annotations

import os
import threading
from functools import cache
from typing import TYPE_CHECKING, Final

from svod_codegen.disk_store import DiskStore, get_disk_store, make_key
from svod_codegen.kernel_store import describe_target
from svod_ir import Opt, ParseError, format_opts, parse_opts
from svod_ir.forks import hold_across_fork

if TYPE_CHECKING:
    from svod_device import Device
    from svod_ir import Target

__all__ = ["clear", "find_tuned", "get_store", "name_kernel", "put_tuned", "reject_tuned"]

_VERSION: Final = "1"
"""Version of the entries' format and of the meaning of opts; increased when either changes."""


def get_store() -> DiskStore:
    """The process's disk store of searches, for these entries and for `records`."""
    return get_disk_store("searches")


def name_kernel(ast_hash: str, device: Device) -> tuple[str, ...]:
    """Key of everything that the best opts depend on. The kernel's name and the device's index are
    not part of it.
    """
    return _VERSION, ast_hash, device.base_key, device.compiler.cache_key, _describe(device.target)


class _TunedStore:
    """Tuned opts of kernels, cached in the process."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, ...], tuple[Opt, ...] | None] = {}
        self._has_entries: bool | None = None
        self._lock = hold_across_fork(threading.RLock())

    def find(self, ast_hash: str, device: Device) -> tuple[Opt, ...] | None:
        """The tuned opts of a kernel, or None."""
        # Without a folder of entries, no kernel pays for a key.
        if self._has_entries is None:
            self._has_entries = os.path.isdir(get_store().directory)
        if not self._has_entries:
            return None
        known = name_kernel(ast_hash, device)
        # A kernel without an entry is kept as None, so that the disk is read once for each kernel.
        if known not in self._known:
            data = get_store().get(self._key(ast_hash, device))
            with self._lock:
                self._known[known] = None if data is None else _parse(data.decode(errors="replace"))
        return self._known[known]

    def put(self, ast_hash: str, device: Device, opts: tuple[Opt, ...]) -> None:
        """Store tuned opts; they are used in this process even if the disk is not writable."""
        get_store().put(self._key(ast_hash, device), format_opts(opts).encode())
        self._remember(ast_hash, device, opts)

    def reject(self, ast_hash: str, device: Device) -> None:
        """Remove opts that no longer apply."""
        get_store().remove(self._key(ast_hash, device))
        self._remember(ast_hash, device, None)

    def _remember(self, ast_hash: str, device: Device, opts: tuple[Opt, ...] | None) -> None:
        with self._lock:
            self._known[name_kernel(ast_hash, device)] = opts
            # Even after a removal: entries of other kernels may exist.
            self._has_entries = True

    def clear(self) -> None:
        """Clear the in-process cache, not the disk."""
        with self._lock:
            self._known.clear()
            self._has_entries = None

    def _key(self, ast_hash: str, device: Device) -> str:
        return make_key("tuned", *name_kernel(ast_hash, device))


@cache
def _describe(target: Target) -> str:
    return describe_target(target)


def _parse(text: str) -> tuple[Opt, ...] | None:
    try:
        return parse_opts(text)
    except ParseError:
        return None


_tuned: Final = _TunedStore()

find_tuned = _tuned.find
put_tuned = _tuned.put
reject_tuned = _tuned.reject
clear = _tuned.clear
