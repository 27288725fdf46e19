"""Data in the buffers of a kernel while it is measured.

Existing data is copied if it is small enough. Other buffers are filled with numbers that suit most
kernels: floats around 1, small integers without 0. Integers that are used as indices are random
within the bounds of the memory they address, which are found by interval arithmetic."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import TYPE_CHECKING, Final

from svod_dtype import DType, find_dtype
from svod_ir import Op, UOp, max_trips

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import numpy as np
    from numpy.typing import NDArray

    from svod_device import Buffer

__all__ = ["BufferData", "describe_buffers", "estimate_tolerance", "make_array"]

MAX_COPIED_BYTES: Final = 32 << 20
"""Maximum number of bytes that are copied to the process that measures."""

_PATTERN: Final = 1_000_003
"""Period of the random numbers: a prime, so that no two rows are equal."""

# The "small multiple" of the bound in `estimate_tolerance`.
_SAFETY: Final = 8


@dataclass(frozen=True, slots=True)
class BufferData:
    """Data of a buffer: the bytes `data`, or `size` random elements; random integers are below
    `n_values` unless that is 0.
    """

    slot: int
    dtype: str
    size: int
    n_values: int = 0
    data: bytes | None = None

    @property
    def nbytes(self) -> int:
        """Size of the buffer in bytes."""
        return self.size * self.element_type.itemsize

    @property
    def element_type(self) -> DType:
        """The DType with the name `dtype`."""
        dtype = find_dtype(self.dtype)
        assert dtype is not None
        return dtype


def describe_buffers(kernel: UOp, buffers: Mapping[int, Buffer]) -> tuple[BufferData, ...]:
    """Data for each PARAM of a kernel; `buffers` are its actual buffers by slot."""
    params = sorted(
        {n for n in kernel.toposort() if n.op is Op.PARAM and n.arg.device is None},
        key=lambda n: n.arg.slot,
    )
    filled: list[BufferData] = []
    remaining = MAX_COPIED_BYTES
    for param in params:
        dtype, slot, size = param.dtype, param.arg.slot, param.arg.size
        buffer = buffers.get(slot)
        if (
            buffer is not None
            and buffer.is_allocated
            and buffer.nbytes == size * dtype.itemsize <= remaining
        ):
            remaining -= buffer.nbytes
            filled.append(BufferData(slot, dtype.name, size, data=buffer.to_bytes()))
        else:
            filled.append(
                BufferData(slot, dtype.name, size, n_values=_count_indices(kernel, param))
            )
    return tuple(filled)


def _count_indices(kernel: UOp, param: UOp) -> int:
    """The exclusive upper bound of an element of `param` that is used as an index; 0 if none is."""
    if param.dtype.kind not in ("int", "uint"):
        return 0
    n_values = 0
    for access in kernel.iter_ops(Op.INDEX):
        loads = [n for n in access.position.toposort() if n.op is Op.INDEX and n.memory is param]
        if loads:
            n = _get_largest(access, loads)
            n_values = min(n_values, n) if n_values else n
    return n_values


def _get_largest(access: UOp, loads: list[UOp]) -> int:
    """The largest halving of a memory's size below which all indices are proved to be in bounds; at
    least 1.
    """
    from svod_schedule.symbolic import simplify

    size = _memory_size(access)
    n = min(size, int(loads[0].dtype.max) + 1)
    while n > 1:
        variables = {
            load: UOp.variable(f"position{i}", 0, n - 1, load.dtype) for i, load in enumerate(loads)
        }
        position = simplify(access.position.substitute(variables))
        if position.vmin >= 0 and position.vmax < size:
            return n
        # Each attempt is a proof by interval arithmetic, so there should be few of them.
        n //= 2
    return 1


def _memory_size(access: UOp) -> int:
    memory = access.memory
    return memory.arg.size if memory.op is Op.PARAM else 1


def estimate_tolerance(kernel: UOp) -> float:
    """Tolerance for floats that were summed in another order, relative to the largest.

    Source: N. Higham, T. Mary, "A New Approach to Probabilistic Rounding Error Analysis", SIAM J.
    Sci. Comput. 41(5), 2019: a sum of n terms errs by a small multiple of sqrt(n) roundings."""
    nodes = kernel.toposort()
    eps = max((n.dtype.finfo_eps for n in nodes if n.dtype.is_float), default=0.0)
    n_terms = max(
        (_count_terms(n.src[1:]) for n in nodes if n.op in (Op.REDUCE, Op.SCAN)), default=1
    )
    return eps * _SAFETY * (2 + sqrt(n_terms))


def _count_terms(ranges: Iterable[UOp]) -> int:
    return max_trips(*ranges)


def make_array(description: BufferData) -> NDArray[np.generic]:
    """The elements, the same at every call and in every process."""
    import numpy as np

    dtype = description.element_type
    if description.data is not None:
        return np.frombuffer(description.data, dtype.numpy)
    rng = np.random.default_rng(description.slot)
    n = min(description.size, _PATTERN)
    if dtype.is_float:
        # From 0.25 to 1.25: no zero to divide by, and no denormals, which some processors compute
        # far more slowly.
        pattern = (rng.random(n) + 0.25).astype(np.float32).astype(dtype.numpy)
    elif dtype.is_bool:
        pattern = rng.integers(0, 2, n).astype(dtype.numpy)
    elif description.n_values:
        pattern = rng.integers(0, description.n_values, n).astype(dtype.numpy)
    else:
        sign = rng.choice((-1, 1), n) if dtype.is_signed else 1
        pattern = (rng.integers(1, 101, n) * sign).astype(dtype.numpy)
    return np.resize(pattern, description.size)
