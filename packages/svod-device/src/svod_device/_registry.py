"""The registry of devices, filled from entry points.

A plugin's distribution declares

    [project.entry-points."svod.allocators"]
    CUDA = "my_plugin:make_allocator"          # (device name) -> Allocator
    [project.entry-points."svod.compilers"]
    "CUDA.nvptx" = "my_plugin:make_backend"    # (device name) -> Backend
    [project.entry-points."svod.interface"]
    version = "svod_device.interface:v1"       # what it is written for

and its devices are there. CPU and DISK come in the same way. A plugin is imported when one of its
devices is first asked for, so one that is broken is reported then, and harms no other. One that
is written for another version of the interface is not imported at all.
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
    """One factory that a distribution provides: `name` is `CUDA` or `CUDA.nvptx`, `value` is
    `module:function`.

    `version` is the distribution's, and `interface` that of the plugin interface which it declares.
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
        """The part of the name behind the kind; empty for an allocator."""
        return self.name.partition(".")[2]

    def make(self, device: str, expected: type[T]) -> T:
        """Import the plugin, call its factory, and check that it gives what it must.

        Raises:
            PluginInterfaceError: if it is written for another version of the interface; it is not
                imported then.
            PluginLoadError: if any of this fails.
            DeviceNameError: if the factory knows no device of this name.
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
            made = cast("Callable[[str], object]", factory)(device)
            if not isinstance(made, expected):
                raise TypeError(f"{self.value} made {type(made).__name__}, not {expected.__name__}")
            return made
        except DeviceNameError:
            raise
        except (Exception, SystemExit) as error:
            # A module that ends the program where its driver is missing ends no program of ours.
            raise PluginLoadError(
                name=self.name, distribution=self.distribution, value=self.value, cause=error
            ) from error


class Registry:
    """Devices and what provides them.

    `installed` replaces the entry points of the installed distributions, for tests.

    Example:
        >>> from svod_device import HostAllocator
        >>> registry = Registry(installed=[])
        >>> registry.register(ALLOCATORS, "CARD", HostAllocator)
        >>> registry.list_kinds(), registry.get_allocator("card:1").device
        (('CARD',), 'CARD:1')
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
        """Add a factory that no installed distribution declares, for tests and for code in a
        notebook.
        """
        value = f"{getattr(factory, '__module__', '?')}:{getattr(factory, '__qualname__', repr(factory))}"
        owner = distribution or value.partition(":")[0].partition(".")[0]
        with self._lock:
            self._registered.append(Plugin(group, name, value, owner, lambda: factory))
            self._plugins = None

    def iter_plugins(self) -> Iterable[Plugin]:
        """Every plugin, sorted by group and name."""
        plugins = self._get_plugins()
        return [plugin for key in sorted(plugins) for plugin in plugins[key]]

    def _get_plugins(self) -> dict[tuple[str, str], list[Plugin]]:
        with self._lock:
            if self._plugins is None:
                self._plugins = self._read_plugins()
            return self._plugins

    def _read_plugins(self) -> dict[tuple[str, str], list[Plugin]]:
        found: dict[tuple[str, str], list[Plugin]] = {}
        for plugin in (*self._read_entry_points(), *self._registered):
            same = found.setdefault((plugin.group, _canonical_plugin_name(plugin)), [])
            # One object may be declared by two installations of one distribution (a wheel and a
            # source tree).
            if all(plugin.value != other.value for other in same):
                same.append(plugin)
        return found

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
        from importlib.metadata import entry_points  # 30 ms, and only needed for the first device

        found = entry_points()
        return [
            point
            for group in (INTERFACE, ALLOCATORS, COMPILERS)
            for point in found.select(group=group)
        ]

    def _find_plugin(self, group: str, name: str) -> Plugin | None:
        same = self._get_plugins().get((group, name))
        if not same:
            return None
        if len(same) > 1:
            providers = [
                f"{p.distribution} {p.version} ({p.value})".replace("  ", " ") for p in same
            ]
            raise DuplicatePluginError(name=name, providers=providers)
        return same[0]

    def list_kinds(self) -> tuple[str, ...]:
        """The device kinds that something provides, sorted."""
        return tuple(
            sorted({plugin.kind for plugin in self.iter_plugins() if plugin.group == ALLOCATORS})
        )

    def list_backends(self, kind: str) -> tuple[str, ...]:
        """The names of the backends of a device kind, sorted."""
        backends = {
            p.backend
            for p in self.iter_plugins()
            if p.group == COMPILERS and p.kind == kind.upper()
        }
        return tuple(sorted(backends))

    def get_allocator(self, device: str) -> Allocator:
        """The allocator of a device, made at the first call.

        Raises:
            DeviceNameError: if it is no name, or none that the plugin knows.
            UnknownDeviceError: if nothing provides a device of this kind.
            PluginLoadError: if the plugin that does is broken.
            PluginInterfaceError: if it is written for another version of the plugin interface.
            DuplicatePluginError: if two do.
        """
        found = self._allocators.get(device)
        return found if found is not None else self._make_allocator(device)

    def _make_allocator(self, device: str) -> Allocator:
        name, kind = self._parse(device)
        with self._lock:
            if name not in self._allocators:
                plugin = self._find_plugin(ALLOCATORS, kind)
                if plugin is None:
                    raise UnknownDeviceError(device=device, known=self.list_kinds())
                with self._noting_devices():
                    made = plugin.make(name, Allocator)
                is_permanent = isinstance(made, PermanentAllocator) and made.is_permanent
                self._allocators[name] = made if is_permanent else GuardedAllocator(made)
            self._allocators[device] = self._allocators[name]
            return self._allocators[name]

    def get_device(self, device: str) -> Device:
        """The device of this name, made at the first call.

        Raises:
            UnknownDeviceError, PluginLoadError, PluginInterfaceError, DuplicatePluginError: as
                `get_allocator`.
        """
        found = self._devices.get(device)
        return found if found is not None else self._make_device(device)

    def _make_device(self, device: str) -> Device:
        name, kind = self._parse(device)
        with self._lock:
            if name not in self._devices:
                allocator = self.get_allocator(name)
                backends = self.list_backends(kind)
                factories = {
                    backend: self._make_backend_factory(f"{kind}.{backend}") for backend in backends
                }
                named = (
                    allocator.default_backend if isinstance(allocator, ChoosingAllocator) else None
                )
                default = self.choose_backend(kind, named)
                self._devices[name] = Device(name, allocator, factories, default)
            self._devices[device] = self._devices[name]
            return self._devices[name]

    def make_backend(self, kind: str, backend: str) -> Backend:
        """A backend of a device kind, also where nothing provides the kind's memory.

        Raises:
            PluginLoadError, PluginInterfaceError, DuplicatePluginError: as `get_allocator`.
            UnknownBackendError: if nothing provides it.
        """
        if backend not in self.list_backends(kind):
            raise UnknownBackendError(device=kind, backend=backend, known=self.list_backends(kind))
        if kind in self.list_kinds():
            return self.get_device(kind).get_backend(backend)
        return self._make_backend_factory(f"{kind}.{backend}")(kind)

    def choose_backend(self, kind: str, named: str | None = None) -> str | None:
        """The backend that a device uses: which the options say, `named` by the device, the first
        by name; None without any.
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
        """Let the error of a wrong name say which devices there are."""
        try:
            yield
        except DeviceNameError as error:
            error.add_note(f"devices that are there: {', '.join(self.list_kinds())}")
            raise

    def close(self, device: str) -> None:
        """Close a device, if it is open: its buffers and programs fail from now on, and the next
        use opens it again.

        Permanent memory, as that of the CPU and files, stays usable.
        """
        name, _ = self._parse(device)
        with self._lock:
            allocator = self._allocators.get(name)
            for known in (self._allocators, self._devices):
                for spelling in [s for s in known if str(parse_device_name(s)) == name]:
                    del known[spelling]
        if isinstance(allocator, GuardedAllocator):
            allocator.close()

    def forget_openings(self) -> None:
        """Let the next use open each device again, without closing what is open: that is the
        parent's, after a fork.
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
        """Give what allocators keep for reuse back to their devices, and return how many bytes
        these were.
        """
        caching: dict[int, CachingAllocator] = {}
        for allocator in list(self._allocators.values()):
            inner = allocator
            while isinstance(inner, WrappedAllocator):
                if isinstance(inner, CachingAllocator):
                    caching[id(inner)] = inner
                inner = inner.inner
        return sum([allocator.empty_cache() for allocator in caching.values()])

    def clear(self) -> None:
        """Close every device, and forget every factory that was registered by hand; entry points
        are read again.
        """
        for name in list(self._allocators):
            self.close(name)
        with self._lock:
            self._registered.clear()
            self._plugins = None
            self._allocators.clear()
            self._devices.clear()


def _to_plugin(point: EntryPoint, interfaces: Mapping[str, int | None]) -> Plugin:
    if point.dist is None:
        # Made by hand, for a test.
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
    """The registry of this process."""
    return _registry


def get_allocator(device: str) -> Allocator:
    """The allocator of a device (see `Registry.get_allocator`)."""
    return _registry.get_allocator(device)


def get_device(device: str) -> Device:
    """A device by name (see `Registry.get_device`)."""
    return _registry.get_device(device)


def register_allocator(
    kind: str, factory: AllocatorFactory, distribution: str | None = None
) -> None:
    """Provide devices of `kind` without an entry point."""
    _registry.register(ALLOCATORS, kind, factory, distribution)


def register_backend(name: str, factory: BackendFactory, distribution: str | None = None) -> None:
    """Provide backend `KIND.name` without an entry point; the same factory declared by one as well
    does no harm.
    """
    _registry.register(COMPILERS, name, factory, distribution)


def close_device(device: str) -> None:
    """Close a device (see `Registry.close`), such as one that was lost: its next use opens it
    again.
    """
    _registry.close(device)


def canonical_device(device: str) -> str:
    """The canonical spelling of a device name: `cpu:0` is `CPU`."""
    return str(parse_device_name(device))


def release_memory() -> int:
    """Give the freed blocks that allocators keep for reuse back to their devices; return how many
    bytes these were.
    """
    return _registry.release_memory()


def clear() -> None:
    """Close every device of this process and forget what was registered by hand, for tests."""
    _registry.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_registry.forget_openings)
