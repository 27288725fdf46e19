"""Rounding errors of elementwise functions and sums by dtype, compared with NumPy and PyTorch.

    python benchmarks/accuracy.py            # print the table
    python benchmarks/accuracy.py --write    # write docs/accuracy.md

Exact values come from mpmath with 40 digits. mpmath and PyTorch must be installed.
"""

from __future__ import annotations

import argparse
import importlib
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from mpmath import mp, mpf

from svod_tensor import Tensor

PAGE = Path(__file__).resolve().parent.parent / "docs/accuracy.md"
N_POINTS = 600
SEED = 3
# Mantissa bits without the implicit bit, and the exponents of the smallest normal and the largest
# number.
DTYPES = {
    "float64": (52, -1022, 1023),
    "float32": (23, -126, 127),
    "float16": (10, -14, 15),
    "bfloat16": (7, -126, 127),
}
HEAD = """# Accuracy

The largest error of elementwise functions, in units in the last place (ulp) of the result: 0.5 is a correctly rounded result.
`python benchmarks/accuracy.py --write` writes this page. It samples {n} numbers of each dtype, half of them with uniformly distributed
exponents and half uniform between -32 and 32 (clipped to the range), and compares results with mpmath in 40 digits. A number in
brackets is relative to 1 instead of the result, for functions with zeros between representable numbers. `inf` means a result
that overflows where it should not, or the reverse, and – that the function or dtype does not exist there.

`fmod` is exact for every pair of operands and dtype, as C's is, and `%` is that remainder with the divisor added where
the signs differ, which rounds once.

Versions: NumPy {numpy}, PyTorch {torch}.

"""

SUMS = """
## Sums

A sum of floats is a sum of sums, in every kernel: along any axis, for sizes that vary, split over threads, and fused with what
comes before and after. Its error is at most 4 log2(n) + 16 roundings, relative to the sum of the absolute values; the usual
error is one or two. `mean` divides such a sum. `var`, `std`, `nanvar`, `cov`, `layernorm` and `group_norm` subtract the mean,
then correct its rounding error by the mean of the differences, so that an offset of all elements costs them no digits
(Chan, Golub and LeVeque, 1983). float16 and bfloat16 are added in float32. Matrix products and convolutions add up to 512
products to one accumulator, `cumsum` adds sequentially.

The largest error of each function in float32 beside float64, over five seeds: of sums and means in roundings of the sum of
absolute values (2^-24), of the others relative to the result (`layernorm`: absolute). The data are a million numbers in one
row, or in a thousand rows of which axis 0 is reduced.

"""
CONTRACTION = """
## Products that are added

The product in `a * b + c` is not rounded before the sum where the processor has an fma instruction, in every kernel and also
across operations. It is more exact, makes a matrix product 1.3 times faster (`benchmarks/run.py matmul1024`), and differs
from numpy in the last bit: `a * b - c` need not be 0 where `c` holds the rounded product. `SVOD_CONTRACT=0` rounds each
product and each sum by itself, as IEEE 754 and numpy have it.
Transcendental functions keep their own fma instructions.
"""


COLUMNS = (
    *(
        "function",
        "range",
        "svod float64",
        "float32",
        "float16",
        "bfloat16",
        "NumPy float64",
        "float32",
    ),
    *("PyTorch float64", "float32", "float16", "bfloat16"),
)


class Row(NamedTuple):
    """Elementwise function and the range of its arguments.

    Attributes:
        name: name of the tensor method.
        true: exact function of mpmath.
        low: smallest argument.
        high: largest argument, unless the dtype's range ends before.
        numpy: name in NumPy, if it has one.
        torch: name in PyTorch.
        is_absolute: True if errors are relative to 1 where the result is smaller than 1.
    """

    name: str
    true: Callable[[Any], Any]
    low: float = -math.inf
    high: float = math.inf
    numpy: str | None = ""
    torch: str | None = ""
    is_absolute: bool = False


def sigmoid(x: Any) -> Any:
    return 1 / (1 + mp.exp(-x))


def log_ndtr(x: Any) -> Any:
    return mp.log(mp.ncdf(x))


def ndtri(p: Any) -> Any:
    """Evaluate from the nearer end of the range, so that no digits cancel."""
    guess = mpf(float(Tensor(float(p), dtype="float64").ndtri().item()))
    if p > 0.1:
        return mp.sqrt(2) * mp.erfinv(2 * p - 1)
    return mp.findroot(lambda z: mp.log(mp.ncdf(z)) - mp.log(p), guess)


ROWS = (
    Row("sqrt", mp.sqrt, 0),
    Row("rsqrt", lambda x: 1 / mp.sqrt(x), 1e-300, numpy=None),
    Row("cbrt", lambda x: mp.sign(x) * mp.cbrt(abs(x)), torch=None),
    Row("exp", mp.exp),
    Row("exp2", lambda x: mp.power(2, x)),
    Row("expm1", mp.expm1),
    Row("log", mp.log, 1e-300),
    Row("log2", lambda x: mp.log(x, 2), 1e-300),
    Row("log10", mp.log10, 1e-300),
    Row("log1p", mp.log1p, -0.999),
    Row("sin", mp.sin, is_absolute=True),
    Row("cos", mp.cos, is_absolute=True),
    Row("tan", mp.tan, -1e4, 1e4),
    Row("asin", mp.asin, -1, 1, "arcsin"),
    Row("acos", mp.acos, -1, 1, "arccos"),
    Row("atan", mp.atan, numpy="arctan"),
    Row("sinh", mp.sinh),
    Row("cosh", mp.cosh),
    Row("tanh", mp.tanh),
    Row("asinh", mp.asinh, numpy="arcsinh"),
    Row("acosh", mp.acosh, 1, numpy="arccosh"),
    Row("atanh", mp.atanh, -0.9999, 0.9999, "arctanh"),
    Row("sigmoid", sigmoid, numpy=None),
    Row("softplus", lambda x: mp.log1p(mp.exp(x)), -700, 1e4, None, "nn.functional.softplus"),
    Row("silu", lambda x: x * sigmoid(x), -1e4, numpy=None, torch="nn.functional.silu"),
    Row("gelu", lambda x: x * mp.ncdf(x), -37, 1e4, None, "nn.functional.gelu"),
    Row("erf", mp.erf, numpy=None),
    Row("erfc", mp.erfc, -30, 30, None),
    Row("erfcx", lambda x: mp.exp(x * x) * mp.erfc(x), -26, 1e3, None, "special.erfcx"),
    Row("erfinv", mp.erfinv, -1, 1, None),
    Row("ndtr", mp.ncdf, -37, 40, None, "special.ndtr"),
    Row("log_ndtr", log_ndtr, -1e3, 8, None, "special.log_ndtr"),
    Row("ndtri", ndtri, 1e-300, 1, None, "special.ndtri"),
    Row("gamma", mp.gamma, 1e-300, 171, None, None),
    Row("lgamma", lambda x: mp.loggamma(x).real, 1e-300, 1e30, None),
    Row("digamma", mp.digamma, 1e-300, 1e30, None),
    Row("zeta", mp.zeta, 1.0001, 60, None, None),
    Row("i0", lambda x: mp.besseli(0, x), -700, 700, "i0", "special.i0"),
    Row("i0e", lambda x: mp.besseli(0, x) * mp.exp(-abs(x)), -700, 700, None, "special.i0e"),
    Row("i1", lambda x: mp.besseli(1, x), -700, 700, None, "special.i1"),
    Row("i1e", lambda x: mp.besseli(1, x) * mp.exp(-abs(x)), -700, 700, None, "special.i1e"),
    Row("j0", lambda x: mp.besselj(0, x), -1e3, 1e3, None, "special.bessel_j0", is_absolute=True),
    Row("j1", lambda x: mp.besselj(1, x), -1e3, 1e3, None, "special.bessel_j1", is_absolute=True),
    Row("logit", lambda x: mp.log(x) - mp.log1p(-x), 1e-300, 0.9999, None),
    Row("sinc", mp.sincpi, -1e4, 1e4, is_absolute=True),
)


def draw(row: Row, dtype: str) -> Any:
    """Sample numbers of the dtype with all exponents, as float64."""
    rng = np.random.default_rng(SEED)
    _, low, high = DTYPES[dtype]
    sizes = 2.0 ** rng.uniform(low, high + 1, 2 * N_POINTS) * rng.choice([-1, 1], 2 * N_POINTS)
    ends = max(row.low, -32), min(row.high, 32)
    x = np.concatenate([sizes, rng.uniform(*ends, 2 * N_POINTS)])
    x = Tensor(x).cast(dtype).cast("float64").numpy()
    x = x[np.isfinite(x) & (x >= row.low) & (x <= row.high) & (x != 0)]
    return rng.permutation(x)[:N_POINTS]


def measure(errors: Any, true: list[Any], dtype: str, *, is_absolute: bool) -> float:
    """Largest error in ulp."""
    mantissa, low, high = DTYPES[dtype]
    limit = mpf(2) ** (high + 1) * (1 - mpf(2) ** (-mantissa - 2))
    worst = 0.0
    for value, exact in zip(errors, true, strict=True):
        if abs(exact) >= limit or not math.isfinite(value):
            is_right = abs(exact) >= limit and value == math.copysign(math.inf, exact)
            worst = worst if is_right else math.inf
            continue
        size = max(abs(exact), mpf(1)) if is_absolute else abs(exact)
        exponent = max(int(mp.floor(mp.log(size, 2))), low) if size else low
        worst = max(worst, float(abs(mpf(float(value)) - exact) / mpf(2) ** (exponent - mantissa)))
    return worst


def find(module: Any, name: str | None, default: str) -> Any:
    """Return a library's function by its dotted name, or None."""
    if name is None:
        return None
    for attribute in (name or default).split("."):
        module = getattr(module, attribute, None)
    return module


def iter_figures(row: Row, torch: Any) -> Iterator[str]:
    """Format the errors of a row, with float64 of svod first."""
    points = {dtype: draw(row, dtype) for dtype in DTYPES}
    true = {dtype: [row.true(mpf(float(v))) for v in x] for dtype, x in points.items()}

    def tell(errors: Any, dtype: str) -> str:
        error = measure(errors, true[dtype], dtype, is_absolute=row.is_absolute)
        text = f"{error:.2f}" if error < 100 else f"{error:.2g}"
        return f"({text})" if row.is_absolute else text

    for dtype, x in points.items():
        yield tell(getattr(Tensor(x).cast(dtype), row.name)().cast("float64").numpy(), dtype)
    ours = find(np, row.numpy, row.name)
    for dtype in ("float64", "float32"):
        with np.errstate(all="ignore"):
            yield (
                "–"
                if ours is None
                else tell(ours(points[dtype].astype(dtype)).astype(np.float64), dtype)
            )
    theirs = find(torch, row.torch, row.name)
    for dtype, x in points.items():
        try:
            function = (
                None
                if theirs is None
                else theirs(torch.tensor(x).to(getattr(torch, dtype))).double().numpy()
            )
        except (RuntimeError, NotImplementedError):
            function = None
        yield "–" if function is None else tell(function, dtype)


def describe(torch: Any) -> str:
    lines = [
        HEAD.format(n=N_POINTS, numpy=np.__version__, torch=torch.__version__.partition("+")[0])
    ]
    lines += [f"| {' | '.join(COLUMNS)} |\n", "|---" * len(COLUMNS) + "|\n"]
    for row in ROWS:
        ends = [f"{e:g}".replace("inf", "∞") for e in (row.low, row.high)]
        lines.append(
            f"| `{row.name}` | {ends[0]} to {ends[1]} | {' | '.join(iter_figures(row, torch))} |\n"
        )
    return "".join([*lines, *iter_sums(torch), CONTRACTION])


DATA: dict[str, Callable[[np.random.Generator], Any]] = {
    "uniform": lambda rng: rng.random(10**6),
    "constant 0.1": lambda rng: np.full(10**6, 0.1),
    "1e6 + normal": lambda rng: 1e6 + rng.standard_normal(10**6),
    "sorted normal": lambda rng: np.sort(rng.standard_normal(10**6)),
    "alternating": lambda rng: (1 + rng.random(10**6)) * np.tile([1.0, -1.0], 500_000),
}


def iter_sums(torch: Any) -> Iterator[str]:
    yield SUMS
    yield "| function | data | svod | NumPy | PyTorch |\n|---|---|---|---|---|\n"
    for name, error in ERRORS.items():
        for kind, make in DATA.items():
            worst = [0.0, 0.0, 0.0]
            for seed in range(5):
                x = make(np.random.default_rng(seed)).astype("f4")
                for i, errors in enumerate(error(x, torch)):
                    worst[i] = max(worst[i], errors)
            yield f"| {name} | {kind} | {' | '.join(f'{e:.2g}' for e in worst)} |\n"


def _iter_sum_errors(x: Any, torch: Any) -> Iterator[float]:
    size = np.abs(x.astype("f8")).sum(0) * 2.0**-24
    for total in (Tensor(x).sum(0).numpy(), x.sum(0), torch.tensor(x).sum(0).numpy()):
        yield float((np.abs(total - x.astype("f8").sum(0)) / size).max())


def _iter_variance_errors(x: Any, torch: Any) -> Iterator[float]:
    true = x.astype("f8").var()
    for value in (Tensor(x).var().item(), x.var(), torch.tensor(x).var(correction=0).item()):
        yield abs(value - true) / max(true, 2.0**-24)


def _iter_norm_errors(x: Any, torch: Any) -> Iterator[float]:
    wide = x.astype("f8")
    true = (wide - wide.mean()) / np.sqrt(wide.var() + 1e-5)
    narrow = (x - x.mean()) / np.sqrt(x.var() + np.float32(1e-5))
    for value in (
        Tensor(x).layernorm().numpy(),
        narrow,
        torch.nn.functional.layer_norm(torch.tensor(x), x.shape).numpy(),
    ):
        yield float(np.abs(value - true).max())


ERRORS: dict[str, Callable[[Any, Any], Iterator[float]]] = {
    "sum of a row": lambda x, torch: _iter_sum_errors(x.reshape(-1, 1), torch),
    "sum of columns": lambda x, torch: _iter_sum_errors(x.reshape(1000, 1000), torch),
    "var": _iter_variance_errors,
    "layernorm": _iter_norm_errors,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write docs/accuracy.md")
    options = parser.parse_args()
    mp.dps = 40
    page = describe(importlib.import_module("torch"))
    if options.write:
        PAGE.write_text(page, encoding="utf-8")
    else:
        print(page)


if __name__ == "__main__":
    main()
