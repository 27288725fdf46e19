"""Collectives as native functions: plans start them and wait for them without Python.

Between the two, a plan runs the kernels that do not need the result.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from mpi4py import MPI

from svod_codegen.c_functions import BufferAt, CFunction
from svod_device import get_device
from svod_dtype import void
from svod_ir import Op, UOp
from svod_ir.custom_function import read_signature
from svod_mpi._collectives import list_counts
from svod_mpi._reductions import NAMES, get_operation, get_type
from svod_mpi._waits import wait_for_others
from svod_runtime import NativeCall

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from svod_device import Dims
    from svod_ir.custom_function import ArraySpec
    from svod_mpi._collectives import Group
    from svod_runtime import FindNativeCall

__all__ = ["list_native_calls"]

_MAX_COUNT: Final = 2**31 - 1
"""Larger numbers of elements need other functions of MPI, which mpi4py chooses."""
_STATUS_BYTES: Final = 64
"""At least the size of a status of any MPI."""


class _Call(NamedTuple):
    """A collective in a plan.

    Attributes:
        name: its name there.
        output: dtype and shape of the result.
        n_sent: number of elements of its input.
        group: the processes.
        numbers: numbers of its own.
    """

    name: str
    output: ArraySpec
    n_sent: int
    group: Group
    numbers: Sequence[int]


def list_native_calls(
    transport: str, find_group: Callable[[int], Group]
) -> Mapping[str, FindNativeCall]:
    """For the names of some collectives, what finds the native form of a call.

    Errors in these calls end all processes.
    """
    makers: dict[str, Callable[[_Call], NativeCall]] = {
        **{f"reduce.{name}": _make_reduce(name) for name in NAMES},
        **{f"scatter.{name}": _make_scatter(name) for name in NAMES},
        "gather": _gather,
        "exchange": _exchange,
    }
    return {
        name: _on_operands(f"{transport}.{name}", make, find_group) for name, make in makers.items()
    }


def _on_operands(
    name: str, make: Callable[[_Call], NativeCall], find_group: Callable[[int], Group]
) -> FindNativeCall:
    def find(operands: Sequence[UOp]) -> NativeCall | None:
        signature = read_signature(UOp(Op.CUSTOM_FUNCTION, void, tuple(operands), name))
        output, sent = signature.outputs[0], signature.inputs[0]
        is_symbolic = not all(isinstance(size, int) for size in (*output.shape, *sent.shape))
        if is_symbolic or max(output.n_elements, sent.n_elements) > _MAX_COUNT:
            return None
        _, mask, *numbers = (int(scalar.arg) for scalar in signature.scalars)
        return make(_Call(name, output, sent.n_elements, find_group(mask), numbers))

    return find


def _make_reduce(name: str) -> Callable[[_Call], NativeCall]:
    def reduce(call: _Call) -> NativeCall:
        kind = get_type(call.output.dtype.numpy)
        operation = get_operation(name, call.output.dtype.numpy)
        handles = [call.output.n_elements, _handle(kind), _handle(operation)]
        return _start("Allreduce", call, [BufferAt(1), BufferAt(0), *handles], operation)

    return reduce


def _make_scatter(name: str) -> Callable[[_Call], NativeCall]:
    def scatter(call: _Call) -> NativeCall:
        dtype = call.output.dtype.numpy
        operation = get_operation(name, dtype)
        counts = np.array(list_counts(call.numbers, call.n_sent), np.int32)
        handles = [_handle(get_type(dtype)), _handle(operation)]
        arguments = [BufferAt(1), BufferAt(0), counts.ctypes.data, *handles]
        return _start("Reduce_scatter", call, arguments, (counts, operation))

    return scatter


def _gather(call: _Call) -> NativeCall:
    received = _Parts(call.numbers, call.output.n_elements)
    kind = _handle(get_type(call.output.dtype.numpy))
    own = int(received.counts[call.group.communicator.Get_rank()])
    arguments = [BufferAt(1), own, kind, BufferAt(0), *received.addresses, kind]
    return _start("Allgatherv", call, arguments, received)


def _exchange(call: _Call) -> NativeCall:
    size = call.group.communicator.Get_size()
    received = _Parts(call.numbers[:size], call.output.n_elements)
    sent = _Parts(call.numbers[size:], call.n_sent)
    kind = _handle(get_type(call.output.dtype.numpy))
    arguments = [BufferAt(1), *sent.addresses, kind, BufferAt(0), *received.addresses, kind]
    return _start("Alltoallv", call, arguments, (sent, received))


class _Parts:
    """Number of elements and begin of the part of each process, in memory."""

    def __init__(self, sizes: Sequence[int], n_elements: int) -> None:
        self.counts = np.array(list_counts(sizes, n_elements), np.int32)
        self.begins = np.cumsum([0, *self.counts[:-1]], dtype=np.int32)

    @property
    def addresses(self) -> tuple[int, int]:
        return self.counts.ctypes.data, self.begins.ctypes.data


def _start(name: str, call: _Call, arguments: Sequence[int | BufferAt], kept: object) -> NativeCall:
    """The call of a function of MPI, which also takes a communicator.

    Its nonblocking form takes a request too, and costs a microsecond or two more.
    """
    state = np.zeros(8 + _STATUS_BYTES, np.uint8)
    request = state.ctypes.data
    state[:8].view(np.uint64)[0] = _handle(MPI.REQUEST_NULL)  # so that a wait returns at once
    arguments = [*arguments, _handle(call.group.communicator)]
    nonblocking = _get_address(f"MPI_I{name.lower()}")
    start = _Collective(call.name, nonblocking, [*arguments, request], kept=(state, kept))
    blocking = _Collective(call.name, _get_address(f"MPI_{name}"), arguments, kept=kept)
    start.communicator = blocking.communicator = call.group.communicator
    wait = CFunction(
        f"{call.name}.wait", _get_address("MPI_Wait"), [request, request + 8], kept=state
    )
    return NativeCall(
        start, wait, n_inputs=1, launcher=get_device("CPU").launcher, blocking=blocking
    )


class _Collective(CFunction):
    """The start of a collective, or its blocking form. Where waits are recorded, it waits for the
    other processes first.
    """

    __slots__ = ("communicator",)
    communicator: MPI.Intracomm

    def timed_call(
        self,
        buffers: Sequence[int],
        values: Sequence[int],
        global_size: Dims,
        local_size: Dims | None = None,
    ) -> int:
        return wait_for_others(self.communicator) + super().timed_call(
            buffers, values, global_size, local_size
        )


def _handle(value: MPI.Intracomm | MPI.Datatype | MPI.Op | MPI.Request) -> int:
    """The handle of MPI, an integer or an address."""
    # The only way that mpi4py documents for passing handles to C.
    return MPI._handleof(value)  # pyright: ignore[reportPrivateUsage]


@cache
def _get_address(name: str) -> int:
    """Address of a function in the library that mpi4py uses."""
    address = ctypes.cast(getattr(_load_library(), name), ctypes.c_void_p).value
    assert address is not None
    return address


@cache
def _load_library() -> ctypes.CDLL:
    return ctypes.CDLL(MPI.__file__)
