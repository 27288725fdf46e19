"""Whole matrices of derivatives: `jacobian` and `hessian`.

A derivative along one direction is a graph; the matrix repeats it for each unit vector in one loop,
so that the number of kernels does not grow with the number of rows."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, Literal

from svod_ir import UOp
from svod_ir.derivatives import make_cotangents, make_tangents
from svod_tensor._trees import Structure
from svod_tensor.cells.derivatives import differentiating
from svod_tensor.errors import DerivativeError
from svod_tensor.gradients.arguments import (
    Argnums,
    TracedArguments,
    check_argnums,
    read_tensors,
    trace_arguments,
)
from svod_tensor.gradients.functions import grad, split_aux
from svod_tensor.loops.scan import scan
from svod_tensor.tensor import Tensor

__all__ = ["hessian", "jacobian"]

Mode = Literal["reverse", "forward"]


def jacobian(
    f: Callable[..., Any], argnums: Argnums = 0, *, has_aux: bool = False, mode: Mode | None = None
) -> Callable[..., Any]:
    """The function that gives the derivatives of all elements of the results of `f` by all elements
    of its arguments.

    Args:
        f: from nested tensors to nested tensors of floats, or with `has_aux` to a pair of those and
            anything else.
        argnums: by which of the positional arguments: a number, or several for a tuple.
        has_aux: whether the result is a pair of the derivatives and what `f` gave besides.
        mode: "reverse" computes one element of the results after the other, "forward" one of the
            arguments. By default it is the one that has less to do.

    Returns:
        a function with the arguments of `f`. What it gives is nested as the results are, and in
        each of these as the arguments are; of a result and an argument it is a tensor of the shape
        of the one, followed by that of the other.

    Raises (when called):
        DerivativeError: if something is no float, or has a size that is not known.
        NotDifferentiableError: if a result depends on an argument through what has no derivative.

    Example:
        >>> from svod_tensor import Tensor, jacobian
        >>> jacobian(lambda x: x * x[0])(Tensor([2.0, 3.0])).tolist()
        [[4.0, 0.0], [3.0, 2.0]]
    """
    if mode not in (None, "reverse", "forward"):
        raise DerivativeError(
            operation="jacobian",
            problem=f"there is no mode {mode!r}",
            hint='say mode="reverse" or "forward"',
        )

    check_argnums("jacobian", f, argnums)

    @functools.wraps(f)
    def differentiated(*args: Any, **kwargs: Any) -> Any:
        traced = trace_arguments("jacobian", args, argnums)
        with differentiating():
            result = f(*traced.args, **kwargs)
            traced.check_kept("jacobian")
            value, *aux = split_aux("jacobian", result, has_aux)
            outputs, structure = read_tensors("jacobian", value, "result")
            n_rows, n_columns = _count(outputs), _count(traced.tensors)
            is_reverse = n_rows <= n_columns if mode is None else mode == "reverse"
            make_rows = _make_rows if is_reverse else _make_columns
            rows = make_rows(traced, outputs)
        derivatives = _nest(rows, traced.structure, structure)
        return (derivatives, *aux) if has_aux else derivatives

    return differentiated


def hessian(
    f: Callable[..., Any], argnums: Argnums = 0, *, has_aux: bool = False
) -> Callable[..., Any]:
    """The function that gives the second derivatives of `f`, a function of tensors to one number.

    Args:
        f: gives a 0-d tensor of floats, or with `has_aux` a pair of it and anything else.
        argnums: by which of the positional arguments: a number, or several for a tuple.
        has_aux: whether the result is a pair of the derivatives and what `f` gave besides.

    Returns:
        a function with the arguments of `f`. What it gives is nested as the arguments are, twice;
        of two arguments it is a tensor of the shape of the one, followed by that of the other.

    Raises (when called):
        DerivativeError: if an argument is no float, or `f` gives something else.
        NotDifferentiableError: if the result depends on an argument through what has no derivative.

    Example:
        >>> from svod_tensor import Tensor, hessian
        >>> hessian(lambda x: x[0] * x[1] * x[1])(Tensor([2.0, 3.0])).tolist()
        [[0.0, 6.0], [6.0, 4.0]]
    """
    return jacobian(grad(f, argnums, has_aux=has_aux), argnums, has_aux=has_aux, mode="forward")


def _count(tensors: Sequence[Tensor]) -> int:
    return sum(_get_size(tensor) for tensor in tensors)


def _get_size(tensor: Tensor) -> int:
    sizes = [size for size in tensor.shape if isinstance(size, int)]
    if len(sizes) < len(tensor.shape):
        raise DerivativeError(
            operation="jacobian",
            problem="a shape depends on a variable, and with it the number of rows",
            hint="use vjp or jvp, which give one row or column",
        )
    return math.prod(sizes)


def _nest(rows: Sequence[Sequence[Tensor]], arguments: Structure, results: Structure) -> object:
    return results.unflatten([arguments.unflatten(row) for row in rows])


def _make_rows(traced: TracedArguments, outputs: Sequence[Tensor]) -> list[list[Tensor]]:
    """For each result the derivatives by each argument, a row of which is the gradient of one
    element.
    """

    def make(output: Tensor) -> list[Tensor]:
        def pull(unit: UOp) -> Sequence[UOp | None]:
            return make_cotangents([output.uop], [unit], traced.nodes)

        stacked = _stack(output, traced.tensors, pull)
        return [
            part.reshape(*output.shape, *source.shape)
            for part, source in zip(stacked, traced.tensors, strict=True)
        ]

    return [make(output) for output in outputs]


def _make_columns(traced: TracedArguments, outputs: Sequence[Tensor]) -> list[list[Tensor]]:
    """As `_make_rows`, a column after the other: the derivative along one element of an
    argument.
    """
    columns: list[list[Tensor]] = []
    nodes = [output.uop for output in outputs]
    for source, node in zip(traced.tensors, traced.nodes, strict=True):

        def push(unit: UOp, node: UOp = node) -> Sequence[UOp | None]:
            return make_tangents(nodes, [node], [unit])

        columns.append(
            [
                part.moveaxis(0, -1).reshape(*output.shape, *source.shape)
                for part, output in zip(_stack(source, outputs, push), outputs, strict=True)
            ]
        )
    return [list(row) for row in zip(*columns, strict=True)]


def _stack(
    along: Tensor, likes: Sequence[Tensor], derive: Callable[[UOp], Sequence[UOp | None]]
) -> list[Tensor]:
    """What `derive` makes of the unit vectors of `along`, one below the other; it is called
    once.
    """
    size = _get_size(along)
    places = Tensor.arange(size).reshape(along.shape)

    def step(carry: None, number: Tensor) -> tuple[None, list[Tensor]]:
        unit = (places == number).cast(along.dtype)
        parts = derive(unit.uop)
        return carry, [
            like.zeros_like() if part is None else like.from_uop(part)
            for part, like in zip(parts, likes, strict=True)
        ]

    _, stacked = scan(step, None, Tensor.arange(size))
    return stacked
