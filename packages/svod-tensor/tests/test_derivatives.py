"""What derivatives mean: of functions, graphs and loops, whatever is computed meanwhile."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from svod_ir import NotDifferentiableError
from svod_tensor import Tensor, grad, jacobian, jit, jvp, value_and_grad, vjp
from svod_tensor.errors import DerivativeError


def test_a_graph_gradient_is_with_respect_to_the_elements_of_its_sources() -> None:
    x = Tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    total = (x.T.reshape(-1) * x.T.flatten() + x.sum()).sum()
    (by_x,) = total.gradient(x)
    assert by_x.tolist() == (2 * x.numpy() + 6).tolist()
    by_view, by_part = total.gradient(x.T, x[1:, ::-1])
    assert by_view.tolist() == by_x.numpy().T.tolist()
    assert by_part.tolist() == by_x.numpy()[1:, ::-1].tolist()


def test_a_captured_tensor_is_no_argument_even_if_it_is_the_same_tensor() -> None:
    x = Tensor([1.0, 2.0, 3.0]).realize()
    assert grad(lambda a: (a * x).sum())(x).tolist() == [1.0, 2.0, 3.0]
    assert grad(lambda a: (a * Tensor.ones(3)).sum())(Tensor.ones(3)).tolist() == [1.0, 1.0, 1.0]


def test_values_that_are_read_in_a_function_change_no_gradient() -> None:
    def f(x: Tensor) -> Tensor:
        y = x * x
        z = y * x
        y.realize()
        scale = 3.0 if y.sum().item() > 0 else 1.0
        w = y + z
        w.realize()
        w[0] = 0.0
        return (w * y).sum() * scale

    x = np.array([1.0, 2.0, -3.0])
    expected = 3 * (4 * x**3 + 5 * x**4) * [0, 1, 1]
    np.testing.assert_allclose(grad(f)(Tensor(x)).numpy(), expected)


def test_gradients_are_nested_as_the_arguments_and_zero_for_unused_ones() -> None:
    tree = {"a": Tensor([1.0]), "b": [Tensor([2.0]), (Tensor([[3.0]]), None)]}
    value, gradients = value_and_grad(lambda t: (t["a"] * t["b"][0]).sum())(tree)
    assert value.item() == 2.0
    assert gradients["a"].tolist() == [2.0]
    assert gradients["b"][0].tolist() == [1.0]
    assert gradients["b"][1][0].tolist() == [[0.0]]
    assert gradients["b"][1][1] is None


def test_several_arguments_and_auxiliary_data() -> None:
    f = value_and_grad(lambda a, b, *, k: ((a * b * k).sum(), a + b), argnums=(0, -1), has_aux=True)
    (value, aux), (by_a, by_b) = f(Tensor([2.0]), Tensor([5.0]), k=3.0)
    assert (value.item(), aux.tolist(), by_a.tolist(), by_b.tolist()) == (
        30.0,
        [7.0],
        [15.0],
        [6.0],
    )


def test_derivatives_of_any_order() -> None:
    third = grad(grad(grad(lambda x: x**5)))
    assert third(Tensor(2.0, dtype="float64")).item() == 60.0 * 4
    _, along = jvp(
        grad(lambda x: x.sin()), (Tensor(0.5, dtype="float64"),), (Tensor(1.0, dtype="float64"),)
    )
    assert along.item() == pytest.approx(-np.sin(0.5))


def test_forward_and_reverse_mode_agree() -> None:
    rng = np.random.default_rng(0)
    w, x = Tensor(rng.normal(size=(3, 4))), Tensor(rng.normal(size=(5, 4)))

    def f(w: Tensor) -> Tensor:
        h = (x @ w.T).softmax(-1)
        return h.log() * h.relu() + (x @ w.T).log_softmax(0) * (x @ w.T).sigmoid()

    tangent, cotangent = Tensor(rng.normal(size=(3, 4))), Tensor(rng.normal(size=(5, 3)))
    y, along = jvp(f, (w,), (tangent,))
    same, pull = vjp(f, w)
    np.testing.assert_array_equal(y.numpy(), same.numpy())
    (back,) = pull(cotangent)
    assert (along * cotangent).sum().item() == pytest.approx(
        (back * tangent).sum().item(), rel=1e-10
    )


def test_the_unselected_branch_of_where_gives_no_nan() -> None:
    def f(x: Tensor) -> Tensor:
        safe = (x > 0).where(x.sqrt() + x.log() + 1 / x + x.rsqrt() + x**-0.5, 0.0)
        return (safe + (x < 1e30).where(x.exp(), 0) + (x > 0).where(x * (1 / x), 0.0)).sum()

    found = grad(f)(Tensor([0.0, -1.0, 1.0], dtype="float64")).numpy()
    np.testing.assert_allclose(found, [1.0, np.exp(-1), 0.5 + 1 - 1 - 0.5 - 0.5 + np.e])


@pytest.mark.parametrize("values", [[2.0, 3.0, 4.0], [0.0, 3.0, 4.0], [0.0, 3.0, 0.0]])
def test_products_have_derivatives_at_zeros(values: list[float]) -> None:
    x = np.array(values)
    others = [np.prod(np.delete(x, i)) for i in range(3)]
    assert grad(lambda a: a.prod())(Tensor(x)).tolist() == others
    found = grad(lambda a: a.cumprod(0).sum())(Tensor(x)).tolist()
    assert found == [1 + x[1] + x[1] * x[2], x[0] + x[0] * x[2], x[0] * x[1]]


def test_equal_extrema_share_the_derivative() -> None:
    assert grad(lambda a: a.max())(Tensor([3.0, 2.0, 3.0])).tolist() == [0.5, 0.0, 0.5]
    assert grad(lambda a: a.maximum(1.0).sum())(Tensor([1.0, 2.0, 0.0])).tolist() == [0.5, 1.0, 0.0]
    assert grad(lambda a: a.relu().sum())(Tensor([0.0, 2.0, -1.0])).tolist() == [0.0, 1.0, 0.0]


def test_a_captured_function_has_gradients_inside_and_around_it() -> None:
    f = jit(lambda x: (x * x).sum())
    x = Tensor([1.0, 2.0])
    assert grad(f)(x).tolist() == [2.0, 4.0]
    step = jit(lambda x: x - 0.5 * grad(f)(x))
    assert step(x).tolist() == [0.0, 0.0]
    assert step(Tensor([3.0, 1.0])).tolist() == [0.0, 0.0]


def test_assignments_are_functional_updates() -> None:
    def f(a: Tensor) -> Tensor:
        y = Tensor.zeros(4).contiguous()
        y[1:3] = a * 2
        y[0] = y[1] * y[2]
        return (y * y).sum()

    # y is (4 a b, 2 a, 2 b, 0).
    assert grad(f)(Tensor([1.0, 2.0])).tolist() == [32.0 * 4 + 8, 32.0 * 2 + 16]


def test_invalid_arguments_are_errors() -> None:
    x = Tensor([1.0, 2.0])
    with pytest.raises(DerivativeError, match="not a scalar"):
        grad(lambda a: a * 2)(x)
    with pytest.raises(DerivativeError, match="int32"):
        grad(lambda a: a.sum())(Tensor([1, 2]))
    with pytest.raises(DerivativeError, match="argnums"):
        grad(lambda a: a.sum(), argnums=1)(x)
    with pytest.raises(DerivativeError, match="assigns to its argument"):
        grad(lambda a: a.assign(a * 2).sum())(x)
    with pytest.raises(DerivativeError, match="does not depend"):
        x.sum().gradient(Tensor([3.0]).realize())
    with pytest.raises(NotDifferentiableError, match="bits"):
        grad(lambda a: a.bitcast("int32").bitcast("float32").sum())(x)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_the_gradient_of_gathering_one_element_per_row_is_fused(axis):
    rng = np.random.default_rng(axis)
    x = rng.normal(size=(3, 4, 2))
    shape = (*x.shape[:axis], 1, *x.shape[axis + 1 :])
    # Negative ones are counted from the end, and what is out of range reads as 0.
    places = rng.integers(-x.shape[axis], x.shape[axis], shape)
    places.flat[0] = 7
    factors = rng.normal(size=shape)
    wanted = np.zeros_like(x)
    np.put_along_axis(
        wanted, np.where(places == 7, 0, places), np.where(places == 7, 0, factors), axis
    )

    def derive(x, places):
        return grad(lambda x: (x.take_along_axis(places, axis) * Tensor(factors)).sum())(x) + x

    step = jit(derive)
    np.testing.assert_allclose(step(Tensor(x), Tensor(places)).numpy(), wanted + x, rtol=1e-12)
    (plan,) = step.plans()
    assert plan.num_kernels == 1
    second = grad(
        lambda x: grad(lambda x: (x.take_along_axis(Tensor(places), axis) ** 3).sum())(x).sum()
    )(Tensor(x))
    taken = np.take_along_axis(x, np.where(places == 7, 0, places), axis)
    wanted = np.zeros_like(x)
    np.put_along_axis(
        wanted, np.where(places == 7, 0, places), np.where(places == 7, 0, 6 * taken), axis
    )
    np.testing.assert_allclose(second.numpy(), wanted, rtol=1e-12)


def test_rules_take_axes_as_lists() -> None:
    x = Tensor([[1.0, 2.0], [3.0, 5.0]])
    for f in (Tensor.layernorm, Tensor.rms_norm, Tensor.var, Tensor.std):
        found = grad(lambda x, f=f: (f(x, [0, 1]) * Tensor([[1.0, 2.0], [3.0, 4.0]])).sum())(x)
        same = grad(lambda x, f=f: (f(x, (1, 0)) * Tensor([[1.0, 2.0], [3.0, 4.0]])).sum())(x)
        np.testing.assert_allclose(found.numpy(), same.numpy(), rtol=1e-5, atol=1e-6)


def read_written(w: Tensor) -> object:
    y = Tensor.zeros(2)
    y[:1] = w[:1]
    return y.numpy()


READS: dict[str, Callable[[Tensor], object]] = {
    "argument": lambda w: w.numpy(),
    "lazy": lambda w: (w * 2).numpy(),
    "computed": lambda w: (w * 2).realize().numpy(),
    "view": lambda w: (w * 2)[:1].numpy(copy=True),
    "array": lambda w: np.asarray(w),
    "written": read_written,
    "gradient": lambda w: grad(lambda v: (v**3).sum())(w).numpy(),
}


@pytest.mark.parametrize("name", READS)
@pytest.mark.parametrize(
    "take",
    [
        lambda f, x: grad(lambda w: f(w).sum())(x),
        lambda f, x: vjp(f, x),
        lambda f, x: jvp(f, (x,), (x,)),
        lambda f, x: jacobian(f)(x),
    ],
    ids=["grad", "vjp", "jvp", "jacobian"],
)
def test_numpy_of_values_that_depend_on_the_argument_is_an_error_that_names_detach(
    name: str, take: Callable[..., object]
):
    def f(w: Tensor) -> Tensor:
        READS[name](w)
        return w * w

    with pytest.raises(
        DerivativeError,
        match=r"numpy: the values depend on an argument(.|\n)*x\.detach\(\)\.numpy\(\)",
    ):
        take(f, Tensor([1.0, 2.0]))


def test_values_that_derivatives_do_not_go_through_and_numbers_are_read():
    constant, seen = Tensor([3.0, 4.0]), []

    def f(w: Tensor) -> Tensor:
        y = w * 2
        seen.append(
            [
                y.detach().numpy().tolist(),
                y.detach()[1:].numpy().tolist(),
                (constant * 2).numpy().tolist(),
            ]
        )
        seen.append(
            [
                w.argmax().numpy().item(),
                (w > 1).numpy().tolist(),
                (w > 1).where(constant, 0.0).numpy().tolist(),
            ]
        )
        seen.append([y.sum().item(), y.tolist(), f"{y.sum():.1f}", float(y[0])])
        seen.append(repr(y.realize()))
        return (w * y).sum()

    assert grad(f)(Tensor([1.0, 2.0])).tolist() == [4, 8]
    assert seen[:3] == [[[2, 4], [4], [6, 8]], [1, [False, True], [0, 4]], [6, [2, 4], "6.0", 2]]
    assert "2., 4." in seen[3]
