"""Data-dependent models: branches, loops, stages, and values computed from weights only."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import TensorProto, helper, numpy_helper

import svod_onnx
import svod_tensor as sv
from svod_onnx._plan_cache import MAX_SPECS, PlanCache
from svod_onnx._program import Program
from svod_onnx._stages import SinglePlan
from svod_onnx.errors import ModelInputError, NodeError, UnsupportedOperatorsError, ValueNeededError


def _parse(text: str) -> svod_onnx.Model:
    return svod_onnx.load(
        onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 21]> {text}')
    )


def test_an_input_selects_a_branch_in_each_call() -> None:
    model = _parse("""
        g (float[n] x, bool c) => (float[n] y) {
            y = If (c) <then_branch = a () => (float[n] t) { t = Neg(x) }, else_branch = b () => (float[n] e) { e = Abs(x) }>
        }
    """)
    x = np.array([1.0, -2.0], np.float32)
    for c in (True, False, True):
        assert model(x=x, c=np.array(c))["y"].tolist() == ([-1.0, 2.0] if c else [1.0, 2.0])


def test_an_array_that_selected_a_branch_may_be_modified() -> None:
    model = _parse("""
        g (float[n] x, bool c) => (float[n] y, float[n] z) {
            total = ReduceSum<keepdims = 0>(x)
            zero = Constant<value_float = 0.0>()
            d = Greater(total, zero)
            y = If (c) <then_branch = a () => (float[n] t) { t = Neg(x) }, else_branch = b () => (float[n] e) { e = Abs(x) }>
            z = If (d) <then_branch = f () => (float[n] u) { u = If (c) <
                then_branch = h () => (float[n] v) { v = Neg(x) }, else_branch = i () => (float[n] w) { w = Exp(x) }> },
                else_branch = j () => (float[n] o) { o = Abs(x) }>
        }
    """)
    falling, rising, first = (
        np.array([1.0, -2.0], np.float32),
        np.array([3.0, -2.0], np.float32),
        np.array(True),
    )
    for _ in range(2):
        results = model(x=falling, c=first)
        np.testing.assert_array_equal(results["z"].numpy(), abs(falling))
    first[...] = False
    results = model(x=rising, c=np.array(True))
    np.testing.assert_array_equal(results["y"].numpy(), -rising)
    np.testing.assert_array_equal(results["z"].numpy(), -rising)
    np.testing.assert_allclose(model(x=rising, c=first)["z"].numpy(), np.exp(rising), rtol=1e-6)


_BRANCH_OF_A_NUMBER = """
    g (float[n] x, int64 c) => (float[n] y) {
        two = Constant<value_int = 2>()
        d = Equal(c, two)
        y = If (d) <then_branch = a () => (float[n] t) { t = Neg(x) }, else_branch = b () => (float[n] e) { e = Abs(x) }>
    }
"""


@pytest.mark.parametrize("sizes", [None, {"n": 12}], ids=str)
def test_each_value_that_selects_a_branch_has_a_plan(sizes: dict[str, int] | None) -> None:
    text = f'<ir_version: 10, opset_import: ["" : 21]> {_BRANCH_OF_A_NUMBER}'
    model = svod_onnx.load(onnx.parser.parse_model(text), sizes=sizes)
    counts: list[int] = []
    for n, c in ((3, 2), (4, 5), (5, 2), (6, 5), (7, 2)):
        x = np.arange(-1, n - 1, dtype=np.float32)
        n = 3 if sizes is None else n
        y = model(x=x[:n], c=np.array(c))["y"]
        np.testing.assert_array_equal(y.numpy(), -x[:n] if c == 2 else abs(x[:n]))
        counts.append(len(model.plans()))
    # The first plan computes the condition, before it is known that an input determines it.
    assert counts == [2, 3, 3, 3, 3] if sizes is None else counts[2:] == [4, 4, 4]


@pytest.mark.parametrize("condition", ["float[1] c", "int64[2] c"])
def test_a_program_chooses_between_branches_by_what_it_computes(condition: str) -> None:
    model = _parse(f"""
        g (float[n] x, {condition}) => (float[n] y) {{
            number = Cast<to = 7>(c)
            total = ReduceSum<keepdims = 0>(number)
            two = Constant<value_int = 2>()
            d = Less(total, two)
            y = If (d) <then_branch = a () => (float[n] t) {{ t = Neg(x) }}, else_branch = b () => (float[n] e) {{ e = Abs(x) }}>
        }}
    """)
    x, is_float = np.array([1.0, -2.0], np.float32), condition.startswith("float")
    counts: list[int] = []
    for c in (4, -3, 5, -4, 6):
        value = np.array([c], np.float32) if is_float else np.array([c, 0])
        y = model(x=x, c=value)["y"]
        np.testing.assert_array_equal(y.numpy(), -x if c < 2 else abs(x))
        counts.append(len(model.plans()))
    assert counts == [1] * 5


@pytest.mark.parametrize(
    ("positive", "expected"),
    [
        # Results of different shapes and dtypes, a value that a kernel needs, an invalid shape.
        ("t = Unsqueeze(x, zero)", np.array([[3.0, -1.0]], np.float32)),
        ("t = Cast<to = 7>(x)", np.array([3, -1])),
        (
            "kept = Compress(x, bits) t = Concat<axis = 0>(kept, kept)",
            np.array([3.0, 3], np.float32),
        ),
        ("bits64 = Cast<to = 7>(bits) t = Reshape(x, bits64)", None),
    ],
)
def test_branches_that_one_program_cannot_hold_have_programs_of_their_own(
    positive: str, expected: np.ndarray | None
) -> None:
    model = _parse(f"""
        g (float[2] x) => (y) {{
            zero = Constant<value_ints = [0]>()
            low = Constant<value_float = 0.0>()
            high = Constant<value_float = 1.0>()
            bits = Greater(x, low)
            total = ReduceSum<keepdims = 0>(x)
            d = Greater(total, high)
            y = If (d) <then_branch = a () => (t) {{ {positive} }}, else_branch = b () => (e) {{ e = Abs(x) }}>
        }}
    """)
    for x in ([-1.0, 0.5], [3.0, -1.0], [-1.0, 0.5]):
        array = np.array(x, np.float32)
        if x[0] < 0:
            np.testing.assert_array_equal(model(x=array)["y"].numpy(), abs(array))
        elif expected is None:
            with pytest.raises(NodeError, match="Reshape"):
                model(x=array)
        else:
            np.testing.assert_array_equal(model(x=array)["y"].numpy(), expected)


def test_branches_within_branches_and_weights_of_branches() -> None:
    rng = np.random.default_rng(3)
    weights = [rng.standard_normal((40, 200)).astype(np.float32) for _ in range(3)]
    names = ("u", "v", "w")

    def product(name: str) -> onnx.GraphProto:
        nodes = [helper.make_node("MatMul", ["x", name], [f"{name}_product"])]
        output = helper.make_tensor_value_info(f"{name}_product", TensorProto.FLOAT, None)
        array = numpy_helper.from_array(weights[names.index(name)], name)
        return helper.make_graph(nodes, name, [], [output], [array])

    inner = helper.make_graph(
        [
            helper.make_node("Greater", ["total", "one"], ["is_large"]),
            helper.make_node(
                "If", ["is_large"], ["i"], then_branch=product("v"), else_branch=product("w")
            ),
            helper.make_node("Neg", ["i"], ["n"]),
        ],
        "inner",
        [],
        [helper.make_tensor_value_info("n", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.array(1.0, np.float32), "one")],
    )
    graph = helper.make_graph(
        [
            helper.make_node("ReduceSum", ["x"], ["total"], keepdims=0),
            helper.make_node("Less", ["total", "zero"], ["is_negative"]),
            helper.make_node(
                "If", ["is_negative"], ["y"], then_branch=product("u"), else_branch=inner
            ),
        ],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 40])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.array(0.0, np.float32), "zero")],
    )
    model = svod_onnx.load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)]))
    x = abs(rng.standard_normal((3, 40))).astype(np.float32)
    for factor, sign, weight in ((-1, 1, 0), (1, -1, 1), (1e-4, -1, 2), (-2, 1, 0)):
        array = x * np.float32(factor)
        expected = sign * array @ weights[weight]
        np.testing.assert_allclose(model(x=array)["y"].numpy(), expected, rtol=1e-4, atol=1e-5)
    assert len(model.plans()) == 1


@pytest.mark.parametrize("order", [("x", "c"), ("c", "x")])
def test_later_calls_use_the_plan_of_their_values(
    order: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = _parse("""
        g (float[3] x, int64 c) => (float[3] y) {
            two = Constant<value_int = 2>()
            d = Equal(c, two)
            y = If (d) <then_branch = a () => (float[3] t) { t = Neg(x) }, else_branch = b () => (float[3] e) { e = Abs(x) }>
        }
    """)
    x = np.array([1.0, -2.0, 3.0], np.float32)
    for c in (2, 2, 5, 5, 2, 7, 5):
        inputs = {"x": x, "c": np.array(c)}
        y = model(**{name: inputs[name] for name in order})["y"]
        np.testing.assert_array_equal(y.numpy(), -x if c == 2 else abs(x))
    with monkeypatch.context() as patch:
        patch.setattr(Program, "run", None)
        for c in (5, 2):
            inputs = {"x": x, "c": np.array(c)}
            y = model(**{name: inputs[name] for name in order})["y"]
            np.testing.assert_array_equal(y.numpy(), -x if c == 2 else abs(x))
    with pytest.raises(ModelInputError, match="dtype"):
        model(x=x, c=np.array(2, np.int32))


def test_a_branch_in_a_branch_selects_another_plan() -> None:
    model = _parse("""
        g (float[3] x, bool c, bool d) => (float[3] y) {
            y = If (c) <
                then_branch = a () => (float[3] t) { t = Neg(x) },
                else_branch = b () => (float[3] e) { e = If (d) <
                    then_branch = f () => (float[3] u) { u = Abs(x) },
                    else_branch = h () => (float[3] v) { v = Identity(x) }> }>
        }
    """)
    x = np.array([1.0, -2.0, 3.0], np.float32)
    for _ in range(2):
        for c, d in ((True, True), (True, False), (False, True), (False, False)):
            y = model(x=x, c=np.array(c), d=np.array(d))["y"]
            np.testing.assert_array_equal(y.numpy(), -x if c else abs(x) if d else x)


def test_a_computed_condition() -> None:
    model = _parse("""
        g (float[n] x) => (float[n] y) {
            total = ReduceSum<keepdims = 0>(x)
            zero = Constant<value_float = 0.0>()
            c = Greater(total, zero)
            y = If (c) <then_branch = a () => (float[n] t) { t = Neg(x) }, else_branch = b () => (float[n] e) { e = Abs(x) }>
        }
    """)
    assert model(x=[1.0, 2.0])["y"].tolist() == [-1.0, -2.0]
    assert model(x=[1.0, -2.0])["y"].tolist() == [1.0, 2.0]


def test_cached_plans_return_outputs_in_the_order_of_the_model() -> None:
    model = _parse("""
        g (float[n] x, int64[n] k) => (float[n] z, float[n] a, int64[n] m) {
            a = Neg(x)
            z = Add(a, a)
            m = Add(k, k)
        }
    """)
    for n in (3, 5, 3, 5, 3):
        x, k = np.arange(n, dtype=np.float32) + n, np.arange(n)
        for results in (model(x=x, k=k), model(k=k, x=x)):
            assert list(results) == ["z", "a", "m"]
            np.testing.assert_array_equal(results["z"].numpy(), -2 * x)
            np.testing.assert_array_equal(results["a"].numpy(), -x)
            np.testing.assert_array_equal(results["m"].numpy(), 2 * k)
    with pytest.raises(ModelInputError):
        model(x=x, k=k.astype(np.int32))
    with pytest.raises(ModelInputError):
        model(x=x, k=k[1:])
    with pytest.raises(ModelInputError, match="unknown input 'q'"):
        model(x=x, q=k)


def test_an_optional_input_may_be_omitted_in_each_call() -> None:
    model = _parse("""
        g (float[2] x, optional(float[2]) z) => (float[2] y, bool has_z) {
            y = Neg(x) has_z = OptionalHasElement(z)
        }
    """)
    x = np.array([1.0, 2.0], np.float32)
    for extra in ({}, {"z": x}, {}, {"z": x}):
        results = model(x=x, **extra)
        assert (results["y"].tolist(), bool(results["has_z"])) == ([-1.0, -2.0], bool(extra))


def test_cached_plans_compute_on_the_device_of_the_model() -> None:
    text = '<ir_version: 10, opset_import: ["" : 21]> g (float[2] x) => (float[2] y) { y = Neg(x) }'
    model = svod_onnx.load(onnx.parser.parse_model(text), device="CPU:1")
    for _ in range(3):
        assert str(model(x=np.ones(2, np.float32))["y"].device) == "CPU:1"


def test_cached_plans_return_constant_outputs_and_inputs() -> None:
    model = _parse(
        "g (float[3] x) => (float[3] y, int64[1] s, float[3] z) { y = Neg(x) s = Shape(x) z = Identity(x) }"
    )
    for i in range(3):
        results = model(x=np.full(3, i, np.float32))
        assert {name: value.tolist() for name, value in results.items()} == {
            "y": [-i] * 3,
            "s": [3],
            "z": [i] * 3,
        }


def test_the_plan_cache_is_bounded() -> None:
    cache = PlanCache()
    plan = SinglePlan((), (), (), tuple)
    for i in range(2 * MAX_SPECS):
        cache.add(i, (), {}, plan)
        assert cache.find(i, {}) is plan
    assert sum(i in cache for i in range(2 * MAX_SPECS)) <= MAX_SPECS
    inputs = [{"c": np.array(i)} for i in range(200)]
    for values in inputs:
        cache.add("spec", ("c",), values, plan)
        assert cache.find("spec", values) is plan
    assert sum(cache.find("spec", values) is plan for values in inputs) <= 64


def _make_branches(first: np.ndarray, second: np.ndarray) -> onnx.ModelProto:
    """Two branches with equal node names and different weights."""

    def branch(weight: np.ndarray) -> onnx.GraphProto:
        nodes = [
            helper.make_node("Neg", ["w"], ["negative"], "node"),
            helper.make_node("Mul", ["x", "negative"], ["r"], "product"),
        ]
        output = helper.make_tensor_value_info("r", TensorProto.FLOAT, None)
        return helper.make_graph(
            nodes, "branch", [], [output], [numpy_helper.from_array(weight, "w")]
        )

    node = helper.make_node(
        "If", ["c"], ["y"], then_branch=branch(first), else_branch=branch(second)
    )
    inputs = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n"]),
        helper.make_tensor_value_info("c", TensorProto.BOOL, []),
    ]
    graph = helper.make_graph(
        [node], "g", inputs, [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])


@pytest.mark.parametrize("size", [1, 7, 5000])
def test_branches_do_not_share_cached_weights(size: int) -> None:
    rng = np.random.default_rng(0)
    first, second = (rng.standard_normal(size).astype(np.float32) for _ in range(2))
    model = svod_onnx.load(_make_branches(first, second))
    x = rng.standard_normal(size).astype(np.float32)
    for c in (True, False, True, False):
        np.testing.assert_array_equal(
            model(x=x, c=np.array(c))["y"].numpy(), -x * (first if c else second)
        )


_DOUBLING = """
    g (float[n] x, int64 m) => (float[n] y, float[k, n] all) {{
        c = Constant<value = bool {{1}}>()
        y, all = Loop ({trips}, c, x) <body = b (int64 i, bool going, float[n] v) => (bool on, float[n] w, float[n] s) {{
            on = Identity(going)
            w = Add(v, v)
            s = Identity(w)
        }}>
    }}
"""


@pytest.mark.parametrize("trips", [0, 1, 3, 64, 65, 80])
def test_loops_with_a_known_trip_count(trips: int) -> None:
    model = _parse(_DOUBLING.format(trips="m"))
    outputs = model(x=np.array([1.0, 3.0], np.float32), m=np.array(trips, np.int64))
    np.testing.assert_array_equal(
        outputs["y"].numpy(), np.array([1.0, 3.0], np.float32) * np.float32(2.0) ** trips
    )
    assert outputs["all"].shape[0] == trips


def test_a_loop_with_a_computed_condition() -> None:
    model = _parse("""
        g (float x) => (float y) {
            m = Constant<value_int = 100>()
            c = Constant<value = bool {1}>()
            y = Loop (m, c, x) <body = b (int64 i, bool going, float v) => (bool on, float w) {
                w = Add(v, v)
                limit = Constant<value_float = 100.0>()
                on = Less(w, limit)
            }>
        }
    """)
    assert model(x=np.array(3.0, np.float32))["y"].item() == 192.0


_COUNTING = """
    g (float[n] x, float[n, n] w) => (float[n] y, int32 last, float[k, n] all) {{
        c = Constant<value = bool {{1}}>()
        zero = Constant<value = int32 {{0}}>()
        last, same, y, all = Loop ({trips}, c, zero, w, x) <
            body = b (int64 i, bool going, int32 t, float[n, n] m, float[n] v)
            => (bool on, int32 u, float[n, n] m, float[n] r, float[n] s) {{
                one = Constant<value = int32 {{1}}>()
                u = Add(t, one)
                limit = Constant<value = int32 {{{limit}}}>()
                on = Less(u, limit)
                number = Cast<to = 1>(t)
                moved = MatMul(v, m)
                r = Add(moved, number)
                s = Neg(r)
            }}
        >
    }}
"""


@pytest.mark.parametrize(("limit", "trips"), [(1, ""), (64, ""), (70, ""), (90, "m"), (300, "m")])
def test_a_counted_loop_is_a_single_program(limit: int, trips: str) -> None:
    text = _COUNTING.format(limit=limit, trips=trips)
    if trips:
        text = text.replace("zero = ", "m = Constant<value_int = 80>()\nzero = ")
    model = _parse(text)
    rng = np.random.default_rng(limit)
    x, w = (
        rng.normal(size=3).astype(np.float32),
        np.linalg.qr(rng.normal(size=(3, 3)))[0].astype(np.float32) / 2,
    )
    rows = [x]
    for t in range(min(limit, 80 if trips else limit)):
        rows.append(rows[-1] @ w + np.float32(t))
    outputs = model(x=x, w=w)
    np.testing.assert_allclose(outputs["y"].numpy(), rows[-1], rtol=1e-5)
    np.testing.assert_allclose(outputs["all"].numpy(), -np.array(rows[1:]), rtol=1e-5, atol=1e-5)
    assert outputs["last"].item() == len(rows) - 1
    assert len(model.plans()) == 1


def test_a_loop_with_growing_carries_runs_on_the_host() -> None:
    model = _parse("""
        g (float[n] x) => (float[k] y) {
            m = Constant<value_int = 70>()
            c = Constant<value = bool {1}>()
            y = Loop (m, c, x) <body = b (int64 i, bool going, float[a] v) => (bool on, float[o] w) {
                on = Identity(going)
                number = Cast<to = 1>(i)
                axis = Constant<value_ints = [0]>()
                row = Unsqueeze(number, axis)
                w = Concat<axis = 0>(v, row)
            }>
        }
    """)
    assert model(x=np.array([5.0], np.float32))["y"].tolist() == [5.0, *map(float, range(70))]


def test_constants_of_a_stage_belong_to_the_shapes_of_computed_values() -> None:
    model = _parse("""
        g (float[n] x) => (float[k] y, int64[1] s, float[k] z) {
            total = ReduceSum<keepdims = 0>(x)
            zero = Constant<value_float = 0.0>()
            c = Greater(total, zero)
            m = Constant<value_int = 4>()
            y = Loop (m, c, x) <body = b (int64 i, bool going, float[a] v) => (bool on, float[o] w) {
                axis = Constant<value_ints = [0]>()
                number = Cast<to = 1>(i)
                row = Unsqueeze(number, axis)
                w = Concat<axis = 0>(v, row)
                sum = ReduceSum<keepdims = 0>(w)
                limit = Constant<value_float = 6.0>()
                on = Less(sum, limit)
            }>
            s = Shape(y)
            z = Neg(y)
        }
    """)
    for first, length in ((1.0, 5), (5.5, 3), (1.0, 5), (9.0, 2), (5.5, 3)):
        results = model(x=np.array([first], np.float32))
        rows = [first, *map(float, range(length - 1))]
        assert results["y"].tolist() == rows
        assert (results["s"].tolist(), results["z"].tolist()) == ([length], [-r for r in rows])


def test_a_long_loop_with_an_invariant_condition() -> None:
    model = _parse(_DOUBLING.format(trips="m").replace("Add(v, v)", "Neg(v)"))
    outputs = model(x=np.array([1.0, 3.0], np.float32), m=np.array(5001, np.int64))
    assert outputs["y"].tolist() == [-1.0, -3.0]
    assert outputs["all"].shape == (5001, 2)


def test_data_dependent_shapes_run_in_stages() -> None:
    model = _parse("""
        g (float[n] x) => (float[k] y) {
            zero = Constant<value_float = 0.0>()
            is_positive = Greater(x, zero)
            places = NonZero(is_positive)
            axis = Constant<value_ints = [0]>()
            flat = Squeeze(places, axis)
            taken = Gather(x, flat)
            y = Add(taken, taken)
        }
    """)
    for x in ([1.0, -1.0, 2.0], [1.0, 2.0, 3.0], [-1.0], [1.0, -1.0, 2.0]):
        assert model(x=x)["y"].tolist() == [2 * value for value in x if value > 0]


def test_a_model_function_under_jit_and_grad() -> None:
    layer = _parse("g (float[n] x) => (float[n] y) { s = Mul(x, x) y = Exp(s) }").to_function()
    x = sv.asarray(np.array([0.5, -1.0], np.float32))
    expected = 2 * np.array([0.5, -1.0]) * np.exp([0.25, 1.0])
    result = sv.jit(sv.grad(lambda x: layer(x).sum()))(x)
    np.testing.assert_allclose(result.numpy(), expected, rtol=1e-6)


def test_a_model_function_names_the_value_that_it_needs() -> None:
    model = _parse("g (float[n] x, int64[1] k) => (float[m] y) { y, i = TopK<axis = 0>(x, k) }")
    with pytest.raises(ValueNeededError, match="needs the value of 'k'"):
        sv.jit(lambda x, k: model.to_function()(x, k)[0])(sv.ones(3), sv.ones(1, dtype="int64"))


@pytest.mark.parametrize(
    ("inputs", "problem"),
    [
        ({}, "missing input 'x'"),
        ({"x": [1.0], "z": [1.0]}, "unknown input 'z'"),
        ({"x": np.ones(3, np.int32)}, "input 'x': expected dtype float32, got int32"),
        ({"x": np.ones((2, 2), np.float32)}, "input 'x': expected rank 1, got shape"),
    ],
)
def test_invalid_inputs_are_rejected(inputs: dict[str, Any], problem: str) -> None:
    model = _parse("g (float[n] x) => (float[n] y) { y = Neg(x) }")
    with pytest.raises(ModelInputError, match=problem):
        model(**inputs)


def test_a_symbolic_dimension_has_the_same_size_in_all_inputs() -> None:
    model = _parse("g (float[n] a, float[n] b) => (float[n] y) { y = Add(a, b) }")
    with pytest.raises(ModelInputError, match="dimension 'n' is 2 in input 'a' and 3 in input 'b'"):
        model(a=[1.0, 2.0], b=[1.0, 2.0, 3.0])


def test_the_error_lists_all_unsupported_operators() -> None:
    nodes = [
        helper.make_node("Wonder", ["x"], ["a"], "one", domain="my"),
        helper.make_node("Neg", ["a"], ["b"], "two"),
        helper.make_node("Marvel", ["b"], ["y"], "three", domain="my"),
    ]
    info = helper.make_tensor_value_info
    graph = helper.make_graph(nodes, "g", [info("x", 1, ["n"])], [info("y", 1, ["n"])])
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("my", 1)]
    with pytest.raises(UnsupportedOperatorsError) as caught:
        svod_onnx.load(helper.make_model(graph, opset_imports=opsets))
    assert [(row.operator, row.node, row.output) for row in caught.value.missing] == [
        ("my.Wonder", "one", "a"),
        ("my.Marvel", "three", "y"),
    ]


@pytest.mark.parametrize("domain", ["com.microsoft.nchwc", "com.ms.internal.nhwc"])
def test_models_in_the_layout_of_onnxruntime_are_refused_with_advice(domain: str) -> None:
    node = helper.make_node("Conv", ["x", "w"], ["y"], "one", domain=domain)
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        [node], "g", [info("x", 1, None), info("w", 1, None)], [info("y", 1, None)]
    )
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid(domain, 1)]
    with pytest.raises(UnsupportedOperatorsError, match="at most `ORT_ENABLE_EXTENDED`"):
        svod_onnx.load(helper.make_model(graph, opset_imports=opsets))


def test_the_error_names_the_node() -> None:
    model = _parse("g (float[n] x, float[m] z) => (float[n] y) { y = Add(x, z) }")
    with pytest.raises(NodeError, match="Add in node 'y'") as caught:
        model(x=[1.0, 2.0], z=[1.0, 2.0, 3.0])
    assert "float32(2,)" in str(caught.value)


def test_strings_stay_on_the_host() -> None:
    model = _parse(
        "g (string[n] x, string[n] z) => (bool[n] y, string[n] w) { y = Equal(x, z) w = Identity(x) }"
    )
    outputs = model(x=np.array(["a", "b"], object), z=np.array(["a", "c"], object))
    assert np.asarray(outputs["y"]).tolist() == [True, False]
    assert list(np.asarray(outputs["w"])) == ["a", "b"]


_GATED = """<ir_version: 13, opset_import: ["" : 28]>
    g (float[n, 2] x, bool c) => (float[n, 2] y, float[1, 2] z) <float[1, 2] w = {1, 2}> {
        z = SwiGLU(w, w)
        y = If (c) <then_branch = a () => (float[n, 2] t) { t = SwiGLU(x, w) }, else_branch = b () => (float[n, 2] e) { e = SwiGLU(w, x) }>
    }"""


def test_operators_without_a_function_run_by_their_body() -> None:
    model = svod_onnx.load(onnx.parser.parse_model(_GATED))
    x = np.random.default_rng(0).standard_normal((3, 2)).astype(np.float32)
    w = np.array([[1, 2]], np.float32)

    def gate(gates: np.ndarray, values: np.ndarray) -> np.ndarray:
        return gates / (1 + np.exp(-gates)) * values

    for condition, gated in ((True, gate(x, w)), (False, gate(w, x)), (True, gate(x, w))):
        results = model(x=x, c=np.array(condition))
        np.testing.assert_allclose(results["y"].numpy(), gated, rtol=1e-5)
        np.testing.assert_allclose(results["z"].numpy(), gate(w, w), rtol=1e-5)
