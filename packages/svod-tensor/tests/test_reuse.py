"""Graphs of composed operations are recorded once, and built again for other operands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from svod_dtype import default_dtype, int64
from svod_ir import AxisError, Op, ShapeError
from svod_ir.origins import get_origins
from svod_tensor import Tensor, Variable, caches, clear_caches, grad, jit, scope
from svod_tensor.engine.decompositions import DECOMPOSITIONS
from svod_tensor.ops.core.operation import OPERATIONS
from svod_tensor.ops.core.reuse import Decomposition, reuse_graph

_RANDOM = np.random.default_rng(5)


def make(*shape: int, low: float = 0.1, high: float = 0.9, dtype: str = "float32") -> Tensor:
    return Tensor(_RANDOM.uniform(low, high, shape).astype(dtype)).realize()


def ints(*shape: int, size: int = 4) -> Tensor:
    return Tensor(_RANDOM.integers(0, size, shape)).realize()


@pytest.fixture(autouse=True)
def _no_records() -> None:
    clear_caches()


def count_recorded() -> int:
    entries = DECOMPOSITIONS.list_values()
    return sum(isinstance(entry, Decomposition) for entry in entries)


_BINARY = [
    "floor_divide",
    "remainder",
    "fmod",
    "isclose",
    "fmax",
    "fmin",
    "copysign",
    "nextafter",
    "logaddexp",
    "hypot",
    "heaviside",
    "atan2",
    "matmul",
    "outer",
    "vecdot",
    "xlogy",
    "beta",
    "kron",
    "linear",
]

_CALLS: dict[str, Callable[[Callable[..., Any]], object]] = {
    **dict.fromkeys(
        _BINARY,
        lambda f: f(make(4, 4), make(4, 4)),
    ),
    **dict.fromkeys(["convolve", "correlate"], lambda f: f(make(7), make(3))),
    "ldexp": lambda f: f(make(4), ints(4)),
    "lerp": lambda f: f(make(4), make(4), 0.25),
    "take": lambda f: f(make(4, 3), ints(5), 0),
    "embedding": lambda f: f(ints(5), make(4, 3)),
    **dict.fromkeys(["take_along_axis"], lambda f: f(make(4, 4), ints(4, 4), 1)),
    "gather": lambda f: f(make(4, 4), 0, ints(4, 4)),
    "one_hot": lambda f: f(ints(5), 4),
    "searchsorted": lambda f: f(make(8), make(3)),
    "isin": lambda f: f(ints(8), ints(3)),
    "topk": lambda f: f(make(5, 6), 2),
    "scatter": lambda f: f(make(4, 4), 0, ints(4, 4), make(4, 4)),
    "scatter_add": lambda f: f(make(4, 4), 0, ints(4, 4), make(4, 4)),
    "tensordot": lambda f: f(make(2, 3, 4), make(3, 4, 5), 2),
    "einsum": lambda f: f("ij,jk->ik", make(3, 4), make(4, 5)),
    **dict.fromkeys(["concat", "stack"], lambda f: f([make(2, 3), make(2, 3)], axis=1)),
    "tile": lambda f: f(make(2, 3), (2, 1)),
    "roll": lambda f: f(make(4, 5), 2, 1),
    "grid_sample": lambda f: f(make(1, 2, 5, 5), make(1, 3, 3, 2)),
    "matrix_norm": lambda f: f(make(4, 4)),
    "group_norm": lambda f: f(make(2, 6, 5), 3, weight=make(6), bias=make(6)),
    "layernorm": lambda f: f(make(2, 6), weight=make(6), bias=make(6)),
    "batchnorm": lambda f: f(make(2, 6, 5), make(6), make(6)),
    "scaled_dot_product_attention": lambda f: f(
        make(1, 2, 5, 4), make(1, 2, 5, 4), make(1, 2, 5, 4), is_causal=True
    ),
    **dict.fromkeys(["max_pool2d", "avg_pool2d"], lambda f: f(make(1, 2, 6, 6), 2)),
    "lp_pool2d": lambda f: f(make(1, 2, 6, 6), 2, 2),
    "max_unpool2d": lambda f: f(make(1, 2, 2, 2), ints(1, 2, 2, 2), 2),
    "interpolate": lambda f: f(make(1, 2, 4, 4), (8, 8)),
    "conv2d": lambda f: f(make(1, 2, 6, 6), make(3, 2, 3, 3), make(3)),
    "conv_transpose2d": lambda f: f(make(1, 2, 6, 6), make(2, 3, 3, 3)),
    "unfold": lambda f: f(make(1, 2, 6, 6), (3, 3)),
    "fold": lambda f: f(make(1, 8, 9), (4, 4), (2, 2)),
    "polygamma": lambda f: f(make(4), 1),
    "zeta": lambda f: f(make(4, low=1.5, high=3), make(4)),
    "trapezoid": lambda f: f(make(5), make(5)),
    "interp": lambda f: f(make(5), make(4), make(4)),
    "polyval": lambda f: f(make(3), make(5)),
    **dict.fromkeys(["cummax", "cummin", "cumargmax", "cumargmin"], lambda f: f(make(4, 5), 1)),
    "acosh": lambda f: f(make(4, low=1, high=3)),
}
"""Calls with operands of the same shapes and new values. Other operations take one matrix."""

_REUSED = sorted(
    name
    for name, entry in OPERATIONS.items()
    if entry.function.__code__.co_filename == reuse_graph.__code__.co_filename
)


@pytest.mark.parametrize("name", _REUSED)
def test_the_third_call_builds_the_nodes_that_the_function_builds(name: str) -> None:
    function = OPERATIONS[name].function
    direct: Any = function.__wrapped__  # type: ignore[attr-defined]  # pyright: ignore[reportFunctionMemberAccess]
    results: list[tuple[object, object]] = []

    def call_both(*args: object, **kwargs: object) -> None:
        results.append((function(*args, **kwargs), direct(*args, **kwargs)))

    call = _CALLS.get(name, lambda f: f(make(4, 4)))
    for _ in range(4):
        call(call_both)
    assert count_recorded() > 0
    for found, expected in results:
        assert type(found) is type(expected)
        for x, y in zip(_list_tensors(found), _list_tensors(expected), strict=True):
            assert x.uop is y.uop
            assert (x.spec, x.content.path) == (y.spec, y.content.path)


def _list_tensors(result: object) -> list[Tensor]:
    return [result] if isinstance(result, Tensor) else list(result)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportUnknownVariableType]


def test_every_listed_call_is_of_an_operation_whose_graph_is_reused() -> None:
    assert set(_CALLS) <= set(_REUSED)
    assert len(_REUSED) > 120


@reuse_graph
def weigh(x: Tensor, y: Tensor | float, /, *, offset: Tensor | float = 0.0) -> Tensor:
    return x * 2 + (y - offset)


def test_positional_and_keyword_operands_keep_their_order() -> None:
    for _ in range(4):
        x, y, z = make(3), make(3), make(3)
        expected = x.numpy() * 2 + (y.numpy() - z.numpy())
        assert weigh(x, y, offset=z).numpy().tolist() == expected.tolist()
    assert count_recorded() == 1


def test_one_tensor_may_be_several_operands() -> None:
    for _ in range(4):
        x, y = make(3), make(3)
        a, b = x.numpy(), y.numpy()
        assert weigh(x, x).numpy().tolist() == (a * 2 + a).tolist()
        assert weigh(x, y).numpy().tolist() == (a * 2 + b).tolist()


@reuse_graph
def choose(x: Tensor, y: int, /, *, a: int = 0, b: int = 0, items: object = None) -> Tensor:
    chosen = x.maximum(y)
    if isinstance(items, list):
        return chosen - 1
    return chosen if a == b else x * a + chosen * b - 4 + a


def test_arguments_that_compare_equal_are_told_apart() -> None:
    x = Tensor([1, -1]).realize()
    for _ in range(3):
        for y, dtype in ((1, "int32"), (1.0, "float32"), (True, "int32")):
            assert str(weigh(x, y, offset=x).dtype) == dtype
    is_set = Tensor([True, False]).realize()
    for _ in range(3):
        assert str(choose(is_set, True).dtype) == "bool"
        assert str(choose(is_set, 1).dtype) == "int32"
        assert choose(x, 5, a=1, b=2).tolist() == choose(x, 5, b=2, a=1).tolist() == [8, 6]
        assert choose(x, 5, a=2, b=1).tolist() == choose(x, 5, b=1, a=2).tolist() == [5, 1]
        assert choose(x, 5, items=[1]).tolist() == [4, 4]
        assert choose(x, 5, items=(1,)).tolist() == [5, 5]
    z = Tensor([-0.0]).realize()
    for _ in range(3):
        for zero in (0.0, -0.0):
            found = np.signbit(z.copysign(zero).numpy()).tolist()
            assert found == np.signbit(np.copysign(z.numpy(), zero)).tolist()
            total = weigh(z, zero, offset=0.0).numpy()
            assert np.signbit(total).tolist() == np.signbit([-0.0 * 2 + (zero - 0.0)]).tolist()


def test_shapes_dtypes_and_the_default_dtype_are_told_apart() -> None:
    for _ in range(3):
        for shape in ((3, 4), (4, 3), (12,), (), (0, 2), (1, 1)):
            x = make(*shape)
            assert x.softmax().shape == shape if shape else True
            np.testing.assert_allclose(
                x.std(keepdims=True).numpy(), _std(x.numpy()), rtol=1e-5, atol=1e-6
            )
        for dtype in ("float16", "float32", "float64"):
            assert str(make(3, dtype=dtype).softmax().dtype) == dtype
        assert str(Tensor([1, 2]).realize().mean().dtype) == "float32"
        with default_dtype("float64"):
            assert str(Tensor([1, 2]).realize().mean().dtype) == "float64"
        for device in ("CPU", "CPU:1"):
            assert Tensor([1.0, 2.0], device=device).realize().softmax().device == device


def _std(array: np.ndarray[Any, np.dtype[np.float32]]) -> np.ndarray[Any, np.dtype[np.float32]]:
    with np.errstate(all="ignore"):
        return array.std(keepdims=True) if array.size else np.full((1,) * array.ndim, np.nan, "f4")


def test_bounds_of_an_operand_are_not_assumed_for_another() -> None:
    """An index that is known to be within bounds needs no check, another one does."""
    x = Tensor([1.0, 2.0, 3.0]).realize()
    for _ in range(3):
        safe = ints(2, size=3).maximum(0).minimum(2)
        assert safe.dtype is int64
        np.testing.assert_array_equal(x.take(safe, 0).numpy(), x.numpy()[safe.numpy()])
    unsafe = x.take(Tensor([0, 5], dtype="int64").realize(), 0)
    assert any(node.op is Op.CHECK for node in unsafe.uop.toposort())


def test_a_view_among_the_results_aliases_its_whole_tensor() -> None:
    for _ in range(4):
        x = make(3, 4)
        largest = x.argmax(1)
        row = largest[1:]
        row[0] = 7
        assert largest.numpy()[1] == 7
        assert largest.numpy()[0] == x.numpy()[0].argmax()


@reuse_graph
def get_row(x: Tensor, /) -> Tensor:
    return x[0]


@reuse_graph
def get_halves(x: Tensor, /) -> tuple[Tensor, Tensor]:
    doubled = x * 2
    return doubled, doubled[1:]


def test_results_that_share_memory_with_an_operand_or_each_other_keep_sharing_it() -> None:
    for _ in range(4):
        x = make(3, 3)
        get_row(x)[1] = 5
        assert x.numpy()[0, 1] == 5
        whole, part = get_halves(x)
        part[0] = 7
        assert whole.numpy()[1].tolist() == [7] * 3


def test_symbolic_sizes_complex_numbers_and_shards_are_built_by_the_function() -> None:
    n = Variable("n", 1, 8)
    base = make(8)
    for size in (3, 4, 5, 3, 4, 5, 3, 4, 5):
        x = base[: n.bind(size)]
        np.testing.assert_allclose(x.std().numpy(), base.numpy()[:size].std(), rtol=1e-5)
        z = Tensor([1 + 2j, 3j]).realize()
        np.testing.assert_allclose(z.mean().numpy(), z.numpy().mean(), rtol=1e-6)
        s = make(4).shard(("CPU", "CPU:1"), axis=0)
        np.testing.assert_allclose(s.softmax().numpy().sum(), 1, rtol=1e-6)
    assert caches()["decomposition"].entries == 0


def test_errors_of_later_calls_are_those_of_the_first() -> None:
    x = make(3, 4)
    for _ in range(4):
        with pytest.raises(AxisError, match="axis 5"):
            x.softmax(5)
        with pytest.raises(ShapeError, match="inner dimensions differ"):
            _ = x @ x
    assert count_recorded() == 0


def test_captured_functions_and_gradients_agree() -> None:
    def loss(x: Tensor, w: Tensor) -> Tensor:
        return ((x @ w).softmax() * x.layernorm()[:, :1]).sum()

    captured, gradient = jit(loss), grad(loss, argnums=(0, 1))
    results: list[object] = []
    x, w = make(4, 5), make(5, 3)
    for _ in range(4):
        clear = (loss(x, w), captured(x, w), *gradient(x, w))
        results.append([value.numpy().tolist() for value in clear])
    assert all(result == results[0] for result in results)


def test_nodes_get_the_origin_of_their_call() -> None:
    for number in range(4):
        x = make(3, 4)
        with scope(f"layer{number}"):
            y = x.softmax()
        inner = [node for node in y.uop.toposort() if node.op is Op.EXP2 or node.op is Op.EXP]
        assert inner
        for node in inner:
            assert {(o.scope, o.operation) for o in get_origins(node)} == {
                (f"layer{number}", "softmax")
            }


def test_records_are_counted_and_cleared() -> None:
    for _ in range(3):
        make(3).softmax()
    assert caches()["decomposition"].hits >= 1
    clear_caches()
    assert caches()["decomposition"].entries == 0


@reuse_graph
def copy_and_add(x: Tensor, /) -> Tensor:
    return x.contiguous() + 1


@reuse_graph
def flatten_and_add(x: Tensor, /) -> Tensor:
    return x.reshape(-1).contiguous() + 1


@pytest.mark.parametrize("function", [copy_and_add, flatten_and_add])
def test_memory_that_is_contiguous_already_is_not_copied(
    function: Callable[[Tensor], Tensor],
) -> None:
    for _ in range(4):
        x = make(3, 2)
        assert not any(True for _ in function(x).uop.iter_ops(Op.CONTIGUOUS))
        assert any(True for _ in function(x * 2).uop.iter_ops(Op.CONTIGUOUS))


@reuse_graph
def select_positive(x: Tensor, /) -> Tensor:
    return x[x > 0]


def test_functions_that_read_values_are_called_each_time() -> None:
    for number in range(4):
        x = Tensor(np.arange(6, dtype=np.float32) - number)
        assert select_positive(x).tolist() == list(range(1, 6 - number))
