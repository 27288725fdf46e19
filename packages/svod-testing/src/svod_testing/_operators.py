"""Operators with their NumPy counterparts: the table of `OperatorConformance`."""

# The cases call NumPy and tensors on values whose types the table does not declare.
# pyright: reportUnknownLambdaType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

__all__ = ["OPERATORS", "OperatorCase"]

Function = Callable[..., Any]
Input = tuple[tuple[int, ...], str]

_F: Final = "float32"


@dataclass(frozen=True, slots=True)
class OperatorCase:
    """Test case: an operator on tensors, and its counterpart on arrays.

    Attributes:
        name: name of the case.
        inputs: shape and dtype of each operand.
        on_tensors: function of tensors that returns a tensor.
        on_arrays: function of NumPy arrays; floats are computed in float64 and rounded to the
            tensor's dtype.
        rtol: tolerance of floats, relative and, near zero, absolute.
        low, high: range of float operands.
    """

    name: str
    inputs: tuple[Input, ...]
    on_tensors: Function
    on_arrays: Function
    rtol: float = 3e-6
    low: float = -3.0
    high: float = 3.0

    def make_inputs(self) -> list[Any]:
        """Return the operands, the same at each call."""
        rng = np.random.default_rng(len(self.name))
        return [self._make_input(rng, shape, dtype) for shape, dtype in self.inputs]

    def _make_input(self, rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> Any:
        if dtype == "bool":
            return rng.random(shape) < 0.5
        if dtype.startswith("float"):
            return np.asarray(rng.uniform(self.low, self.high, shape)).astype(dtype)
        return np.asarray(rng.integers(0, 5, shape)).astype(dtype)

    def expected(self, arrays: list[Any]) -> Any:
        """Return the result of NumPy for these operands."""
        with np.errstate(all="ignore"):
            wide = [a.astype(np.float64) if a.dtype.kind == "f" else a for a in arrays]
            result = np.asarray(self.on_arrays(*wide))
        if result.dtype != np.float64:
            return result
        return result.astype(next(a.dtype for a in arrays if a.dtype.kind == "f"))


def _softmax(a: Any, axis: int = -1) -> Any:
    shifted = np.exp(a - a.max(axis, keepdims=True))
    return shifted / shifted.sum(axis, keepdims=True)


def _convolve(a: Any, w: Any) -> Any:
    """A convolution with stride 1 and no padding."""
    windows = np.lib.stride_tricks.sliding_window_view(a, w.shape[2:], (2, 3))
    return np.einsum("nchwij,ocij->nohw", windows, w)


def _add(a: Any, index: Any, values: Any) -> Any:
    result = a.copy()
    np.add.at(result, index, values)
    return result


def _place(a: Any, index: Any, values: Any) -> Any:
    result = a.copy()
    result[index] = values
    return result


def _iter_functions() -> Iterator[OperatorCase]:
    """Functions of one operand, on 37 elements."""
    for name, low, high in (
        ("sqrt", 0, 9),
        ("exp", -20, 20),
        ("exp2", -20, 20),
        ("log", 1e-3, 50),
        ("log2", 1e-3, 50),
        ("sin", -30, 30),
        ("cos", -30, 30),
        ("tan", -1.5, 1.5),
        ("tanh", -4, 4),
        ("floor", -9, 9),
        ("ceil", -9, 9),
        ("trunc", -9, 9),
        ("round", -9, 9),
        ("abs", -9, 9),
        ("sign", -9, 9),
        ("square", -9, 9),
        ("expm1", -3, 3),
        ("log1p", -0.9, 9),
        ("isnan", -9, 9),
        ("isfinite", -9, 9),
        ("reciprocal", 0.1, 9),
        ("neg", -9, 9),
    ):
        function = np.negative if name == "neg" else getattr(np, name)
        yield OperatorCase(
            name, (((37,), _F),), lambda x, n=name: getattr(x, n)(), function, low=low, high=high
        )
    yield OperatorCase(
        "rsqrt", (((37,), _F),), lambda x: x.rsqrt(), lambda a: 1 / np.sqrt(a), low=0.1, high=9
    )
    yield OperatorCase(
        "sigmoid", (((37,), _F),), lambda x: x.sigmoid(), lambda a: 1 / (1 + np.exp(-a))
    )
    yield OperatorCase("relu", (((37,), _F),), lambda x: x.relu(), lambda a: np.maximum(a, 0))


def _iter_binary() -> Iterator[OperatorCase]:
    pairs: tuple[tuple[str, Function, Function], ...] = (
        ("add", lambda x, y: x + y, np.add),
        ("sub", lambda x, y: x - y, np.subtract),
        ("mul", lambda x, y: x * y, np.multiply),
        ("maximum", lambda x, y: x.maximum(y), np.maximum),
        ("minimum", lambda x, y: x.minimum(y), np.minimum),
        ("less", lambda x, y: x < y, np.less),
        ("equal", lambda x, y: x == y, np.equal),
    )
    for name, on_tensors, on_arrays in pairs:
        for dtype in (_F, "float64", "int32", "int64", "uint8"):
            yield OperatorCase(
                f"{name}_{dtype}", (((5, 7), dtype), ((5, 7), dtype)), on_tensors, on_arrays
            )
        yield OperatorCase(
            f"{name}_broadcast", (((4, 1, 6), _F), ((5, 1), _F)), on_tensors, on_arrays
        )
    two = (((31,), _F), ((31,), _F))
    yield OperatorCase("div", two, lambda x, y: x / y, np.divide, low=0.5)
    yield OperatorCase("pow", two, lambda x, y: x.pow(y), np.power, low=0.1)
    yield OperatorCase("atan2", two, lambda x, y: x.atan2(y), np.arctan2)
    integers = (((31,), "int32"), ((31,), "int32"))
    yield OperatorCase(
        "floor_divide", integers, lambda x, y: (x - 2) // (y + 1), lambda a, b: (a - 2) // (b + 1)
    )
    yield OperatorCase(
        "remainder", integers, lambda x, y: (x - 2) % (y + 1), lambda a, b: (a - 2) % (b + 1)
    )
    yield OperatorCase(
        "shifts", integers, lambda x, y: (x << y) + (x >> 1), lambda a, b: (a << b) + (a >> 1)
    )
    yield OperatorCase(
        "bits", integers, lambda x, y: ((x & y) | 8) ^ ~x, lambda a, b: ((a & b) | 8) ^ ~a
    )
    yield OperatorCase(
        "where",
        (((6, 5), "bool"), ((6, 5), _F), ((5,), _F)),
        lambda c, x, y: c.where(x, y),
        lambda c, a, b: np.where(c, a, b),
    )


def _iter_reductions() -> Iterator[OperatorCase]:
    for name in ("sum", "prod", "max", "min", "mean", "argmax", "argmin"):
        for axis in (None, 0, 1, -1):
            yield OperatorCase(
                f"{name}_{'all' if axis is None else axis % 3}",
                (((3, 7, 5), _F),),
                lambda x, n=name, k=axis: getattr(x, n)(k),
                lambda a, n=name, k=axis: getattr(a, n)(k),
                2e-5,
                -1.5,
                1.5,
            )
    yield OperatorCase("var", (((3, 29), _F),), lambda x: x.var(1), lambda a: a.var(1), 2e-5)
    yield OperatorCase(
        "any_all", (((3, 4), "bool"),), lambda x: x.any(0) & x.all(0), lambda a: a.any(0) & a.all(0)
    )
    yield OperatorCase("long_sum", (((2, 1031), _F),), lambda x: x.sum(1), lambda a: a.sum(1), 2e-5)
    yield OperatorCase("sum_of_nothing", (((3, 0, 2), _F),), lambda x: x.sum(1), lambda a: a.sum(1))
    yield OperatorCase(
        "integer_sum", (((13, 3), "int32"),), lambda x: x.sum(0), lambda a: a.sum(0, dtype=a.dtype)
    )
    yield OperatorCase(
        "cumsum", (((3, 17), _F),), lambda x: x.cumsum(1), lambda a: a.cumsum(1), 1e-5
    )
    yield OperatorCase(
        "cumprod", (((11, 2), _F),), lambda x: x.cumprod(0), lambda a: a.cumprod(0), 1e-5
    )
    yield OperatorCase("softmax", (((4, 13), _F),), lambda x: x.softmax(-1), _softmax, 1e-5)
    yield OperatorCase("sort", (((3, 11), _F),), lambda x: x.sort(-1), lambda a: np.sort(a, -1))
    yield OperatorCase(
        "argsort",
        (((23,), "int32"),),
        lambda x: x.argsort(),
        lambda a: np.argsort(a, kind="stable").astype(np.int64),
    )
    yield OperatorCase(
        "topk", (((2, 9), _F),), lambda x: x.topk(3)[0], lambda a: -np.sort(-a, -1)[:, :3]
    )


def _iter_products() -> Iterator[OperatorCase]:
    for left, right in (
        ((5, 7), (7, 3)),
        ((1, 1), (1, 1)),
        ((16, 16), (16, 16)),
        ((7,), (7,)),
        ((2, 3, 5), (5, 4)),
        ((3, 0), (0, 2)),
        ((17, 33), (33, 19)),
    ):
        name = "matmul_" + "_by_".join("x".join(map(str, shape)) for shape in (left, right))
        yield OperatorCase(
            name, ((left, _F), (right, _F)), lambda x, y: x @ y, lambda a, b: a @ b, 1e-4
        )
    yield OperatorCase(
        "matmul_int32",
        (((4, 5), "int32"), ((5, 3), "int32")),
        lambda x, y: x @ y,
        lambda a, b: a @ b,
    )
    yield OperatorCase(
        "einsum",
        (((2, 3, 4), _F), ((4, 3, 5), _F)),
        lambda x, y: type(x).einsum("bij,jik->bk", x, y),
        lambda a, b: np.einsum("bij,jik->bk", a, b),
        1e-4,
    )
    yield OperatorCase(
        "conv2d",
        (((1, 2, 6, 5), _F), ((3, 2, 3, 2), _F)),
        lambda x, w: x.conv2d(w),
        _convolve,
        1e-4,
    )
    yield OperatorCase(
        "max_pool2d",
        (((1, 2, 4, 6), _F),),
        lambda x: x.max_pool2d(),
        lambda a: a.reshape(1, 2, 2, 2, 3, 2).max((3, 5)),
    )


def _iter_movement() -> Iterator[OperatorCase]:
    grid = ((5, 6), _F)
    pairs: tuple[tuple[str, tuple[Input, ...], Function, Function], ...] = (
        ("reshape", (grid,), lambda x: x.reshape(3, 10), lambda a: a.reshape(3, 10)),
        ("transpose", (grid,), lambda x: x.T + 1, lambda a: a.T + 1),
        ("flip", (grid,), lambda x: x.flip((0, 1)), lambda a: np.flip(a, (0, 1))),
        ("pad", (grid,), lambda x: x.pad(((1, 2), (0, 3))), lambda a: np.pad(a, ((1, 2), (0, 3)))),
        ("slice", (grid,), lambda x: x[1:5:2, ::-1], lambda a: a[1:5:2, ::-1]),
        ("expand", (((1, 6), _F),), lambda x: x.expand(4, 6) * 2, lambda a: np.repeat(a, 4, 0) * 2),
        ("cat", (grid, ((2, 6), _F)), lambda x, y: x.cat(y), lambda a, b: np.concatenate([a, b])),
        ("roll", (((9,), _F),), lambda x: x.roll(4, 0), lambda a: np.roll(a, 4, 0)),
        ("index", (grid, ((7,), "int32")), lambda x, i: x[i], lambda a, i: a[i]),
        ("index_2", (grid, ((7,), "int32")), lambda x, i: x[i, i], lambda a, i: a[i, i]),
        ("take", (((8,), _F), ((3, 2), "int64")), lambda x, i: x.take(i), lambda a, i: a.take(i)),
        ("triu", (grid,), lambda x: x.triu(1), lambda a: np.triu(a, 1)),
        ("put", (grid, ((6,), _F)), lambda x, y: _put(x, 2, y), lambda a, b: _place(a, 2, b)),
        (
            "put_slice",
            (grid, ((5, 2), _F)),
            lambda x, y: _put(x, (slice(None), slice(1, 6, 3)), y),
            lambda a, b: _place(a, (slice(None), slice(1, 6, 3)), b),
        ),
        ("add_at", (grid, ((9,), "int32"), ((9, 6), _F)), lambda x, i, y: x.add_at(i, y), _add),
        (
            "add_at_elements",
            (grid, ((9,), "int64"), ((9,), _F)),
            lambda x, i, y: x.add_at((i, i), y),
            lambda a, i, b: _add(a, (i, i), b),
        ),
        (
            "bincount",
            (((200,), "int32"),),
            lambda x: x.bincount(n_bins=4),
            lambda a: np.bincount(a[a < 4], minlength=4),
        ),
        ("empty", (((0, 3), _F),), lambda x: x + 1, lambda a: a + 1),
        ("scalar", (((), _F), ((), _F)), lambda x, y: x * y + 1, lambda a, b: a * b + 1),
    )
    for name, inputs, on_tensors, on_arrays in pairs:
        yield OperatorCase(name, inputs, on_tensors, on_arrays)


def _put(x: Any, index: Any, values: Any) -> Any:
    copied = x.clone()
    copied[index] = values
    return copied


OPERATORS: Final[tuple[OperatorCase, ...]] = (
    *_iter_functions(),
    *_iter_binary(),
    *_iter_reductions(),
    *_iter_products(),
    *_iter_movement(),
)
"""Every case, each with a name of its own."""
