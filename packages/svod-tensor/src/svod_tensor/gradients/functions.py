"""Derivatives of functions: `grad`, `value_and_grad` and `vjp` in reverse mode, `jvp` in forward
mode.
"""

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
    """The gradient function of `f`, a scalar function of tensors.

    Args:
        f: a function that returns a 0-d tensor of floats, or with `has_aux` a pair of it and
            auxiliary data.
        argnums: the positional arguments to differentiate by: an index, or several for a tuple of
            gradients. Each argument is a tensor, or nested lists, tuples and dicts of tensors.
        has_aux: whether `f` returns auxiliary data, so that the result is a pair of the gradient
            and this data.

    Returns:
        a function with the arguments of `f` that returns the gradients, nested as the arguments
        are, and zeros for arguments that the result does not depend on.

    Raises (when called):
        DerivativeError: if an argument is not of floats, or `f` does not return a scalar.
        NotDifferentiableError: if the result depends on an argument through an operation without
            derivative.

    Example:
        >>> from svod_tensor import Tensor, grad
        >>> grad(lambda x: (x * x).sum())(Tensor([1.0, 2.0])).tolist()
        [2.0, 4.0]
        >>> third = grad(grad(grad(lambda x: x**4)))
        >>> third(Tensor(2.0)).item()
        48.0
    """
    compute = _value_and_grad("grad", f, argnums, has_aux)

    @functools.wraps(f)
    def differentiated(*args: Any, **kwargs: Any) -> Any:
        value, gradients = compute(*args, **kwargs)
        return (gradients, value[1]) if has_aux else gradients

    return differentiated


def value_and_grad(
    f: Callable[..., Any], argnums: Argnums = 0, *, has_aux: bool = False
) -> Callable[..., Any]:
    """The function that returns a pair of the result of `f` and its gradient, as by `grad`.

    Args:
        f: a function that returns a 0-d tensor of floats, or with `has_aux` a pair of it and
            auxiliary data.
        argnums: the positional arguments to differentiate by.
        has_aux: whether `f` returns auxiliary data; the first item of the result is its pair then.

    Raises (when called):
        DerivativeError: if an argument is not of floats, or `f` does not return a scalar.
        NotDifferentiableError: if the result depends on an argument through an operation without
            derivative.

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
            # Still within the block: the derivative may be differentiated itself, by an enclosing
            # call.
            cotangents = make_cotangents([node], [UOp.const(node.dtype, 1)], traced.nodes)
            # A computation between two gradients would leave the others on old versions of memory.
            gradients = [
                _or_zeros(cotangent, source)
                for cotangent, source in zip(cotangents, traced.tensors, strict=True)
            ]
        return result, traced.structure.unflatten(gradients)

    return differentiated


def _take_value(operation: str, f: object, result: object, has_aux: bool) -> Tensor:
    value: object = split_aux(operation, result, has_aux)[0]
    if not isinstance(value, Tensor):
        hint = "return the tensor itself: item() and float() leave the graph"
        if isinstance(value, tuple):
            hint = "pass has_aux=True for a pair: return loss, data"
        elif value is None:
            hint = "return the loss"
        raise DerivativeError(
            operation=operation,
            problem=f"the function returns {type(cast(object, value)).__name__}, not a tensor",
            hint=hint,
        )
    if value.shape:
        raise DerivativeError(
            operation=operation,
            problem=f"the function returns shape {value.shape}, not a scalar",
            hint=(
                BY_PARAMETERS
                if has_parameters(f)
                else "reduce it, as in loss.mean(), or use vjp or jacobian"
            ),
        )
    check_float(operation, value, "result", otherwise=OTHER_ARGUMENTS, may_be_complex=False)
    return value


def _or_zeros(derivative: UOp | None, source: Tensor) -> Tensor:
    # As in JAX: an argument without influence has a gradient of zeros, not None.
    return source.zeros_like() if derivative is None else type(source).from_uop(derivative)


def vjp(f: Callable[..., Any], *primals: Any, has_aux: bool = False) -> tuple[Any, ...]:
    """The result of `f` and its vector-Jacobian product, a function from cotangents of the result to
    cotangents of the arguments.

    Args:
        f: a function from nested tensors to nested tensors of floats, or with `has_aux` to a pair
            of these and auxiliary data.
        primals: the arguments, all of floats.
        has_aux: whether `f` returns auxiliary data, which is the third item of the result then.

    Returns:
        the result, and a function that takes cotangents nested as the result is, and returns a
        tuple of cotangents of the arguments.

    Raises:
        DerivativeError: if a tensor is not of floats, or (from the function of cotangents) if these
            do not match the result.
        NotDifferentiableError (from the function of cotangents): if the result depends on an
            argument through an operation without derivative.

    Example:
        >>> from svod_tensor import Tensor, vjp
        >>> y, f_vjp = vjp(lambda a, b: a * b, Tensor([1.0, 2.0]), Tensor([3.0, 4.0]))
        >>> [x.tolist() for x in f_vjp(Tensor([1.0, 10.0]))]
        [[3.0, 40.0], [1.0, 20.0]]
    """
    check_argnums("vjp", f, 0)
    traced = trace_arguments("vjp", primals, tuple(range(len(primals))))
    with differentiating():
        result = f(*traced.args)
        traced.check_kept("vjp")
    value, *aux = split_aux("vjp", result, has_aux)
    outputs, structure = read_tensors("vjp", value, "result")
    # Results may be computed, and arguments written, before the cotangents are known.
    snapshot = GraphSnapshot([*(t.uop for t in outputs), *traced.nodes])

    def f_vjp(cotangent: Any) -> Any:
        cotangents = _read_like("vjp", cotangent, outputs, structure)
        nodes = snapshot.get_nodes()
        input_cotangents = make_cotangents(
            nodes[: len(outputs)], [t.uop for t in cotangents], nodes[len(outputs) :]
        )
        return traced.structure.unflatten(
            [
                _or_zeros(input_cotangent, source)
                for input_cotangent, source in zip(input_cotangents, traced.tensors, strict=True)
            ]
        )

    return (value, f_vjp, *aux)


def jvp(
    f: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any], *, has_aux: bool = False
) -> tuple[Any, ...]:
    """The result of `f` and its Jacobian-vector product with tangents of the arguments.

    Args:
        f: a function from nested tensors to nested tensors of floats, or with `has_aux` to a pair
            of these and auxiliary data.
        primals: the arguments, all of floats.
        tangents: for each argument, nested tensors of its structure, shapes and dtypes.
        has_aux: whether `f` returns auxiliary data, which is the third item of the result then.

    Returns:
        the result, its tangents nested as it is, and with `has_aux` the auxiliary data.

    Raises:
        DerivativeError: if a tensor is not of floats, or the tangents do not match the arguments.
        NotDifferentiableError: if the result depends on an argument through an operation without
            derivative.

    Example:
        >>> from svod_tensor import Tensor, jvp
        >>> y, tangent = jvp(lambda x: x.sin(), (Tensor(0.0),), (Tensor(2.0),))
        >>> y.item(), tangent.item()
        (0.0, 2.0)
    """
    if not isinstance(primals, (tuple, list)) or not isinstance(tangents, (tuple, list)):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise DerivativeError(
            operation="jvp",
            problem="the arguments and tangents are not tuples",
            hint="write jvp(f, (x,), (v,))",
        )
    check_argnums("jvp", f, 0)
    traced = trace_arguments("jvp", primals, tuple(range(len(primals))))
    # Before the function runs, so that a mismatch is reported at once.
    input_tangents = _read_like("jvp", tuple(tangents), traced.tensors, traced.structure)
    with differentiating():
        result = f(*traced.args)
        traced.check_kept("jvp")
        value, *aux = split_aux("jvp", result, has_aux)
        outputs, structure = read_tensors("jvp", value, "result")
        output_tangents = make_tangents(
            [t.uop for t in outputs], traced.nodes, [t.uop for t in input_tangents]
        )
    tangents_or_zeros = [
        _or_zeros(tangent, output) for tangent, output in zip(output_tangents, outputs, strict=True)
    ]
    return (value, structure.unflatten(tangents_or_zeros), *aux)


def split_aux(operation: str, result: Any, has_aux: bool) -> tuple[Any, ...]:
    """The value of a function, followed by its auxiliary data if `has_aux`.

    Raises:
        DerivativeError: if `has_aux` and the result is not a pair.
    """
    if not has_aux:
        return (result,)
    if not isinstance(result, tuple) or len(result) != 2:  # pyright: ignore[reportUnknownArgumentType]
        raise DerivativeError(
            operation=operation,
            problem="the function does not return a pair, but has_aux is True",
            hint="return value, data",
        )
    return result  # pyright: ignore[reportUnknownVariableType]


def _read_like(
    operation: str, tree: object, likes: Sequence[Tensor], structure: Structure
) -> list[Tensor]:
    """The leaves of `tree` as tensors, after a check of their shapes and dtypes against `likes`."""
    leaves, actual = flatten(tree)
    difference = structure.find_difference(actual)
    if difference is not None:
        raise DerivativeError(
            operation=operation,
            problem=(
                f"expected {difference.left}{difference.path and ' at ' + difference.path}, got"
                f" {difference.right}"
            ),
        )
    tensors: list[Tensor] = []
    for leaf, like in zip(leaves, likes, strict=True):
        # Python numbers are weak.
        tensor = leaf if isinstance(leaf, Tensor) else Tensor(leaf, dtype=like.dtype)  # pyright: ignore[reportArgumentType]
        if tensor.shape != like.shape or tensor.dtype != like.dtype:
            raise DerivativeError(
                operation=operation,
                problem=(
                    f"expected {like.dtype} of shape {like.shape}, got {tensor.dtype} of shape"
                    f" {tensor.shape}"
                ),
                hint="cotangents have the shapes and dtypes of the results, tangents of the arguments",
            )
        tensors.append(tensor)
    return tensors
