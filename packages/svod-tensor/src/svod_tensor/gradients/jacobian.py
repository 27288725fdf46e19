"""`jacobian` and `hessian`.

The derivative along one direction is a graph. A loop over unit vectors repeats it, so that the number
of kernels does not grow with the number of rows."""

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
    """The function that computes the Jacobian of `f`.

    Args:
        f: a function from nested tensors to nested tensors of floats, or with `has_aux` to a pair
            of these and auxiliary data.
        argnums: the positional arguments to differentiate by: an index, or several for a tuple.
        has_aux: whether `f` returns auxiliary data, so that the result is a pair of the Jacobian
            and this data.
        mode: "reverse" iterates over the elements of the results, "forward" over the elements of
            the arguments. By default the mode with fewer iterations.

    Returns:
        a function with the arguments of `f`. The Jacobian is nested as the results are, and inside
        as the arguments are. For each result and argument it is a tensor of the shape of the
        result followed by the shape of the argument.

    Raises (when called):
        DerivativeError: if a tensor is not of floats, or has a symbolic size.
        NotDifferentiableError: if a result depends on an argument through an operation without
            derivative.

    Example:
        >>> from svod_tensor import Tensor, jacobian
        >>> jacobian(lambda x: x * x[0])(Tensor([2.0, 3.0])).tolist()
        [[4.0, 0.0], [3.0, 2.0]]
    """
    if mode not in (None, "reverse", "forward"):
        raise DerivativeError(
            operation="jacobian",
            problem=f"unknown mode {mode!r}",
            hint='use mode="reverse" or "forward"',
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
            # Reverse mode computes a row in each iteration, forward mode a column.
            is_reverse = n_rows <= n_columns if mode is None else mode == "reverse"
            make_rows = _make_rows if is_reverse else _make_columns
            rows = make_rows(traced, outputs)
        derivatives = _nest(rows, traced.structure, structure)
        return (derivatives, *aux) if has_aux else derivatives

    return differentiated


def hessian(
    f: Callable[..., Any], argnums: Argnums = 0, *, has_aux: bool = False
) -> Callable[..., Any]:
    """The function that computes the Hessian of `f`, a scalar function of tensors.

    Args:
        f: a function that returns a 0-d tensor of floats, or with `has_aux` a pair of it and
            auxiliary data.
        argnums: the positional arguments to differentiate by: an index, or several for a tuple.
        has_aux: whether `f` returns auxiliary data, so that the result is a pair of the Hessian and
            this data.

    Returns:
        a function with the arguments of `f`. The Hessian is nested twice as the arguments are. For
        two arguments it is a tensor of the shape of the first followed by the shape of the second.

    Raises (when called):
        DerivativeError: if an argument is not of floats, or `f` does not return a scalar.
        NotDifferentiableError: if the result depends on an argument through an operation without
            derivative.

    Example:
        >>> from svod_tensor import Tensor, hessian
        >>> hessian(lambda x: x[0] * x[1] * x[1])(Tensor([2.0, 3.0])).tolist()
        [[0.0, 6.0], [6.0, 4.0]]
    """
    # Forward over reverse, as in `jax.hessian`: reverse over reverse would save the values of two
    # passes.
    return jacobian(grad(f, argnums, has_aux=has_aux), argnums, has_aux=has_aux, mode="forward")


def _count(tensors: Sequence[Tensor]) -> int:
    return sum(_get_size(tensor) for tensor in tensors)


def _get_size(tensor: Tensor) -> int:
    sizes = [size for size in tensor.shape if isinstance(size, int)]
    if len(sizes) < len(tensor.shape):
        raise DerivativeError(
            operation="jacobian",
            problem="a shape depends on a variable, and with it the number of rows",
            hint="use vjp or jvp, which compute one row or column",
        )
    return math.prod(sizes)


def _nest(rows: Sequence[Sequence[Tensor]], arguments: Structure, results: Structure) -> object:
    return results.unflatten([arguments.unflatten(row) for row in rows])


def _make_rows(traced: TracedArguments, outputs: Sequence[Tensor]) -> list[list[Tensor]]:
    """The derivatives of each result by each argument, computed in reverse mode: a row is the gradient
    of one element of a result.
    """

    def make(output: Tensor) -> list[Tensor]:
        def pull(unit: UOp) -> Sequence[UOp | None]:
            return make_cotangents([output.uop], [unit], traced.nodes)

        stacked = _stack(output, traced.tensors, pull)
        return [
            rows.reshape(*output.shape, *source.shape)
            for rows, source in zip(stacked, traced.tensors, strict=True)
        ]

    return [make(output) for output in outputs]


def _make_columns(traced: TracedArguments, outputs: Sequence[Tensor]) -> list[list[Tensor]]:
    """The same as `_make_rows`, computed in forward mode: a column is the derivative along one element
    of an argument.
    """
    columns: list[list[Tensor]] = []
    nodes = [output.uop for output in outputs]
    for source, node in zip(traced.tensors, traced.nodes, strict=True):
        # A default argument binds the node of this iteration.
        def push(unit: UOp, node: UOp = node) -> Sequence[UOp | None]:
            return make_tangents(nodes, [node], [unit])

        columns.append(
            [
                # Columns are stacked along the first axis, but the axes of the argument come last.
                stacked_columns.moveaxis(0, -1).reshape(*output.shape, *source.shape)
                for stacked_columns, output in zip(
                    _stack(source, outputs, push), outputs, strict=True
                )
            ]
        )
    return [list(row) for row in zip(*columns, strict=True)]


def _stack(
    along: Tensor, likes: Sequence[Tensor], derive: Callable[[UOp], Sequence[UOp | None]]
) -> list[Tensor]:
    """The results of `derive` for the unit vectors of `along`, stacked; it is traced once."""
    size = _get_size(along)
    positions = Tensor.arange(size).reshape(along.shape)

    def step(carry: None, i: Tensor) -> tuple[None, list[Tensor]]:
        # Computed in the loop: an identity matrix would have the square of the size.
        unit = (positions == i).cast(along.dtype)
        derivatives = derive(unit.uop)
        return carry, [
            # None where the result does not depend on the argument.
            like.zeros_like() if derivative is None else like.from_uop(derivative)
            for derivative, like in zip(derivatives, likes, strict=True)
        ]

    _, stacked = scan(step, None, Tensor.arange(size))
    return stacked
