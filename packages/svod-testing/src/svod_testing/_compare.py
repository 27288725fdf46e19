"""Inputs of every dtype, and comparison with numpy.

Example:
    >>> import numpy as np
    >>> from svod_tensor import Tensor
    >>> from svod_testing import check, make_array
    >>> make_array(np.random.default_rng(0), (4,), "int8").tolist()
    [70, 27, 2, -47]
    >>> check(Tensor([0.1]) + Tensor([0.2]), np.array([0.3], "float32"))
    >>> check(Tensor([1, 2], dtype="int32"), np.array([1, 2], "int16"))
    Traceback (most recent call last):
        ...
    AssertionError: dtype int32 instead of int16...
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    from svod_tensor import Tensor

__all__ = ["SHAPES", "check", "make_array"]

SHAPES: Final[tuple[tuple[int, ...], ...]] = (
    (),
    (1,),
    (5,),
    (0,),
    (3, 0, 2),
    (1, 1),
    (7, 13),
    (2, 3, 5),
    (37, 64),
    (4, 1, 6),
)
"""Shapes that are 0-d, empty, of size 1, of prime sizes, and larger than a tile."""

_TOLERANCE: Final = {"float16": 2e-3, "bfloat16": 2e-2, "float32": 2e-6, "float64": 1e-12}


def check(
    tensor: Tensor, expected: ArrayLike, *, rtol: float | None = None, atol: float | None = None
) -> None:
    """Assert that a tensor equals a NumPy result: its dtype, shape and, within rounding, values.

    Args:
        tensor: tensor to check.
        expected: expected array.
        rtol: relative tolerance of floats; the default depends on the dtype.
        atol: absolute tolerance of floats, by default the relative one.
    """
    import numpy as np

    reference = np.asarray(expected)
    actual = tensor.numpy()
    assert actual.shape == reference.shape, f"shape {actual.shape} instead of {reference.shape}"
    assert actual.dtype == reference.dtype, f"dtype {actual.dtype} instead of {reference.dtype}"
    if reference.dtype.kind in "biu":
        np.testing.assert_array_equal(actual, reference)
        return
    tolerance = _TOLERANCE.get(reference.dtype.name, 0.0) if rtol is None else rtol
    np.testing.assert_allclose(
        actual.astype(np.float64),
        reference.astype(np.float64),
        rtol=tolerance,
        atol=tolerance if atol is None else atol,
    )


def make_array(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> NDArray[np.generic]:
    """Return random values of `shape` and `dtype`, small enough for products.

    Floats are normal with standard deviation 3. Integers are uniform in [-100, 100), or in [0, 100)
    if unsigned; bools are False and True with equal probability.
    """
    import numpy as np

    kind = np.dtype(dtype)
    if kind.kind == "b":
        return np.asarray(rng.integers(0, 2, shape)).astype(kind)
    if kind.kind == "u":
        return np.asarray(rng.integers(0, 100, shape)).astype(kind)
    if kind.kind == "i":
        return np.asarray(rng.integers(-100, 100, shape)).astype(kind)
    return np.asarray(rng.standard_normal(shape) * 3).astype(kind)
