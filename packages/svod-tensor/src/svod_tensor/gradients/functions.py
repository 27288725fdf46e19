"""Derivatives of functions: in reverse `grad`, `value_and_grad` and `vjp`, forward `jvp`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, cast

from svod_ir import UOp
from svod_ir.derivatives import make_cotangents, make_tangents
from svod_tensor._trees import Structure, flatten
from svod_tensor.cells.derivatives import differentiating
from svod_tensor.cells.snapshots import GraphSnapshot
from svod_tensor.errors import DerivativeError
from svod_tensor.gradients.arguments import (
    BY_PARAMETERS,
    OTHER_ARGUMENTS,
    Argnums,
    check_argnums,
    has_parameters,
    read_tensors,
    trace_arguments,
)
from svod_tensor.gradients.floats import check_float
from svod_tensor.tensor import Tensor

__all__ = ["grad", "jvp", "split_aux", "value_and_grad", "vjp"]


def grad(
    f: Callable[..., Any], argnums: Argnums = 0, *, has_aux: bool = False
) -> Callable[..., Any]:
    """The function that gives the gradient of `f`, a function of tensors to one number.

    Args:
        f: gives a 0-d tensor of floats, or with `has_aux` a pair of it and anything else.
        argnums: by which of the positional arguments: a number, or several for a tuple of
            gradients. Each is a tensor, or nested lists, tuples and dicts of such.
        has_aux: whether the result is a pair of the gradient and what `f` gave besides.

    Returns:
        a function with the arguments of `f`, which gives the gradients, nested as the arguments
        are, and zeros where the result does not depend on one.

    Raises (when called):
        DerivativeError: if an argument is no float, or `f` gives something else.
        NotDifferentiableError: if the result depends on an argument through what has no derivative.

    Example:
        >>> from svod_tensor import Tensor, grad
        >>> grad(lambda x: (x * x).sum())(Tensor([1.0, 2.0])).tolist()
        [2.0, 4.0]
        >>> third = grad(grad(grad(lambda x: x**4)))
        >>> third(Tensor(2.0)).item()
        48.0
    """
    both = _value_and_grad("grad", f, argnums, has_aux)

    @functools.wraps(f)
    def differentiated(*args: Any, **kwargs: Any) -> Any:
        value, gradients = both(*args, **kwargs)
        return (gradients, value[1]) if has_aux else gradients

    return differentiated


def value_and_grad(
    f: Callable[..., Any], argnums: Argnums = 0, *, has_aux: bool = False
) -> Callable[..., Any]:
    """As `grad`, with the result of `f` too: a pair of both.

    Args:
        f: gives a 0-d tensor of floats, or with `has_aux` a pair of it and anything else.
        argnums: by which of the positional arguments.
        has_aux: whether `f` gives a pair, which then is the first part of the result.

    Raises (when called):
        DerivativeError: if an argument is no float, or `f` gives something else.
        NotDifferentiableError: if the result depends on an argument through what has no derivative.

    Example:
        >>> from svod_tensor import Tensor, value_and_grad
        >>> value, gradients = value_and_grad(lambda w: (w["a"] * w["b"]).sum())({"a": Tensor([2.0]), "b": Tensor([3.0])})
        >>> value.item(), gradients["a"].item(), gradients["b"].item()
        (6.0, 3.0, 2.0)
    """
    return functools.wraps(f)(_value_and_grad("value_and_grad", f, argnums, has_aux))


def _value_and_grad(
    operation: str, f: Callable[..., Any], argnums: Argnums, has_aux: bool
) -> Callable[..., Any]:
    check_argnums(operation, f, argnums)

    def differentiated(*args: Any, **kwargs: Any) -> Any:
        traced = trace_arguments(operation, args, argnums)
        with differentiating():
            result = f(*traced.args, **kwargs)
            value = _take_value(operation, f, result, has_aux)
            traced.check_kept(operation)
            node = value.uop
            found = make_cotangents([node], [UOp.const(node.dtype, 1)], traced.nodes)
            # A computation between two of them would leave the others on older versions of memory.
            gradients = [
                _or_zeros(part, source) for part, source in zip(found, traced.tensors, strict=True)
            ]
        return result, traced.structure.unflatten(gradients)

    return differentiated


def _take_value(operation: str, f: object, result: object, has_aux: bool) -> Tensor:
    value: object = split_aux(operation, result, has_aux)[0]
    if not isinstance(value, Tensor):
        hint = "return the tensor itself: item() and float() leave the graph"
        if isinstance(value, tuple):
            hint = "name it with has_aux=True: return loss, anything"
        elif value is None:
            hint = "let it return its result"
        raise DerivativeError(
            operation=operation,
            problem=f"the function gives {type(cast(object, value)).__name__}, no tensor",
            hint=hint,
        )
    if value.shape:
        raise DerivativeError(
            operation=operation,
            problem=f"the function gives shape {value.shape}, not one number",
            hint=(
                BY_PARAMETERS
                if has_parameters(f)
                else "reduce it, as in loss.mean(), or use vjp or jacobian"
            ),
        )
    check_float(operation, value, "result", otherwise=OTHER_ARGUMENTS, may_be_complex=False)
    return value


def _or_zeros(part: UOp | None, source: Tensor) -> Tensor:
    return source.zeros_like() if part is None else type(source).from_uop(part)


def vjp(f: Callable[..., Any], *primals: Any, has_aux: bool = False) -> tuple[Any, ...]:
    """The result of `f` and a function from cotangents of it to those of the arguments: products of
    a row and the Jacobian.

    Args:
        f: from nested tensors to nested tensors of floats, or with `has_aux` to a pair of those and
            anything else. primals: the arguments, all of floats.
        has_aux: whether the result has what `f` gave besides as its third part.

    Returns:
        the result; a function that takes cotangents nested as the result is, and gives a tuple of
        those of the arguments.

    Raises:
        DerivativeError: if something is no float; the function of cotangents, too, if these do not
            fit the result.
        NotDifferentiableError (from that function): if the result depends on an argument through
            what has no derivative.

    Example:
        >>> from svod_tensor import Tensor, vjp
        >>> y, pull = vjp(lambda a, b: a * b, Tensor([1.0, 2.0]), Tensor([3.0, 4.0]))
        >>> [part.tolist() for part in pull(Tensor([1.0, 10.0]))]
        [[3.0, 40.0], [1.0, 20.0]]
    """
    check_argnums("vjp", f, 0)
    traced = trace_arguments("vjp", primals, tuple(range(len(primals))))
    with differentiating():
        result = f(*traced.args)
        traced.check_kept("vjp")
    value, *aux = split_aux("vjp", result, has_aux)
    outputs, structure = read_tensors("vjp", value, "result")
    # Until the cotangents are known, results may be computed, and arguments written.
    kept = GraphSnapshot([*(t.uop for t in outputs), *traced.nodes])

    def pull(cotangent: Any) -> Any:
        given = _read_like("vjp", cotangent, outputs, structure)
        nodes = kept.get_nodes()
        found = make_cotangents(
            nodes[: len(outputs)], [t.uop for t in given], nodes[len(outputs) :]
        )
        return traced.structure.unflatten(
            [_or_zeros(part, source) for part, source in zip(found, traced.tensors, strict=True)]
        )

    return (value, pull, *aux)


def jvp(
    f: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any], *, has_aux: bool = False
) -> tuple[Any, ...]:
    """The result of `f` and its derivative along tangents of the arguments: the product of the
    Jacobian and a column.

    Args:
        f: from nested tensors to nested tensors of floats, or with `has_aux` to a pair of those and
            anything else.
        primals: the arguments, all of floats.
        tangents: for each argument, nested tensors of its structure, shapes and dtypes.
        has_aux: whether the result has what `f` gave besides as its third part.

    Returns:
        the result, its tangents nested as it is, and with `has_aux` what `f` gave besides.

    Raises:
        DerivativeError: if something is no float, or the tangents do not fit the arguments.
        NotDifferentiableError: if the result depends on an argument through what has no derivative.

    Example:
        >>> from svod_tensor import Tensor, jvp
        >>> y, along = jvp(lambda x: x.sin(), (Tensor(0.0),), (Tensor(2.0),))
        >>> y.item(), along.item()
        (0.0, 2.0)
    """
    if not isinstance(primals, (tuple, list)) or not isinstance(tangents, (tuple, list)):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise DerivativeError(
            operation="jvp",
            problem="the arguments and tangents are no tuples",
            hint="write jvp(f, (x,), (v,))",
        )
    check_argnums("jvp", f, 0)
    traced = trace_arguments("jvp", primals, tuple(range(len(primals))))
    given = _read_like("jvp", tuple(tangents), traced.tensors, traced.structure)
    with differentiating():
        result = f(*traced.args)
        traced.check_kept("jvp")
        value, *aux = split_aux("jvp", result, has_aux)
        outputs, structure = read_tensors("jvp", value, "result")
        found = make_tangents([t.uop for t in outputs], traced.nodes, [t.uop for t in given])
    along = [_or_zeros(part, output) for part, output in zip(found, outputs, strict=True)]
    return (value, structure.unflatten(along), *aux)


def split_aux(operation: str, result: Any, has_aux: bool) -> tuple[Any, ...]:
    """The value that a function gave, and what it gave besides.

    Raises:
        DerivativeError: if it gave no pair, though it was to.
    """
    if not has_aux:
        return (result,)
    if not isinstance(result, tuple) or len(result) != 2:  # pyright: ignore[reportUnknownArgumentType]
        raise DerivativeError(
            operation=operation,
            problem="the function gives no pair, though has_aux says so",
            hint="return value, anything",
        )
    return result  # pyright: ignore[reportUnknownVariableType]


def _read_like(
    operation: str, tree: object, likes: Sequence[Tensor], structure: Structure
) -> list[Tensor]:
    """The leaves of `tree` as tensors, which have the shapes and dtypes of `likes`."""
    leaves, found = flatten(tree)
    difference = structure.find_difference(found)
    if difference is not None:
        raise DerivativeError(
            operation=operation,
            problem=(
                f"{difference.right} stands where {difference.left} is"
                f" expected{difference.path and ' at ' + difference.path}"
            ),
        )
    tensors: list[Tensor] = []
    for leaf, like in zip(leaves, likes, strict=True):
        given = leaf if isinstance(leaf, Tensor) else Tensor(leaf, dtype=like.dtype)  # pyright: ignore[reportArgumentType]
        if given.shape != like.shape or given.dtype != like.dtype:
            raise DerivativeError(
                operation=operation,
                problem=(
                    f"{given.dtype} of shape {given.shape} is given for {like.dtype} of shape"
                    f" {like.shape}"
                ),
                hint="cotangents and tangents have the shapes and dtypes of what they belong to",
            )
        tensors.append(given)
    return tensors
