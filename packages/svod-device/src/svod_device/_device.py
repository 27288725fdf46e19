"""Devices: an allocator and its backends."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping

from svod_device._guarded import GuardedAllocator, guard
from svod_device._protocols import Allocator, Backend, BatchLauncher, Compiler, Loader, Renderer
from svod_device._wrapped import WrappedAllocator
from svod_device.errors import UnknownBackendError
from svod_dtype import parse_device_name
from svod_ir import Target
from svod_ir.forks import make_lock

__all__ = ["Device", "base_device_key"]

BackendFactory = Callable[[str], Backend]


def base_device_key(device: str) -> str:
    """Return the kind of a device, without its index: the key of compiled-kernel caches."""
    return parse_device_name(device).kind


class Device:
    """A device: an allocator, and backends that are created at first use.

    Args:
        name: canonical name, such as "CPU" or "CUDA:1".
        allocator: allocator of the device's memory.
        factories: functions by backend name that create the backend for a device name.
        default: name of the default backend; None if the device has no backend.

    Attributes:
        name: the name.
        allocator: the allocator.
        default_backend: name of the default backend, or None.

    Example:
        >>> from svod_device import get_device
        >>> cpu = get_device("CPU")
        >>> llvm = cpu.with_backend("llvm")
        >>> llvm.default_backend, llvm.allocator is cpu.allocator, llvm.backend is cpu.get_backend("llvm")
        ('llvm', True, True)
    """

    def __init__(
        self,
        name: str,
        allocator: Allocator,
        factories: Mapping[str, BackendFactory],
        default: str | None,
    ) -> None:
        self.name, self.allocator, self.default_backend = name, allocator, default
        self._opening = allocator.opening if isinstance(allocator, WrappedAllocator) else None
        # Factories, because a backend may load a compiler, and most processes use one backend only.
        self._factories = dict(factories)
        self._backends: dict[str, Backend] = {}
        self._variants: dict[str, Device] = {}
        # Free in the child of a fork, where no thread is left to release it.
        self._lock = make_lock()

    def __repr__(self) -> str:
        return f"Device({self.name}, backends: {', '.join(self.backend_names) or 'none'})"

    @property
    def base_key(self) -> str:
        """Kind of this device, without its index."""
        return base_device_key(self.name)

    @property
    def opening(self) -> int:
        """Serial number of this opening of the device; 0 for permanent devices such as the CPU.

        Kernels and plans are valid for one opening only.
        """
        return 0 if self._opening is None else self._opening.serial

    @property
    def is_exclusive(self) -> bool:
        """True if only one process may have the device open."""
        return isinstance(self.allocator, GuardedAllocator) and self.allocator.is_exclusive

    @property
    def backend_names(self) -> tuple[str, ...]:
        return tuple(sorted(self._factories))

    def get_backend(self, name: str | None = None) -> Backend:
        """Return the backend of this name, or the default backend.

        Raises:
            UnknownBackendError: if the device has no such backend, or no backend at all.
            PluginLoadError: if the backend fails to load.
        """
        name = name or self.default_backend
        if name is None or name not in self._factories:
            raise UnknownBackendError(device=self.name, backend=name, known=self.backend_names)
        # Without the lock, since a dict lookup is atomic.
        cached = self._backends.get(name)
        if cached is not None:
            return cached
        with self._lock:
            if name not in self._backends:
                backend = self._factories[name](self.name)
                self._backends[name] = (
                    # Permanent memory cannot be lost, so launches on it need no check.
                    backend if self._opening is None else guard(backend, self._opening)
                )
            return self._backends[name]

    def with_backend(self, name: str | None) -> Device:
        """Return this device with `name` as its default backend; None keeps the current one.

        The copy shares the allocator and the backends.

        Raises:
            UnknownBackendError: if the device has no such backend.
        """
        if name is None or name == self.default_backend:
            return self
        if name not in self._factories:
            raise UnknownBackendError(device=self.name, backend=name, known=self.backend_names)
        with self._lock:
            if name not in self._variants:
                # A shallow copy: it shares the dictionaries of backends and the lock.
                variant = copy.copy(self)
                variant.default_backend = name
                self._variants[name] = variant
            return self._variants[name]

    @property
    def backend(self) -> Backend:
        return self.get_backend()

    @property
    def renderer(self) -> Renderer:
        return self.backend.renderer

    @property
    def compiler(self) -> Compiler:
        return self.backend.compiler

    @property
    def loader(self) -> Loader:
        return self.backend.loader

    @property
    def launcher(self) -> BatchLauncher | None:
        return self.backend.launcher

    @property
    def target(self) -> Target:
        return self.backend.target
