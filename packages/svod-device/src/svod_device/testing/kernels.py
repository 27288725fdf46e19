"""Conformance kernels: hand-written linear programs that every backend must run correctly.

They have the form of `svod_schedule.linearize`'s output for the target: only ops and dtypes that
the target supports, `core_id` on targets without workgroups, and grid indices on other targets.
`svod_ir.evaluate` computes the expected results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from svod_device._build_kernel import order_nodes
from svod_dtype import (
    ALL_DTYPES,
    DType,
    bool_,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint16,
    void,
)
from svod_ir import AxisType, KernelInfo, Op, Target, UOp
from svod_ir.ops import BINARY, FUNCTIONS, UNARY, count_operands, takes
from svod_ir.testing import nodes
from svod_ir.testing.nodes import param, reduce_over, special

__all__ = ["KernelCase", "get_case", "iter_kernels"]

_SIZE: Final = 13
"""Number of elements of most buffers: prime, so that no vector or workgroup size divides it."""

_MANY: Final = 20
"""Number of buffers of a kernel if the target has no limit."""


class KernelCase(NamedTuple):
    """Kernel with its SINK, its nodes in order, and variable values for its test launches."""

    name: str
    sink: UOp
    linear: tuple[UOp, ...]
    values: tuple[dict[str, int], ...] = ({},)


def iter_kernels(target: Target) -> Iterator[KernelCase]:
    """Yield all kernels that a device with this target must run."""
    computed = [dtype for dtype in ALL_DTYPES if dtype in target.native_dtypes]
    max_buffers = target.max_buffers or _MANY
    for dtype in ALL_DTYPES:
        yield _copy(dtype)
        yield _constants(dtype)
        yield _select(dtype)
    for dtype in computed:
        yield from _iter_arithmetic(dtype, target.native_ops, max_buffers)
        yield from _iter_casts(dtype, computed, max_buffers)
        if target.lanes(dtype) > 1:
            yield _vectors(dtype, target.lanes(dtype))
    for op in sorted(_FUNCTIONS & target.native_ops, key=lambda op: op.name):
        yield _function(op)
    yield from _iter_bitcasts(computed)
    yield from (
        _variables(),
        _symbolic_loop(),
        _accumulate(),
        _gates(),
        _indirect(),
        _nested_loops(),
    )
    yield from (_parallel(target), _many_buffers(target))
    if target.has_local:
        yield _items(target)
        yield _grid(target)
    if target.has_local and target.has_shared:
        yield _workgroup(min(target.max_local, *target.max_local_dims[:1], 16))


def get_case(target: Target, name: str) -> KernelCase:
    """Return the kernel of this name."""
    return next(case for case in iter_kernels(target) if case.name == name)


def _param(slot: int, dtype: DType, size: int = _SIZE) -> UOp:
    return param(slot, size, dtype)


def _const(value: int) -> UOp:
    return UOp.const(int32, value)


def _loop(size: int | UOp = _SIZE, index: int = 0, kind: AxisType = AxisType.LOOP) -> UOp:
    return UOp(Op.RANGE, int32, (_const(size) if isinstance(size, int) else size,), (index, kind))


def _case(
    name: str, *effects: UOp, values: Sequence[dict[str, int]] = ({},), order: Sequence[UOp] = ()
) -> KernelCase:
    """Build a case whose SINK has `effects`; the nodes of `order` keep their relative order."""
    sink = UOp.sink(*effects, arg=KernelInfo(name, ()))
    return KernelCase(name, sink, order_nodes(sink, order), tuple(values))


def _store_all(name: str, i: UOp, results: Sequence[UOp]) -> KernelCase:
    """Build a loop over `i` that stores each result to element `i` of a separate buffer."""
    stores = [_param(slot, r.dtype).index(i).store(r) for slot, r in enumerate(results)]
    return _case(name, nodes.group(*stores).end(i))


def _inputs(n_results: int, dtype: DType, i: UOp, count: int) -> list[UOp]:
    return [_param(n_results + k, dtype).index(i).load() for k in range(count)]


def _copy(dtype: DType) -> KernelCase:
    i = _loop()
    return _store_all(f"copy_{dtype}", i, _inputs(1, dtype, i, 1))


def _constants(dtype: DType) -> KernelCase:
    values: tuple[int | float, ...] = (0, 1, dtype.min, dtype.max)
    if dtype.is_float:
        # A dtype without infinities or NaN rounds them to values that it has.
        values = (
            0.0,
            -0.0,
            1.0,
            0.1,
            -3.75,
            dtype.finfo_max,
            float("inf"),
            float("-inf"),
            float("nan"),
        )
    out = _param(0, dtype, len(values))
    stores = [out.index(_const(k)).store(UOp.const(dtype, value)) for k, value in enumerate(values)]
    return _case(f"constants_{dtype}", *stores)


def _select(dtype: DType) -> KernelCase:
    i = _loop()
    condition = _param(3, bool_).index(i).load()
    return _store_all(f"select_{dtype}", i, [condition.where(*_inputs(1, dtype, i, 2))])


def _iter_elementwise(
    name: str, dtype: DType, n_inputs: int, makers: Sequence[Callable[..., UOp]], max_buffers: int
) -> Iterator[KernelCase]:
    """Yield kernels that compute results from the same inputs: several if buffers are limited."""
    # Each result needs a buffer.
    size = max(max_buffers - n_inputs, 1)
    for start in range(0, len(makers), size):
        chunk = makers[start : start + size]
        i = _loop()
        inputs = _inputs(len(chunk), dtype, i, n_inputs)
        yield _store_all(
            name if not start else f"{name}_{start // size}", i, [make(*inputs) for make in chunk]
        )


def _iter_arithmetic(
    dtype: DType, native_ops: frozenset[Op], max_buffers: int
) -> Iterator[KernelCase]:
    ops = (op for op in native_ops & (UNARY | BINARY) - _FUNCTIONS if takes(op, dtype))
    makers = [_apply(op) for op in sorted(ops, key=lambda op: op.name)]
    if dtype.is_int:
        # Division by a constant takes another path in compilers: a multiplication and a shift.
        makers.append(lambda x, _: x.alu(Op.CDIV, x.const(dtype, 3)))
    yield from _iter_elementwise(f"arithmetic_{dtype}", dtype, 2, makers, max_buffers)


def _apply(op: Op) -> Callable[[UOp, UOp], UOp]:
    """Return a function that applies `op` to two inputs, with positive divisors and valid shifts."""
    if op in UNARY:
        return lambda x, _: x.alu(op)
    # Division by zero, and shifts by more than the width, are undefined in C.
    if op in (Op.CDIV, Op.CMOD, Op.IDIV, Op.MOD):
        return lambda x, y: x.alu(op, y.maximum(1))
    return (lambda x, _: x.alu(op, 3)) if op in (Op.SHL, Op.SHR) else (lambda x, y: x.alu(op, y))


def _iter_casts(dtype: DType, targets: Sequence[DType], max_buffers: int) -> Iterator[KernelCase]:
    def cast(target: DType) -> Callable[[UOp], UOp]:
        return lambda x: UOp(Op.CAST, target, (x,))

    makers = [cast(target) for target in targets if target is not dtype]
    yield from _iter_elementwise(f"casts_{dtype}", dtype, 1, makers, max_buffers)


def _iter_bitcasts(computed: Sequence[DType]) -> Iterator[KernelCase]:
    pairs = ((float32, int32), (float16, uint16), (float16, int16), (float64, int64))
    for floats, integers in pairs:
        if floats in computed and integers in computed:
            i = _loop()
            x, n = (
                _param(2 + k, dtype).index(i).load() for k, dtype in enumerate((floats, integers))
            )
            results = [UOp(Op.BITCAST, integers, (x,)), UOp(Op.BITCAST, floats, (n,))]
            yield _store_all(f"bitcasts_{floats}_{integers}", i, results)


# NEG and ABS run in the arithmetic tests, which include integers.
_FUNCTIONS: Final = frozenset(
    op for op in UNARY | FUNCTIONS | {Op.MULACC} if takes(op, float32)
) - {Op.NEG, Op.ABS}
"""Ops that are tested on floats only."""


def _function(op: Op) -> KernelCase:
    i = _loop()
    operands = _inputs(1, float32, i, count_operands(op))
    return _store_all(f"function_{op.name.lower()}", i, [UOp(op, float32, tuple(operands))])


def _vectors(dtype: DType, lanes: int) -> KernelCase:
    """Build a kernel of vectors at unaligned offsets, since a view may start at any element."""
    size, vector = 2 * lanes + 1, dtype.vec(lanes)
    x = _param(2, dtype, size).index(_const(1), lanes=lanes).load()
    y = _param(3, dtype, size).index(_const(lanes + 1), lanes=lanes).load()
    last = UOp(Op.GEP, dtype, (x,), (lanes - 1,))
    spread = UOp(Op.BROADCAST, vector, (last,))
    swapped = UOp(Op.GEP, vector, (y,), tuple(reversed(range(lanes))))
    joined = UOp(Op.VECTORIZE, dtype.vec(2), (last, UOp(Op.GEP, dtype, (y,), (0,))))
    total = reduce_over(x, op=Op.MAX)
    out = _param(0, dtype, size)
    stores = [
        out.index(_const(1), lanes=lanes).store(x.alu(Op.ADD, y).alu(Op.MAX, spread)),
        _param(1, dtype, lanes + 3).index(_const(1), lanes=lanes).store(swapped),
        _param(4, dtype, 2).index(_const(0), lanes=2).store(joined),
        _param(5, dtype, 1).index(_const(0)).store(total),
    ]
    return _case(f"vectors_{dtype}", *stores)


def _variables() -> KernelCase:
    """Build a kernel of two variables of different widths, with negative and large values."""
    scale, shift = (
        UOp.variable("scale", -(1 << 31), (1 << 31) - 1, int32),
        UOp.variable("shift", -(1 << 40), 1 << 40, int64),
    )
    i = _loop()
    x = _param(1, int64).index(i).load()
    store = _param(0, int64).index(i).store(x * scale.cast(int64) + shift)
    values = (
        {"scale": 3, "shift": -5},
        {"scale": -7, "shift": 1 << 40},
        {"scale": (1 << 31) - 1, "shift": -(1 << 40)},
    )
    return _case("variables", store.end(i), values=values)


def _symbolic_loop() -> KernelCase:
    count = UOp.variable("count", 0, _SIZE, int32)
    i = _loop(count)
    store = _param(0, int32).index(i).store(_param(1, int32).index(i).load() + count)
    return _case(
        "symbolic_loop", store.end(i), values=({"count": 0}, {"count": 1}, {"count": _SIZE})
    )


def _accumulate() -> KernelCase:
    """Build a kernel of row sums, accumulated in a register."""
    row, column = _loop(3, 0), _loop(_SIZE, 1, AxisType.REDUCE)
    register, zero = nodes.register(0, 1), _const(0)
    start = register.after(row).index(zero).store(UOp.const(float32, 0.0))
    inside = register.after(start, column).index(zero)
    update = inside.store(
        inside.load() + _param(1, float32, 3 * _SIZE).index(row * _SIZE + column).load()
    )
    done = update.end(column)
    result = _param(0, float32, 3).index(row).store(register.after(done).index(zero).load())
    return _case("accumulate", result.end(row), order=(row, start, done))


def _gates() -> KernelCase:
    """Build a kernel of gated loads and stores, which are out of bounds where the gate is false."""
    i = _loop(2 * _SIZE)
    shifted = i - 5
    inside = shifted.alu(Op.LE, _const(_SIZE - 1)) & _const(0).alu(Op.LE, shifted)
    x = _param(2, float32).index(shifted, gate=inside).load(UOp.const(float32, -1.5))
    stores = [
        _param(0, float32, 2 * _SIZE).index(i).store(x),
        _param(1, float32).index(shifted, gate=inside).store(x),
    ]
    return _case("gates", nodes.group(*stores).end(i))


def _indirect() -> KernelCase:
    """Build a gather: indices are loaded from memory and clamped."""
    i = _loop()
    index = _param(2, int8).index(i).load().cast(int32).maximum(0).minimum(_SIZE - 1)
    return _case(
        "indirect", _param(0, float32).index(i).store(_param(1, float32).index(index).load()).end(i)
    )


def _nested_loops() -> KernelCase:
    rows, columns = 3, 5
    row, column = _loop(rows, 0), _loop(columns, 1)
    x = _param(1, int32, rows * columns).index(row * columns + column).load()
    store = _param(0, int32, rows * columns).index(column * rows + row).store(x)
    return _case("nested_loops", store.end(column).end(row), order=(row,))


def _parallel_index(target: Target, size: int) -> UOp:
    """Return the index, 0 to `size` - 1, of a workgroup or CPU thread."""
    if target.has_local:
        return special("gidx0", _const(size), int32)
    return UOp.variable("core_id", 0, size - 1, int32)


def _parallel(target: Target) -> KernelCase:
    outer = _parallel_index(target, 7)
    inner = _loop(3)
    index = outer * 3 + inner
    value = _param(1, int32, 21).index(index).load() + outer
    store = _param(0, int32, 21).index(index).store(value)
    return _case("parallel", store.end(inner))


def _many_buffers(target: Target) -> KernelCase:
    """Build a kernel with the maximum number of buffers, up to `_MANY`, in slots with gaps."""
    count = min(target.max_buffers or _MANY, _MANY)
    i = _loop()
    total = _param(3, int32).index(i).load()
    for k in range(2, count):
        # Gaps, since a slot is not the position of the argument.
        total = total + _param(1 + 2 * k, int32).index(i).load()
    return _case("many_buffers", _param(0, int32).index(i).store(total).end(i))


def _specials(prefix: str, sizes: Sequence[int]) -> list[UOp]:
    return [special(f"{prefix}{axis}", _const(n), int32) for axis, n in enumerate(sizes)]


def _fit(sizes: Sequence[int], limits: Sequence[int]) -> list[int]:
    """Clamp `sizes` to the limit of each axis. Empty limits allow any size."""
    return [min(pair) for pair in zip(sizes, limits or sizes, strict=False)] + [1] * (
        len(sizes) - len(limits or sizes)
    )


def _items(target: Target) -> KernelCase:
    """Build a kernel with a grid of work-items on three axes, without workgroups: the device
    chooses their size.
    """
    sizes = _fit((5, 3, 2), target.max_global)
    x, y, z = _specials("idx", sizes)
    count = sizes[0] * sizes[1] * sizes[2]
    index = (z * sizes[1] + y) * sizes[0] + x
    value = _param(1, int32, count).index(index).load() + x * 100 + y * 10 + z
    return _case("items", _param(0, int32, count).index(index).store(value))


def _grid(target: Target) -> KernelCase:
    """Build a kernel with a grid of workgroups and of their work-items, on three axes each."""
    sizes = _fit((2, 3, 2), target.max_global)
    local = _fit((4, 2, 1), target.max_local_dims)
    # A target limits the items of a workgroup in total, besides each axis.
    while local[0] * local[1] > max(target.max_local, 1):
        local = [max(local[0] // 2, 1), 1, 1] if local[1] == 1 else [local[0], 1, 1]
    groups, work_items = _specials("gidx", sizes), _specials("lidx", local)
    n_work_items = local[0] * local[1]
    count = sizes[0] * sizes[1] * sizes[2] * n_work_items
    index = ((groups[2] * sizes[1] + groups[1]) * sizes[0] + groups[0]) * n_work_items
    index = index + work_items[1] * local[0] + work_items[0] + work_items[2]
    value = _param(1, int32, count).index(index).load() + groups[1] * 10 + work_items[0]
    return _case("grid", _param(0, int32, count).index(index).store(value))


def _workgroup(work_items: int) -> KernelCase:
    """Build a kernel whose work-items exchange values through shared memory and a barrier."""
    group = special("gidx0", _const(3), int32)
    work_item = special("lidx0", _const(work_items), int32)
    shared = nodes.local(0, work_items)
    index = group * work_items + work_item
    write = shared.index(work_item).store(_param(1, float32, 3 * work_items).index(index).load())
    barrier = UOp(Op.BARRIER, void, (write,))
    # Each work-item reads the value of another one, in reversed order.
    read = shared.after(barrier).index(_const(work_items - 1) - work_item).load()
    return _case(
        "workgroup", _param(0, float32, 3 * work_items).index(index).store(read), order=(barrier,)
    )
