"""`Device`: one allocator and the backends that make kernels for it."""

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
    """The kind of a device, without its number: what caches of compiled kernels use."""
    return parse_device_name(device).kind


class Device:
    """A device: its `name`, `allocator`, and backends, each made when it is first asked for."""

    def __init__(
        self,
        name: str,
        allocator: Allocator,
        factories: Mapping[str, BackendFactory],
        default: str | None,
    ) -> None:
        self.name, self.allocator, self.default_backend = name, allocator, default
        self._opening = allocator.opening if isinstance(allocator, WrappedAllocator) else None
        self._factories = dict(factories)
        self._backends: dict[str, Backend] = {}
        self._variants: dict[str, Device] = {}
        self._lock = make_lock()

    def __repr__(self) -> str:
        return f"Device({self.name}, backends: {', '.join(self.backend_names) or 'none'})"

    @property
    def base_key(self) -> str:
        """The kind of this device, without its number."""
        return base_device_key(self.name)

    @property
    def opening(self) -> int:
        """The number of this opening of the device: kernels and plans of another one cannot be
        used. 0 for the CPU.
        """
        return 0 if self._opening is None else self._opening.serial

    @property
    def is_exclusive(self) -> bool:
        """Whether this process alone may have the device open."""
        return isinstance(self.allocator, GuardedAllocator) and self.allocator.is_exclusive

    @property
    def backend_names(self) -> tuple[str, ...]:
        return tuple(sorted(self._factories))

    def get_backend(self, name: str | None = None) -> Backend:
        """The backend of this name, or the default one.

        Raises:
            UnknownBackendError: if the device has no such backend, or none at all.
            PluginLoadError: if it is there but does not work.
        """
        name = name or self.default_backend
        if name is None or name not in self._factories:
            raise UnknownBackendError(device=self.name, backend=name, known=self.backend_names)
        found = self._backends.get(name)
        if found is not None:
            return found
        with self._lock:
            if name not in self._backends:
                made = self._factories[name](self.name)
                self._backends[name] = made if self._opening is None else guard(made, self._opening)
            return self._backends[name]

    def with_backend(self, name: str | None) -> Device:
        """This device with another default backend, None meaning the one that it has; all else is
        shared.

        Raises:
            UnknownBackendError: if the device has no such backend.
        """
        if name is None or name == self.default_backend:
            return self
        if name not in self._factories:
            raise UnknownBackendError(device=self.name, backend=name, known=self.backend_names)
        with self._lock:
            if name not in self._variants:
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
