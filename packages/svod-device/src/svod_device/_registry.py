"""Device registry, filled from entry points.

A plugin's distribution declares

    [project.entry-points."svod.allocators"]
    CUDA = "my_plugin:make_allocator"          # (device name) -> Allocator
    [project.entry-points."svod.compilers"]
    "CUDA.nvptx" = "my_plugin:make_backend"    # (device name) -> Backend
    [project.entry-points."svod.interface"]
    version = "svod_device.interface:v1"       # version of the plugin interface

CPU and DISK are registered in the same way. A plugin is imported when one of its devices is first
used, so a broken plugin does not affect other devices. A plugin for a different version of the
interface is never imported.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar, cast

from svod_device._cache import CachingAllocator
from svod_device._device import Device
from svod_device._guarded import GuardedAllocator
from svod_device._protocols import Allocator, Backend, ChoosingAllocator, PermanentAllocator
from svod_device._wrapped import WrappedAllocator
from svod_device.errors import (
    DuplicatePluginError,
    PluginInterfaceError,
    PluginLoadError,
    UnknownBackendError,
    UnknownDeviceError,
)
from svod_device.interface import GROUP as INTERFACE, INTERFACE_VERSION, parse_interface
from svod_device.options import DeviceOptions
from svod_dtype import DeviceNameError, parse_device_name
from svod_ir.forks import make_lock

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = [
    "ALLOCATORS",
    "COMPILERS",
    "AllocatorFactory",
    "BackendFactory",
    "Plugin",
    "Registry",
    "canonical_device",
    "clear",
    "close_device",
    "get_allocator",
    "get_device",
    "get_registry",
    "register_allocator",
    "register_backend",
    "release_memory",
]

T = TypeVar("T")

ALLOCATORS: Final = "svod.allocators"
COMPILERS: Final = "svod.compilers"

AllocatorFactory = Callable[[str], Allocator]
BackendFactory = Callable[[str], Backend]


@dataclass(frozen=True, slots=True)
class Plugin:
    """Factory provided by a distribution, or registered by a call.

    Attributes:
        group: entry point group, `ALLOCATORS` or `COMPILERS`.
        name: entry point name, such as `CUDA` or `CUDA.nvptx`.
        value: entry point value, `module:function`.
        distribution: name of the distribution.
        load: imports the plugin and returns the factory.
        version: version of the distribution.
        interface: version of the plugin interface that the distribution declares, or None.
        is_installed: whether it comes from an entry point.
    """

    group: str
    name: str
    value: str
    distribution: str
    load: Callable[[], object]
    version: str = ""
    interface: int | None = INTERFACE_VERSION
    is_installed: bool = False

    @property
    def kind(self) -> str:
        return self.name.partition(".")[0].upper()

    @property
    def backend(self) -> str:
        """Name of the backend; empty for an allocator."""
        return self.name.partition(".")[2]

    def make(self, device: str, expected: type[T]) -> T:
        """Import the plugin, call its factory and check the type of the result.

        Raises:
            PluginInterfaceError: if it is for a different version of the interface. It is not
                imported then.
            PluginLoadError: if the import or the factory fails, or the type is wrong.
            DeviceNameError: if the factory rejects the device name.
        """
        if self.interface != INTERFACE_VERSION:
            raise PluginInterfaceError(
                name=self.name,
                distribution=self.distribution,
                version=self.version,
                declared=self.interface,
                expected=INTERFACE_VERSION,
            )
        try:
            factory = self.load()
            if not callable(factory):
                raise TypeError(f"{self.value} is {type(factory).__name__}, not a factory")
            product = cast("Callable[[str], object]", factory)(device)
            if not isinstance(product, expected):
                raise TypeError(
                    f"{self.value} returned {type(product).__name__}, not {expected.__name__}"
                )
            return product
        except DeviceNameError:
            raise
        except (Exception, SystemExit) as error:
            # SystemExit too: a plugin that calls `sys.exit` because its driver is missing must not
            # end the user's program.
            raise PluginLoadError(
                name=self.name, distribution=self.distribution, value=self.value, cause=error
            ) from error


class Registry:
    """Registry of plugins and open devices.

    Args:
        installed: entry points for tests; by default all entry points of installed distributions.
        options: options; by default read from the environment.

    Example:
        >>> from svod_device import HostAllocator, Registry
        >>> from svod_device._registry import ALLOCATORS
        >>> registry = Registry(installed=[])
        >>> registry.register(ALLOCATORS, "CARD", HostAllocator)
        >>> registry.list_kinds(), registry.get_allocator("card:1").device
        (('CARD',), 'CARD:1')
        >>> from svod_device._registry import COMPILERS
        >>> registry.register(COMPILERS, "CARD.cubin", lambda device: ...)
        >>> registry.register(COMPILERS, "CARD.text", lambda device: ...)
        >>> registry.list_backends("card"), registry.choose_backend("CARD", "text")
        (('cubin', 'text'), 'text')
        >>> [plugin.name for plugin in registry.iter_plugins()]
        ['CARD', 'CARD.cubin', 'CARD.text']

        A closed device is opened again at its next use, and so is each device in a forked child:

        >>> first = registry.get_device("CARD:1")
        >>> registry.close("card:1")
        >>> second = registry.get_device("CARD:1")
        >>> registry.forget_openings()
        >>> len({d.opening for d in (first, second, registry.get_device("CARD:1"))})
        3
    """

    def __init__(
        self, installed: Iterable[EntryPoint] | None = None, options: DeviceOptions | None = None
    ) -> None:
        self._options = options
        self._installed = None if installed is None else tuple(installed)
        self._registered: list[Plugin] = []
        self._plugins: dict[tuple[str, str], list[Plugin]] | None = None
        self._allocators: dict[str, Allocator] = {}
        self._devices: dict[str, Device] = {}
        self._lock = make_lock()

    def register(
        self,
        group: str,
        name: str,
        factory: Callable[[str], object],
        distribution: str | None = None,
    ) -> None:
        """Register a factory without an entry point, as in tests and notebooks.

        Args:
            group: entry point group of the factory.
            name: name in the group, such as the kind of a device.
            factory: function of a device name that returns the plugin's object.
            distribution: name of the distribution in messages; by default the factory's top-level
                module.
        """
        value = f"{getattr(factory, '__module__', '?')}:{getattr(factory, '__qualname__', repr(factory))}"
        owner = distribution or value.partition(":")[0].partition(".")[0]
        with self._lock:
            self._registered.append(Plugin(group, name, value, owner, lambda: factory))
            self._plugins = None

    def iter_plugins(self) -> Iterable[Plugin]:
        """Return all plugins, sorted by group and name."""
        plugins = self._get_plugins()
        return [plugin for key in sorted(plugins) for plugin in plugins[key]]

    def _get_plugins(self) -> dict[tuple[str, str], list[Plugin]]:
        with self._lock:
            if self._plugins is None:
                self._plugins = self._read_plugins()
            return self._plugins

    def _read_plugins(self) -> dict[tuple[str, str], list[Plugin]]:
        plugins: dict[tuple[str, str], list[Plugin]] = {}
        for plugin in (*self._read_entry_points(), *self._registered):
            namesakes = plugins.setdefault((plugin.group, _canonical_plugin_name(plugin)), [])
            # Two installations of one distribution (a wheel and a source tree) declare the same
            # object: that is no conflict.
            if all(plugin.value != namesake.value for namesake in namesakes):
                namesakes.append(plugin)
        return plugins

    def _read_entry_points(self) -> list[Plugin]:
        points = self._list_entry_points()
        declared = {
            p.dist.name: parse_interface(p.value)
            for p in points
            if p.group == INTERFACE and p.dist is not None
        }
        return [
            _to_plugin(point, declared)
            for point in points
            if point.group in (ALLOCATORS, COMPILERS)
        ]

    def _list_entry_points(self) -> Sequence[EntryPoint]:
        if self._installed is not None:
            return self._installed
        from importlib.metadata import entry_points  # takes 30 ms, needed for the first device only

        points = entry_points()
        return [
            point
            for group in (INTERFACE, ALLOCATORS, COMPILERS)
            for point in points.select(group=group)
        ]

    def _find_plugin(self, group: str, name: str) -> Plugin | None:
        namesakes = self._get_plugins().get((group, name))
        if not namesakes:
            return None
        if len(namesakes) > 1:
            providers = [
                f"{p.distribution} {p.version} ({p.value})".replace("  ", " ") for p in namesakes
            ]
            raise DuplicatePluginError(name=name, providers=providers)
        return namesakes[0]

    def list_kinds(self) -> tuple[str, ...]:
        """Return the available device kinds, sorted."""
        return tuple(
            sorted({plugin.kind for plugin in self.iter_plugins() if plugin.group == ALLOCATORS})
        )

    def list_backends(self, kind: str) -> tuple[str, ...]:
        """Return the backend names of a device kind, sorted."""
        backends = {
            p.backend
            for p in self.iter_plugins()
            if p.group == COMPILERS and p.kind == kind.upper()
        }
        return tuple(sorted(backends))

    def get_allocator(self, device: str) -> Allocator:
        """Return the allocator of a device, creating it at the first call.

        Raises:
            DeviceNameError: if the name is malformed, or the plugin rejects it.
            UnknownDeviceError: if no plugin provides this device kind.
            PluginLoadError: if the plugin fails to load.
            PluginInterfaceError: if the plugin is for a different version of the interface.
            DuplicatePluginError: if two distributions provide this device kind.
        """
        # Lock-free for every spelling that was used before.
        allocator = self._allocators.get(device)
        return allocator if allocator is not None else self._make_allocator(device)

    def _make_allocator(self, device: str) -> Allocator:
        name, kind = self._parse(device)
        # The factory runs under the lock, so that a device is never opened twice. The lock is
        # reentrant: a factory may use other devices.
        with self._lock:
            if name not in self._allocators:
                plugin = self._find_plugin(ALLOCATORS, kind)
                if plugin is None:
                    raise UnknownDeviceError(device=device, known=self.list_kinds())
                with self._noting_devices():
                    allocator = plugin.make(name, Allocator)
                # Permanent memory cannot be lost, so its allocations need no guard.
                is_permanent = isinstance(allocator, PermanentAllocator) and allocator.is_permanent
                self._allocators[name] = allocator if is_permanent else GuardedAllocator(allocator)
            self._allocators[device] = self._allocators[name]
            return self._allocators[name]

    def get_device(self, device: str) -> Device:
        """Return the device of this name, creating it at the first call.

        Raises:
            UnknownDeviceError, PluginLoadError, PluginInterfaceError, DuplicatePluginError: as
                `get_allocator`.
        """
        opened = self._devices.get(device)
        return opened if opened is not None else self._make_device(device)

    def _make_device(self, device: str) -> Device:
        name, kind = self._parse(device)
        with self._lock:
            if name not in self._devices:
                allocator = self.get_allocator(name)
                # Only names are needed here: each backend is loaded at its first use, so a broken
                # one does not affect the others.
                backends = self.list_backends(kind)
                factories = {
                    backend: self._make_backend_factory(f"{kind}.{backend}") for backend in backends
                }
                preferred = (
                    allocator.default_backend if isinstance(allocator, ChoosingAllocator) else None
                )
                default = self.choose_backend(kind, preferred)
                self._devices[name] = Device(name, allocator, factories, default)
            self._devices[device] = self._devices[name]
            return self._devices[name]

    def make_backend(self, kind: str, backend: str) -> Backend:
        """Return a backend of a device kind, even of a kind without an allocator.

        Raises:
            PluginLoadError, PluginInterfaceError, DuplicatePluginError: as `get_allocator`.
            UnknownBackendError: if no plugin provides the backend.
        """
        if backend not in self.list_backends(kind):
            raise UnknownBackendError(device=kind, backend=backend, known=self.list_backends(kind))
        if kind in self.list_kinds():
            return self.get_device(kind).get_backend(backend)
        return self._make_backend_factory(f"{kind}.{backend}")(kind)

    def choose_backend(self, kind: str, named: str | None = None) -> str | None:
        """Return the name of the default backend of a device kind, or None if it has no backend.

        The options take precedence, then `named`, the allocator's preference, then the first name
        in alphabetical order.
        """
        backends = self.list_backends(kind)
        if not backends:
            return None
        options = self._options or DeviceOptions.from_env()
        return options.backends.get(kind) or (named if named in backends else backends[0])

    def _make_backend_factory(self, name: str) -> BackendFactory:
        def make(device: str) -> Backend:
            plugin = self._find_plugin(COMPILERS, name)
            assert plugin is not None
            return plugin.make(device, Backend)

        return make

    def _parse(self, device: str) -> tuple[str, str]:
        with self._noting_devices():
            name = parse_device_name(device)
        return str(name), name.kind

    @contextmanager
    def _noting_devices(self) -> Generator[None]:
        """Add the available devices to a `DeviceNameError` that the block raises."""
        try:
            yield
        except DeviceNameError as error:
            error.add_note(f"available devices: {', '.join(self.list_kinds())}")
            raise

    def close(self, device: str) -> None:
        """Close a device if it is open. Its buffers and programs fail afterwards; the next use of
        the name opens it again.

        Permanent memory, such as the CPU's and files, remains usable.
        """
        name, _ = self._parse(device)
        with self._lock:
            allocator = self._allocators.get(name)
            # All spellings of the name: `cuda:0` and `CUDA` are cached separately.
            for table in (self._allocators, self._devices):
                for spelling in [s for s in table if str(parse_device_name(s)) == name]:
                    del table[spelling]
        # Outside the lock, since a plugin's `close` may block.
        if isinstance(allocator, GuardedAllocator):
            allocator.close()

    def forget_openings(self) -> None:
        """Drop all open devices without closing them, in a forked child: they belong to the parent.

        The child's first use opens each device again.
        """
        guarded = [
            s
            for s, allocator in self._allocators.items()
            if isinstance(allocator, GuardedAllocator)
        ]
        for spelling in guarded:
            del self._allocators[spelling]
        for spelling in [
            s
            for s, device in self._devices.items()
            if isinstance(device.allocator, GuardedAllocator)
        ]:
            del self._devices[spelling]

    def release_memory(self) -> int:
        """Empty the caches of all allocators, and return the number of bytes released."""
        # By identity: each allocator is registered under every spelling of its device.
        caching: dict[int, CachingAllocator] = {}
        for allocator in list(self._allocators.values()):
            inner = allocator
            while isinstance(inner, WrappedAllocator):
                if isinstance(inner, CachingAllocator):
                    caching[id(inner)] = inner
                inner = inner.inner
        return sum([allocator.empty_cache() for allocator in caching.values()])

    def clear(self) -> None:
        """Close all devices, unregister all factories, and read the entry points again."""
        # `close` takes the lock itself and calls plugins without it.
        for name in list(self._allocators):
            self.close(name)
        with self._lock:
            self._registered.clear()
            self._plugins = None
            self._allocators.clear()
            self._devices.clear()


def _to_plugin(point: EntryPoint, interfaces: Mapping[str, int | None]) -> Plugin:
    if point.dist is None:
        # Tests create entry points without a distribution.
        owner = point.value.partition(".")[0]
        return Plugin(point.group, point.name, point.value, owner, point.load, is_installed=True)
    name, version = point.dist.name, point.dist.version
    interface = interfaces.get(name)
    return Plugin(
        point.group,
        point.name,
        point.value,
        name,
        point.load,
        version,
        interface,
        is_installed=True,
    )


def _canonical_plugin_name(plugin: Plugin) -> str:
    return f"{plugin.kind}.{plugin.backend}" if plugin.backend else plugin.kind


_registry: Final = Registry()


def get_registry() -> Registry:
    """Return the registry of this process."""
    return _registry


def get_allocator(device: str) -> Allocator:
    """Return the allocator of a device (see `Registry.get_allocator`)."""
    return _registry.get_allocator(device)


def get_device(device: str) -> Device:
    """Return a device by name (see `Registry.get_device`)."""
    return _registry.get_device(device)


def register_allocator(
    kind: str, factory: AllocatorFactory, distribution: str | None = None
) -> None:
    """Register an allocator factory for a device kind, without an entry point.

    Args:
        kind: kind of the device, such as "CUDA".
        factory: function that returns the allocator of a device name.
        distribution: name of the distribution in messages; by default the factory's top-level
            module.
    """
    _registry.register(ALLOCATORS, kind, factory, distribution)


def register_backend(name: str, factory: BackendFactory, distribution: str | None = None) -> None:
    """Register the factory of a backend, without an entry point.

    An entry point that declares the same factory does not conflict.

    Args:
        name: kind of the device and name of the backend, as "CPU.llvm".
        factory: function that returns the backend for a device name.
        distribution: name of the distribution in messages; by default the factory's top-level
            module.
    """
    _registry.register(COMPILERS, name, factory, distribution)


def close_device(device: str) -> None:
    """Close a device, for example after it was lost (see `Registry.close`). Its next use opens it
    again.
    """
    _registry.close(device)


def canonical_device(device: str) -> str:
    """Return the canonical spelling of a device name: `CPU` for `cpu:0`.

    Raises:
        DeviceNameError: if it is not a device name.
    """
    return str(parse_device_name(device))


def release_memory() -> int:
    """Empty the caches of all allocators, and return the number of bytes released."""
    return _registry.release_memory()


def clear() -> None:
    """Close all devices of this process and unregister all factories, for tests."""
    _registry.clear()


# Windows has no fork.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_registry.forget_openings)
