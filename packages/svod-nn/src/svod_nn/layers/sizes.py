"""Arguments that are one number for all spatial axes, or one for each."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias

from svod_nn.errors import LayerArgumentError
from svod_tensor import Tensor

__all__ = ["Sizes", "check_axes", "check_sample_count", "to_sizes"]

Sizes: TypeAlias = int | Sequence[int]
"""A number for all axes, or one for each."""


def to_sizes(
    name: str, argument: str, value: Sizes, n_axes: int, least: int = 1
) -> tuple[int, ...]:
    """One number for each axis.

    Raises:
        LayerArgumentError: if there are more or less, or one is less than `least`.
    """
    sizes = (value,) * n_axes if isinstance(value, int) else tuple(value)
    if len(sizes) != n_axes or any(size < least for size in sizes):
        raise LayerArgumentError(
            name=name, problem=f"{argument}={value!r} is not {n_axes} numbers of at least {least}"
        )
    return sizes


def check_axes(name: str, shape: tuple[object, ...], allowed: Sequence[int]) -> None:
    """Check that a tensor has one of these numbers of axes.

    Raises:
        LayerArgumentError: if it has another one.
    """
    if len(shape) not in allowed:
        wanted = " or ".join(str(n) for n in allowed)
        raise LayerArgumentError(
            name=name, problem=f"a tensor of shape {shape} has not {wanted} axes"
        )


def check_sample_count(
    layer: str,
    x: Tensor,
    axes: Sequence[int],
    values: str,
    *,
    factor: int = 1,
    is_recorded: bool = False,
) -> None:
    """Check that each variance of a normalization is that of more than one value.

    A symbolic size is an error if it has no other value than 1. With `is_recorded` it is an error
    too if it may be 1 or 0: the running variance would be NaN from that batch on.

    Args:
        layer: the name of its class.
        x: its input.
        axes: of `x`, that each variance is over.
        values: the noun for the values in the error.
        factor: the number of values of each variance for each element of these axes.
        is_recorded: whether running statistics change.

    Raises:
        LayerArgumentError: if a variance has one value, or may have.
    """
    sizes = [x.shape[axis] for axis in axes]
    least = factor * math.prod(size if isinstance(size, int) else size.vmin for size in sizes)
    most = factor * math.prod(size if isinstance(size, int) else size.vmax for size in sizes)
    problem = f"expected more than 1 {values}"
    if is_recorded and least < 2 and least != most:
        problem += f" when training, but input size {x.shape} may have {least}"
        remedies = ['raise the lower bound of the size, as in Variable("n", 2, 64)']
    elif least == most == 1:
        problem += f"{' when training' if is_recorded else ''}, got input size {x.shape}"
        remedies = (
            ["leave out a last batch of one row, as in batches(..., drop_last=True)"]
            if 0 in axes
            else []
        )
    else:
        return
    remedies += ["call model.eval() to predict"] if is_recorded else []
    raise LayerArgumentError(name=layer, problem=problem, hint=", or ".join(remedies) or None)
