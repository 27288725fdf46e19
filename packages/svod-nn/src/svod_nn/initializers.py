"""Values that parameters begin with: each function makes a tensor of a shape, of random numbers of
a generator where it draws.

A layer's weight is replaced by `layer.weight = xavier_uniform(layer.weight.shape)`, before an
optimizer is made of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, TypeAlias

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
"""What follows a layer."""

Fan: TypeAlias = Literal["fan_in", "fan_out"]


def constant(shape: Sequence[int], value: float) -> Tensor:
    """The same value everywhere.

    Example:
        >>> constant((2,), 0.5).tolist()
        [0.5, 0.5]
    """
    return initialize(shape, lambda sizes: Tensor.full(sizes, float(value)))


def uniform(
    shape: Sequence[int], low: float = 0.0, high: float = 1.0, *, generator: Generator | None = None
) -> Tensor:
    """Numbers from `low` up to `high`, uniformly distributed.

    Example:
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
    """Normally distributed numbers.

    Example:
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
    """Normally distributed numbers, of which those outside `low` and `high` are never drawn: bounds
    of values, not of multiples of `std`, as in PyTorch.

    Example:
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
    """Uniformly distributed numbers with variance `2 gain^2 / (fan_in + fan_out)`.

    Source:
        Glorot and Bengio, Understanding the difficulty of training deep feedforward neural
        networks, 2010, equation 16.

    Example:
        >>> xavier_uniform((3, 4)).shape
        (3, 4)
    """
    fan_in, fan_out = _count_fans(shape)
    bound = gain * math.sqrt(6 / (fan_in + fan_out))
    return uniform(shape, -bound, bound, generator=generator)


def xavier_normal(
    shape: Sequence[int], gain: float = 1.0, *, generator: Generator | None = None
) -> Tensor:
    """Normally distributed numbers with variance `2 gain^2 / (fan_in + fan_out)`.

    Example:
        >>> xavier_normal((3, 4)).shape
        (3, 4)
    """
    fan_in, fan_out = _count_fans(shape)
    return normal(shape, 0.0, gain * math.sqrt(2 / (fan_in + fan_out)), generator=generator)


def kaiming_uniform(
    shape: Sequence[int],
    slope: float = 0.0,
    mode: Fan = "fan_in",
    nonlinearity: Nonlinearity = "leaky_relu",
    *,
    generator: Generator | None = None,
) -> Tensor:
    """Uniformly distributed numbers with variance `gain^2 / fan`: activations keep their size from
    layer to layer.

    Args:
        shape: of a weight: outputs, inputs, and the sizes of a kernel.
        slope: of `leaky_relu` below 0.
        mode: whether activations keep their size (`fan_in`), or gradients.
        nonlinearity: what follows the layer.
        generator: what is drawn from.

    Source:
        He et al., Delving deep into rectifiers, 2015, section 2.2.

    Example:
        >>> kaiming_uniform((8, 4, 3, 3)).shape
        (8, 4, 3, 3)
    """
    bound = math.sqrt(3) * _get_kaiming_std(shape, slope, mode, nonlinearity)
    return uniform(shape, -bound, bound, generator=generator)


def kaiming_normal(
    shape: Sequence[int],
    slope: float = 0.0,
    mode: Fan = "fan_in",
    nonlinearity: Nonlinearity = "leaky_relu",
    *,
    generator: Generator | None = None,
) -> Tensor:
    """Normally distributed numbers with variance `gain^2 / fan`; see `kaiming_uniform`.

    Example:
        >>> kaiming_normal((8, 4, 3, 3), mode="fan_out", nonlinearity="relu").shape
        (8, 4, 3, 3)
    """
    return normal(
        shape, 0.0, _get_kaiming_std(shape, slope, mode, nonlinearity), generator=generator
    )


def orthogonal(
    shape: Sequence[int], gain: float = 1.0, *, generator: Generator | None = None
) -> Tensor:
    """A matrix whose rows, or columns if there are more rows, are orthonormal, times `gain`; the
    axes behind the first are one.

    Source:
        Saxe et al., Exact solutions to the nonlinear dynamics of learning in deep linear neural
        networks, 2013; signs as Mezzadri, How to generate random matrices from the classical
        compact groups, 2006, makes them uniform.

    Example:
        >>> w = orthogonal((2, 3))
        >>> (w @ w.T).round(5).abs().tolist()
        [[1.0, 0.0], [0.0, 1.0]]
    """
    _check_matrix(shape)
    return initialize(shape, lambda sizes: _draw_orthogonal(sizes, gain, generator))


def _draw_orthogonal(shape: tuple[int, ...], gain: float, generator: Generator | None) -> Tensor:
    import numpy as np

    n_rows, n_columns = shape[0], math.prod(shape[1:])
    drawn = Tensor.normal(
        max(n_rows, n_columns), min(n_rows, n_columns), generator=generator
    ).numpy()
    q, r = np.linalg.qr(drawn.astype(np.float64))
    q = q * np.sign(np.diag(r))
    matrix = q if n_rows >= n_columns else q.T
    return Tensor((gain * matrix).reshape(shape).astype(np.float32))


def get_gain(nonlinearity: Nonlinearity, slope: float = 0.01) -> float:
    """By how much a layer must grow its inputs for the nonlinearity behind it to give them back
    their size.

    Example:
        >>> get_gain("tanh")
        1.6666666666666667
    """
    gains = {
        "linear": 1.0,
        "sigmoid": 1.0,
        "tanh": 5 / 3,
        "relu": math.sqrt(2),
        "leaky_relu": math.sqrt(2 / (1 + slope**2)),
        "selu": 3 / 4,
    }
    if nonlinearity not in gains:
        raise LayerArgumentError(
            name="get_gain", problem=f"{nonlinearity!r} is none of {', '.join(gains)}"
        )
    return gains[nonlinearity]


def _get_kaiming_std(
    shape: Sequence[int], slope: float, mode: Fan, nonlinearity: Nonlinearity
) -> float:
    fan_in, fan_out = _count_fans(shape)
    fan = fan_in if mode == "fan_in" else fan_out
    return get_gain(nonlinearity, slope) / math.sqrt(fan) if fan else 0.0


def _count_fans(shape: Sequence[int]) -> tuple[int, int]:
    """How many inputs an output of a layer has, and how many outputs an input."""
    _check_matrix(shape)
    size = math.prod(shape[2:])
    return shape[1] * size, shape[0] * size


def _check_matrix(shape: Sequence[int]) -> None:
    if len(shape) < 2:
        problem = f"the shape {tuple(shape)} has no axis of inputs behind that of outputs"
        raise LayerArgumentError(name="initializer", problem=problem)
