"""Random programs whose inputs may have any sizes: what they compute, by numpy and by svod, with
kernels that know the sizes and others.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import svod_tensor as sv
from svod_ir.testing import count_examples
from svod_tensor import PrepareConfig, Tensor
from svod_tensor.engine.build import build
from svod_tensor.engine.graph_outlines import find_outline, resize
from svod_tensor.engine.size_patterns import SizePattern

Arrays = list[Any]

INPUTS: tuple[Callable[[int, int], tuple[int, ...]], ...] = (
    lambda n, m: (n, m),
    lambda n, m: (n, m),
    lambda n, m: (m,),
    lambda n, m: (n, 1),
)
DTYPES = ("float32", "float64", "int32", "int8", "float16", "bool")


class Step(NamedTuple):
    """An operation of `STEPS`, and which of the values before are its operands."""

    name: str
    left: int
    right: int
    axis: int


class Value(NamedTuple):
    """An array, and whether it has no rounding."""

    array: Any
    is_exact: bool


def _exact(make: Callable[..., Any]) -> Callable[..., Value]:
    return lambda xp, x, y, axis: Value(make(xp, x.array, y.array, axis), x.is_exact and y.is_exact)


def _rounded(make: Callable[..., Any]) -> Callable[..., Value]:
    return lambda xp, x, y, axis: Value(make(xp, x.array, axis), False)


def _on_exact(make: Callable[..., Any]) -> Callable[..., Value]:
    """What a little rounding changes much: comparisons, and conversions to integers."""

    def run(xp: Any, x: Value, y: Value, axis: int) -> Value:
        if not (x.is_exact and y.is_exact):
            raise TypeError
        return Value(make(xp, x.array, y.array, axis), True)

    return run


def _float(xp: Any, x: Any) -> Any:
    return xp.astype(x, xp.float32) if not xp.isdtype(x.dtype, "real floating") else x


def _narrow(xp: Any, x: Any) -> Any:
    """Integers that no operation makes large."""
    return xp.remainder(x, xp.asarray(7, dtype=x.dtype)) if not xp.isdtype(x.dtype, "bool") else x


def _pad(xp: Any, x: Any, axis: int) -> Any:
    shape = list(x.shape)
    shape[axis % x.ndim] = 2
    return xp.concat([x, xp.zeros(tuple(shape), dtype=x.dtype)], axis=axis % x.ndim)


def _slice(x: Any, axis: int, part: slice) -> Any:
    return x[(slice(None),) * (axis % x.ndim) + (part,)]


STEPS: dict[str, Callable[..., Value]] = {
    "add": _exact(lambda xp, x, y, a: xp.astype(x, xp.float32) + xp.astype(y, xp.float32)),
    "subtract": _exact(lambda xp, x, y, a: xp.astype(x, xp.float32) - 3 * xp.astype(y, xp.float32)),
    "multiply": _exact(lambda xp, x, y, a: xp.astype(x, xp.int32) * xp.astype(y, xp.int32)),
    "maximum": _exact(
        lambda xp, x, y, a: xp.maximum(xp.astype(x, xp.float64), xp.astype(y, xp.float64))
    ),
    "remainder": _on_exact(lambda xp, x, y, a: _narrow(xp, x)),
    "less": _on_exact(lambda xp, x, y, a: x < y),
    "where": _on_exact(lambda xp, x, y, a: xp.where(x > y, x, y)),
    "to": _on_exact(lambda xp, x, y, a: xp.astype(_narrow(xp, x), getattr(xp, DTYPES[a % 5]))),
    "tanh": _rounded(lambda xp, x, a: xp.tanh(_float(xp, x))),
    "mean": _rounded(lambda xp, x, a: xp.mean(_float(xp, x), axis=a % x.ndim, keepdims=True)),
    "mean of all": _rounded(lambda xp, x, a: xp.mean(_float(xp, x))),
    "std": _rounded(
        lambda xp, x, a: xp.std(xp.astype(x, xp.float64), axis=a % x.ndim, correction=1)
    ),
    "softmax": _rounded(lambda xp, x, a: _softmax(xp, xp.astype(x, xp.float64), a % x.ndim)),
    "sum": _exact(
        lambda xp, x, y, a: xp.sum(xp.astype(x, xp.int64), axis=a % x.ndim, keepdims=True)
    ),
    "sum of all": _exact(lambda xp, x, y, a: xp.sum(xp.astype(x, xp.int32))),
    "max": _exact(lambda xp, x, y, a: xp.max(x, axis=a % x.ndim)),
    "argmax": _on_exact(lambda xp, x, y, a: xp.argmax(x, axis=a % x.ndim)),
    "any": _on_exact(lambda xp, x, y, a: xp.any(x, axis=a % x.ndim, keepdims=True)),
    "transpose": _exact(lambda xp, x, y, a: xp.permute_dims(x, tuple(range(x.ndim))[::-1])),
    "flip": _exact(lambda xp, x, y, a: xp.flip(x, axis=a % x.ndim)),
    "flatten": _exact(lambda xp, x, y, a: xp.reshape(x, (-1,))),
    "unsqueeze": _exact(lambda xp, x, y, a: xp.expand_dims(x, axis=a % 2)),
    "tail": _exact(lambda xp, x, y, a: _slice(x, a, slice(1, None))),
    "head": _exact(lambda xp, x, y, a: _slice(x, a, slice(None, -2))),
    "every second": _exact(lambda xp, x, y, a: _slice(x, a, slice(None, None, 2))),
    "pad": _exact(lambda xp, x, y, a: _pad(xp, x, a)),
    "numbers": _exact(lambda xp, x, y, a: x + xp.astype(xp.arange(x.shape[-1]), x.dtype)),
}


def _softmax(xp: Any, x: Any, axis: int) -> Any:
    powers = xp.exp(x - xp.max(x, axis=axis, keepdims=True))
    return powers / xp.sum(powers, axis=axis, keepdims=True)


programs = st.lists(
    st.builds(
        Step, st.sampled_from(list(STEPS)), st.integers(0, 9), st.integers(0, 9), st.integers(0, 5)
    ),
    min_size=1,
    max_size=6,
)
sizes = st.sampled_from([0, 1, 2, 3, 5, 7, 13, 16, 31, 64, 101, 257, 300])


def make_inputs(n: int, m: int, dtypes: Sequence[int]) -> Arrays:
    """Small whole numbers, of which sums are exact."""
    draw = np.random.default_rng(n * 1000 + m)
    return [
        draw.integers(-3 * (DTYPES[d] != "bool"), 4, shape(n, m)).astype(DTYPES[d])
        for shape, d in zip(INPUTS, dtypes, strict=True)
    ]


def run(xp: Any, steps: Sequence[Step], inputs: Arrays) -> list[Value] | None:
    """The values of a program, without those that numpy does not compute; None where it computes
    none.
    """
    values = [Value(array, True) for array in inputs]
    made: list[Value] = []
    for step in steps:
        operands = (values[step.left % len(values)], values[step.right % len(values)])
        try:
            result = STEPS[step.name](xp, *operands, step.axis)
        except (ValueError, TypeError, ZeroDivisionError, IndexError):
            continue
        values.append(result)
        made.append(result)
    return made or None


def check_program(
    steps: Sequence[Step], dtypes: Sequence[int], pairs: Sequence[tuple[int, int]]
) -> None:
    """Compare a program at several sizes with numpy, and with kernels of their own."""
    for n, m in pairs:
        arrays = make_inputs(n, m, dtypes)
        with np.errstate(all="ignore"), warnings.catch_warnings():
            # Means and deviations of empty slices.
            warnings.simplefilter("ignore", RuntimeWarning)
            expected = run(np, steps, arrays)
        if expected is None or any(np.size(e.array) > 1 << 20 for e in expected):
            continue
        found, alone = (compute(steps, arrays, vary_sizes=flag) for flag in (True, False))
        for wanted, one, other in zip(expected, found, alone, strict=True):
            assert one.shape == np.shape(wanted.array)
            assert one.dtype == other.dtype
            if wanted.is_exact:
                np.testing.assert_array_equal(one, other)
                if (
                    not np.issubdtype(one.dtype, np.floating)
                    or np.max(np.abs(one), initial=0) < 1 << 10
                ):
                    np.testing.assert_array_equal(one, np.asarray(wanted.array).astype(one.dtype))
            else:
                np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


def compute(steps: Sequence[Step], arrays: Arrays, *, vary_sizes: bool) -> Arrays:
    values = run(sv, steps, [Tensor(array) for array in arrays])
    assert values is not None
    results = [value.array for value in values]
    Tensor.realize_batch_with(results[-1:], PrepareConfig(vary_sizes=vary_sizes))
    return [result.numpy(copy=True) for result in results]


@settings(max_examples=count_examples(200))
@given(
    programs,
    st.tuples(*[st.integers(0, 5)] * 4),
    st.sampled_from([0, 1, 2, 7]),
    st.sampled_from([1, 3, 7]),
)
def test_a_graph_resized_to_its_own_sizes_is_itself(
    steps: Sequence[Step], dtypes: Sequence[int], n: int, m: int
) -> None:
    values = run(sv, steps, [Tensor(array) for array in make_inputs(n, m, dtypes)])
    nodes = [
        value.array.uop
        for value in values or ()
        if value.array.size and not value.array.is_realized
    ]
    if nodes:
        sink = build(nodes).sink
        outline = find_outline(sink)
        assert outline is None or resize(sink, outline.sizes) is sink


@settings(max_examples=count_examples(12))
@given(
    programs,
    st.tuples(*[st.integers(0, 5)] * 4),
    st.lists(st.tuples(sizes, sizes), min_size=6, max_size=6),
    st.integers(0, 2),
)
def test_random_programs_compute_the_same_with_and_without(
    steps: Sequence[Step], dtypes: Sequence[int], pairs: Sequence[tuple[int, int]], varying: int
) -> None:
    shapes = {0: pairs, 1: [(n, pairs[0][1]) for n, _ in pairs], 2: [(n, n) for n, _ in pairs]}[
        varying
    ]
    check_program(steps, dtypes, [*shapes, (0, 3), (1, 3), (2, 2)])


@pytest.mark.parametrize("step", ["mean", "flip", "sum"])
def test_a_missing_check_of_a_pattern_is_detected(
    monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """The programs above see it when a graph gets kernels for sizes that are not its own."""
    monkeypatch.setattr(
        SizePattern,
        "find_values",
        lambda self, numbers: tuple(numbers[p] - 1 for p in self.positions),
    )
    with pytest.raises(AssertionError):
        check_program(
            [Step(step, 0, 0, 0), Step("add", 4, 0, 0)],
            (0, 0, 0, 0),
            [(n, 7) for n in (13, 17, 31, 64)],
        )
