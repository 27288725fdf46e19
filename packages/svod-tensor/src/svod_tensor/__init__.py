"""Tensors that build a graph, and the pipeline that turns it into compiled kernels; the namespace of the array API standard.

Example:
    >>> from svod_tensor import Tensor
    >>> x = Tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> (x @ x + 1).tolist()
    [[8.0, 11.0], [16.0, 23.0]]
    >>> import svod_tensor as sv
    >>> sv.sum(sv.square(x), axis=1).tolist()
    [5.0, 25.0]
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from svod_dtype import (
    DType,
    bfloat16,
    bool_,
    complex64,
    complex128,
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
from svod_tensor.functions._places import PLACES
from svod_tensor.options import PrepareConfig
from svod_tensor.tensor import Tensor

if TYPE_CHECKING:
    from svod_tensor import fft, linalg
    from svod_tensor._generator import Generator, default_generator, manual_seed
    from svod_tensor._origins import is_tracking_origins, scope, track_origins
    from svod_tensor._safetensors import load_safetensors, read_safetensors_metadata, save_safetensors
    from svod_tensor.capture.dependencies import depend_on
    from svod_tensor.capture.function import jit
    from svod_tensor.engine.caches import caches, clear_caches
    from svod_tensor.functions.arithmetic import (
        abs,
        add,
        ceil,
        divide,
        floor,
        floor_divide,
        multiply,
        negative,
        positive,
        pow,
        reciprocal,
        remainder,
        round,
        sign,
        square,
        subtract,
        trunc,
    )
    from svod_tensor.functions.bitwise import (
        bitwise_and,
        bitwise_invert,
        bitwise_left_shift,
        bitwise_or,
        bitwise_right_shift,
        bitwise_xor,
    )
    from svod_tensor.functions.comparison import (
        clip,
        copysign,
        equal,
        greater,
        greater_equal,
        isfinite,
        isinf,
        isnan,
        less,
        less_equal,
        maximum,
        minimum,
        nextafter,
        not_equal,
        signbit,
    )
    from svod_tensor.functions.complexes import conj, imag, real
    from svod_tensor.functions.conversion import astype
    from svod_tensor.functions.creation import empty_like, full_like, ones_like, zeros_like
    from svod_tensor.functions.cumulative import cumulative_prod, cumulative_sum, diff
    from svod_tensor.functions.cutting import roll, tril, triu
    from svod_tensor.functions.data_types import (
        broadcast_arrays,
        broadcast_shapes,
        can_cast,
        finfo,
        iinfo,
        isdtype,
        result_type,
    )
    from svod_tensor.functions.exponential import exp, expm1, hypot, log, log1p, log2, log10, logaddexp, sqrt
    from svod_tensor.functions.indexing import take, take_along_axis
    from svod_tensor.functions.information import __array_namespace_info__
    from svod_tensor.functions.joining import repeat, tile, unstack
    from svod_tensor.functions.joining_several import concat, meshgrid, stack
    from svod_tensor.functions.logic import logical_and, logical_not, logical_or, logical_xor, where
    from svod_tensor.functions.making import arange, asarray, empty, eye, from_dlpack, full, linspace, ones, zeros
    from svod_tensor.functions.movement import (
        broadcast_to,
        expand_dims,
        flip,
        matrix_transpose,
        moveaxis,
        permute_dims,
        reshape,
        squeeze,
    )
    from svod_tensor.functions.products import matmul, tensordot, vecdot
    from svod_tensor.functions.reduction import all, any, argmax, argmin, count_nonzero, max, min, prod, sum
    from svod_tensor.functions.selecting import nonzero, unique_all, unique_counts, unique_inverse, unique_values
    from svod_tensor.functions.sets import intersect1d, setdiff1d, setxor1d, union1d
    from svod_tensor.functions.sorting import argsort, isin, searchsorted, sort
    from svod_tensor.functions.statistics import mean, std, var
    from svod_tensor.functions.trigonometry import (
        acos,
        acosh,
        asin,
        asinh,
        atan,
        atan2,
        atanh,
        cos,
        cosh,
        sin,
        sinh,
        tan,
        tanh,
    )
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
    "DType", "Generator", "PrepareConfig", "Tensor", "Variable", "__array_api_version__",
    "__array_namespace_info__", "abs", "acos", "acosh", "add", "all", "any", "arange", "argmax", "argmin",
    "argsort", "asarray", "asin", "asinh", "associative_scan", "astype", "atan", "atan2", "atanh", "bfloat16",
    "bitwise_and", "bitwise_invert", "bitwise_left_shift", "bitwise_or", "bitwise_right_shift", "bitwise_xor",
    "bool", "bool_", "broadcast_arrays", "broadcast_shapes", "broadcast_to", "caches", "can_cast", "ceil",
    "checkpoint", "clear_caches", "clip", "complex64", "complex128", "concat", "cond", "conj", "copysign",
    "cos", "cosh", "count_nonzero", "cumulative_prod", "cumulative_sum", "custom_function", "custom_gradient",
    "default_generator", "depend_on", "diff", "divide", "e", "empty", "empty_like", "equal", "exp",
    "expand_dims", "expm1", "eye", "fft", "finfo", "flip", "float8_e4m3", "float8_e5m2", "float16", "float32",
    "float64", "floor", "floor_divide", "fori_loop", "from_dlpack", "full", "full_like", "grad", "greater",
    "greater_equal", "gru", "hessian", "hypot", "iinfo", "imag", "inf", "int8", "int16", "int32", "int64",
    "intersect1d", "is_tracking_origins", "isdtype", "isfinite", "isin", "isinf", "isnan", "jacobian", "jit",
    "jvp", "less", "less_equal", "linalg", "linspace", "load_safetensors", "log", "log1p", "log2", "log10",
    "logaddexp", "logcumsumexp", "logical_and", "logical_not", "logical_or", "logical_xor", "lstm",
    "manual_seed", "matmul", "matrix_transpose", "max", "maximum", "mean", "meshgrid", "min", "minimum",
    "moveaxis", "multiply", "nan", "negative", "newaxis", "nextafter", "nonzero", "not_equal", "ones",
    "ones_like", "permute_dims", "pi", "positive", "pow", "prod", "read_safetensors_metadata", "real",
    "reciprocal", "register_custom_function", "remainder", "repeat", "reshape", "result_type", "rnn", "roll",
    "round", "save_safetensors", "scan", "scope", "searchsorted", "setdiff1d", "setxor1d", "sign", "signbit",
    "sin", "sinh", "sort", "sqrt", "square", "squeeze", "stack", "std", "subtract", "sum", "switch", "take",
    "take_along_axis", "tan", "tanh", "tensordot", "tile", "track_origins", "tril", "triu", "trunc", "uint8",
    "uint16", "uint32", "uint64", "union1d", "unique_all", "unique_counts", "unique_inverse", "unique_values",
    "unstack", "value_and_grad", "var", "vecdot", "vjp", "where", "while_loop", "zeros", "zeros_like",
]  # fmt: skip

# Constants of the standard, and its name of the dtype.
bool: Final = bool_
e: Final = 2.718281828459045
inf: Final = float("inf")
nan: Final = float("nan")
newaxis: Final = None
pi: Final = 3.141592653589793
__array_api_version__: Final = "2025.12"

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

_EXTENSIONS = ("fft", "linalg")
"""Modules that are names of this one."""


def __getattr__(name: str) -> object:
    if name in _EXTENSIONS:
        from importlib import import_module

        return import_module(f"svod_tensor.{name}")
    place = _LAZY.get(name) or PLACES.get(name)
    if place is not None:
        from importlib import import_module

        found = globals()[name] = getattr(import_module(f"svod_tensor.{place}"), name)
        return found
    from svod_tensor._foreign_names import find_foreign_name

    if (foreign := find_foreign_name(Tensor, name)) is not None:
        raise foreign
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
