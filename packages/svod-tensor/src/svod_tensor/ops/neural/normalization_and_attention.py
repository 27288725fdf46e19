"""Normalizations and attention.

Narrow floats (float16, bfloat16, float8) are computed in float32 and rounded once; results keep
the dtype of the input.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from svod_dtype import float32, promote_types
from svod_ir import ShapeError, format_shape
from svod_ir.sizes import normalize_size, product
from svod_tensor._shapes import Axes, concrete_shape, normalize_axes
from svod_tensor.ops.core.gradient_rules import gradient_rule, with_rule
from svod_tensor.ops.core.operands import to_float
from svod_tensor.ops.core.operation import operation
from svod_tensor.ops.core.reuse import reuse_graph
from svod_tensor.ops.core.rounding import accumulation_dtype, rounds_once
from svod_tensor.ops.neural.activation import softmax_rule
from svod_tensor.ops.statistics.moments import center, count_elements

if TYPE_CHECKING:
    from svod_tensor.tensor import Tensor

__all__ = [
    "batchnorm",
    "group_norm",
    "layernorm",
    "rms_norm",
    "scaled_dot_product_attention",
]


def _make_scale(x: Tensor, axis: Axes, eps: float) -> Tensor:
    """Reciprocal of the root mean square."""
    return x.square().mean(axis, keepdims=True).add(eps).rsqrt()


def _standardize(x: Tensor, axis: Axes, eps: float) -> tuple[Tensor, Tensor]:
    """Standardize `x` to mean 0 and variance 1; also return the reciprocal standard deviation."""
    difference, error, squares = center(x, axis)
    scale = squares.div(count_elements(x, axis, x.dtype)).add(eps).rsqrt()
    # In this form each element needs a single fused multiply-add.
    return difference.mul(scale).sub(error.mul(scale)), scale


@gradient_rule("layernorm", is_symmetric=True)
def _layernorm_gradient(
    cotangent: Tensor, value: Tensor, operands: tuple[Tensor], _: object, axis: Axes, eps: float
) -> tuple[Tensor]:
    """Component of the cotangent orthogonal to the value and to constants, scaled like the
    value.
    """
    _, scale = _standardize(operands[0], axis, eps)
    along = cotangent.mul(value).mean(axis, keepdims=True)
    return (cotangent.sub(cotangent.mean(axis, keepdims=True)).sub(value.mul(along)).mul(scale),)


@gradient_rule("rms-norm", is_symmetric=True)
def _rms_norm_gradient(
    cotangent: Tensor, value: Tensor, operands: tuple[Tensor], _: object, axis: Axes, eps: float
) -> tuple[Tensor]:
    """Component of the cotangent orthogonal to the value, scaled like the value."""
    along = cotangent.mul(value).mean(axis, keepdims=True)
    return (cotangent.sub(value.mul(along)).mul(_make_scale(operands[0], axis, eps)),)


@operation(test="test_neural.py::test_normalizations_agree_with_their_formulas", is_function=False)
@reuse_graph
@rounds_once
def layernorm(
    x: Tensor,
    /,
    axis: Axes = -1,
    eps: float = 1e-5,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
) -> Tensor:
    """Layer normalization `(x - mean) / sqrt(var + eps) * weight + bias`, with the mean and
    variance over `axis`. Integers become float32.

    Args:
        axis: axis or axes to normalize over.
        eps: added to the variance.
        weight: scale, which broadcasts to the shape of `x`.
        bias: offset, which broadcasts to the shape of `x`.

    Raises:
        AxisError: if an axis is out of bounds.

    Source: Ba et al., Layer Normalization (2016), equation 4.

    Example:
        >>> from svod_tensor import Tensor
        >>> Tensor([[1.0, 2.0, 3.0]]).layernorm().round(4).numpy()
        array([[-1.2247,  0.    ,  1.2247]], dtype=float32)
    """
    x = to_float(x)
    value, _ = _standardize(x, axis, eps)
    axes = normalize_axes("layernorm", axis, x.ndim)
    return _affine(with_rule(_layernorm_gradient, value, (x,), axes, float(eps)), weight, bias)


@operation(test="test_neural.py::test_normalizations_agree_with_their_formulas", is_function=False)
@reuse_graph
@rounds_once
def rms_norm(
    x: Tensor, /, axis: Axes = -1, eps: float = 1e-6, weight: Tensor | None = None
) -> Tensor:
    """Root mean square normalization `x / sqrt(mean(x ** 2) + eps) * weight`, with the mean over
    `axis`. Integers become float32.

    Args:
        axis: axis or axes to normalize over.
        eps: added to the mean square.
        weight: scale, which broadcasts to the shape of `x`.

    Raises:
        AxisError: if an axis is out of bounds.

    Source: Zhang and Sennrich, Root Mean Square Layer Normalization (2019), equation 4.

    Example:
        >>> from svod_tensor import Tensor
        >>> Tensor([[3.0, 4.0]]).rms_norm().round(4).numpy()
        array([[0.8485, 1.1314]], dtype=float32)
    """
    x = to_float(x)
    value = x.mul(_make_scale(x, axis, eps))
    return _affine(
        with_rule(
            _rms_norm_gradient, value, (x,), normalize_axes("rms_norm", axis, x.ndim), float(eps)
        ),
        weight,
        None,
    )


@operation(test="test_neural.py::test_normalizations_agree_with_their_formulas", is_function=False)
@reuse_graph
@rounds_once
def group_norm(
    x: Tensor,
    /,
    n_groups: int,
    eps: float = 1e-5,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
) -> Tensor:
    """Group normalization `(x - mean) / sqrt(var + eps) * weight + bias` of a tensor of shape
    (batch, channels, ...), with the mean and variance of each group of channels of each sample.
    Integers become float32.

    Args:
        n_groups: number of groups of channels.
        eps: added to the variance.
        weight: scale of shape (channels,).
        bias: offset of shape (channels,).

    Raises:
        ShapeError: if the number of channels is not divisible by `n_groups`.

    Source: Wu and He, Group Normalization (2018), section 3.1.

    Example:
        >>> from svod_tensor import Tensor
        >>> Tensor([[[1.0], [3.0], [5.0], [5.0]]]).group_norm(2).round(3).numpy()
        array([[[-1.],
                [ 1.],
                [ 0.],
                [ 0.]]], dtype=float32)
    """
    if x.ndim < 2:
        raise ShapeError(
            operation="group_norm",
            shape=x.shape,
            problem=(
                f"expected an input of shape (batch, channels, ...), got {format_shape(x.shape)}"
            ),
        )
    (channels,) = concrete_shape("group_norm", x.shape[1:2])
    if n_groups < 1 or channels % n_groups:
        raise ShapeError(
            operation="group_norm",
            shape=x.shape,
            problem=(
                f"number of channels ({channels}) must be divisible by the number of"
                f" groups ({n_groups})"
            ),
        )
    each = normalize_size(channels // n_groups * product(x.shape[2:]))
    # A group is one row of a layer normalization, whose gradient rule it then has.
    normal = x.reshape(x.shape[0], n_groups, each).layernorm(-1, eps).reshape(x.shape)
    aligned = [
        p if p is None else p.reshape(1, channels, *(1,) * (x.ndim - 2)) for p in (weight, bias)
    ]
    return _affine(normal, *aligned)


@operation(test="test_neural.py::test_normalizations_agree_with_their_formulas", is_function=False)
@reuse_graph
@rounds_once
def batchnorm(
    x: Tensor,
    /,
    mean: Tensor,
    variance: Tensor,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Batch normalization `(x - mean) / sqrt(variance + eps) * weight + bias` with given
    statistics, of a tensor of shape (batch, channels, ...).

    Args:
        mean: mean of shape (channels,).
        variance: variance of shape (channels,).
        weight: scale of shape (channels,).
        bias: offset of shape (channels,).
        eps: added to the variance.

    Raises:
        ShapeError: if there are fewer than two axes.

    Source: Ioffe and Szegedy, Batch Normalization (2015), algorithm 2.

    Example:
        >>> from svod_tensor import Tensor
        >>> Tensor([[1.0, 8.0]]).batchnorm(Tensor([0.0, 4.0]), Tensor([1.0, 4.0]), eps=0.0).tolist()
        [[1.0, 2.0]]
    """
    if x.ndim < 2:
        raise ShapeError(
            operation="batchnorm",
            shape=x.shape,
            problem=(
                f"expected an input of shape (batch, channels, ...), got {format_shape(x.shape)}"
            ),
        )
    shape = (1, -1, *(1,) * (x.ndim - 2))
    scale = variance.add(eps).rsqrt()
    # Combined for each channel, so that an element takes one multiplication.
    scale = scale if weight is None else scale.mul(weight)
    shifted = x.sub(mean.reshape(shape)).mul(scale.reshape(shape))
    return shifted if bias is None else shifted.add(bias.reshape(shape))


@operation(test="test_neural.py::test_attention_agrees_with_its_formula", is_function=False)
@reuse_graph
def scaled_dot_product_attention(
    x: Tensor,
    /,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    *,
    is_causal: bool = False,
    scale: float | None = None,
) -> Tensor:
    """Scaled dot product attention, `softmax(q @ k.T * scale + mask) @ v`, with queries `x` of shape
    (..., n, d): shape (..., n, e).

    A query with all keys masked gives zeros. For float16 and bfloat16, the attention weights are
    rounded to that dtype, since the second product runs on matrix units, which require it.

    Args:
        key: keys of shape (..., m, d).
        value: values of shape (..., m, e).
        mask: attention mask of shape (..., n, m): bool, True where a query may attend to a key, or
            numbers that are added to the scores.
        is_causal: whether query i attends only to keys 0 to i.
        scale: factor of the scores; by default `1 / sqrt(d)`.

    Raises:
        ShapeError: if an operand has fewer than two axes, or the sizes do not match.

    Source: Vaswani et al., Attention Is All You Need (2017), equation 1.

    Example:
        >>> from svod_tensor import Tensor
        >>> q, v = Tensor([[1.0, 0.0]]), Tensor([[1.0], [3.0]])
        >>> q.scaled_dot_product_attention(Tensor([[0.0, 1.0], [0.0, 2.0]]), v).tolist()
        [[2.0]]
    """
    for operand in (x, key, value):
        if operand.ndim < 2:
            raise ShapeError(
                operation="scaled_dot_product_attention",
                shape=operand.shape,
                problem=(
                    "expected operands of shape (..., length, features), got"
                    f" {format_shape(operand.shape)}"
                ),
            )
    (depth,) = concrete_shape("scaled_dot_product_attention", x.shape[-1:])
    factor = 1.0 / math.sqrt(depth) if scale is None else scale
    kind = promote_types(promote_types(x.dtype, key.dtype), value.dtype)
    kind = kind if kind.is_float else float32
    # float16 scores would overflow above 65504, and the softmax amplifies their rounding errors.
    scores = x.matmul(key.transpose(-2, -1), dtype=accumulation_dtype(kind)).mul(factor)
    allowed = mask if mask is not None and mask.dtype.is_bool else None
    if is_causal:
        causal = x.ones(*scores.shape[-2:], dtype="bool").tril()
        allowed = causal if allowed is None else allowed.logical_and(causal)
    if mask is not None and not mask.dtype.is_bool:
        scores = scores.add(mask)
    if allowed is not None:
        # exp(-inf) is exactly 0, so a masked key has no weight, whatever its score.
        scores = allowed.where(scores, -math.inf)
    if mask is not None or allowed is not None:
        # A row with all keys masked would be NaN; its weights are 0 instead.
        peak = scores.max(-1, keepdims=True)
        power = scores.sub(peak.isfinite().where(peak, 0.0)).exp()
        total = power.sum(-1, keepdims=True)
        weights = softmax_rule(power.div(total.eq(0).where(1.0, total)), scores, -1)
    else:
        weights = scores.softmax(-1)
    # float8 has too few digits for weights that sum to 1.
    operand = weights.cast(kind) if kind.itemsize > 1 else weights
    return operand.matmul(value, dtype=accumulation_dtype(kind)).cast(kind)


def _affine(normal: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    scaled = normal if weight is None else normal.mul(weight)
    return scaled if bias is None else scaled.add(bias)
