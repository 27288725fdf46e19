"""ONNX models on `svod_tensor`: load, run, profile and train them.

Example:
    >>> import onnx.parser
    >>> import svod_onnx
    >>> model = svod_onnx.load(onnx.parser.parse_model('''
    ...     <ir_version: 10, opset_import: ["" : 21]>
    ...     square (float[n] x) => (float[n] y) { y = Mul(x, x) }
    ... '''))
    >>> print(model.inputs[0])
    x: float32(n)
    >>> model(x=[1.0, 2.0, 3.0])["y"].tolist()
    [1.0, 4.0, 9.0]
    >>> square = model.to_function()
    >>> from svod_tensor import Tensor
    >>> square(Tensor([4.0])).tolist()
    [16.0]
    >>> from svod_onnx import Model, ValueInfo, load, operator
    >>> @operator("Twice", domain="mine")
    ... def twice(x: Tensor) -> Tensor:
    ...     return x * 2
    >>> doubling = load(onnx.parser.parse_model('''
    ...     <ir_version: 10, opset_import: ["" : 21, "mine" : 1]>
    ...     doubling (float[2] x) => (float[2] y) { y = mine.Twice(x) }
    ... '''))
    >>> doubling(x=[1.0, 2.0])["y"].tolist()
    [2.0, 4.0]
    >>> isinstance(doubling, Model), isinstance(doubling.inputs[0], ValueInfo), len(doubling.plans())
    (True, True, 1)
"""

from __future__ import annotations

from svod_onnx import operators as _operators  # importing registers the operators
from svod_onnx._graph import ValueInfo
from svod_onnx._model import Model, load
from svod_onnx._registry import operator
from svod_onnx._session.environment import (
    set_default_logger_severity,
    set_default_logger_verbosity,
    set_seed,
)
from svod_onnx._session.inference_session import InferenceSession
from svod_onnx._session.io_binding import IOBinding
from svod_onnx._session.metadata import ModelMetadata, NodeArg
from svod_onnx._session.options import (
    ExecutionMode,
    ExecutionOrder,
    GraphOptimizationLevel,
    RunOptions,
    SessionOptions,
)
from svod_onnx._session.ort_value import OrtValue
from svod_onnx._session.providers import get_available_providers, get_device

__all__ = [
    "ExecutionMode",
    "ExecutionOrder",
    "GraphOptimizationLevel",
    "IOBinding",
    "InferenceSession",
    "Model",
    "ModelMetadata",
    "NodeArg",
    "OrtValue",
    "RunOptions",
    "SessionOptions",
    "ValueInfo",
    "get_available_providers",
    "get_device",
    "load",
    "operator",
    "set_default_logger_severity",
    "set_default_logger_verbosity",
    "set_seed",
]

del _operators
