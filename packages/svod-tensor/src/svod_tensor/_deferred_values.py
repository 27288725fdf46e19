"""Deferred tensors: values that are computed once, before the first read, and not at all if another
value is assigned first.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from svod_tensor._random_keys import keep_samples
from svod_tensor.cells import deferred
from svod_tensor.cells.registry import check_not_capturing, find_capture
from svod_tensor.tensor import Tensor

__all__ = ["defer_values", "is_deferred", "realize_deferred"]

T = TypeVar("T", bound=Tensor)


def defer_values(tensor: T) -> T:
    """Mark a tensor that is not computed yet as an initial value, and return it.

    It is computed in memory of its own before a captured function reads it, and never if another
    value is assigned before. Without the mark a captured function computes such a tensor at each
    call. Its random numbers are sampled by the calls that built it, whenever they are computed. A
    copy of a deferred tensor is deferred too.

    Raises:
        CaptureError: if a function is being captured, which would sample anew at each call.

    Example:
        >>> from svod_tensor import Tensor, defer_values, realize_deferred
        >>> weight = defer_values(Tensor.rand(2, 3))
        >>> weight.is_realized, weight.assign(Tensor.ones(2, 3)).tolist()
        (False, [[1.0, 1.0, 1.0], [1.0, 1.0, 1.0]])
    """
    check_not_capturing("makes initial values")
    content = tensor.content
    if not content.cell.is_realized and tensor.size != 0:
        # Otherwise a plan would sample the initial values anew at each execution.
        keep_samples(content.node)
        deferred.add(content.cell)
    return tensor


def is_deferred(tensor: Tensor) -> bool:
    """Whether a tensor is deferred, and neither computed nor assigned in memory yet.

    Example:
        >>> from svod_tensor import Tensor, defer_values, is_deferred
        >>> weight = defer_values(Tensor.rand(2, 3))
        >>> before = is_deferred(weight)
        >>> before, is_deferred(weight.realize())
        (True, False)
    """
    return deferred.has_entries() and bool(deferred.list_deferred([tensor.content.cell]))


def realize_deferred(tensors: Iterable[Tensor]) -> None:
    """Compute the deferred tensors among `tensors` together.

    If no tensor is deferred, nothing is done and `tensors` is not iterated. While a function is
    captured nothing is computed either: the tensors that it reads are computed and it is captured
    again.

    Example:
        >>> from svod_tensor import Tensor, defer_values, realize_deferred
        >>> weight, bias = defer_values(Tensor.rand(2, 3)), defer_values(Tensor.zeros(3))
        >>> realize_deferred([weight, bias])
        >>> weight.is_realized, bias.is_realized
        (True, True)
    """
    # `tensors` may be all parameters of a network, at each call of it.
    if not deferred.has_entries() or find_capture() is not None:
        return
    cells = deferred.list_deferred([tensor.content.cell for tensor in tensors])
    if cells:
        Tensor.realize_batch([Tensor.from_content(cell) for cell in cells])
        deferred.discard(cells)
