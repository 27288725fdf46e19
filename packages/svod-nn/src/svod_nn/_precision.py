"""Mixed precision: what is computed in narrow floats while parameters stay float32, and losses that
are scaled for float16.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from typing import Any, Protocol

from svod_nn._module import Module
from svod_nn._walk import exchange_leaves
from svod_nn.errors import LayerArgumentError
from svod_tensor import DType, Tensor, bfloat16, float32

__all__ = ["LossScale", "ScaledOptimizer", "in_precision"]


def in_precision(model: Module, dtype: DType | str = bfloat16) -> Callable[..., Any]:
    """The model with its parameters, and what it is called with, cast to `dtype`; what it gives is
    cast to float32.

    Derivatives flow through the casts to the parameters themselves, and are of their dtype: the
    optimizer sees float32 alone, and small updates are not lost. Buffers, such as the statistics of
    BatchNorm, stay what they are. Losses belong outside.

    Args:
        model: whose parameters are float32.
        dtype: bfloat16, which has the exponents of float32 and needs nothing else; or float16,
            which needs a `LossScale`.

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
        narrow = {name: parameter.cast(dtype) for name, parameter in model.named_parameters()}
        with model.replaced(narrow):
            result = model(*_cast_floats(args, dtype), **_cast_floats(kwargs, dtype))
        return _cast_floats(result, float32)

    return call


def _cast_floats(value: Any, dtype: DType | str) -> Any:
    return exchange_leaves(
        value, Tensor, lambda tensor: tensor.cast(dtype) if tensor.dtype.is_float else tensor
    )


class ScaledOptimizer(Protocol):
    """An optimizer whose step may be left out by a tensor."""

    def update(self, gradients: Mapping[str, Tensor], *, when: Tensor | None = None) -> object: ...


class LossScale:
    """A factor that keeps small gradients of float16 from becoming 0, and finds itself how large it
    may be.

    The loss is multiplied by it, and the gradients are divided by it. A step whose gradients are
    infinite or NaN is left out, with the state of the optimizer, and the scale becomes smaller;
    after so many good steps in a row it becomes larger. All of that is in tensors: a captured step
    does it without reading a value.

    Args:
        initial: the first scale.
        growth_factor: by what it is multiplied after `growth_interval` good steps.
        backoff_factor: by what it is multiplied after a bad one.
        growth_interval: how many good steps in a row.

    Attributes:
        scale: the factor, a tensor of float32.
        n_good: how many steps were good since the scale changed, a tensor of int32.

    Raises:
        LayerArgumentError: if a factor goes the wrong way.

    Source: `torch.amp.GradScaler`, whose defaults these are; Micikevicius et al., Mixed Precision
    Training (2018), section 3.2.

    Example:
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
                hint="a scale is above 0, grows by at least 1, and backs off by at most 1",
            )
        self.growth_factor, self.backoff_factor, self.growth_interval = (
            growth_factor,
            backoff_factor,
            growth_interval,
        )
        self.scale = Tensor.full((), float(initial), dtype=float32).realize()
        self.n_good = Tensor.zeros((), dtype="int32").realize()

    def scale_loss(self, loss: Tensor) -> Tensor:
        """The loss whose gradients `unscale` takes."""
        return loss.mul(self.scale)

    def unscale(self, gradients: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], Tensor]:
        """The gradients of the loss itself, in float32, and whether all of them are finite."""
        factor = self.scale.reciprocal()
        plain = {name: gradient.cast(float32).mul(factor) for name, gradient in gradients.items()}
        good = [gradient.isfinite().all() for gradient in plain.values()]
        return plain, reduce(Tensor.logical_and, good, Tensor.full((), True))

    def update(self, optimizer: ScaledOptimizer, gradients: Mapping[str, Tensor]) -> Tensor:
        """One step of an optimizer with the gradients of the scaled loss, or none, and the next
        scale.

        Args:
            optimizer: whose `update` takes `when`.
            gradients: of `scale_loss(loss)`.

        Returns:
            whether the step was done.
        """
        plain, is_good = self.unscale(gradients)
        optimizer.update(plain, when=is_good)
        self.adapt(is_good)
        return is_good

    def adapt(self, is_good: Tensor) -> None:
        """Count a step, good or not, and change the scale: for who clips what `unscale` gives, and
        calls the optimizer.
        """
        n_good = self.n_good.add(1)
        grows = n_good.ge(self.growth_interval)
        larger = self.scale.mul(self.growth_factor)
        # One that would be infinite stays.
        grown = grows.logical_and(larger.isfinite()).where(larger, self.scale)
        after = is_good.where(grown, self.scale.mul(self.backoff_factor))
        count = is_good.logical_and(grows.logical_not()).where(n_good, 0)
        self.scale.assign(after)
        self.n_good.assign(count.cast("int32"))

    def state_dict(self) -> dict[str, Tensor]:
        """What `load_state_dict` goes on from."""
        return {"scale": self.scale, "n_good": self.n_good}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Go on from what `state_dict` gave."""
        self.scale.assign(state["scale"])
        self.n_good.assign(state["n_good"])
