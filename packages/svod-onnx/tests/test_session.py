"""Sessions: each test of common behavior runs on onnxruntime too."""

from __future__ import annotations

import importlib
import pickle
import threading
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest

import svod_onnx
from svod_onnx._plan_cache import get_spec
from svod_onnx.errors import ModelInputError
from svod_tensor import Tensor

HEAD = '<ir_version: 10, opset_import: ["": 21]>'
TEXT = """<ir_version: 10, opset_import: ["": 21], producer_name: "me", domain: "d", model_version: 7, doc_string: "doc">
g (float[n, 3] x, int64[2] i, float[?, 4] z) => (float[n, 3] y, float[2] c, float[?, 4] w)
<float[3] bias = {1, 2, 3}> { y = Add(x, bias) t = Cast<to = 1>(i) c = Relu(t) w = Neg(z) }"""


@pytest.fixture(params=["svod_onnx", "onnxruntime"])
def ort(request: pytest.FixtureRequest) -> Any:
    return pytest.importorskip(request.param)


def _get_error(ort: Any, name: str) -> type[Exception]:
    state = importlib.import_module(f"{ort.__name__}.capi.onnxruntime_pybind11_state")
    return getattr(state, name)


def _serialize(text: str) -> bytes:
    return onnx.parser.parse_model(text).SerializeToString()


def _make_feed() -> dict[str, Any]:
    x, z = np.array([[1, 2, 3], [4, 5, 6]], np.float32), np.ones((1, 4), np.float32)
    return {"x": x, "i": np.array([1, -2]), "z": z}


def _check(value: np.ndarray, expected: np.ndarray) -> None:
    np.testing.assert_array_equal(value, expected, strict=True)


def test_declarations(ort: Any) -> None:
    session = ort.InferenceSession(_serialize(TEXT))
    assert [(arg.name, arg.type, arg.shape) for arg in session.get_inputs()] == [
        ("x", "tensor(float)", ["n", 3]),
        ("i", "tensor(int64)", [2]),
        ("z", "tensor(float)", [None, 4]),
    ]
    assert [(arg.name, arg.shape) for arg in session.get_outputs()] == [
        ("y", ["n", 3]),
        ("c", [2]),
        ("w", [None, 4]),
    ]
    assert session.get_overridable_initializers() == []
    assert str(session.get_inputs()[0]) == "NodeArg(name='x', type='tensor(float)', shape=['n', 3])"


def test_types_of_declarations(ort: Any) -> None:
    session = ort.InferenceSession(
        _serialize(f"""{HEAD} g (float x, float[2] w, string[n] s, seq(float[n]) q,
        optional(float[2]) o, bool b, float[] r)
        => (float y, float[2] v, string[n] t, seq(float[n]) p, bool h) <float[2] w = {{1, 2}}>
        {{ y = Neg(x) v = Neg(w) t = Identity(s) p = Identity(q) h = OptionalHasElement(o) }}""")
    )
    inputs = [(arg.name, arg.type, arg.shape) for arg in session.get_inputs()]
    assert inputs == [
        ("x", "tensor(float)", []),
        ("s", "tensor(string)", ["n"]),
        ("q", "seq(tensor(float))", []),
        ("o", "optional(tensor(float))", [2]),
        ("b", "tensor(bool)", []),
        ("r", "tensor(float)", []),
    ]
    (w,) = session.get_overridable_initializers()
    assert (w.name, w.type, w.shape) == ("w", "tensor(float)", [2])
    feed: dict[str, Any] = {
        "x": np.array(2, np.float32),
        "s": np.array(["a", "b"]),
        "q": [np.ones(2, np.float32)],
        "b": np.array(True),
        "r": np.ones(2, np.float32),
    }
    y, v, t, p, h = session.run(None, {**feed, "o": None})
    _check(y, np.array(-2, np.float32))
    _check(v, np.array([-1, -2], np.float32))
    _check(t, np.array(["a", "b"], object))
    assert isinstance(p, list)
    _check(p[0], np.ones(2, np.float32))
    _check(h, np.array(False))
    (v,) = session.run(["v"], {**feed, "w": np.array([5, 6], np.float32)})
    _check(v, np.array([-5, -6], np.float32))


def test_metadata(ort: Any) -> None:
    model = onnx.parser.parse_model(TEXT)
    model.graph.doc_string = "graph doc"
    onnx.helper.set_model_props(model, {"author": "somebody"})
    meta = ort.InferenceSession(model.SerializeToString()).get_modelmeta()
    assert (meta.producer_name, meta.graph_name, meta.domain, meta.version) == ("me", "g", "d", 7)
    assert (meta.description, meta.graph_description) == ("doc", "graph doc")
    assert meta.custom_metadata_map == {"author": "somebody"}


def test_outputs_in_the_order_of_the_names(ort: Any) -> None:
    session = ort.InferenceSession(_serialize(TEXT))
    feed = _make_feed()
    y, c, w = feed["x"] + np.float32([1, 2, 3]), np.array([1, 0], np.float32), -feed["z"]
    for _ in range(3):
        for names in (None, [], ["y", "c", "w"]):
            results = session.run(names, feed)
            assert type(results) is list
            for value, expected in zip(results, (y, c, w), strict=True):
                _check(value, expected)
        for value, expected in zip(session.run(["c", "y"], feed), (c, y), strict=True):
            _check(value, expected)
        first, second = session.run(("c", "c"), feed)
        _check(first, c)
        _check(second, c)
    options = ort.RunOptions()
    options.only_execute_path_to_fetches = True
    (value,) = session.run(["w"], feed, options)
    _check(value, w)


def test_a_path_as_text_and_as_an_object(ort: Any, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(_serialize(TEXT))
    for source in (path, str(path)):
        _check(
            ort.InferenceSession(source).run(["w"], _make_feed())[0], -np.ones((1, 4), np.float32)
        )


@pytest.mark.parametrize("n", [4, 100_000])
def test_results_belong_to_the_caller(ort: Any, n: int) -> None:
    text = f"""{HEAD} g (float[n] x) => (float[n] same, float[n] y, float[n] again, float[4] w, float[2, 2] t)
    <float[4] c = {{1, 2, 3, 4}}, float[2, 2] m = {{1, 2, 3, 4}}>
    {{ same = Identity(x) y = Relu(x) again = Identity(y) w = Identity(c) t = Transpose(m) }}"""
    session = ort.InferenceSession(_serialize(text))
    x = np.arange(n, dtype=np.float32)
    constant = np.array([1, 2, 3, 4], np.float32)
    for _ in range(4):
        results = session.run(None, {"x": x})
        for value, expected in zip(
            results, (x, x, x, constant, constant.reshape(2, 2).T), strict=True
        ):
            _check(value, expected)
            assert value.flags.writeable
            assert value.flags.c_contiguous
        for value in results:
            before = [other.copy() for other in results if other is not value]
            value.fill(-9)
            others = [other for other in results if other is not value]
            for other, expected in zip(others, before, strict=True):
                if ort is svod_onnx:
                    _check(other, expected)
        assert x.tolist() == list(range(n))


def test_a_result_outlives_the_session_and_later_calls() -> None:
    session = svod_onnx.InferenceSession(
        _serialize(f"{HEAD} g (float[n] x) => (float[n] y) {{ y = Neg(x) }}")
    )
    results = [session.run(None, {"x": np.full(50_000, i, np.float32)})[0] for i in range(5)]
    del session
    assert [result[-1] for result in results] == [0, -1, -2, -3, -4]


def test_lists_and_other_layouts_are_inputs(ort: Any) -> None:
    session = ort.InferenceSession(_serialize(TEXT))
    feed = _make_feed()
    _check(session.run(["c"], {**feed, "i": [1, 2]})[0], np.array([1, 2], np.float32))
    ones = np.ones((3, 2), np.float32).T
    _check(session.run(["y"], {**feed, "x": ones})[0], np.float32([[2, 3, 4]] * 2))
    value = ort.OrtValue.ortvalue_from_numpy(np.zeros((2, 3), np.float32))
    _check(session.run(["y"], {**feed, "x": value})[0], np.float32([[1, 2, 3]] * 2))


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"u": np.ones(2, np.float32)}, ["Invalid input name: u"]),
        (
            {"x": np.ones((2, 3))},
            ["Unexpected input data type", "Actual: (tensor(double)) , expected: (tensor(float))"],
        ),
        ({"i": np.ones(2, np.int32)}, ["Actual: (tensor(int32)) , expected: (tensor(int64))"]),
        ({"x": np.ones(3, np.float32)}, ["Invalid rank for input: x Got: 1 Expected: 2"]),
        (
            {"x": np.ones((2, 4), np.float32)},
            ["Got invalid dimensions for input: x", "index: 1 Got: 4 Expected: 3"],
        ),
    ],
)
def test_wrong_inputs(ort: Any, changes: dict[str, np.ndarray], expected: list[str]) -> None:
    session = ort.InferenceSession(_serialize(TEXT))
    feed = _make_feed()
    session.run(None, feed)
    with pytest.raises(_get_error(ort, "InvalidArgument")) as caught:
        session.run(None, {**feed, **changes})
    for text in expected:
        assert text in str(caught.value)
    # The session is usable afterwards.
    assert len(session.run(None, feed)) == 3


def test_the_error_of_a_dtype_names_the_input() -> None:
    session = svod_onnx.InferenceSession(_serialize(TEXT))
    with pytest.raises(ValueError, match="Unexpected input data type for input: x"):
        session.run(None, {**_make_feed(), "x": np.ones((2, 3))})


def test_missing_inputs_and_unknown_outputs(ort: Any) -> None:
    session = ort.InferenceSession(_serialize(TEXT))
    feed = _make_feed()
    with pytest.raises(
        ValueError, match=r"Required inputs \(\['i', 'z'\]\) are missing from input"
    ):
        session.run(None, {"x": feed["x"]})
    with pytest.raises(_get_error(ort, "InvalidArgument"), match=r"Invalid output name: ?nope"):
        session.run(["nope"], feed)
    with pytest.raises(TypeError):
        session.run("y", feed)
    with pytest.raises(TypeError):
        session.run(None, feed, 3)
    with pytest.raises(AttributeError):
        session.run(None, [feed["x"]])


def test_none_for_a_required_input_is_an_error() -> None:
    session = svod_onnx.InferenceSession(_serialize(TEXT))
    with pytest.raises(ValueError, match="missing input 'x'"):
        session.run(None, {**_make_feed(), "x": None})
    with pytest.raises(ModelInputError, match="missing input 'x'"):
        session.model(**{**_make_feed(), "x": None})


def test_a_node_that_fails(ort: Any) -> None:
    text = f"{HEAD} g (float[n] x, float[k] z) => (float[m] y) {{ y = Add(x, z) }}"
    session = ort.InferenceSession(_serialize(text))
    with pytest.raises(_get_error(ort, "Fail"), match="Add"):
        session.run(None, {"x": np.ones(2, np.float32), "z": np.ones(3, np.float32)})


def test_sources_that_are_no_models(ort: Any, tmp_path: Path) -> None:
    with pytest.raises(_get_error(ort, "NoSuchFile"), match=r"missing\.onnx"):
        ort.InferenceSession(str(tmp_path / "missing.onnx"))
    with pytest.raises(_get_error(ort, "InvalidProtobuf")):
        ort.InferenceSession(b"abc\xff")
    with pytest.raises(TypeError, match="Unable to load from type '<class 'int'>'"):
        ort.InferenceSession(3)
    with pytest.raises(TypeError):
        ort.InferenceSession(_serialize(TEXT), 3)


def test_an_inconsistent_model_and_unsupported_operators() -> None:
    with pytest.raises(_get_error(svod_onnx, "InvalidGraph"), match="'nope', which is undefined"):
        svod_onnx.InferenceSession(
            _serialize(f"{HEAD} g (float[n] x) => (float[n] y) {{ y = Neg(nope) }}")
        )
    text = TEXT.replace('"": 21', '"": 21, "mine": 1').replace("Neg(z)", "mine.Frobnicate(z)")
    with pytest.raises(NotImplementedError, match=r"unsupported operators: mine\.Frobnicate"):
        svod_onnx.InferenceSession(_serialize(text))


def test_providers(ort: Any) -> None:
    model = _serialize(TEXT)
    session = ort.InferenceSession(model, providers=["CPUExecutionProvider"])
    assert session.get_providers() == ["CPUExecutionProvider"]
    assert session.get_provider_options() == {"CPUExecutionProvider": {}}
    assert "CPUExecutionProvider" in ort.get_available_providers()
    with pytest.warns(UserWarning, match="'CUDAExecutionProvider' is not in available provider"):
        session = ort.InferenceSession(
            model, providers=[("CUDAExecutionProvider", {"device_id": 1}), "CPUExecutionProvider"]
        )
    assert session.get_providers() == ["CPUExecutionProvider"]
    with pytest.warns(UserWarning, match="Duplicate provider 'CPUExecutionProvider' encountered"):
        ort.InferenceSession(model, providers=["CPUExecutionProvider"] * 2)
    session.set_providers(["CPUExecutionProvider"])
    assert len(session.run(None, _make_feed())) == 3


@pytest.mark.parametrize(
    ("providers", "options", "message"),
    [
        (3, None, "'providers' should be a sequence."),
        ([3], None, "'providers' values must be either strings or"),
        (["CPUExecutionProvider"], [], "should be the same length if both are given"),
        (["CPUExecutionProvider"], 3, "'provider_options' should be a sequence."),
        (["CPUExecutionProvider"], [3], "'provider_options' values must be dicts."),
        ([("CPUExecutionProvider", {})], [{}], "Only string values for 'providers'"),
    ],
)
def test_providers_of_another_form(providers: Any, options: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        svod_onnx.InferenceSession(_serialize(TEXT), None, providers, options)


def test_a_provider_is_a_device() -> None:
    session = svod_onnx.InferenceSession(_serialize(TEXT), providers=["CPUExecutionProvider"])
    results = session.model(**_make_feed())
    assert {value.device for value in results.values() if isinstance(value, Tensor)} == {"CPU"}
    options = svod_onnx.SessionOptions()
    assert not options.has_providers()
    options.add_provider("CPUExecutionProvider", {})
    assert options.has_providers()
    assert svod_onnx.InferenceSession(_serialize(TEXT), options).get_providers() == [
        "CPUExecutionProvider"
    ]


def test_the_provider_of_the_default_device_keeps_the_fast_path() -> None:
    session = svod_onnx.InferenceSession(_serialize(TEXT), providers=["CPUExecutionProvider"])
    feed = _make_feed()
    for _ in range(2):
        session.run(None, feed)
    cache = session.model._plan_cache
    assert cache.find(get_spec(feed), feed) is not None


def test_options_of_a_session(ort: Any) -> None:
    options = ort.SessionOptions()
    defaults = {
        "intra_op_num_threads": 0,
        "inter_op_num_threads": 0,
        "execution_mode": ort.ExecutionMode.ORT_SEQUENTIAL,
        "execution_order": ort.ExecutionOrder.DEFAULT,
        "graph_optimization_level": ort.GraphOptimizationLevel.ORT_ENABLE_ALL,
        "optimized_model_filepath": "",
        "enable_profiling": False,
        "profile_file_prefix": "onnxruntime_profile_",
        "enable_cpu_mem_arena": True,
        "enable_mem_pattern": True,
        "enable_mem_reuse": True,
        "log_severity_level": -1,
        "log_verbosity_level": 0,
        "logid": "",
        "use_deterministic_compute": False,
        "use_per_session_threads": True,
    }
    assert {name: getattr(options, name) for name in defaults} == defaults
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 2
    options.execution_mode = ort.ExecutionMode.ORT_PARALLEL
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.log_severity_level = 3
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    assert options.get_session_config_entry("session.intra_op.allow_spinning") == "0"
    with pytest.raises(RuntimeError, match="does not have configuration with key: a"):
        options.get_session_config_entry("a")
    with pytest.raises(AttributeError):
        options.threads = 1
    for name in ("intra_op_num_threads", "graph_optimization_level", "enable_profiling"):
        with pytest.raises(TypeError):
            setattr(options, name, "a")
    with pytest.raises(TypeError):
        options.graph_optimization_level = 3
    session = ort.InferenceSession(_serialize(TEXT), sess_options=options)
    assert session.get_session_options().intra_op_num_threads == 1
    assert len(session.run(None, _make_feed())) == 3


def test_threads_of_a_session() -> None:
    options = svod_onnx.SessionOptions()
    options.intra_op_num_threads = 1
    text = f"{HEAD} g (float[512, 512] x) => (float[512, 512] y) {{ y = MatMul(x, x) }}"
    session = svod_onnx.InferenceSession(_serialize(text), options)
    x = np.eye(512, dtype=np.float32)
    _check(session.run(None, {"x": x})[0], x)
    (plan,) = session.model.plans()
    assert max(kernel.global_size[0] for kernel in plan.kernels()) == 1


def test_fixed_sizes(ort: Any) -> None:
    options = ort.SessionOptions()
    options.add_free_dimension_override_by_name("n", 2)
    options.add_free_dimension_override_by_name("unknown", 3)
    session = ort.InferenceSession(_serialize(TEXT), options)
    assert session.get_inputs()[0].shape == session.get_outputs()[0].shape == [2, 3]
    feed = _make_feed()
    assert session.run(["y"], feed)[0].shape == (2, 3)
    with pytest.raises(_get_error(ort, "InvalidArgument"), match="index: 0 Got: 3 Expected: 2"):
        session.run(["y"], {**feed, "x": np.ones((3, 3), np.float32)})


def test_replaced_initializers(ort: Any) -> None:
    options = ort.SessionOptions()
    bias = ort.OrtValue.ortvalue_from_numpy(np.array([7, 8, 9], np.float32))
    options.add_initializer("bias", bias)
    session = ort.InferenceSession(_serialize(TEXT), options)
    feed = {**_make_feed(), "x": np.zeros((1, 3), np.float32)}
    _check(session.run(["y"], feed)[0], np.array([[7, 8, 9]], np.float32))


def test_initializers_that_cannot_be_replaced() -> None:
    value = svod_onnx.OrtValue.ortvalue_from_numpy(np.zeros(2, np.float32))
    for name, message in (("nope", "no initializer 'nope'"), ("bias", r"expected float32\(3,\)")):
        options = svod_onnx.SessionOptions()
        options.add_external_initializers([name], [value])
        with pytest.raises(ValueError, match=message):
            svod_onnx.InferenceSession(_serialize(TEXT), options)


def test_a_library_of_operators_is_an_error(ort: Any) -> None:
    with pytest.raises(Exception, match=r"operators\.so") as caught:
        ort.SessionOptions().register_custom_ops_library("operators.so")
    if ort is svod_onnx:
        assert "svod_onnx.operator" in str(caught.value)
        with pytest.raises(NotImplementedError, match="override_by_name"):
            ort.SessionOptions().add_free_dimension_override_by_denotation("BATCH", 1)


def test_options_of_a_call(ort: Any) -> None:
    session = ort.InferenceSession(_serialize(TEXT))
    options = ort.RunOptions()
    options.add_run_config_entry("a", "b")
    assert options.get_run_config_entry("a") == "b"
    with pytest.raises(RuntimeError, match="does not have configuration with key: c"):
        options.get_run_config_entry("c")
    assert len(session.run(None, _make_feed(), options)) == 3
    options.terminate = True
    with pytest.raises(_get_error(ort, "Fail"), match="terminate flag being set to true"):
        session.run(None, _make_feed(), run_options=options)


def test_values(ort: Any) -> None:
    x = np.ones((2, 3), np.float32)
    value = ort.OrtValue.ortvalue_from_numpy(x)
    assert (value.shape(), value.data_type(), value.element_type()) == ([2, 3], "tensor(float)", 1)
    assert (value.device_name(), value.tensor_size_in_bytes()) == ("cpu", 24)
    assert value.data_ptr() == x.ctypes.data
    assert value.is_tensor()
    assert value.has_value()
    assert not value.is_tensor_sequence()
    assert not value.is_sparse_tensor()
    value.update_inplace(np.zeros((2, 3), np.float32))
    assert not x.any()
    assert np.shares_memory(value.numpy(), x)
    assert np.asarray(value).dtype == np.float32
    with pytest.raises(RuntimeError):
        value.update_inplace(np.zeros((2, 2), np.float32))
    for element_type, name in ((np.int64, "int64"), (16, "bfloat16"), (np.float64, "double")):
        empty = ort.OrtValue.ortvalue_from_shape_and_type([2, 3], element_type)
        assert (empty.shape(), empty.data_type()) == ([2, 3], f"tensor({name})")
    half = ort.OrtValue.ortvalue_from_numpy_with_onnx_type(np.ones(2, np.uint16), 10)
    assert half.data_type() == "tensor(float16)"
    with pytest.raises(RuntimeError):
        ort.OrtValue.ortvalue_from_numpy(x, "cuda", 0)
    with pytest.raises(Exception, match="Unsupported device type: abacus"):
        ort.OrtValue.ortvalue_from_numpy(x, "abacus", 0)


def test_values_of_other_libraries() -> None:
    x = np.ones((2, 3), np.float32)
    value = svod_onnx.OrtValue.from_dlpack(x)
    assert np.shares_memory(value.numpy(), x)
    assert np.shares_memory(np.from_dlpack(value), x)


def test_calls_on_values(ort: Any) -> None:
    session = ort.InferenceSession(_serialize(TEXT))
    feed = {name: ort.OrtValue.ortvalue_from_numpy(x) for name, x in _make_feed().items()}
    (c,) = session.run_with_ort_values(["c"], feed)
    assert isinstance(c, ort.OrtValue)
    _check(c.numpy(), np.array([1, 0], np.float32))


def test_binding(ort: Any) -> None:
    session = ort.InferenceSession(_serialize(TEXT))
    feed = _make_feed()
    x, expected = feed["x"], feed["x"] + np.float32([1, 2, 3])
    binding = session.io_binding()
    assert isinstance(binding, ort.IOBinding)
    binding.bind_input("x", "cpu", 0, np.float32, x.shape, x.ctypes.data)
    binding.bind_cpu_input("i", feed["i"])
    binding.bind_ortvalue_input("z", ort.OrtValue.ortvalue_from_numpy(feed["z"]))
    binding.bind_output("w")
    binding.bind_output("y")
    binding.synchronize_inputs()
    session.run_with_iobinding(binding)
    binding.synchronize_outputs()
    w, y = binding.copy_outputs_to_cpu()
    _check(w, -feed["z"])
    _check(y, expected)
    assert [value.shape() for value in binding.get_outputs()] == [[1, 4], [2, 3]]
    # Inputs are read at each call, in the memory of the caller.
    x += 1
    memory = np.zeros((2, 3), np.float32)
    value = ort.OrtValue.ortvalue_from_numpy(np.zeros((1, 4), np.float32))
    binding.bind_output("y", "cpu", 0, 1, memory.shape, memory.ctypes.data)
    binding.bind_ortvalue_output("w", value)
    session.run_with_iobinding(binding, ort.RunOptions())
    _check(memory, expected + 1)
    _check(value.numpy(), -feed["z"])
    binding.clear_binding_outputs()
    with pytest.raises(RuntimeError, match="At least one output should be requested"):
        session.run_with_iobinding(binding)
    binding.bind_output("y")
    binding.clear_binding_inputs()
    with pytest.raises(RuntimeError):
        session.run_with_iobinding(binding)


def test_bindings_that_do_not_fit(ort: Any) -> None:
    session = ort.InferenceSession(_serialize(TEXT))
    binding = session.io_binding()
    for name, array in _make_feed().items():
        binding.bind_cpu_input(name, array)
    with pytest.raises(RuntimeError, match="Failed to find NodeArg with name: nope"):
        binding.bind_cpu_input("nope", np.ones(2, np.float32))
    with pytest.raises(RuntimeError):
        binding.bind_input("x", "cuda", 0, np.float32, (2, 3), 0)
    memory = np.zeros((3, 3), np.float32)
    with pytest.raises(ValueError, match="`element_type` and `shape` are to be provided"):
        binding.bind_output("y", buffer_ptr=memory.ctypes.data)
    binding.bind_output("y", "cpu", 0, np.float32, memory.shape, memory.ctypes.data)
    with pytest.raises(RuntimeError):
        session.run_with_iobinding(binding)
    binding.bind_output("y")
    binding.bind_cpu_input("x", np.ones(3, np.float32))
    with pytest.raises(RuntimeError, match="Error in execution: Invalid rank for input: x Got: 1"):
        session.run_with_iobinding(binding)
    with pytest.raises(ValueError, match="must be used with the session that created it"):
        ort.InferenceSession(_serialize(TEXT)).run_with_iobinding(binding)


def test_a_state_is_bound_to_the_memory_that_it_is_read_from() -> None:
    text = f"{HEAD} g (float[2] s, float[2] x) => (float[2] t) {{ t = Add(s, x) }}"
    session = svod_onnx.InferenceSession(_serialize(text))
    state = svod_onnx.OrtValue.ortvalue_from_numpy(np.zeros(2, np.float32))
    binding = session.io_binding()
    binding.bind_ortvalue_input("s", state)
    binding.bind_cpu_input("x", np.array([1, 2], np.float32))
    binding.bind_ortvalue_output("t", state)
    for _ in range(5):
        session.run_with_iobinding(binding)
    _check(state.numpy(), np.array([5, 10], np.float32))


def test_asynchronous_calls(ort: Any) -> None:
    session = ort.InferenceSession(_serialize(TEXT))
    feed = _make_feed()
    calls: list[tuple[Any, Any, str]] = []
    done = threading.Event()

    def callback(results: Any, user_data: Any, error: str) -> None:
        calls.append((results, user_data, error))
        done.set()

    session.run_async(["c"], feed, callback, "data")
    assert done.wait(60)
    ((results, data, error),) = calls
    assert (data, error) == ("data", "")
    _check(results[0], np.array([1, 0], np.float32))
    for names, changes, message in (
        (None, {"x": np.ones(3, np.float32)}, "Invalid rank for input: x"),
        (["nope"], {}, "Invalid output name: nope"),
    ):
        done.clear()
        session.run_async(names, {**feed, **changes}, callback, None)
        assert done.wait(60)
        assert calls[-1][:2] == ([], None)
        assert message in calls[-1][2]
    with pytest.raises(ValueError, match="Required inputs"):
        session.run_async(None, {}, callback, None)


def test_threads_share_a_session() -> None:
    session = svod_onnx.InferenceSession(_serialize(TEXT))
    feed = _make_feed()
    failures: list[float] = []

    def run(i: int) -> None:
        for k in range(50):
            (y,) = session.run(["y"], {**feed, "x": np.full((2, 3), i + k, np.float32)})
            if y[0].tolist() != [i + k + 1, i + k + 2, i + k + 3]:
                failures.append(i)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_profiles(ort: Any, tmp_path: Path) -> None:
    session = ort.InferenceSession(_serialize(TEXT))
    assert session.end_profiling() == ""
    options = ort.SessionOptions()
    options.enable_profiling = True
    options.profile_file_prefix = str(tmp_path / "profile")
    session = ort.InferenceSession(_serialize(TEXT), options)
    session.run(None, _make_feed())
    path = Path(session.end_profiling())
    assert path.parent == tmp_path
    assert path.read_text().lstrip()[0] in "[{"
    assert session.get_profiling_start_time_ns() > 0


def test_seeds_and_logs(ort: Any) -> None:
    text = f"{HEAD} g () => (float[4] y) {{ y = RandomNormal<shape = [4]>() }}"
    results: list[list[float]] = []
    for _ in range(2):
        ort.set_seed(3)
        results.append(ort.InferenceSession(_serialize(text)).run(None, {})[0].tolist())
    assert results[0] == results[1]
    ort.set_default_logger_verbosity(0)
    with pytest.raises(RuntimeError, match="Invalid logging severity"):
        ort.set_default_logger_severity(9)
    assert ort.get_device() == "CPU"


def test_the_level_of_the_logger() -> None:
    import logging

    logger = logging.getLogger("svod")
    level = logger.level
    try:
        svod_onnx.set_default_logger_severity(3)
        assert logger.level == logging.ERROR
    finally:
        logger.setLevel(level)


def test_a_session_is_pickled() -> None:
    options = svod_onnx.SessionOptions()
    options.intra_op_num_threads = 1
    options.add_free_dimension_override_by_name("n", 2)
    session = svod_onnx.InferenceSession(
        _serialize(TEXT), options, providers=["CPUExecutionProvider"]
    )
    copy = pickle.loads(pickle.dumps(session))
    assert copy.get_inputs()[0].shape == [2, 3]
    assert copy.get_session_options().intra_op_num_threads == 1
    for value, expected in zip(
        copy.run(None, _make_feed()), session.run(None, _make_feed()), strict=True
    ):
        _check(value, expected)


def test_the_pickle_of_a_relative_path_is_loaded_in_another_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "model.onnx").write_bytes(_serialize(TEXT))
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path)
    data = pickle.dumps(svod_onnx.InferenceSession("model.onnx"))
    monkeypatch.chdir(tmp_path / "other")
    assert len(pickle.loads(data).run(None, _make_feed())) == 3


@pytest.mark.parametrize("element_type", ["bfloat16", "int4", "float8e4m3fn"])
def test_narrow_types(element_type: str) -> None:
    text = f"{HEAD} g ({element_type}[2] x) => ({element_type}[2] y) {{ y = Identity(x) }}"
    session = svod_onnx.InferenceSession(_serialize(text))
    assert session.get_inputs()[0].type == f"tensor({element_type})"
    number = getattr(onnx.TensorProto, element_type.upper())
    x = np.array([1, 2]).astype(onnx.helper.tensor_dtype_to_np_dtype(number))
    (y,) = session.run(None, {"x": x})
    assert y.dtype == x.dtype
    assert y.tolist() == [1, 2]
    assert y.flags.writeable
    y[0] = 3
    assert x.tolist() == [1, 2]


@pytest.mark.parametrize("labels", [["a", "b", "c"], [5, 7, 9]])
@pytest.mark.parametrize("has_scores", [False, True])
def test_maps(ort: Any, labels: list[Any], has_scores: bool) -> None:
    helper = onnx.helper
    is_text = isinstance(labels[0], str)
    attribute = "classlabels_strings" if is_text else "classlabels_int64s"
    nodes = [
        helper.make_node("Softmax", ["x"], ["scores"]),
        helper.make_node(
            "ZipMap", ["scores"], ["maps"], domain="ai.onnx.ml", **{attribute: labels}
        ),
    ]
    key = onnx.TensorProto.STRING if is_text else onnx.TensorProto.INT64
    value = helper.make_tensor_type_proto(onnx.TensorProto.FLOAT, [])
    kind = helper.make_sequence_type_proto(helper.make_map_type_proto(key, value))
    outputs = [helper.make_value_info("maps", kind)]
    if has_scores:
        outputs.append(helper.make_tensor_value_info("scores", onnx.TensorProto.FLOAT, ["n", 3]))
    inputs = [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["n", 3])]
    model = helper.make_model(
        helper.make_graph(nodes, "g", inputs, outputs),
        opset_imports=[helper.make_opsetid("", 21), helper.make_opsetid("ai.onnx.ml", 3)],
        ir_version=10,
    )
    session = ort.InferenceSession(model.SerializeToString())
    arg = session.get_outputs()[0]
    name = "string" if is_text else "int64"
    assert (arg.name, arg.type, arg.shape) == ("maps", f"seq(map({name},tensor(float)))", [])
    x = np.log(np.array([[0.5, 0.25, 0.25], [0.125, 0.125, 0.75]], np.float32))
    options = ort.RunOptions()
    options.only_execute_path_to_fetches = True
    for settings in (None, options):
        (maps,) = session.run(["maps"], {"x": x}, settings)
        assert type(maps) is list
        assert [list(row) for row in maps] == [labels, labels]
        assert all(type(score) is float for row in maps for score in row.values())
        np.testing.assert_allclose([list(row.values()) for row in maps], np.exp(x), rtol=1e-5)
    results = session.run(None, {"x": x})
    assert len(results) == 1 + has_scores
    if has_scores:
        np.testing.assert_allclose(results[1], np.exp(x), rtol=1e-5, strict=True)
        np.testing.assert_allclose(session.run(["scores"], {"x": x})[0], np.exp(x), rtol=1e-5)
    with pytest.raises(_get_error(ort, "InvalidArgument"), match="nope"):
        session.run(["nope"], {"x": x})
