"""Derivatives at zeros, ties, kinks and padding agree with PyTorch, or have a reason."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy as np
import pytest

from svod_tensor import Tensor, grad, logcumsumexp, vjp
from svod_testing.derivatives.cases import CASES, Case
from svod_testing.derivatives.points import (
    FILLS,
    differentiate,
    differentiate_elementwise,
    fill,
    make_grid,
)

torch = pytest.importorskip("torch", reason="torch is not installed", exc_type=ImportError)
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")

OTHER: Final = {
    "leaky_relu": "1 at 0, as JAX",
    "elu": "at 0 the second derivative is that from below, as JAX",
    "selu": "as elu",
    "hardsigmoid": "0 at the kinks, as JAX",
    "fmax": "two equal operands have half each, as `maximum`",
    "fmin": "as fmax",
    "clip": "one half at the limits, as JAX",
    "xlogy": "by x the logarithm where x is 0, as JAX",
    "gamma": "torch's is the exponential of lgamma in this case, which has no sign",
    "zeta": "torch has numbers below 0, where the function has none here",
    "log_ndtr": "torch's second derivative cancels far from 0",
    "j0": "its case for torch is a power series, which is right near 0 alone",
    "j1": "as j0",
    "cummax": "the first of equal elements; torch takes the last",
    "cummin": "as cummax",
    "topk": "the first of equal elements; torch's order is its own",
    "unique_all": "has other shapes with equal elements",
    "unique_counts": "as unique_all",
    "unique_inverse": "as unique_all",
    "unique_values": "as unique_all",
    "cast": "to float32 has no second derivative in float64 worth comparing",
    "as_real": "has another shape than its operands",
    "acosh": "NaN below 1, as the value",
    "lgamma": "infinite or NaN at its poles, where torch has large numbers",
    "digamma": "as lgamma",
    "polygamma": "NaN below 0, as the value",
    "ldexp": "torch's power of a negative integer is 0",
    "interp": "its case for torch is right between the points alone",
    "percentile": "the first of equal elements; torch's order is its own",
}
"""Reasons why derivatives differ, as documented in docs/derivatives.md."""
OTHER_OF_TWO: Final = {
    (
        "pow",
        2,
    ): (
        "torch's derivative by the base is constant where the exponent is 0: its own one by the"
        " exponent is 0 there"
    ),
}
"""Reasons why derivatives of functions of two operands differ."""
COUNTED_BESIDE: Final = [case for case in CASES if case.operation == "scatter_reduce"][-1]
"""`include_self=False`: torch counts the existing element in a tie, although it is excluded."""


def list_cases(*, is_elementwise: bool) -> Iterator[object]:
    for number, case in enumerate(CASES):
        is_other = case.operation in OTHER or (case.operation, len(case.shapes)) in OTHER_OF_TWO
        is_other = is_other or case is COUNTED_BESIDE
        if case.is_elementwise == is_elementwise and not is_other:
            yield pytest.param(case, id=f"{case}-{number}")


def differentiate_torch(
    function: Callable[..., Any],
    arrays: Sequence[np.ndarray],
    weights: np.ndarray,
    directions: Sequence[np.ndarray],
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Gradient of the weighted sum, and gradient of its directional derivative."""
    args = [torch.tensor(x, requires_grad=True) for x in arrays]
    value = function(*args)
    zeros = [np.zeros_like(x) for x in arrays]
    if not value.requires_grad:
        return zeros, zeros
    parts = torch.autograd.grad(
        value, args, torch.tensor(weights), create_graph=True, allow_unused=True
    )
    total = sum(
        (p * torch.tensor(d)).sum() for p, d in zip(parts, directions, strict=True) if p is not None
    )
    second = zeros
    if total.requires_grad:
        found = torch.autograd.grad(total, args, allow_unused=True)
        second = [
            z if f is None else f.numpy(force=True) for z, f in zip(zeros, found, strict=True)
        ]
    return [
        z if p is None else p.numpy(force=True) for z, p in zip(zeros, parts, strict=True)
    ], second


def check(ours: np.ndarray, theirs: np.ndarray, text: str) -> None:
    """Compare derivatives where torch returns a number: where it returns NaN, svod may choose a
    value.
    """
    known = np.isfinite(theirs)
    scale = max(1.0, np.abs(theirs[known]).max(initial=0))
    np.testing.assert_allclose(
        ours[known], theirs[known], rtol=1e-6, atol=1e-9 * scale, err_msg=text
    )


@pytest.mark.parametrize("case", [*list_cases(is_elementwise=True)])
def test_elementwise_derivatives_are_those_of_torch(case: Case) -> None:
    grid = make_grid(len(case.shapes))
    found = differentiate_elementwise(case.call, grid)
    ones = np.ones_like(grid[0])
    for number in range(len(grid)):
        directions = [ones if n == number else 0 * ones for n in range(len(grid))]
        first, second = differentiate_torch(
            lambda *args: case.peer(torch, *args), grid, ones, directions
        )
        check(found[f"reverse {number}"], first[number], f"by {number}")
        for other, expected in enumerate(second):
            check(found[f"reverse {number}, reverse {other}"], expected, f"by {number} and {other}")


@pytest.mark.parametrize("name", FILLS)
@pytest.mark.parametrize("case", [*list_cases(is_elementwise=False)])
def test_derivatives_at_ties_and_zeros_are_those_of_torch(case: Case, name: str) -> None:
    arrays = fill(name, case)
    _, parts, (weights, *directions) = differentiate(case.call, arrays, np.random.default_rng(1))
    try:
        first, second = differentiate_torch(
            lambda *args: case.peer(torch, *args), arrays, weights, directions
        )
    except RuntimeError as error:
        if "Double backward is unsupported" not in str(error):
            raise
        pytest.skip("torch has no second derivative")
    for key, expected in (("gradient", first), ("second", second)):
        for number, (ours, theirs) in enumerate(zip(parts[key], expected, strict=True)):
            check(ours, theirs, f"{key} by {number}")


@pytest.mark.parametrize(
    "elements",
    [
        [1.0, 1.0, 1.0],
        [0.0, 0.0, 0.0],
        [2.0, -1.0, 2.0],
        [1000.0, 1000.0, -1000.0],
        [89.0, -89.0, 89.0],
    ],
)
def test_logcumsumexp_at_ties(elements: list[float]) -> None:
    x, weights, direction = (
        np.array(elements),
        np.array([1.0, 2.0, 3.0]),
        np.array([0.5, -1.0, 2.0]),
    )
    first, second = differentiate_torch(
        lambda x: torch.logcumsumexp(x, 0), [x], weights, [direction]
    )
    cotangent, along = Tensor(weights), Tensor(direction)

    def derive(x: Tensor) -> Tensor:
        return (vjp(lambda y: logcumsumexp(y, 0), x)[1](cotangent)[0] * along).sum()

    check(vjp(lambda y: logcumsumexp(y, 0), Tensor(x))[1](cotangent)[0].numpy(), first[0], "first")
    check(grad(derive)(Tensor(x)).numpy(), second[0], "second")


@pytest.mark.parametrize("is_added", [False, True])
def test_attention_with_padding(is_added: bool) -> None:
    rng = np.random.default_rng(0)
    q, k, v = (rng.normal(size=(2, 3, 4)) for _ in range(3))
    allowed = np.array([[1, 1, 0], [1, 0, 0], [1, 1, 1]], bool)
    mask = np.where(allowed, 0.0, -np.inf) if is_added else allowed
    weights = rng.normal(size=(2, 3, 4))
    directions = [rng.normal(size=(2, 3, 4)) for _ in range(3)]

    def attend(*args: Any) -> Any:
        # Written as one formula, since the fused one has no second derivatives.
        scores = args[0] @ args[1].mT / 2 + torch.tensor(np.where(allowed, 0.0, -np.inf))
        return scores.softmax(-1) @ args[2]

    def call(*args: Tensor) -> Tensor:
        return args[0].scaled_dot_product_attention(args[1], args[2], Tensor(mask))

    def derive(*args: Tensor) -> Tensor:
        parts = vjp(call, *args)[1](Tensor(weights))
        return sum(
            ((p * Tensor(d)).sum() for p, d in zip(parts, directions, strict=True)),
            start=Tensor(0.0),
        )

    first, second = differentiate_torch(attend, [q, k, v], weights, directions)
    args = tuple(map(Tensor, (q, k, v)))
    for ours, theirs in zip(vjp(call, *args)[1](Tensor(weights)), first, strict=True):
        check(ours.numpy(), theirs, "first")
    for ours, theirs in zip(grad(derive, (0, 1, 2))(*args), second, strict=True):
        check(ours.numpy(), theirs, "second")
