"""The functions of the namespace that are methods too: each one's parameters, as the array API standard has them.

`tools/functions.py` writes `svod_tensor/functions/` from this table, the table of operations and the methods: a function calls
the method that has its name in `svod_tensor.ops.table`, with the docstring of the method. What has no method, or makes tensors of
nothing, is written by hand beside them.

Source: the array API standard, version 2025.12.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from svod_tensor.ops.table import TABLE, Operation

__all__ = ["API_VERSION", "FUNCTIONS", "WRITTEN", "iter_functions"]

API_VERSION: Final = "2025.12"

_ONE = "x, /"
_TWO = "x1, x2, /"
_REDUCTION = "x, /, *, axis=None, keepdims=False"
_ACCUMULATION = "x, /, *, axis=None, dtype=None, keepdims=False"
_MOMENT = "x, /, *, axis=None, correction=0.0, keepdims=False"
_RUNNING = "x, /, *, axis=None, dtype=None, include_initial=False"
_ORDER = "x, /, *, axis=-1, descending=False, stable=True"

FUNCTIONS: Final = {
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
"""A function -> its parameters."""

WRITTEN: Final = {
    "data_types": ("broadcast_arrays", "broadcast_shapes", "can_cast", "finfo", "iinfo", "isdtype", "result_type"),
    "information": ("__array_namespace_info__",),
    "joining_several": ("concat", "meshgrid", "stack"),
    "making": ("arange", "asarray", "empty", "eye", "from_dlpack", "full", "linspace", "ones", "zeros"),
    "sets": ("intersect1d", "setdiff1d", "setxor1d", "union1d"),
}
"""The modules of `svod_tensor.functions` that are written by hand, and their functions."""


def iter_functions() -> Iterator[tuple[str, Operation]]:
    """Each function of `FUNCTIONS`, and the operation whose method it calls."""
    rows = {name: row for row in TABLE for name in (row.name, *row.also)}
    rows |= {row.standard: row for row in TABLE if row.standard}
    return ((name, rows[name]) for name in FUNCTIONS)
