"""Rules of composed operations serve both modes, and second derivatives; numbers that an oracle
gave name it.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from svod_tensor import Tensor, grad, hessian, jvp, logcumsumexp, vjp
from svod_tensor.ops.core.gradient_rules import elementwise_rule, gradient_rule, with_rule
from svod_testing.derivatives.points import differentiate_elementwise, find_difference

INF = math.inf


def take_second(f: Callable[[Tensor], Tensor], x: float, dtype: str = "float32") -> list[float]:
    """The second derivative at a number, in each combination of modes."""
    found = differentiate_elementwise(f, [np.array([x])], dtype=dtype)
    return [values.item() for name, values in found.items() if "," in name]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("x", [-1000.0, -89.0, -0.0, 0.0, 89.0, 1000.0, INF, -INF])
@pytest.mark.parametrize("name", ["sigmoid", "softplus", "silu", "gelu", "mish", "relu", "elu"])
def test_activations_have_finite_derivatives_of_two_orders_at_any_number(
    name: str, x: float, dtype: str
) -> None:
    if name == "mish" and math.isinf(x):
        pytest.skip("a product of its parts, which is NaN at infinity")
    found = differentiate_elementwise(lambda x: getattr(x, name)(), [np.array([x])], dtype=dtype)
    assert find_difference(found) is None
    if math.isfinite(x):
        assert all(np.isfinite(values).all() for values in found.values())


def test_second_derivatives_of_activations_at_zero() -> None:
    # Of torch 2.13.
    assert take_second(lambda x: x.silu(), 0.0) == [0.5] * 4
    np.testing.assert_allclose(take_second(lambda x: x.gelu(), 0.0), [0.7978845608] * 4, rtol=1e-6)
    np.testing.assert_allclose(
        take_second(lambda x: x.gelu("tanh"), 0.0), [0.7978845608] * 4, rtol=1e-6
    )
    np.testing.assert_allclose(take_second(lambda x: x.mish(), 0.0), [0.64] * 4, rtol=1e-6)
    assert take_second(lambda x: x.elu(), 0.0) == [1.0] * 4
    assert take_second(lambda x: x.logaddexp(x.detach()), 0.0) == [0.25] * 4


def test_second_derivatives_where_a_cotangent_is_zero() -> None:
    for f, expected in (
        (lambda x: x * x.exp(), 2.0),
        (lambda x: x * x.tanh(), 2.0),
        (lambda x: x * x.sin(), 2.0),
        (lambda x: x * (x + 1).log(), 2.0),
        (lambda x: x * (x + 1).sqrt(), 1.0),
    ):
        assert take_second(f, 0.0) == [expected] * 4


def test_a_mask_of_zeros_still_hides_infinite_derivatives() -> None:
    mask = Tensor([0.0, 1.0])
    x = Tensor([0.0, 4.0])
    assert grad(lambda x: (mask * x.sqrt()).sum())(x).tolist() == [0.0, 0.25]
    assert hessian(lambda x: (mask * x.sqrt()).sum())(x).tolist() == [[0.0, 0.0], [0.0, -0.03125]]
    safe = grad(grad(lambda x: (x > 0).where(x.log(), 0.0)))
    assert safe(Tensor(0.0)).item() == 0.0


def test_mixed_derivatives_of_products_at_zero() -> None:
    two, zero = Tensor(2.0), Tensor(0.0)
    assert grad(lambda x: grad(lambda y: x.xlogy(y))(two))(zero).item() == 0.5
    assert grad(lambda y: grad(lambda x: x.xlogy(y))(zero))(two).item() == 0.5
    # d/dy of y x^(y - 1) at y = 0.
    assert grad(lambda y: grad(lambda x: x**y)(two))(zero).item() == 0.5
    assert grad(lambda y: grad(lambda x: x**y)(zero))(zero).item() == 0.0


def test_modes_agree_at_kinks_and_ties() -> None:
    one = Tensor(1.0)
    assert jvp(lambda x: x.relu(), (Tensor(0.0),), (one,))[1].item() == 0.0
    image = Tensor.zeros(1, 1, 2, 2)
    tangent = Tensor([[[[1.0, 10.0], [100.0, 1000.0]]]])
    assert jvp(lambda x: x.max_pool2d(2), (image,), (tangent,))[1].item() == 1.0
    assert (
        jvp(lambda x: x.norm(ord=0.5), (Tensor([0.0, 0.0]),), (Tensor([1.0, 1.0]),))[1].item()
        == 0.0
    )
    assert hessian(lambda x: x.norm())(Tensor([0.0, 0.0])).tolist() == [[0.0, 0.0], [0.0, 0.0]]
    assert hessian(lambda x: x[0].hypot(x[1]))(Tensor([0.0, 0.0])).tolist() == [
        [0.0, 0.0],
        [0.0, 0.0],
    ]


def test_variances_of_equal_elements_have_their_second_derivatives() -> None:
    x = Tensor([2.0, 2.0, 2.0, 2.0])
    expected = (np.eye(4) - 0.25) * 2 / 4
    hole = Tensor([float("nan")])
    for variance in (
        lambda x: x.var(),
        lambda x: x.nanvar(),
        lambda x: Tensor.concat((hole, x)).nanvar(),
    ):
        found = hessian(variance)(x).numpy()
        np.testing.assert_allclose(found, expected, rtol=1e-6, err_msg=str(variance))


def test_a_tangent_of_zero_stays_zero_at_a_pole() -> None:
    for f in (
        lambda x: x.asin(),
        lambda x: x.atanh(),
        lambda x: x.log1p().neg(),
        lambda x: x.erfinv(),
    ):
        sign = -1.0 if f(Tensor(0.5)).item() < 0 else 1.0
        assert jvp(f, (Tensor(sign),), (Tensor(0.0),))[1].item() == 0.0


def test_second_derivatives_at_poles_have_the_sign_of_the_side() -> None:
    assert take_second(lambda x: x.asin(), 1.0) == [INF] * 4
    assert take_second(lambda x: x.acos(), -1.0) == [INF] * 4
    assert take_second(lambda x: x.atanh(), -1.0) == [-INF] * 4
    assert take_second(lambda x: x.acosh(), 1.0) == [-INF] * 4
    assert take_second(lambda x: x.logit(), 0.0) == [-INF] * 4
    assert take_second(lambda x: x.erfinv(), 1.0) == [INF] * 4


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_logcumsumexp_of_equal_elements_shares_the_derivative(dtype: str) -> None:
    # Of torch 2.13 and jax 0.10.
    x, cotangent = Tensor([1.0, 1.0, 1.0], dtype=dtype), Tensor([1.0, 2.0, 3.0], dtype=dtype)
    found = vjp(lambda x: logcumsumexp(x, 0), x)[1](cotangent)[0]
    np.testing.assert_allclose(
        found.numpy(), [3.0, 2.0, 1.0], rtol=2e-3 if dtype == "float16" else 1e-6
    )
    padded = Tensor([-INF, 0.0, -INF, 0.0], dtype=dtype)
    found = vjp(lambda x: logcumsumexp(x, 0), padded)[1](Tensor([1.0, 1.0, 1.0, 2.0], dtype=dtype))[
        0
    ]
    np.testing.assert_allclose(found.numpy(), [0.0, 3.0, 0.0, 1.0], rtol=2e-3)


@pytest.mark.parametrize("kind", ["added", "bool"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_fully_masked_query_gives_zeros_and_a_zero_derivative(kind: str, dtype: str) -> None:
    allowed = np.array([[True, False], [False, False]])
    mask = (
        Tensor(allowed)
        if kind == "bool"
        else Tensor(np.where(allowed, 0.0, -INF).astype("float32"))
    )
    args = tuple(Tensor(np.ones((2, 3), "float32") * n).cast(dtype) for n in (1, 2, 3))

    def attend(*args: Tensor) -> Tensor:
        return args[0].scaled_dot_product_attention(args[1], args[2], mask)

    assert attend(*args).cast("float32").tolist() == [[3.0] * 3, [0.0] * 3]
    by_query, by_key, by_value = vjp(attend, *args)[1](
        Tensor(np.ones((2, 3), "float32")).cast(dtype)
    )
    assert by_query.cast("float32").tolist() == by_key.cast("float32").tolist() == [[0.0] * 3] * 2
    assert by_value.cast("float32").tolist() == [[1.0] * 3, [0.0] * 3]
    tangents = tuple(Tensor(np.ones((2, 3), "float32")).cast(dtype) for _ in args)
    assert jvp(attend, args, tangents)[1].cast("float32").tolist() == [[1.0] * 3, [0.0] * 3]


def test_equal_elements_of_a_quantile_share_the_derivative() -> None:
    # Of torch 2.13 and jax 0.10.
    assert grad(lambda x: x.quantile(0.25))(Tensor([1.0, 1.0, 1.0])).tolist() == [0.5, 0.5, 0.0]
    assert Tensor([INF, INF]).quantile(0.5).item() == INF


def test_scattered_products_have_second_derivatives_at_zeros() -> None:
    places = Tensor([0, 0, 0])

    def multiply(y: Tensor) -> Tensor:
        return Tensor([2.0]).scatter_reduce(0, places, y, "prod", include_self=True).sum()

    assert hessian(multiply)(Tensor([0.0, 3.0, 5.0])).tolist() == [
        [0.0, 10.0, 6.0],
        [10.0, 0.0, 0.0],
        [6.0, 0.0, 0.0],
    ]
    assert hessian(multiply)(Tensor([0.0, 0.0, 5.0])).tolist() == [
        [0.0, 10.0, 0.0],
        [10.0, 0.0, 0.0],
        [0.0, 0.0, 0.0],
    ]


def test_a_rule_may_give_the_tangent_or_be_symmetric() -> None:
    def push(tangents: tuple[Tensor], value: Tensor, operands: tuple[Tensor]) -> Tensor:
        return tangents[0] * 3

    def pull(
        cotangent: Tensor, value: Tensor, operands: tuple[Tensor], wanted: tuple[bool]
    ) -> tuple[Tensor]:
        return (cotangent * 2,)

    x = Tensor([1.0, 2.0])
    for rule, expected in (
        (gradient_rule("given-tangent", forward=push)(pull), 3.0),
        (gradient_rule("symmetric", is_symmetric=True)(pull), 2.0),
        (gradient_rule("transposed")(pull), 2.0),
    ):
        f = lambda x, rule=rule: with_rule(rule, x.exp(), (x,))  # noqa: E731
        assert vjp(f, x)[1](Tensor([1.0, 1.0]))[0].tolist() == [2.0, 2.0]
        assert jvp(f, (x,), (Tensor([1.0, 1.0]),))[1].tolist() == [expected, expected]


def test_partial_derivatives_broadcast_in_both_modes() -> None:
    @elementwise_rule("product")
    def rule(
        _: Tensor, operands: tuple[Tensor, Tensor], wanted: tuple[bool, bool]
    ) -> tuple[Tensor, Tensor]:
        return operands[1], operands[0]

    def multiply(x: Tensor, y: Tensor) -> Tensor:
        return with_rule(rule, x * y, (x, y))

    x, y = Tensor([[1.0], [2.0]]), Tensor([3.0, 4.0, 5.0])
    by_x, by_y = vjp(multiply, x, y)[1](Tensor.ones(2, 3))
    assert (by_x.tolist(), by_y.tolist()) == ([[12.0], [12.0]], [3.0, 3.0, 3.0])
    along = jvp(multiply, (x, y), (Tensor.ones(2, 1), Tensor.ones(3)))[1]
    assert along.tolist() == [[4.0, 5.0, 6.0], [5.0, 6.0, 7.0]]
    empty = jvp(multiply, (Tensor.zeros(0, 1), y), (Tensor.zeros(0, 1), y))[1]
    assert empty.tolist() == []


def test_forward_mode_walks_a_rule_and_not_the_graph_below_it() -> None:
    def apply(x: Tensor, n: int) -> Tensor:
        for _ in range(n):
            x = x.log_softmax().var(-1, keepdims=True) * x
        return x

    x = Tensor.ones(2, 3)
    sizes = [
        len(jvp(lambda x, n=n: apply(x, n), (x,), (x,))[1].uop.toposort()) for n in (8, 16, 32)
    ]
    assert sizes[2] - sizes[1] <= 2.1 * (sizes[1] - sizes[0])
