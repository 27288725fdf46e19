"""`custom_gradient`: derivatives that functions declare."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from svod_tensor import (
    Tensor,
    custom_function,
    custom_gradient,
    grad,
    jit,
    jvp,
    register_custom_function,
    scan,
    value_and_grad,
    vjp,
)
from svod_tensor.errors import DerivativeError

_X = np.array([0.5, -1.25, 2.0])


@custom_gradient
def _cube(x: Tensor) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
    # Its derivative is declared ten times as large as it is.
    return x**3, lambda cotangent: cotangent * 30 * x * x


def test_the_declared_derivative_is_taken_in_each_order_and_mode() -> None:
    x = Tensor(_X)
    value, gradient = value_and_grad(lambda x: _cube(x).sum())(x)
    assert value.item() == pytest.approx((_X**3).sum())
    np.testing.assert_allclose(gradient.numpy(), 30 * _X**2)
    np.testing.assert_allclose(
        grad(lambda x: grad(lambda x: _cube(x).sum())(x).sum())(x).numpy(), 60 * _X
    )
    direction = np.array([1.0, 2.0, -1.0])
    _, along = jvp(_cube, (x,), (Tensor(direction),))
    np.testing.assert_allclose(along.numpy(), 30 * _X**2 * direction)
    _, second = jvp(lambda x: jvp(_cube, (x,), (Tensor(direction),))[1], (x,), (Tensor(direction),))
    np.testing.assert_allclose(second.numpy(), 60 * _X * direction**2)
    (by_x,) = _cube(x).sum().gradient(x)
    np.testing.assert_allclose(by_x.numpy(), 30 * _X**2)


@custom_gradient
def _polar(
    point: dict[str, Tensor], times: int, *, scale: float
) -> tuple[Any, Callable[[Any], Any]]:
    x, y = point["x"], point["y"]
    radius = (x * x + y * y).sqrt()
    values = {
        "radius": radius * scale,
        "angle": Tensor.atan2(y, x),
        "quadrant": (x > 0).cast("int32") * times,
    }

    def backward(cotangents: dict[str, Tensor | None]) -> tuple[dict[str, Tensor], None]:
        by_radius, by_angle = cotangents["radius"], cotangents["angle"]
        assert by_radius is not None
        assert by_angle is not None
        assert cotangents["quadrant"] is None
        by_x = by_radius * scale * x / radius - by_angle * y / radius**2
        return {"x": by_x, "y": by_radius * scale * y / radius + by_angle * x / radius**2}, None

    return values, backward


def test_nested_arguments_and_several_results() -> None:
    point = {"x": Tensor([0.6, -1.0], dtype="float64"), "y": Tensor([0.8, 2.0], dtype="float64")}

    def declared(point: dict[str, Tensor]) -> Tensor:
        found = _polar(point, 3, scale=2.0)
        return (found["radius"] * found["angle"].exp()).sum() + found["quadrant"].sum() * 0.0

    def plain(point: dict[str, Tensor]) -> Tensor:
        return (
            2
            * (point["x"] ** 2 + point["y"] ** 2).sqrt()
            * Tensor.atan2(point["y"], point["x"]).exp()
        ).sum()

    for name in ("x", "y"):
        np.testing.assert_allclose(
            grad(declared)(point)[name].numpy(), grad(plain)(point)[name].numpy()
        )
    tangents = {"x": Tensor([1.0, 2.0], dtype="float64"), "y": Tensor([-0.5, 1.0], dtype="float64")}
    (_, found), (_, expected) = (jvp(f, (point,), (tangents,)) for f in (declared, plain))
    assert found.item() == pytest.approx(expected.item())
    only_angle = grad(lambda point: _polar(point, 1, scale=1.0)["angle"].sum())(point)
    np.testing.assert_allclose(only_angle["x"].numpy(), [-0.8, -2 / 5])


def test_writes_between_a_value_and_its_derivative_are_not_visible() -> None:
    x, slope = Tensor(_X).realize(), Tensor([2.0, 3.0, 4.0], dtype="float64").realize()
    scaled = custom_gradient(lambda x: (x * slope, lambda c: c * slope))
    _, pull = vjp(scaled, x)
    slope.assign(slope * 100).realize()
    assert pull(Tensor(np.ones(3)))[0].tolist() == [2.0, 3.0, 4.0]


def test_custom_gradients_in_captured_functions_and_loops() -> None:
    step = jit(lambda x: x - grad(lambda x: _cube(x).sum())(x) / 30)
    for values in (_X, _X * 2):
        np.testing.assert_allclose(step(Tensor(values)).numpy(), values - values**2)
    _, rows = scan(
        lambda c, x: (c, grad(lambda x: _cube(x).sum())(x)),
        Tensor(0.0),
        Tensor(np.stack([_X, -_X, 3 * _X])),
    )
    np.testing.assert_allclose(rows.numpy(), 30 * np.stack([_X, -_X, 3 * _X]) ** 2)


def test_a_function_of_the_host_declares_its_derivative() -> None:
    register_custom_function("test_host_sine", lambda out, x: np.sin(x, out=out))
    register_custom_function("test_host_cosine", lambda out, x: np.cos(x, out=out))

    @custom_gradient
    def sine(x: Tensor) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
        y = custom_function("test_host_sine", x, outputs=(x.shape, x.dtype))
        return y, lambda c: c * custom_function("test_host_cosine", x, outputs=(x.shape, x.dtype))

    np.testing.assert_allclose(
        grad(lambda x: (sine(x) ** 2).sum())(Tensor(_X)).numpy(), np.sin(2 * _X)
    )


@pytest.mark.parametrize(
    ("f", "problem"),
    [
        (lambda x: x * 2, "not a pair"),
        (
            lambda x: (x * 2, lambda c: (c, c)),
            r"expected a cotangent \* of argument.*, got \(\*, \*\)",
        ),
        (lambda x: (x * 2, lambda c: c.sum()), "shape"),
        (lambda x: (x * 2, lambda c: c.cast("float32")), "float32"),
        (lambda x: (x * 2, lambda c: [c]), "nest it"),
        (lambda x: (x * 2, lambda c: c * c.sum().item()), "reads values"),
        (lambda x: (x.assign(x * 2), lambda c: c), "assigns to its argument"),
    ],
)
def test_invalid_arguments_are_errors(f: Callable[..., Any], problem: str) -> None:
    with pytest.raises(DerivativeError, match=problem):
        grad(lambda x: custom_gradient(f)(x).sum())(Tensor(_X))


def test_differentiated_tensors_must_be_arguments() -> None:
    def loss(x: Tensor, w: Tensor) -> Tensor:
        return custom_gradient(lambda x: (x * w, lambda c: c * w))(x).sum()

    x, w = Tensor(_X), Tensor(_X + 1)
    with pytest.raises(DerivativeError, match="positional argument"):
        grad(loss, argnums=(0, 1))(x, w)
    np.testing.assert_allclose(grad(loss)(x, w).numpy(), _X + 1)
    np.testing.assert_allclose(grad(lambda x, w: loss(x, w.detach()), 0)(x, w).numpy(), _X + 1)


def test_a_value_independent_of_an_argument_has_no_derivative_by_it() -> None:
    first = custom_gradient(lambda x, y: (x * y, lambda c: (c * y, None)))
    by_x, by_y = grad(lambda x, y: first(x, y).sum(), argnums=(0, 1))(Tensor(_X), Tensor(_X * 2))
    np.testing.assert_allclose(by_x.numpy(), 2 * _X)
    assert by_y.tolist() == [0.0, 0.0, 0.0]
