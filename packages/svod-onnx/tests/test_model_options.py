"""Options of `load`: outputs, threads, number of plans; warming, pickling and the text of models."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest

import svod_onnx
from svod_device import get_device
from svod_onnx.errors import ModelInputError, ModelOptionError, ModelOutputError
from svod_tensor import caches

HEAD = '<ir_version: 10, opset_import: ["": 21]>'
TWO = f"{HEAD} two (float[n, 3] x) => (float[n, 3] y, float[n, 3] z) {{ y = Neg(x) a = Exp(x) z = Abs(a) }}"


def _parse(text: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(text)


def test_the_text_of_a_model() -> None:
    model = svod_onnx.load(_parse(TWO))
    text = "Model('two', inputs: x: float32(n, 3), outputs: y: float32(n, 3); z: float32(n, 3))"
    assert repr(model) == text


def test_outputs_are_chosen_by_name_and_in_order() -> None:
    x = np.array([[1, -2, 0.5]], np.float32)
    both = svod_onnx.load(_parse(TWO), outputs=["z", "y"])
    assert list(both(x=x)) == [info.name for info in both.outputs] == ["z", "y"]
    one = svod_onnx.load(_parse(TWO), outputs=["y"])
    results = one(x=x)
    assert {name: value.tolist() for name, value in results.items()} == {"y": (-x).tolist()}
    # Exp and Abs are not computed.
    assert sum(plan.num_kernels for plan in one.plans()) == 1
    with pytest.raises(ModelOutputError, match=r"two: no output 'w'\n.*outputs: y, z"):
        svod_onnx.load(_parse(TWO), outputs=["w"])


def test_outputs_that_are_not_chosen_need_no_values() -> None:
    text = f"{HEAD} g (float[n] x) => (float[n] y, int64[k] c) {{ y = Neg(x) c = NonZero(x) }}"
    model = svod_onnx.load(_parse(text), outputs=["y"])
    for n in (2, 3, 4):
        assert model(x=np.ones(n, np.float32))["y"].tolist() == [-1.0] * n
    # Two sizes, and one plan for all others.
    assert len(model.plans()) == 3


def test_chosen_outputs_of_subgraphs_keep_what_the_subgraphs_read() -> None:
    text = f"""{HEAD} g (float[2] x, bool c) => (float[2] y, float[2] z) {{
        a = Exp(x)
        b = Neg(a)
        y = If (c) <then_branch = t () => (float[2] r) {{ r = Identity(b) }},
                    else_branch = e () => (float[2] r) {{ r = Identity(x) }}>
        z = Abs(x)
    }}"""
    model = svod_onnx.load(_parse(text), outputs=["y"])
    x = np.array([0, 1], np.float32)
    for c, expected in ((True, -np.exp(x)), (False, x)):
        np.testing.assert_allclose(model(x=x, c=np.array(c))["y"].numpy(), expected, rtol=1e-6)


def test_threads_of_a_model() -> None:
    if get_device("CPU").target.cores < 2:
        pytest.skip("the machine has one core")
    text = f"{HEAD} g (float[512, 512] x) => (float[512, 512] y) {{ y = MatMul(x, x) }}"
    x = np.eye(512, dtype=np.float32)
    counts: list[int] = []
    for threads in (1, None):
        model = svod_onnx.load(_parse(text), threads=threads)
        assert model(x=x)["y"].tolist() == x.tolist()
        (plan,) = model.plans()
        counts.append(max(kernel.global_size[0] for kernel in plan.kernels()))
    assert counts[0] == 1 < counts[1]


def test_the_number_of_plans_is_bounded() -> None:
    # Each number of repeats is a plan of its own.
    text = f"{HEAD} g (float[2] x, int64[1] k) => (float[m] y) {{ y = Tile(x, k) }}"
    model = svod_onnx.load(_parse(text), max_plans=3)
    x = np.array([1, 2], np.float32)
    for k in (1, 2, 3, 4, 5, 1, 2, 5, 4):
        assert model(x=x, k=np.array([k]))["y"].tolist() == [1.0, 2.0] * k
        assert len(model.plans()) <= 3


@pytest.mark.parametrize("name", ["threads", "max_plans"])
def test_numbers_are_at_least_one(name: str) -> None:
    with pytest.raises(ModelOptionError, match=f"{name} must be at least 1, got 0"):
        svod_onnx.load(_parse(TWO), **{name: 0})  # type: ignore[arg-type]


def test_a_model_from_a_file_or_bytes_is_pickled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = np.array([[1, -2, 3]], np.float32)
    data = _parse(TWO).SerializeToString()
    (tmp_path / "model.onnx").write_bytes(data)
    monkeypatch.chdir(tmp_path)
    for source in (data, "model.onnx", Path("model.onnx")):
        model = svod_onnx.load(source, outputs=["y"], sizes={"n": 9}, threads=1, max_plans=7)
        text = pickle.dumps(model)
        monkeypatch.chdir("/")  # the path in the pickle is absolute
        copy = pickle.loads(text)
        monkeypatch.chdir(tmp_path)
        assert {k: v.tolist() for k, v in copy(x=x).items()} == {"y": (-x).tolist()}
        assert pickle.dumps(copy) == text
    with pytest.raises(TypeError, match="load it from a path or bytes"):
        pickle.dumps(svod_onnx.load(_parse(TWO)))


def test_warm_compiles_what_calls_need() -> None:
    text = f"""{HEAD} warm (float[n, 7] x, int64[n] i, bool[1] c) => (float[n, 7] y) {{
        s = Sin(x) g = Gather<axis = 0>(s, i) y = Where(c, g, x)
    }}"""
    model = svod_onnx.load(_parse(text))
    model.warm([{"n": 2}, {"n": 3}, {"n": 4}])
    compiled = caches()["kernel"].misses
    assert len(model.plans()) == 3
    for n in (2, 3, 4, 5, 17):
        x = np.arange(7 * n, dtype=np.float32).reshape(n, 7)
        result = model(x=x, i=np.arange(n)[::-1].copy(), c=np.array([True]))["y"]
        np.testing.assert_allclose(result.numpy(), np.sin(x)[::-1], atol=1e-6)
    assert caches()["kernel"].misses == compiled
    with pytest.raises(ModelInputError, match="no size for the dimension 'n' of input 'x'"):
        model.warm()


def test_warm_of_a_model_with_fixed_sizes_and_of_one_with_strings() -> None:
    model = svod_onnx.load(_parse(f"{HEAD} g (float[2] x) => (float[2] y) {{ y = Abs(x) }}"))
    model.warm()
    assert len(model.plans()) == 1
    strings = f"{HEAD} g (string[2] x) => (string[2] y) {{ y = Identity(x) }}"
    with pytest.raises(ModelInputError, match="input 'x' is not a tensor of numbers"):
        svod_onnx.load(_parse(strings)).warm()
