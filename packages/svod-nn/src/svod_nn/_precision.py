"""Mixed precision: compute in bfloat16 or float16 with float32 parameters, and loss scaling."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from typing import Any, Protocol

from svod_nn._arguments import takes_tensors
from svod_nn._module import Module
from svod_nn._walk import map_leaves
from svod_nn._widening import widen
from svod_nn.errors import LayerArgumentError
from svod_tensor import DType, Tensor, bfloat16, float32

__all__ = ["LossScale", "ScaledOptimizer", "in_precision"]


def in_precision(model: Module, dtype: DType | str = bfloat16) -> Callable[..., Any]:
    """Return a function that runs a model in a narrow dtype, with float32 parameters and results.

    Parameters and floating-point arguments are cast to `dtype`, and results narrower than float32
    to float32; a float64 result, which the model asked for, stays. Gradients flow through the
    casts, so that they and the optimizer's updates are in float32, and small updates are not lost.
    Buffers, such as the statistics of BatchNorm, keep their dtype. Compute the loss outside of the
    function, in float32.

    Args:
        model: module with float32 parameters.
        dtype: bfloat16, which has the exponent range of float32, or float16, which needs a
            `LossScale`.

    Returns:
        a function with the arguments of the model.

    Source: Micikevicius et al., Mixed Precision Training (2018), section 3.1.

    Example:
        >>> from svod_nn import Linear, in_precision
        >>> from svod_tensor import Tensor, bfloat16
        >>> model = Linear(2, 1)
        >>> in_precision(model, bfloat16)(Tensor([[1.0, 2.0]])).dtype, model.weight.dtype
        (float32, float32)
    """

    def call(*args: Any, **kwargs: Any) -> Any:
        # Cast in each call: gradients flow through the casts to the float32 parameters.
        narrow = {name: parameter.cast(dtype) for name, parameter in model.named_parameters()}
        with model.replaced(narrow):
            result = model(*_cast_floats(args, dtype), **_cast_floats(kwargs, dtype))
        return map_leaves(result, Tensor, widen)

    return call


def _cast_floats(value: Any, dtype: DType | str) -> Any:
    return map_leaves(
        value, Tensor, lambda tensor: tensor.cast(dtype) if tensor.dtype.is_float else tensor
    )


class ScaledOptimizer(Protocol):
    """Optimizer whose step is skipped if `when` is False."""

    def update(self, gradients: Mapping[str, Tensor], *, when: Tensor | None = None) -> object: ...


class LossScale:
    """Dynamic loss scale, which keeps small float16 gradients from underflowing to 0.

    The loss is multiplied by the scale, and the gradients are divided by it. If a gradient is
    infinite or NaN, the step is skipped, parameters and optimizer state stay unchanged, and the
    scale is reduced; after `growth_interval` consecutive good steps it is increased. The state is
    held in tensors, so that a captured step needs no value on the host.

    Args:
        initial: initial scale.
        growth_factor: factor of the scale after `growth_interval` consecutive good steps.
        backoff_factor: factor of the scale after a skipped step.
        growth_interval: number of consecutive good steps before the scale grows.

    Attributes:
        scale: current scale, a tensor of float32.
        n_good: number of good steps since the scale last changed, a tensor of int32.

    Raises:
        LayerArgumentError: if an argument is out of range.

    Source: `torch.amp.GradScaler`, whose defaults these are; Micikevicius et al., Mixed Precision
    Training (2018), section 3.2.

    Example:
        >>> import svod_nn as nn
        >>> from svod_nn import LossScale
        >>> from svod_tensor import Tensor
        >>> scaling = LossScale(initial=1024.0)
        >>> scaling.scale_loss(Tensor(0.5)).item()
        512.0
        >>> gradients, is_good = scaling.unscale({"weight": Tensor([512.0, float("inf")])})
        >>> is_good.item()
        False
        >>> scaling.adapt(is_good)
        >>> resumed = LossScale()
        >>> resumed.load_state_dict(scaling.state_dict())
        >>> resumed.scale.item()
        512.0
        >>> optimizer = nn.SGD({"weight": Tensor([1.0, 2.0])}, lr=0.5)
        >>> scaling.update(optimizer, {"weight": Tensor([512.0, 0.0])}).item()
        True
    """

    def __init__(
        self,
        initial: float = 2.0**16,
        *,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
    ) -> None:
        if not (
            initial > 0 and growth_factor >= 1 and 0 < backoff_factor <= 1 and growth_interval >= 1
        ):
            raise LayerArgumentError(
                name="LossScale",
                problem=(
                    f"initial={initial}, growth_factor={growth_factor},"
                    f" backoff_factor={backoff_factor}, growth_interval={growth_interval}"
                ),
                hint=(
                    "initial must be positive, growth_factor at least 1, backoff_factor in (0, 1]"
                    " and growth_interval at least 1"
                ),
            )
        self.growth_factor, self.backoff_factor, self.growth_interval = (
            growth_factor,
            backoff_factor,
            growth_interval,
        )
        # Buffers and no numbers of Python: a compiled step reads and changes them.
        self.scale = Tensor.full((), float(initial), dtype=float32).realize()
        self.n_good = Tensor.zeros((), dtype="int32").realize()

    @takes_tensors
    def scale_loss(self, loss: Tensor) -> Tensor:
        """Multiply a loss by the scale."""
        return loss.mul(self.scale)

    def unscale(self, gradients: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], Tensor]:
        """Divide gradients of a scaled loss by the scale.

        Returns:
            the gradients in float32, and a bool tensor that is True if all of them are finite.
        """
        # The default scales are powers of two, so that scaling and its inverse are exact.
        factor = self.scale.reciprocal()
        # Cast first: unscaled in float16, small gradients would underflow after all.
        unscaled = {name: grad.cast(float32).mul(factor) for name, grad in gradients.items()}
        # One overflow spoils the whole step: all gradients are of the same scaled loss.
        finite = [gradient.isfinite().all() for gradient in unscaled.values()]
        return unscaled, reduce(Tensor.logical_and, finite, Tensor.full((), True))

    def update(self, optimizer: ScaledOptimizer, gradients: Mapping[str, Tensor]) -> Tensor:
        """Step an optimizer with unscaled gradients, unless they overflowed, and adapt the scale.

        Args:
            optimizer: optimizer whose `update` accepts `when`.
            gradients: gradients of `scale_loss(loss)`.

        Returns:
            a bool tensor that is True if the step was not skipped.
        """
        unscaled, is_good = self.unscale(gradients)
        optimizer.update(unscaled, when=is_good)
        self.adapt(is_good)
        return is_good

    @takes_tensors
    def adapt(self, is_good: Tensor) -> None:
        """Adapt the scale after a step; only needed if you call `unscale` and the optimizer yourself.

        Args:
            is_good: bool tensor returned by `unscale`.
        """
        n_good = self.n_good.add(1)
        grows = n_good.ge(self.growth_interval)
        larger = self.scale.mul(self.growth_factor)
        # The scale itself must not overflow: an infinite one would never recover.
        grown = grows.logical_and(larger.isfinite()).where(larger, self.scale)
        adapted = is_good.where(grown, self.scale.mul(self.backoff_factor))
        # Counted anew after each change of the scale, in either direction, so that it does not
        # oscillate.
        count = is_good.logical_and(grows.logical_not()).where(n_good, 0)
        self.scale.assign(adapted)
        self.n_good.assign(count.cast("int32"))

    def state_dict(self) -> dict[str, Tensor]:
        """Return the state as a dict, for `load_state_dict`."""
        return {"scale": self.scale, "n_good": self.n_good}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Restore a state returned by `state_dict`."""
        self.scale.assign(state["scale"])
        self.n_good.assign(state["n_good"])
