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
from svod_tensor.options import PrepareConfig
from svod_tensor.tensor import Tensor
from svod_tensor.variable import Variable

if TYPE_CHECKING:
    from svod_tensor.array_functions import register_custom_function
    from svod_tensor.cache_counts import caches, clear_caches
    from svod_tensor.custom_functions import custom_function
    from svod_tensor.generator import Generator, default_generator, manual_seed
    from svod_tensor.jit_function import jit
    from svod_tensor.origins import scope, track_origins
    from svod_tensor.safetensors import load_safetensors, save_safetensors

__all__ = [
    "DType", "Generator", "PrepareConfig", "Tensor", "Variable", "bfloat16", "bool_", "caches", "clear_caches",
    "custom_function", "default_generator", "float8_e4m3", "float8_e5m2", "float16", "float32", "float64", "int8", "int16",
    "int32", "int64", "jit", "load_safetensors", "manual_seed", "register_custom_function", "save_safetensors", "scope",
    "track_origins", "uint8", "uint16", "uint32", "uint64",
]  # fmt: skip

_LAZY = {
    "Generator": "generator", "default_generator": "generator", "manual_seed": "generator",
    "caches": "cache_counts", "clear_caches": "cache_counts", "custom_function": "custom_functions",
    "register_custom_function": "array_functions", "jit": "jit_function", "load_safetensors": "safetensors",
    "save_safetensors": "safetensors", "scope": "origins", "track_origins": "origins",
}  # fmt: skip


def __getattr__(name: str) -> object:
    # These need modules that building graphs does not.
    if name in _LAZY:
        from importlib import import_module

        return getattr(import_module(f"svod_tensor.{_LAZY[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
