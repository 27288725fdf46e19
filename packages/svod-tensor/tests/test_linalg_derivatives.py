"""Derivatives of linear algebra: both modes agree with each other, and with differences."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations
from typing import Any

import numpy as np
import pytest

import svod_tensor as sv
from svod_ir import NotDifferentiableError
from svod_tensor import Tensor, grad, jit, jvp, scan, value_and_grad, vjp
from svod_tensor.errors import MatrixError
from svod_testing.derivatives.linalg_cases import CASES, MatrixCase, draw

ALL = [pytest.param(case, id=case.name) for case in CASES]
STEP = 1e-5


def to_number(case: MatrixCase, seed: int = 3) -> Callable[..., Tensor]:
    """The sum of all results times fixed numbers."""

    def call(*args: Tensor) -> Tensor:
        found = case.call(*args)
        rng = np.random.default_rng(seed)
        parts = found if isinstance(found, tuple) else (found,)
        products = [
            (part * Tensor(np.asarray(rng.normal(size=part.shape)))).sum() for part in parts
        ]
        return sum(products[1:], products[0])

    return call


@pytest.mark.parametrize("case", ALL)
def test_derivatives_agree_with_differences_in_both_modes(case: MatrixCase) -> None:
    rng = np.random.default_rng(5)
    arrays = draw(rng, case)
    along = [rng.normal(size=a.shape) for a in arrays]
    value = to_number(case)
    numbers = tuple(range(len(arrays)))
    gradient = grad(value, numbers)

    def slope(*args: Tensor) -> Tensor:
        """The derivative along the direction, by reverse mode."""
        parts = [(part * Tensor(d)).sum() for part, d in zip(gradient(*args), along, strict=True)]
        return sum(parts[1:], parts[0])

    @jit
    def compute(*point: Tensor) -> tuple[Tensor, ...]:
        """The value and derivatives along the direction, in one plan for all points."""
        tangents = tuple(Tensor(d) for d in along)
        return (
            *jvp(value, point, tangents),
            *jvp(slope, point, tangents),
            *grad(slope, numbers)(*point),
        )

    above, at, below = (
        compute(*(Tensor(a + step * d) for a, d in zip(arrays, along, strict=True)))
        for step in (STEP, 0.0, -STEP)
    )
    (
        (value_above, _, slope_above, *_),
        (_, forward, reverse, second, *twice),
        (value_below, _, slope_below, *_),
    ) = (
        above,
        at,
        below,
    )
    expected = (value_above.item() - value_below.item()) / (2 * STEP)
    np.testing.assert_allclose(reverse.item(), expected, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(forward.item(), reverse.item(), rtol=1e-9, atol=1e-10)
    expected = (slope_above.item() - slope_below.item()) / (2 * STEP)
    np.testing.assert_allclose(second.item(), expected, rtol=1e-5, atol=1e-5)
    again = sum(float((part.numpy() * d).sum()) for part, d in zip(twice, along, strict=True))
    np.testing.assert_allclose(again, second.item(), rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("case", ALL)
def test_derivatives_by_complex_matrices_agree_with_differences(case: MatrixCase) -> None:
    rng = np.random.default_rng(6)
    arrays = [part for a in draw(rng, case, "complex128") for part in (a.real, a.imag)]
    along = [rng.normal(size=a.shape) for a in arrays]

    def value(*given: Tensor) -> Tensor:
        """A real number of all parts of all results, of the parts of all arguments."""
        found = case.call(
            *(real.complex(imag) for real, imag in zip(given[::2], given[1::2], strict=True))
        )
        weights = np.random.default_rng(3)
        parts = found if isinstance(found, tuple) else (found,)
        total = Tensor(0.0).cast("float64")
        for part in parts:
            for real in (part.real, part.imag) if part.dtype.is_complex else (part,):
                total = total + (real * Tensor(np.asarray(weights.normal(size=part.shape)))).sum()
        return total

    @jit
    def compute(*point: Tensor) -> tuple[Tensor, ...]:
        """The value and its derivatives at a point of the direction, in one plan for all points."""
        return *jvp(value, point, tuple(map(Tensor, along))), *grad(
            value, tuple(range(len(point)))
        )(*point)

    above, at, below = (
        compute(*(Tensor(a + step * d) for a, d in zip(arrays, along, strict=True)))
        for step in (STEP, 0.0, -STEP)
    )
    (value_above, *_), (_, forward, *gradients), (value_below, *_) = above, at, below
    expected = (value_above.item() - value_below.item()) / (2 * STEP)
    reverse = sum(float((part.numpy() * d).sum()) for part, d in zip(gradients, along, strict=True))
    np.testing.assert_allclose(reverse, expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(forward.item(), reverse, rtol=1e-9, atol=1e-9)


def test_eigenvectors_and_signs_of_complex_determinants_have_derivatives() -> None:
    rng = np.random.default_rng(2)
    x, d = (rng.normal(size=(2, 3, 3)) for _ in range(2))
    # Sizes do not see the phases of vectors.
    weights = Tensor(rng.normal(size=(3, 3)))
    calls: list[Callable[[Tensor], Tensor]] = [
        lambda a: ((sv.linalg.eig(a).eigenvectors.abs() * weights) ** 2).sum(),
        lambda a: (sv.linalg.slogdet(a).sign * (1 + 2j)).real,
    ]
    for call in calls:
        whole = lambda parts, call=call: call(parts[0].complex(parts[1]))  # noqa: E731
        found = (grad(whole)(Tensor(x)).numpy() * d).sum()
        above, below = whole(Tensor(x + STEP * d)).item(), whole(Tensor(x - STEP * d)).item()
        np.testing.assert_allclose(found, (above - below) / (2 * STEP), rtol=1e-6)
    real = rng.normal(size=(3, 3))
    slope = grad(calls[0])(Tensor(real))
    assert slope.dtype is sv.float64
    above, below = (
        calls[0](Tensor(real + STEP * d[0])).item(),
        calls[0](Tensor(real - STEP * d[0])).item(),
    )
    np.testing.assert_allclose(
        (slope.numpy() * d[0]).sum(), (above - below) / (2 * STEP), rtol=1e-6
    )


def test_a_determinant_has_a_derivative_where_it_is_zero() -> None:
    x = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]])
    expected = [[-3.0, 6.0, -3.0], [6.0, -12.0, 6.0], [-3.0, 6.0, -3.0]]
    np.testing.assert_allclose(grad(sv.linalg.det)(Tensor(x)).numpy(), expected, atol=1e-12)
    np.testing.assert_array_equal(grad(sv.linalg.det)(Tensor.zeros(3, 3)).numpy(), np.zeros((3, 3)))
    np.testing.assert_allclose(grad(sv.linalg.det)(Tensor.zeros(1, 1)).numpy(), [[1.0]])


def test_equal_eigenvalues_have_derivatives_but_not_their_vectors() -> None:
    x = Tensor(np.eye(3))
    assert grad(lambda a: sv.linalg.eigh(a).eigenvalues.sum())(x).tolist() == np.eye(3).tolist()
    weight = Tensor(np.arange(9.0).reshape(3, 3))
    found = grad(lambda a: (sv.linalg.eigh(a).eigenvectors * weight).sum())(x)
    assert not found.isfinite().all().item()


def test_vectors_of_an_arbitrary_basis_have_no_derivative() -> None:
    x = Tensor(np.random.default_rng(0).normal(size=(4, 2)))
    values = grad(lambda a: sv.linalg.svd(a).S.sum())(x)
    np.testing.assert_allclose(
        values.numpy(), grad(lambda a: sv.linalg.svdvals(a).sum())(x).numpy()
    )
    with pytest.raises(NotDifferentiableError, match="svd has no derivative") as caught:
        grad(lambda a: sv.linalg.svd(a).U.sum())(x)
    assert "use full_matrices=False" in str(caught.value)
    with pytest.raises(NotDifferentiableError, match="qr has no derivative"):
        grad(lambda a: sv.linalg.qr(a, mode="complete").Q.sum())(x)


@pytest.mark.parametrize(
    ("call", "problem"),
    [
        (lambda a: sv.linalg.slogdet(a).logabsdet, "inv: the matrix is singular"),
        (lambda a: sv.linalg.slogdet(a + 0j).sign.imag, "inv: the matrix is singular"),
        (lambda a: sv.linalg.qr(a).R.sum(), "solve_triangular: the matrix is singular"),
    ],
)
def test_a_derivative_that_needs_the_inverse_of_a_singular_matrix_is_an_error(
    call: Callable[[Tensor], Tensor], problem: str
) -> None:
    x = Tensor.zeros(2, 2)
    assert not call(x).isnan().item()
    for found in (grad(call)(x), jvp(call, (x,), (x,))[1]):
        with pytest.raises(MatrixError, match=problem):
            found.realize()


@pytest.mark.parametrize(
    "x", [np.zeros((3, 3)), np.diag([2.0, 1.0, 0.0]), np.outer([1.0, 2.0, 3.0], [1.0, -1.0, 2.0])]
)
def test_derivatives_of_pseudo_inverses_assume_constant_rank(
    x: np.ndarray,
) -> None:
    """Up to the third order, along curves that change the bases of rows and columns but not the
    rank.
    """
    rng = np.random.default_rng(0)
    left, right, weights = (rng.normal(size=(3, 3)) for _ in range(3))

    def curve(t: Tensor) -> Tensor:
        a = sv.linalg.expm(t * Tensor(left)) @ Tensor(x) @ sv.linalg.expm(t * Tensor(right))
        return (sv.linalg.pinv(a, rtol=1e-6) * Tensor(weights)).sum()

    f = curve
    for order in (1, 2, 3):
        previous, f = f, grad(f)
        step = 1e-4
        above, below = (previous(Tensor(n, dtype="float64")).item() for n in (step, -step))
        expected = (above - below) / (2 * step)
        np.testing.assert_allclose(
            f(Tensor(0.0, dtype="float64")).item(), expected, rtol=1e-5, atol=1e-5 * 10**order
        )


def test_a_likelihood_is_minimised_in_a_captured_step() -> None:
    rng = np.random.default_rng(0)
    data = Tensor(rng.normal(size=(50, 3)) @ np.array([[2.0, 0, 0], [1, 1, 0], [0, 0, 0.5]]).T)

    def loss(factor: Tensor) -> Tensor:
        lower = sv.linalg.cholesky(factor @ factor.mT + Tensor(np.eye(3)) * 1e-3)
        white = sv.linalg.solve_triangular(lower, data.mT)
        return 0.5 * (white * white).sum() / 50 + sv.linalg.diagonal(lower).log().sum()

    @jit
    def step(factor: Tensor) -> tuple[Tensor, Tensor]:
        value, slope = value_and_grad(loss)(factor)
        return factor - 0.1 * slope, value

    factor = Tensor(np.eye(3))
    values = []
    for _ in range(150):
        factor, value = step(factor)
        values.append(value.item())
    sample = data.numpy()
    covariance = sample.T @ sample / 50
    np.testing.assert_allclose((factor @ factor.mT).numpy(), covariance, rtol=0.05, atol=0.05)
    assert values[-1] < values[0]


def test_derivatives_go_through_loops_and_shards() -> None:
    x = np.random.default_rng(0).normal(size=(4, 3, 3)) + 3 * np.eye(3)

    def chain(a: Tensor) -> Tensor:
        step: Any = lambda carry, m: (sv.linalg.solve(m, carry), None)  # noqa: E731
        return scan(step, Tensor(np.ones(3)), a)[0].sum()

    def unrolled(a: Tensor) -> Tensor:
        carry = Tensor(np.ones(3))
        for n in range(4):
            carry = sv.linalg.solve(a[n], carry)
        return carry.sum()

    np.testing.assert_allclose(
        grad(chain)(Tensor(x)).numpy(), grad(unrolled)(Tensor(x)).numpy(), rtol=1e-9
    )
    sharded = Tensor(x).shard(("CPU", "CPU:1"), axis=0)
    value, pull = vjp(sv.linalg.inv, sharded)
    (part,) = pull(value)
    _, whole = vjp(sv.linalg.inv, Tensor(x))
    np.testing.assert_allclose(part.numpy(), whole(Tensor(np.linalg.inv(x)))[0].numpy(), rtol=1e-9)


def expand_determinant(parts: list[np.ndarray]) -> complex:
    """Coefficient of the product of all but the first factor in the determinant of x + t1 * d1 +
    ..., by its permutations.
    """
    n, (x, *directions) = len(parts[0]), parts
    total = 0.0
    for columns in permutations(range(n)):
        sign = np.linalg.det(np.eye(n)[list(columns)]).round()
        for rows in permutations(range(n), len(directions)):
            sources = dict(zip(rows, directions, strict=True))
            total += sign * np.prod(
                [sources.get(row, x)[row, column] for row, column in enumerate(columns)]
            )
    return total


@pytest.mark.parametrize(
    "x",
    [
        np.zeros((1, 1)),
        np.zeros((2, 2)),
        np.zeros((3, 3)),
        np.ones((4, 4)),
        np.diag([1.0, 1.0, 0.0]),
        np.outer([1.0, 2.0, 3.0], [1.0, 0.0, 2.0]),
        np.array([[2.0, 1.0], [1.0, 3.0]]),
        np.array([[2.0, 1.0, 0.0], [0.0, 3.0, 1.0], [1.0, 0.0, 4.0]]),
    ],
)
@pytest.mark.parametrize("dtype", ["float64", "float32", "complex128"])
@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_a_determinant_has_derivatives_of_every_order_where_it_is_zero(
    x: np.ndarray, dtype: str, order: int
) -> None:
    rng = np.random.default_rng(0)
    parts = [rng.normal(size=x.shape) for _ in range(order)]
    if dtype == "complex128":
        parts = [part + 1j * rng.normal(size=x.shape) for part in parts]
    directions = [part.astype(dtype) for part in parts]
    expected = expand_determinant([x.astype(dtype), *directions])
    given = Tensor(x.astype(dtype))

    def reverse(f: Callable[[Tensor], Tensor], direction: np.ndarray) -> Callable[[Tensor], Tensor]:
        def call(x: Tensor) -> Tensor:
            value, pull = vjp(f, x)
            return (pull(value.ones_like())[0] * Tensor(direction)).sum()

        return call

    def forward(f: Callable[[Tensor], Tensor], direction: np.ndarray) -> Callable[[Tensor], Tensor]:
        return lambda x: jvp(f, (x,), (Tensor(direction),))[1]

    results: list[Tensor] = []
    for modes in ((reverse, reverse), (forward, forward), (reverse, forward), (forward, reverse)):
        f: Callable[[Tensor], Tensor] = sv.linalg.det
        for n, direction in enumerate(directions):
            f = modes[n % 2](f, direction)
        results.append(f(given))
    Tensor.realize_batch(results)
    atol = 3e-5 if dtype == "float32" else 1e-12
    for result in results:
        np.testing.assert_allclose(result.numpy(), expected, atol=atol, rtol=atol)


def test_third_derivatives_of_batched_determinants_agree_with_single_ones() -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(size=(2, 3, 3, 3))
    x[0, 1] = 0
    x[1, 2, 2] = x[1, 2, 0]
    directions = [rng.normal(size=x.shape) for _ in range(3)]
    f: Callable[[Tensor], Tensor] = sv.linalg.det
    for direction in directions:
        f = lambda x, f=f, d=direction: jvp(f, (x,), (Tensor(d),))[1]  # noqa: E731
    expected = [
        [expand_determinant([a[i, j] for a in (x, *directions)]) for j in range(3)]
        for i in range(2)
    ]
    np.testing.assert_allclose(f(Tensor(x)).numpy(), expected, atol=1e-12)


@pytest.mark.parametrize("shape", [(0, 0), (2, 0, 0), (0, 3, 3)])
@pytest.mark.parametrize("name", ["eigvals", "eigvalsh", "svdvals", "inv", "det", "cholesky"])
def test_derivatives_of_empty_matrices_have_the_shape_of_the_matrices(
    name: str, shape: tuple[int, ...]
) -> None:
    value, pull = vjp(getattr(sv.linalg, name), Tensor(np.zeros(shape)))
    (part,) = pull(sv.ones(value.shape, dtype=value.dtype))
    assert part.shape == shape and part.numpy().size == 0
    _, tangent = jvp(
        getattr(sv.linalg, name), (Tensor(np.zeros(shape)),), (Tensor(np.zeros(shape)),)
    )
    assert tangent.shape == value.shape
