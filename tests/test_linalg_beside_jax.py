"""Values and derivatives of linear algebra agree with JAX, if installed (`tox run -e
derivatives-jax`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from svod_tensor import Tensor, vjp
from svod_testing.derivatives.linalg_cases import CASES, MatrixCase, draw

jax = pytest.importorskip("jax", reason="jax is not installed", exc_type=ImportError)
PRECISION = {"float64": 1e-9, "float32": 2e-3, "complex128": 1e-9}


def flatten(found: Any) -> tuple[Any, ...]:
    """Real and imaginary parts of all results."""
    results = tuple(found) if isinstance(found, (tuple, list)) else (found,)
    return tuple(part for x in results for part in ((x.real, x.imag) if is_complex(x) else (x,)))


def is_complex(x: Any) -> bool:
    return x.dtype.is_complex if isinstance(x, Tensor) else x.dtype.kind == "c"


def join(parts: tuple[Any, ...]) -> list[Any]:
    """Complex numbers from real and imaginary parts."""
    pairs = zip(parts[::2], parts[1::2], strict=True)
    return [x.complex(y) if isinstance(x, Tensor) else jax.lax.complex(x, y) for x, y in pairs]


@pytest.fixture(autouse=True)
def wide() -> Any:
    # The scipy functions are in a separate module.
    import jax.scipy.linalg

    with jax.enable_x64(True):
        yield


@pytest.mark.parametrize("dtype", PRECISION)
@pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in CASES])
def test_values_and_cotangents_agree(case: MatrixCase, dtype: str) -> None:
    rng = np.random.default_rng(11)
    arrays = draw(rng, case, dtype)
    read = list
    if dtype == "complex128":
        arrays, read = [part for a in arrays for part in (a.real, a.imag)], join
    value, pull = vjp(lambda *args: flatten(case.call(*read(args))), *map(Tensor, arrays))
    theirs, their_pull = jax.vjp(
        lambda *args: flatten(case.peer(jax, *read(args))), *map(jax.numpy.asarray, arrays)
    )
    tolerance = PRECISION[dtype]
    cotangents = []
    for ours, other in zip(value, theirs, strict=True):
        np.testing.assert_allclose(
            ours.numpy(), other, rtol=tolerance, atol=tolerance * max(1, np.abs(other).max())
        )
        cotangents.append(np.asarray(rng.normal(size=other.shape)).astype(other.dtype))
    found = pull(tuple(map(Tensor, cotangents)))
    expected = their_pull(tuple(map(jax.numpy.asarray, cotangents)))
    for ours, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(
            ours.numpy(), other, rtol=tolerance, atol=tolerance * max(1, np.abs(other).max())
        )
