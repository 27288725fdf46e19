"""`custom_gradient`: a function that says what its derivative is."""

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
from svod_tensor.gradients.arguments import check_unassigned
from svod_tensor.loops.tracing import Trace, start_trace
from svod_tensor.tensor import Tensor

__all__ = ["custom_gradient"]


def custom_gradient(f: Callable[..., tuple[Any, Callable[[Any], Any]]]) -> Callable[..., Any]:
    """The function of the values of `f`, whose derivative is the one that `f` gives beside them.

    As `jax.custom_gradient` and `tf.custom_gradient`; what `torch.autograd.Function` keeps in its
    context, the inner function reads from the one around it. It is called once, right after `f`
    computed the value, with a cotangent that has no elements yet: it makes a graph, as `jit` does.
    That graph has derivatives too; of forward mode it is transposed.

    Args:
        f: gives a pair: nested tensors, and a function from their cotangents, nested as they are
            (None where one is no float), to those of its positional arguments: a tuple of them, or
            the only one, each nested as the argument is. None stands for what has no derivative.
            `f` may use other tensors if no derivative is taken by them.

    Raises (when called):
        DerivativeError: if `f` gives no pair, cotangents do not fit the arguments, the inner
            function reads values or assigns, or the value depends on what a derivative is taken by,
            and which `f` did not get as positional argument.

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
        traced = {
            n: make_traced(x.uop)
            for n, x in enumerate(leaves)
            if isinstance(x, Tensor) and x.dtype.is_inexact
        }
        tensors = {n: Tensor.from_uop(node) for n, node in traced.items()}
        given = structure.unflatten([tensors.get(n, leaf) for n, leaf in enumerate(leaves)])
        with differentiating():
            value, backward = _split(f(*cast("tuple[object, ...]", given), **kwargs))
        check_unassigned(
            "custom_gradient",
            tensors.values(),
            traced.values(),
            [structure.paths[n] for n in tensors],
        )
        outputs, made = flatten(value)
        floats = {
            n: out
            for n, out in enumerate(outputs)
            if isinstance(out, Tensor) and out.dtype.is_inexact
        }
        if not floats or not tensors:
            return value
        nodes = [tensor.uop for tensor in floats.values()]
        _check_closed(nodes, list(traced.values()))
        placeholders = {n: make_placeholder_like(tensor.uop) for n, tensor in floats.items()}
        cotangents = {n: floats[n].from_uop(node) for n, node in placeholders.items()}
        parts = _run(f, backward, made.unflatten([cotangents.get(n) for n in range(len(outputs))]))
        found = _read_parts(parts, structure, leaves)
        operands = [_Operand(node, found[n]) for n, node in traced.items()]
        marked = make_custom_gradients(
            nodes,
            list(placeholders.values()),
            [o.node for o in operands],
            [o.cotangent for o in operands],
        )
        images = {
            n: tensor.from_uop(node)
            for (n, tensor), node in zip(floats.items(), marked, strict=True)
        }
        return made.unflatten([images.get(n, output) for n, output in enumerate(outputs)])

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
        f"the function gives {type(cast('object', result)).__name__}, no pair of a value and a"
        " function from its cotangents to those of the arguments",
        "return y, lambda cotangent: cotangent * slope",
    )


def _check_closed(values: Sequence[UOp], operands: Sequence[UOp]) -> None:
    """Check that values depend on what derivatives are taken by through operands alone."""
    stop = set(operands)
    begin = min(node.arg.number for node in operands)
    for node in sort_nodes(values, lambda node: () if node in stop else list_sources(node, {})):
        if (
            node.op is Op.TRACED
            and node not in stop
            and node.arg.number < begin
            and node.arg.computed_from is None
        ):
            raise _error(
                f"the value depends on a tensor of shape {node.shape} by which a derivative is"
                " taken, and which the function uses without getting it as a positional argument",
                "make it a positional argument, or use x.detach()",
            )


class _BackwardTrace(Trace):
    """The one run of a function from cotangents to cotangents."""

    def make_error(self, action: str) -> UserError:
        return _error(
            f"the function from cotangents that {self.name} gives {action}, and it runs before"
            " there are any",
            "compute with tensors instead, as with x.where(a, b)",
        )


def _run(
    f: Callable[..., object], backward: Callable[[object], object], cotangents: object
) -> object:
    trace = _BackwardTrace("custom_gradient", getattr(f, "__name__", "f"), None)
    with start_trace(trace, {}):
        parts = backward(cotangents)
        if trace.redirections:
            raise trace.make_error("assigns to a tensor, or draws random numbers")
    return parts


def _read_parts(parts: object, structure: Structure, leaves: Sequence[object]) -> list[UOp | None]:
    """The cotangent of each leaf of the arguments."""
    n_args = len(structure.items)
    given, found = flatten(parts)
    if n_args == 1 and not (isinstance(parts, tuple) and _is_like(found, structure)):
        given, found = flatten((cast("object", parts),))
    if len(found.items) != n_args:
        raise _error(
            f"{len(found.items)} cotangents are given for {n_args} positional arguments",
            "give one for each, None where there is none",
        )
    made = list(_match(structure, found, iter(given), "argument"))
    return [
        None if part is None else _check_part(part, like, path)
        for part, like, path in zip(made, leaves, structure.paths, strict=True)
    ]


def _is_like(found: Structure, structure: Structure) -> bool:
    return len(found.items) == 1 and (
        found.items[0].kind == structure.items[0].kind or _is_none(found.items[0])
    )


def _is_none(structure: Structure) -> bool:
    return structure.kind == (type(None),)


def _match(
    like: Structure, found: Structure, leaves: Iterator[object], path: str
) -> Iterator[object]:
    """The leaves of `found`, nested as `like`, with None for each leaf of what None stands for."""
    if like.kind is None and found.kind is None:
        yield next(leaves)
    elif _is_none(found):
        yield from [None] * like.n_leaves
    elif (like.kind, like.names) != (found.kind, found.names):
        raise _error(
            f"the cotangent {found} is given for {path}, which is {like}",
            "nest it as the argument is",
        )
    else:
        for name, item, its in zip(like.names, like.items, found.items, strict=True):
            yield from _match(item, its, leaves, path + name)


def _check_part(part: object, like: object, path: str) -> UOp:
    if not isinstance(like, Tensor) or not like.dtype.is_inexact:
        raise _error(
            f"a cotangent is given for argument{path}, which is no tensor of floats",
            "give None for it",
        )
    tensor = part if isinstance(part, Tensor) else Tensor(part, dtype=like.dtype)  # pyright: ignore[reportArgumentType]
    if tensor.shape != like.shape or tensor.dtype != like.dtype:
        raise _error(
            f"the cotangent of argument{path} is {tensor.dtype} of shape {tensor.shape}, and that"
            f" is {like.dtype} of shape {like.shape}",
            "sum over what was broadcast, and cast to its dtype",
        )
    return tensor.uop
