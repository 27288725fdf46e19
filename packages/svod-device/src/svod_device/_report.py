"""Report of installed devices: providers, backends, and whether each works."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from svod_device._probe import BackendProbe, Failure, Probe, probe_device, probe_in_process
from svod_device._registry import ALLOCATORS, COMPILERS, Plugin, Registry
from svod_device.interface import INTERFACE_VERSION

__all__ = ["BackendReport", "DeviceReport", "Provider", "describe", "report_devices"]


@dataclass(frozen=True, slots=True)
class Provider:
    """Distribution and entry point of a factory. `interface` is its declared version of the plugin
    interface, or None.
    """

    distribution: str
    version: str
    entry_point: str
    interface: int | None

    def __str__(self) -> str:
        return " ".join(filter(None, (self.distribution, self.version)))


@dataclass(frozen=True, slots=True)
class BackendReport:
    """Report on a backend. `problem` and `hint` are None if it works; `target` is None if it failed
    to load.
    """

    name: str
    providers: tuple[Provider, ...]
    is_default: bool
    target: str | None
    problem: str | None
    hint: str | None


@dataclass(frozen=True, slots=True)
class DeviceReport:
    """Report on a device. A device kind is represented by the device with the kind's name.

    `providers` is empty if a kind has backends but no allocator. `untried` is the reason why the
    device was not tried: kinds such as DISK need a longer name, as in DISK:/path/to/file.
    """

    kind: str
    device: str
    providers: tuple[Provider, ...]
    problem: str | None
    hint: str | None
    untried: str | None
    backends: tuple[BackendReport, ...]

    @property
    def works(self) -> bool:
        """True if neither the memory nor the default backend has a problem."""
        # Other backends are used only where a program asks for them by name.
        return self.problem is None and all(
            b.problem is None for b in self.backends if b.is_default
        )


def report_devices(
    registry: Registry, names: Sequence[str] = (), *, limit_s: float | None = None
) -> list[DeviceReport]:
    """Try devices (memory, copies, and a kernel on each backend) and report the results.

    Args:
        registry: registry of the plugins.
        names: device names; by default one device of each kind.
        limit_s: time limit for each device. Installed plugins are then tried in a child process.
            None tries all plugins in this process, without a limit.
    """
    plugins = list(registry.iter_plugins())
    return [
        _report(registry, name, plugins, limit_s)
        for name in names or sorted({p.kind for p in plugins})
    ]


def _report(
    registry: Registry, name: str, plugins: Sequence[Plugin], limit_s: float | None
) -> DeviceReport:
    # Not `parse_device_name`, which raises: a malformed name is a problem to report.
    kind = name.partition(":")[0].upper()
    own = [plugin for plugin in plugins if plugin.kind == kind]
    # A child process sees only entry points, not factories registered in this process.
    if limit_s is not None and own and all(plugin.is_installed for plugin in own):
        probe = probe_in_process(name, limit_s)
    else:
        probe = probe_device(registry, name)
    providers = _get_providers(own, ALLOCATORS, "")
    # A kind without an allocator cannot be opened; its backends can still be loaded.
    failure = probe.failure if providers else Failure("no plugin provides an allocator")
    names = registry.list_backends(kind)
    backends = tuple(_report_backend(registry, kind, b, own, probe) for b in names)
    problem, hint = (None, None) if failure is None else (failure.problem, failure.hint)
    return DeviceReport(kind, name, providers, problem, hint, probe.untried, backends)


def _report_backend(
    registry: Registry, kind: str, name: str, own: Sequence[Plugin], probe: Probe
) -> BackendReport:
    result = probe.backends.get(name, BackendProbe())
    problem, hint = (
        (None, None) if result.failure is None else (result.failure.problem, result.failure.hint)
    )
    # A device that could not be opened has no default of its own; the options still choose one.
    is_default = name == (probe.default_backend or registry.choose_backend(kind))
    return BackendReport(
        name, _get_providers(own, COMPILERS, name), is_default, result.target, problem, hint
    )


def _get_providers(own: Sequence[Plugin], group: str, backend: str) -> tuple[Provider, ...]:
    return tuple(
        Provider(p.distribution, p.version, p.value, p.interface)
        for p in own
        if (p.group, p.backend) == (group, backend)
    )


def describe(devices: Sequence[DeviceReport]) -> Iterator[str]:
    """Format the reports as lines of text."""
    yield f"svod-device, plugin interface {INTERFACE_VERSION}"
    for device in devices:
        yield from _describe_device(device)


def _describe_device(device: DeviceReport) -> Iterator[str]:
    memory = f"memory by {_join(device.providers)}" if device.providers else "no memory"
    state = (
        _describe_state(device.problem)
        if device.untried is None
        else f"not tried: {device.untried}"
    )
    yield f"{device.device}: {memory}: {state}"
    if device.hint:
        yield f"  hint: {device.hint}"
    if not device.backends and device.untried is None:
        yield "  no backend: it stores data but cannot run kernels"
    for backend in device.backends:
        facts = [
            *([f"target {backend.target}"] if backend.target else []),
            *(["the default"] if backend.is_default else []),
        ]
        target = f" ({', '.join(facts)})" if facts else ""
        # Neither is known if the probe ended before this backend, for example at its time limit.
        is_tried = backend.target is not None or backend.problem is not None
        state = _describe_state(backend.problem) if is_tried else "not tried"
        yield f"  {device.kind}.{backend.name} by {_join(backend.providers)}{target}: {state}"
        if backend.hint:
            yield f"    hint: {backend.hint}"


def _join(providers: Sequence[Provider]) -> str:
    return " and ".join(map(str, providers))


def _describe_state(problem: str | None) -> str:
    """Format the state of a device or backend; the lines of a compiler's error are indented."""
    if problem is None:
        return "works"
    return "does not work: " + "\n      ".join(
        line for line in problem.splitlines() if line.strip()
    )
