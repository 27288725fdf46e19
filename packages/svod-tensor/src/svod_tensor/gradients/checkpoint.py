"""`checkpoint`: a function whose intermediate values are computed again for its derivative instead
of kept.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Sequence
from typing import Final, TypeVar, cast

from svod_ir import Op, UOp
from svod_ir.derivatives import RECOMPUTED, list_sources, make_gradients, make_traced, sort_nodes
from svod_tensor._trees import flatten
from svod_tensor.cells.derivatives import differentiating
from svod_tensor.engine import versions
from svod_tensor.gradients.arguments import check_unassigned
from svod_tensor.loops.tracing import list_live_nodes
from svod_tensor.tensor import Tensor

__all__ = ["checkpoint"]

F = TypeVar("F", bound=Callable[..., object])

_MEMORY: Final = frozenset({Op.BUFFER, Op.BUFFER_VIEW, Op.PARAM})


def checkpoint(f: F) -> F:
    """`f`, of which a derivative keeps the arguments alone: what lies between them and the results
    is computed again.

    A step of training keeps what each layer computed until the derivative has come back to it. A
    layer that is checkpointed keeps its arguments, and is computed twice: less memory for more
    time. Values and derivatives are the same, random numbers too. Tensors that `f` uses without
    getting them are kept as arguments are.

    Args:
        f: a function of anything, in which tensors may be nested, to nested tensors. It assigns to
            none of its arguments.

    Raises (when called):
        DerivativeError: if it does.

    Example:
        >>> from svod_tensor import Tensor, checkpoint, grad
        >>> layer = checkpoint(lambda x: (x.sin() * x).exp())
        >>> grad(lambda x: layer(layer(x)))(Tensor(0.0)).item()
        0.0
    """

    @functools.wraps(f)
    def checkpointed(*args: object, **kwargs: object) -> object:
        leaves, structure = flatten((args, kwargs))
        known = list_live_nodes()
        traced = {
            n: make_traced(leaf.uop) for n, leaf in enumerate(leaves) if isinstance(leaf, Tensor)
        }
        tensors = {n: Tensor.from_uop(node) for n, node in traced.items()}
        given = structure.unflatten([tensors.get(n, leaf) for n, leaf in enumerate(leaves)])
        new_args, new_kwargs = cast("tuple[tuple[object, ...], dict[str, object]]", given)
        with differentiating():
            result = f(*new_args, **new_kwargs)
        check_unassigned(
            "checkpoint", tensors.values(), traced.values(), [structure.paths[n] for n in tensors]
        )
        outputs, made = flatten(result)
        floats = {
            n: out
            for n, out in enumerate(outputs)
            if isinstance(out, Tensor) and out.dtype.is_inexact
        }
        if not floats:
            return result
        nodes = [tensor.uop for tensor in floats.values()]
        marked = make_gradients(nodes, _list_operands(nodes, known), RECOMPUTED)
        images = {
            n: tensor.from_uop(node)
            for (n, tensor), node in zip(floats.items(), marked, strict=True)
        }
        return made.unflatten([images.get(n, output) for n, output in enumerate(outputs)])

    return cast("F", checkpointed)


def _list_operands(values: Sequence[UOp], known: Collection[UOp]) -> Sequence[UOp]:
    """What `values` are computed from that is kept: arguments, memory, and what was there
    before.
    """

    def is_kept(node: UOp) -> bool:
        if node.op is Op.TRACED and node.arg.computed_from is not None:
            return node in known
        is_memory = (
            node.op in _MEMORY
            or node.op is Op.TRACED
            or versions.is_pending_version(node)
            or versions.is_memory(node)
        )
        return is_memory or (node in known and node.placement is not None)

    order = sort_nodes(values, lambda node: () if is_kept(node) else list_sources(node, {}))
    return [node for node in order if is_kept(node)]
