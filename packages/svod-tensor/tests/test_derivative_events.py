"""No derivative depends on when anything is computed: random functions in which values are read at
random places.

The same function without these events says what is expected.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np
from hypothesis import given, settings, strategies as st

from svod_ir.testing import count_examples
from svod_tensor import Tensor, checkpoint, custom_gradient, grad, jvp, vjp

_SHAPE: Final = (2, 3)
_rng = np.random.default_rng(0)
_X, _W, _V = (_rng.normal(size=_SHAPE) for _ in range(3))


class Step(NamedTuple):
    """What makes the next value of two earlier ones, and what happens then."""

    operation: str
    left: int
    right: int
    event: str
    target: int


@custom_gradient
def _sine(x: Tensor) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
    slope = x.cos()
    return x.sin(), lambda cotangent: cotangent * slope


def _write(a: Tensor, b: Tensor) -> Tensor:
    y = a.clone()
    y[0] = b[1] * 2
    return y


_OPERATIONS: Final[dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]]] = {
    "multiply": lambda a, b, w: a * b,
    "tanh": lambda a, b, w: (a + b).tanh(),
    "weigh": lambda a, b, w: a * w + b,
    "softmax": lambda a, b, w: a.softmax(-1) - b,
    "view": lambda a, b, w: a[:, ::-1].reshape(3, 2).T.reshape(*_SHAPE) + b[:1],
    "product": lambda a, b, w: (a @ w.T @ b).tanh(),
    "write": lambda a, b, w: _write(a, b),
    "checkpoint": lambda a, b, w: checkpoint(lambda a: (a * w).sin() * b)(a),
    "custom": lambda a, b, w: _sine(a) + b,
    "constant": lambda a, b, w: a.detach() * b,
}


def _happen(event: str, tensor: Tensor) -> None:
    match event:
        case "realize":
            tensor.realize()
        case "read":
            assert tensor.sum().item() < 1e30
        case "print":
            str(tensor[0].tolist())
        case "prepare":
            (tensor * 2).prepare().execute()
        case "choose":
            if (tensor * tensor).sum().item() < 0:
                raise AssertionError("a square is below 0")
        case "overwrite":
            # A copy is no part of the function.
            copied = tensor.clone().realize()
            copied.assign(copied * 0).realize()
        case _:
            raise AssertionError(event)


def _run(steps: list[Step], x: Tensor, w: Tensor, *, has_events: bool) -> Tensor:
    values = [x, x * 0.5 + 1]
    for step in steps:
        left, right = (values[n % len(values)] for n in (step.left, step.right))
        values.append(_OPERATIONS[step.operation](left, right, w))
        if has_events:
            _happen(step.event, values[-1 - step.target % len(values)])
    return sum(values[1:], values[0]).tanh()


_EVENTS: Final = ("realize", "read", "print", "prepare", "choose", "overwrite")
_STEPS: Final = st.lists(
    st.builds(
        Step,
        st.sampled_from(sorted(_OPERATIONS)),
        st.integers(0, 9),
        st.integers(0, 9),
        st.sampled_from(_EVENTS),
        st.integers(0, 9),
    ),
    min_size=1,
    max_size=3,
)


def _make() -> tuple[Tensor, Tensor]:
    return Tensor(_X).realize(), Tensor(_W).realize()


def _check(found: Tensor, expected: Tensor) -> None:
    np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-9, atol=1e-11)


@given(_STEPS, st.booleans())
@settings(max_examples=count_examples(4), deadline=None)
def test_values_that_are_read_in_a_function_change_no_gradient(
    steps: list[Step], is_second: bool
) -> None:
    def derive(*, has_events: bool) -> tuple[Tensor, ...]:
        def loss(x: Tensor, w: Tensor) -> Tensor:
            return _run(steps, x, w, has_events=has_events).sum()

        def second(x: Tensor, w: Tensor) -> Tensor:
            return (grad(loss)(x, w) ** 2).sum()

        return grad(second if is_second else loss, (0, 1))(*_make())

    for found, expected in zip(derive(has_events=True), derive(has_events=False), strict=True):
        _check(found, expected)


@given(_STEPS, st.sampled_from(("x", "w", "both")), st.booleans(), st.booleans())
@settings(max_examples=count_examples(4), deadline=None)
def test_events_between_a_function_and_its_derivative_have_no_effect(
    steps: list[Step], written: str, is_realized: bool, is_read: bool
) -> None:
    x, w = _make()
    y, pull = vjp(lambda x: _run(steps, x, w, has_events=True), x)
    if is_read:
        y.realize()
    for name, tensor in (("x", x), ("w", w)):
        if written in (name, "both"):
            tensor.assign(tensor * 3 + 1)
            if is_realized:
                tensor.realize()
    (found,) = pull(Tensor(_V))
    _, again = vjp(lambda x: _run(steps, x, Tensor(_W), has_events=False), Tensor(_X))
    _check(found, again(Tensor(_V))[0])
    _check(pull(Tensor(_V))[0], again(Tensor(_V))[0])


@given(_STEPS)
@settings(max_examples=count_examples(2), deadline=None)
def test_forward_mode_sees_no_events_either(steps: list[Step]) -> None:
    found, expected = (
        jvp(
            lambda x, n=n: _run(steps, x, Tensor(_W), has_events=n == 0),
            (Tensor(_X),),
            (Tensor(_V),),
        )[1]
        for n in range(2)
    )
    _check(found, expected)


@given(_STEPS, st.sampled_from(("none", "x", "w")))
@settings(max_examples=count_examples(2), deadline=None)
def test_a_gradient_of_a_graph_uses_its_old_version(steps: list[Step], written: str) -> None:
    x, w = _make()
    loss = _run(steps, x, w, has_events=False).sum()
    (found,) = loss.gradient(x)
    if written != "none":
        target = x if written == "x" else w
        target.assign(target * 0).realize()
    expected = grad(lambda x: _run(steps, x, Tensor(_W), has_events=False).sum())(Tensor(_X))
    _check(found, expected)


def test_a_derivative_keeps_the_elements_of_a_pending_write() -> None:
    x = Tensor(np.array([1.0, 2.0])).realize()
    x.assign(x + 1)
    y, pull = vjp(lambda x: x * x * x, x)
    x.assign(x * 100).realize()
    assert y.tolist() == [8.0, 27.0]
    assert pull(Tensor(np.ones(2)))[0].tolist() == [12.0, 27.0]


def test_a_checkpoint_reads_the_version_of_memory_at_the_forward_pass() -> None:
    w = np.array([2.0, 5.0])
    x = np.array([0.3, 0.7])
    for is_recomputed in (False, True):
        a, b = Tensor(x).realize(), Tensor(w).realize()

        def f(a: Tensor, b: Tensor = b) -> Tensor:
            y = (a * b).sin().realize()
            # As running statistics are.
            b.assign(b * 100)
            return y * a

        y, pull = vjp(checkpoint(f) if is_recomputed else f, a)
        y.realize()
        a.assign(a * 100).realize()
        assert b.tolist() == (w * 100).tolist()
        np.testing.assert_allclose(
            pull(Tensor(np.ones(2)))[0].numpy(), np.cos(x * w) * w * x + np.sin(x * w)
        )
