"""Conformance suite of onnx: single nodes, small graphs, operators as torch exports them, and image
classifiers.
"""

from __future__ import annotations

import warnings
from functools import cache
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx.backend.test.loader import load_model_tests
from onnx.backend.test.runner import Runner

import svod_onnx
from svod_tensor import Tensor

_KINDS = ("simple", "pytorch-operator", "pytorch-converted")

INTEGER_TYPES = {
    np.dtype(kind) for kind in (ml_dtypes.int2, ml_dtypes.uint2, ml_dtypes.int4, ml_dtypes.uint4)
}

HOST_TYPES = INTEGER_TYPES | {
    np.dtype(kind)
    for kind in (
        ml_dtypes.float4_e2m1fn,
        ml_dtypes.float8_e4m3fnuz,
        ml_dtypes.float8_e5m2fnuz,
        ml_dtypes.float8_e8m0fnu,
    )
}
"""dtypes without an svod dtype."""

_NUMPY_SAMPLES = "expects the samples of a numpy generator, which ONNX does not specify"

_GRADIENT = (
    "differentiates the enclosing model by names; use `svod_tensor.grad` of `Model.to_function()`"
)

_UNROUNDED_LENGTH = (
    "aligns an unrounded output length; torch and onnxruntime align the last element of the output"
)

EXCLUDED: dict[str, str] = {
    "test_resize_downsample_scales_cubic_align_corners": _UNROUNDED_LENGTH,
    "test_resize_downsample_scales_linear_align_corners": _UNROUNDED_LENGTH,
    "test_gradient_of_add": _GRADIENT,
    "test_gradient_of_add_and_mul": _GRADIENT,
    "test_bernoulli": _NUMPY_SAMPLES,
    "test_bernoulli_double": _NUMPY_SAMPLES,
    "test_bernoulli_double_expanded": _NUMPY_SAMPLES,
    "test_bernoulli_expanded": _NUMPY_SAMPLES,
    "test_bernoulli_seed": _NUMPY_SAMPLES,
    "test_bernoulli_seed_expanded": _NUMPY_SAMPLES,
    "test_training_dropout": _NUMPY_SAMPLES,
    "test_training_dropout_default": _NUMPY_SAMPLES,
    "test_training_dropout_default_mask": _NUMPY_SAMPLES,
    "test_training_dropout_mask": _NUMPY_SAMPLES,
}
"""Cases that cannot pass, with the reason."""


@cache
def _collect() -> dict[str, Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from onnx.backend.test.case.node import collect_testcases

        cases = {case.name: case for case in collect_testcases(None)}
    for kind in _KINDS:
        cases |= {case.name: case for case in load_model_tests(kind=kind)}
    return cases


_LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
"""Image classifiers whose weights are computed from constants. The other network models need a
download."""


def _load_value(path: Path, info: onnx.ValueInfoProto) -> object:
    which = info.type.WhichOneof("value")
    message = {
        "tensor_type": onnx.TensorProto,
        "sequence_type": onnx.SequenceProto,
        "optional_type": onnx.OptionalProto,
    }
    value = message[which or "tensor_type"].FromString(path.read_bytes())
    if isinstance(value, onnx.TensorProto):
        return onnx.numpy_helper.to_array(value)
    return (
        onnx.numpy_helper.to_list(value)
        if isinstance(value, onnx.SequenceProto)
        else onnx.numpy_helper.to_optional(value)
    )


def _to_array(value: object) -> object:
    return onnx.numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value


def _iter_data(case: Any, model: onnx.ModelProto) -> list[tuple[list[object], list[object]]]:
    if case.data_sets is not None:
        return [
            tuple([_to_array(value) for value in side] for side in data) for data in case.data_sets
        ]
    result = []
    for folder in sorted(Path(case.model_dir).glob("test_data_set_*")):
        sides = []
        for side, infos in (("input", model.graph.input), ("output", model.graph.output)):
            paths = [
                folder / f"{side}_{i}.pb" for i in range(len(list(folder.glob(f"{side}_*.pb"))))
            ]
            sides.append(
                [_load_value(path, info) for path, info in zip(paths, infos, strict=False)]
            )
        result.append((sides[0], sides[1]))
    return result


def _check(result: object, expected: object, rtol: float, atol: float) -> None:
    if expected is None:
        assert result is None
        return
    if isinstance(expected, list):
        assert isinstance(result, list)
        assert len(result) == len(expected)
        for actual, reference in zip(result, expected, strict=True):
            _check(actual, reference, rtol, atol)
        return
    expected = np.asarray(expected)
    if expected.dtype.kind in "OUST":
        # Strings have no tensors; the cases have them as bytes or text.
        assert isinstance(result, np.ndarray)
        assert result.dtype.kind in "OUST"
        assert result.shape == expected.shape
        assert result.tolist() == expected.tolist()
        return
    # An element type without an svod dtype is an array, and every other type a tensor.
    assert isinstance(result, np.ndarray) == (expected.dtype in HOST_TYPES)
    array = result.numpy() if isinstance(result, Tensor) else result
    assert isinstance(array, np.ndarray)
    assert (array.dtype, array.shape) == (expected.dtype, expected.shape)
    if array.dtype.kind in "biu" or array.dtype in INTEGER_TYPES:
        np.testing.assert_array_equal(array, expected)
        return
    kind = np.complex128 if array.dtype.kind == "c" else np.float64
    if array.dtype.itemsize == 2:
        # The cases round after every operation; who rounds once is nearer to what is meant.
        rtol = max(rtol, 4 * float(ml_dtypes.finfo(array.dtype).eps))
    np.testing.assert_allclose(array.astype(kind), expected.astype(kind), rtol=rtol, atol=atol)


@pytest.mark.parametrize("name", list(_collect()))
@pytest.mark.filterwarnings("ignore")
def test_case(name: str) -> None:
    if name in EXCLUDED:
        pytest.skip(EXCLUDED[name])
    case = _collect()[name]
    proto = case.model if case.model is not None else onnx.load(Path(case.model_dir) / "model.onnx")
    model = svod_onnx.load(proto)
    initialized = {tensor.name for tensor in proto.graph.initializer}
    names = [info.name for info in proto.graph.input if info.name not in initialized]
    for inputs, outputs in _iter_data(case, proto):
        results = model(**dict(zip(names, inputs, strict=False)))
        for result, expected in zip(results.values(), outputs, strict=True):
            _check(result, expected, case.rtol, case.atol)


@pytest.mark.parametrize("path", sorted(_LIGHT.glob("*.onnx")), ids=lambda path: path.stem)
def test_image_classifier(path: Path) -> None:
    proto = onnx.load(path)
    initialized = {tensor.name for tensor in proto.graph.initializer}
    inputs = {
        info.name: Runner.generate_dummy_data(info)
        for info in proto.graph.input
        if info.name not in initialized
    }
    expected = onnx.load_tensor(path.with_name(f"{path.stem}_output_0.pb"))
    (result,) = svod_onnx.load(proto)(**inputs).values()
    _check(result, _to_array(expected), rtol=1e-3, atol=1e-7)
