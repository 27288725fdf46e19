"""Input sizes as variables: one set of kernels for many shapes, with the results of each exact
shape.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx.parser
import onnx.reference
import pytest
from onnx import helper

import svod_onnx
from svod_onnx._plan_cache import get_spec
from svod_onnx._size_variables import SymbolicShapes
from svod_onnx.errors import ModelInputError, NodeError
from svod_tensor import Tensor, Variable

ENCODER = """
<ir_version: 10, opset_import: ["" : 17]>
encoder (int64[batch, length] ids, float[batch, length] mask) => (float[batch, length, 8] states, float[batch, 8] pooled)
<int64 zero = {0}, int64 one = {1}, int64[1] none = {0}, int64[1] first = {1}, int64[1] rest = {-1}, int64[1] heads = {2},
 int64[1] width = {4}, int64[1] full = {8}, float half = {0.5}, float low = {-100.0}, float whole = {1.0}>
{
    shape = Shape(ids)
    batch = Gather(shape, zero)
    length = Gather(shape, one)
    batches = Unsqueeze(batch, none)
    lengths = Unsqueeze(length, none)
    places = Range(zero, length, one)
    embedded = Gather(table, ids)
    positions = Slice(row, none, lengths, none)
    moved = Gather(table, positions)
    x = Add(embedded, moved)
    expected = Concat<axis = 0>(batches, lengths)
    three = Shape(expected)
    ones = ConstantOfShape<value = int64[1] {1}>(three)
    minus = Neg(ones)
    missing = Equal(expected, minus)
    target = Where(missing, ones, expected)
    all_places = Expand(places, target)
    scale = Cast<to = 1>(all_places)
    scales = Unsqueeze(scale, rest)
    tiny = Mul(scales, small)
    y = Add(x, tiny)
    apart = Concat<axis = 0>(batches, lengths, heads, width)
    split = Reshape(y, apart)
    queries = Transpose<perm = [0, 2, 1, 3]>(split)
    keys = Transpose<perm = [0, 2, 3, 1]>(split)
    raw = MatMul(queries, keys)
    scores = Mul(raw, half)
    away = Sub(whole, mask)
    bias = Mul(away, low)
    wide = Unsqueeze(bias, inner)
    masked = Add(scores, wide)
    weights = Softmax<axis = -1>(masked)
    mixed = MatMul(weights, queries)
    back = Transpose<perm = [0, 2, 1, 3]>(mixed)
    together = Concat<axis = 0>(batches, lengths, full)
    states = Reshape(back, together)
    count = Cast<to = 1>(length)
    total = ReduceSum<keepdims = 0>(states, first)
    pooled = Div(total, count)
}
"""
"""Attention with shape arithmetic as exporters write it."""


def _make_encoder() -> onnx.ModelProto:
    model = onnx.parser.parse_model(ENCODER)
    rng = np.random.default_rng(3)
    for name, array in {
        "table": rng.normal(size=(40, 8)).astype(np.float32),
        "row": np.arange(40),
        "small": np.array(0.01, np.float32),
        "inner": np.array([1, 2]),
    }.items():
        model.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    return model


def _sample(n: int, length: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(n * 100 + length)
    mask = rng.random((n, length)) < 0.8
    mask[:, 0] = True
    return {"ids": rng.integers(0, 40, (n, length)), "mask": mask.astype(np.float32)}


def _check(model: svod_onnx.Model, proto: onnx.ModelProto, inputs: dict[str, Any]) -> None:
    result = model(**inputs)
    expected = onnx.reference.ReferenceEvaluator(proto).run(None, inputs)
    for tensor, array in zip(result.values(), expected, strict=True):
        assert tensor.shape == array.shape
        np.testing.assert_allclose(tensor.numpy(), array, rtol=1e-4, atol=1e-5)


LENGTHS = [9, 17, 33, 5, 2, 3, 4, 6, 7, 8, 10, 11, 12, 13, 16, 20, 21, 31, 32, 40]


def test_twenty_lengths_share_a_set_of_kernels() -> None:
    proto = _make_encoder()
    model = svod_onnx.load(proto, sizes={"length": 40})
    for length in LENGTHS:
        _check(model, proto, _sample(1, length))
    assert len(model.plans()) == 1
    _check(model, proto, _sample(1, 1))
    assert len(model.plans()) == 2
    _check(model, proto, _sample(1, 17))
    assert len(model.plans()) == 2


def test_the_third_size_compiles_kernels_for_any_size() -> None:
    proto = _make_encoder()
    model = svod_onnx.load(proto)
    counts = []
    for length in (5, 9, 5, 7, 11, 20, 2):
        _check(model, proto, _sample(2, length))
        counts.append(len(model.plans()))
    assert counts == [1, 2, 2, 3, 3, 3, 3]
    # A second dimension that varies.
    for n in (3, 4, 5):
        _check(model, proto, _sample(n, 6))
    n_plans = len(model.plans())
    for n, length in ((6, 7), (7, 12), (5, 19)):
        _check(model, proto, _sample(n, length))
    assert len(model.plans()) == n_plans


def test_tensor_inputs_and_sizes_above_the_upper_bound() -> None:
    proto = _make_encoder()
    model = svod_onnx.load(proto, sizes={"length": 8, "batch": 3})
    for n, length in ((2, 5), (3, 8)):
        inputs = _sample(n, length)
        _check(model, proto, {"ids": inputs["ids"], "mask": inputs["mask"]})
        tensors = model(**{name: Tensor(array) for name, array in inputs.items()})
        np.testing.assert_array_equal(tensors["states"].numpy(), model(**inputs)["states"].numpy())
    assert len(model.plans()) == 1
    _check(model, proto, _sample(2, 9))
    assert len(model.plans()) == 2


def test_an_unknown_dimension_is_rejected() -> None:
    with pytest.raises(ModelInputError, match="no input has a dimension 'width'"):
        svod_onnx.load(_make_encoder(), sizes={"width": 8})


def _parse(
    body: str, inputs: str = "float[n, m] x", outputs: str = "int64[k] y", opset: int = 18
) -> onnx.ModelProto:
    return onnx.parser.parse_model(
        f'<ir_version: 10, opset_import: ["" : {opset}]> g ({inputs}) => ({outputs})\n'
        "<int64[1] two = {2}, int64[1] seven = {7}, int64[2] pair = {3, 4}, int64[1] none = {0}, int64[1] last = {-1},"
        f" int64 single = {{1}}, int64[2] order = {{1, 0}}, int64 three = {{3}}, int64[1] low = {{-9}}>\n"
        f"{{ s = Shape(x) {body} }}"
    )


@pytest.mark.parametrize(
    "body",
    [
        "y = Identity(s)",
        "y = Add(s, pair)",
        "y = Mul(s, two)",
        "a = Mul(s, seven) y = Div(a, two)",
        "y = Div(s, two)",
        "y = Mod(s, two)",
        "a = Sub(s, two) y = Neg(a)",
        "y = Gather(s, order)",
        "a = Gather(s, single) b = Unsqueeze(a, none) y = Concat<axis = 0>(s, b)",
        "y = Slice(s, none, last)",
        "a = Unsqueeze(s, none) y = Squeeze(a, none)",
        "y = ReduceProd(s)",
        "a = Reshape(s, order_) y = ReduceSum(a)",
        "a = Cast<to = 6>(s) y = Cast<to = 7>(a)",
        "a = Cast<to = 1>(s) b = Sqrt(a) y = Cast<to = 7>(b)",
        "a = Less(s, none) y = Where(a, pair, s)",
        "a = Equal(s, none) y = Where(a, pair, s)",
        "y = Max(s, single)",
        "a = ConstantOfShape<value = int64[1] {3}>(s) y = ReduceSum(a)",
        "a = Gather(s, single) y = Range(single, a, single)",
        "a = Size(x) y = Unsqueeze(a, none)",
        "a = CumSum(s, none_) y = Identity(a)",
        "a = Unsqueeze(s, none) y = Gather<axis = 1>(a, none)",
        "y = Slice(s, last, low, none, last)",
        "a = Reshape(s, none) y = Identity(a)",
        "a = ReduceProd<keepdims = 0>(s) y = Unsqueeze(a, none)",
        "a = Unsqueeze(s, none) b = Concat<axis = 1>(a, a) y = Squeeze(b, none)",
        "a = Cast<to = 1>(s) b = Mul(s, two) c = Cast<to = 1>(b) d = Div(a, c) e = Add(d, d) y = Cast<to = 7>(e)",
        "y = Shape<start = 1>(x)",
        "a = Mod(s, two) y = Gather(pair, a)",
        "a = Mod(s, two) b = Gather(a, none) y = Slice(s, none, b)",
    ],
)
def test_arithmetic_on_symbolic_sizes(body: str) -> None:
    # A size of 1 is not symbolic.
    assert _check_arithmetic(body) <= 2


@pytest.mark.parametrize(
    "body",
    [
        "a = Gather(s, single) y = Range(single, a, three)",
        "a = Gather(s, single) b = Add(a, a) y = Range(a, b, single)",
        "a = Less(s, seven) y = Where(a, pair, s)",
        "a = Equal(s, pair) y = Where(a, two, s)",
        "y = Min(s, seven)",
        "a = Sub(s, pair) y = Div(a, two)",
        "a = Neg(two) y = Div(s, a)",
        "a = Sub(s, pair) y = Mod<fmod = 1>(a, two)",
        "a = Gather(s, single) y = Range(three, a, single)",
        "a = NonZero(x) y = Shape(a)",
    ],
)
def test_what_sizes_decide_is_left_to_programs_of_each_shape(body: str) -> None:
    _check_arithmetic(body)


def _check_arithmetic(body: str) -> int:
    """Check the results of a model for several shapes; return its number of plans."""
    proto = _parse(body)
    proto.graph.initializer.append(onnx.numpy_helper.from_array(np.array([1, 2]), "order_"))
    proto.graph.initializer.append(onnx.numpy_helper.from_array(np.array(0), "none_"))
    # With an output that takes a kernel, each program has a plan.
    proto.graph.node.append(helper.make_node("Neg", ["x"], ["z"]))
    proto.graph.output.append(
        helper.make_tensor_value_info("z", onnx.TensorProto.FLOAT, ["n", "m"])
    )
    model = svod_onnx.load(proto, sizes={"n": 12, "m": 12})
    for shape in ((2, 5), (9, 3), (12, 12), (7, 1), (3, 8)):
        _check(model, proto, {"x": np.ones(shape, np.float32)})
    return len(model.plans())


@pytest.mark.parametrize(
    "body",
    [
        "y = Slice<starts = [1], ends = [2]>(s)",
        "a = Unsqueeze<axes = [0]>(s) y = Squeeze<axes = [0]>(a)",
        "y = ReduceProd<axes = [0], keepdims = 1>(s)",
    ],
)
def test_arithmetic_on_symbolic_sizes_with_attributes(body: str) -> None:
    proto = _parse(body, opset=9)
    model = svod_onnx.load(proto, sizes={"n": 12, "m": 12})
    for shape in ((2, 5), (9, 3), (12, 12)):
        _check(model, proto, {"x": np.ones(shape, np.float32)})
    assert len(model.plans()) == 1


@pytest.mark.parametrize(
    ("body", "opset"),
    [
        ("a, y = Split<axis = 1, num_outputs = 2>(x)", 18),
        ("y = Flatten<axis = 1>(x)", 18),
        ("y = Tile(x, pair)", 18),
        ("y = Pad(x, order4)", 18),
        ("t = Transpose<perm = [1, 0]>(x) y = MatMul(x, t)", 18),
        (
            "a = Unsqueeze(x, none) y = MaxPool<kernel_shape = [2], strides = [2], ceil_mode = 1>(a)",
            18,
        ),
        ("y = Softmax<axis = 0>(x)", 13),
        ("y = LpNormalization<axis = 1>(x)", 18),
    ],
)
def test_operators_on_symbolic_shapes(body: str, opset: int) -> None:
    proto = _parse(body, outputs="float y", opset=opset)
    proto.graph.output[0].type.tensor_type.ClearField("shape")
    proto.graph.initializer.append(onnx.numpy_helper.from_array(np.array([0, 1, 2, 0]), "order4"))
    model = svod_onnx.load(proto, sizes={"n": 12, "m": 12})
    rng = np.random.default_rng(1)
    for shape in ((2, 5), (9, 4), (12, 12), (7, 2), (3, 8)):
        _check(model, proto, {"x": rng.normal(size=shape).astype(np.float32)})


@pytest.mark.parametrize(
    "body",
    [
        # A causal mask that is assigned as a whole, as in T5.
        "a = Shape<start = 0, end = 1>(x) b = Squeeze(a) c = Range(zero, b, single)"
        " d = Unsqueeze(c, last) y = ScatterND(x, d, x)",
        "a = Cast<to = 7>(x) b = Abs(a) c = Mod(b, two) y = ScatterElements<axis = 1>(x, c, x)",
        # The last rows of a table of position biases.
        "c = Concat<axis = 0>(x, x) a = Shape<end = 1>(x) b = Neg(a) y = Slice(c, b, far, none)",
    ],
)
def test_symbolic_indices_share_kernels(body: str) -> None:
    proto = _parse(body, outputs="float y")
    proto.graph.output[0].type.tensor_type.ClearField("shape")
    for name, value in {"zero": np.array(0), "far": np.array([2**63 - 1])}.items():
        proto.graph.initializer.append(onnx.numpy_helper.from_array(value, name))
    model = svod_onnx.load(proto, sizes={"n": 12, "m": 12})
    rng = np.random.default_rng(1)
    for shape in ((2, 5), (9, 4), (12, 12), (7, 2), (3, 8)):
        _check(model, proto, {"x": rng.normal(size=shape).astype(np.float32)})
    assert len(model.plans()) == 1


@pytest.mark.parametrize(
    ("body", "output"),
    [
        ("y = ai.onnx.ml.ZipMap<classlabels_int64s = [4, 5, 6]>(a)", "seq(map(int64, float)) y"),
        (
            "b = ArgMax<axis = 1, keepdims = 0>(a)"
            ' y = ai.onnx.ml.LabelEncoder<keys_int64s = [0, 1, 2], values_strings = ["u", "v", "w"]>(b)',
            "string[n] y",
        ),
    ],
)
def test_results_on_the_host_follow_a_plan_for_all_sizes(body: str, output: str) -> None:
    proto = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 21, "ai.onnx.ml" : 3]>'
        f" g (float[n, 3] x) => ({output}, float[n, 3] a) {{ a = Sigmoid(x) {body} }}"
    )
    model = svod_onnx.load(proto, sizes={"n": 12})
    exact = svod_onnx.load(proto)
    rng = np.random.default_rng(1)
    for n in (3, 8, 3, 12, 5):
        x = rng.normal(size=(n, 3)).astype(np.float32)
        results, expected = model(x=x), exact(x=x)
        assert list(results) == ["y", "a"]
        np.testing.assert_array_equal(results["y"], expected["y"])
        np.testing.assert_allclose(results["a"].numpy(), 1 / (1 + np.exp(-x)), rtol=1e-6)
        # The next call with this shape traces nothing.
        assert model._plan_cache.find(get_spec({"x": x}), {"x": x}) is not None
    assert len(model.plans()) == 1


def test_int8_products_with_a_symbolic_depth() -> None:
    proto = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 21]> g (int8[n, k] a, int8[k, m] b) => (int32[n, m] y)\n'
        "<int8 za = {3}, int8 zb = {-5}> { y = MatMulInteger(a, b, za, zb) }"
    )
    model = svod_onnx.load(proto, sizes={"n": 20, "k": 40, "m": 40})
    rng = np.random.default_rng(1)
    for n, k, m in ((4, 3, 2), (20, 40, 40), (7, 16, 33)):
        a, b = (
            rng.integers(-128, 128, (n, k)).astype(np.int8),
            rng.integers(-128, 128, (k, m)).astype(np.int8),
        )
        result = model(a=a, b=b)["y"].numpy()
        assert result.dtype == np.int32
        np.testing.assert_array_equal(result, (a.astype(np.int32) - 3) @ (b.astype(np.int32) + 5))
    assert len(model.plans()) == 1


def test_errors_state_the_sizes_of_the_call() -> None:
    proto = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 21]> g (float[n] x, float[m] z) => (float[k] y) { y = Add(x, z) }'
    )
    model = svod_onnx.load(proto, sizes={"n": 20, "m": 20})
    assert model(x=np.ones(4, np.float32), z=np.ones(4, np.float32))["y"].tolist() == [2] * 4
    with pytest.raises(NodeError, match="axis -1 has sizes 4 and 5"):
        model(x=np.ones(4, np.float32), z=np.ones(5, np.float32))


def test_constants_of_a_program_belong_to_its_fixed_sizes() -> None:
    model = svod_onnx.load(_parse("y = Shape<start = 1>(x)"), sizes={"n": 12})
    for n, m in ((4, 3), (4, 5), (6, 3), (6, 5), (7, 3)):
        assert model(x=np.ones((n, m), np.float32))["y"].tolist() == [m]


def test_constants_of_a_program_belong_to_the_lengths_of_its_sequences() -> None:
    body = """
        <ir_version: 10, opset_import: ["" : 18]>
        g (float[n] x, seq(float[2]) items) => (float[n] y, int64 count) {
            y = Neg(x) count = SequenceLength(items)
        }
    """
    model = svod_onnx.load(onnx.parser.parse_model(body), sizes={"n": 12})
    for n, count in ((3, 1), (4, 2), (5, 1)):
        result = model(x=np.ones(n, np.float32), items=[np.ones(2, np.float32)] * count)
        assert (result["y"].tolist(), int(result["count"])) == ([-1] * n, count)


def test_strings_beside_symbolic_sizes() -> None:
    body = """
        <ir_version: 10, opset_import: ["" : 20]>
        g (string[n] words, float[n] x) => (string[n] pairs, float[n] y) {
            pairs = StringConcat(words, words) y = Neg(x)
        }
    """
    model = svod_onnx.load(onnx.parser.parse_model(body), sizes={"n": 12})
    for n in (3, 5, 12, 5):
        result = model(words=np.array(["a"] * n, object), x=np.ones(n, np.float32))
        assert (list(result["pairs"]), result["y"].tolist()) == (["aa"] * n, [-1] * n)


def test_elements_of_a_sequence_have_the_sizes_of_the_call() -> None:
    model = svod_onnx.load(
        _parse("a = Neg(x) y = SequenceConstruct(x, a)", "float[n] x", "seq(float[n]) y"),
        sizes={"n": 12},
        device="CPU:1",
    )
    for n in (3, 5, 12):
        x = np.arange(n, dtype=np.float32)
        items = model(x=x)["y"]
        assert [item.shape for item in items] == [(n,), (n,)]
        assert {str(item.device) for item in items} == {"CPU:1"}
        np.testing.assert_array_equal(items[1].numpy(), -x)
    assert len(model.plans()) == 1


def _count_plans(model: svod_onnx.Model, *shapes: tuple[int, ...]) -> list[int]:
    """Number of plans after calls with inputs `x`, and `z` where there are two sizes per call."""
    counts: list[int] = []
    for shape in shapes:
        inputs = {name: np.ones(size, np.float32) for name, size in zip("xz", shape, strict=False)}
        assert model(**inputs)["y"].tolist() == [-1] * shape[0]
        counts.append(len(model.plans()))
    return counts


def test_upper_bounds_leave_room_for_larger_sizes() -> None:
    proto = _parse("y = Neg(x)", "float[n] x", "float[n] y")
    load = svod_onnx.load
    # The bound of the variable is at least 32, and twice the largest of the first sizes.
    assert _count_plans(load(proto), (20,), (21,), (22,), (40,), (64,)) == [1, 2, 3, 3, 3]
    assert _count_plans(load(proto), (90,), (70,), (5,), (100,)) == [1, 2, 3, 3]
    # A larger size has another variable, which serves smaller sizes, too.
    assert _count_plans(load(proto), (3,), (4,), (5,), (50,), (90,), (6,)) == [1, 2, 3, 4, 4, 4]
    # Size 1 has a program of its own, and shows that the size varies.
    assert _count_plans(load(proto), (1,), (8,), (9,), (10,), (1,)) == [1, 2, 3, 3, 3]
    large = (1 << 20) + 1
    assert _count_plans(load(proto), *[(large + i,) for i in range(4)]) == [1, 2, 3, 4]


def test_unnamed_dimensions_vary_independently() -> None:
    proto = _parse(
        "w = ReduceSum<keepdims = 0>(z) y = Neg(x)", "float[n] x, float[m] z", "float[n] y"
    )
    for info in proto.graph.input:
        info.type.tensor_type.shape.dim[0].Clear()
    model = svod_onnx.load(proto)
    shapes = ((3, 9), (4, 8), (5, 7), (6, 6), (7, 5))
    assert _count_plans(model, *shapes) == [1, 2, 3, 3, 3]


def test_an_input_with_a_symbolic_size() -> None:
    model = svod_onnx.load(_parse("y = Neg(x)", "float[n] x", "float[n] y"), sizes={"n": 8})
    n = Variable("n", 1, 8)
    x = Tensor(np.arange(8, dtype=np.float32))
    for size in (3, 5):
        assert model(x=x[: n.bind(size)])["y"].numpy().tolist() == [-i for i in range(size)]


def test_input_arrays_of_types_that_numpy_lacks() -> None:
    bfloat16 = helper.tensor_dtype_to_np_dtype(onnx.TensorProto.BFLOAT16)
    int4 = helper.tensor_dtype_to_np_dtype(onnx.TensorProto.INT4)
    proto = _parse("y = Cast<to = 1>(x)", "bfloat16[n] x", "float[n] y", opset=21)
    for dtype, element_type in (
        (bfloat16, onnx.TensorProto.BFLOAT16),
        (int4, onnx.TensorProto.INT4),
    ):
        proto.graph.input[0].type.tensor_type.elem_type = element_type
        model = svod_onnx.load(proto, sizes={"n": 8})
        for n in (3, 5):
            assert model(x=np.arange(n).astype(dtype))["y"].tolist() == list(range(n))
        assert len(model.plans()) == 1


def test_shapes_that_need_known_sizes_are_tried_once(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[object] = []
    list_dynamic = SymbolicShapes.list_dynamic
    monkeypatch.setattr(
        SymbolicShapes,
        "list_dynamic",
        lambda *args: (tried.append(args[0]), list_dynamic(*args))[1],
    )
    model = svod_onnx.load(_parse("a = NonZero(x) y = Shape(a)"), sizes={"n": 12, "m": 12})
    for n in (2, 3, 4):
        assert model(x=np.ones((n, 5), np.float32))["y"].tolist() == [2, 5 * n]
    assert len(tried) == 1


def test_models_that_small_sizes_would_empty_share_kernels_above_them() -> None:
    # Two poolings of stride 4: fewer than 16 columns leave none.
    body = "p = MaxPool<kernel_shape=[4], strides=[4]>(x) y = MaxPool<kernel_shape=[4], strides=[4]>(p)"
    proto = onnx.parser.parse_model(
        f'<ir_version: 10, opset_import: ["": 21]> g (float[1, 1, n] x) => (float[1, 1, k] y) {{ {body} }}'
    )
    model = svod_onnx.load(proto)
    for n in (40, 64, 48, 80, 33, 50, 17, 90):
        x = np.arange(n, dtype=np.float32).reshape(1, 1, n) % 13
        expected = x[0, 0, : n // 16 * 16].reshape(-1, 16).max(1)
        assert model(x=x)["y"].numpy().reshape(-1).tolist() == expected.tolist()
    # Two sizes, then one set of kernels for 32 and more, and one for 16 and more.
    assert len(model.plans()) == 4


def test_symbolic_sizes_compute_on_the_device_of_the_model() -> None:
    # With a weight, kernels on another device would be rejected, and each size have its own plan.
    model = svod_onnx.load(
        _parse("y = Add(x, pair)", "int64[n, 2] x", "int64[n, 2] y"),
        sizes={"n": 12},
        device="CPU:1",
    )
    for n in (3, 5, 12):
        result = model(x=np.ones((n, 2), np.int64))["y"]
        assert str(result.device) == "CPU:1"
        assert result.tolist() == [[4, 5]] * n
    assert len(model.plans()) == 1
