"""Activations and Dropout."""

from __future__ import annotations

from collections.abc import Callable

from svod_onnx._registry import Known, operator
from svod_onnx._trace import Call
from svod_tensor import Tensor

__all__ = [
    "activation",
    "apply_dropout",
    "celu",
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
    """Apply `function` to elements, in float32 for half-precision dtypes, so that the result is
    rounded once.
    """
    if x.dtype.is_float and x.dtype.itemsize < 4:
        return function(x.cast("float32")).cast(x.dtype)
    return function(x)


_PLAIN = {
    "Mish": "mish",
    "Relu": "relu",
    "Sigmoid": "sigmoid",
    "Softplus": "softplus",
    "Softsign": "softsign",
}


@operator(*_PLAIN)
def activation(node: Call, x: Tensor, *, consumed_inputs: list[int] | None = None) -> Tensor:
    """Elementwise activation without parameters."""
    # A hint about memory reuse in versions up to 5, without effect on the result.
    del consumed_inputs
    return getattr(x, _PLAIN[node.operator])()


@operator("LeakyRelu")
def leaky_relu(
    x: Tensor, *, alpha: float = 0.01, consumed_inputs: list[int] | None = None
) -> Tensor:
    """`x` for positive elements, otherwise `alpha * x`."""
    del consumed_inputs
    return x.leaky_relu(alpha)


@operator("PRelu", since=7)
def prelu(x: Tensor, slope: Tensor) -> Tensor:
    """`x` for positive elements, otherwise `slope * x`.

    The slope broadcasts to the shape of `x`, not vice versa.
    """
    return x.lt(0).where(x.mul(slope.expand(x.shape)), x)


@operator("PRelu")
def prelu_since_1(x: Tensor, slope: Tensor, *, consumed_inputs: list[int] | None = None) -> Tensor:
    """PRelu up to version 6. A slope of rank 1 has an element for each channel, along axis 1."""
    del consumed_inputs
    # Trailing axes of size 1 align the slope with axis 1 instead of the last axis.
    if slope.ndim == 1 and slope.shape[0] != 1 and x.ndim > 1:
        slope = slope.reshape(-1, *(1,) * (x.ndim - 2))
    return prelu(x, slope)


@operator("Elu")
def elu(x: Tensor, *, alpha: float = 1.0, consumed_inputs: list[int] | None = None) -> Tensor:
    """`x` for positive elements, otherwise `alpha * (exp(x) - 1)`."""
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
    """Scaled ELU. Its default constants have more digits from version 6 on."""
    del consumed_inputs
    # As in the specification of each version.
    slope, scale = (
        (1.6732, 1.0507) if node.version < 6 else (1.6732632423543772, 1.0507009873554805)
    )
    slope, scale = slope if alpha is None else alpha, scale if gamma is None else gamma
    return _in_float32(lambda wide: wide.elu(slope).mul(scale), x)


@operator("Celu", since=12)
def celu(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    """`max(0, x) + min(0, alpha * (exp(x / alpha) - 1))`."""
    return _in_float32(
        lambda wide: wide.maximum(0).add(wide.div(alpha).expm1().mul(alpha).minimum(0)), x
    )


@operator("HardSigmoid")
def hard_sigmoid(
    x: Tensor, *, alpha: float = 0.2, beta: float = 0.5, consumed_inputs: list[int] | None = None
) -> Tensor:
    """`max(0, min(1, alpha * x + beta))`."""
    del consumed_inputs
    return _in_float32(lambda wide: wide.mul(alpha).add(beta).clip(0, 1), x)


@operator("HardSwish", since=14)
def hard_swish(x: Tensor) -> Tensor:
    """`x * max(0, min(1, x / 6 + 0.5))`."""
    return x.hardswish()


@operator("ThresholdedRelu", since=10)
def thresholded_relu(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    """`x` above `alpha`, otherwise 0."""
    return x.gt(alpha).where(x, 0)


@operator("Gelu", since=20)
def gelu(x: Tensor, *, approximate: str = "none") -> Tensor:
    """GELU, exact or by the tanh approximation."""
    return x.gelu(approximate)


@operator("Swish", since=24)
def swish(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    """`x * sigmoid(alpha * x)`."""
    return (
        x.silu() if alpha == 1 else _in_float32(lambda wide: wide.mul(wide.mul(alpha).sigmoid()), x)
    )


@operator("Shrink", since=9)
def shrink(input: Tensor, *, bias: float = 0.0, lambd: float = 0.5) -> Tensor:
    """`input + bias` below `-lambd`, `input - bias` above `lambd`, and 0 between them, in the dtype
    of `input`.
    """
    inner = input.gt(lambd).where(input.sub(bias), 0)
    # A float bias makes integers floats.
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
    """Zero elements with probability `ratio`, and scale the others to keep the mean. Return the
    result and the mask.

    Without `training_mode`, all elements are kept.
    """
    # `training_mode` is a `Known`: its value decides the graph, not an element of it.
    if training_mode is None or not training_mode.any():
        return data, _make_full_mask(data)
    return apply_dropout(node, data, 0.5 if ratio is None else ratio.reshape(()), seed)


def apply_dropout(
    node: Call, x: Tensor, ratio: Tensor | float, seed: int | None
) -> tuple[Tensor, Tensor]:
    """Result of dropout, and the mask of the remaining elements."""
    probability = ratio.cast("float32") if isinstance(ratio, Tensor) else ratio
    # Samples are below 1, so a ratio of 0 keeps all elements.
    mask = Tensor.rand(*x.shape, seed=seed, device=node.trace.device).ge(probability)
    scaled = _in_float32(lambda wide: wide.div(1 - probability), x).cast(x.dtype)
    return mask.where(scaled, 0), mask


def _make_full_mask(x: Tensor) -> Tensor:
    return x.ones_like(dtype="bool")


@operator("Dropout", since=7)
def dropout_since_7(node: Call, data: Tensor, *, ratio: float = 0.5) -> tuple[Tensor, Tensor]:
    """Dropout of versions 7 and 10, for inference only. The mask is boolean from version 10 on."""
    # These versions only define inference, which keeps all elements.
    del ratio
    mask = _make_full_mask(data)
    return data, mask if node.version >= 10 else mask.cast(data.dtype)


@operator("Dropout", is_random=True)
def dropout_since_1(
    node: Call,
    data: Tensor,
    *,
    ratio: float = 0.5,
    is_test: int = 0,
    consumed_inputs: list[int] | None = None,
) -> tuple[Tensor, Tensor]:
    """Dropout up to version 6, with a mask in the dtype of `data`."""
    del consumed_inputs
    if is_test:
        return data, _make_full_mask(data).cast(data.dtype)
    value, mask = apply_dropout(node, data, ratio, None)
    return value, mask.cast(data.dtype)
