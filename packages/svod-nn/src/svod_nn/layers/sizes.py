"""Checks of sizes: arguments with one number per spatial axis, and numbers of axes and samples."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias

from svod_nn.errors import LayerArgumentError
from svod_tensor import Tensor

__all__ = ["Sizes", "check_axes", "check_sample_count", "to_sizes"]

Sizes: TypeAlias = int | Sequence[int]
"""One number for all axes, or one for each."""


def to_sizes(
    name: str, argument: str, value: Sizes, n_axes: int, minimum: int = 1
) -> tuple[int, ...]:
    """Convert an argument to one number for each axis.

    Raises:
        LayerArgumentError: if the number of elements is wrong, or one is less than `minimum`.
    """
    sizes = (value,) * n_axes if isinstance(value, int) else tuple(value)
    if len(sizes) != n_axes or any(size < minimum for size in sizes):
        integers = "an integer" if n_axes == 1 else f"an integer or {n_axes} integers"
        raise LayerArgumentError(
            name=name, problem=f"{argument} must be {integers}, at least {minimum}, got {value!r}"
        )
    return sizes


def check_axes(name: str, shape: tuple[object, ...], allowed: Sequence[int]) -> None:
    """Check that the number of axes of a tensor is allowed.

    Raises:
        LayerArgumentError: if it is not.
    """
    if len(shape) not in allowed:
        expected = " or ".join(f"{n}-D" for n in allowed)
        raise LayerArgumentError(
            name=name, problem=f"expected {expected} input, got input of shape {shape}"
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
    """Check that a normalization computes each variance from more than one value.

    A symbolic size is an error if it can only be 1. With `is_recorded`, it is also an error if it
    may be 1 or 0: the running variance would be NaN from that batch on.

    Args:
        layer: class name of the layer.
        x: input of the layer.
        axes: axes of `x` over which each variance is computed.
        values: noun for the values in the error.
        factor: number of values of each variance per element of these axes.
        is_recorded: True if the layer updates running statistics.

    Raises:
        LayerArgumentError: if a variance has one value, or may have.
    """
    sizes = [x.shape[axis] for axis in axes]
    # The size may be a variable: only its bounds are known before the step runs.
    least = factor * math.prod(size if isinstance(size, int) else size.vmin for size in sizes)
    most = factor * math.prod(size if isinstance(size, int) else size.vmax for size in sizes)
    problem = f"expected more than 1 {values}"
    # A single value has no unbiased variance: the running one would be NaN from then on.
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
