"""`fori_loop` and `while_loop`: repeating a number of times, and as long as a condition holds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias, TypeVar

from svod_dtype import DType, int32, int64, promote_types
from svod_ir import OperandError, SInt, UOp
from svod_ir.loops import MAX_ITERATIONS
from svod_ir.sizes import normalize_size
from svod_ir.uop import to_node
from svod_tensor._trees import flatten
from svod_tensor._variable import Variable
from svod_tensor.loops.repeat import Repeated, RepeatOutcome, check_condition, make_repeated
from svod_tensor.loops.scan import check_structure, read_interval
from svod_tensor.loops.values import name_function, read_given
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
    """Call `val = body_fun(i, val)` for each `i` from `lower` up to `upper` - 1, from `init_val`
    on; one node of the graph.

    The function runs once, on tensors without values, as that of `scan` does. `i` is a tensor of
    shape (): int32 where the bounds are numbers that fit, of their dtype where they are tensors.
    Where it is known to be a position of an axis, `x[i]` is a view, and `x[i] = y` writes in place.

    Args:
        lower: the first number: an integer, a variable, or a tensor of one integer.
        upper: the number after the last one; there is no iteration where it is not above `lower`.
        body_fun: from the number and the value to the next value.
        init_val: nested lists, tuples and dicts of tensors, arrays and numbers.
        checkpoint_every: keep for gradients the value after each so many iterations, and compute
            the others again from it, as `scan` does.

    Returns:
        the value after the last iteration.

    Raises:
        OperandError: if a bound is no integer.
        LoopArgumentError: if `checkpoint_every` is no positive number.
        CarriedValueError: if `body_fun` gives a value of other structure, shapes, dtypes or devices
            than it gets.
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
    if every is None or every == 1:
        return _repeat(
            body_fun, init_val, _Numbers(first, dtype), count, is_recomputed=every is not None
        )
    assert isinstance(count, int)
    n_parts, n_left = divmod(count, every)
    start = _add(first, dtype)

    def run_part(number: Tensor, value: V) -> V:
        return _repeat(
            body_fun, value, _Numbers((number * every + Tensor.from_uop(start)).uop, dtype), every
        )

    value = _repeat(run_part, init_val, _Numbers(0, dtype), n_parts, is_recomputed=True)
    return _repeat(body_fun, value, _Numbers(_add(first, dtype, n_parts * every), dtype), n_left)


class _Numbers(NamedTuple):
    """The numbers of iterations: the first one, and their dtype."""

    first: SInt
    dtype: DType


def _add(first: SInt, dtype: DType, number: int = 0) -> UOp:
    node = UOp.const(dtype, first) if isinstance(first, int) else first.cast(dtype)
    return node + number if number else node


def _repeat(
    body_fun: Callable[[Tensor, V], V],
    init_val: V,
    numbers: _Numbers,
    count: SInt,
    *,
    is_recomputed: bool = False,
) -> V:
    name, (first, dtype) = name_function(body_fun), numbers
    given = read_given("fori_loop", "val", init_val)

    def run(values: list[Tensor], _slices: list[Tensor], counter: UOp) -> RepeatOutcome:
        number = counter.cast(dtype)
        if first != 0:
            number = number + (
                UOp.const(dtype, first) if isinstance(first, int) else first.cast(dtype)
            )
        result = body_fun(Tensor.from_uop(number), given.structure.unflatten(values))  # pyright: ignore[reportArgumentType]
        leaves, structure = flatten(result)
        check_structure("fori_loop", "val", given.structure, structure)
        return RepeatOutcome(leaves)

    after, _ = make_repeated(
        Repeated("fori_loop", name, given.leaves, count, run, is_recomputed=is_recomputed)
    )
    return given.structure.unflatten(after)  # pyright: ignore[reportReturnType]


def while_loop(cond_fun: Callable[[V], Any], body_fun: Callable[[V], V], init_val: V) -> V:
    """Call `val = body_fun(val)` as long as `cond_fun(val)` is true, from `init_val` on; one node
    of the graph.

    Both functions run on tensors without values, as that of `scan` does; `cond_fun` runs once more,
    on `init_val`. The loop ends after 2**31 - 1 iterations.

    Args:
        cond_fun: from the value to a bool of shape ().
        body_fun: from the value to the next one.
        init_val: nested lists, tuples and dicts of tensors, arrays and numbers.

    Returns:
        the first value that the condition does not hold for.

    Raises:
        CarriedValueError: if `body_fun` gives a value of other structure, shapes, dtypes or devices
            than it gets.
        TraceError: if a function reads values, or keeps a tensor, or the condition is no bool of
            shape ().

    Example:
        >>> from svod_tensor import Tensor, while_loop
        >>> while_loop(lambda x: x.sum() < 100, lambda x: x * 2, Tensor([1, 3])).tolist()
        [32, 96]
    """
    name, condition = name_function(body_fun), name_function(cond_fun)
    given = read_given("while_loop", "val", init_val)

    def holds(values: list[Tensor]) -> UOp:
        value = cond_fun(given.structure.unflatten(values))  # pyright: ignore[reportArgumentType]
        return check_condition("while_loop", condition, value)

    def run(values: list[Tensor], _slices: list[Tensor], _counter: UOp) -> RepeatOutcome:
        leaves, structure = flatten(body_fun(given.structure.unflatten(values)))  # pyright: ignore[reportArgumentType]
        check_structure("while_loop", "val", given.structure, structure)
        return RepeatOutcome(leaves, find_go_on=holds)

    is_begun = holds([Tensor.from_uop(leaf.node) for leaf in given.leaves])
    count = is_begun.where(UOp.const(int64, MAX_ITERATIONS), 0)
    after, _ = make_repeated(Repeated("while_loop", name, given.leaves, count, run))
    return given.structure.unflatten(after)  # pyright: ignore[reportReturnType]


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
            expected="an integer, a variable, or a tensor of one",
        )
    return int(index())


def _choose_dtype(first: SInt, last: SInt) -> DType:
    """The dtype of the numbers: that of computed bounds, else the smallest of int32 and int64 that
    holds them.
    """
    computed = [b.dtype for b in (first, last) if isinstance(b, UOp) and b.dtype.kind != "index"]
    if computed:
        return promote_types(computed[0], computed[-1])
    ends = [b if isinstance(b, int) else int(b.vmin) for b in (first, last)]
    ends += [b if isinstance(b, int) else int(b.vmax) for b in (first, last)]
    return int32 if all(int32.min <= end <= int32.max for end in ends) else int64


def _subtract(last: SInt, first: SInt) -> SInt:
    """The number of iterations: below 0 stands for none."""
    if isinstance(last, int) and isinstance(first, int):
        return max(last - first, 0)
    if all(isinstance(b, int) or b.dtype.kind == "index" for b in (first, last)):
        return normalize_size(to_node(last) - first)
    return _widen(last) - _widen(first)


def _widen(bound: SInt) -> UOp:
    return UOp.const(int64, bound) if isinstance(bound, int) else bound.cast(int64)
