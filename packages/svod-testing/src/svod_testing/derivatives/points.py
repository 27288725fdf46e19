"""Derivatives of both modes and of two orders at zeros, kinks, ties, poles and large numbers.

Example:
    >>> import numpy as np
    >>> from svod_testing.derivatives.points import differentiate_elementwise, find_difference
    >>> found = differentiate_elementwise(lambda x: x.sigmoid(), [np.array([0.0, -1000.0])])
    >>> found["reverse 0"].tolist(), found["reverse 0, forward 0"].tolist()
    ([0.25, 0.0], [0.0, 0.0])
    >>> find_difference(found) is None
    True
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from svod_tensor import Tensor, jvp, vjp
from svod_testing.derivatives.image_cases import Case

__all__ = [
    "FILLS",
    "differentiate",
    "differentiate_elementwise",
    "fill",
    "find_difference",
    "find_kink",
    "make_grid",
]

_VALUES: Final = (
    (0, -0.0, 1, -1, 0.5, -0.5, 2, 3, -3, 6, 20, -20, 89, -89, 1000, -1000, math.inf, -math.inf),
    (0, -0.0, 1, -1, 0.5, 2, -3, 89, -89, 1000, math.inf, -math.inf),
    (0, -0.0, 1, -1, 2),
)
"""Special values of a function's operands, by the number of operands less one."""

FILLS: Final[dict[str, tuple[float, ...]]] = {
    "ones": (1.0,),
    "zeros": (0.0,),
    "ties": (1.0, 0.0, -1.0, 0.0, 1.0),
    "far": (89.0, -89.0, 89.0, 0.0),
    "wide": (1000.0, -1000.0, 1000.0),
}
"""Elements that are repeated to the shape of an operand."""

_STEP: Final = 1e-4


def make_grid(n_operands: int) -> list[np.ndarray]:
    """All combinations of special values, one array for each operand."""
    values = np.asarray(_VALUES[n_operands - 1], float)
    return [axis.reshape(-1).copy() for axis in np.meshgrid(*[values] * n_operands, indexing="ij")]


def fill(name: str, case: Case) -> list[np.ndarray]:
    """Return the operands of a case, filled with repeated elements, each with another offset."""
    elements = np.asarray(FILLS[name])
    return [
        np.resize(np.roll(elements, index), math.prod(shape)).reshape(shape)
        for index, shape in enumerate(case.shapes)
    ]


def differentiate_elementwise(
    call: Callable[..., Tensor],
    arrays: Sequence[np.ndarray],
    *,
    dtype: str = "float64",
    orders: int = 2,
    modes: Sequence[str] = ("reverse", "forward"),
) -> dict[str, np.ndarray]:
    """Compute first and second derivatives of an elementwise function in all modes.

    Args:
        call: elementwise function.
        arrays: operands of one shape.
        dtype: dtype of the operands.
        orders: highest order of derivatives, 1 or 2.
        modes: modes to combine.

    Returns:
        arrays of float64, by names such as "reverse 0" for the derivative with respect to operand
        0, and "reverse 0, forward 1" for its derivative with respect to operand 1.
    """
    args = [Tensor(x).cast(dtype) for x in arrays]
    ones = Tensor(np.ones_like(arrays[0])).cast(dtype)
    derivatives: dict[str, Tensor] = {}

    def by(function: Callable[..., Tensor], index: int, mode: str) -> Callable[..., Tensor]:
        def derivative(*operands: Tensor) -> Tensor:
            def alone(x: Tensor) -> Tensor:
                return function(
                    *(x if n == index else operand for n, operand in enumerate(operands))
                )

            if mode == "forward":
                return jvp(alone, (operands[index],), (ones,))[1]
            return vjp(alone, operands[index])[1](ones)[0]

        return derivative

    for index, mode in itertools.product(range(len(args)), modes):
        first = by(call, index, mode)
        derivatives[f"{mode} {index}"] = first(*args)
        for second, again in itertools.product(range(len(args)), modes if orders > 1 else ()):
            derivatives[f"{mode} {index}, {again} {second}"] = by(first, second, again)(*args)
    Tensor.realize_batch(list(derivatives.values()))
    return {name: tensor.cast("float64").numpy() for name, tensor in derivatives.items()}


def differentiate(
    call: Callable[..., Tensor], arrays: Sequence[np.ndarray], rng: np.random.Generator
) -> tuple[dict[str, np.ndarray], dict[str, list[np.ndarray]], list[np.ndarray]]:
    """Compute directional derivatives of any function in all combinations of modes.

    Returns:
        scalars by names as in `differentiate_elementwise`; the arrays "gradient", of the weighted
        sum of the results, and "second", the gradient of its directional derivative; and the
        weights and the direction.
    """
    args = tuple(map(Tensor, arrays))
    weights = rng.normal(size=call(*args).shape)  # pyright: ignore[reportArgumentType, reportCallIssue, reportUnknownVariableType]
    directions = [rng.normal(size=x.shape) for x in arrays]
    second_directions = tuple(Tensor(np.asarray(rng.normal(size=x.shape))) for x in arrays)
    cotangent, tangents = (
        Tensor(np.asarray(weights, float)),
        tuple(Tensor(np.asarray(d)) for d in directions),
    )
    unit = Tensor(1.0, dtype="float64")

    def reverse(*operands: Tensor) -> Tensor:
        return _add_products(vjp(call, *operands)[1](cotangent), tangents)

    def forward(*operands: Tensor) -> Tensor:
        return (jvp(call, operands, tangents)[1] * cotangent).sum()

    gradient, second = vjp(call, *args)[1](cotangent), vjp(reverse, *args)[1](unit)
    numbers = {
        "reverse 0": _add_products(gradient, tangents),
        "forward 0": forward(*args),
        "reverse 0, reverse 0": _add_products(second, second_directions),
        "forward 0, reverse 0": _add_products(vjp(forward, *args)[1](unit), second_directions),
        "reverse 0, forward 0": jvp(reverse, args, second_directions)[1],
        "forward 0, forward 0": jvp(forward, args, second_directions)[1],
    }
    Tensor.realize_batch([*numbers.values(), *gradient, *second])
    vectors = {"gradient": [x.numpy() for x in gradient], "second": [x.numpy() for x in second]}
    return {name: x.numpy() for name, x in numbers.items()}, vectors, [weights, *directions]


def _add_products(xs: Sequence[Tensor], ys: Sequence[Tensor]) -> Tensor:
    return sum(
        ((x * y).sum() for x, y in zip(xs, ys, strict=True)), start=Tensor(0.0, dtype="float64")
    )


def find_difference(
    derivatives: Mapping[str, np.ndarray], rtol: float = 1e-8, atol: float = 1e-10
) -> str | None:
    """Describe the first derivative that differs between modes; None if all agree."""
    for name, values in derivatives.items():
        like = derivatives[name.replace("forward", "reverse")]
        bad = np.flatnonzero(~np.isclose(values, like, rtol, atol, equal_nan=True))
        if bad.size:
            shown = [
                f"{index}: {values.flat[index]} and {like.flat[index]}"
                for index in bad[:6].tolist()
            ]
            return f"{name} and reverse at {', '.join(shown)}"
    return None


def find_kink(call: Callable[..., Tensor], arrays: Sequence[np.ndarray]) -> str | None:
    """Describe the first derivative that differs from the difference quotient; None if all agree.

    Points where the function does not look smooth are skipped.
    """
    count = len(arrays[0])
    steps = [np.zeros(len(arrays))]
    # Adding 0.0 turns -0.0 into 0.0, so that no step changes the sign of another operand.
    steps += [sign * _STEP * unit + 0.0 for unit in np.eye(len(arrays)) for sign in (1, -1)]
    spread = [np.concatenate([x + step[index] for step in steps]) for index, x in enumerate(arrays)]
    with np.errstate(all="ignore"):
        first_orders = differentiate_elementwise(call, spread, modes=("reverse",))
        derivatives = {name: x.reshape(-1, count) for name, x in first_orders.items()}
        value = call(*map(Tensor, spread)).numpy().reshape(-1, count)
        for name, difference, derivative in _list_differences(value, derivatives, len(arrays)):
            here, ahead, behind = difference
            slopes = np.array([ahead - here, here - behind]) / _STEP
            mean = slopes.mean(0)
            size = np.abs(here) + np.abs(mean)
            is_smooth = np.abs(slopes[0] - slopes[1]) <= 1e-2 * (1 + np.abs(mean))
            # A steeper slope indicates a step or a pole in between.
            is_smooth &= np.abs(mean) <= 1e2 * (1 + np.abs(here))
            bad = np.flatnonzero(is_smooth & ~(np.abs(mean - derivative) <= 1e-3 * (1 + size)))
            if bad.size:
                index = int(bad[0])
                at = [float(x[index]) for x in arrays]
                return f"{name} at {at}: {derivative[index]}, and the differences are {mean[index]}"
    return None


def _list_differences(
    value: np.ndarray, derivatives: Mapping[str, np.ndarray], n_operands: int
) -> Iterator[tuple[str, tuple[np.ndarray, np.ndarray, np.ndarray], np.ndarray]]:
    """Yield, for each derivative, its name, rows of values for differences, and its value."""
    for index in range(n_operands):
        first = derivatives[f"reverse {index}"]
        yield f"reverse {index}", _get_rows(value, index), first[0]
        for second in range(n_operands):
            name = f"reverse {index}, reverse {second}"
            yield name, _get_rows(first, second), derivatives[name][0]


def _get_rows(values: np.ndarray, index: int) -> Any:
    return values[0], values[2 * index + 1], values[2 * index + 2]
