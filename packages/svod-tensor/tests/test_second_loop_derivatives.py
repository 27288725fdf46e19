"""Second and third derivatives of loops, in all orders of the two modes: values of JAX, and
formulas.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest

from svod_ir import NotDifferentiableError
from svod_tensor import (
    Tensor,
    Variable,
    associative_scan,
    cond,
    fori_loop,
    grad,
    gru,
    hessian,
    jacobian,
    jit,
    jvp,
    lstm,
    rnn,
    scan,
    switch,
    while_loop,
)

Function = Callable[[Tensor], Tensor]

ORDERS: Final[dict[str, Callable[[Function], Function]]] = {
    "forward of reverse": lambda f: jacobian(grad(f), mode="forward"),
    "reverse of reverse": lambda f: jacobian(grad(f), mode="reverse"),
    "forward of forward": lambda f: jacobian(jacobian(f, mode="forward"), mode="forward"),
    "reverse of forward": lambda f: jacobian(jacobian(f, mode="forward"), mode="reverse"),
}


def sample(size: int) -> Tensor:
    return Tensor(np.linspace(0.5, 0.25 + 0.25 * size, size))


def power(x: Tensor) -> Tensor:
    """Each element to a power of two: x[0]**8 * x[1]**4 * x[2]**2 * x[3], for four."""
    return fori_loop(0, x.shape[0], lambda i, c: x[i] * c * c, Tensor(1.0, dtype="float64"))


def nested(x: Tensor) -> Tensor:
    n = x.shape[0]
    return fori_loop(
        0,
        n,
        lambda i, c: fori_loop(0, n, lambda j, d: d + x[i] * x[j] * d * 0.1 * (i + 1), c),
        Tensor(1.0, dtype="float64"),
    )


def scanned(x: Tensor) -> Tensor:
    def step(c: Tensor, given: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        i, y = given
        c = (c * y).sin() + x[i] * x[0]
        return c, c * y

    last, seen = scan(
        step, Tensor(1.0, dtype="float64"), (Tensor.arange(x.shape[0]), x), reverse=True
    )
    return last + (seen**2).sum()


def written(x: Tensor) -> Tensor:
    def body(i: Tensor, h: Tensor) -> Tensor:
        h[i] = x[i] * h[0] * h.sum()
        return h

    return fori_loop(0, x.shape[0], body, x.ones_like()).prod()


def running(x: Tensor) -> Tensor:
    def follow(first: tuple[Tensor, Tensor], then: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        return first[0] * then[0], then[0] * first[1] + then[1]

    factors, terms = associative_scan(follow, (x.sin(), x * x))
    return (terms**2).sum() + factors.sum()


def halved(x: Tensor) -> Tensor:
    def body(t: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        return t[0] + 1, (t[1] * x[t[0]]).sin() + t[1]

    return while_loop(lambda t: t[0] < x.shape[0], body, (Tensor(0), Tensor(1.0, dtype="float64")))[
        1
    ]


def inner(x: Tensor) -> Tensor:
    """A loop whose body takes second derivatives of another one."""

    def body(i: Tensor, c: Tensor) -> Tensor:
        return c + hessian(power)(x * c * 0.1)[0, -1] * x[i]

    return fori_loop(0, x.shape[0], body, Tensor(1.0, dtype="float64"))


# Of jax in float64, by jacfwd(jacfwd(f)), of sample(3) or sample(4).
JAX: Final[dict[Function, list[list[float]]]] = {
    power: [[1.6875, 0.75, 0.28125], [0.75, 0.125, 0.09375], [0.28125, 0.09375, 0.0]],
    nested: [
        [1.4812202671, 2.3009242903, 2.6780905966],
        [2.3009242903, 2.4581414586, 3.2130029643],
        [2.6780905966, 3.2130029643, 3.0600457753],
    ],
    scanned: [
        [16.712856659, 8.1042170590, 3.3548507353, 14.205175983],
        [8.1042170590, 9.2808804160, 0.21534656690, -0.0011309296934],
        [3.3548507353, 0.21534656690, 1.6643646966, -4.7097692123],
        [14.205175983, -0.0011309296934, -4.7097692123, 12.782586563],
    ],
    written: [
        [3806.3671875, 1141.59375, 517.32421875],
        [1141.59375, 124.03125, 122.5546875],
        [517.32421875, 122.5546875, 0.0],
    ],
    running: [
        [16.2876894735, 13.7591190244, 9.2092915791, 4.5554542634],
        [13.7591190244, 29.133236011, 21.5513051677, 10.948326587],
        [9.2092915791, 21.5513051677, 33.8885891011, 18.4219955478],
        [4.5554542634, 10.948326587, 18.4219955478, 20.741347218],
    ],
    inner: [[0.49, 0.23], [0.23, 0.0]],
}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("f", JAX, ids=lambda f: f.__name__)
def test_each_order_of_the_modes_gives_the_matrix_of_jax(f: Function, order: str) -> None:
    found = ORDERS[order](f)(sample(len(JAX[f])))
    np.testing.assert_allclose(found.numpy(), JAX[f], rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("f", [power, nested], ids=lambda f: f.__name__)
def test_captured_functions_give_the_same_matrix_at_each_call(f: Function, order: str) -> None:
    differentiated = jit(ORDERS[order](f))
    for _ in range(3):
        np.testing.assert_allclose(differentiated(sample(3)).numpy(), JAX[f], rtol=1e-8, atol=1e-9)


def make_recurrent(layer: Callable[..., Any], n_gates: int) -> Function:
    """A recurrent layer of width 2, whose weights are sines."""
    shapes = {
        "weight_ih_l0": (2 * n_gates, 1),
        "weight_hh_l0": (2 * n_gates, 2),
        "bias_ih_l0": (2 * n_gates,),
        "bias_hh_l0": (2 * n_gates,),
    }
    weights = {
        name: Tensor(np.sin(np.arange(np.prod(shape)) + n).reshape(shape))
        for n, (name, shape) in enumerate(shapes.items())
    }
    return lambda x: (layer(x.reshape(-1, 1, 1), weights)[0] ** 2).sum()


# Of torch 2, by torch.autograd.functional.hessian.
RECURRENT: Final[dict[str, tuple[Function, list[list[float]]]]] = {
    "lstm": (
        make_recurrent(lstm, 4),
        [
            [0.3329922917, 0.2218015712, 0.0478960816],
            [0.2218015712, -0.041665426, 0.0845763989],
            [0.0478960816, 0.0845763989, -0.2592464313],
        ],
    ),
    "gru": (
        make_recurrent(gru, 3),
        [
            [0.6050018665, 0.058402286, -0.0149942274],
            [0.058402286, 0.0692953964, 0.0062987463],
            [-0.0149942274, 0.0062987463, -0.0585879828],
        ],
    ),
    "rnn": (
        make_recurrent(rnn, 1),
        [
            [1.8164114768, -1.2025541979, 0.6867675392],
            [-1.2025541979, 1.600499134, -0.9052846683],
            [0.6867675392, -0.9052846683, 1.2865368428],
        ],
    ),
}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("layer", RECURRENT)
def test_recurrent_layers_give_the_matrix_of_torch(layer: str, order: str) -> None:
    f, expected = RECURRENT[layer]
    np.testing.assert_allclose(ORDERS[order](f)(sample(3)).numpy(), expected, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("size", range(1, 8))
def test_each_trip_count_gives_the_matrix_of_the_formula(size: int, order: str) -> None:
    x = sample(size)
    found = ORDERS[order](power)(x).numpy()
    values, exponents = x.numpy(), 2.0 ** np.arange(size)[::-1]
    ratio = exponents / values
    expected = np.prod(values**exponents) * (np.outer(ratio, ratio) - np.diag(ratio / values))
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12 * np.abs(expected).max())


@pytest.mark.parametrize("order", ORDERS)
def test_float32_elements_give_the_matrix_of_jax(order: str) -> None:
    def f(x: Tensor) -> Tensor:
        return fori_loop(0, 4, lambda i, c: x[i] * c * c, Tensor(1.0))

    found = ORDERS[order](f)(Tensor([0.5, 1.0, 1.5, 2.0]))
    assert found.tolist() == [
        [3.9375, 1.125, 0.375, 0.140625],
        [1.125, 0.2109375, 0.09375, 0.03515625],
        [0.375, 0.09375, 0.015625, 0.01171875],
        [0.140625, 0.03515625, 0.01171875, 0.0],
    ]


def test_a_loop_with_a_condition_has_the_forward_of_the_forward_mode_only() -> None:
    # Of jax, by jacfwd(jacfwd(f)).
    expected = [
        [-1.237907164, -0.6693328547, -2.7715289013],
        [-0.6693328547, -0.8490849981, -1.5589952302],
        [-2.7715289013, -1.5589952302, -3.9128688932],
    ]
    found = ORDERS["forward of forward"](halved)(sample(3))
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-8)
    for order in ("forward of reverse", "reverse of reverse", "reverse of forward"):
        with pytest.raises(
            NotDifferentiableError, match="its trip count is only known at run time"
        ):
            ORDERS[order](halved)(sample(3))


def test_third_derivatives() -> None:
    # Of jax, by jacfwd(hessian(f)).
    expected = [
        [[6.75, 4.5, 1.6875], [4.5, 1.0, 0.75], [1.6875, 0.75, 0.0]],
        [[4.5, 1.0, 0.75], [1.0, 0.0, 0.125], [0.75, 0.125, 0.0]],
        [[1.6875, 0.75, 0.0], [0.75, 0.125, 0.0], [0.0, 0.0, 0.0]],
    ]
    for order in ORDERS.values():
        for mode in ("forward", "reverse"):
            np.testing.assert_allclose(
                jacobian(order(power), mode=mode)(sample(3)).numpy(), expected, atol=1e-9
            )
    found = jacobian(hessian(scanned))(sample(2))
    expected = [[60.1111654473, 12.6548878552], [12.6548878552, 14.4999354001]]
    np.testing.assert_allclose(found[0].numpy(), expected, rtol=1e-8)
    np.testing.assert_allclose(
        found[1].numpy(),
        [[12.6548878552, 14.4999354001], [14.4999354001, 18.4222410489]],
        rtol=1e-8,
    )


@pytest.mark.parametrize("f", [power, nested, scanned, written, running], ids=lambda f: f.__name__)
def test_products_of_the_matrix_with_a_vector(f: Function) -> None:
    x = sample(len(JAX[f]))
    along = Tensor(np.cos(np.arange(len(JAX[f]))))
    expected = np.array(JAX[f]) @ along.numpy()
    products: dict[str, Any] = {
        "forward of reverse": jvp(grad(f), (x,), (along,))[1],
        "reverse of forward": grad(lambda y: jvp(f, (y,), (along,))[1])(x),
        "reverse of reverse": grad(lambda y: (grad(f)(y) * along).sum())(x),
    }
    for name, product in products.items():
        np.testing.assert_allclose(product.numpy(), expected, rtol=1e-7, atol=1e-8, err_msg=name)
    twice = jvp(lambda y: jvp(f, (y,), (along,))[1], (x,), (along,))[1]
    np.testing.assert_allclose(twice.item(), expected @ along.numpy(), rtol=1e-7)


@pytest.mark.parametrize("order", ORDERS)
def test_a_loop_over_the_calls_of_a_derivative(order: str) -> None:
    """A loop of the caller's around derivatives of a loop that was made before."""
    x = sample(3)
    whole = power(x * 1.0)
    second = ORDERS[order](power)

    def body(i: Tensor, c: Tensor) -> Tensor:
        return c + second(x)[i] * (i + 1) + whole * i

    found = fori_loop(0, 3, body, Tensor.zeros(3, dtype="float64"))
    expected = np.array(JAX[power]).T @ [1, 2, 3] + 3 * whole.item()
    np.testing.assert_allclose(found.numpy(), expected)


@pytest.mark.parametrize("order", ORDERS)
def test_switches_in_loops_that_read_a_variable(order: str) -> None:
    n = Variable("n", 1, 9).bind(3)

    def f(x: Tensor) -> Tensor:
        def choose(c: Tensor) -> Tensor:
            return cond(
                c.sum() > 0.1,
                lambda c: fori_loop(0, n, lambda i, c: c * x * (i + 1), c),
                lambda c: switch(0, [lambda c: c * x, lambda c: c], c),
                c,
            )

        return fori_loop(0, 2, lambda _, c: choose(c), x.ones_like()).sum()

    # Six times x in each of two iterations, three times.
    x = sample(2)
    np.testing.assert_allclose(ORDERS[order](f)(x).numpy(), np.diag(36 * 30 * x.numpy() ** 4))


@pytest.mark.parametrize("order", ORDERS)
def test_switches_that_read_a_variable(order: str) -> None:
    """The bound variable is an operand of the choice, and derivatives append others to it."""
    n = Variable("n", 1, 9).bind(3)

    def f(x: Tensor) -> Tensor:
        return cond(
            x.sum() > 0.1,
            lambda x: fori_loop(0, n, lambda i, c: c * x * (i + 1), x),
            lambda x: x,
            x,
        ).sum()

    x = sample(2)
    np.testing.assert_allclose(ORDERS[order](f)(x).numpy(), np.diag(6 * 12 * x.numpy() ** 2))
