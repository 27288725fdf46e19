"""Gradients of a graph with respect to tensors that it is built from."""

from __future__ import annotations

from svod_tensor.gradients.graph_gradient import make_gradients
from svod_tensor.ops.core.operation import operation
from svod_tensor.tensor import Tensor

__all__ = ["gradient"]


@operation(
    test="test_derivatives.py::test_a_graph_gradient_is_with_respect_to_the_elements_of_its_sources",
    is_function=False,
)
def gradient(x: Tensor, /, *sources: Tensor, cotangent: Tensor | None = None) -> tuple[Tensor, ...]:
    """Compute the gradients of this tensor with respect to `sources`, in their shapes and dtypes.

    The gradient is taken with respect to elements, however the graph reads them: a view as a source
    represents the elements of its base. A realized tensor has no graph: call this before the tensor
    or an intermediate result is realized, or use `svod_tensor.grad`, which has no such restriction.

    Args:
        sources: floating-point tensors.
        cotangent: weight of each element, in the shape and dtype of this tensor; optional for a
            scalar.

    Raises:
        DerivativeError: if a tensor is not floating-point, this tensor is not a scalar and there is
            no cotangent, or it does not depend on a source.
        NotDifferentiableError: if it depends on a source through an operation without derivative.

    Example:
        >>> from svod_tensor import Tensor
        >>> x, w = Tensor([1.0, 2.0]), Tensor([3.0, 4.0])
        >>> by_x, by_w = (x * w).sum().gradient(x, w)
        >>> by_x.tolist(), by_w.tolist()
        ([3.0, 4.0], [1.0, 2.0])
    """
    return make_gradients(x, sources, cotangent)
