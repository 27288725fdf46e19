"""Every function of narrow floats is computed in float32 at least, and rounded once: over the table
of all public methods.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from svod_dtype import cast_value, to_dtype
from svod_tensor import Tensor

DTYPES = ["float16", "bfloat16", "float8_e4m3"]

ELEMENTWISE = {
    name: (lambda x, n=name: getattr(x, n)())
    for name in (
        "sqrt",
        "rsqrt",
        "exp",
        "exp2",
        "log",
        "log2",
        "sin",
        "cos",
        "tan",
        "tanh",
        "erf",
        "sigmoid",
        "expm1",
        "log1p",
        "log10",
        "sinh",
        "cosh",
        "asinh",
        "acosh",
        "atanh",
        "atan",
        "asin",
        "acos",
        "neg",
        "abs",
        "sign",
        "reciprocal",
        "square",
        "floor",
        "ceil",
        "trunc",
        "round",
        "isnan",
        "isinf",
        "isfinite",
        "signbit",
        "positive",
        "cbrt",
        "deg2rad",
        "rad2deg",
        "relu",
        "relu6",
        "leaky_relu",
        "elu",
        "selu",
        "silu",
        "gelu",
        "softplus",
        "mish",
        "hardsigmoid",
        "hardswish",
        "softsign",
        "logical_not",
        "gamma",
        "lgamma",
        "digamma",
        "erfc",
        "erfcx",
        "erfinv",
        "ndtr",
        "log_ndtr",
        "ndtri",
        "i0",
        "i0e",
        "i1",
        "i1e",
        "j0",
        "j1",
        "logit",
        "sinc",
    )
} | {
    "polygamma": lambda x: x.polygamma(2),
    "pow": lambda x: x.pow(3),
    "pow_of_a_root": lambda x: x.abs().pow(0.3),
    "round_decimals": lambda x: x.round(1),
    "gelu_tanh": lambda x: x.gelu("tanh"),
    "clip": lambda x: x.clip(-0.5, 1.5),
    "leaky": lambda x: x.leaky_relu(0.3),
    "elu_alpha": lambda x: x.elu(0.7),
    "softplus_beta": lambda x: x.softplus(1.7),
    "dropout": lambda x: x.dropout(0.3, seed=3),
    "masked_fill": lambda x: x.masked_fill(x.lt(0), 2.0),
    "lerp_number": lambda x: x.lerp(1.5, 0.3),
}
"""Functions of each element."""

CANCELLING = {"gelu": lambda x: x.abs()}
"""Functions in which float32 loses digits, and the size of what cancels there."""

PAIRS = {
    name: (lambda x, y, n=name: getattr(x, n)(y))
    for name in (
        "add",
        "sub",
        "mul",
        "div",
        "floor_divide",
        "remainder",
        "pow",
        "eq",
        "ne",
        "lt",
        "le",
        "gt",
        "ge",
        "maximum",
        "minimum",
        "logaddexp",
        "atan2",
        "copysign",
        "hypot",
        "fmod",
        "fmax",
        "fmin",
        "heaviside",
        "logical_and",
        "logical_or",
        "logical_xor",
        "isclose",
        "zeta",
        "beta",
        "xlogy",
    )
} | {
    "lerp": lambda x, y: x.lerp(y, 0.3),
    "where": lambda x, y: x.lt(y).where(x, y),
}
"""Functions of pairs of elements."""

REDUCTIONS = {
    name: (lambda x, n=name: getattr(x, n)(1))
    for name in (
        "sum",
        "prod",
        "max",
        "min",
        "any",
        "all",
        "count_nonzero",
        "mean",
        "var",
        "std",
        "logsumexp",
        "norm",
        "argmax",
        "argmin",
        "cumsum",
        "cumprod",
        "cummax",
        "cummin",
        "nansum",
        "nanprod",
        "nanmean",
        "nanmax",
        "nanmin",
        "softmax",
        "log_softmax",
        "layernorm",
        "rms_norm",
        "glu",
        "median",
        "nanmedian",
        "nanvar",
        "nanstd",
        "nanargmax",
        "nanargmin",
        "nancumsum",
        "nancumprod",
        "cumulative_sum",
        "cumulative_prod",
        "cumargmax",
        "cumargmin",
    )
} | {
    "var_corrected": lambda x: x.var(1, correction=1),
    "norm_1": lambda x: x.norm(1, ord=1),
    "norm_3": lambda x: x.norm(1, ord=3),
    "norm_0": lambda x: x.norm(1, ord=0),
    "norm_inf": lambda x: x.norm(1, ord=math.inf),
    "matrix_norm": lambda x: x.matrix_norm(),
    "matrix_norm_1": lambda x: x.matrix_norm(ord=1),
    "diff": lambda x: x.diff(2),
    "trace": lambda x: x.trace(),
    "group_norm": lambda x: x.reshape(2, 6, -1).group_norm(3, weight=x[0, :6], bias=x[1, :6]),
    "affine": lambda x: x.layernorm(weight=x[0], bias=x[1]),
    "scaled": lambda x: x.rms_norm(weight=x[0]),
    "batchnorm": lambda x: x.batchnorm(x[2], x[3].abs(), x[0], x[1]),
    "avg_pool2d": lambda x: x.reshape(1, 1, *x.shape).avg_pool2d(3, padding=1),
    "avg_pool2d_inside": lambda x: x.reshape(1, 1, *x.shape).avg_pool2d(
        3, padding=1, count_include_pad=False
    ),
    "max_pool2d": lambda x: x.reshape(1, 1, *x.shape).max_pool2d(3, padding=1),
    "lp_pool2d": lambda x: x.reshape(1, 1, *x.shape).lp_pool2d(2, 3, ceil_mode=True),
    "max_unpool2d": lambda x: x.reshape(1, *x.shape).max_unpool2d(
        Tensor(np.arange(144).reshape(1, 12, 12) % 12), 1
    ),
    "unfold": lambda x: x.reshape(1, 1, *x.shape).unfold(3),
    "fold": lambda x: x[:, :9].fold([11], 3),
    "affine_grid": lambda x: x[:2, :3].reshape(1, 2, 3).affine_grid((1, 1, 4, 3)),
    "cubic": lambda x: x.reshape(1, 1, *x.shape).interpolate((5, 7), mode="cubic", antialias=True),
    "sort": lambda x: x.sort(1),
    "topk": lambda x: x.topk(3, 1)[0],
    "quantile": lambda x: x.quantile([0.1, 0.5], 1),
    "percentile": lambda x: x.percentile(30, 1),
    "cov": lambda x: x[0].cov(),
    "nanquantile": lambda x: x.nanquantile(0.2, 1),
    "nanpercentile": lambda x: x.nanpercentile(30, 1),
    "ldexp": lambda x: x.ldexp(-2),
    "interpolate": lambda x: x.reshape(1, 1, *x.shape).interpolate((5, 7), mode="linear"),
    "corrcoef": lambda x: x.corrcoef(),
    "trapezoid": lambda x: x.trapezoid(axis=1),
    "nan_to_num": lambda x: x.nan_to_num(),
    "interp": lambda x: x.interp([-1.0, 0.0, 2.0], [3.0, -1.0, 2.0]),
    "digitize": lambda x: x.digitize([-1.0, 0.5, 2.0]),
    "central_differences": lambda x: x.central_differences(axis=1),
    "histogram": lambda x: x.histogram([-1.0, 0.0, 1.0])[0],
    "attention": lambda x: x[:6].scaled_dot_product_attention(
        x[:9], (x.gt(0).where(1, 2)).cast(x.dtype)[:9], scale=0.01
    ),
}
"""Functions of rows."""

PRODUCTS = {
    "matmul": lambda x, y: x @ y.T,
    "linear": lambda x, y: x.linear(y, y[:, 0]),
    "outer": lambda x, y: x.outer(y),
    "vecdot": lambda x, y: x.vecdot(y),
    "einsum": lambda x, y: Tensor.einsum("ij,kj,k->i", x, y, y[:, 0]),
    "tensordot": lambda x, y: x.tensordot(y),
    "conv2d": lambda x, y: x.reshape(1, 1, *x.shape).conv2d(
        y[:3, :3].reshape(1, 1, 3, 3), y[0, :1]
    ),
    "conv_transpose2d": lambda x, y: (
        x[:4, :4]
        .reshape(1, 1, 4, 4)
        .conv_transpose2d(y[:3, :3].reshape(1, 1, 3, 3), y[0, :1], stride=2)
    ),
    "kron": lambda x, y: x[:2].kron(y[:2]),
    "convolve": lambda x, y: x[0].convolve(y[0, :3]),
    "correlate": lambda x, y: x[0].correlate(y[0, :3]),
    "polyval": lambda x, y: x[:2, 0].polyval(y[0].sign()),
    "add_at": lambda x, y: x.add_at(np.array([0, 1, 0, 0]), y[:4]),
    "scatter_add": lambda x, y: x.scatter_add(0, Tensor([[0, 0], [1, 1], [0, 0]]), y[:3, :2]),
    "index_add": lambda x, y: x.index_add(0, np.array([0, 0, 1]), y[:3]),
    "scatter_reduce": lambda x, y: x.scatter_reduce(
        0, Tensor([[0, 0], [1, 1], [0, 0]]), y[:3, :2], "mean"
    ),
    "scattered_factors": lambda x, y: (
        x[:2].sign().scatter_reduce(0, Tensor([[0, 0], [1, 1], [0, 0]]), y[:3, :2], "prod")
    ),
    "grid_sample": lambda x, y: x.reshape(1, 1, *x.shape).grid_sample(
        y.sign().mul(0.25).reshape(1, 12, 6, 2)
    ),
    "bincount": lambda x, y: Tensor(np.arange(6) % 3).bincount(y[0, :6], n_bins=3),
}
"""Functions that multiply or add the elements of two tensors."""


def test_intermediate_overflow_and_underflow_do_not_affect_results():
    large = Tensor.full((1, 1, 4, 4), 30000.0, dtype="float16")
    assert large.avg_pool2d(2, padding=1, count_include_pad=False).max().item() == 30000.0
    assert Tensor([-3.1], dtype="bfloat16").gelu().item() == pytest.approx(-0.003057, rel=0.004)
    assert Tensor([-3.1], dtype="bfloat16").gelu("tanh").item() == pytest.approx(
        -0.002682, rel=0.004
    )
    assert (
        Tensor([-60000.0], dtype="float16").lerp(Tensor([60000.0], dtype="float16"), 0.5).item()
        == 0.0
    )
    assert Tensor([math.nan, 448.0, 1.0], dtype="float8_e4m3").isfinite().tolist() == [
        False,
        True,
        True,
    ]


def round_array(values, dtype):
    kind = to_dtype(dtype)
    return np.array([cast_value(float(v), kind) for v in values.reshape(-1)]).reshape(values.shape)


def round_to(array, dtype):
    """`array` rounded to `dtype` and widened again, with memory of its own: what is computed of it
    is one kernel for all.
    """
    return Tensor(Tensor(array, dtype=dtype).cast("float64").numpy())


def check_rounded_once(functions, arrays, dtype, slack=2e-6, sizes=None):
    """Assert that the results are those of float64, off by `slack` of their size as float32 may be,
    rounded to `dtype`.

    The functions are computed in one batch, in which they share kernels and a plan.
    """
    narrow = [Tensor(a, dtype=dtype) for a in arrays]
    wide = [round_to(a, dtype) for a in arrays]
    found, exact = compute(functions, narrow), compute(functions, wide)
    for name in functions:
        size = sizes[name].numpy() if sizes and name in sizes else None
        check_result(name, found[name], exact[name], wide, dtype, slack, size)


def compute(functions, arguments):
    results = {name: function(*arguments) for name, function in functions.items()}
    Tensor.realize_batch([*results.values()])
    return results


def check_result(name, found, exact, wide, dtype, slack, size):
    values, truth = found.cast("float64").numpy(), exact.numpy()
    if not exact.dtype.is_float:
        np.testing.assert_array_equal(values, truth, err_msg=name)
        return
    assert found.dtype is to_dtype(dtype), name
    error = np.where(
        np.isfinite(truth), slack * np.abs(truth if size is None else size) + 1e-30, 0.0
    )
    low, high = round_array(truth - error, dtype), round_array(truth + error, dtype)
    with np.errstate(invalid="ignore"):
        is_right = ((low <= values) & (values <= high)) | (
            np.isnan(values) & (np.isnan(low) | np.isnan(high))
        )
    wrong = np.argwhere(~is_right)
    shown = [
        (
            float(values[i]),
            float(truth[i]),
            [float(w.numpy()[i]) for w in wide if w.shape == found.shape],
        )
        for i in map(tuple, wrong[:6])
    ]
    assert not len(wrong), f"{name}, {dtype}: {shown}"


def draw_elements(rng, dtype):
    """Ordinary and extreme numbers of a dtype, and those that are none."""
    kind = to_dtype(dtype)
    bias = min((1 << (kind.exponent_bits - 1)) - 1, 30)
    sizes = 2.0 ** rng.uniform(-bias - kind.mantissa_bits, bias + 1, 300)
    largest = kind.finfo_max if bias < 30 else 2.0**30
    special = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        0.5,
        largest,
        -largest,
        largest / 2,
        -largest / 2,
        math.inf,
        -math.inf,
        math.nan,
        -3.1,
        1 + kind.finfo_eps,
    ]
    return np.concatenate([rng.standard_normal(300) * 3, sizes, -sizes, special])


# A test has all dtypes, so that they share the kernels of float64, and some functions, so that
# these share theirs.


def over_groups(functions):
    """A parameter `functions`: eight of them at a time."""
    names = [*functions]
    groups = [names[n : n + 8] for n in range(0, len(names), 8)]
    tables = [{name: functions[name] for name in group} for group in groups]
    return pytest.mark.parametrize(
        "functions", tables, ids=[f"{group[0]} to {group[-1]}" for group in groups]
    )


@over_groups(ELEMENTWISE)
def test_functions_of_elements_round_once(rng, functions):
    for dtype in DTYPES:
        values = draw_elements(rng, dtype)
        sizes = {
            name: CANCELLING[name](round_to(values, dtype))
            for name in functions
            if name in CANCELLING
        }
        check_rounded_once(functions, [values], dtype, sizes=sizes)


@over_groups(PAIRS)
def test_functions_of_pairs_round_once(rng, functions):
    for dtype in DTYPES:
        x = draw_elements(rng, dtype)
        y = rng.permutation(draw_elements(rng, dtype))
        check_rounded_once(functions, [x, y], dtype)


def _tame(rng, dtype):
    largest = min(to_dtype(dtype).finfo_max, 60000.0)
    ordinary = rng.standard_normal((12, 12)) * 2
    extreme = rng.choice([largest / 2, -largest / 2, largest / 4, 0.25, -1.0], (12, 12))
    return ordinary, extreme


@over_groups({name: function for name, function in REDUCTIONS.items() if name != "attention"})
def test_functions_of_rows_round_once(rng, functions):
    for dtype in DTYPES:
        for values in _tame(rng, dtype):
            check_rounded_once(functions, [values], dtype, 2e-5)


def test_attention_of_narrow_floats_is_rounded_once(rng):
    for dtype in DTYPES:
        # The weights of attention are rounded too, as operands of a product.
        is_rounded_twice = to_dtype(dtype).itemsize == 2
        for values in _tame(rng, dtype):
            slack = to_dtype(dtype).finfo_eps if is_rounded_twice else 2e-5
            check_rounded_once({"attention": REDUCTIONS["attention"]}, [values], dtype, slack)


@over_groups(PRODUCTS)
def test_products_round_once(rng, functions):
    for dtype in DTYPES:
        for x, y in zip(_tame(rng, dtype), _tame(rng, dtype), strict=True):
            sizes = compute(functions, [round_to(abs(a), dtype) for a in (x, y)])
            check_rounded_once(functions, [x, y], dtype, 2e-6, sizes)


OTHER = {
    # What moves, joins, compares or looks up elements, and changes none.
    "T",
    "broadcast_arrays",
    "broadcast_to",
    "cat",
    "chunk",
    "concat",
    "contiguous",
    "detach",
    "diagonal",
    "embedding",
    "expand",
    "flatten",
    "flip",
    "gather",
    "mT",
    "masked_select",
    "matrix_transpose",
    "meshgrid",
    "moveaxis",
    "pad",
    "permute",
    "put_along_axis",
    "repeat",
    "repeat_interleave",
    "reshape",
    "roll",
    "scatter",
    "searchsorted",
    "shrink",
    "split",
    "squeeze",
    "stack",
    "diag",
    "frexp",
    "bitwise_count",
    "swapaxes",
    "take",
    "take_along_axis",
    "transpose",
    "tril",
    "triu",
    "unbind",
    "unflatten",
    "unsqueeze",
    "windows",
    "with_items",
    "argsort",
    "isin",
    "argwhere",
    "compress",
    "nonzero",
    "tile",
    "unique_all",
    "unique_counts",
    "unique_inverse",
    "unique_values",
    "intersect1d",
    "setdiff1d",
    "setxor1d",
    "union1d",
    "asarray",
    "one_hot",
    "nextafter",
    "bitcast",
    "cast",
    "astype",
    "clone",
    # Parts of complex numbers, which are never narrow.
    "angle",
    "as_complex",
    "as_real",
    "complex",
    "conj",
    "conjugate",
    "imag",
    "real",
    # What takes integers alone.
    "bitwise_and",
    "bitwise_not",
    "bitwise_or",
    "bitwise_xor",
    "lshift",
    "rshift",
    "gcd",
    "lcm",
    # What makes tensors of numbers: rounded once from float64, or drawn.
    "arange",
    "empty",
    "eye",
    "from_content",
    "from_dlpack",
    "from_file",
    "from_numpy",
    "from_uop",
    "empty_like",
    "full",
    "full_like",
    "linspace",
    "ones",
    "ones_like",
    "rand",
    "randint",
    "randn",
    "zeros",
    "zeros_like",
    "bernoulli",
    "categorical",
    "exponential",
    "multinomial",
    "normal",
    "permutation",
    "shuffle",
    "truncated_normal",
    "uniform",
    # What tensors are, and computing them.
    "gradient",
    "along",
    "assign",
    "buffer",
    "content",
    "device",
    "dtype",
    "spec",
    "is_realized",
    "item",
    "itemsize",
    "nbytes",
    "ndim",
    "numpy",
    "prepare",
    "prepare_batch",
    "prepare_batch_with",
    "prepare_with",
    "realize",
    "realize_batch",
    "realize_batch_with",
    "realize_with",
    "shape",
    "shard",
    "sharding",
    "shards",
    "size",
    "to",
    "to_device",
    "tolist",
    "uop",
}


def test_every_public_method_is_in_a_table_or_does_not_round():
    def find_function(name):
        return getattr(getattr(Tensor, name), "__func__", getattr(Tensor, name))

    tables = {*ELEMENTWISE, *PAIRS, *REDUCTIONS, *PRODUCTS, "scaled_dot_product_attention"}
    known = {id(find_function(name)) for name in (*OTHER, *tables) if hasattr(Tensor, name)}
    assert not {
        name for name in dir(Tensor) if name[0] != "_" and id(find_function(name)) not in known
    }
    assert set(dir(Tensor)) >= OTHER
