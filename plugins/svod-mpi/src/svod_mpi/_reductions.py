"""Reductions of MPI for the dtypes and rules of tensors.

MPI's own operations are used where they mean the same. Its MAX and MIN leave open what happens to
NaN, and it has no types for bfloat16, float16 and 8-bit floats: for these numpy combines the
elements, as in a kernel.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from mpi4py import MPI

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

__all__ = ["NAMES", "get_operation", "get_type", "reduce_in_order"]

_FUNCTIONS: Final[dict[str, np.ufunc]] = {
    "add": np.add,
    "mul": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}
_NATIVE: Final[dict[str, MPI.Op]] = {
    "add": MPI.SUM,
    "mul": MPI.PROD,
    "max": MPI.MAX,
    "min": MPI.MIN,
    "and": MPI.BAND,
    "or": MPI.BOR,
    "xor": MPI.BXOR,
}
NAMES: Final = tuple(_FUNCTIONS)
"""Names of reductions."""


@lru_cache(maxsize=64)
def get_type(dtype: np.dtype[Any]) -> MPI.Datatype:
    """The type of MPI for elements of a dtype: its own, or bytes."""
    if dtype.kind in "iuf" and dtype.isbuiltin == 1 and dtype != np.float16:
        return MPI.Datatype.fromcode(dtype.char)
    return MPI.BYTE.Create_contiguous(dtype.itemsize).Commit()


@lru_cache(maxsize=256)
def get_operation(name: str, dtype: np.dtype[Any]) -> MPI.Op:
    """The operation of MPI that combines elements of a dtype."""
    is_native = dtype.kind in "iuf" and dtype.isbuiltin == 1 and dtype != np.float16
    if is_native and not (dtype.kind == "f" and name in ("max", "min")):
        return _NATIVE[name]
    return MPI.Op.Create(_make_combine(_FUNCTIONS[name], dtype), commute=True)


def _make_combine(
    function: np.ufunc, dtype: np.dtype[Any]
) -> Callable[[Any, Any, MPI.Datatype], None]:
    def combine(left: Any, right: Any, _: MPI.Datatype) -> None:
        target: NDArray[Any] = np.frombuffer(right, dtype)
        target[:] = function(np.frombuffer(left, dtype), target)

    return combine


def reduce_in_order(name: str, parts: NDArray[Any], out: NDArray[Any]) -> None:
    """Combine parts along the first axis from the first process to the last."""
    function = _FUNCTIONS[name]
    out[...] = parts[0]
    for part in parts[1:]:
        function(out, part, out=out)
