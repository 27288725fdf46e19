"""What changes about a plan's kernels between executions: addresses, values of variables, launch sizes."""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from svod_device import Buffer, DeviceLostError, Dims, LaunchSizeError, TimedProgram, is_constant
from svod_runtime._prepared import PreparedKernel, describe_op
from svod_runtime._profile import KernelProfile
from svod_runtime.errors import ExecutionError

if TYPE_CHECKING:
    from svod_ir.origins import Origin

__all__ = ["KernelState", "Sizes", "find_constant_sizes"]

T = TypeVar("T")

Sizes = tuple[Dims, Dims | None]
"""The global and the local size of a launch."""


def find_constant_sizes(op: PreparedKernel) -> Sizes | None:
    """The launch sizes of a kernel, or None if they depend on variables.

    Raises:
        ExecutionError: if a size has no usable value.
    """
    spec = op.kernel.spec
    is_fixed = is_constant(spec.global_size) and is_constant(spec.local_size)
    return _resolve_sizes(op, {}) if is_fixed else None


def _resolve_sizes(op: PreparedKernel, values: Mapping[str, int]) -> Sizes:
    try:
        dims = op.kernel.spec.launch_dims(values)
    except LaunchSizeError as error:
        raise ExecutionError(op=describe_op(op), problem=str(error)) from error
    return dims.global_size, dims.local_size


class KernelState:
    """What changes about a kernel between executions: addresses, values, launch sizes.

    The two arrays keep their place in memory: batch tables read them at each run.
    """

    __slots__ = ("addresses", "buffers", "global_size", "has_constant_sizes", "local_size", "op", "origins", "values")

    def __init__(
        self, op: PreparedKernel, buffers: Sequence[Buffer], sizes: Sizes | None, origins: tuple[Origin, ...] = ()
    ) -> None:
        """`sizes` are those of a kernel whose launches are all alike, None where they depend on variables."""
        self.op, self.origins = op, origins
        self.buffers = [buffers[index] for index in op.buffer_indices]
        self.addresses = array("Q", [buffer.address for buffer in self.buffers])
        self.values = array("q", op.values)
        self.has_constant_sizes = sizes is not None
        self.global_size: Dims
        self.local_size: Dims | None
        self.global_size, self.local_size = self.resolve_sizes({}) if sizes is None else sizes

    def set_buffers(self, buffers: Sequence[Buffer]) -> None:
        """Take the kernel's buffers from all those of the plan."""
        for position, index in enumerate(self.op.buffer_indices):
            self.buffers[position], self.addresses[position] = buffers[index], buffers[index].address

    def set_values(self, changes: Mapping[str, int]) -> None:
        """Give variables values, except those that the schedule fixed."""
        for position, name in enumerate(self.op.kernel.spec.var_names):
            if name in changes and name not in self.op.fixedvars:
                self.values[position] = changes[name]

    @property
    def variables(self) -> dict[str, int]:
        """The value of every variable, those that the schedule fixed included."""
        return {**dict(zip(self.op.kernel.spec.var_names, self.values, strict=True)), **self.op.fixedvars}

    def resolve_sizes(self, changes: Mapping[str, int]) -> Sizes:
        """The launch sizes after `changes` to the variables.

        Raises:
            ExecutionError: if a size has no usable value.
        """
        return _resolve_sizes(self.op, {**self.variables, **changes, **self.op.fixedvars})

    def renew_sizes(self) -> bool:
        """Give the launch the sizes that the variables ask for now; True if these are new."""
        sizes = self.resolve_sizes({})
        if sizes == (self.global_size, self.local_size):
            return False
        self.global_size, self.local_size = sizes
        return True

    @property
    def is_threaded(self) -> bool:
        """True for a kernel of the host that is split over its cores."""
        return self.global_size[0] > 1 and self.buffers[self.op.output_indices[0]].is_host_addressable

    @property
    def n_bytes(self) -> int:
        return self.op.kernel.spec.n_bytes or sum(buffer.nbytes for buffer in self.buffers)

    def run(self) -> None:
        """Launch the kernel by itself."""
        self._call(self.op.kernel.program)

    def _call(self, launch: Callable[[array[int], array[int], Dims, Dims | None], T]) -> T:
        try:
            return launch(self.addresses, self.values, self.global_size, self.local_size)
        except DeviceLostError:
            raise  # no kernel is to blame
        except Exception as error:
            raise ExecutionError(
                op=describe_op(self.op), problem=f"{type(error).__name__}: {error}", origins=self.origins
            ) from error

    def run_profiled(self) -> KernelProfile:
        """Launch the kernel by itself and time it."""
        op, program = self.op, self.op.kernel.program
        allocator = self.buffers[op.output_indices[0]].allocator
        start = time.perf_counter_ns()
        if isinstance(program, TimedProgram):
            elapsed = self._call(program.timed_call)
        else:
            self.run()
            allocator.synchronize()
            elapsed = time.perf_counter_ns() - start
        return KernelProfile(
            op.kernel,
            op.device,
            len(self.buffers),
            elapsed,
            op.kernel.spec.n_operations,
            self.n_bytes,
            start,
            self.origins,
        )
