"""Initial values of parameters, as in `torch.nn.init`: each function returns a new tensor.

Replace the weight of a layer by `layer.weight = xavier_uniform(layer.weight.shape)`, before you
create an optimizer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, TypeAlias, get_args

from svod_nn._empty import initialize
from svod_nn.errors import LayerArgumentError
from svod_tensor import Generator, Tensor

__all__ = [
    "Nonlinearity",
    "constant",
    "get_gain",
    "kaiming_normal",
    "kaiming_uniform",
    "normal",
    "orthogonal",
    "truncated_normal",
    "uniform",
    "xavier_normal",
    "xavier_uniform",
]

Nonlinearity: TypeAlias = Literal["linear", "sigmoid", "tanh", "relu", "leaky_relu", "selu"]
"""Name of the nonlinearity that follows a layer."""

Fan: TypeAlias = Literal["fan_in", "fan_out"]


def constant(shape: Sequence[int], value: float) -> Tensor:
    """Tensor filled with one value.

    Args:
        shape: shape of the result.
        value: value of all elements.

    Example:
        >>> from svod_nn.initializers import constant
        >>> constant((2,), 0.5).tolist()
        [0.5, 0.5]
    """
    return initialize(shape, lambda sizes: Tensor.full(sizes, float(value)))


def uniform(
    shape: Sequence[int], low: float = 0.0, high: float = 1.0, *, generator: Generator | None = None
) -> Tensor:
    """Samples of the uniform distribution on [low, high).

    Args:
        shape: shape of the result.
        low: lower bound.
        high: upper bound.
        generator: random generator; by default the one seeded by `svod_tensor.manual_seed`.

    Example:
        >>> from svod_nn.initializers import uniform
        >>> x = uniform((3, 4), -0.5, 0.5)
        >>> x.shape, bool((x.abs() <= 0.5).all())
        ((3, 4), True)
    """
    return initialize(
        shape, lambda sizes: Tensor.uniform(sizes, low=low, high=high, generator=generator)
    )


def normal(
    shape: Sequence[int], mean: float = 0.0, std: float = 1.0, *, generator: Generator | None = None
) -> Tensor:
    """Samples of the normal distribution.

    Args:
        shape: shape of the result.
        mean: mean of the distribution.
        std: standard deviation of the distribution.
        generator: random generator; by default the one seeded by `svod_tensor.manual_seed`.

    Example:
        >>> from svod_nn.initializers import normal
        >>> normal((3, 4), std=0.02).shape
        (3, 4)
    """
    return initialize(
        shape, lambda sizes: Tensor.normal(sizes, mean=mean, std=std, generator=generator)
    )


def truncated_normal(
    shape: Sequence[int],
    mean: float = 0.0,
    std: float = 1.0,
    low: float = -2.0,
    high: float = 2.0,
    *,
    generator: Generator | None = None,
) -> Tensor:
    """Samples of the normal distribution truncated to [low, high].

    Args:
        shape: shape of the result.
        mean: mean of the normal distribution before truncation.
        std: standard deviation before truncation.
        low: smallest value, in absolute terms, not in multiples of `std`, as in PyTorch.
        high: largest value.
        generator: random generator; by default the one seeded by `svod_tensor.manual_seed`.

    Example:
        >>> from svod_nn.initializers import truncated_normal
        >>> bool((truncated_normal((100,), low=-1, high=1).abs() <= 1).all())
        True
    """
    return initialize(
        shape,
        lambda sizes: Tensor.truncated_normal(
            sizes, low=low, high=high, mean=mean, std=std, generator=generator
        ),
    )


def xavier_uniform(
    shape: Sequence[int], gain: float = 1.0, *, generator: Generator | None = None
) -> Tensor:
    """Xavier uniform initialization: variance `2 gain^2 / (fan_in + fan_out)`.

    The bounds are plus and minus `gain * sqrt(6 / (fan_in + fan_out))`.

    Args:
        shape: shape of a weight: (outputs, inputs, *kernel_size).
        gain: scale factor, see `get_gain`.
        generator: random generator; by default the one seeded by `svod_tensor.manual_seed`.

    Raises:
        LayerArgumentError: if `shape` has fewer than two axes.

    Source:
        Glorot and Bengio, Understanding the difficulty of training deep feedforward neural
        networks, 2010, equation 16.

    Example:
        >>> from svod_nn.initializers import xavier_uniform
        >>> xavier_uniform((3, 4)).shape
        (3, 4)
    """
    fan_in, fan_out = _count_fans("xavier_uniform", shape)
    # A uniform distribution on (-b, b) has the variance b**2 / 3, so this has that of
    # `xavier_normal`.
    bound = gain * math.sqrt(6 / (fan_in + fan_out))
    return uniform(shape, -bound, bound, generator=generator)


def xavier_normal(
    shape: Sequence[int], gain: float = 1.0, *, generator: Generator | None = None
) -> Tensor:
    """Xavier normal initialization: variance `2 gain^2 / (fan_in + fan_out)`.

    Args:
        shape: shape of a weight: (outputs, inputs, *kernel_size).
        gain: scale factor, see `get_gain`.
        generator: random generator; by default the one seeded by `svod_tensor.manual_seed`.

    Raises:
        LayerArgumentError: if `shape` has fewer than two axes.

    Source:
        Glorot and Bengio, Understanding the difficulty of training deep feedforward neural
        networks, 2010, equation 12, with a gain.

    Example:
        >>> from svod_nn.initializers import xavier_normal
        >>> xavier_normal((3, 4)).shape
        (3, 4)
    """
    fan_in, fan_out = _count_fans("xavier_normal", shape)
    return normal(shape, 0.0, gain * math.sqrt(2 / (fan_in + fan_out)), generator=generator)


def kaiming_uniform(
    shape: Sequence[int],
    slope: float = 0.0,
    mode: Fan = "fan_in",
    nonlinearity: Nonlinearity = "leaky_relu",
    *,
    generator: Generator | None = None,
) -> Tensor:
    """Kaiming (He) uniform initialization: variance `gain^2 / fan`.

    It preserves the variance of activations, or of gradients, from layer to layer. The bounds are
    plus and minus `gain * sqrt(3 / fan)`.

    Args:
        shape: shape of a weight: (outputs, inputs, *kernel_size).
        slope: negative slope, for `leaky_relu`.
        mode: "fan_in" preserves the variance of activations in the forward pass, "fan_out" the
            variance of gradients in the backward pass.
        nonlinearity: nonlinearity that follows the layer.
        generator: random generator; by default the one seeded by `svod_tensor.manual_seed`.

    Raises:
        LayerArgumentError: if `shape` has fewer than two axes, or the mode or the nonlinearity is
            unknown.

    Source:
        He et al., Delving deep into rectifiers, 2015, section 2.2.

    Example:
        >>> from svod_nn.initializers import kaiming_uniform
        >>> kaiming_uniform((8, 4, 3, 3)).shape
        (8, 4, 3, 3)
    """
    # A uniform distribution on (-b, b) has the standard deviation b / sqrt(3).
    bound = math.sqrt(3) * _get_kaiming_std("kaiming_uniform", shape, slope, mode, nonlinearity)
    return uniform(shape, -bound, bound, generator=generator)


def kaiming_normal(
    shape: Sequence[int],
    slope: float = 0.0,
    mode: Fan = "fan_in",
    nonlinearity: Nonlinearity = "leaky_relu",
    *,
    generator: Generator | None = None,
) -> Tensor:
    """Kaiming (He) normal initialization: variance `gain^2 / fan`.

    Args:
        shape: shape of a weight: (outputs, inputs, *kernel_size).
        slope: negative slope, for `leaky_relu`.
        mode: "fan_in" or "fan_out", see `kaiming_uniform`.
        nonlinearity: nonlinearity that follows the layer.
        generator: random generator; by default the one seeded by `svod_tensor.manual_seed`.

    Raises:
        LayerArgumentError: if `shape` has fewer than two axes, or the mode or the nonlinearity is
            unknown.

    Source:
        He et al., Delving deep into rectifiers, 2015, section 2.2.

    Example:
        >>> from svod_nn.initializers import kaiming_normal
        >>> kaiming_normal((8, 4, 3, 3), mode="fan_out", nonlinearity="relu").shape
        (8, 4, 3, 3)
    """
    return normal(
        shape,
        0.0,
        _get_kaiming_std("kaiming_normal", shape, slope, mode, nonlinearity),
        generator=generator,
    )


def orthogonal(
    shape: Sequence[int], gain: float = 1.0, *, generator: Generator | None = None
) -> Tensor:
    """Orthogonal initialization: a matrix with orthonormal rows or columns, times `gain`.

    The rows are orthonormal if there are at most as many as columns, else the columns.

    Args:
        shape: shape of at least two axes; the axes after the first are flattened to columns.
        gain: scale factor, see `get_gain`.
        generator: random generator; by default the one seeded by `svod_tensor.manual_seed`.

    Raises:
        LayerArgumentError: if `shape` has fewer than two axes.

    Source:
        Saxe et al., Exact solutions to the nonlinear dynamics of learning in deep linear neural
        networks, 2013; signs as in Mezzadri, How to generate random matrices from the classical
        compact groups, 2006, which make the distribution uniform.

    Example:
        >>> from svod_nn.initializers import orthogonal
        >>> w = orthogonal((2, 3))
        >>> (w @ w.T).round(5).abs().tolist()
        [[1.0, 0.0], [0.0, 1.0]]
    """
    _check_matrix("orthogonal", shape)
    return initialize(shape, lambda sizes: _sample_orthogonal(sizes, gain, generator))


def _sample_orthogonal(shape: tuple[int, ...], gain: float, generator: Generator | None) -> Tensor:
    import numpy as np

    n_rows, n_columns = shape[0], math.prod(shape[1:])
    # Tall: the columns of q are orthonormal, and a wide matrix is the transpose of a tall one.
    samples = Tensor.normal(
        max(n_rows, n_columns), min(n_rows, n_columns), generator=generator
    ).numpy()
    # By NumPy, on the host, and in float64, so that rounding to float32 is the only error.
    q, r = np.linalg.qr(samples.astype(np.float64))
    # A positive diagonal of r makes the factorization unique, and q uniformly distributed.
    q = q * np.sign(np.diag(r))
    matrix = q if n_rows >= n_columns else q.T
    return Tensor((gain * matrix).reshape(shape).astype(np.float32))


def get_gain(nonlinearity: Nonlinearity, slope: float = 0.01) -> float:
    """Recommended gain of the initialization of a layer, by the nonlinearity that follows it.

    The gain is 1 for "linear" and "sigmoid", 5/3 for "tanh", `sqrt(2)` for "relu",
    `sqrt(2 / (1 + slope**2))` for "leaky_relu", and 3/4 for "selu".

    Args:
        nonlinearity: one of these names.
        slope: negative slope of "leaky_relu".

    Raises:
        LayerArgumentError: if the nonlinearity is unknown.

    Source: `torch.nn.init.calculate_gain`.

    Example:
        >>> from svod_nn.initializers import get_gain
        >>> get_gain("tanh")
        1.6666666666666667
        >>> from svod_nn.initializers import Nonlinearity, xavier_normal
        >>> def make_weight(shape: tuple[int, int], nonlinearity: Nonlinearity):
        ...     return xavier_normal(shape, get_gain(nonlinearity))
        >>> make_weight((3, 4), "relu").shape
        (3, 4)
    """
    gains = {
        "linear": 1.0,
        "sigmoid": 1.0,
        "tanh": 5 / 3,
        "relu": math.sqrt(2),
        "leaky_relu": math.sqrt(2 / (1 + slope**2)),
        # As in torch, where it was found by experiment.
        "selu": 3 / 4,
    }
    if nonlinearity not in gains:
        raise LayerArgumentError(
            name="get_gain",
            problem=f"unsupported nonlinearity {nonlinearity!r}",
            hint=f"use one of {', '.join(gains)}",
        )
    return gains[nonlinearity]


def _get_kaiming_std(
    name: str, shape: Sequence[int], slope: float, mode: Fan, nonlinearity: Nonlinearity
) -> float:
    fan_in, fan_out = _count_fans(name, shape)
    if mode not in get_args(Fan):
        problem = f"mode must be {' or '.join(map(repr, get_args(Fan)))}, got {mode!r}"
        raise LayerArgumentError(name=name, problem=problem)
    fan = fan_in if mode == "fan_in" else fan_out
    # A layer without inputs has no weights: any scale will do.
    return get_gain(nonlinearity, slope) / math.sqrt(fan) if fan else 0.0


def _count_fans(name: str, shape: Sequence[int]) -> tuple[int, int]:
    """Return fan_in and fan_out: inputs of each output, and outputs of each input."""
    _check_matrix(name, shape)
    # Each output of a convolution sums over the kernel as well.
    size = math.prod(shape[2:])
    return shape[1] * size, shape[0] * size


def _check_matrix(name: str, shape: Sequence[int]) -> None:
    if len(shape) < 2:
        problem = f"expected a shape (outputs, inputs, ...) of at least 2 axes, got {tuple(shape)}"
        raise LayerArgumentError(name=name, problem=problem)
