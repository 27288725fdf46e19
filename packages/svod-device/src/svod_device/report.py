"""Which devices there are, who provides them, what works, and why something does not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from svod_device.interface import INTERFACE_VERSION
from svod_device.registry import ALLOCATORS, COMPILERS, Plugin, Registry
from svod_dtype import SvodError

__all__ = ["BackendReport", "DeviceReport", "Provider", "describe", "report_devices"]


@dataclass(frozen=True, slots=True)
class Provider:
    """A distribution and its factory; `interface` is the version of the plugin interface that it declares."""

    distribution: str
    version: str
    entry_point: str
    interface: int | None

    def __str__(self) -> str:
        return " ".join(filter(None, (self.distribution, self.version)))


@dataclass(frozen=True, slots=True)
class BackendReport:
    """A backend; `problem` and what helps against it are None where it works, `target` where it does not."""

    name: str
    providers: tuple[Provider, ...]
    is_default: bool
    target: str | None
    problem: str | None
    hint: str | None


@dataclass(frozen=True, slots=True)
class DeviceReport:
    """A kind of device; without `providers` there are backends for it, but no memory."""

    kind: str
    providers: tuple[Provider, ...]
    problem: str | None
    hint: str | None
    backends: tuple[BackendReport, ...]

    @property
    def works(self) -> bool:
        """Whether the memory and the default backend, where there are any, can be used."""
        return self.problem is None and all(b.problem is None for b in self.backends if b.is_default)


def report_devices(registry: Registry) -> list[DeviceReport]:
    """Look at every device kind, and try each of its plugins."""
    plugins = list(registry.iter_plugins())
    return [_report_device(registry, kind, plugins) for kind in sorted({p.kind for p in plugins})]


def _report_device(registry: Registry, kind: str, plugins: Sequence[Plugin]) -> DeviceReport:
    providers = _find_providers(plugins, ALLOCATORS, kind, "")
    error: SvodError | None = None
    if providers and kind != "DISK":  # which has no device without a path
        try:
            registry.get_allocator(kind)
        except SvodError as found:
            error = found
    problem = "nothing provides its memory" if not providers else error.headline if error else None
    backends = tuple(_report_backend(registry, kind, name, plugins) for name in registry.list_backends(kind))
    return DeviceReport(kind, providers, problem, error.hint if error else None, backends)


def _report_backend(registry: Registry, kind: str, name: str, plugins: Sequence[Plugin]) -> BackendReport:
    target = problem = hint = None
    try:
        target = registry.make_backend(kind, name).target.name
    except SvodError as error:
        problem, hint = error.headline, error.hint
    providers = _find_providers(plugins, COMPILERS, kind, name)
    return BackendReport(name, providers, registry.find_default_backend(kind) == name, target, problem, hint)


def _find_providers(plugins: Sequence[Plugin], group: str, kind: str, backend: str) -> tuple[Provider, ...]:
    return tuple(
        Provider(p.distribution, p.version, p.value, p.interface)
        for p in plugins
        if (p.group, p.kind, p.backend) == (group, kind, backend)
    )


def describe(registry: Registry) -> Iterator[str]:
    """The report as lines of text."""
    yield f"svod-device, plugin interface {INTERFACE_VERSION}"
    for device in report_devices(registry):
        yield from _describe_device(device)


def _describe_device(device: DeviceReport) -> Iterator[str]:
    named = " (DISK:/path/to/file)" if device.kind == "DISK" else ""
    by = f"memory by {_join(device.providers)}" if device.providers else "no memory"
    yield f"{device.kind}: {by}: {_describe_state(device.problem)}{named}"
    if device.hint:
        yield f"  hint: {device.hint}"
    if not device.backends and device.kind != "DISK":
        yield "  no backend: it holds data, but runs no kernels"
    for backend in device.backends:
        chosen = ", the default" if backend.is_default else ""
        target = f", target {backend.target}" if backend.target else ""
        state = _describe_state(backend.problem)
        yield f"  {device.kind}.{backend.name} by {_join(backend.providers)}: {state}{target}{chosen}"
        if backend.hint:
            yield f"    hint: {backend.hint}"


def _join(providers: Sequence[Provider]) -> str:
    return " and ".join(map(str, providers))


def _describe_state(problem: str | None) -> str:
    return "works" if problem is None else f"does not work: {problem}"
