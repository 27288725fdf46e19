"""Activations, and Dropout."""

from __future__ import annotations

from collections.abc import Callable

from svod_onnx._registry import Known, operator
from svod_onnx._trace import Call
from svod_tensor import Tensor

__all__ = [
    "activation",
    "celu",
    "drop",
    "dropout",
    "dropout_since_1",
    "dropout_since_7",
    "elu",
    "gelu",
    "hard_sigmoid",
    "hard_swish",
    "leaky_relu",
    "prelu",
    "prelu_since_1",
    "selu",
    "shrink",
    "swish",
    "thresholded_relu",
]


def _in_float32(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """`function` of elements, of which narrow ones are computed with as float32, and rounded once."""
    if x.dtype.is_float and x.dtype.itemsize < 4:
        return function(x.cast("float32")).cast(x.dtype)
    return function(x)


_PLAIN = {"Mish": "mish", "Relu": "relu", "Sigmoid": "sigmoid", "Softplus": "softplus", "Softsign": "softsign"}


@operator(*_PLAIN)
def activation(node: Call, x: Tensor, *, consumed_inputs: list[int] | None = None) -> Tensor:
    del consumed_inputs
    return getattr(x, _PLAIN[node.operator])()


@operator("LeakyRelu")
def leaky_relu(x: Tensor, *, alpha: float = 0.01, consumed_inputs: list[int] | None = None) -> Tensor:
    del consumed_inputs
    return x.leaky_relu(alpha)


@operator("PRelu", since=7)
def prelu(x: Tensor, slope: Tensor) -> Tensor:
    """The slope broadcasts to the shape of `x`, never the other way round."""
    return x.lt(0).where(x.mul(slope.expand(x.shape)), x)


@operator("PRelu")
def prelu_since_1(x: Tensor, slope: Tensor, *, consumed_inputs: list[int] | None = None) -> Tensor:
    """A slope of one axis has a number for each channel, which are along axis 1."""
    del consumed_inputs
    if slope.ndim == 1 and slope.shape[0] != 1 and x.ndim > 1:
        slope = slope.reshape(-1, *(1,) * (x.ndim - 2))
    return prelu(x, slope)


@operator("Elu")
def elu(x: Tensor, *, alpha: float = 1.0, consumed_inputs: list[int] | None = None) -> Tensor:
    del consumed_inputs
    return x.elu(alpha)


@operator("Selu")
def selu(
    node: Call,
    x: Tensor,
    *,
    alpha: float | None = None,
    gamma: float | None = None,
    consumed_inputs: list[int] | None = None,
) -> Tensor:
    """The constants have more digits from version 6 on."""
    del consumed_inputs
    slope, scale = (1.6732, 1.0507) if node.version < 6 else (1.6732632423543772, 1.0507009873554805)
    slope, scale = slope if alpha is None else alpha, scale if gamma is None else gamma
    return _in_float32(lambda wide: wide.elu(slope).mul(scale), x)


@operator("Celu", since=12)
def celu(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    """`max(0, x) + min(0, alpha * (exp(x / alpha) - 1))`."""
    return _in_float32(lambda wide: wide.maximum(0).add(wide.div(alpha).expm1().mul(alpha).minimum(0)), x)


@operator("HardSigmoid")
def hard_sigmoid(
    x: Tensor, *, alpha: float = 0.2, beta: float = 0.5, consumed_inputs: list[int] | None = None
) -> Tensor:
    del consumed_inputs
    return _in_float32(lambda wide: wide.mul(alpha).add(beta).clip(0, 1), x)


@operator("HardSwish", since=14)
def hard_swish(x: Tensor) -> Tensor:
    return x.hardswish()


@operator("ThresholdedRelu", since=10)
def thresholded_relu(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    return x.gt(alpha).where(x, 0)


@operator("Gelu", since=20)
def gelu(x: Tensor, *, approximate: str = "none") -> Tensor:
    return x.gelu(approximate)


@operator("Swish", since=24)
def swish(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    return x.silu() if alpha == 1 else _in_float32(lambda wide: wide.mul(wide.mul(alpha).sigmoid()), x)


@operator("Shrink", since=9)
def shrink(input: Tensor, *, bias: float = 0.0, lambd: float = 0.5) -> Tensor:
    """`x + bias` below `-lambd`, `x - bias` above `lambd`, and 0 between them, in the dtype of `input`."""
    inner = input.gt(lambd).where(input.sub(bias), 0)
    return input.lt(-lambd).where(input.add(bias), inner).cast(input.dtype)


@operator("Dropout", since=12, is_random=True)
def dropout(
    node: Call,
    data: Tensor,
    ratio: Tensor | None = None,
    training_mode: Known | None = None,
    *,
    seed: int | None = None,
) -> tuple[Tensor, Tensor]:
    """Each element with probability 1 - `ratio`, scaled to keep the mean; and which are kept. All are unless `training_mode` is set."""
    if training_mode is None or not training_mode.any():
        return data, _keep_all(data)
    return drop(node, data, 0.5 if ratio is None else ratio.reshape(()), seed)


def drop(node: Call, x: Tensor, ratio: Tensor | float, seed: int | None) -> tuple[Tensor, Tensor]:
    """What is left of a draw, and whether each element is."""
    chance = ratio.cast("float32") if isinstance(ratio, Tensor) else ratio
    keep = Tensor.rand(*x.shape, seed=seed, device=node.trace.device).ge(chance)
    kept = _in_float32(lambda wide: wide.div(1 - chance), x).cast(x.dtype)
    return keep.where(kept, 0), keep


def _keep_all(x: Tensor) -> Tensor:
    return x.ones_like(dtype="bool")


@operator("Dropout", since=7)
def dropout_since_7(node: Call, data: Tensor, *, ratio: float = 0.5) -> tuple[Tensor, Tensor]:
    """Versions 7 and 10 are for inference alone. The mask is one of bools from version 10 on."""
    del ratio
    mask = _keep_all(data)
    return data, mask if node.version >= 10 else mask.cast(data.dtype)


@operator("Dropout", is_random=True)
def dropout_since_1(
    node: Call, data: Tensor, *, ratio: float = 0.5, is_test: int = 0, consumed_inputs: list[int] | None = None
) -> tuple[Tensor, Tensor]:
    del consumed_inputs
    if is_test:
        return data, _keep_all(data).cast(data.dtype)
    value, keep = drop(node, data, ratio, None)
    return value, keep.cast(data.dtype)
