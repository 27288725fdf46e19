"""Description of a machine as data, for the optimizer, the lowering and the renderers.

The compiler never tests a device's name: a plugin that fills in a `Target` is optimized like the
devices that ship with svod.

Example:
    >>> from dataclasses import replace
    >>> from svod_dtype import bfloat16, float32
    >>> from svod_ir import Rates, Target, TensorCore
    >>> unit = TensorCore(dims=(16, 16, 32), group=2, dtypes=(bfloat16, bfloat16, float32), cycles=16.0)
    >>> print(unit)
    WMMA_16_16_32_bf16_bf16_f32
    >>> unit.operand_dtypes
    (bfloat16x512, bfloat16x512, float32x256)
    >>> wide = replace(Target.generic(cores=8), vector_bits=512, tensor_cores=(unit,), rates=Rates(clock=2e9))
    >>> wide.lanes(float32), Target.generic().lanes(float32)
    (16, 8)
    >>> from svod_ir import Op
    >>> from svod_ir.target import COMMON_DTYPES, COMMON_OPS
    >>> sine = replace(wide, native_ops=COMMON_OPS | {Op.SIN}, native_dtypes=COMMON_DTYPES | {bfloat16})
    >>> Op.SIN in wide.native_ops, bfloat16 in wide.native_dtypes, Op.ADD in sine.native_ops
    (False, False, True)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from svod_dtype import (
    DType,
    bool_,
    float32,
    float64,
    index,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)
from svod_ir.errors import TargetError
from svod_ir.ops import TABLE, Op

__all__ = ["COMMON_DTYPES", "COMMON_OPS", "Rates", "Target", "TensorCore"]

COMMON_OPS: Final = frozenset(op for op, row in TABLE.items() if row.is_common)
"""Ops that every processor with ordinary arithmetic has; other ops are decomposed into them."""

COMMON_DTYPES: Final = frozenset(
    {
        bool_,
        int8,
        uint8,
        int16,
        uint16,
        int32,
        uint32,
        int64,
        uint64,
        index,
        float32,
        float64,
    }
)
"""Dtypes with arithmetic on every processor; other dtypes are only stored, and computed in a wider
one.
"""


@dataclass(frozen=True, slots=True)
class TensorCore:
    """A matrix unit of one thread: a WMMA multiplies an m x k tile `a` by a k x n tile `b` and adds
    an m x n accumulator.

    Attributes:
        dims: n, m and k. A unit with m = 1 is a dot product of `group` elements in each lane of an
            ordinary vector.
        group: the number of neighbors along k that are interleaved in b; it divides k.
        dtypes: the dtypes of a, b and the accumulator.
        cycles: the issue interval of independent WMMAs.
        tiles: the number of dedicated registers for accumulators and operands; 0 if the unit uses
            vector registers.

    Lanes enumerate a and the accumulator in row-major order. Lane `((j // group) * n + c) * group +
    j % group` of b is row j, column c."""

    dims: tuple[int, int, int]
    group: int
    dtypes: tuple[DType, DType, DType]
    cycles: float = 1.0
    tiles: int = 0

    def __str__(self) -> str:
        return "_".join(["WMMA", *map(str, self.dims), *(dtype.short for dtype in self.dtypes)])

    @property
    def operand_dtypes(self) -> tuple[DType, DType, DType]:
        """The vector dtypes of a, b and the accumulator."""
        n, m, k = self.dims
        a, b, accumulator = self.dtypes
        return a.vec(m * k), b.vec(k * n), accumulator.vec(m * n)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """Throughputs and latencies of one core, for cost models; rates are maxima per cycle.

    Attributes:
        clock: cycles per second.
        issued: instructions of any kind.
        vector, loads, stores: instructions on a whole vector register.
        add_latency: cycles from the operands of a floating-point addition to its result.
        window: size of the out-of-order window, in instructions.
        l2_bytes, l3_bytes: bandwidth of the second and third level of the cache.
        scattered: slowdown of bytes that are read from a different page each.
        loop_entry: cycles to enter and leave a loop.
        launch_seconds, fork_seconds: time to start a kernel, and to start its other threads.
    """

    clock: float = 3e9
    issued: float = 4.0
    vector: float = 2.0
    loads: float = 2.0
    stores: float = 1.0
    add_latency: float = 4.0
    window: float = 300.0
    l2_bytes: float = 48.0
    l3_bytes: float = 24.0
    scattered: float = 3.0
    loop_entry: float = 6.0
    launch_seconds: float = 3e-7
    fork_seconds: float = 2e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The features and resources of a machine for kernels; rates and sizes are per core.

    A kernel is split into up to `cores * parts_per_core` parts: with several per core, a core that
    is slow, or that other programs use, computes fewer of them. `l3_bytes` is shared by all cores,
    0 if there is no such cache. `native_ops` and `native_dtypes` are the ones that the renderer
    accepts: all others are rewritten to them. The exception are `shared_ops`, a subset of SIN, COS
    and TAN: they stay for rare arguments, inside of loops of at most one iteration, and for all
    arguments in kernels that use them often; the renderer calls functions that it defines with
    `define_shared` of svod-schedule. If it `contracts`, the product in a sum may stay unrounded, as
    in an fma. `max_global` and `max_local_dims` limit each dimension of a grid and of a workgroup
    (empty: no limits), `max_local` the whole workgroup. `lockstep` work-items of a workgroup run in
    lockstep, 1 if a core runs them sequentially. `peak_flops` (f32 operations per second),
    `memory_bandwidth` (bytes per second) and `rates` are estimates for cost models.

    Raises:
        TargetError: if an op is both in `native_ops` and in `shared_ops`.
    """

    name: str
    vector_bits: int
    vector_registers: int
    cores: int
    parts_per_core: int = 1
    l1_bytes: int
    l2_bytes: int
    l3_bytes: int
    cache_line_bytes: int = 64
    has_masked_access: bool = False
    has_gather: bool = False
    has_fma: bool = False
    contracts: bool = True
    has_local: bool = False
    has_shared: bool = False
    shared_bytes: int = 0
    max_global: tuple[int, ...] = ()
    max_local: int = 0
    max_local_dims: tuple[int, ...] = ()
    lockstep: int = 1
    max_upcast: int = 256
    max_buffers: int | None = None
    native_ops: frozenset[Op] = COMMON_OPS
    native_dtypes: frozenset[DType] = COMMON_DTYPES
    shared_ops: frozenset[Op] = frozenset()
    tensor_cores: tuple[TensorCore, ...] = ()
    peak_flops: float = 3e10
    memory_bandwidth: float = 1e10
    rates: Rates = Rates()

    def __post_init__(self) -> None:
        # A renderer calls the function of rare arguments for every node of a shared op, so an op
        # that stays for all arguments would be wrong for common arguments.
        overlap = self.native_ops & self.shared_ops
        if overlap:
            names = ", ".join(sorted(op.name for op in overlap))
            problem = f"has {names} in native_ops and in shared_ops"
            hint = "list an op that the machine computes for all arguments in native_ops only"
            raise TargetError(target=self.name, problem=problem, hint=hint)

    @property
    def max_parts(self) -> int:
        """Maximum number of parts of a kernel that threads share; 1 on a single core."""
        return self.cores * self.parts_per_core if self.cores > 1 else 1

    def lanes(self, dtype: DType) -> int:
        """Number of elements of `dtype` in a vector register, at least 1."""
        # At least 1: a register narrower than the dtype, and void, which has no size, count as one
        # lane.
        return max(1, self.vector_bits // (8 * dtype.itemsize)) if dtype.itemsize else 1

    @staticmethod
    def generic(*, cores: int = 4) -> Target:
        """A typical CPU with 256-bit vectors and no special features, for tests and unknown
        machines.
        """
        return Target(
            name="generic",
            vector_bits=256,
            vector_registers=16,
            cores=cores,
            l1_bytes=32 << 10,
            l2_bytes=512 << 10,
            l3_bytes=8 << 20,
        )
