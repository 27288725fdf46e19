"""Functions with dynamic shapes: one plan for all sizes of an axis, beside numpy."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import svod_tensor as sv
from svod_ir.testing import count_examples
from svod_tensor import Tensor, Variable, fori_loop, grad, jit
from svod_tensor.errors import DynamicShapeError, UserError

N, M = Variable("n", 1, 64), Variable("m", 1, 40)
_WEIGHT = np.linspace(-1, 1, 48, dtype=np.float32).reshape(8, 6)


def _make(*shape: int, dtype: str = "float32") -> np.ndarray:
    return (np.arange(np.prod(shape)).reshape(shape) % 17 - 5).astype(dtype)


def _softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def _normalize(x: Any) -> Any:
    return (x - x.mean(axis=-1, keepdims=True)) / (x.std(axis=-1, keepdims=True) + 1)


CASES: dict[str, tuple[Callable[..., Any], Callable[..., Any], tuple[Any, ...]]] = {
    "rows of a product": (
        lambda x: (x @ Tensor(_WEIGHT)).relu(),
        lambda x: np.maximum(x @ _WEIGHT, 0),
        ((N, 8),),
    ),
    "columns of a product": (
        lambda x: Tensor(_WEIGHT.T) @ x,
        lambda x: _WEIGHT.T @ x,
        ((8, N),),
    ),
    "terms of a product": (lambda x, y: x @ y, lambda x, y: x @ y, ((3, N), (N, 5))),
    "softmax": (lambda x: x.softmax(axis=-1), _softmax, ((3, N),)),
    "normalized rows": (_normalize, _normalize, ((N, M),)),
    "transposed": (lambda x: x.T.contiguous(), lambda x: x.T, ((N, M),)),
    "joined": (
        lambda x, y: Tensor.concat([x, y, x], axis=1),
        lambda x, y: np.concatenate([x, y, x], axis=1),
        ((2, N), (2, M)),
    ),
    "flat": (lambda x: x.reshape(-1) * 2, lambda x: x.reshape(-1) * 2, ((N, 3, M),)),
    "all but the first": (lambda x: x[1:] * 2, lambda x: x[1:] * 2, ((N, 4),)),
    "positions": (
        lambda x: x + Tensor.arange(x.shape[0]),
        lambda x: x + np.arange(x.shape[0]),
        ((N,),),
    ),
    "attention": (
        lambda q, k: (q @ k.permute(0, 2, 1)).softmax(axis=-1) @ k,
        lambda q, k: _softmax(q @ k.transpose(0, 2, 1)) @ k,
        ((2, N, 4), (2, M, 4)),
    ),
    "convolution": (
        lambda x: x.conv2d(Tensor(np.ones((2, 1, 3, 3), np.float32)), padding=1),
        lambda x: np.stack(
            [
                sum(
                    np.pad(x[:, 0], ((0, 0), (1, 1), (1, 1)))[:, i : i + x.shape[2], j : j + 5]
                    for i in range(3)
                    for j in range(3)
                )
            ]
            * 2,
            axis=1,
        ),
        ((1, 1, N, 5),),
    ),
    "a loop": (
        lambda x: fori_loop(0, 3, lambda i, c: c * 0.5 + x, x),
        lambda x: ((x * 0.5 + x) * 0.5 + x) * 0.5 + x,
        ((N, 3),),
    ),
    "sorted": (lambda x: x.sort(axis=0), lambda x: np.sort(x, axis=0), ((N, 2),)),
    "complex numbers": (
        lambda x: (x * (1 + 2j)).sum(axis=0),
        lambda x: (x * (1 + 2j)).sum(axis=0),
        ((N, 3),),
    ),
    "several results": (
        lambda x, y: {"sum": x + y, "rows": [x.sum(axis=1), y], "maximum": x.max()},
        lambda x, y: {"sum": x + y, "rows": [x.sum(axis=1), y], "maximum": x.max()},
        ((N, 3), (N, 3)),
    ),
}


def _list_arrays(tree: Any) -> list[np.ndarray]:
    if isinstance(tree, dict):
        return [array for item in tree.values() for array in _list_arrays(item)]
    if isinstance(tree, list | tuple):
        return [array for item in tree for array in _list_arrays(item)]
    return [tree.numpy() if isinstance(tree, Tensor) else np.asarray(tree)]


@pytest.mark.parametrize("name", CASES)
def test_one_plan_computes_all_sizes(name: str) -> None:
    function, reference, shapes = CASES[name]
    traced: list[object] = []

    def noting(*args: Tensor) -> Any:
        traced.append(1)
        return function(*args)

    captured = jit(
        noting,
        dynamic_shapes={
            index: {axis: size for axis, size in enumerate(shape) if isinstance(size, Variable)}
            for index, shape in enumerate(shapes)
        },
    )
    dtype = "complex64" if name == "complex numbers" else "float32"
    for n, m in ((3, 7), (1, 40), (64, 1), (17, 33), (3, 7), (2, 2)):
        sizes = {"n": n, "m": m}
        arrays = [
            _make(*[sizes[s.name] if isinstance(s, Variable) else s for s in shape], dtype=dtype)
            for shape in shapes
        ]
        result = captured(*map(Tensor, arrays))
        for actual, expected in zip(
            _list_arrays(result), _list_arrays(reference(*arrays)), strict=True
        ):
            assert actual.shape == expected.shape
            np.testing.assert_allclose(actual, expected, rtol=2e-5, atol=2e-5)
    assert len(traced) == 1
    assert len(captured.plans()) == 1


@settings(max_examples=count_examples(40), deadline=None)
@given(st.lists(st.tuples(st.integers(1, 64), st.integers(1, 40)), min_size=3, max_size=12))
def test_calls_of_drawn_sizes_keep_their_results(sizes: list[tuple[int, int]]) -> None:
    results = [(_scaled(_make(n, m)), _make(n, m)) for n, m in sizes]
    for result, array in results:
        np.testing.assert_array_equal(result.numpy(), array * 2 + array.sum(0))


_scaled = jit(lambda x: x * 2 + x.sum(axis=0), dynamic_shapes={0: {0: N, 1: M}})


def test_arguments_by_name_and_numpy_arrays() -> None:
    f = jit(lambda x, *, scale: x * scale, dynamic_shapes={"x": {0: N}, "scale": {0: N}})
    for n in (2, 5, 9):
        array = _make(n)
        assert f(array, scale=Tensor(array)).tolist() == (array * array).tolist()
        assert f(x=Tensor(array), scale=array).tolist() == (array * array).tolist()
    assert len(f.plans()) == 2  # by position and by name


def test_arguments_of_one_shape_beside_a_tree_of_tensors() -> None:
    @jit(dynamic_shapes={"x": {0: N}, "y": {0: N}})
    def f(x: Tensor, y: Tensor, weights: list[Tensor]) -> Tensor:
        return x - y * weights[0] + weights[1]

    weights = [Tensor([2.0]).realize(), Tensor([1.0]).realize()]
    for n in (3, 4, 3):
        x, y = _make(n), _make(n) + 3
        assert f(Tensor(x), Tensor(y), weights).tolist() == (x - y * 2 + 1).tolist()
        assert f(Tensor(x), Tensor(x), weights).tolist() == (1 - x).tolist()
        shared = Tensor(x)
        assert f(shared, shared, weights).tolist() == (1 - x).tolist()
        assert f(shared, Tensor(y), [weights[0], shared]).tolist() == (x * 2 - y * 2).tolist()


def test_views_and_pending_tensors_as_arguments() -> None:
    f = jit(lambda x: x.cumsum(axis=0), dynamic_shapes={"x": {0: N, 1: M}})
    array = _make(12, 10)
    x = Tensor(array).realize()
    for argument, expected in (
        (x.T, array.T),
        (x[2:9], array[2:9]),
        (x[:, 3:4], array[:, 3:4]),
        (x * 3, array * 3),
        (x.flip(0), array[::-1]),
    ):
        np.testing.assert_array_equal(f(argument).numpy(), expected.cumsum(0))
    assert len(f.plans()) == 1


def test_sizes_outside_of_the_bounds_get_a_plan_of_their_own() -> None:
    f = jit(lambda x: x + 1, dynamic_shapes={"x": {0: Variable("n", 2, 8)}})
    for n in (1, 2, 8, 9, 5):
        assert f(Tensor.ones(n)).tolist() == [2.0] * n
    assert len(f.plans()) == 3  # 2 to 8, 1, and 9


def test_two_sizes_of_one_variable_are_an_error_of_the_operation() -> None:
    f = jit(lambda x, y: x + y, dynamic_shapes={"x": {0: N}, "y": {0: N}})
    assert f(Tensor.ones(3), Tensor.ones(3)).tolist() == [2, 2, 2]
    with pytest.raises(ValueError, match="broadcast"):
        f(Tensor.ones(3), Tensor.ones(4))
    # A size of 1 is another program.
    assert f(Tensor.ones(3), Tensor.ones(1)).tolist() == [2, 2, 2]


def test_another_dtype_is_traced_anew() -> None:
    f = jit(lambda x: x * 2, dynamic_shapes={"x": {0: N}})
    for dtype in ("float32", "int64", "float32", "int64"):
        for n in (2, 6):
            result = f(Tensor(_make(n, dtype=dtype)))
            assert result.dtype == sv.asarray(_make(n, dtype=dtype)).dtype
            assert result.tolist() == (_make(n) * 2).tolist()
    assert len(f.plans()) == 2


def test_a_changed_outside_value_is_seen() -> None:
    scale = 2

    def f(x: Tensor) -> Tensor:
        return x * scale

    captured = jit(f, dynamic_shapes={"x": {0: N}})
    assert captured(Tensor.ones(3)).tolist() == [2, 2, 2]
    assert captured(Tensor.ones(2)).tolist() == [2, 2]
    scale = 5
    assert captured(Tensor.ones(2)).tolist() == [5, 5]
    assert captured(Tensor.ones(3)).tolist() == [5, 5, 5]


def test_steps_that_write_to_held_tensors() -> None:
    weight = Tensor(np.zeros(4, np.float32)).realize()

    @jit(dynamic_shapes={"x": {0: N}})
    def step(x: Tensor) -> Tensor:
        loss, slope = sv.value_and_grad(lambda w: ((x @ w - 1) ** 2).mean())(weight)
        weight.assign(weight - slope * 0.01)
        return loss

    expected = np.zeros(4, np.float32)
    for n in (5, 3, 8, 3, 1, 5):
        x = _make(n, 4)
        residual = x @ expected - 1
        loss = (residual**2).mean()
        expected = expected - 0.01 * 2 * (x.T @ residual) / n
        np.testing.assert_allclose(step(Tensor(x)).numpy(), loss, rtol=1e-5)
        np.testing.assert_allclose(weight.numpy(), expected, rtol=1e-5, atol=1e-6)
    assert len(step.plans()) == 1


def test_arguments_that_are_written_or_donated_get_a_plan_for_each_size() -> None:
    @jit(dynamic_shapes={"x": {0: N}})
    def double(x: Tensor) -> None:
        x.assign(x * 2)

    for n in (2, 3):
        x = Tensor(_make(n)).realize()
        double(x)
        assert x.tolist() == (_make(n) * 2).tolist()
    f = jit(lambda x: x + 1, donate="x", dynamic_shapes={"x": {0: N}})
    for n in (2, 3):
        assert f(Tensor(_make(n)).realize()).tolist() == (_make(n) + 1).tolist()


def test_an_argument_that_is_returned_is_the_same_tensor() -> None:
    f = jit(lambda x: (x, x + 1), dynamic_shapes={"x": {0: N}})
    for n in (2, 4, 2):
        x = Tensor(_make(n)).realize()
        same, more = f(x)
        assert same.tolist() == x.tolist()
        assert more.tolist() == (_make(n) + 1).tolist()


def test_views_of_arguments_with_dynamic_bounds() -> None:
    f = jit(lambda x: x[: x.shape[0] // 2], dynamic_shapes={"x": {0: Variable("n", 2, 16)}})
    for n in (4, 6, 2):
        assert f(Tensor(_make(n)).realize()).tolist() == _make(n)[: n // 2].tolist()


def test_threads_with_different_sizes() -> None:
    f = jit(lambda x: (x @ x.T).sum(axis=1), dynamic_shapes={"x": {0: N}})

    def run(seed: int) -> bool:
        n = seed % 23 + 1
        x = _make(n, 6)
        return np.allclose(f(Tensor(x)).numpy(), (x @ x.T).sum(1), rtol=1e-5)

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(run, range(200)))
    assert len(f.plans()) == 1


def test_a_plan_is_profiled_at_its_last_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    f = jit(lambda x: x * 2 + x.sum(), dynamic_shapes={"x": {0: N}})
    f(Tensor.ones(5).realize())
    (plan,) = f.plans()
    planned = plan.template.planned_bytes
    with monkeypatch.context() as patch:
        # As if another thread executed the plan.
        patch.setattr(type(plan), "execute_direct", lambda *_: False)
        f(Tensor.ones(3).realize())
    assert f(Tensor.ones(64).realize()).tolist() == [66.0] * 64
    # Memory of its own, which replaces the arguments and results of calls, is for any size.
    assert [buffer.nbytes for buffer in plan.buffers] == planned
    assert plan.profile(n_runs=1)
    plan.execute_with_vars({"n": 64})
    assert f(Tensor.ones(2).realize()).tolist() == [4.0] * 2


def test_inside_of_gradients_and_other_captured_functions() -> None:
    f = jit(lambda x: (x * x).sum(), dynamic_shapes={"x": {0: N}})
    assert grad(f)(Tensor([1.0, 2.0])).tolist() == [2, 4]
    outer = jit(lambda x: f(x) + 1)
    assert outer(Tensor([1.0, 2.0])).item() == 6


def test_loss_of_each_batch_size_is_differentiated() -> None:
    f = jit(lambda x: grad(lambda y: (y.exp() * y).mean())(x), dynamic_shapes={"x": {0: N, 1: M}})
    for n, m in ((2, 3), (7, 1), (1, 9)):
        x = _make(n, m) / 8
        np.testing.assert_allclose(
            f(Tensor(x)).numpy(), np.exp(x) * (1 + x) / x.size, rtol=1e-5, atol=1e-7
        )
    assert len(f.plans()) == 1


def test_errors() -> None:
    def f(x: Tensor) -> Tensor:
        return x

    with pytest.raises(DynamicShapeError, match="'y' is not a parameter"):
        jit(f, dynamic_shapes={"y": {0: N}})
    with pytest.raises(DynamicShapeError, match="1 is not a parameter"):
        jit(f, dynamic_shapes={1: {0: N}})
    with pytest.raises(DynamicShapeError, match="'xs' is not a parameter"):
        jit(lambda *xs: xs[0], dynamic_shapes={"xs": {0: N}})
    with pytest.raises(DynamicShapeError, match="axes to variables"):
        jit(f, dynamic_shapes={"x": {0: 8}})  # type: ignore[dict-item]
    with pytest.raises(DynamicShapeError, match="at least 1"):
        jit(f, dynamic_shapes={"x": {0: Variable("n", 0, 8)}})
    branching = jit(lambda x: x if x.shape[0] > 3 else x + 1, dynamic_shapes={"x": {0: N}})
    with pytest.raises(UserError, match="n"):
        branching(Tensor.ones(4))


def test_explain_names_the_dynamic_sizes() -> None:
    def double(x: Tensor) -> Tensor:
        return x * 2

    f = jit(double, dynamic_shapes={"x": {0: N}})
    for n in (3, 4, 3, 3):
        f(Tensor.ones(n))
    assert f.explain().splitlines()[:3] == [
        "double: 1 capture, 4 calls",
        "  1. 4 calls, 1 kernel; captured for the first call",
        "     args[0]: float32 (symbolic,) on CPU",
    ]
