"""Complex numbers, `linalg` and `fft` agree with array-api-strict; `tox run -e interop` runs more
examples.
"""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import drawn_calls
import svod_tensor as sv
from svod_ir.testing import count_examples

xp = pytest.importorskip("array_api_strict")

REALS, COMPLEXES = ("float32", "float64"), ("complex64", "complex128")
FLOATS = (*REALS, *COMPLEXES)
PARTS = (0.0, 1.0, -1.0, 0.5, -2.5, 3.0)
SHAPES = ((), (3,), (0,), (2, 3), (3, 1), (2, 0, 3))


class Draw(drawn_calls.Draw):
    """Arguments with real and complex arrays, and matrices."""

    def array(
        self, dtypes: tuple[str, ...] = COMPLEXES, shape: tuple[int, ...] | None = None
    ) -> np.ndarray:
        shape = self.one_of(*SHAPES) if shape is None else shape
        dtype = np.dtype(self.one_of(*dtypes))
        parts = self.mix((*shape, 2), PARTS, 0.3, 2)
        values = parts[..., 0] + 1j * parts[..., 1] if dtype.kind == "c" else parts[..., 0]
        return np.asarray(values.astype(dtype))

    def matrices(
        self, n: int = 3, m: int | None = None, *, dtypes: tuple[str, ...] = FLOATS
    ) -> np.ndarray:
        """Up to six matrices with well separated, nonzero singular values."""
        m = n if m is None else m
        x = self.array(dtypes, (*self.one_of((), (2,), (0,), (2, 3)), n, m))
        return (x * 0.2 + np.eye(n, m) * np.arange(2, 2 + m)).astype(x.dtype)

    def hermitian(self) -> np.ndarray:
        """Positive definite matrices with well separated eigenvalues."""
        x = self.matrices()
        return np.asarray(x @ np.conj(np.swapaxes(x, -1, -2)))


def one(d: Draw) -> Any:
    return (d.array(),), {}


def nonzero(d: Draw) -> Any:
    x = d.array()
    return (np.asarray(np.where(np.abs(x) < 0.1, x + 1, x)).astype(x.dtype),), {}


def two(d: Draw) -> Any:
    x = d.array()
    number = d.one_of(2, 1.5, 0.5 - 2j)
    y = d.array((x.dtype.name,), d.one_of(x.shape, (), (1,) * x.ndim))
    return d.one_of((x, y), (y, x), (x, number), (number, x)), {}


def reduction(d: Draw) -> Any:
    x = d.array()
    return (x,), {"axis": d.one_of(None, *range(-x.ndim, x.ndim)), "keepdims": d.flip()}


def mean(d: Draw) -> Any:
    x = d.array(shape=d.one_of(*[s for s in SHAPES if 0 not in s]))
    return (x,), {"axis": d.one_of(None, *range(-x.ndim, x.ndim)), "keepdims": d.flip()}


def running(d: Draw) -> Any:
    x = d.array(shape=d.one_of((3,), (2, 3), (0,)))
    return (x,), {"axis": d.one_of(*range(-x.ndim, x.ndim)), "include_initial": d.flip()}


def product(d: Draw) -> Any:
    left, right = d.one_of(
        ((2, 3), (3, 4)), ((3,), (3,)), ((2, 2, 3), (3, 4)), ((2, 3), (3,)), ((2, 0), (0, 3))
    )
    x = d.array(shape=left)
    return (x, d.array((x.dtype.name,), right)), {}


def rows(d: Draw) -> Any:
    x = d.array(shape=(2, 3))
    return (x, d.array((x.dtype.name,), (2, 3))), {"axis": d.one_of(-1, -2)}


def cast(d: Draw) -> Any:
    return (d.array(d.one_of(COMPLEXES, REALS)), getattr(np, d.one_of(*COMPLEXES))), {}


COMPLEX_CALLS = {
    **dict.fromkeys(
        (
            "abs",
            "conj",
            "cos",
            "cosh",
            "exp",
            "expm1",
            "imag",
            "isfinite",
            "isinf",
            "isnan",
            "negative",
        ),
        one,
    ),
    **dict.fromkeys(
        ("positive", "real", "round", "sign", "sin", "sinh", "sqrt", "square", "tanh"), one
    ),
    **dict.fromkeys(("acos", "acosh", "asin", "asinh", "atan", "atanh", "tan"), one),
    **dict.fromkeys(("log", "log10", "log1p", "log2", "reciprocal"), nonzero),
    **dict.fromkeys(("add", "equal", "multiply", "not_equal", "subtract"), two),
    "divide": lambda d: ((x := d.array(), np.asarray(np.exp(1j * x.real)).astype(x.dtype)), {}),
    "pow": lambda d: ((nonzero(d)[0][0], d.one_of(2, 0.5, 1 - 0.5j)), {}),
    **dict.fromkeys(("all", "any", "count_nonzero", "prod", "sum"), reduction),
    "mean": mean,
    **dict.fromkeys(("cumulative_prod", "cumulative_sum"), running),
    "matmul": product,
    "vecdot": rows,
    "astype": cast,
    "matrix_transpose": lambda d: ((d.array(shape=d.one_of((2, 3), (2, 1, 3))),), {}),
    "concat": lambda d: (
        ([x := d.array(shape=(2, 3)), d.array((x.dtype.name,), (1, 3))],),
        {"axis": 0},
    ),
    "where": lambda d: (
        (np.asarray(d.rng.random((2, 3)) < 0.5), x := d.array(shape=(2, 3)), x[0]),
        {},
    ),
    "take": lambda d: ((d.array(shape=(2, 3)), d.rng.integers(-2, 2, (4,))), {"axis": 1}),
    "tril": lambda d: ((d.array(shape=(2, 3)),), {"k": d.one_of(-1, 0, 1)}),
    "diff": lambda d: ((d.array(shape=(2, 3)),), {"axis": d.one_of(0, 1)}),
    "nonzero": lambda d: ((d.array(shape=d.one_of((3,), (2, 3))),), {}),
    "tensordot": lambda d: ((x := d.array(shape=(2, 3)), x.T), {"axes": 1}),
}


def solved(d: Draw) -> Any:
    x = d.matrices()
    return (x, d.array((x.dtype.name,), d.one_of((3,), (*x.shape[:-2], 3, 2)))), {}


def crossed(d: Draw) -> Any:
    x = d.array(FLOATS, (2, 3))
    return (x, d.array((x.dtype.name,), d.one_of((2, 3), (1, 3)))), {"axis": -1}


def vectors(d: Draw) -> Any:
    x = d.array(FLOATS, d.one_of((3,), (2, 3), (2, 0, 3)))
    order = d.one_of(2, 1, np.inf, 3, 0.5) if x.size else 2
    return (x,), {
        "axis": d.one_of(None, -1, *([(0, 1)] if x.ndim > 1 else [])),
        "keepdims": d.flip(),
        "ord": order,
    }


def norms(d: Draw) -> Any:
    x = d.matrices(2, 3)
    return (x,), {
        "keepdims": d.flip(),
        "ord": d.one_of("fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf),
    }


def on(make: Any) -> Any:
    return lambda d: ((make(d),), {})


def square(d: Draw) -> np.ndarray:
    return d.matrices()


def oblong(d: Draw) -> np.ndarray:
    return d.matrices(*d.one_of((3, 3), (2, 3), (3, 2)))


LINALG = {
    "cholesky": lambda d: ((d.hermitian(),), {"upper": d.flip()}),
    "cross": crossed,
    "det": on(square),
    "diagonal": lambda d: ((oblong(d),), {"offset": d.one_of(-1, 0, 1)}),
    "trace": lambda d: ((oblong(d),), {"offset": d.one_of(-1, 0, 1)}),
    "eigh": on(Draw.hermitian),
    "eigvalsh": on(Draw.hermitian),
    "inv": on(square),
    "slogdet": on(square),
    "solve": solved,
    "matmul": product,
    "vecdot": rows,
    "tensordot": COMPLEX_CALLS["tensordot"],
    "matrix_transpose": on(oblong),
    "matrix_norm": norms,
    "matrix_power": lambda d: ((square(d), d.one_of(-2, -1, 0, 1, 3)), {}),
    "matrix_rank": on(oblong),
    "pinv": on(oblong),
    "svdvals": on(oblong),
    "outer": lambda d: ((x := d.array(FLOATS, (3,)), x[:2]), {}),
    "qr": lambda d: ((oblong(d),), {"mode": d.one_of("reduced", "complete")}),
    "svd": lambda d: ((oblong(d),), {"full_matrices": d.flip()}),
    "vector_norm": vectors,
}


def transform(dtypes: tuple[str, ...], *, several: bool = False) -> Any:
    def make(d: Draw) -> Any:
        x = d.array(dtypes, d.one_of((5,), (2, 4), (2, 3, 4)))
        named: dict[str, Any] = {"norm": d.one_of("backward", "ortho", "forward")}
        if several:
            named["axes"] = d.one_of(None, (-1,), *([(0, 1), (-1, 0)] if x.ndim > 1 else []))
            lengths = (x.ndim,) if named["axes"] is None else (len(named["axes"]),)
            named["s"] = d.one_of(None, (4,) * lengths[0]) if named["axes"] is not None else None
        else:
            named |= {"axis": d.one_of(-1, 0), "n": d.one_of(None, 3, 6)}
        return (x,), named

    return make


def shifted(d: Draw) -> Any:
    x = d.array(FLOATS, d.one_of((5,), (2, 4)))
    return (x,), {"axes": d.one_of(None, 0, -1)}


FFT = {
    **dict.fromkeys(("fft", "ifft", "hfft"), transform(COMPLEXES)),
    **dict.fromkeys(("rfft", "ihfft"), transform(REALS)),
    "irfft": transform(COMPLEXES),
    **dict.fromkeys(("fftn", "ifftn", "irfftn"), transform(COMPLEXES, several=True)),
    "rfftn": transform(REALS, several=True),
    **dict.fromkeys(("fftshift", "ifftshift"), shifted),
    **dict.fromkeys(
        ("fftfreq", "rfftfreq"), lambda d: ((d.one_of(1, 4, 7),), {"d": d.one_of(1.0, 0.5)})
    ),
}

PRODUCTS = {
    "eigh": lambda parts: (
        (parts[1] * parts[0][..., None, :]) @ np.conj(np.swapaxes(parts[1], -1, -2))
    ),
    "qr": lambda parts: parts[0] @ parts[1],
    "svd": lambda parts: (
        parts[0][..., : parts[1].shape[-1]]
        * parts[1][..., None, :]
        @ parts[2][..., : parts[1].shape[-1], :]
    ),
}
"""Unique part of factors whose columns are determined up to sign or phase."""
DEFAULTS = {"fftfreq", "rfftfreq"}
"""Functions without array arguments, whose result has the default float dtype of the library."""


def translate(namespace: Any, value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return namespace.asarray(value)
    if isinstance(value, list):
        return [namespace.asarray(v) for v in value]
    return getattr(namespace, value.__name__) if isinstance(value, type) else value


def compare(name: str, found: Any, expected: Any) -> None:
    if isinstance(expected, tuple):
        assert len(found) == len(expected)
        if name in PRODUCTS:
            for a, b in zip(found, expected, strict=True):
                assert a.shape == b.shape
                assert a.numpy().dtype == np.asarray(b).dtype
            multiply = PRODUCTS[name]
            ours, theirs = (
                multiply([np.asarray(part) for part in parts]) for parts in (found, expected)
            )
            np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4)
            return
        for a, b in zip(found, expected, strict=True):
            compare(name, a, b)
        return
    ours, theirs = found.numpy(), np.asarray(expected)
    assert ours.shape == theirs.shape
    assert ours.dtype == theirs.dtype or name in DEFAULTS | {
        "nonzero",
        "count_nonzero",
        "matrix_rank",
    }
    tolerance = 2e-5 if ours.dtype in (np.float32, np.complex64) else 1e-11
    largest = float(np.max(np.abs(theirs), initial=1.0))
    np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance * largest)


CASES = [
    *((None, name, make) for name, make in COMPLEX_CALLS.items()),
    *(("linalg", name, make) for name, make in LINALG.items()),
    *(("fft", name, make) for name, make in FFT.items()),
]


def test_every_function_of_the_extensions_is_tried() -> None:
    for extension, calls in (("linalg", LINALG), ("fft", FFT)):
        names = getattr(xp, extension).__all__
        assert {n for n in names if inspect.isfunction(getattr(getattr(xp, extension), n))} == set(
            calls
        )


@pytest.mark.parametrize(
    ("extension", "name"),
    [(e, n) for e, names in (("linalg", LINALG), ("fft", FFT)) for n in names],
)
def test_a_function_has_the_signature_of_the_standard(extension: str, name: str) -> None:
    def describe(namespace: Any) -> list[tuple[Any, ...]]:
        function = getattr(getattr(namespace, extension), name)
        return [
            (p.name, p.kind, p.default) for p in inspect.signature(function).parameters.values()
        ]

    assert describe(sv) == describe(xp)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("extension", "name", "make"), CASES, ids=[f"{e or 'complex'}-{n}" for e, n, _ in CASES]
)
def test_a_function_agrees_with_the_oracle(extension: str | None, name: str, make: Any) -> None:
    @settings(max_examples=count_examples(4))
    @given(st.data())
    def check(data: st.DataObject) -> None:
        args, kwargs = make(Draw(data))
        results: list[Any] = []
        for namespace in (sv, xp):
            owner = namespace if extension is None else getattr(namespace, extension)
            given = [translate(namespace, v) for v in args]
            with np.errstate(all="ignore"):
                results.append(getattr(owner, name)(*given, **kwargs))
        compare(name, *results)

    check()
