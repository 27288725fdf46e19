"""`fori_loop` and `while_loop`: loops with a trip count and loops with a condition."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias, TypeVar

from svod_dtype import DType, int32, int64, promote_types
from svod_ir import OperandError, SInt, UOp
from svod_ir.loops import MAX_ITERATIONS
from svod_ir.sizes import normalize_size
from svod_ir.uop import to_node
from svod_tensor._function_name import name_function
from svod_tensor._trees import flatten
from svod_tensor._variable import Variable
from svod_tensor.loops.repeat import IterationResult, LoopSpec, check_condition, trace_loop
from svod_tensor.loops.scan import check_structure, read_interval
from svod_tensor.loops.values import read_tree
from svod_tensor.tensor import Tensor

__all__ = ["Bound", "fori_loop", "while_loop"]

V = TypeVar("V")

Bound: TypeAlias = "int | Variable | UOp | Tensor"


def fori_loop(
    lower: Bound,
    upper: Bound,
    body_fun: Callable[[Tensor, V], V],
    init_val: V,
    *,
    checkpoint_every: int | None = None,
) -> V:
    """Repeat `val = body_fun(i, val)` for `i` in `range(lower, upper)`.

    The loop is one node of the graph. `body_fun` is traced once, on tensors without values, as in
    `scan`. `i` is a tensor of shape (): int32 or int64 for bounds that are Python numbers, else of
    the dtype of the bounds. If it is provably within bounds of an axis, `x[i]` is a view, and
    `x[i] = y` writes in place.

    Args:
        lower: the first index: an integer, a variable, or a tensor of one integer.
        upper: the exclusive upper bound; there are no iterations unless it is above `lower`.
        body_fun: a function from the index and the value to the next value.
        init_val: the initial value: nested lists, tuples and dicts of tensors, arrays and numbers.
        checkpoint_every: the number of iterations between saved values, from which gradients
            recompute the iterations in between, as in `scan`.

    Returns:
        the value after the last iteration.

    Raises:
        OperandError: if a bound is not an integer.
        LoopArgumentError: if `checkpoint_every` is not a positive integer.
        CarriedValueError: if `body_fun` changes the structure, shapes, dtypes or devices of the
            value.
        TraceError: if `body_fun` reads values, or keeps a tensor.

    Example:
        >>> from svod_tensor import Tensor, fori_loop
        >>> fori_loop(0, 5, lambda i, x: x * 2 + i, Tensor([1, 0])).tolist()
        [58, 26]
    """
    first, last = _read_bound(lower, "lower"), _read_bound(upper, "upper")
    dtype, count = _choose_dtype(first, last), _subtract(last, first)
    every = (
        None if checkpoint_every is None else read_interval("fori_loop", checkpoint_every, count)
    )
    # With every carry saved, an iteration is its own chunk and needs no outer loop.
    if every is None or every == 1:
        return _repeat(
            body_fun, init_val, _Indices(first, dtype), count, is_recomputed=every is not None
        )
    assert isinstance(count, int)
    n_chunks, n_remaining = divmod(count, every)
    start = _add(first, dtype)

    def run_chunk(chunk: Tensor, value: V) -> V:
        return _repeat(
            body_fun, value, _Indices((chunk * every + Tensor.from_uop(start)).uop, dtype), every
        )

    value = _repeat(run_chunk, init_val, _Indices(0, dtype), n_chunks, is_recomputed=True)
    return _repeat(
        body_fun, value, _Indices(_add(first, dtype, n_chunks * every), dtype), n_remaining
    )


class _Indices(NamedTuple):
    """The loop indices: the first one, and their dtype."""

    first: SInt
    dtype: DType


def _add(first: SInt, dtype: DType, offset: int = 0) -> UOp:
    node = UOp.const(dtype, first) if isinstance(first, int) else first.cast(dtype)
    return node + offset if offset else node


def _repeat(
    body_fun: Callable[[Tensor, V], V],
    init_val: V,
    indices: _Indices,
    count: SInt,
    *,
    is_recomputed: bool = False,
) -> V:
    name, (first, dtype) = name_function(body_fun), indices
    tree = read_tree("fori_loop", "val", init_val)

    def run(values: list[Tensor], _slices: list[Tensor], counter: UOp) -> IterationResult:
        i = counter.cast(dtype)
        if first != 0:
            i = i + (UOp.const(dtype, first) if isinstance(first, int) else first.cast(dtype))
        result = body_fun(Tensor.from_uop(i), tree.structure.unflatten(values))  # pyright: ignore[reportArgumentType]
        leaves, structure = flatten(result)
        check_structure("fori_loop", "val", tree.structure, structure)
        return IterationResult(leaves)

    after, _ = trace_loop(
        LoopSpec("fori_loop", name, tree.leaves, count, run, is_recomputed=is_recomputed)
    )
    return tree.structure.unflatten(after)  # pyright: ignore[reportReturnType]


def while_loop(cond_fun: Callable[[V], Any], body_fun: Callable[[V], V], init_val: V) -> V:
    """Repeat `val = body_fun(val)` while `cond_fun(val)` is true.

    The loop is one node of the graph. Both functions are traced on tensors without values, as in
    `scan`; `cond_fun` is also called with `init_val`. The loop ends after 2**31 - 1 iterations.

    Args:
        cond_fun: a function from the value to a bool of shape ().
        body_fun: a function from the value to the next value.
        init_val: the initial value: nested lists, tuples and dicts of tensors, arrays and numbers.

    Returns:
        the first value for which the condition is false.

    Raises:
        CarriedValueError: if `body_fun` changes the structure, shapes, dtypes or devices of the
            value.
        TraceError: if a function reads values, or keeps a tensor, or the condition is not a bool of
            shape ().

    Example:
        >>> from svod_tensor import Tensor, while_loop
        >>> while_loop(lambda x: x.sum() < 100, lambda x: x * 2, Tensor([1, 3])).tolist()
        [32, 96]
    """
    name, condition = name_function(body_fun), name_function(cond_fun)
    tree = read_tree("while_loop", "val", init_val)

    def holds(values: list[Tensor]) -> UOp:
        value = cond_fun(tree.structure.unflatten(values))  # pyright: ignore[reportArgumentType]
        return check_condition("while_loop", condition, value)

    def run(values: list[Tensor], _slices: list[Tensor], _counter: UOp) -> IterationResult:
        leaves, structure = flatten(body_fun(tree.structure.unflatten(values)))  # pyright: ignore[reportArgumentType]
        check_structure("while_loop", "val", tree.structure, structure)
        return IterationResult(leaves, find_condition=holds)

    # A LOOP tests its condition after each iteration, so the first test decides the trip count:
    # none or the maximum.
    is_entered = holds([Tensor.from_uop(leaf.node) for leaf in tree.leaves])
    count = is_entered.where(UOp.const(int64, MAX_ITERATIONS), 0)
    after, _ = trace_loop(LoopSpec("while_loop", name, tree.leaves, count, run))
    return tree.structure.unflatten(after)  # pyright: ignore[reportReturnType]


def _read_bound(bound: object, name: str) -> SInt:
    if isinstance(bound, Variable):
        return bound.uop
    if isinstance(bound, UOp):
        return bound
    if isinstance(bound, Tensor):
        if bound.dtype.is_int and bound.shape == ():
            return bound.uop
        raise OperandError(
            operation="fori_loop",
            found=f"{name} of {bound.dtype} and shape {bound.shape}",
            expected="an integer of shape ()",
        )
    index = getattr(bound, "__index__", None)
    if index is None or isinstance(bound, bool):
        raise OperandError(
            operation="fori_loop",
            found=f"{name}={bound!r}",
            expected="an integer, a variable, or a tensor of one integer",
        )
    return int(index())


def _choose_dtype(first: SInt, last: SInt) -> DType:
    """The dtype of the indices: the dtype of tensor bounds, else int32 if it holds them, or int64."""
    computed = [b.dtype for b in (first, last) if isinstance(b, UOp) and b.dtype.kind != "index"]
    if computed:
        return promote_types(computed[0], computed[-1])
    ends = [b if isinstance(b, int) else int(b.vmin) for b in (first, last)]
    ends += [b if isinstance(b, int) else int(b.vmax) for b in (first, last)]
    return int32 if all(int32.min <= end <= int32.max for end in ends) else int64


def _subtract(last: SInt, first: SInt) -> SInt:
    """The trip count; a negative one means no iterations."""
    if isinstance(last, int) and isinstance(first, int):
        return max(last - first, 0)
    if all(isinstance(b, int) or b.dtype.kind == "index" for b in (first, last)):
        return normalize_size(to_node(last) - first)
    return _widen(last) - _widen(first)


def _widen(bound: SInt) -> UOp:
    # The difference of two int32 need not fit in int32.
    return UOp.const(int64, bound) if isinstance(bound, int) else bound.cast(int64)
