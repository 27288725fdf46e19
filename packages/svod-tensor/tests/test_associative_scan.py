from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

from svod_ir import AxisError, OperandError, ShapeError
from svod_tensor import Tensor, Variable, associative_scan, jit
from svod_testing import check, make_array

SIZES = [0, 1, 2, 3, 4, 5, 7, 8, 13, 64, 100]


def one_by_one(
    fn: Callable[[Any, Any], Any], xs: list[np.ndarray], *, reverse: bool, axis: int
) -> list[np.ndarray]:
    """The meaning: lists of arrays, combined from first to last."""
    n = xs[0].shape[axis]
    if n == 0:
        return xs
    order = range(n - 1, -1, -1) if reverse else range(n)
    items = [[np.take(x, [i], axis) for x in xs] for i in order]
    made = items[:1]
    for item in items[1:]:
        made.append(fn(made[-1], item))
    made = made[::-1] if reverse else made
    return [np.concatenate([m[k] for m in made], axis) for k in range(len(xs))]


def follow(x: Any, y: Any) -> Any:
    """x -> a * x + b, one after the other: it does not commute."""
    return [x[0] * y[0], x[1] * y[0] + y[1]]


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("n", SIZES)
def test_integers_are_exactly_those_of_a_loop(rng, n, reverse) -> None:
    a, b = (make_array(rng, (n,), "int32") for _ in range(2))
    found = associative_scan(follow, [Tensor(a), Tensor(b)], reverse=reverse)
    with np.errstate(over="ignore"):
        wanted = one_by_one(follow, [a, b], reverse=reverse, axis=0)
    for tensor, array in zip(found, wanted, strict=True):
        check(tensor, array)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(
    ("shape", "axis"), [((2, 5, 3), 1), ((2, 5, 3), -1), ((9, 2), 0), ((2, 1), 1), ((0, 3), 1)]
)
def test_any_axis_holds_the_elements(rng, shape, axis, reverse) -> None:
    a, b = (make_array(rng, shape, "int64") for _ in range(2))
    found = associative_scan(follow, [Tensor(a), Tensor(b)], reverse=reverse, axis=axis)
    with np.errstate(over="ignore"):
        wanted = one_by_one(follow, [a, b], reverse=reverse, axis=axis)
    for tensor, array in zip(found, wanted, strict=True):
        check(tensor, array)


def test_elements_may_be_matrices(rng) -> None:
    a = rng.integers(-2, 3, (11, 3, 3)).astype(np.int32)
    check(
        associative_scan(lambda x, y: x @ y, Tensor(a)),
        one_by_one(lambda x, y: [x[0] @ y[0]], [a], reverse=False, axis=0)[0],
    )
    wanted = one_by_one(lambda x, y: [x[0] @ y[0]], [a], reverse=True, axis=0)[0]
    check(associative_scan(lambda x, y: x @ y, Tensor(a), reverse=True), wanted)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_floats_are_near_those_of_a_loop(rng, dtype) -> None:
    a, b = rng.random(100).astype(dtype), rng.random(100).astype(dtype)
    found = associative_scan(follow, [Tensor(a), Tensor(b)])
    wanted = one_by_one(follow, [a.astype("float64"), b.astype("float64")], reverse=False, axis=0)
    for tensor, array in zip(found, wanted, strict=True):
        np.testing.assert_allclose(
            tensor.numpy(), array, rtol=1e-5 if dtype != "float16" else 4e-3, atol=1e-6
        )


def test_maxima_minima_and_bools_keep_their_dtype() -> None:
    a = np.array([False, True, True, False, True])
    check(associative_scan(lambda x, y: x ^ y, Tensor(a)), np.logical_xor.accumulate(a))
    b = np.array([3, 200, 7, 255, 0], dtype=np.uint8)
    check(associative_scan(lambda x, y: x.maximum(y), Tensor(b)), np.maximum.accumulate(b))


class Affine(NamedTuple):
    scale: Tensor
    shift: dict[str, Tensor]


def test_elements_may_be_nested_values(rng) -> None:
    a, b = (make_array(rng, (6,), "int32") for _ in range(2))

    def combine(x: Affine, y: Affine) -> Affine:
        assert isinstance(x, Affine)
        return Affine(x.scale * y.scale, {"b": x.shift["b"] * y.scale + y.shift["b"]})

    found = associative_scan(combine, Affine(Tensor(a), {"b": Tensor(b)}))
    assert isinstance(found, Affine)
    with np.errstate(over="ignore"):
        check(found.shift["b"], one_by_one(follow, [a, b], reverse=False, axis=0)[1])
    assert associative_scan(combine, ()) == ()


def test_results_do_not_alias_their_operands() -> None:
    x = Tensor([5.0])
    found = associative_scan(lambda a, b: a + b, x)
    found.assign(Tensor([6.0]))
    assert x.tolist() == [5.0]


def test_it_is_captured(rng) -> None:
    a = make_array(rng, (37,), "int32")
    step = jit(lambda x: associative_scan(lambda u, v: u + v, x * 2))
    for _ in range(2):
        check(step(Tensor(a)), np.cumsum(a * 2, dtype=np.int32))


@pytest.mark.parametrize("low", [0, 1])
def test_the_number_of_elements_may_be_a_variable(rng, low) -> None:
    a = make_array(rng, (9, 2), "int32")
    size, given = Variable("size", low, 9), Tensor(a)
    step = jit(lambda n: associative_scan(lambda u, v: u + v, given[:n]))
    for n in (9, 1, 4, low):
        check(step(size.bind(n)), np.cumsum(a[:n], 0, dtype=np.int32))


@pytest.mark.parametrize("split", [0, 1])
@pytest.mark.parametrize("axis", [0, 1])
def test_elements_may_be_shards(rng, axis, split) -> None:
    a = make_array(rng, (6, 4), "int32")
    x = Tensor(a).shard(("CPU:0", "CPU:1"), split)
    found = associative_scan(lambda u, v: u + v, x, axis=axis)
    check(found, np.cumsum(a, axis, dtype=np.int32))
    assert found.sharding is not None
    assert found.sharding.axis == (None if axis == split else split)


def test_errors_name_the_leaf() -> None:
    x, y = Tensor([1.0, 2.0]), Tensor([1.0, 2.0, 3.0])
    with pytest.raises(
        ShapeError,
        match=r"associative_scan: elems\['b'\] of shape \(3,\) and elems\['a'\] must .*, 2",
    ):
        associative_scan(lambda u, v: u, {"a": x, "b": y})
    with pytest.raises(
        OperandError,
        match=r"associative_scan: expected a function that returns a nested .* list of 1, .* tuple of 1",
    ):
        associative_scan(lambda u, v: ((u[0][0],),), ([x],))
    with pytest.raises(
        OperandError, match=r"associative_scan: expected a function that returns float32 .* bool"
    ):
        associative_scan(lambda u, v: [u[0] < v[0]], [x])
    with pytest.raises(
        ShapeError, match=r"associative_scan: the function returned shape \(\) for elems of shape"
    ):
        associative_scan(lambda u, v: (u + v).sum(), y)
    with pytest.raises(AxisError):
        associative_scan(lambda u, v: u + v, x, axis=1)
