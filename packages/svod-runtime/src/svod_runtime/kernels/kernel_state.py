"""State of a kernel in a plan between executions: addresses, variable values and launch sizes."""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable, Mapping, Sequence, Set
from typing import TYPE_CHECKING, TypeVar

from svod_device import Buffer, DeviceLostError, Dims, LaunchSizeError, TimedProgram, is_constant
from svod_ir import Op, UOp
from svod_runtime.errors import ExecutionError
from svod_runtime.ops.prepared import PreparedKernel, describe_op
from svod_runtime.profile.kernel_profile import KernelProfile

if TYPE_CHECKING:
    from svod_ir.origins import Origin

__all__ = ["KernelState", "Sizes", "find_constant_sizes", "has_varying_sizes"]

T = TypeVar("T")

Sizes = tuple[Dims, Dims | None]
"""Global and local size of a launch."""


def find_constant_sizes(op: PreparedKernel) -> Sizes | None:
    """Return the launch sizes of a kernel, or None if they depend on variables.

    Raises:
        ExecutionError: if a size cannot be evaluated.
    """
    spec = op.kernel.spec
    # Constant sizes are resolved once per template; only the others are evaluated per plan.
    is_fixed = is_constant(spec.global_size) and is_constant(spec.local_size)
    return _resolve_sizes(op, {}) if is_fixed else None


def has_varying_sizes(op: PreparedKernel, counters: Set[str]) -> bool:
    """True if the launch sizes of a kernel depend on one of `counters`."""
    sizes = (*op.kernel.spec.global_size, *(op.kernel.spec.local_size or ()))
    return bool(counters) and any(
        node.arg.name in counters
        for size in sizes
        if isinstance(size, UOp)
        for node in size.iter_ops(Op.DEFINE_VAR)
    )


def _resolve_sizes(op: PreparedKernel, values: Mapping[str, int]) -> Sizes:
    try:
        dims = op.kernel.spec.launch_dims(values)
    except LaunchSizeError as error:
        raise ExecutionError(op=describe_op(op), problem=str(error)) from error
    return dims.global_size, dims.local_size


class KernelState:
    """Mutable state of a kernel: addresses, variable values and launch sizes.

    Both arrays keep their memory for the lifetime of the state, because batch tables read them at
    each run.
    """

    __slots__ = (
        "_buffers",
        "addresses",
        "counters",
        "global_size",
        "has_constant_sizes",
        "launcher",
        "local_size",
        "op",
        "origins",
        "values",
    )

    def __init__(
        self,
        op: PreparedKernel,
        buffers: Sequence[Buffer],
        sizes: Sizes | None,
        origins: tuple[Origin, ...] = (),
        counters: Set[str] = frozenset(),
    ) -> None:
        """Bind a kernel to `buffers`, the live buffer list of a plan or of a loop body.

        Args:
            op: the launch.
            buffers: read again at each use, so that replaced buffers are seen.
            sizes: constant launch sizes; None if they depend on variables.
            origins: source lines of the op.
            counters: counters of the enclosing loops.
        """
        self.op, self.origins, self.counters, self._buffers = op, origins, counters, buffers
        # A batch table fixes the launch sizes; sizes that vary per iteration need single launches.
        self.launcher = None if has_varying_sizes(op, counters) else op.kernel.launcher
        self.addresses = array("Q", [buffers[index].address for index in op.buffer_indices])
        self.values = array("q", op.values)
        self.has_constant_sizes = sizes is not None
        self.global_size: Dims
        self.local_size: Dims | None
        self.global_size, self.local_size = self.resolve_sizes({}) if sizes is None else sizes

    @property
    def buffers(self) -> tuple[Buffer, ...]:
        """Current arguments of the kernel."""
        return tuple([self._buffers[index] for index in self.op.buffer_indices])

    def set_addresses(self) -> None:
        """Write the current addresses of the buffers into the argument array."""
        for position, buffer in enumerate(self.buffers):
            # `locate` and not `address`: a buffer that replaced another may have no memory yet.
            self.addresses[position] = buffer.locate()

    def set_values(self, changes: Mapping[str, int]) -> None:
        """Set variables, except variables fixed by the schedule and loop counters."""
        for position, name in enumerate(self.op.kernel.spec.var_names):
            if name in changes and self.is_settable(name):
                self.values[position] = changes[name]

    def is_settable(self, name: str) -> bool:
        """True unless the schedule fixes a variable, or a loop counts it."""
        return name not in self.op.fixedvars and name not in self.counters

    def find_value(self, name: str) -> int | None:
        """Return the position of a variable among the values, or None if the kernel does not read
        it.
        """
        # A variable that the schedule fixed keeps its value in every iteration.
        names = self.op.kernel.spec.var_names
        return names.index(name) if name in names and name not in self.op.fixedvars else None

    @property
    def variables(self) -> dict[str, int]:
        """Value of every variable, including variables fixed by the schedule."""
        return {
            **dict(zip(self.op.kernel.spec.var_names, self.values, strict=True)),
            **self.op.fixedvars,
        }

    def resolve_sizes(self, changes: Mapping[str, int]) -> Sizes:
        """Return the launch sizes after `changes` to the variables.

        Raises:
            ExecutionError: if a size cannot be evaluated.
        """
        # Fixed variables come last: a caller's value for such a name must not change the launch.
        return _resolve_sizes(self.op, {**self.variables, **changes, **self.op.fixedvars})

    def renew_sizes(self) -> bool:
        """Recompute the launch sizes from the current variables; True if they changed."""
        sizes = self.resolve_sizes({})
        if sizes == (self.global_size, self.local_size):
            return False
        self.global_size, self.local_size = sizes
        return True

    @property
    def is_threaded(self) -> bool:
        """True for a host kernel that is split over the cores."""
        return self.global_size[0] > 1 and self._get_output().is_host_addressable

    @property
    def n_bytes(self) -> int:
        return self.op.kernel.spec.n_bytes or sum(buffer.nbytes for buffer in self.buffers)

    def _get_output(self) -> Buffer:
        return self._buffers[self.op.buffer_indices[self.op.output_indices[0]]]

    def run(self) -> None:
        """Launch the kernel on its own."""
        self._call(self.op.kernel.program)

    def _call(self, launch: Callable[[array[int], array[int], Dims, Dims | None], T]) -> T:
        try:
            return launch(self.addresses, self.values, self.global_size, self.local_size)
        except DeviceLostError:
            raise  # the device failed, not this kernel
        except Exception as error:
            raise ExecutionError(
                op=describe_op(self.op),
                problem=f"{type(error).__name__}: {error}",
                origins=self.origins,
            ) from error

    def run_profiled(self) -> KernelProfile:
        """Launch the kernel on its own and measure its time."""
        op, program = self.op, self.op.kernel.program
        allocator = self._get_output().allocator
        start = time.perf_counter_ns()
        # Device timers exclude the launch overhead that the host clock includes.
        if isinstance(program, TimedProgram):
            elapsed = self._call(program.timed_call)
        else:
            self.run()
            allocator.synchronize()
            elapsed = time.perf_counter_ns() - start
        return KernelProfile(
            op.kernel,
            op.device,
            len(op.buffer_indices),
            elapsed,
            op.kernel.spec.n_operations,
            self.n_bytes,
            start,
            self.origins,
        )
