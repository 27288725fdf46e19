"""Whether a device works: memory is allocated, bytes are copied there and back, and a kernel with a
known result runs.

A plugin may crash or hang on a machine where its hardware or driver is not as it should be. So
`probe_apart` does this in a process of its own, within a time limit; that process writes down each
step before it begins, one line of JSON each, and at last what it found."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from array import array
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Final, cast

from svod_device._buffer import Buffer
from svod_device._build_kernel import build_kernel, order_nodes
from svod_device._device import Device
from svod_device._protocols import Allocator, Backend
from svod_device._registry import Registry, get_registry
from svod_device.errors import (
    DeviceLostError,
    DuplicatePluginError,
    PluginInterfaceError,
    PluginLoadError,
)
from svod_dtype import DeviceNameError, SvodError, int32, uint8
from svod_ir import AxisType, KernelInfo, Op, ParamArg, UOp

__all__ = ["BackendProbe", "Failure", "Probe", "Step", "probe_apart", "probe_device", "serve"]

_N_BYTES: Final = 4096
_SIZE: Final = 13
_START: Final = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from svod_device._probe import serve; serve(sys.argv[2], sys.argv[3])"
)

Step = Callable[[str], None]
"""Called with what is done next, as in "compiling a kernel"."""


@dataclass(frozen=True, slots=True)
class Failure:
    """What went wrong, and what helps against it."""

    problem: str
    hint: str | None = None


@dataclass(frozen=True, slots=True)
class BackendProbe:
    """A backend: its target where it could be made, and why it does not work."""

    target: str | None = None
    failure: Failure | None = None


@dataclass(slots=True)
class Probe:
    """What a device was found to do.

    Attributes:
        failure: why its memory cannot be used.
        untried: why there was nothing to try: its plugin asks for a name that says more.
        default_backend: the name of the one that the device uses; None where it has none, or could
            not be opened.
        backends: by name.
    """

    failure: Failure | None = None
    untried: str | None = None
    default_backend: str | None = None
    backends: dict[str, BackendProbe] = field(default_factory=dict[str, BackendProbe])


def probe_device(registry: Registry, name: str, note: Step = lambda _: None) -> Probe:
    """Try a device and all of its backends in this process."""
    found = Probe()
    kind = name.partition(":")[0].upper()
    step = _Steps(note)
    device: Device | None = None
    if kind in registry.list_kinds():
        try:
            step(f"opening {name}")
            device = registry.get_device(name)
            found.default_backend = device.default_backend
            _try_memory(device.allocator, step)
        except DeviceNameError as error:
            found.untried = error.headline
            return found
        except (Exception, SystemExit) as error:
            found.failure = step.fail(error)
    for backend in registry.list_backends(kind):
        found.backends[backend] = _probe_backend(
            registry, device if found.failure is None else None, kind, backend, step
        )
    return found


class _Steps:
    """Knows what is being done."""

    def __init__(self, note: Step) -> None:
        self._note, self._now = note, ""

    def __call__(self, doing: str) -> None:
        self._now = doing
        self._note(doing)

    def fail(self, error: BaseException) -> Failure:
        if isinstance(
            error, (PluginLoadError, PluginInterfaceError, DuplicatePluginError, DeviceLostError)
        ):
            return Failure(error.headline, error.hint)  # which says what was being done
        if isinstance(error, SvodError):
            return Failure(f"{self._now}: {error.headline}", error.hint)
        if isinstance(error, _WrongResultError):
            return Failure(f"{self._now}: {error}")
        return Failure(f"{self._now}: {type(error).__name__}: {error}")


class _WrongResultError(Exception):
    """A device that does something, but not what it should."""


def _try_memory(allocator: Allocator, step: Step) -> None:
    n_bytes = _N_BYTES if allocator.is_writable else 1
    step(f"allocating {n_bytes} bytes")
    buffer = Buffer(allocator, uint8, n_bytes).ensure_allocated()
    content = bytes(i * 7 % 251 for i in range(n_bytes))
    if allocator.is_writable:
        step(f"copying {n_bytes} bytes to the device")
        buffer.copyin(content)
    step(f"copying {n_bytes} bytes from the device")
    found = buffer.to_bytes()
    if allocator.is_writable and found != content:
        n_wrong = sum(a != b for a, b in zip(found, content, strict=True))
        raise _WrongResultError(f"{n_wrong} of {n_bytes} bytes came back changed")


def _probe_backend(
    registry: Registry, device: Device | None, kind: str, name: str, step: _Steps
) -> BackendProbe:
    target: str | None = None
    try:
        step(f"opening the backend {kind}.{name}")
        backend = registry.make_backend(kind, name) if device is None else device.get_backend(name)
        target = backend.target.name
        if device is not None:
            _try_kernel(device, backend, step)
    except (Exception, SystemExit) as error:
        return BackendProbe(target, step.fail(error))
    return BackendProbe(target)


def _try_kernel(device: Device, backend: Backend, step: Step) -> None:
    """out = in * 3 + 7."""
    i = UOp(Op.RANGE, int32, (UOp.const(int32, _SIZE),), (0, AxisType.LOOP))
    out, given = (UOp(Op.PARAM, int32, (), ParamArg(slot, _SIZE)) for slot in (0, 1))
    store = out.index(i).store(given.index(i).load() * 3 + 7)
    sink = UOp.sink(store.end(i), arg=KernelInfo("probe", ()))
    step("building a kernel")
    built = build_kernel("probe", sink, order_nodes(sink), backend, device.name)
    step("running a kernel")
    values = array("i", range(-5, _SIZE - 5))
    buffers = [Buffer(device.allocator, int32, _SIZE) for _ in range(2)]
    for buffer in buffers:
        buffer.copyin(values)
    dims = built.spec.launch_dims({})
    built.program([buffer.address for buffer in buffers], [], dims.global_size, dims.local_size)
    found, expected = array("i", buffers[0].to_bytes()), [value * 3 + 7 for value in values]
    for position, (a, b) in enumerate(zip(found, expected, strict=True)):
        if a != b:
            raise _WrongResultError(f"element {position} is {a} instead of {b}")


def probe_apart(name: str, limit_s: float) -> Probe:
    """`probe_device` in a process of its own; one that crashes, or takes longer than the limit,
    does not work.
    """
    # Files and not pipes: what a plugin starts may hold those open for longer than the process
    # lives.
    with (
        tempfile.TemporaryFile() as out,
        tempfile.TemporaryFile() as err,
        tempfile.NamedTemporaryFile() as answers,
    ):
        process = subprocess.Popen(
            [sys.executable, "-c", _START, json.dumps(sys.path), name, answers.name],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=True,
        )
        try:
            status = process.wait(limit_s)
            end = (
                f"the process ended by signal {-status}"
                if status < 0
                else f"the process ended with status {status}"
            )
        except subprocess.TimeoutExpired:
            end = f"no end after {limit_s:g} s"
        finally:
            _end(process)
        lines = [
            cast("dict[str, object]", json.loads(line)) for line in answers.read().splitlines()
        ]
        if lines and "failure" in lines[-1]:
            return _read_probe(lines[-1])
        err.seek(0)
        printed = err.read().decode(errors="replace").strip().splitlines()
    doing = str(lines[-1]["step"]) if lines else "starting a process"
    return Probe(Failure(f"{doing}: {end}{f': {printed[-1]}' if printed else ''}"))


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process, and what it started."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (AttributeError, OSError):
        process.kill()
    process.wait()


def serve(name: str, path: str) -> None:
    """The other process's side."""
    with open(path, "w") as answers:

        def write(content: object) -> None:
            answers.write(json.dumps(content) + "\n")
            answers.flush()

        write(asdict(probe_device(get_registry(), name, lambda step: write({"step": step}))))
        # What a driver does at the end of a process is not asked for.
        os._exit(0)


def _read_probe(content: dict[str, object]) -> Probe:
    def read_failure(given: object) -> Failure | None:
        return None if given is None else Failure(**cast("dict[str, str]", given))

    backends = cast("dict[str, dict[str, object]]", content["backends"])
    return Probe(
        read_failure(content["failure"]),
        cast("str | None", content["untried"]),
        cast("str | None", content["default_backend"]),
        {
            name: BackendProbe(cast("str | None", b["target"]), read_failure(b["failure"]))
            for name, b in backends.items()
        },
    )
