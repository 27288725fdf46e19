"""Which devices there are, who provides them, what works, and why something does not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from svod_device._probe import BackendProbe, Failure, Probe, probe_apart, probe_device
from svod_device._registry import ALLOCATORS, COMPILERS, Plugin, Registry
from svod_device.interface import INTERFACE_VERSION

__all__ = ["BackendReport", "DeviceReport", "Provider", "describe", "report_devices"]


@dataclass(frozen=True, slots=True)
class Provider:
    """A distribution and its factory; `interface` is the version of the plugin interface that it
    declares.
    """

    distribution: str
    version: str
    entry_point: str
    interface: int | None

    def __str__(self) -> str:
        return " ".join(filter(None, (self.distribution, self.version)))


@dataclass(frozen=True, slots=True)
class BackendReport:
    """A backend; `problem` and what helps against it are None where it works, `target` where it
    could not be made.
    """

    name: str
    providers: tuple[Provider, ...]
    is_default: bool
    target: str | None
    problem: str | None
    hint: str | None


@dataclass(frozen=True, slots=True)
class DeviceReport:
    """A device, or a kind of devices by the name of the first one.

    Without `providers` there are backends for it, but no memory. `untried` says why there was
    nothing to try: devices of such a kind have longer names, as DISK:/path/to/file."""

    kind: str
    device: str
    providers: tuple[Provider, ...]
    problem: str | None
    hint: str | None
    untried: str | None
    backends: tuple[BackendReport, ...]

    @property
    def works(self) -> bool:
        """Whether nothing is wrong with the memory and the default backend, where there are any."""
        return self.problem is None and all(
            b.problem is None for b in self.backends if b.is_default
        )


def report_devices(
    registry: Registry, names: Sequence[str] = (), *, limit_s: float | None = None
) -> list[DeviceReport]:
    """Try devices: memory, copies, and a kernel on each backend.

    Args:
        registry: knows the plugins.
        names: of the devices; by default the first one of each kind.
        limit_s: how long each may take in a process of its own, in which plugins that are installed
            are tried; None tries all of them in this one, without a limit.
    """
    plugins = list(registry.iter_plugins())
    return [
        _report(registry, name, plugins, limit_s)
        for name in names or sorted({p.kind for p in plugins})
    ]


def _report(
    registry: Registry, name: str, plugins: Sequence[Plugin], limit_s: float | None
) -> DeviceReport:
    kind = name.partition(":")[0].upper()
    own = [plugin for plugin in plugins if plugin.kind == kind]
    if limit_s is not None and own and all(plugin.is_installed for plugin in own):
        probe = probe_apart(name, limit_s)
    else:
        probe = probe_device(registry, name)
    providers = _get_providers(own, ALLOCATORS, "")
    failure = probe.failure if providers else Failure("nothing provides its memory")
    names = registry.list_backends(kind)
    backends = tuple(_report_backend(registry, kind, b, own, probe) for b in names)
    problem, hint = (None, None) if failure is None else (failure.problem, failure.hint)
    return DeviceReport(kind, name, providers, problem, hint, probe.untried, backends)


def _report_backend(
    registry: Registry, kind: str, name: str, own: Sequence[Plugin], probe: Probe
) -> BackendReport:
    found = probe.backends.get(name, BackendProbe())
    problem, hint = (
        (None, None) if found.failure is None else (found.failure.problem, found.failure.hint)
    )
    is_default = name == (probe.default_backend or registry.choose_backend(kind))
    return BackendReport(
        name, _get_providers(own, COMPILERS, name), is_default, found.target, problem, hint
    )


def _get_providers(own: Sequence[Plugin], group: str, backend: str) -> tuple[Provider, ...]:
    return tuple(
        Provider(p.distribution, p.version, p.value, p.interface)
        for p in own
        if (p.group, p.backend) == (group, backend)
    )


def describe(devices: Sequence[DeviceReport]) -> Iterator[str]:
    """The report as lines of text."""
    yield f"svod-device, plugin interface {INTERFACE_VERSION}"
    for device in devices:
        yield from _describe_device(device)


def _describe_device(device: DeviceReport) -> Iterator[str]:
    by = f"memory by {_join(device.providers)}" if device.providers else "no memory"
    state = (
        _describe_state(device.problem)
        if device.untried is None
        else f"not tried: {device.untried}"
    )
    yield f"{device.device}: {by}: {state}"
    if device.hint:
        yield f"  hint: {device.hint}"
    if not device.backends and device.untried is None:
        yield "  no backend: it holds data, but runs no kernels"
    for backend in device.backends:
        facts = [
            *([f"target {backend.target}"] if backend.target else []),
            *(["the default"] if backend.is_default else []),
        ]
        target = f" ({', '.join(facts)})" if facts else ""
        is_tried = backend.target is not None or backend.problem is not None
        state = _describe_state(backend.problem) if is_tried else "not tried"
        yield f"  {device.kind}.{backend.name} by {_join(backend.providers)}{target}: {state}"
        if backend.hint:
            yield f"    hint: {backend.hint}"


def _join(providers: Sequence[Provider]) -> str:
    return " and ".join(map(str, providers))


def _describe_state(problem: str | None) -> str:
    """A compiler's error has several lines, which stand below each other."""
    if problem is None:
        return "works"
    return "does not work: " + "\n      ".join(
        line for line in problem.splitlines() if line.strip()
    )
