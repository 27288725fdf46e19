"""Device probes: allocate memory, copy bytes to the device and back, and run a kernel.

A plugin may crash or hang if its hardware or driver is faulty. So `probe_in_process` runs the probe
in a child process with a time limit. The child writes lines of JSON to a file: each step before it
starts, and finally the result.
"""

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

__all__ = ["BackendProbe", "Failure", "Probe", "Step", "probe_device", "probe_in_process", "serve"]

_N_BYTES: Final = 4096
_SIZE: Final = 13  # prime, so that vectors and workgroups leave a tail

# The child's code. It gets `sys.path`, since the parent may have changed it.
_START: Final = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from svod_device._probe import serve; serve(sys.argv[2], sys.argv[3])"
)

Step = Callable[[str], None]
"""Callback that gets the description of each step before it starts, as in "building a kernel"."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Problem and hint of a failed probe."""

    problem: str
    hint: str | None = None


@dataclass(frozen=True, slots=True)
class BackendProbe:
    """Result for a backend: its target, None if it failed to load, and its failure, if any."""

    target: str | None = None
    failure: Failure | None = None


@dataclass(slots=True)
class Probe:
    """Result for a device.

    Attributes:
        failure: failure of opening the device or of its memory, or None.
        untried: reason why the device was not tried (its plugin requires a longer name), or None.
        default_backend: name of the default backend; None without one, or if opening failed.
        backends: results by backend name.
    """

    failure: Failure | None = None
    untried: str | None = None
    default_backend: str | None = None
    backends: dict[str, BackendProbe] = field(default_factory=dict[str, BackendProbe])


def probe_device(registry: Registry, name: str, note: Step = lambda _: None) -> Probe:
    """Probe a device and all of its backends in this process."""
    result = Probe()
    kind = name.partition(":")[0].upper()
    step = _Steps(note)
    device: Device | None = None
    if kind in registry.list_kinds():
        try:
            step(f"opening {name}")
            device = registry.get_device(name)
            result.default_backend = device.default_backend
            _try_memory(device.allocator, step)
        except DeviceNameError as error:
            result.untried = error.headline
            return result
        except (Exception, SystemExit) as error:
            result.failure = step.fail(error)
    # Backends are loaded even if the memory failed: the report shows the problems of each.
    for backend in registry.list_backends(kind):
        result.backends[backend] = _probe_backend(
            registry, device if result.failure is None else None, kind, backend, step
        )
    return result


class _Steps:
    """Current step of a probe."""

    def __init__(self, note: Step) -> None:
        self._note, self._current = note, ""

    def __call__(self, step: str) -> None:
        self._current = step
        self._note(step)

    def fail(self, error: BaseException) -> Failure:
        if isinstance(
            error, (PluginLoadError, PluginInterfaceError, DuplicatePluginError, DeviceLostError)
        ):
            # These headlines name the operation already.
            return Failure(error.headline, error.hint)
        if isinstance(error, SvodError):
            return Failure(f"{self._current}: {error.headline}", error.hint)
        if isinstance(error, _WrongResultError):
            return Failure(f"{self._current}: {error}")
        return Failure(f"{self._current}: {type(error).__name__}: {error}")


class _WrongResultError(Exception):
    """Wrong result of a copy or a kernel."""


def _try_memory(allocator: Allocator, step: Step) -> None:
    # Read-only memory is a file, which may be small.
    n_bytes = _N_BYTES if allocator.is_writable else 1
    step(f"allocating {n_bytes} bytes")
    buffer = Buffer(allocator, uint8, n_bytes).ensure_allocated()
    data = bytes(i * 7 % 251 for i in range(n_bytes))
    if allocator.is_writable:
        step(f"copying {n_bytes} bytes to the device")
        buffer.copyin(data)
    step(f"copying {n_bytes} bytes from the device")
    copied = buffer.to_bytes()
    if allocator.is_writable and copied != data:
        n_wrong = sum(a != b for a, b in zip(copied, data, strict=True))
        raise _WrongResultError(f"{n_wrong} of {n_bytes} bytes differ from those written")


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
    """Run the kernel y = x * 3 + 7 and check its result."""
    i = UOp(Op.RANGE, int32, (UOp.const(int32, _SIZE),), (0, AxisType.LOOP))
    y, x = (UOp(Op.PARAM, int32, (), ParamArg(slot, _SIZE)) for slot in (0, 1))
    store = y.index(i).store(x.index(i).load() * 3 + 7)
    sink = UOp.sink(store.end(i), arg=KernelInfo("probe", ()))
    step("building a kernel")
    built = build_kernel("probe", sink, order_nodes(sink), backend, device.name)
    step("running a kernel")
    values = array("i", range(-5, _SIZE - 5))
    # The output gets the input's values too, so that a kernel that does not run is detected.
    buffers = [Buffer(device.allocator, int32, _SIZE) for _ in range(2)]
    for buffer in buffers:
        buffer.copyin(values)
    dims = built.spec.launch_dims({})
    built.program([buffer.address for buffer in buffers], [], dims.global_size, dims.local_size)
    results, expected = array("i", buffers[0].to_bytes()), [value * 3 + 7 for value in values]
    for index, (a, b) in enumerate(zip(results, expected, strict=True)):
        if a != b:
            raise _WrongResultError(f"element {index} is {a}, expected {b}")


def probe_in_process(name: str, limit_s: float) -> Probe:
    """Run `probe_device` in a child process. A crash or timeout of the child is a failure."""
    # Files instead of pipes, since processes that a plugin starts may keep a pipe open after the
    # child has exited.
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
            start_new_session=True,  # a process group, for `_kill`
        )
        try:
            status = process.wait(limit_s)
            end = (
                f"the process was killed by signal {-status}"
                if status < 0
                else f"the process exited with status {status}"
            )
        except subprocess.TimeoutExpired:
            end = f"timed out after {limit_s:g} s"
        finally:
            _kill(process)
        lines = [
            cast("dict[str, object]", json.loads(line)) for line in answers.read().splitlines()
        ]
        if lines and "failure" in lines[-1]:
            return _read_probe(lines[-1])
        err.seek(0)
        printed = err.read().decode(errors="replace").strip().splitlines()
    step = str(lines[-1]["step"]) if lines else "starting a process"
    return Probe(Failure(f"{step}: {end}{f': {printed[-1]}' if printed else ''}"))


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a process and its process group."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (AttributeError, OSError):
        # Windows has no process groups, and the group may be gone already.
        process.kill()
    process.wait()


def serve(name: str, path: str) -> None:
    """Run a probe in the child process and write its steps and result to `path`."""
    with open(path, "w") as answers:

        def write(value: object) -> None:
            answers.write(json.dumps(value) + "\n")
            answers.flush()

        write(asdict(probe_device(get_registry(), name, lambda step: write({"step": step}))))
        # Skip exit handlers: a driver's failure at exit is not part of the probe.
        os._exit(0)


def _read_probe(fields: dict[str, object]) -> Probe:
    def read_failure(value: object) -> Failure | None:
        return None if value is None else Failure(**cast("dict[str, str]", value))

    backends = cast("dict[str, dict[str, object]]", fields["backends"])
    return Probe(
        read_failure(fields["failure"]),
        cast("str | None", fields["untried"]),
        cast("str | None", fields["default_backend"]),
        {
            name: BackendProbe(cast("str | None", b["target"]), read_failure(b["failure"]))
            for name, b in backends.items()
        },
    )
