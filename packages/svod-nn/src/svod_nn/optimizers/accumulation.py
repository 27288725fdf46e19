"""Gradient accumulation: one step with the mean gradient of several micro-batches."""

from __future__ import annotations

from svod_nn.optimizers.tensors import Parameters, check_gradient_names, name_tensors, widen
from svod_tensor import Tensor, int32

__all__ = ["GradientMean"]


class GradientMean:
    """Gradient accumulator: the mean of the gradients of several micro-batches.

    It trains with a large batch in the memory of a small one. `add` and `take` work inside `jit`;
    capture them in separate functions, one for a micro-batch and one for the step.

    Args:
        parameters: parameters of the gradients: a module, or nested lists and dicts of tensors.

    Example:
        >>> import svod_nn as nn
        >>> from svod_tensor import Tensor
        >>> w = Tensor([1.0, 1.0])
        >>> mean, optimizer = nn.GradientMean({"w": w}), nn.SGD({"w": w}, lr=1.0)
        >>> mean.add({"w": Tensor([1.0, 0.0])})
        >>> mean.add({"w": Tensor([0.0, 1.0])})
        >>> optimizer.update(mean.take())
        >>> w.tolist()
        [0.5, 0.5]
    """

    def __init__(self, parameters: Parameters) -> None:
        tensors = name_tensors(parameters)
        # Sums of many small gradients lose digits in narrow types, so these are in float32.
        self._sums = {name: widen(t).zeros_like() for name, t in tensors.items()}
        self._count = Tensor.full((), 0, dtype=int32)
        Tensor.realize_batch([*self._sums.values(), self._count])

    def add(self, gradients: object) -> None:
        """Add the gradients of a micro-batch, by parameter name or nested like the parameters.

        Raises:
            GradientNameError: if a gradient has no parameter.
            MissingGradientError: if a parameter has no gradient.
        """
        named = name_tensors(gradients)
        check_gradient_names("GradientMean", self._sums, named)
        for name, gradient in named.items():
            total = self._sums[name]
            # A sum rather than a running mean: one addition per element, and all gradients weigh
            # the same.
            total.assign(total + gradient.cast(total.dtype))
        self._count.assign(self._count + 1)

    def take(self) -> dict[str, Tensor]:
        """Return the mean gradients by name, and reset the accumulator."""
        # Without a single `add` the means are zeros, not NaN.
        count = self._count.maximum(1)
        means = {name: total / count.cast(total.dtype) for name, total in self._sums.items()}
        # Assigned after `means` is built from them: a lazy tensor keeps the values it was made of.
        for total in (*self._sums.values(), self._count):
            total.assign(total.zeros_like())
        return means
