"""Tensors that build a graph, and the pipeline that turns it into compiled kernels.

Example:
    >>> from svod_tensor import Tensor
    >>> x = Tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> (x @ x + 1).tolist()
    [[8.0, 11.0], [16.0, 23.0]]
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from svod_dtype import (
    DType,
    bfloat16,
    bool_,
    float8_e4m3,
    float8_e5m2,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)  # fmt: skip
from svod_tensor._variable import Variable
from svod_tensor.options import PrepareConfig
from svod_tensor.tensor import Tensor

if TYPE_CHECKING:
    from svod_tensor._generator import Generator, default_generator, manual_seed
    from svod_tensor._origins import is_tracking_origins, scope, track_origins
    from svod_tensor._safetensors import load_safetensors, read_safetensors_metadata, save_safetensors
    from svod_tensor.capture.dependencies import depend_on
    from svod_tensor.capture.function import jit
    from svod_tensor.engine.caches import caches, clear_caches
    from svod_tensor.gradients.functions import grad, jvp, value_and_grad, vjp
    from svod_tensor.gradients.given import custom_gradient
    from svod_tensor.gradients.matrices import hessian, jacobian
    from svod_tensor.gradients.recomputing import checkpoint
    from svod_tensor.loops.associative import associative_scan
    from svod_tensor.loops.choose import cond, switch
    from svod_tensor.loops.cumulative import logcumsumexp
    from svod_tensor.loops.fori import fori_loop, while_loop
    from svod_tensor.loops.recurrent import gru, lstm, rnn
    from svod_tensor.loops.scan import scan
    from svod_tensor.python_functions.call import custom_function
    from svod_tensor.python_functions.register import register_custom_function

__all__ = [
    "DType", "Generator", "PrepareConfig", "Tensor", "Variable", "associative_scan", "bfloat16", "bool_", "caches", "checkpoint",
    "clear_caches",
    "cond", "custom_function", "custom_gradient", "default_generator", "depend_on",
    "float8_e4m3", "float8_e5m2", "float16", "float32", "float64", "fori_loop",
    "grad", "gru", "hessian", "int8", "int16", "int32", "int64", "is_tracking_origins", "jacobian", "jit", "jvp",
    "load_safetensors", "logcumsumexp", "lstm", "manual_seed", "read_safetensors_metadata", "register_custom_function",
    "rnn",
    "save_safetensors", "scan", "scope", "switch", "track_origins", "uint8", "uint16", "uint32", "uint64",
    "value_and_grad", "vjp", "while_loop",
]  # fmt: skip

# These need modules that building graphs does not.
_LAZY = {
    "Generator": "_generator",
    "associative_scan": "loops.associative",
    "logcumsumexp": "loops.cumulative",
    "caches": "engine.caches",
    "clear_caches": "engine.caches",
    "cond": "loops.choose",
    "custom_gradient": "gradients.given",
    "custom_function": "python_functions.call",
    "default_generator": "_generator",
    "depend_on": "capture.dependencies",
    "fori_loop": "loops.fori",
    "checkpoint": "gradients.recomputing",
    "grad": "gradients.functions",
    "gru": "loops.recurrent",
    "hessian": "gradients.matrices",
    "jacobian": "gradients.matrices",
    "jit": "capture.function",
    "is_tracking_origins": "_origins",
    "jvp": "gradients.functions",
    "load_safetensors": "_safetensors",
    "lstm": "loops.recurrent",
    "manual_seed": "_generator",
    "read_safetensors_metadata": "_safetensors",
    "register_custom_function": "python_functions.register",
    "rnn": "loops.recurrent",
    "save_safetensors": "_safetensors",
    "scan": "loops.scan",
    "scope": "_origins",
    "switch": "loops.choose",
    "track_origins": "_origins",
    "value_and_grad": "gradients.functions",
    "vjp": "gradients.functions",
    "while_loop": "loops.fori",
}


def __getattr__(name: str) -> object:
    if name in _LAZY:
        from importlib import import_module

        return getattr(import_module(f"svod_tensor.{_LAZY[name]}"), name)
    from svod_tensor._foreign_names import find_foreign_name

    if (foreign := find_foreign_name(Tensor, name)) is not None:
        raise foreign
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
