"""The functions of the namespace that are methods too: each one's parameters, as the array API standard has them, or numpy.

`tools/functions.py` writes `svod_tensor/functions/` from this table, the table of operations and the methods: a function calls
the method that has its name in `svod_tensor.ops.table`, with the docstring of the method. What has no method, or makes tensors of
nothing, is written by hand beside them.

Source: the array API standard, version 2025.12.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from svod_tensor.ops.operation import OPERATIONS
from svod_tensor.ops.table import TABLE, Operation

__all__ = ["API_VERSION", "FUNCTIONS", "STANDARD", "WRITTEN", "iter_functions"]

API_VERSION: Final = "2025.12"

_ONE = "x, /"
_TWO = "x1, x2, /"
_REDUCTION = "x, /, *, axis=None, keepdims=False"
_ACCUMULATION = "x, /, *, axis=None, dtype=None, keepdims=False"
_MOMENT = "x, /, *, axis=None, correction=0.0, keepdims=False"
_RUNNING = "x, /, *, axis=None, dtype=None, include_initial=False"
_ORDER = "x, /, *, axis=-1, descending=False, stable=True"

STANDARD: Final = {
    **dict.fromkeys(
        (
            "abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "bitwise_invert", "ceil", "conj", "cos", "cosh", "exp",
            "expm1", "floor", "imag", "isfinite", "isinf", "isnan", "log", "log10", "log1p", "log2", "logical_not", "matrix_transpose",
            "negative", "positive", "real", "reciprocal", "round", "sign", "signbit", "sin", "sinh", "sqrt", "square", "tan", "tanh",
            "trunc",
        ),
        _ONE,
    ),
    **dict.fromkeys(
        (
            "add", "atan2", "bitwise_and", "bitwise_left_shift", "bitwise_or", "bitwise_right_shift", "bitwise_xor",
            "copysign", "divide", "equal", "floor_divide", "greater", "greater_equal", "hypot", "less", "less_equal",
            "logaddexp", "logical_and", "logical_or", "logical_xor", "matmul", "maximum", "minimum", "multiply",
            "nextafter", "not_equal", "pow", "remainder", "subtract",
        ),
        _TWO,
    ),
    **dict.fromkeys(("all", "any", "count_nonzero", "argmax", "argmin", "max", "mean", "min"), _REDUCTION),
    **dict.fromkeys(("prod", "sum"), _ACCUMULATION),
    **dict.fromkeys(("std", "var"), _MOMENT),
    **dict.fromkeys(("cumulative_prod", "cumulative_sum"), _RUNNING),
    **dict.fromkeys(("argsort", "sort"), _ORDER),
    **dict.fromkeys(("nonzero", "unique_all", "unique_counts", "unique_inverse", "unique_values"), _ONE),
    **dict.fromkeys(("tril", "triu"), "x, /, *, k=0"),
    **dict.fromkeys(("empty_like", "ones_like", "zeros_like"), "x, /, *, dtype=None, device=None"),
    "full_like": "x, /, fill_value, *, dtype=None, device=None",
    "astype": "x, dtype, /, *, copy=True, device=None",
    "broadcast_to": "x, /, shape",
    "clip": "x, /, min=None, max=None",
    "diff": "x, /, *, axis=-1, n=1, prepend=None, append=None",
    "expand_dims": "x, /, axis",
    "flip": "x, /, *, axis=None",
    "isin": "x1, x2, /, *, invert=False",
    "moveaxis": "x, source, destination, /",
    "permute_dims": "x, /, axes",
    "repeat": "x, repeats, /, *, axis=None",
    "reshape": "x, /, shape, *, copy=None",
    "roll": "x, /, shift, *, axis=None",
    "searchsorted": "x1, x2, /, *, side='left', sorter=None",
    "squeeze": "x, /, axis",
    "take": "x, indices, /, *, axis=None",
    "take_along_axis": "x, indices, /, *, axis=-1",
    "tensordot": "x1, x2, /, *, axes=2",
    "tile": "x, repetitions, /",
    "unstack": "x, /, *, axis=0",
    "vecdot": "x1, x2, /, *, axis=-1",
    "where": "condition, x1, x2, /",
}  # fmt: skip
"""A function of the standard -> its parameters."""

_POOLING = "x, /, kernel=2, *, stride=None, padding=0, dilation=1"
_QUANTILE = "x, /, q, axis=None, *, method='linear', keepdims=False"

_BESIDE: Final = {
    **dict.fromkeys(
        (
            "angle", "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctanh", "argwhere", "as_complex", "as_real",
            "bitwise_count", "bitwise_not", "cbrt", "conjugate", "copy", "deg2rad", "degrees", "digamma", "erf", "erfc", "erfcx",
            "erfinv", "exp2", "frexp", "gamma", "hardsigmoid", "hardswish", "i0", "i0e", "i1", "i1e", "invert", "j0", "j1",
            "lgamma", "log_ndtr", "logit", "mish", "ndtr", "ndtri", "rad2deg", "radians", "relu", "relu6", "rsqrt", "selu",
            "sigmoid", "silu", "sinc", "softsign", "swish",
        ),
        _ONE,
    ),
    **dict.fromkeys(
        (
            "arctan2", "beta", "fmax", "fmin", "fmod", "gcd", "heaviside", "kron", "lcm", "ldexp", "left_shift", "mod",
            "outer", "power", "right_shift", "true_divide", "xlogy",
        ),
        _TWO,
    ),
    **dict.fromkeys(
        (
            "amax", "amin", "logsumexp", "median", "nanargmax", "nanargmin", "nanmax", "nanmean", "nanmedian", "nanmin", "nanprod",
            "nansum",
        ),
        "x, /, axis=None, *, keepdims=False",
    ),
    **dict.fromkeys(("nanpercentile", "nanquantile", "percentile", "quantile"), _QUANTILE),
    **dict.fromkeys(("nanstd", "nanvar"), "x, /, axis=None, *, correction=0, keepdims=False"),
    **dict.fromkeys(("cumprod", "cumsum", "nancumprod", "nancumsum"), "x, /, axis=None, *, dtype=None"),
    **dict.fromkeys(("cumargmax", "cumargmin", "cummax", "cummin"), "x, /, axis"),
    **dict.fromkeys(("glu", "log_softmax", "softmax"), "x, /, axis=-1"),
    **dict.fromkeys(("scatter", "scatter_add"), "x, /, axis, indices, value"),
    "affine_grid": "theta, /, size, align_corners=False",
    "avg_pool2d": f"{_POOLING}, count_include_pad=True, ceil_mode=False",
    "bincount": "x, /, weights=None, minlength=0, *, n_bins=None",
    "central_differences": "x, /, *, axis=None, edge_order=1",
    "conv2d": "x, weight, /, bias=None, *, stride=1, padding=0, dilation=1, groups=1",
    "conv_transpose2d": "x, weight, /, bias=None, *, stride=1, padding=0, output_padding=0, dilation=1, groups=1",
    "convolve": "x, v, /, mode='full'",
    "corrcoef": "x, /, y=None, *, rowvar=True",
    "correlate": "x, v, /, mode='valid'",
    "cov": "x, /, y=None, *, rowvar=True, correction=1, fweights=None, aweights=None",
    "diag": "x, /, k=0",
    "diagonal": "x, /, offset=0",
    "digitize": "x, /, bins, right=False",
    "dot": "x1, x2, /, *, dtype=None",
    "elu": "x, /, alpha=1.0",
    "embedding": "x, weight, /",
    "flatten": "x, /, start_axis=0, end_axis=-1",
    "fold": "x, /, size, kernel, *, stride=1, padding=0, dilation=1",
    "gather": "x, /, axis, indices",
    "gelu": "x, /, approximate='none'",
    "grid_sample": "x, grid, /, *, mode='bilinear', padding_mode='zeros', align_corners=False",
    "histogram": "x, /, bins=10, range=None, *, weights=None, density=False",
    "index_add": "x, /, axis, indices, value",
    "interp": "x, /, xp, fp, left=None, right=None, *, period=None",
    "interpolate": "x, /, size=None, scale_factor=None, *, mode='nearest', align_corners=False, antialias=False",
    "isclose": "x1, x2, /, rtol=1e-05, atol=1e-08, equal_nan=False",
    "leaky_relu": "x, /, slope=0.01",
    "lerp": "x, end, weight, /",
    "masked_fill": "x, mask, value, /",
    "masked_select": "x, mask, /",
    "max_pool2d": f"{_POOLING}, ceil_mode=False, return_indices=False",
    "nan_to_num": "x, /, nan=0.0, posinf=None, neginf=None",
    "one_hot": "x, /, n_classes, *, dtype=None",
    "pad": "x, /, padding, *, mode='constant', constant_values=0",
    "polyval": "p, x, /",
    "ravel": "x, /",
    "repeat_interleave": "x, repeats, /, axis=None",
    "rint": "x, /",
    "scatter_reduce": "x, /, axis, indices, value, reduce, *, include_self=True",
    "softplus": "x, /, beta=1.0",
    "split": "x, sizes, /, axis=0",
    "topk": "x, /, k, axis=-1, *, largest=True",
    "trace": "x, /, offset=0, *, dtype=None",
    "transpose": "x, /, axes=None",
    "trapezoid": "y, /, x=None, dx=1.0, axis=-1",
    "unfold": "x, /, kernel, *, stride=1, padding=0, dilation=1",
    "zeta": "x, /, q=1",
}  # fmt: skip
"""A function beside those of the standard -> its parameters: what numpy, SciPy and PyTorch have under that name."""

FUNCTIONS: Final = STANDARD | _BESIDE
"""A function -> its parameters."""

WRITTEN: Final = {
    "data_types": ("broadcast_shapes", "can_cast", "finfo", "iinfo", "isdtype", "result_type"),
    "information": ("__array_namespace_info__",),
    "making": ("asarray", "from_dlpack"),
    "sets": ("intersect1d", "setdiff1d", "setxor1d", "union1d"),
}
"""The modules of `svod_tensor.functions` that are written by hand, and their functions."""


def iter_functions() -> Iterator[tuple[str, Operation]]:
    """Each function of `FUNCTIONS` that is no registered operation, and the operation whose method it calls."""
    methods = [row for row in TABLE if row.name not in OPERATIONS]
    rows = {name: row for row in methods for name in (row.name, *row.also)}
    rows |= {row.standard: row for row in methods if row.standard}
    return ((name, rows[name]) for name in FUNCTIONS if name in rows)
