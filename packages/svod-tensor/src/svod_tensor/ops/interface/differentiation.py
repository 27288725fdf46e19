"""Derivatives of graphs by the tensors that they were built of."""

from __future__ import annotations

from svod_tensor.gradients.graph_gradient import make_gradients
from svod_tensor.ops.core.operation import operation
from svod_tensor.tensor import Tensor

__all__ = ["gradient"]


@operation(
    test="test_derivatives.py::test_a_gradient_of_a_graph_is_one_by_the_elements_of_its_sources",
    is_function=False,
)
def gradient(x: Tensor, /, *sources: Tensor, cotangent: Tensor | None = None) -> tuple[Tensor, ...]:
    """The gradients of this tensor by each of `sources`, which it was built of: tensors of their
    shapes and dtypes.

    A gradient is one by elements, however the graph reaches them: a view as a source stands for
    what it is a view of. What is computed already has no graph: ask before the tensor, or what
    leads from a source to it, is realized, or use `svod_tensor.grad`, which does not depend on
    that.

    Args:
        sources: tensors of floats.
        cotangent: what each element of this tensor weighs, in its shape and dtype; it may be left
            out of one number.

    Raises:
        DerivativeError: if something is no float, this tensor is not one number and there is no
            cotangent, or it does not depend on a source.
        NotDifferentiableError: if it depends on one through what has no derivative.

    Example:
        >>> x, w = Tensor([1.0, 2.0]), Tensor([3.0, 4.0])
        >>> by_x, by_w = (x * w).sum().gradient(x, w)
        >>> by_x.tolist(), by_w.tolist()
        ([3.0, 4.0], [1.0, 2.0])
    """
    return make_gradients(x, sources, cotangent)
