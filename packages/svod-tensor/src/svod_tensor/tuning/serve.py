"""Child process side: compile candidates, or run them."""

from __future__ import annotations

import signal
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from svod_tensor.tuning.bench import Bench, make_bench, middle_values
from svod_tensor.tuning.child import answer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from svod_device import CompiledSpec, Device, ProgramSpec
    from svod_ir import UOp
    from svod_tensor.tuning.buffer_data import BufferData

__all__ = ["CompileRequest", "Worker", "compile_kernel", "serve"]


class CompileRequest(NamedTuple):
    """A candidate to compile: the text of its optimized kernel, for a backend of a device (None:
    its default backend).
    """

    kernel: str
    device: str
    backend: str | None
    max_uops: int


def compile_kernel(kernel: UOp, device: Device, max_uops: int) -> tuple[bytes, str]:
    """An optimized kernel in the format of `svod_codegen.kernel_store.encode_kernel`; or empty
    bytes and the reason why it is too long.
    """
    from svod_codegen.kernel_store import encode_kernel

    source = _render(kernel, device, max_uops)
    if isinstance(source, str):
        return b"", source
    # Not the device's `compile`, which caches its results.
    return encode_kernel(*_fix_sizes(source, device.compiler.compile(source))), ""


def _render(kernel: UOp, device: Device, max_uops: int) -> ProgramSpec | str:
    """Source of an optimized kernel, or the reason why it is too long."""
    from svod_codegen.steps import linearize, render
    from svod_ir import IROptions
    from svod_schedule.optimize.candidates import check_length
    from svod_schedule.pipeline import Context
    from svod_schedule.steps import OptimizedKernel, lower

    context = Context(target=device.target, device=device.name, options=IROptions())
    program = linearize(lower(OptimizedKernel(kernel), context), device.name)
    dropped = check_length(program.linear.src, max_uops)
    return render(program, device.renderer) if dropped is None else dropped.detail


def _fix_sizes(spec: ProgramSpec, compiled: CompiledSpec) -> tuple[ProgramSpec, CompiledSpec]:
    """Replace launch size expressions by numbers, since expressions are not serialized."""
    dims = spec.launch_dims(middle_values(spec))
    return (
        replace(spec, global_size=dims.global_size, local_size=dims.local_size),
        replace(compiled, global_size=dims.global_size, local_size=dims.local_size),
    )


class Worker:
    """Functions that the parent may call."""

    def __init__(self) -> None:
        self._bench: Bench | None = None

    def start(self, device: str, backend: str | None) -> None:
        """Import the modules that will be needed, before any time limit starts."""
        from svod_device import get_device
        from svod_schedule import steps

        _ = steps, get_device(device).with_backend(backend).compiler.cache_key

    def compile(self, *request: *tuple[str, str, str | None, int]) -> tuple[bytes, str]:
        """`compile_kernel` for a `CompileRequest`."""
        from svod_device import get_device
        from svod_ir import parse_graph

        text, name, backend, max_uops = request
        return compile_kernel(parse_graph(text), get_device(name).with_backend(backend), max_uops)

    def open(
        self, device: str, backend: str | None, buffer_data: Sequence[BufferData], tolerance: float
    ) -> None:
        """Make a bench for the candidates of a kernel, after dropping the previous one."""
        # First: the device need not have room for the buffers of two kernels.
        self._bench = None
        self._bench = make_bench(device, backend, buffer_data, tolerance)

    def bench(self, method: str, *arguments: object) -> object:
        """Call a method of the bench."""
        return getattr(self._bench, method)(*arguments)


_METHODS: Final = ("start", "compile", "open", "bench")


def serve(max_bytes: int) -> None:
    """Main function of the child.

    Args:
        max_bytes: limit of its address space; 0 for none.
    """
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # Ctrl-C is handled by the parent, which ends its children
    _limit_memory(max_bytes)
    worker = Worker()

    def find(name: str) -> Callable[..., object]:
        if name not in _METHODS:
            raise LookupError(name)
        return getattr(worker, name)

    answer(find)


def _limit_memory(max_bytes: int) -> None:
    try:
        import resource
    except ImportError:
        return  # Windows has no such limit
    _, hard = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(
        resource.RLIMIT_CORE, (0, hard)
    )  # crashes of candidates are expected: no core dump
    if max_bytes:
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        limit = max_bytes if hard == resource.RLIM_INFINITY else min(max_bytes, hard)
        resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
