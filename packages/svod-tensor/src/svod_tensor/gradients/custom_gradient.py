"""`custom_gradient`: a function with a derivative of its own."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, cast

from svod_dtype import UserError
from svod_ir import Op, UOp
from svod_ir.derivatives import (
    list_sources,
    make_custom_gradients,
    make_placeholder_like,
    make_traced,
    sort_nodes,
)
from svod_tensor._trees import Structure, flatten
from svod_tensor.cells.derivatives import differentiating
from svod_tensor.errors import DerivativeError
from svod_tensor.gradients.arguments import check_unassigned, replace_nodes, select_inexact
from svod_tensor.loops.tracing import Trace, start_trace
from svod_tensor.tensor import Tensor

__all__ = ["custom_gradient"]


def custom_gradient(f: Callable[..., tuple[Any, Callable[[Any], Any]]]) -> Callable[..., Any]:
    """Decorate a function that returns its value and its vector-Jacobian product (VJP), as
    `jax.custom_gradient` does.

    The decorated function returns the value only. Its derivatives are computed by the VJP instead
    of the operations of `f`. The VJP is traced once, right after `f`, with a symbolic cotangent, as
    by `jit`; it may use the residuals of `f` by closure. It is differentiable itself, and forward
    mode transposes it.

    Args:
        f: a function that returns a pair `(value, vjp)`. `value` consists of nested tensors. `vjp`
            takes a cotangent nested like `value`, with None for tensors that are not of floats.
            It returns the cotangent of the positional argument or, if there are several, a tuple
            of cotangents. Each is nested like its argument, or None if the argument has no
            derivative. `f` may capture other tensors if no derivative is taken by them.

    Raises (when called):
        DerivativeError: if `f` does not return a pair, cotangents do not match the arguments, the
            VJP reads values or assigns, or the value depends on a differentiated tensor
            that is not a positional argument.

    Example:
        >>> from svod_tensor import Tensor, custom_gradient, grad
        >>> @custom_gradient
        ... def clip_gradient(x, limit):
        ...     return x, lambda cotangent: (cotangent.clip(-limit, limit), None)
        >>> grad(lambda x: (clip_gradient(x, 1.0) ** 2).sum())(Tensor([0.25, 3.0])).tolist()
        [0.5, 1.0]
    """

    @functools.wraps(f)
    def custom(*args: object, **kwargs: object) -> object:
        leaves, structure = flatten(args)
        # Nodes of their own, as in `trace_arguments`.
        traced = {n: make_traced(x.uop) for n, x in select_inexact(leaves).items()}
        tensors = {n: Tensor.from_uop(node) for n, node in traced.items()}
        traced_arguments = structure.unflatten(
            [tensors.get(n, leaf) for n, leaf in enumerate(leaves)]
        )
        with differentiating():
            value, backward = _split(f(*cast("tuple[object, ...]", traced_arguments), **kwargs))
        check_unassigned(
            "custom_gradient",
            tensors.values(),
            traced.values(),
            [structure.paths[n] for n in tensors],
        )
        outputs, value_structure = flatten(value)
        floats = select_inexact(outputs)
        # No derivative can pass, so the inner function is not traced.
        if not floats or not tensors:
            return value
        nodes = [tensor.uop for tensor in floats.values()]
        _check_closed(nodes, list(traced.values()))
        placeholders = {n: make_placeholder_like(tensor.uop) for n, tensor in floats.items()}
        cotangents = {n: floats[n].from_uop(node) for n, node in placeholders.items()}
        results = _run(
            f, backward, value_structure.unflatten([cotangents.get(n) for n in range(len(outputs))])
        )
        argument_cotangents = _read_cotangents(results, structure, leaves)
        operands = [_Operand(node, argument_cotangents[n]) for n, node in traced.items()]
        marked = make_custom_gradients(
            nodes,
            list(placeholders.values()),
            [o.node for o in operands],
            [o.cotangent for o in operands],
        )
        return replace_nodes(value_structure, outputs, floats, marked)

    return custom


class _Operand(NamedTuple):
    node: UOp
    cotangent: UOp | None


def _error(problem: str, hint: str) -> DerivativeError:
    return DerivativeError(operation="custom_gradient", problem=problem, hint=hint)


def _split(result: object) -> tuple[object, Callable[[object], object]]:
    if isinstance(result, tuple):
        pair = cast("tuple[object, ...]", result)
        if len(pair) == 2 and callable(pair[1]) and not isinstance(pair[1], Tensor):
            return pair[0], pair[1]
    raise _error(
        f"the function returns {type(cast('object', result)).__name__}, not a pair of a value and a"
        " function from its cotangents to cotangents of the arguments",
        "return y, lambda cotangent: cotangent * slope",
    )


def _check_closed(values: Sequence[UOp], operands: Sequence[UOp]) -> None:
    """Check that values depend on differentiated tensors only through operands."""
    stop = set(operands)
    # Smaller numbers are arguments of an enclosing derivative; larger ones were traced inside of
    # `f`.
    begin = min(node.arg.number for node in operands)
    for node in sort_nodes(values, lambda node: () if node in stop else list_sources(node, {})):
        if (
            node.op is Op.TRACED
            and node not in stop
            and node.arg.number < begin
            and node.arg.computed_from is None
        ):
            raise _error(
                f"the value depends on a differentiated tensor of shape {node.shape} that is not a"
                " positional argument of the function",
                "make it a positional argument, or use x.detach()",
            )


class _BackwardTrace(Trace):
    """The trace of a function from cotangents to cotangents."""

    def make_error(self, action: str) -> UserError:
        return _error(
            f"the function from cotangents that {self.name} returns {action}, but it is traced"
            " before there are cotangents",
            "compute with tensors instead, as with x.where(a, b)",
        )


def _run(
    f: Callable[..., object], backward: Callable[[object], object], cotangents: object
) -> object:
    trace = _BackwardTrace("custom_gradient", getattr(f, "__name__", "f"), None)
    with start_trace(trace, {}):
        results = backward(cotangents)
        # The trace serves every derivative, so there is no moment at which an assignment would
        # happen.
        if trace.redirections:
            raise trace.make_error("assigns to a tensor, or samples random numbers")
    return results


def _read_cotangents(
    results: object, structure: Structure, leaves: Sequence[object]
) -> list[UOp | None]:
    """The cotangent of each leaf of the arguments."""
    n_args = len(structure.items)
    cotangents, cotangent_structure = flatten(results)
    # A single argument may itself be a tuple: its cotangent may come with or without a tuple around
    # it.
    if n_args == 1 and not (
        isinstance(results, tuple) and _is_like(cotangent_structure, structure)
    ):
        cotangents, cotangent_structure = flatten((cast("object", results),))
    if len(cotangent_structure.items) != n_args:
        raise _error(
            f"expected {n_args} cotangents for the positional arguments, got"
            f" {len(cotangent_structure.items)}",
            "return one for each, None for an argument without derivative",
        )
    matched = list(_match(structure, cotangent_structure, iter(cotangents), "argument"))
    return [
        None if cotangent is None else _check_cotangent(cotangent, like, path)
        for cotangent, like, path in zip(matched, leaves, structure.paths, strict=True)
    ]


def _is_like(actual: Structure, structure: Structure) -> bool:
    return len(actual.items) == 1 and (
        actual.items[0].kind == structure.items[0].kind or _is_none(actual.items[0])
    )


def _is_none(structure: Structure) -> bool:
    return structure.kind == (type(None),)


def _match(
    like: Structure, actual: Structure, leaves: Iterator[object], path: str
) -> Iterator[object]:
    """The leaves of `actual`, nested as `like`. A None in place of a subtree yields None for each of its
    leaves.
    """
    if like.kind is None and actual.kind is None:
        yield next(leaves)
    elif _is_none(actual):
        # As in JAX, None represents a whole subtree without derivative.
        yield from [None] * like.n_leaves
    elif (like.kind, like.names) != (actual.kind, actual.names):
        raise _error(
            f"expected a cotangent {like} of {path}, got {actual}", "nest it as the argument is"
        )
    else:
        for name, item, its in zip(like.names, like.items, actual.items, strict=True):
            yield from _match(item, its, leaves, path + name)


def _check_cotangent(cotangent: object, like: object, path: str) -> UOp:
    if not isinstance(like, Tensor) or not like.dtype.is_inexact:
        raise _error(
            f"expected None as cotangent of argument{path}, which is not a tensor of floats",
            "return None for it",
        )
    # Python numbers are weak: they take the dtype of the argument.
    tensor = cotangent if isinstance(cotangent, Tensor) else Tensor(cotangent, dtype=like.dtype)  # pyright: ignore[reportArgumentType]
    if tensor.shape != like.shape or tensor.dtype != like.dtype:
        raise _error(
            f"expected a cotangent of argument{path} of {like.dtype} and shape {like.shape}, got"
            f" {tensor.dtype} and shape {tensor.shape}",
            "sum over the broadcast axes, and cast to the dtype of the argument",
        )
    return tensor.uop
