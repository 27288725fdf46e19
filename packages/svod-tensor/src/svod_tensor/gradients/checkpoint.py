"""`checkpoint`: recomputation of a function's intermediate values for its derivative."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Sequence
from typing import Final, TypeVar, cast

from svod_ir import Op, UOp
from svod_ir.derivatives import RECOMPUTED, list_sources, make_gradients, make_traced, sort_nodes
from svod_tensor._trees import flatten
from svod_tensor.cells.derivatives import differentiating
from svod_tensor.engine import versions
from svod_tensor.gradients.arguments import check_unassigned, replace_nodes, select_inexact
from svod_tensor.loops.tracing import list_live_nodes
from svod_tensor.tensor import Tensor

__all__ = ["checkpoint"]

F = TypeVar("F", bound=Callable[..., object])

_MEMORY: Final = frozenset({Op.BUFFER, Op.BUFFER_VIEW, Op.PARAM})


def checkpoint(f: F) -> F:
    """`f` with a derivative that saves only the arguments and recomputes the intermediate values.

    A training step saves the intermediate values of each layer as residuals until its derivative is
    computed. A checkpointed layer saves its arguments and is computed twice: less memory for more
    time. Values, derivatives and random numbers are the same. Tensors that `f` captures are saved
    like arguments.

    Args:
        f: a function of nested tensors and other values to nested tensors. It must not assign to
            its arguments.

    Raises (when called):
        DerivativeError: if it assigns to an argument.

    Example:
        >>> from svod_tensor import Tensor, checkpoint, grad
        >>> layer = checkpoint(lambda x: (x.sin() * x).exp())
        >>> grad(lambda x: layer(layer(x)))(Tensor(0.0)).item()
        0.0
    """

    @functools.wraps(f)
    def checkpointed(*args: object, **kwargs: object) -> object:
        leaves, structure = flatten((args, kwargs))
        # Before `f` runs: values that exist now are saved, not recomputed.
        live_nodes = list_live_nodes()
        traced = {
            n: make_traced(leaf.uop) for n, leaf in enumerate(leaves) if isinstance(leaf, Tensor)
        }
        tensors = {n: Tensor.from_uop(node) for n, node in traced.items()}
        traced_arguments = structure.unflatten(
            [tensors.get(n, leaf) for n, leaf in enumerate(leaves)]
        )
        new_args, new_kwargs = cast(
            "tuple[tuple[object, ...], dict[str, object]]", traced_arguments
        )
        # Values that `f` reads, as in an `if`, stay connected to the graph that they were computed
        # from.
        with differentiating():
            result = f(*new_args, **new_kwargs)
        check_unassigned(
            "checkpoint", tensors.values(), traced.values(), [structure.paths[n] for n in tensors]
        )
        outputs, result_structure = flatten(result)
        floats = select_inexact(outputs)
        if not floats:
            return result
        nodes = [tensor.uop for tensor in floats.values()]
        marked = make_gradients(nodes, _list_operands(nodes, live_nodes), RECOMPUTED)
        return replace_nodes(result_structure, outputs, floats, marked)

    return cast("F", checkpointed)


def _list_operands(values: Sequence[UOp], live_nodes: Collection[UOp]) -> Sequence[UOp]:
    """The saved operands of `values`: arguments, memory, and nodes that existed before the call."""

    def is_saved(node: UOp) -> bool:
        if node.op is Op.TRACED and node.arg.computed_from is not None:
            # `f` itself read this value: it is recomputed like any other intermediate value.
            return node in live_nodes
        is_memory = (
            node.op in _MEMORY
            or node.op is Op.TRACED
            or versions.is_pending_version(node)
            or versions.is_memory(node)
        )
        return is_memory or (node in live_nodes and node.placement is not None)

    order = sort_nodes(values, lambda node: () if is_saved(node) else list_sources(node, {}))
    return [node for node in order if is_saved(node)]
