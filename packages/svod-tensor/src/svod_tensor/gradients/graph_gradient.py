"""The gradient of a graph by tensors that it was built of: `Tensor.gradient`."""

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


_ONE_TO_ONE = frozenset({Op.RESHAPE, Op.PERMUTE, Op.FLIP, Op.SHRINK, Op.DETACH})


def make_gradients(
    output: Tensor, sources: Sequence[Tensor], cotangent: Tensor | None
) -> tuple[Tensor, ...]:
    """The gradients of `output` by the elements of `sources`.

    Raises:
        DerivativeError: if something is no float, the output is not one number and has no
            cotangent, or it depends on one of the sources through nothing.
        NotDifferentiableError: if it depends on one through what has no derivative.
    """
    for tensor, what in ((output, "tensor"), *((s, f"source {n}") for n, s in enumerate(sources))):
        check_float(
            "gradient", tensor, what, may_be_complex=tensor is not output or cotangent is not None
        )
    if cotangent is None and output.shape:
        raise DerivativeError(
            operation="gradient",
            problem=f"the tensor has shape {output.shape}, and is not one number",
            hint="reduce it, as in loss.mean(), or give its cotangent",
        )
    start = (
        UOp.const(output.dtype, 1) if cotangent is None else _check_cotangent(output, cotangent).uop
    )
    chains = [_list_views(source.uop) for source in sources]
    found = make_cotangents([output.uop], [start], [chain[-1] for chain in chains])
    made: list[Tensor] = []
    for number, (part, chain, source) in enumerate(zip(found, chains, sources, strict=True)):
        if part is None:
            raise DerivativeError(
                operation="gradient",
                problem=f"the tensor does not depend on source {number}, of shape {source.shape}",
                hint=(
                    "ask before the tensor or what leads to it is computed or the source is"
                    " assigned to, or use grad(f)"
                ),
            )
        for view in reversed(chain[:-1]):
            part = view.with_src((part, *view.src[1:]))
        made.append(source.from_uop(part))
    return tuple(made)


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
    """A source and what it is a view of, down to what is none: the elements of a view are those
    below it.
    """
    chain = [node]
    while chain[-1].op in _ONE_TO_ONE:
        chain.append(chain[-1].source)
    base = chain[-1]
    if base.op is Op.CONST or (
        base.op is Op.EXPAND and product(base.source.shape) == 1 and _is_constant(base)
    ):
        raise DerivativeError(
            operation="gradient",
            problem="a source is a constant, which is told from no other one",
            hint="give it memory with x.realize(), or use grad(f), which tells its arguments apart",
        )
    return chain


def _is_constant(node: UOp) -> bool:
    return all(n.op in (Op.CONST, Op.RESHAPE, Op.EXPAND) for n in node.toposort())
