"""Derivatives of loops and choices: those of the same program written out, in both modes and of
second order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import svod_tensor
from svod_ir import NotDifferentiableError, Op
from svod_tensor import (
    PrepareConfig,
    Tensor,
    Variable,
    associative_scan,
    checkpoint,
    fori_loop,
    grad,
    gru,
    jit,
    jvp,
    logcumsumexp,
    lstm,
    manual_seed,
    rnn,
    scan,
    value_and_grad,
    while_loop,
)
from svod_tensor._trees import flatten
from svod_tensor.errors import LoopArgumentError
from svod_tensor.explain import explain


class WrittenOut:
    """Loops and choices as Python has them."""

    @staticmethod
    def scan(
        f: Any, init: Any, xs: Any = None, length: int | None = None, reverse: bool = False
    ) -> Any:
        leaves, structure = flatten(xs)
        n = length if not leaves else leaves[0].shape[0]
        carry, rows = init, {}
        for i in reversed(range(n)) if reverse else range(n):
            carry, rows[i] = f(carry, structure.unflatten([leaf[i] for leaf in leaves]))
        parts = [flatten(rows[i]) for i in range(n)]
        return carry, parts[0][1].unflatten(
            [Tensor.stack(list(p)) for p in zip(*(x[0] for x in parts), strict=True)]
        )

    @staticmethod
    def fori_loop(lower: int, upper: int, f: Any, init: Any) -> Any:
        for i in range(lower, upper):
            init = f(i, init)
        return init

    @staticmethod
    def cond(pred: Tensor, f: Any, g: Any, *operands: Any) -> Any:
        return f(*operands) if pred.item() else g(*operands)

    @staticmethod
    def switch(index: Tensor, branches: Any, *operands: Any) -> Any:
        return branches[min(max(int(index.item()), 0), len(branches) - 1)](*operands)


RNG = np.random.default_rng(0)


def draw(*shape: int) -> Tensor:
    return Tensor(RNG.normal(size=shape)).realize()


W, X, XS, V = draw(3, 3), draw(2, 3), draw(3, 2, 3), draw(3)


def run_layer(lib: Any, w: Tensor, x: Tensor, xs: Tensor) -> Tensor:
    def body(h: Tensor, x: Tensor) -> Any:
        h = (h @ w + x).tanh()
        return h, h * x

    h, ys = lib.scan(body, x, xs)
    return h.sum() + (ys * ys).sum()


def run_backwards(lib: Any, w: Tensor, x: Tensor, xs: Tensor) -> Tensor:
    def body(carry: Any, x: Any) -> Any:
        h, total = carry
        h = (h @ w + x["a"] * x["b"]).sin()
        return (h, total + h.sum()), {"h": h, "none": None}

    (h, total), ys = lib.scan(
        body, (x, Tensor(0.0, dtype="float64")), {"a": xs, "b": xs[::-1]}, reverse=True
    )
    return total * h.sum() + (ys["h"] ** 3).sum()


def run_counted(lib: Any, w: Tensor, x: Tensor, v: Tensor) -> Tensor:
    def body(i: Any, x: Tensor) -> Tensor:
        return (x @ w) * v[i] + (x * i).cos()

    return lib.fori_loop(1, 3, body, x).sum()


def run_nested(lib: Any, w: Tensor, x: Tensor, v: Tensor) -> Tensor:
    def outer(i: Any, x: Tensor) -> Tensor:
        inner = lib.fori_loop(0, 2, lambda j, y: (y @ w).tanh() + v[i] * v[j] * x, x)
        _, rows = lib.scan(lambda c, a: (c + a, (c * a).sin()), x[0], inner)
        return rows * v[i] + inner

    return (lib.fori_loop(0, 2, outer, x) ** 2).sum()


def run_choices(lib: Any, w: Tensor, x: Tensor, xs: Tensor) -> Tensor:
    def body(h: Tensor, x: Tensor) -> Any:
        h = lib.cond(x.sum() > 0, lambda h: (h @ w).tanh(), lambda h: h * x, h)
        made = lib.switch(
            (x[0, 0] * 2).cast("int64") + 1, [lambda a: a.sin(), lambda a: a * a, lambda _: x], h
        )
        return h, made

    h, ys = lib.scan(body, x, xs)
    return h.sum() + (ys * ys).sum()


def run_writing(lib: Any, x: Tensor, v: Tensor) -> Tensor:
    def body(i: Any, carry: Any) -> Any:
        x, history = carry
        history[i] = x.sum()
        return (x * v[i]).sin() + history[0] * history.sum(), history

    x, history = lib.fori_loop(0, 3, body, (x, v * 2))
    return x.sum() + (history * v).sum()


def run_overwriting(lib: Any, x: Tensor, v: Tensor) -> Tensor:
    """Nothing of what is carried first is left."""
    return lib.scan(lambda c, a: ((a * a, c[1] + c[0]), c[0] * a), (x.sum(), x.sum()), v)[1].sum()


def run_unused(lib: Any, x: Tensor, v: Tensor) -> Tensor:
    """Carried integers, what no gradient reaches, and what is stopped."""

    def body(c: Any, a: Tensor) -> Any:
        n, x, y = c
        return (n + 1, x * a.detach() + n, y * a), (n, x.floor())

    (n, x, _), (ns, _) = lib.scan(body, (Tensor(0), x, x), v)
    return (x * n).sum() * ns.sum()


CASES: dict[str, tuple[Callable[..., Tensor], tuple[Tensor, ...]]] = {
    "a layer": (run_layer, (W, X, XS)),
    "backwards": (run_backwards, (W, X, XS)),
    "counted": (run_counted, (W, X, V)),
    "nested": (run_nested, (W, X, V)),
    "choices": (run_choices, (W, X, XS)),
    "writing": (run_writing, (X, V)),
    "overwriting": (run_overwriting, (X, V)),
    "unused": (run_unused, (X, V)),
}


def take_first(f: Callable[..., Tensor], args: tuple[Tensor, ...]) -> list[Tensor]:
    """The gradient, and the derivative along a direction."""
    rng = np.random.default_rng(1)
    along = tuple(Tensor(rng.normal(size=a.shape)) for a in args)
    return [*grad(f, tuple(range(len(args))))(*args), jvp(f, args, along)[1]]


def take_second(f: Callable[..., Tensor], args: tuple[Tensor, ...]) -> list[Tensor]:
    """Both of a function of the gradient."""
    numbers = tuple(range(len(args)))

    def square(*args: Tensor) -> Tensor:
        total = Tensor(0.0, dtype="float64")
        for part in grad(f, numbers)(*args):
            total = total + (part * part * part).sum()
        return total

    return take_first(square, args)


def check(take: Any, f: Callable[..., Tensor], args: tuple[Tensor, ...]) -> None:
    written = take(lambda *args: f(WrittenOut, *args), args)
    # Together, and as they are written: they are many operations, and it is not their speed that
    # counts.
    Tensor.realize_batch_with(written, PrepareConfig(opts=()))
    expected = [part.numpy() for part in written]
    assert any(np.abs(part).max() > 0 for part in expected)
    loops = take(lambda *args: f(svod_tensor, *args), args)
    Tensor.realize_batch(loops)
    for one, other in zip(loops, expected, strict=True):
        np.testing.assert_allclose(one.numpy(), other, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", CASES)
def test_derivatives_agree_with_the_unrolled_program(name: str) -> None:
    check(take_first, *CASES[name])


@pytest.mark.parametrize("name", ["overwriting", "a layer"])
def test_second_derivatives_agree_with_the_unrolled_program(name: str) -> None:
    check(take_second, *CASES[name])


def power(x: Tensor, n: Any) -> Tensor:
    return scan(lambda y, _: (y * x, None), x.ones_like(), length=n)[0].sum()


@pytest.mark.parametrize("n", [0, 1, 2, 70])
def test_any_number_of_iterations(n: int) -> None:
    x = Tensor([0.9, 1.1], dtype="float64")
    expected = n * x.numpy() ** (n - 1)
    np.testing.assert_allclose(grad(power)(x, n).numpy(), expected, rtol=1e-12)
    np.testing.assert_allclose(
        jvp(lambda x: power(x, n), (x,), (x.ones_like(),))[1].item(), expected.sum()
    )


def test_one_plan_for_all_values_of_a_variable() -> None:
    steps, x = Variable("steps", 0, 9), Tensor([0.5, 2.0], dtype="float64")

    @jit
    def find(x: Tensor, n: Any) -> Tensor:
        return grad(lambda x: scan(lambda y, _: (y * x, y), x, length=n)[1].sum() + power(x, n))(x)

    for n in (0, 1, 5):
        total = sum((k + 1) * x.numpy() ** k for k in range(n)) + n * x.numpy() ** (n - 1)
        np.testing.assert_allclose(find(x, steps.bind(n)).numpy(), total + np.zeros(2))


def test_computed_trip_counts_have_only_forward_mode() -> None:
    x, n = Tensor(2.0, dtype="float64"), Tensor(3).realize()

    def repeat(x: Tensor) -> Tensor:
        return fori_loop(0, n, lambda _, y: y * x, x)

    def search(x: Tensor) -> Tensor:
        return while_loop(lambda y: y < 30, lambda y: y * x, x)

    assert jvp(repeat, (x,), (x.ones_like(),))[1].item() == 4 * 8
    assert jvp(search, (x,), (x.ones_like(),))[1].item() == 5 * 16
    for f in (repeat, search):
        with pytest.raises(
            NotDifferentiableError, match="its trip count is only known at run time"
        ):
            grad(f)(x)
    assert grad(lambda x: repeat(x.detach()) * x)(x).item() == 16.0


def test_gradients_in_bodies_and_bodies_in_gradients() -> None:
    x, v = Tensor(0.3, dtype="float64"), Tensor([0.1, 0.2, 0.3], dtype="float64")

    def descend(x: Tensor) -> Tensor:
        """Steps along a gradient, of which a gradient is taken."""
        inner = lambda y, a: ((y * y).sin() * a).sum()  # noqa: E731
        return scan(lambda y, a: (y - grad(inner)(y, a), None), x, v)[0]

    def written(x: float) -> float:
        for a in v.tolist():
            x -= 2 * x * np.cos(x * x) * a
        return x

    assert descend(x).item() == pytest.approx(written(0.3))
    expected = (written(0.3 + 1e-6) - written(0.3 - 1e-6)) / 2e-6
    assert grad(descend)(x).item() == pytest.approx(expected)
    assert jvp(descend, (x,), (x.ones_like(),))[1].item() == pytest.approx(expected)
    assert jit(grad(descend))(x).item() == pytest.approx(expected)


def test_rules_of_compositions_hold_in_bodies() -> None:
    x = Tensor([0.0, 1.0, -2.0], dtype="float64")
    f = lambda lib, x: lib.scan(  # noqa: E731
        lambda y, a: (y.softmax() * a + y.relu(), None), x, Tensor.stack([x, x])
    )[0][0]
    check(take_first, f, (x,))


def test_the_gradient_uses_the_samples_of_the_body() -> None:
    x = Tensor.ones(50).realize()

    def f(x: Tensor) -> Any:
        def body(y: Tensor, _: Any) -> Any:
            mask = (Tensor.rand(50) < 0.8).cast("float32")
            return y * x * mask, mask

        y, masks = scan(body, x, length=3)
        return y.sum(), masks

    manual_seed(3)
    gradient, masks = grad(f, has_aux=True)(x)
    np.testing.assert_array_equal(gradient.numpy(), 4 * masks.numpy().prod(0))
    assert 0 < masks.numpy().prod(0).sum() < 50


@pytest.mark.parametrize("every", [1, 2, 3, 9])
def test_recomputed_values_equal_the_original_ones(every: int) -> None:
    def f(every: int | None) -> list[np.ndarray]:
        def run(x: Tensor, v: Tensor) -> Tensor:
            y, rows = scan(
                lambda y, a: ((y * a).sin(), y * y), x, v, reverse=True, checkpoint_every=every
            )
            z = fori_loop(1, 6, lambda i, z: (z * v[i - 1] + i).cos(), y, checkpoint_every=every)
            return (z * rows.flip(0)[0]).sum() + (rows * v.unsqueeze(-1)).sum()

        gradients = grad(run, (0, 1))(Tensor([0.3, 0.4]), Tensor([0.1, 0.2, 0.3, 0.4, 0.5]))
        Tensor.realize_batch(gradients)
        return [part.numpy() for part in gradients]

    for found, expected in zip(f(every), f(None), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize("every", [1, 2])
def test_an_iteration_that_writes_its_carry_is_recomputed(every: int) -> None:
    def f(x: Tensor, every: int | None) -> Tensor:
        def body(c: Tensor, a: Tensor) -> tuple[Tensor, Tensor]:
            c[1] = c[0].sin() * a
            c[1:] = c[1:] * c[:2]
            return (c * 1.1).cos(), c

        last, rows = scan(body, x, V, checkpoint_every=every)
        return last.sum() + (rows * rows).sum()

    x = Tensor([0.3, 0.5, 0.2], dtype="float64")
    expected = grad(lambda x: f(x, None))(x).numpy()
    np.testing.assert_allclose(grad(lambda x: f(x, every))(x).numpy(), expected, rtol=1e-12)


def test_captured_tensors_of_a_checkpoint_in_a_loop_have_derivatives() -> None:
    def f(w: Tensor, wrap: Callable[[Any], Any]) -> Tensor:
        # It does not depend on the iteration, and is computed again in each.
        layer = wrap(lambda h: w.sin() * h)
        return fori_loop(0, 3, lambda _, h: layer(h).cos(), w * 2).sum()

    w = Tensor([0.3, 0.5], dtype="float64")
    found, expected = (
        grad(lambda w, wrap=wrap: f(w, wrap))(w).numpy() for wrap in (checkpoint, lambda g: g)
    )
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_checkpoints_need_positive_numbers_and_parts_of_one_size() -> None:
    with pytest.raises(LoopArgumentError, match="checkpoint_every is 0"):
        scan(lambda c, _: (c, None), Tensor(0.0), length=3, checkpoint_every=0)
    with pytest.raises(LoopArgumentError, match="the number of iterations is not known"):
        fori_loop(0, Tensor(3), lambda _, c: c, Tensor(0.0), checkpoint_every=2)


def list_loops(tensors: list[Tensor]) -> list[str]:
    (schedule,) = (a.text for a in explain(tensors) if a.word == "preschedule")
    return [line for line in schedule.splitlines() if line.lstrip().startswith("loop")]


def test_a_loop_and_its_gradient_are_two_loops_and_weights_have_theirs_after_them() -> None:
    w, x, xs = draw(32, 32), draw(8, 32), draw(40, 8, 32)

    def f(w: Tensor) -> Tensor:
        h, ys = scan(lambda h, x: ((h @ w + x).tanh(), h), x, xs)
        return h.sum() + (ys * ys).sum()

    value, gradient = value_and_grad(f)(w)
    assert len(list_loops([value, gradient])) == 2
    loops = [node for node in gradient.uop.toposort() if node.op is Op.LOOP]
    # That of the loss, the same with what is kept, the one that goes back, and the products of all
    # its iterations, which simplify-loops does without a loop.
    assert [loop.arg.n_carried for loop in loops] == [1, 1, 1, 0]


def test_narrow_floats_are_added_up_in_wide_ones() -> None:
    x = Tensor([1.0], dtype="float16")
    gradient = grad(
        lambda x: fori_loop(
            0, 4096, lambda _, y: y + x * 0.25, x.cast("float32").cast("float16") * 0
        ).sum()
    )(x)
    assert gradient.dtype == x.dtype
    assert gradient.item() == 1024.0


@pytest.mark.parametrize("layer", [lstm, gru, rnn])
def test_recurrent_layers_are_differentiable(layer: Any) -> None:
    n = {lstm: 4, gru: 3, rnn: 1}[layer]
    rng = np.random.default_rng(2)
    weights = [
        Tensor(rng.normal(size=s) * 0.5) for s in ((n * 2, 3), (n * 2, 2), (n * 2,), (n * 2,))
    ]
    x = Tensor(rng.normal(size=(3, 2, 3)))
    f = lambda x, *weights: (layer(x, weights)[0] ** 2).sum()  # noqa: E731
    gradients = grad(f, tuple(range(5)))(x, *weights)
    every = [Tensor(rng.normal(size=given.shape)) for given in (x, *weights)]
    tangent = jvp(f, (x, *weights), tuple(every))[1]
    Tensor.realize_batch([*gradients, tangent])
    expected = sum(np.sum(g.numpy() * v.numpy()) for g, v in zip(gradients, every, strict=True))
    assert tangent.item() == pytest.approx(expected)
    for number, (part, given) in enumerate(zip(gradients, (x, *weights), strict=True)):
        along = rng.normal(size=given.shape)
        ends = []
        for sign in (1, -1):
            moved = [x, *weights]
            moved[number] = Tensor(given.numpy() + sign * 1e-6 * along)
            ends.append(f(*moved).item())
        assert np.sum(part.numpy() * along) == pytest.approx((ends[0] - ends[1]) / 2e-6, rel=1e-6)


def test_second_derivatives_of_a_recurrent_layer_agree_with_both_modes() -> None:
    rng = np.random.default_rng(3)
    weights = [Tensor(rng.normal(size=s) * 0.5) for s in ((8, 3), (8, 2), (8,), (8,))]
    along = tuple(Tensor(rng.normal(size=w.shape)) for w in weights)
    x = Tensor(rng.normal(size=(3, 2, 3)))
    numbers = tuple(range(4))

    def f(*weights: Tensor) -> Tensor:
        return (lstm(x, weights)[0] ** 2).sum()

    def slope(*weights: Tensor) -> Tensor:
        return jvp(f, weights, along)[1]

    def product(*weights: Tensor) -> Tensor:
        found = grad(f, numbers)(*weights)
        return sum(
            ((g * v).sum() for g, v in zip(found, along, strict=True)), Tensor(0.0, dtype="float64")
        )

    forward, backward = grad(slope, numbers)(*weights), grad(product, numbers)(*weights)
    Tensor.realize_batch([*forward, *backward])
    for ahead, behind in zip(forward, backward, strict=True):
        np.testing.assert_allclose(behind.numpy(), ahead.numpy(), rtol=1e-9, atol=1e-12)


def test_an_iteration_of_the_gradient_of_a_recurrent_layer_is_two_kernels() -> None:
    """What goes back through the gates writes them beside each other, in the order in which
    products read them.
    """
    width, batch, steps = 64, 8, 40
    weights = [draw(4 * width, width), draw(4 * width, width), draw(4 * width), draw(4 * width)]
    x = draw(steps, batch, width)
    found = grad(lambda x, *weights: (lstm(x, weights)[0] ** 2).sum(), tuple(range(5)))(x, *weights)
    (schedule,) = (a.text for a in explain(list(found)) if a.word == "preschedule")
    _, *loops = schedule.split("\nloop ")
    assert [loop.count("    run ") for loop in loops] == [4, 2]


def test_associative_scans_are_differentiable() -> None:
    x = Tensor([0.3, -0.2, 0.9, 0.1], dtype="float64")
    weights = np.array([1.0, 2.0, -1.0, 0.5])
    gradient = grad(lambda x: (logcumsumexp(x) * weights).sum())(x).numpy()
    parts = np.tril(np.exp(x.numpy())) / np.cumsum(np.exp(x.numpy()))[:, None]
    np.testing.assert_allclose(gradient, weights @ parts)
    gradient = grad(lambda x: (associative_scan(lambda a, b: a * b, x) * weights).sum())(x).numpy()
    products = np.cumprod(x.numpy())
    np.testing.assert_allclose(
        gradient, [(weights * products)[k:].sum() / x.numpy()[k] for k in range(4)]
    )


def test_loops_on_shards_have_gradients_there() -> None:
    devices = ("cpu:0", "cpu:1")
    w, x = (
        Tensor([[0.5, 0.1], [0.2, 0.3]]),
        Tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0]]),
    )

    def f(w: Tensor, x: Tensor) -> Tensor:
        return fori_loop(0, 3, lambda _, x: (x @ w).tanh(), x).sum()

    expected = grad(f, (0, 1))(w, x)
    found = grad(f, (0, 1))(w.shard(devices), x.shard(devices, axis=0))
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-5)
