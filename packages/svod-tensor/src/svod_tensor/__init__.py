"""Tensors that build a graph, and the pipeline that compiles it into kernels; also a namespace of
the array API standard.

Example:
    >>> from svod_tensor import Tensor
    >>> x = Tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> (x @ x + 1).tolist()
    [[8.0, 11.0], [16.0, 23.0]]
    >>> import svod_tensor as sv
    >>> sv.sum(sv.square(x), axis=1).tolist()
    [5.0, 25.0]

    The names of the standard:

    >>> x[:, sv.newaxis].shape, sv.astype(x > 2, sv.bool).dtype is sv.bool_
    ((2, 1, 2), True)
    >>> sv.log(sv.asarray([0, sv.e, sv.inf, sv.nan])).tolist()
    [-inf, 1.0, inf, nan]
    >>> abs(sv.sin(sv.asarray(sv.pi, dtype=sv.float64)).item()) < 1e-15, sv.__array_api_version__ >= "2024.12"
    (True, True)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from svod_dtype import (
    DType,
    bfloat16,
    bool_,
    complex64,
    complex128,
    default_dtype,
    float8_e4m3,
    float8_e5m2,
    float16,
    float32,
    float64,
    get_default_dtype,
    int8,
    int16,
    int32,
    int64,
    set_default_dtype,
    uint8,
    uint16,
    uint32,
    uint64,
)
from svod_ir import Mesh
from svod_tensor._variable import Variable
from svod_tensor.ops.core.operation import FUNCTIONS
from svod_tensor.ops.core.themes import attach_themes
from svod_tensor.options import PrepareConfig
from svod_tensor.tensor import Tensor

# The name of the submodule is torch's name of a function: `__getattr__` says what to write instead.
del globals()["tensor"]

if TYPE_CHECKING:
    from svod_tensor import fft, linalg, special
    from svod_tensor._data_types import (
        broadcast_shapes,
        can_cast,
        finfo,
        iinfo,
        isdtype,
        result_type,
    )
    from svod_tensor._deferred_values import defer_values, is_deferred, realize_deferred
    from svod_tensor._generator import Generator, default_generator, manual_seed
    from svod_tensor._namespace_info import __array_namespace_info__
    from svod_tensor._origins import is_tracking_origins, scope, track_origins
    from svod_tensor._safetensors import (
        load_safetensors,
        read_safetensors_metadata,
        save_safetensors,
    )
    from svod_tensor.capture.attribute_changes import observe_attributes
    from svod_tensor.capture.dependencies import depend_on
    from svod_tensor.capture.function import jit
    from svod_tensor.capture.nested import register_pytree_node
    from svod_tensor.engine.caches import caches, clear_caches
    from svod_tensor.gradients.checkpoint import checkpoint
    from svod_tensor.gradients.custom_gradient import custom_gradient
    from svod_tensor.gradients.functions import grad, jvp, value_and_grad, vjp
    from svod_tensor.gradients.jacobian import hessian, jacobian
    from svod_tensor.host_functions.call import custom_function
    from svod_tensor.host_functions.register import register_custom_function
    from svod_tensor.loops.associative import associative_scan
    from svod_tensor.loops.choose import cond, switch
    from svod_tensor.loops.cumulative import logcumsumexp
    from svod_tensor.loops.fori import fori_loop, while_loop
    from svod_tensor.loops.recurrent import gru, lstm, rnn
    from svod_tensor.loops.scan import scan
    from svod_tensor.ops.creation import (
        arange,
        empty,
        empty_like,
        eye,
        full,
        full_like,
        linspace,
        meshgrid,
        ones,
        ones_like,
        zeros,
        zeros_like,
    )
    from svod_tensor.ops.elementwise.arithmetic import (
        abs,
        add,
        ceil,
        divide,
        divide as true_divide,
        floor,
        floor_divide,
        fmod,
        lerp,
        multiply,
        negative,
        positive,
        pow,
        pow as power,
        reciprocal,
        remainder,
        remainder as mod,
        round,
        round as rint,
        sign,
        square,
        subtract,
        trunc,
    )
    from svod_tensor.ops.elementwise.bitwise import (
        bitwise_and,
        bitwise_invert,
        bitwise_invert as bitwise_not,
        bitwise_invert as invert,
        bitwise_left_shift,
        bitwise_left_shift as left_shift,
        bitwise_or,
        bitwise_right_shift,
        bitwise_right_shift as right_shift,
        bitwise_xor,
    )
    from svod_tensor.ops.elementwise.comparison import (
        clip,
        copysign,
        equal,
        fmax,
        fmin,
        greater,
        greater_equal,
        isclose,
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
    from svod_tensor.ops.elementwise.complex_parts import (
        angle,
        as_complex,
        as_real,
        conj,
        conj as conjugate,
        imag,
        real,
    )
    from svod_tensor.ops.elementwise.conversion import astype, copy
    from svod_tensor.ops.elementwise.divisors import gcd, lcm
    from svod_tensor.ops.elementwise.exponential import (
        cbrt,
        erf,
        exp,
        exp2,
        expm1,
        hypot,
        log,
        log1p,
        log2,
        log10,
        logaddexp,
        rsqrt,
        sigmoid,
        sqrt,
    )
    from svod_tensor.ops.elementwise.logic import (
        heaviside,
        logical_and,
        logical_not,
        logical_or,
        logical_xor,
        where,
    )
    from svod_tensor.ops.elementwise.representation import bitwise_count, frexp, ldexp
    from svod_tensor.ops.elementwise.trigonometry import (
        acos,
        acos as arccos,
        acosh,
        acosh as arccosh,
        asin,
        asin as arcsin,
        asinh,
        asinh as arcsinh,
        atan,
        atan as arctan,
        atan2,
        atan2 as arctan2,
        atanh,
        atanh as arctanh,
        cos,
        cosh,
        deg2rad,
        deg2rad as radians,
        rad2deg,
        rad2deg as degrees,
        sin,
        sinh,
        tan,
        tanh,
    )
    from svod_tensor.ops.indexing.data_dependent import (
        argwhere,
        nonzero,
        unique_all,
        unique_counts,
        unique_inverse,
        unique_values,
    )
    from svod_tensor.ops.indexing.gathering import (
        embedding,
        gather,
        masked_fill,
        masked_select,
        one_hot,
        take,
        take_along_axis,
    )
    from svod_tensor.ops.indexing.sets import intersect1d, setdiff1d, setxor1d, union1d
    from svod_tensor.ops.indexing.sorting import argsort, isin, searchsorted, sort, topk
    from svod_tensor.ops.indexing.updates import (
        bincount,
        index_add,
        scatter,
        scatter_add,
        scatter_reduce,
    )
    from svod_tensor.ops.interface.sources import asarray, from_dlpack
    from svod_tensor.ops.movement.joining import (
        concat,
        repeat,
        repeat as repeat_interleave,
        split,
        stack,
        tile,
        unstack,
    )
    from svod_tensor.ops.movement.reshaping import (
        broadcast_arrays,
        broadcast_to,
        expand_dims,
        flatten,
        flatten as ravel,
        flip,
        matrix_transpose,
        moveaxis,
        permute_dims,
        reshape,
        squeeze,
        swapaxes,
        transpose,
    )
    from svod_tensor.ops.movement.slicing_and_padding import diag, diagonal, pad, roll, tril, triu
    from svod_tensor.ops.neural.activation import (
        elu,
        gelu,
        glu,
        hardsigmoid,
        hardswish,
        leaky_relu,
        log_softmax,
        mish,
        relu,
        relu6,
        selu,
        silu,
        silu as swish,
        softmax,
        softplus,
        softsign,
    )
    from svod_tensor.ops.neural.grid_sampling import affine_grid, grid_sample
    from svod_tensor.ops.neural.pooling import avg_pool2d, max_pool2d
    from svod_tensor.ops.neural.resizing import interpolate
    from svod_tensor.ops.neural.windows import conv2d, conv_transpose2d, fold, unfold
    from svod_tensor.ops.products.matmul import (
        einsum,
        kron,
        matmul,
        matmul as dot,
        outer,
        tensordot,
        trace,
        vecdot,
    )
    from svod_tensor.ops.reductions.cumulative import (
        cumargmax,
        cumargmin,
        cummax,
        cummin,
        cumprod,
        cumsum,
        cumulative_prod,
        cumulative_sum,
        diff,
    )
    from svod_tensor.ops.reductions.ignoring_nan import (
        nan_to_num,
        nanargmax,
        nanargmin,
        nancumprod,
        nancumsum,
        nanstd,
        nanvar,
    )
    from svod_tensor.ops.reductions.sums_and_extrema import (
        all,
        any,
        argmax,
        argmin,
        count_nonzero,
        max,
        max as amax,
        min,
        min as amin,
        nanmax,
        nanmin,
        nanprod,
        nansum,
        prod,
        sum,
    )
    from svod_tensor.ops.special.functions import (
        beta,
        digamma,
        erfc,
        erfcx,
        erfinv,
        gamma,
        i0,
        i0e,
        i1,
        i1e,
        j0,
        j1,
        lgamma,
        log_ndtr,
        logit,
        ndtr,
        ndtri,
        sinc,
        xlogy,
        zeta,
    )
    from svod_tensor.ops.statistics.covariance_and_histograms import (
        convolve,
        corrcoef,
        correlate,
        cov,
        digitize,
        histogram,
    )
    from svod_tensor.ops.statistics.curves import central_differences, interp, polyval, trapezoid
    from svod_tensor.ops.statistics.moments import logsumexp, mean, nanmean, std, var
    from svod_tensor.ops.statistics.quantiles import (
        median,
        nanmedian,
        nanpercentile,
        nanquantile,
        percentile,
        quantile,
    )

__all__ = [
    "DType", "Generator", "Mesh", "PrepareConfig", "Tensor", "Variable",
    "__array_api_version__", "__array_namespace_info__", "abs", "acos", "acosh", "add",
    "affine_grid", "all", "amax", "amin", "angle", "any", "arange", "arccos", "arccosh",
    "arcsin", "arcsinh", "arctan", "arctan2", "arctanh", "argmax", "argmin", "argsort",
    "argwhere", "as_complex", "as_real", "asarray", "asin", "asinh", "associative_scan",
    "astype", "atan", "atan2", "atanh", "avg_pool2d", "beta", "bfloat16", "bincount",
    "bitwise_and", "bitwise_count", "bitwise_invert", "bitwise_left_shift", "bitwise_not",
    "bitwise_or", "bitwise_right_shift", "bitwise_xor", "bool", "bool_",
    "broadcast_arrays", "broadcast_shapes", "broadcast_to", "caches", "can_cast", "cbrt",
    "ceil", "central_differences", "checkpoint", "clear_caches", "clip", "complex64",
    "complex128", "concat", "cond", "conj", "conjugate", "conv2d", "conv_transpose2d",
    "convolve", "copy", "copysign", "corrcoef", "correlate", "cos", "cosh",
    "count_nonzero", "cov", "cumargmax", "cumargmin", "cummax", "cummin", "cumprod",
    "cumsum", "cumulative_prod", "cumulative_sum", "custom_function", "custom_gradient",
    "default_dtype", "default_generator", "defer_values", "deg2rad", "degrees",
    "depend_on", "diag", "diagonal", "diff", "digamma", "digitize", "divide", "dot", "e",
    "einsum", "elu", "embedding", "empty", "empty_like", "equal", "erf", "erfc", "erfcx",
    "erfinv", "exp", "exp2", "expand_dims", "expm1", "eye", "fft", "finfo", "flatten",
    "flip", "float8_e4m3", "float8_e5m2", "float16", "float32", "float64", "floor",
    "floor_divide", "fmax", "fmin", "fmod", "fold", "fori_loop", "frexp", "from_dlpack",
    "full", "full_like", "gamma", "gather", "gcd", "gelu", "get_default_dtype", "glu",
    "grad", "greater", "greater_equal", "grid_sample", "gru", "hardsigmoid", "hardswish",
    "heaviside", "hessian", "histogram", "hypot", "i0", "i0e", "i1", "i1e", "iinfo",
    "imag", "index_add", "inf", "int8", "int16", "int32", "int64", "interp",
    "interpolate", "intersect1d", "invert", "is_deferred", "is_tracking_origins",
    "isclose", "isdtype", "isfinite", "isin", "isinf", "isnan", "j0", "j1", "jacobian",
    "jit", "jvp", "kron", "lcm", "ldexp", "leaky_relu", "left_shift", "lerp", "less",
    "less_equal", "lgamma", "linalg", "linspace", "load_safetensors", "log", "log1p",
    "log2", "log10", "log_ndtr", "log_softmax", "logaddexp", "logcumsumexp",
    "logical_and", "logical_not", "logical_or", "logical_xor", "logit", "logsumexp",
    "lstm", "manual_seed", "masked_fill", "masked_select", "matmul", "matrix_transpose",
    "max", "max_pool2d", "maximum", "mean", "median", "meshgrid", "min", "minimum",
    "mish", "mod", "moveaxis", "multiply", "nan", "nan_to_num", "nanargmax", "nanargmin",
    "nancumprod", "nancumsum", "nanmax", "nanmean", "nanmedian", "nanmin",
    "nanpercentile", "nanprod", "nanquantile", "nanstd", "nansum", "nanvar", "ndtr",
    "ndtri", "negative", "newaxis", "nextafter", "nonzero", "not_equal",
    "observe_attributes", "one_hot", "ones", "ones_like", "outer", "pad", "percentile",
    "permute_dims", "pi", "polyval", "positive", "pow", "power", "prod", "quantile",
    "rad2deg", "radians", "ravel", "read_safetensors_metadata", "real",
    "realize_deferred", "reciprocal", "register_custom_function", "register_pytree_node",
    "relu", "relu6", "remainder", "repeat", "repeat_interleave", "reshape", "result_type",
    "right_shift", "rint", "rnn", "roll", "round", "rsqrt", "save_safetensors", "scan",
    "scatter", "scatter_add", "scatter_reduce", "scope", "searchsorted", "selu",
    "set_default_dtype", "setdiff1d", "setxor1d", "sigmoid", "sign", "signbit", "silu",
    "sin", "sinc", "sinh", "softmax", "softplus", "softsign", "sort", "special", "split",
    "sqrt", "square", "squeeze", "stack", "std", "subtract", "sum", "swapaxes", "swish",
    "switch", "take", "take_along_axis", "tan", "tanh", "tensordot", "tile", "topk",
    "trace", "track_origins", "transpose", "trapezoid", "tril", "triu", "true_divide",
    "trunc", "uint8", "uint16", "uint32", "uint64", "unfold", "union1d", "unique_all",
    "unique_counts", "unique_inverse", "unique_values", "unstack", "value_and_grad",
    "var", "vecdot", "vjp", "where", "while_loop", "xlogy", "zeros", "zeros_like", "zeta",
]  # fmt: skip

attach_themes()

# Constants of the standard, and its name of the dtype.
bool: Final = bool_
"""The standard's name of `bool_`."""
e: Final = 2.718281828459045
"""Euler's number."""
inf: Final = float("inf")
"""Positive infinity."""
nan: Final = float("nan")
"""Not a number."""
newaxis: Final = None
"""Index of a new axis of size 1, an alias of None."""
pi: Final = 3.141592653589793
"""Ratio of a circle's circumference to its diameter."""
__array_api_version__: Final = "2025.12"
"""Version of the array API standard."""

# These need modules that building graphs does not.
_LAZY = {
    "broadcast_shapes": "_data_types",
    "can_cast": "_data_types",
    "finfo": "_data_types",
    "iinfo": "_data_types",
    "isdtype": "_data_types",
    "result_type": "_data_types",
    "__array_namespace_info__": "_namespace_info",
    "Generator": "_generator",
    "associative_scan": "loops.associative",
    "logcumsumexp": "loops.cumulative",
    "caches": "engine.caches",
    "clear_caches": "engine.caches",
    "cond": "loops.choose",
    "custom_gradient": "gradients.custom_gradient",
    "custom_function": "host_functions.call",
    "default_generator": "_generator",
    "defer_values": "_deferred_values",
    "is_deferred": "_deferred_values",
    "realize_deferred": "_deferred_values",
    "depend_on": "capture.dependencies",
    "observe_attributes": "capture.attribute_changes",
    "register_pytree_node": "capture.nested",
    "fori_loop": "loops.fori",
    "checkpoint": "gradients.checkpoint",
    "grad": "gradients.functions",
    "gru": "loops.recurrent",
    "hessian": "gradients.jacobian",
    "jacobian": "gradients.jacobian",
    "jit": "capture.function",
    "is_tracking_origins": "_origins",
    "jvp": "gradients.functions",
    "load_safetensors": "_safetensors",
    "lstm": "loops.recurrent",
    "manual_seed": "_generator",
    "read_safetensors_metadata": "_safetensors",
    "register_custom_function": "host_functions.register",
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

_EXTENSIONS = ("fft", "linalg", "special")
"""Submodules that are imported on first access."""


def __getattr__(name: str) -> object:
    if name in _EXTENSIONS:
        from importlib import import_module

        return import_module(f"svod_tensor.{name}")
    if name in FUNCTIONS:
        # Stored, so that the next access does not come here.
        function = globals()[name] = FUNCTIONS[name]
        return function
    module = _LAZY.get(name)
    if module is not None:
        from importlib import import_module

        found = globals()[name] = getattr(import_module(f"svod_tensor.{module}"), name)
        return found
    from svod_tensor._foreign_names import find_foreign_name
    from svod_tensor.errors import MissingImportError

    if (foreign := find_foreign_name(Tensor, name)) is not None:
        raise MissingImportError.find(foreign, __name__) or foreign
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
