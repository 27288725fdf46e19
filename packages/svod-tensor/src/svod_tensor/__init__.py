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
    from svod_tensor._origins import scope, track_origins
    from svod_tensor._safetensors import load_safetensors, save_safetensors
    from svod_tensor.capture.function import jit
    from svod_tensor.engine.caches import caches, clear_caches
    from svod_tensor.loops.associative import associative_scan
    from svod_tensor.loops.choose import cond, switch
    from svod_tensor.loops.cumulative import logcumsumexp
    from svod_tensor.loops.fori import fori_loop, while_loop
    from svod_tensor.loops.recurrent import gru, lstm, rnn
    from svod_tensor.loops.scan import scan
    from svod_tensor.python_functions.call import custom_function
    from svod_tensor.python_functions.register import register_custom_function

__all__ = [
    "DType", "Generator", "PrepareConfig", "Tensor", "Variable", "associative_scan", "bfloat16", "bool_", "caches", "clear_caches",
    "cond", "custom_function", "default_generator", "float8_e4m3", "float8_e5m2", "float16", "float32", "float64", "fori_loop",
    "gru", "int8", "int16", "int32", "int64", "jit", "load_safetensors", "logcumsumexp", "lstm", "manual_seed", "register_custom_function",
    "rnn",
    "save_safetensors", "scan", "scope", "switch", "track_origins", "uint8", "uint16", "uint32", "uint64", "while_loop",
]  # fmt: skip

# These need modules that building graphs does not.
_LAZY = {
    "Generator": "_generator",
    "associative_scan": "loops.associative",
    "logcumsumexp": "loops.cumulative",
    "caches": "engine.caches",
    "clear_caches": "engine.caches",
    "cond": "loops.choose",
    "custom_function": "python_functions.call",
    "default_generator": "_generator",
    "fori_loop": "loops.fori",
    "gru": "loops.recurrent",
    "jit": "capture.function",
    "load_safetensors": "_safetensors",
    "lstm": "loops.recurrent",
    "manual_seed": "_generator",
    "register_custom_function": "python_functions.register",
    "rnn": "loops.recurrent",
    "save_safetensors": "_safetensors",
    "scan": "loops.scan",
    "scope": "_origins",
    "switch": "loops.choose",
    "track_origins": "_origins",
    "while_loop": "loops.fori",
}


def __getattr__(name: str) -> object:
    if name in _LAZY:
        from importlib import import_module

        return getattr(import_module(f"svod_tensor.{_LAZY[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
