"""Comparison of captured functions with the plain ones, under `SVOD_CHECK`: it finds values that no
guard checks.

Guards see no elements of numpy arrays, no values inside objects of C extensions, and nothing that a
property or another function reads from files, clocks or other processes."""

from __future__ import annotations

from collections.abc import Callable

from svod_tensor._trees import flatten
from svod_tensor.errors import StaleCaptureError
from svod_tensor.tensor import Tensor

__all__ = ["check_result"]


def check_result(name: str, result: object, compute: Callable[[], object]) -> None:
    """Compare the results of a captured function and of the plain one.

    Floats may differ by half of their digits: a plan computes in another order.

    Args:
        name: name of the function.
        result: result of the captured function.
        compute: calls the plain one.

    Raises:
        StaleCaptureError: if they differ.
    """
    leaves, structure = flatten(result)
    expected, expected_structure = flatten(compute())
    difference = structure.find_difference(expected_structure)
    if difference is not None:
        raise StaleCaptureError(
            function=name, path=difference.path, result=difference.left, expected=difference.right
        )
    for path, ours, plain in zip(structure.paths, leaves, expected, strict=True):
        if isinstance(ours, Tensor) and isinstance(plain, Tensor) and not _are_close(ours, plain):
            raise StaleCaptureError(
                function=name, path=path, result=_show(ours), expected=_show(plain)
            )


def _are_close(left: Tensor, right: Tensor) -> bool:
    if left.dtype is not right.dtype or left.shape != right.shape:
        return False
    import numpy as np

    dtype = left.dtype
    if not (dtype.is_float or dtype.is_complex):
        return bool(np.array_equal(left.numpy(), right.numpy()))
    wide = np.complex128 if dtype.is_complex else np.float64
    # Widened first: a difference of two float16 values may overflow or round.
    a, b = left.numpy().astype(wide), right.numpy().astype(wide)
    finite = np.abs(b[np.isfinite(b)])
    # Half of the bits of an element or of a part of it.
    tolerance = 2.0 ** (-4 * dtype.part.itemsize)
    return bool(
        # The absolute tolerance follows the largest element: one that cancels to nearly zero has
        # the error of its summands.
        np.allclose(a, b, rtol=tolerance, atol=tolerance * finite.max(initial=0.0), equal_nan=True)
    )


def _show(tensor: Tensor) -> str:
    return " ".join(repr(tensor).split())
