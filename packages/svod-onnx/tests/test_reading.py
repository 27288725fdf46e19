"""Reading of models: weights stay in the mapped file, and errors name the inconsistency of
a file.
"""

from __future__ import annotations

import mmap
import os
import random
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import TensorProto, helper, numpy_helper

import svod_onnx
from svod_onnx._graph import Node
from svod_onnx._reading import read_model
from svod_onnx.errors import ModelFileError, NodeError
from svod_tensor.errors import UserError


def _make_model(
    *nodes: onnx.NodeProto, weights: Any = (), outputs: Any = ("y",), **more: Any
) -> onnx.ModelProto:
    graph = helper.make_graph(
        list(nodes),
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n"])],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
        list(weights),
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], **more)


def _save_with_external_data(folder: Path, array: np.ndarray, **entries: str) -> Path:
    weight = TensorProto(
        name="w", data_type=TensorProto.FLOAT, dims=array.shape, data_location=TensorProto.EXTERNAL
    )
    for key, value in {"location": "weights.bin", **entries}.items():
        weight.external_data.add(key=key, value=value)
    (folder / "weights.bin").write_bytes(b"\0" * 4096 + array.tobytes())
    path = folder / "model.onnx"
    path.write_bytes(
        _make_model(
            helper.make_node("Add", ["x", "w"], ["y"]), weights=[weight]
        ).SerializeToString()
    )
    return path


def _find_map(array: np.ndarray) -> object:
    base: Any = array
    while isinstance(base, np.ndarray):
        base = base.base
    return base.obj if isinstance(base, memoryview) else base


def test_weights_are_memory_mapped(tmp_path: Path) -> None:
    array = np.arange(5000, dtype=np.float32)
    model = _make_model(
        helper.make_node("Add", ["x", "w"], ["y"]), weights=[numpy_helper.from_array(array, "w")]
    )
    path = tmp_path / "model.onnx"
    onnx.save(model, path)
    weight = read_model(path).graph.constants["w"]
    assert isinstance(weight, np.ndarray)
    assert isinstance(_find_map(weight), mmap.mmap)
    np.testing.assert_array_equal(weight, array)
    np.testing.assert_array_equal(svod_onnx.load(path)(x=array)["y"].numpy(), 2 * array)
    np.testing.assert_array_equal(
        svod_onnx.load(path.read_bytes())(x=array)["y"].numpy(), 2 * array
    )


def test_mapped_weights_use_no_memory(tmp_path: Path) -> None:
    weights = [
        numpy_helper.from_array(np.ones((1000, 1000), np.float32), f"w{i}") for i in range(8)
    ]
    nodes = [
        helper.make_node("Add", ["x" if n == 0 else f"y{n - 1}", f"w{n}"], [f"y{n}"])
        for n in range(8)
    ]
    path = tmp_path / "model.onnx"
    onnx.save(_make_model(*nodes, weights=weights, outputs=["y7"]), path)
    tracemalloc.start()
    model = read_model(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(model.graph.constants) == 8
    assert peak < 1 << 20


@pytest.mark.parametrize(
    "kind", [TensorProto.INT4, TensorProto.UINT4, TensorProto.FLOAT4E2M1, TensorProto.BFLOAT16]
)
def test_packed_weights_are_unpacked(tmp_path: Path, kind: int) -> None:
    values = [0, 1, 2, 3, 0, 1, 6] * 1001
    weight = helper.make_tensor("w", kind, [7, 1001], values)
    whole = TensorProto(name="w", data_type=kind, dims=[7, 1001], raw_data=_pack(weight))
    path = tmp_path / "model.onnx"
    onnx.save(_make_model(helper.make_node("Identity", ["x"], ["y"]), weights=[whole]), path)
    result = read_model(path).graph.constants["w"]
    assert isinstance(result, np.ndarray)
    np.testing.assert_array_equal(result.astype(np.float32).ravel(), np.array(values, np.float32))


def _pack(tensor: TensorProto) -> bytes:
    return numpy_helper.from_array(numpy_helper.to_array(tensor)).raw_data


def test_external_data_is_memory_mapped(tmp_path: Path) -> None:
    array = np.arange(3000, dtype=np.float32)
    path = _save_with_external_data(tmp_path, array, offset="4096", length=str(array.nbytes))
    weight = read_model(path).graph.constants["w"]
    assert isinstance(weight, np.ndarray)
    assert isinstance(_find_map(weight), mmap.mmap)
    np.testing.assert_array_equal(
        svod_onnx.load(path)(x=np.ones(3000, np.float32))["y"].numpy(), array + 1
    )


@pytest.mark.parametrize(
    ("entries", "problem"),
    [
        ({"location": "../weights.bin"}, "outside the model's folder"),
        ({"location": "/etc/hostname"}, "outside the model's folder"),
        ({"location": "link.bin"}, "outside the model's folder"),
        ({"location": ""}, "outside the model's folder"),
        ({"location": "nothing.bin"}, "which does not exist"),
        ({"location": "weights\0.bin"}, "which is not a path"),
        ({"location": "n" * 300}, "which cannot be read"),
        ({"offset": "-8"}, "external data in bytes -8"),
        (
            {"offset": "4096", "length": "99999999999"},
            "external data in bytes 4096 to 100000004095",
        ),
        ({"offset": "4096", "length": "8"}, "needs 12 bytes, got 8"),
        ({"offset": "four"}, "invalid offset or length"),
    ],
)
def test_inconsistent_external_data_is_rejected(
    tmp_path: Path, entries: dict[str, str], problem: str
) -> None:
    (tmp_path / "weights.bin").write_bytes(b"\0" * 64)
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "link.bin").symlink_to(tmp_path / "weights.bin")
    path = _save_with_external_data(folder, np.ones(3, np.float32), **entries)
    with pytest.raises(ModelFileError, match=problem) as caught:
        svod_onnx.load(path)
    assert "'w'" in str(caught.value)


def test_external_data_needs_the_path_of_the_model(tmp_path: Path) -> None:
    path = _save_with_external_data(tmp_path, np.ones(3, np.float32), offset="4096")
    with pytest.raises(ModelFileError, match="load the model by its path"):
        svod_onnx.load(path.read_bytes())


def test_an_external_location_in_invalid_utf8_is_rejected(tmp_path: Path) -> None:
    path = _save_with_external_data(tmp_path, np.ones(3, np.float32), offset="4096")
    path.write_bytes(path.read_bytes().replace(b"weights.bin", b"weights\xff\xffin"))
    with pytest.raises(ModelFileError, match="which is not UTF-8"):
        svod_onnx.load(path)


@pytest.mark.parametrize("missing", [1, 10, 4500, 19990])
def test_a_truncated_file_is_rejected(missing: int) -> None:
    weight = numpy_helper.from_array(np.ones(5000, np.float32), "w")
    message = _make_model(
        helper.make_node("Add", ["x", "w"], ["y"]), weights=[weight]
    ).SerializeToString()
    with pytest.raises(ModelFileError, match="not an ONNX model"):
        svod_onnx.load(message[:-missing])


@pytest.mark.parametrize(
    "message", [b"", b"hello, I am no model", b"\xff" * 100, b"\x08\x08", b"\x0b" * 300]
)
def test_bytes_that_are_not_a_model_are_rejected(message: bytes) -> None:
    with pytest.raises(ModelFileError):
        svod_onnx.load(message)


def test_a_missing_file_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match="cannot read the file"):
        svod_onnx.load(tmp_path / "nothing.onnx")


def _weight(**fields: Any) -> TensorProto:
    return TensorProto(name="w", data_type=fields.pop("data_type", TensorProto.FLOAT), **fields)


@pytest.mark.parametrize(
    ("weight", "problem"),
    [
        (_weight(dims=[1 << 40], raw_data=b"\0" * 8), "needs 4398046511104 bytes, got 8"),
        (_weight(dims=[1 << 62, 1 << 62], raw_data=b"\0" * 8), "got 8"),
        (_weight(dims=[0, 1 << 62, 8], raw_data=b""), "has the invalid shape"),
        (_weight(dims=[1] * 65, raw_data=b"\0" * 4), "has the invalid shape"),
        (_weight(dims=[0, 1 << 62, 8], data_type=TensorProto.INT4, raw_data=b""), "invalid shape"),
        (_weight(dims=[-2], raw_data=b"\0" * 8), "has the invalid shape"),
        (_weight(dims=[3], float_data=[1.0]), "cannot be decoded"),
        (_weight(dims=[2], raw_data=b"\0" * 8, data_type=77), "type 77"),
        (_weight(dims=[1], raw_data=b"abc", data_type=TensorProto.STRING), "STRING"),
        (_weight(dims=[1], data_type=0), "cannot be decoded"),
    ],
)
def test_inconsistent_weights_are_rejected(weight: TensorProto, problem: str) -> None:
    model = _make_model(helper.make_node("Add", ["x", "w"], ["y"]), weights=[weight])
    with pytest.raises(ModelFileError, match=problem) as caught:
        svod_onnx.load(model.SerializeToString())
    assert "'w'" in str(caught.value)


@pytest.mark.parametrize("dims", [[1 << 40], [0, 1 << 62, 8]], ids=str)
def test_a_sparse_tensor_with_a_huge_shape_is_rejected(dims: list[int]) -> None:
    values, indices = (
        numpy_helper.from_array(np.ones(1, np.float32), "w"),
        numpy_helper.from_array(np.array([5]), "i"),
    )
    model = _make_model(helper.make_node("Identity", ["x"], ["y"]))
    model.graph.sparse_initializer.add(values=values, indices=indices, dims=dims)
    with pytest.raises(ModelFileError, match=r"cannot become dense|invalid shape"):
        svod_onnx.load(model)


@pytest.mark.parametrize("indices", [np.array(5), np.array([9]), np.array([0.5])], ids=str)
def test_a_sparse_tensor_with_invalid_indices_is_rejected(indices: np.ndarray) -> None:
    model = _make_model(helper.make_node("Identity", ["x"], ["y"]))
    model.graph.sparse_initializer.add(
        values=numpy_helper.from_array(np.ones(1, np.float32), "w"),
        indices=numpy_helper.from_array(indices, "i"),
        dims=[8],
    )
    with pytest.raises(ModelFileError, match="invalid shape or indices"):
        svod_onnx.load(model)


_NODE = helper.make_node


@pytest.mark.parametrize(
    ("nodes", "problem"),
    [
        ([_NODE("Add", ["x", "nobody"], ["y"], "sum")], "Add in node 'sum' reads 'nobody'"),
        (
            [
                _NODE("Add", ["x", "b"], ["a"], "one"),
                _NODE("Neg", ["a"], ["b"]),
                _NODE("Neg", ["b"], ["y"]),
            ],
            "depends on its own output: the graph has a cycle",
        ),
        ([_NODE("Add", ["x", "y"], ["y"], "self")], "'self' depends on its own output"),
        ([_NODE("Neg", ["x"], ["y"]), _NODE("Abs", ["x"], ["y"], "again")], "'again' defines 'y'"),
        ([_NODE("Neg", ["x"], ["x"], "in")], "'in' defines 'x'"),
        ([_NODE("Neg", ["x"], ["z"])], "output 'y' is undefined"),
    ],
)
def test_inconsistent_graphs_are_rejected(nodes: list[onnx.NodeProto], problem: str) -> None:
    with pytest.raises(ModelFileError, match=problem):
        svod_onnx.load(_make_model(*nodes))


def test_nodes_are_sorted() -> None:
    nodes = [
        _NODE("Neg", ["b"], ["y"]),
        _NODE("Add", ["a", "x"], ["b"]),
        _NODE("Abs", ["x"], ["a"]),
    ]
    model = svod_onnx.load(_make_model(*nodes))
    assert model(x=[1.0, -2.0])["y"].tolist() == [-2.0, 0.0]


def test_sorted_nodes_keep_their_order() -> None:
    nodes = [_NODE("Neg", ["x"], [f"a{i}"]) for i in range(5)] + [_NODE("Sum", ["a4", "a0"], ["y"])]
    result = read_model(_make_model(*nodes)).graph.nodes
    assert [node.outputs for node in result] == [tuple(node.output) for node in nodes]


def _make_function(name: str, *nodes: onnx.NodeProto) -> onnx.FunctionProto:
    domains = [helper.make_opsetid("", 21), helper.make_opsetid("own", 1)]
    return helper.make_function("own", name, ["a"], ["b"], list(nodes), domains)


def test_local_functions_are_inlined() -> None:
    twice = _make_function("Twice", _NODE("Add", ["a", "a"], ["b"]))
    model = _make_model(_NODE("Twice", ["x"], ["y"], domain="own"), functions=[twice])
    model.opset_import.add(domain="own", version=1)
    assert svod_onnx.load(model)(x=[1.0, 2.0])["y"].tolist() == [2.0, 4.0]


def test_recursive_functions_are_rejected() -> None:
    first = _make_function("One", _NODE("Two", ["a"], ["b"], domain="own"))
    second = _make_function("Two", _NODE("One", ["a"], ["b"], domain="own"))
    model = _make_model(_NODE("One", ["x"], ["y"], domain="own"), functions=[first, second])
    with pytest.raises(ModelFileError, match="calls itself"):
        svod_onnx.load(model)


def test_functions_that_inline_to_many_nodes_are_rejected() -> None:
    calls = [
        _make_function(
            f"F{n}",
            _NODE(f"F{n + 1}", ["a"], ["t"], domain="own"),
            _NODE(f"F{n + 1}", ["t"], ["b"], domain="own"),
        )
        for n in range(30)
    ]
    functions = [*calls, _make_function("F30", _NODE("Neg", ["a"], ["b"]))]
    model = _make_model(_NODE("F0", ["x"], ["y"], domain="own"), functions=functions)
    with pytest.raises(ModelFileError, match=r"yields [0-9]+ nodes, over the limit of 1048576"):
        svod_onnx.load(model)


def test_names_in_invalid_utf8_are_rejected() -> None:
    message = _make_model(_NODE("Neg", ["x"], ["y"], name="UNIQUE")).SerializeToString()
    with pytest.raises(ModelFileError, match="not valid UTF-8"):
        svod_onnx.load(message.replace(b"UNIQUE", b"\xff\xfe\xfd\xfc\xfb\xfa"))


def test_a_dimension_name_in_invalid_utf8_is_an_unknown_size() -> None:
    model = _make_model(helper.make_node("Neg", ["x"], ["y"]))
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "name"
    message = model.SerializeToString().replace(b"name", b"na\xffe")
    loaded = svod_onnx.load(message)
    assert loaded.inputs[0].shape == (None,)
    assert loaded(x=[1.0])["y"].tolist() == [-1.0]


def test_an_error_in_constant_folding_names_the_node() -> None:
    nodes = [
        helper.make_node("Constant", [], ["two"], value_ints=[2]),
        helper.make_node("Concat", ["two", "two"], ["size"], "join"),
        helper.make_node("Reshape", ["x", "size"], ["y"]),
    ]
    with pytest.raises(NodeError, match="Concat in node 'join'"):
        svod_onnx.load(_make_model(*nodes))(x=[1.0, 2.0, 3.0, 4.0])


@pytest.mark.parametrize(
    ("node", "problem"),
    [
        (helper.make_node("Neg", ["x"], ["first", "y"]), "declares 2 outputs, but has at most 1"),
        (
            helper.make_node("SwiGLU", ["x", "x"], ["first", "y"]),
            "declares 2 outputs, but has at most 1",
        ),
        (helper.make_node("Min", ["x", ""], ["y"]), "missing operand"),
        (helper.make_node("Range", ["one", "one"], ["y"]), "missing operand"),
        (helper.make_node("Expand", ["x", "nan"], ["y"]), "operand 'nan' must contain integers"),
    ],
    ids=[
        "outputs",
        "outputs of a body",
        "omitted operand",
        "too few operands",
        "sizes that are not integers",
    ],
)
def test_invalid_nodes_are_rejected(node: onnx.NodeProto, problem: str) -> None:
    weights = [
        numpy_helper.from_array(np.float32(value), name)
        for name, value in (("one", 1), ("nan", np.nan))
    ]
    model = _make_model(node, weights=weights)
    model.opset_import[0].version = 28
    with pytest.raises(NodeError, match=problem):
        svod_onnx.load(model)(x=[1.0])


@pytest.mark.parametrize(
    ("operator", "name", "value", "problem"),
    [
        ("Softmax", "axis", "last", "attribute 'axis' must be int, got str"),
        ("Elu", "alpha", [1.0, 2.0], r"attribute 'alpha' must be float, got list\[float\]"),
        ("ReduceSum", "axes", ["x"], r"attribute 'axes' must be list\[int\], got list\[str\]"),
        ("Pad", "mode", 3, "attribute 'mode' must be str, got int"),
    ],
)
def test_attributes_of_another_type_are_rejected(
    operator: str, name: str, value: Any, problem: str
) -> None:
    model = _make_model(helper.make_node(operator, ["x"], ["y"], **{name: value}))
    model.opset_import[0].version = 2
    with pytest.raises(NodeError, match=problem):
        svod_onnx.load(model)(x=[1.0])


@pytest.mark.parametrize(
    ("operator", "operands", "problem"),
    [
        ("CastLike", ["x", "s"], "operand 's' must not be a sequence"),
        ("Pow", ["s", "x"], "operand 's' must not be a sequence"),
        ("Reshape", ["x", "s"], "operand 's' must not be a sequence"),
        ("Range", ["s", "x", "x"], "operand 's' must not be a sequence"),
        ("Neg", ["s"], "operand 's' must not be a sequence"),
    ],
)
def test_sequences_as_operands_of_tensor_operators_are_rejected(
    operator: str, operands: list[str], problem: str
) -> None:
    model = _make_model(_NODE("SequenceConstruct", ["x"], ["s"]), _NODE(operator, operands, ["y"]))
    with pytest.raises(NodeError, match=problem):
        svod_onnx.load(model)(x=[1.0])


def test_a_branch_with_inputs_is_rejected() -> None:
    body = helper.make_graph(
        [_NODE("Neg", ["a"], ["b"])],
        "branch",
        [helper.make_tensor_value_info("a", TensorProto.FLOAT, None)],
        [helper.make_tensor_value_info("b", TensorProto.FLOAT, None)],
    )
    node = helper.make_node("If", ["flag"], ["y"], then_branch=body, else_branch=body)
    model = _make_model(node, weights=[numpy_helper.from_array(np.array(True), "flag")])
    with pytest.raises(NodeError, match="a branch must not have inputs, got 'a'"):
        svod_onnx.load(model)(x=[1.0])


@pytest.mark.parametrize("values", [{}, {"value_float": 1.0, "value_floats": [2.0]}], ids=str)
def test_a_constant_without_one_value_is_rejected(values: dict[str, Any]) -> None:
    model = _make_model(_NODE("Constant", [], ["a"], **values), _NODE("Add", ["x", "a"], ["y"]))
    with pytest.raises(NodeError, match=f"expected one value, got {len(values)}"):
        svod_onnx.load(model)(x=[1.0])


def test_a_negative_size_is_rejected() -> None:
    size = numpy_helper.from_array(np.array([-(1 << 40)]), "size")
    model = _make_model(_NODE("ConstantOfShape", ["size"], ["y"]), weights=[size])
    with pytest.raises(NodeError, match="negative dimensions are not allowed"):
        svod_onnx.load(model)(x=[1.0])


def test_a_loop_condition_of_two_elements_is_rejected() -> None:
    parsed = onnx.parser.parse_model("""
        <ir_version: 10, opset_import: ["" : 21]>
        loops (float[n] x, bool c) => (float[n] y) {
            y = Loop (, c, x) <body = g (int64 i, bool go, float[n] s) => (bool next, float[n] t) {
                next = Greater(s, s)  t = Neg(s) }>
        }
    """)
    with pytest.raises(NodeError, match="Loop in node 'y'"):
        svod_onnx.load(parsed)(x=[1.0, 2.0], c=np.array(True))


def test_a_node_does_not_keep_the_model_alive() -> None:
    result = read_model(_make_model(_NODE("Neg", ["x"], ["y"]))).graph.nodes[0]
    assert isinstance(result, Node)
    assert isinstance(result.message, bytes)


@pytest.mark.parametrize("seed", range(int(os.environ.get("SVOD_ONNX_MUTATIONS", "150"))))
def test_a_mutated_model_runs_or_raises_a_user_error(seed: int) -> None:
    """Mutated bytes load or raise a `UserError`, and allocate no more memory than the
    file's size.
    """
    rng = random.Random(seed)
    message = bytearray(_BASES[seed % len(_BASES)])
    for _ in range(rng.choice([1, 1, 2, 5, 20])):
        offset = rng.randrange(len(message))
        match rng.randrange(4):
            case 0:
                message[offset] = rng.randrange(256)
            case 1:
                message[offset] ^= 1 << rng.randrange(8)
            case 2:
                del message[offset : offset + rng.randrange(1, 9)]
            case _:
                message[offset:offset] = message[offset : offset + rng.randrange(1, 20)]
        if not message:
            return
    try:
        model = svod_onnx.load(bytes(message))
        if (
            all(info.shape is not None and len(info.shape) == 1 for info in model.inputs)
            and len(model.inputs) == 1
        ):
            model(**{model.inputs[0].name: np.ones(6, np.float32)})
    except UserError:
        pass


def _make_bases() -> list[bytes]:
    weight = numpy_helper.from_array(np.ones((6, 6), np.float32), "w")
    shape = numpy_helper.from_array(np.array([2, 3]), "shape")
    function = _make_function("Twice", _NODE("Add", ["a", "a"], ["b"]))
    plain = _make_model(
        _NODE("Mul", ["x", "w"], ["a"]),
        _NODE("Exp", ["a"], ["b"]),
        _NODE("Sum", ["b", "x"], ["y"]),
        weights=[weight],
    )
    shaped = _make_model(
        _NODE("Reshape", ["x", "shape"], ["a"]),
        _NODE("Transpose", ["a"], ["b"], perm=[1, 0]),
        _NODE("Relu", ["b"], ["y"]),
        weights=[shape],
    )
    called = _make_model(_NODE("Twice", ["x"], ["y"], domain="own"), functions=[function])
    called.opset_import.add(domain="own", version=1)
    parsed = onnx.parser.parse_model("""
        <ir_version: 10, opset_import: ["" : 21]>
        branches (float[n] x) => (float[n] y) {
            flag = Constant<value = bool {1}>()
            y = If (flag) <then_branch = g () => (float[n] a) { a = Neg(x) }, else_branch = h () => (float[n] b) { b = Abs(x) }>
        }
    """)
    return [model.SerializeToString() for model in (plain, shaped, called, parsed)]


_BASES = _make_bases()


@pytest.mark.parametrize(
    ("domain", "newest"), [("", onnx.defs.onnx_opset_version()), ("ai.onnx.ml", 5)]
)
def test_an_unknown_opset_is_refused(domain: str, newest: int) -> None:
    model = _make_model(helper.make_node("Neg", ["x"], ["y"]))
    model.opset_import.append(helper.make_opsetid(domain, newest))
    svod_onnx.load(model)
    model.opset_import[-1].version = newest + 1
    with pytest.raises(ModelFileError, match=f"the newest supported opset is {newest}"):
        svod_onnx.load(model)


def test_an_unknown_ir_version_is_refused() -> None:
    model = _make_model(helper.make_node("Neg", ["x"], ["y"]), ir_version=onnx.IR_VERSION)
    svod_onnx.load(model)
    model.ir_version += 1
    problem = f"IR version {model.ir_version} is unknown; the newest supported version is"
    with pytest.raises(ModelFileError, match=problem):
        svod_onnx.load(model)


def test_any_version_of_another_domain_is_accepted() -> None:
    model = _make_model(helper.make_node("Neg", ["x"], ["y"]))
    model.opset_import.append(helper.make_opsetid("com.example", 99))
    svod_onnx.load(model)
