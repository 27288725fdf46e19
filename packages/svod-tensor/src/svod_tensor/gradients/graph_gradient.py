"""Gradient of a graph by tensors that it was built from: `Tensor.gradient`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from svod_ir import Op, UOp
from svod_ir.derivatives import make_cotangents
from svod_ir.sizes import product
from svod_tensor.errors import DerivativeError
from svod_tensor.gradients.floats import check_float

if TYPE_CHECKING:
    from svod_tensor.tensor import Tensor

__all__ = ["make_gradients"]


# Views whose elements are distinct elements of their source, so that gradients pass unchanged.
_ONE_TO_ONE = frozenset({Op.RESHAPE, Op.PERMUTE, Op.FLIP, Op.SHRINK, Op.DETACH})


def make_gradients(
    output: Tensor, sources: Sequence[Tensor], cotangent: Tensor | None
) -> tuple[Tensor, ...]:
    """The gradients of `output` by the elements of `sources`.

    Raises:
        DerivativeError: if a tensor is not of floats, the output is not a scalar and has no
            cotangent, or does not depend on a source.
        NotDifferentiableError: if it depends on a source through an operation without derivative.
    """
    for tensor, name in ((output, "tensor"), *((s, f"source {n}") for n, s in enumerate(sources))):
        check_float(
            "gradient", tensor, name, may_be_complex=tensor is not output or cotangent is not None
        )
    if cotangent is None and output.shape:
        raise DerivativeError(
            operation="gradient",
            problem=f"the tensor has shape {output.shape}, and is not a scalar",
            hint="reduce it, as in loss.mean(), or pass its cotangent",
        )
    start = (
        UOp.const(output.dtype, 1) if cotangent is None else _check_cotangent(output, cotangent).uop
    )
    # The graph was built from the base of a source, and need not contain this view of it.
    chains = [_list_views(source.uop) for source in sources]
    cotangents = make_cotangents([output.uop], [start], [chain[-1] for chain in chains])
    gradients: list[Tensor] = []
    for i, (gradient, chain, source) in enumerate(zip(cotangents, chains, sources, strict=True)):
        # Unlike `grad(f)`, which returns zeros: a path that is missing here was usually cut by an
        # early computation.
        if gradient is None:
            raise DerivativeError(
                operation="gradient",
                problem=f"the tensor does not depend on source {i}, of shape {source.shape}",
                hint=(
                    "call gradient before the tensor or its operands are computed, and before the"
                    " source is assigned to, or use grad(f)"
                ),
            )
        for view in reversed(chain[:-1]):
            gradient = view.with_src((gradient, *view.src[1:]))
        gradients.append(source.from_uop(gradient))
    return tuple(gradients)


def _check_cotangent(output: Tensor, cotangent: Tensor) -> Tensor:
    if cotangent.shape != output.shape or cotangent.dtype != output.dtype:
        raise DerivativeError(
            operation="gradient",
            problem=(
                f"the cotangent is {cotangent.dtype} of shape {cotangent.shape}, the tensor"
                f" {output.dtype} of shape {output.shape}"
            ),
            hint="a cotangent has the shape and dtype of the tensor",
        )
    return cotangent


def _list_views(node: UOp) -> list[UOp]:
    """A source and its chain of one-to-one views, down to the base, which is differentiated instead."""
    chain = [node]
    while chain[-1].op in _ONE_TO_ONE:
        chain.append(chain[-1].source)
    base = chain[-1]
    if base.op is Op.CONST or (
        base.op is Op.EXPAND and product(base.source.shape) == 1 and _is_constant(base)
    ):
        raise DerivativeError(
            operation="gradient",
            problem="a source is a constant, which is not distinct from equal constants",
            hint="give it memory with x.realize(), or use grad(f), whose arguments are distinct",
        )
    return chain


def _is_constant(node: UOp) -> bool:
    return all(n.op in (Op.CONST, Op.RESHAPE, Op.EXPAND) for n in node.toposort())
