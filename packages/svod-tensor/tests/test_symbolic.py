"""Every operation on axes whose length depends on a variable, against numpy: one plan serves all
lengths.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from svod_device import evaluate_expression
from svod_ir import BroadcastError, Op, ShapeError, UOp
from svod_ir.testing import count_examples, take_share
from svod_tensor import Tensor, Variable
from svod_tensor.errors import SymbolicBoundsError, SymbolicShapeError

N, M = Variable("n", 1, 9), Variable("m", 1, 5)
LARGEST = {"n": N.high, "m": M.high}
VALUES = ({"n": 1, "m": 1}, {"n": 9, "m": 5}, {"n": 4, "m": 3}, {"n": 8, "m": 2})

Size = int | str
Function = Callable[..., Any]


def size_of(size: Size, values: Mapping[str, Any]) -> Any:
    return size if isinstance(size, int) else eval(size, {}, dict(values))


def resolve(shape: tuple[int | UOp, ...], values: Mapping[str, int]) -> tuple[int, ...]:
    free = [
        s if isinstance(s, int) else s.substitute({b: b.src[0] for b in s.iter_ops(Op.BIND)})
        for s in shape
    ]
    return tuple(s if isinstance(s, int) else evaluate_expression(s, values) for s in free)


def make_data(shapes: tuple[tuple[Size, ...], ...]) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [
        rng.standard_normal([size_of(s, LARGEST) for s in shape]).astype(np.float32)
        for shape in shapes
    ]


def cut(
    data: list[np.ndarray], shapes: tuple[tuple[Size, ...], ...], values: Mapping[str, Any]
) -> list[Any]:
    return [
        x[tuple(slice(size_of(s, values)) for s in shape)]
        for x, shape in zip(data, shapes, strict=True)
    ]


def check(function: Function, reference: Function, *shapes: tuple[Size, ...]) -> None:
    """`function` on tensors of symbolic shapes is `reference` on arrays, through one plan and
    through realize.
    """
    data = make_data(shapes)
    bound = {"n": N.bind(4), "m": M.bind(3)}
    inputs = [
        Tensor(x)[tuple(slice(size_of(s, bound)) for s in shape)]
        for x, shape in zip(data, shapes, strict=True)
    ]
    y = function(*inputs)
    shape = y.shape
    plan = y.prepare()
    for values in VALUES:
        expected = np.asarray(reference(*cut(data, shapes, values)))
        assert resolve(shape, values) == expected.shape, values
        plan.execute_with_vars(values)
        np.testing.assert_allclose(y.numpy(), expected, rtol=2e-4, atol=2e-5, err_msg=str(values))
    values = {"n": 9, "m": 2}
    bound = {"n": N.bind(9), "m": M.bind(2)}
    inputs = [
        Tensor(x)[tuple(slice(size_of(s, bound)) for s in shape)]
        for x, shape in zip(data, shapes, strict=True)
    ]
    expected = reference(*cut(data, shapes, values))
    np.testing.assert_allclose(function(*inputs).numpy(), expected, rtol=2e-4, atol=2e-5)


def softmax(x: np.ndarray, axis: int = -1) -> np.ndarray:
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def attention(q: np.ndarray, k: np.ndarray, v: np.ndarray, mask: Any = True) -> np.ndarray:
    scores = np.where(mask, q @ k.swapaxes(-1, -2) / np.sqrt(np.float32(q.shape[-1])), -np.inf)
    return softmax(scores) @ v


def at(axis: int, item: Any) -> tuple[Any, ...]:
    return (*(slice(None),) * axis, item)


def pads(axis: int, ndim: int) -> list[tuple[int, int]]:
    return [(2, 1) if a == axis else (0, 0) for a in range(ndim)]


ALONG_AN_AXIS: dict[str, tuple[Function, Function]] = {
    "sum": (lambda x, a: x.sum(a), lambda x, a: x.sum(a)),
    "prod": (lambda x, a: x.prod(a), lambda x, a: x.prod(a)),
    "max": (lambda x, a: x.max(a), lambda x, a: x.max(a)),
    "min": (lambda x, a: x.min(a), lambda x, a: x.min(a)),
    "mean": (lambda x, a: x.mean(a), lambda x, a: x.mean(a)),
    "var": (lambda x, a: x.var(a, correction=0), lambda x, a: x.var(a)),
    "argmax": (lambda x, a: x.argmax(a), lambda x, a: x.argmax(a)),
    "any": (lambda x, a: (x > 1).any(a), lambda x, a: (x > 1).any(a)),
    "all": (lambda x, a: (x > -1).all(a), lambda x, a: (x > -1).all(a)),
    "cumsum": (lambda x, a: x.cumsum(a), lambda x, a: x.cumsum(a)),
    "cumprod": (lambda x, a: x.cumprod(a), lambda x, a: x.cumprod(a)),
    "softmax": (lambda x, a: x.softmax(a), softmax),
    "logsumexp": (lambda x, a: x.logsumexp(a), lambda x, a: np.log(np.exp(x).sum(a))),
    "sort": (lambda x, a: x.sort(a), np.sort),
    "argsort": (lambda x, a: x.argsort(a), np.argsort),
    "topk": (lambda x, a: x.topk(1, a)[0], lambda x, a: x.max(a, keepdims=True)),
    "median": (lambda x, a: x.median(a), lambda x, a: np.median(x, a)),
    "flip": (lambda x, a: x.flip(a), np.flip),
    "roll": (lambda x, a: x.roll(2, a), lambda x, a: np.roll(x, 2, a)),
    "roll back": (lambda x, a: x.roll(-7, a), lambda x, a: np.roll(x, -7, a)),
    "pad": (
        lambda x, a: x.pad(*pads(a, x.ndim), constant_values=3.0),
        lambda x, a: np.pad(x, pads(a, x.ndim), constant_values=3),
    ),
    "concat": (
        lambda x, a: x.cat(x * 2, x * 3, axis=a),
        lambda x, a: np.concatenate([x, x * 2, x * 3], a),
    ),
    "stack": (lambda x, a: Tensor.stack([x, x * 2], axis=a), lambda x, a: np.stack([x, x * 2], a)),
    "tile": (
        lambda x, a: x.tile(*(3 if i == a else 1 for i in range(x.ndim))),
        lambda x, a: np.tile(x, [3 if i == a else 1 for i in range(x.ndim)]),
    ),
    "repeat": (lambda x, a: x.repeat(2, a), lambda x, a: np.repeat(x, 2, a)),
    "from 1": (lambda x, a: x[at(a, slice(1, None))] + 0, lambda x, a: x[at(a, slice(1, None))]),
    "to -1": (lambda x, a: x[at(a, slice(-1))] + 0, lambda x, a: x[at(a, slice(-1))]),
    "from -3": (lambda x, a: x[at(a, slice(-3, None))] + 0, lambda x, a: x[at(a, slice(-3, None))]),
    "3 to 5": (lambda x, a: x[at(a, slice(3, 5))] + 0, lambda x, a: x[at(a, slice(3, 5))]),
    "every third": (
        lambda x, a: x[at(a, slice(1, None, 3))] + 0,
        lambda x, a: x[at(a, slice(1, None, 3))],
    ),
    "backwards": (
        lambda x, a: x[at(a, slice(None, None, -2))] + 0,
        lambda x, a: x[at(a, slice(None, None, -2))],
    ),
    "back from -2": (
        lambda x, a: x[at(a, slice(-2, 1, -1))] + 0,
        lambda x, a: x[at(a, slice(-2, 1, -1))],
    ),
    "last": (lambda x, a: x[at(a, -1)] + 0, lambda x, a: x[at(a, -1)]),
    "array": (lambda x, a: x[at(a, [-1, 0, 0])], lambda x, a: x[at(a, [-1, 0, 0])]),
    "lookup": (
        lambda x, a: x.take_along_axis(x.argmax(a, keepdims=True), a),
        lambda x, a: x.max(a, keepdims=True),
    ),
    "replaced": (
        lambda x, a: x.with_items(at(a, slice(None, None, 2)), 5.0),
        lambda x, a: (lambda y: (y.__setitem__(at(a, slice(None, None, 2)), 5), y)[1])(x.copy()),
    ),
}
SHAPES: tuple[tuple[Size, ...], ...] = (("n",), ("n", 3), (3, "n"), ("n", "m"))


@pytest.mark.parametrize("name", ALONG_AN_AXIS)
def test_an_operation_along_each_axis(name: str) -> None:
    function, reference = ALONG_AN_AXIS[name]
    axes = [(shape, axis) for shape in SHAPES for axis in range(len(shape))]
    # Those that vary come first, so that there is one in each share.
    axes.sort(key=lambda place: isinstance(place[0][place[1]], int))
    for shape, axis in take_share(axes, [*ALONG_AN_AXIS].index(name)):
        if shape[axis] == 3 and name in ("3 to 5", "back from -2"):
            continue  # nothing is left
        check(lambda x, a=axis: function(x, a), lambda x, a=axis: reference(x, a), shape)


def make_indices(x: Any) -> Any:
    """Indices 0 and -1 with the shape of `x`, in the library of `x`."""
    return (x < 0).astype("int64") * -1


def put(x: np.ndarray, indices: np.ndarray, y: np.ndarray, axis: int) -> np.ndarray:
    result = x.copy()
    np.put_along_axis(result, indices, y, axis)
    return result


def add(x: np.ndarray, index: Any, y: np.ndarray) -> np.ndarray:
    result = x.copy()
    np.add.at(result, index, y)
    return result


def replace(x: np.ndarray, index: Any, y: Any) -> np.ndarray:
    result = x.copy()
    result[index] = y
    return result


WHOLE: dict[str, tuple[Function, Function, tuple[tuple[Size, ...], ...]]] = {
    "flatten": (lambda x: x.flatten() * 2, lambda x: x.flatten() * 2, (("n", "m"),)),
    "transpose": (lambda x: (x.T + 1).contiguous(), lambda x: x.T + 1, (("n", "m"),)),
    "merge": (
        lambda x: (x + 1).contiguous().reshape(3, -1) * 2,
        lambda x: (x + 1).reshape(3, -1) * 2,
        ((3, "n", 4),),
    ),
    "merge in front": (
        lambda x: (x + 1).contiguous().reshape(-1, 4) * 2,
        lambda x: (x + 1).reshape(-1, 4) * 2,
        ((3, "n", 4),),
    ),
    "split": (
        lambda x: (x + 1).contiguous().reshape(3, -1, 2, 2).permute(0, 2, 1, 3).contiguous(),
        lambda x: (x + 1).reshape(3, -1, 2, 2).transpose(0, 2, 1, 3),
        ((3, "n", 4),),
    ),
    "merge and split": (
        lambda x: (x + 1).flatten().contiguous().reshape(-1, x.shape[1]) * 2,
        lambda x: (x + 1) * 2,
        (("n", "m"),),
    ),
    "half of a double": (lambda x: x.cat(x * 3).reshape(2, -1).sum(0), lambda x: x * 4, (("n",),)),
    "a sum of sizes": (
        lambda x, y: x.cat(y).softmax(0),
        lambda x, y: softmax(np.concatenate([x, y]), 0),
        (("n", 2), ("m", 2)),
    ),
    "beside a known size": (
        lambda x, y: y.cat(x) * 2,
        lambda x, y: np.concatenate([y, x]) * 2,
        (("n", 2), (3, 2)),
    ),
    "twice": (lambda x: x * 2, lambda x: x * 2, (("2*n", 3),)),
    "one more": (lambda x: x.sum(0), lambda x: x.sum(0), (("n + 1", 3),)),
    "a product": (lambda x: x + 1, lambda x: x + 1, (("n*m",),)),
    "half": (lambda x: x.softmax(0), lambda x: softmax(x, 0), (("n//2 + 1", 2),)),
    "expand": (
        lambda x, y: x.expand(y.shape[0], 3) * 2,
        lambda x, y: np.broadcast_to(x, (len(y), 3)) * 2,
        ((1, 3), ("n",)),
    ),
    "broadcast": (lambda x, y: x + y, lambda x, y: x + y, (("n", 1), ("m",))),
    "known beside symbolic": (
        lambda x, y, z: (x > y).where(x, z),
        lambda x, y, z: np.where(x > y, x, z),
        (("n", 3), (3,), ("n", 1)),
    ),
    "pad to the largest": (
        lambda x: x.pad((0, 9 - x.shape[0])) + 1,
        lambda x: np.pad(x, (0, 9 - len(x))) + 1,
        (("n",),),
    ),
    "pad by a size": (
        lambda x, y: x.pad((y.shape[0], 1)) * 2,
        lambda x, y: np.pad(x, (len(y), 1)) * 2,
        ((3,), ("n",)),
    ),
    "slice at a position": (
        lambda x, y: x[y.shape[0] : y.shape[0] + 4] * 2,
        lambda x, y: x[len(y) : len(y) + 4] * 2,
        ((20, 3), ("n",)),
    ),
    "slice to twice": (
        lambda x, y: x[y.shape[0] : y.shape[0] * 2] * 2,
        lambda x, y: x[len(y) : len(y) * 2] * 2,
        ((24, 3), ("n",)),
    ),
    "slice between two": (
        lambda x, y, z: x[z.shape[0] : y.shape[0]] * 2,
        lambda x, y, z: x[len(z) : len(y)] * 2,
        ((9, 3), ("n",), ("m",)),
    ),
    "slice to a half": (
        lambda x: x[: x.shape[0] // 2] * 2,
        lambda x: x[: len(x) // 2] * 2,
        (("n", 3),),
    ),
    "backwards from a position": (
        lambda x, y: x[y.shape[0] :: -2] * 2,
        lambda x, y: x[len(y) :: -2] * 2,
        ((12, 2), ("n",)),
    ),
    "element": (lambda x, y: x[y.shape[0]], lambda x, y: x[len(y)], ((20, 3), ("n",))),
    "slice from a negative size": (
        lambda x, y: x[-y.shape[0] :, -x.shape[1] :] * 2,
        lambda x, y: x[-len(y) :] * 2,
        ((20, "m"), ("n",)),
    ),
    "slice to a negative size": (
        lambda x, y: x[: -y.shape[0]] * 2,
        lambda x, y: x[: -len(y)] * 2,
        ((20, 3), ("n",)),
    ),
    "element at a negative size": (
        lambda x, y: x[-y.shape[0]],
        lambda x, y: x[-len(y)],
        ((20, 3), ("n",)),
    ),
    "scatter": (
        lambda x, y: x.scatter(0, make_indices(y), y),
        lambda x, y: put(x, make_indices(y), y, axis=0),
        (("n", 3), ("m", 3)),
    ),
    "scatter in a square": (
        lambda x, y: x.scatter(1, make_indices(y), y),
        lambda x, y: put(x, make_indices(y), y, axis=1),
        (("n", "n"), ("n", 4)),
    ),
    "scatter a sum": (
        lambda x, y: x.scatter_add(0, make_indices(y), y),
        lambda x, y: add(x, (make_indices(y), np.arange(3)), y),
        (("n", 3), ("m", 3)),
    ),
    "scatter-reduce a sum": (
        lambda x, y: x.scatter_reduce(0, make_indices(y), y, "sum"),
        lambda x, y: add(x, (make_indices(y), np.arange(3)), y),
        (("n", 3), ("m", 3)),
    ),
    "replaced rows": (
        lambda x, y: x.with_items(make_indices(y), y.unsqueeze(1)),
        lambda x, y: replace(x, make_indices(y), y[:, None]),
        (("n", 3), ("m",)),
    ),
    "replaced columns at known indices": (
        lambda x: x.with_items((slice(None), [0, -1]), 7.0),
        lambda x: replace(x, (slice(None), [0, -1]), 7.0),
        (("m", "n"),),
    ),
    "a replaced row": (
        lambda x: x.with_items(-1, 7.0),
        lambda x: replace(x, -1, 7.0),
        (("n", 3),),
    ),
    "added rows": (
        lambda x, y: x.add_at(make_indices(y), y.unsqueeze(1)),
        lambda x, y: add(x, make_indices(y), y[:, None]),
        (("n", 3), ("m",)),
    ),
    "index from a tensor": (
        lambda x, i: x[(i.abs() * 2).cast("int32") % 6],
        lambda x, i: x[(np.abs(i) * 2).astype(int) % 6],
        ((6, 3), ("n",)),
    ),
    "index into": (
        lambda x, i: x[(i * 0).cast("int32") - 1],
        lambda x, i: x[(i * 0).astype(int) - 1],
        (("n", 3), (5,)),
    ),
    "two arrays": (
        lambda x: x[[0, 0, -1], [1, 2, 0]],
        lambda x: x[[0, 0, -1], [1, 2, 0]],
        (("n", 3),),
    ),
    "position and array": (
        lambda x, y: x[y.shape[0], [0, -1]],
        lambda x, y: x[len(y), [0, -1]],
        ((20, 3), ("n",)),
    ),
    "arange": (lambda x: Tensor.arange(x.shape[0]) + x, lambda x: np.arange(len(x)) + x, (("n",),)),
    "arange from": (
        lambda x: Tensor.arange(x.shape[0], 12),
        lambda x: np.arange(len(x), 12),
        (("n",),),
    ),
    "arange down": (
        lambda x: Tensor.arange(2 * x.shape[0], 1, -3),
        lambda x: np.arange(2 * len(x), 1, -3),
        (("n",),),
    ),
    "linspace": (
        lambda x: Tensor.linspace(-1, 2, x.shape[0]),
        lambda x: np.linspace(-1, 2, len(x)),
        (("n",),),
    ),
    "full": (
        lambda x: Tensor.full((2, x.shape[0]), 7) + 1,
        lambda x: np.full((2, len(x)), 8),
        (("n",),),
    ),
    "eye": (lambda x: Tensor.eye(x.shape[0], 4), lambda x: np.eye(len(x), 4), (("n",),)),
    "diagonal": (lambda x: x.diagonal(), np.diagonal, (("n", "m"),)),
    "tril": (lambda x: x.tril(1), lambda x: np.tril(x, 1), (("n", "m"),)),
    "rand": (
        lambda x: Tensor.rand(x.shape[0], 3, seed=1) < 1,
        lambda x: np.ones((len(x), 3)),
        (("n",),),
    ),
    "rows": (lambda x, y: x @ y, np.matmul, (("n", 8), (8, 5))),
    "columns": (lambda x, y: x @ y, np.matmul, ((5, 8), (8, "n"))),
    "inner": (lambda x, y: x @ y, np.matmul, ((5, "n"), ("n", 6))),
    "rows and inner": (lambda x, y: x @ y, np.matmul, (("m", "n"), ("n", 6))),
    "square": (lambda x, y: x @ y, np.matmul, (("n", 6), (6, "n"))),
    "batch": (lambda x, y: x @ y, np.matmul, (("n", "m", 4), ("n", 4, 5))),
    "linear": (
        lambda x, w, b: x.linear(w, b),
        lambda x, w, b: x @ w.T + b,
        (("n", 4), (5, 4), (5,)),
    ),
    "einsum": (
        lambda x, y: Tensor.einsum("ik,jk->ij", x, y),
        lambda x, y: x @ y.T,
        (("n", 4), ("m", 4)),
    ),
    "attention": (
        lambda q, k, v: q.scaled_dot_product_attention(k, v, is_causal=True),
        lambda q, k, v: attention(q, k, v, np.tril(np.ones((q.shape[2],) * 2, bool))),
        ((2, 3, "n", 8),) * 3,
    ),
    "one token": (
        lambda q, k, v: q.scaled_dot_product_attention(k, v),
        attention,
        ((2, 1, 8), (2, "n", 8), (2, "n", 8)),
    ),
    "two lengths": (
        lambda q, k, v: q.scaled_dot_product_attention(k, v),
        attention,
        ((2, "m", 8), (2, "n", 8), (2, "n", 8)),
    ),
    "layer norm": (
        lambda x: x.layernorm(),
        lambda x: (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5),
        ((3, "n"),),
    ),
    "convolution": (
        lambda x, w: x.conv2d(w),
        lambda x, w: np.einsum(
            "nchwij,ocij->nohw", np.lib.stride_tricks.sliding_window_view(x, (3, 3), (2, 3)), w
        ),
        (("n", 2, 5, 6), (3, 2, 3, 3)),
    ),
    "convolution along": (
        lambda x, w: x.conv2d(w, stride=2, padding=1),
        lambda x, w: np.einsum(
            "ncwi,oci->now",
            np.lib.stride_tricks.sliding_window_view(np.pad(x, ((0, 0), (0, 0), (1, 1))), 3, 2)[
                :, :, ::2
            ],
            w,
        ),
        ((2, 2, "n"), (3, 2, 3)),
    ),
    "pool": (
        lambda x: x.max_pool2d(2),
        lambda x: x.reshape(len(x), 2, 2, 2, 2, 2).max((3, 5)),
        (("n", 2, 4, 4),),
    ),
}


@pytest.mark.parametrize("name", WHOLE)
def test_an_operation_on_symbolic_shapes(name: str) -> None:
    function, reference, shapes = WHOLE[name]
    check(function, reference, *shapes)


ENDS = st.none() | st.integers(-11, 11)


@settings(deadline=None, max_examples=count_examples(40))
@given(ENDS, ENDS, st.sampled_from([1, 2, 3, -1, -2, -5]), st.booleans())
def test_slices_are_pythons_whatever_the_length(
    start: int | None, stop: int | None, step: int, is_assigned: bool
) -> None:
    part = slice(start, stop, step)
    x = Tensor(np.arange(9, dtype=np.int32))[: N.bind(4)]
    y = x.with_items(part, -1) if is_assigned else x[part] + 0
    shape = y.shape
    # A slice that is always empty, or an input that stays as it is, computes nothing.
    plan = None if 0 in shape or y.is_realized else y.prepare()
    for n in (1, 2, 4, 7, 9):
        expected = np.arange(n, dtype=np.int32)
        if is_assigned:
            expected[part] = -1
        else:
            expected = expected[part]
        assert resolve(shape, {"n": n}) == expected.shape
        if plan is not None:
            plan.execute_with_vars({"n": n})
            np.testing.assert_array_equal(y.numpy(), expected)


@pytest.mark.parametrize("n", [1, 4, 9])
def test_indices_beyond_a_symbolic_axis_read_zero(n: int) -> None:
    x = np.arange(1, 46, dtype=np.float32).reshape(9, 5)
    positions = np.array([0, 3, 5, 8, -1, -4, -9])
    inside = (positions < n) & (positions >= -n)
    expected = np.where(inside[:, None], x[:n][np.where(inside, positions, 0)], 0)
    rows = Tensor(x)[: Variable("n", 1, 9).bind(n)]
    np.testing.assert_array_equal(rows[Tensor(positions)].numpy(), expected)
    # Rows that are computed have memory for the most, too.
    np.testing.assert_array_equal(
        (rows + 1).contiguous()[Tensor(positions)].numpy(),
        np.where(inside[:, None], expected + 1, 0),
    )


def test_indices_that_may_be_out_of_bounds_of_a_symbolic_axis_are_errors() -> None:
    x = Tensor(np.zeros((5, 3), np.float32))
    y = Tensor(np.zeros((9, 3), np.float32))[: N.bind(4)]
    n = N.bind(4)
    for call, message in (
        (
            lambda: x[:n],
            (
                "indexing with a slice: n, which may be 1 to 9, is not known to be from 0 to 5 on"
                " axis 0"
            ),
        ),
        (lambda: x[n - 4 :], "indexing with a slice: n - 4, which may be -3 to 5, is not known"),
        (
            lambda: x[n],
            "indexing: n, which may be 1 to 9, is not known to be from 0 to 4 on axis 0",
        ),
        (
            lambda: x[[0], n],
            "indexing: n, which may be 1 to 9, is not known to be from 0 to 2 on axis 1",
        ),
        (lambda: y[4], "indexing: 4 is not known to be from 0 to n - 1 on axis 0"),
        (lambda: y[[0, -2]], "indexing: n - 2, which may be -1 to 7, is not known"),
        (
            lambda: y[: M.bind(3)],
            (
                "indexing with a slice: m, which may be 1 to 5, is not known to be from 0 to n on"
                " axis 0"
            ),
        ),
        (lambda: x.shrink((0, n), None), "shrink: n, which may be 1 to 9, is not known"),
        (
            lambda: x.pad((n - 3, 0), None),
            "pad: n - 3, which may be -2 to 6, is not known to be at least 0 on axis 0",
        ),
        (lambda: y.topk(2, 0), "topk: 2 is not known to be from 0 to n on axis 0"),
    ):
        with pytest.raises(SymbolicBoundsError) as caught:
            call()
        assert str(caught.value).startswith(message)
        assert isinstance(caught.value, IndexError)


def test_operations_that_need_known_sizes_are_errors_with_the_size() -> None:
    x = Tensor(np.zeros((9, 3), np.float32))[: N.bind(4)]
    for call, operation in (
        (lambda: x.split(2), "split"),
        (lambda: x.chunk(2), "chunk"),
        (lambda: x.unbind(), "unstack"),
        (lambda: len(x), "len"),
    ):
        with pytest.raises(
            SymbolicShapeError, match=rf"{operation} needs concrete sizes, not \(n,\)"
        ):
            call()
    with pytest.raises(
        ShapeError,
        match=r"reshape: cannot reshape tensor of size 3\*n into shape \(n, 4\), which has size 4\*n",
    ):
        x.reshape(x.shape[0], 4)
    with pytest.raises(
        ShapeError, match=r"reshape: cannot reshape tensor of size 3\*n into shape \(-1, 2\)"
    ):
        x.reshape(-1, 2)
    with pytest.raises(
        BroadcastError,
        match=r"add: operands could not be broadcast together with shapes \(n, 3\) and \(5, 3\): axis -2 has sizes n and 5",
    ):
        x + Tensor(np.zeros((5, 3), np.float32))


def test_equal_sizes_are_equal_however_they_were_made() -> None:
    n = N.bind(3)
    x = Tensor(np.arange(18, dtype=np.float32))
    total = x[: n * 2] + x[: n + n] + x[: 3 * n - n]
    assert total.shape == (x[: 2 * n].shape[0],)
    assert repr(total) == "<Tensor shape=(2*n=6,) dtype=float32 device=CPU lazy ADD>"
    assert total.tolist() == [3.0 * i for i in range(6)]
    assert repr(total.shape) == "(2*n=6,)"


def test_the_tensor_of_a_plan_has_the_length_of_the_last_execution() -> None:
    x = Tensor(np.arange(27, dtype=np.float32).reshape(3, 9))
    y = x[:, : N.bind(4)] * 2
    plan = y.prepare()
    plan.execute()
    assert y.tolist() == [[0.0, 2.0, 4.0, 6.0], [18.0, 20.0, 22.0, 24.0], [36.0, 38.0, 40.0, 42.0]]
    plan.execute_with_vars({"n": 2})
    assert y.tolist() == [[0.0, 2.0], [18.0, 20.0], [36.0, 38.0]]
    doubled = (y + x[:, : y.shape[1]]).realize()
    second = (y * 10).T
    next_plan = second.prepare()
    plan.execute_with_vars({"n": 1})
    assert y.tolist() == [[0.0], [18.0], [36.0]]
    assert doubled.tolist() == [[0.0, 3.0], [27.0, 30.0], [54.0, 57.0]]
    next_plan.execute_with_vars({"n": 1})
    assert second.tolist() == [[0.0, 180.0, 360.0]]
    assert (y.sum() + y.sum(0)[0]).item() == 108.0
    with pytest.raises(
        BroadcastError,
        match=r"add: operands could not be broadcast together with .* sizes n and n, bound separately",
    ):
        y + x[:, : N.bind(1)]


LONG: dict[str, tuple[Function, Function, tuple[tuple[Size, ...], ...]]] = {
    "elementwise": (lambda x: (x * 2 + 1).exp(), lambda x: np.exp(x * 2 + 1), ((3, "n"),)),
    "narrow": (lambda x: x.cast("int8") + 1, lambda x: x.astype(np.int8) + 1, (("n",),)),
    "sum": (lambda x: x.sum(1), lambda x: x.sum(1), ((3, "n"),)),
    "largest": (lambda x: x.max(), lambda x: x.max(), (("n",),)),
    "sum of rows": (lambda x: x.sum(0), lambda x: x.sum(0), (("n", 40),)),
    "softmax": (lambda x: x.softmax(-1), softmax, ((5, "n"),)),
    "layer norm": (
        lambda x: x.layernorm(),
        lambda x: (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5),
        ((5, "n"),),
    ),
    "rows": (lambda x, y: x @ y, np.matmul, (("n", 40), (40, 48))),
    "inner": (lambda x, y: x @ y, np.matmul, ((40, "n"), ("n", 48))),
    "columns": (lambda x, y: x @ y, np.matmul, ((40, 40), (40, "n"))),
    "square": (lambda x, y: x @ y, np.matmul, (("n", 33), (33, "n"))),
    "two lengths": (lambda x, y: x @ y, np.matmul, (("n", "m"), ("m", "n"))),
    "transpose": (lambda x: (x.T + 1).contiguous(), lambda x: x.T + 1, (("n", 40),)),
    "assigned": (
        lambda x: x.with_items((slice(None), slice(1, None, 2)), 0.0),
        lambda x: x * (np.arange(x.shape[1]) % 2 == 0),
        ((3, "n"),),
    ),
    "attention": (
        lambda q, k, v: q.scaled_dot_product_attention(k, v, is_causal=True),
        lambda q, k, v: attention(q, k, v, np.tril(np.ones((q.shape[1],) * 2, bool))),
        ((2, "n", 16),) * 3,
    ),
}


@pytest.mark.parametrize("name", LONG)
def test_long_symbolic_axes_are_computed_in_vectors_and_masked_at_the_end(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable, value in (("N", Variable("n", 1, 150)), ("M", Variable("m", 1, 70))):
        monkeypatch.setitem(globals(), variable, value)
    monkeypatch.setitem(globals(), "LARGEST", {"n": 150, "m": 70})
    pairs = ((1, 1), (150, 70), (31, 33), (32, 64), (97, 5))
    monkeypatch.setitem(globals(), "VALUES", tuple({"n": n, "m": m} for n, m in pairs))
    function, reference, shapes = LONG[name]
    check(function, reference, *shapes)


def test_a_symbolic_axis_is_taken_in_vectors() -> None:
    n = Variable("n", 1, 4096)
    x = Tensor(np.zeros((64, 4096), np.float32))[:, : n.bind(7)]
    for y in (
        x.exp(),
        x.sum(1),
        x.softmax(-1),
        x @ Tensor(np.zeros((4096, 64), np.float32))[: n.bind(7)],
    ):
        for kernel in y.prepare().kernels():
            kinds = {opt.op.name for opt in kernel.kernel.spec.ast.arg.applied_opts}
            assert kinds & {"UPCAST", "UNROLL"}, kernel.name
