"""`checkpoint`: the same values and derivatives with less memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from svod_ir import Op
from svod_tensor import (
    Generator,
    Tensor,
    checkpoint,
    fori_loop,
    grad,
    jacobian,
    jit,
    jvp,
    scan,
    value_and_grad,
)
from svod_tensor.errors import DerivativeError

_RNG = np.random.default_rng(0)
_WEIGHTS = [_RNG.normal(size=(64, 64)) / 8 for _ in range(6)]
_X = _RNG.normal(size=(32, 64))


def _layer(h: Tensor, w: Tensor) -> Tensor:
    return h + (h @ w).tanh() @ w.T


def _loss(layer: Callable[..., Tensor], weights: list[Tensor]) -> Tensor:
    h = Tensor(_X)
    for w in weights:
        h = layer(h, w)
    return (h * h).mean()


def _make_weights() -> list[Tensor]:
    return [Tensor(w).realize() for w in _WEIGHTS]


def _gradients_and_memory(layer: Callable[..., Tensor]) -> tuple[list[Any], int]:
    value, gradients = value_and_grad(lambda weights: _loss(layer, weights))(_make_weights())
    plan = Tensor.prepare_batch([value, *gradients])
    plan.execute()
    return [value.numpy(), *(g.numpy() for g in gradients)], plan.memory_report.bytes_after


def _check_equal(left: list[Any], right: list[Any]) -> None:
    for a, b in zip(left, right, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)


def test_the_derivatives_are_the_same_and_need_less_memory() -> None:
    expected, kept = _gradients_and_memory(_layer)
    found, needed = _gradients_and_memory(checkpoint(_layer))
    _check_equal(found, expected)
    assert needed < kept * 0.7


def test_captured_tensors_are_saved_like_arguments() -> None:
    def by_closure(h: Tensor, w: Tensor) -> Tensor:
        return checkpoint(lambda h: _layer(h, w))(h)

    expected, kept = _gradients_and_memory(_layer)
    found, needed = _gradients_and_memory(by_closure)
    _check_equal(found, expected)
    assert needed < kept * 0.7


def test_values_computed_before_are_not_recomputed() -> None:
    w = Tensor(_WEIGHTS[0]).realize()

    def loss(x: Tensor) -> Tensor:
        before = x.exp()
        return checkpoint(lambda h: (h @ w).sin() * before)(x).sum()

    x = Tensor(_X).realize()
    gradient = grad(loss)(x)
    assert sum(node.op is Op.EXP for node in gradient.uop.toposort()) == 1
    assert sum(node.op is Op.REDUCE_AXIS for node in gradient.uop.toposort()) == 3
    np.testing.assert_allclose(
        gradient.numpy(), grad(lambda x: ((x @ w).sin() * x.exp()).sum())(x).numpy(), rtol=1e-10
    )


def test_values_that_are_read_in_the_function_change_no_derivative() -> None:
    def layer(h: Tensor, w: Tensor) -> Tensor:
        y = (h @ w).realize()
        z = y.tanh()
        return h + z @ w.T if z.sum().item() < 1e30 else h

    expected, _ = _gradients_and_memory(_layer)
    found, _ = _gradients_and_memory(checkpoint(layer))
    _check_equal(found, expected)


def test_random_numbers_are_sampled_once() -> None:
    generator = Generator(3)

    def noisy(x: Tensor) -> Tensor:
        return x.sin() * Tensor.rand(*x.shape, generator=generator, dtype=x.dtype)

    x = Tensor(_X).realize()
    value, gradient = value_and_grad(lambda x: checkpoint(noisy)(x).sum())(x)
    noise = Tensor.rand(*x.shape, generator=Generator(3), dtype=x.dtype)
    assert value.item() == pytest.approx((x.sin() * noise).sum().item())
    np.testing.assert_allclose(gradient.numpy(), (x.cos() * noise).numpy())


def test_checkpoints_nest_and_have_derivatives_of_any_order() -> None:
    def f(x: Tensor) -> Tensor:
        return (x.sin() * x).exp()

    nested = checkpoint(lambda x: checkpoint(f)(checkpoint(f)(x)))
    plain = lambda x: f(f(x))  # noqa: E731
    x = Tensor(0.3, dtype="float64")
    for order in range(1, 4):
        left, right = nested, plain
        for _ in range(order):
            left, right = grad(left), grad(right)
        assert left(x).item() == pytest.approx(right(x).item(), rel=1e-12)
    _, along = jvp(grad(nested), (x,), (Tensor(2.0, dtype="float64"),))
    assert along.item() == pytest.approx(2 * grad(grad(plain))(x).item())


def test_nested_arguments_and_results_keep_their_structure() -> None:
    @checkpoint
    def f(
        parts: dict[str, Any], scale: float, *, shift: Tensor
    ) -> tuple[Tensor, dict[str, Tensor]]:
        y = parts["a"].exp() * scale
        return y + shift, {"cosine": y.cos(), "place": y.argmax()}

    def loss(x: Tensor, shift: Tensor) -> tuple[Tensor, Tensor]:
        y, others = f({"a": x, "b": None}, 3.0, shift=shift)
        return (y * others["cosine"]).sum(), others["place"]

    x, shift = Tensor([0.1, 0.2], dtype="float64"), Tensor([1.0, 2.0], dtype="float64")
    (by_x, by_shift), place = grad(loss, (0, 1), has_aux=True)(x, shift)
    y = 3 * np.exp(x.numpy())
    np.testing.assert_allclose(by_x.numpy(), y * (np.cos(y) - (y + shift.numpy()) * np.sin(y)))
    np.testing.assert_allclose(by_shift.numpy(), np.cos(y))
    assert place.item() == 1


def test_a_step_that_assigns_to_its_weights_is_one_plan() -> None:
    def make_step(layer: Callable[..., Tensor]) -> tuple[Callable[[], Tensor], list[Tensor]]:
        weights = _make_weights()

        @jit
        def step() -> Tensor:
            value, gradients = value_and_grad(lambda ws: _loss(layer, ws))(weights)
            for w, g in zip(weights, gradients, strict=True):
                w.assign(w - 0.1 * g)
            return value

        return step, weights

    found = []
    for layer in (_layer, checkpoint(_layer)):
        step, weights = make_step(layer)
        values = [step().numpy() for _ in range(3)]
        found.append([*values, *(w.numpy() for w in weights)])
    _check_equal(*found)


def test_gradients_of_graphs_pass_through_a_checkpoint_to_views_and_values() -> None:
    w = Tensor(_WEIGHTS[0]).realize()
    h = Tensor(_X) * 2
    loss = checkpoint(lambda w: (h @ w[:, ::-1]).sin())(w.T).sum()
    by_w, by_h, by_row = loss.gradient(w, h, w[3])
    expected = (h @ w.T[:, ::-1]).sin().sum().gradient(w, h)
    _check_equal(
        [by_w.numpy(), by_h.numpy(), by_row.numpy()],
        [*(e.numpy() for e in expected), expected[0].numpy()[3]],
    )


def test_a_function_may_contain_a_loop_and_be_in_a_loop() -> None:
    x = Tensor(_X[0, :4]).realize()

    def f(x: Tensor) -> Tensor:
        return checkpoint(lambda y: y[0] * y[1:] * y.sum())(x).sum()

    plain = lambda x: (x[0] * x[1:] * x.sum()).sum()  # noqa: E731
    _, stacked = scan(lambda c, row: (c, grad(f)(row * x)), Tensor(0.0), Tensor(_X[:3, :4]))
    for row, found in zip(_X[:3, :4], stacked.numpy(), strict=True):
        np.testing.assert_allclose(found, grad(plain)(Tensor(row) * x).numpy(), rtol=1e-6)


def test_a_function_may_not_assign_to_its_arguments() -> None:
    @checkpoint
    def f(x: Tensor) -> Tensor:
        return x.assign(x * 2)

    with pytest.raises(DerivativeError, match="assigns to its argument"):
        f(Tensor([1.0]))


@pytest.mark.parametrize("n", [2, 12])
@pytest.mark.parametrize("n_results", [1, 2])
def test_second_derivatives_of_loops_around_a_checkpoint(n: int, n_results: int) -> None:
    # A sum of more than eight elements is a residual of the loop, and lies in the function.
    def f(x: Tensor) -> Tensor:
        def body(_: Tensor, carry: Tensor) -> Tensor:
            u = carry.sin().expand(n)
            results = checkpoint(lambda: (u.sum().sin(), (u * u).sum().cos())[:n_results])()
            return results[0].sin() + (results[1] * carry if n_results > 1 else 0)

        return fori_loop(0, 2, body, x)

    def expected(x: float) -> float:
        for _ in range(2):
            s = np.sin(x)
            first, second = np.sin(n * s), np.cos(n * s * s)
            x = np.sin(first) + (second * x if n_results > 1 else 0)
        return float(x)

    x, h = 0.4, 1e-4
    numeric = (
        -expected(x + 2 * h)
        + 16 * expected(x + h)
        - 30 * expected(x)
        + 16 * expected(x - h)
        - expected(x - 2 * h)
    ) / (12 * h * h)
    argument = Tensor(np.array(x))
    for inner in (grad(f), jacobian(f, mode="forward")):
        for mode in ("forward", "reverse"):
            second = jacobian(inner, mode=mode)(argument)
            np.testing.assert_allclose(second.item(), numeric, rtol=1e-5)
    third = (grad(grad(grad(f)))(argument), jacobian(grad(grad(f)), mode="forward")(argument))
    np.testing.assert_allclose(third[0].item(), third[1].item(), rtol=1e-9)


def test_a_function_of_nothing_in_a_loop() -> None:
    def f(x: Tensor) -> Tensor:
        constant = checkpoint(lambda: Tensor.full((12,), 0.5, dtype="float64").sin().sum())
        return fori_loop(0, 3, lambda _, c: (c * constant()).sin(), x)

    def expected(x: float) -> float:
        for _ in range(3):
            x = np.sin(x * 12 * np.sin(0.5))
        return float(x)

    x, h = 0.2, 1e-6
    slope = (expected(x + h) - expected(x - h)) / (2 * h)
    np.testing.assert_allclose(grad(f)(Tensor(np.array(x))).item(), slope, rtol=1e-6)
