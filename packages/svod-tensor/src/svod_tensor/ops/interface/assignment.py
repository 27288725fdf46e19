"""In-place writes: `x.assign(value)` and `x[index] = value`, with numpy's semantics;
`operators.py` has `x += value`.

All views of the written elements see the new values, and graphs that were built before keep the old
values. A realized tensor is written in place, and a prepared plan writes again at each execution; a
lazy tensor is rebound to the new values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from svod_tensor._shapes import broadcast_node
from svod_tensor.cells import writing
from svod_tensor.cells.views import is_shard, is_writable
from svod_tensor.errors import AssignmentDtypeError, RepeatedWriteError, ShardError
from svod_tensor.ops.core.base import TensorBase
from svod_tensor.ops.core.operands import as_value, make_result
from svod_tensor.ops.core.operation import operation, special_method
from svod_tensor.ops.indexing.gathering import view_items
from svod_tensor.ops.indexing.index_items import expand_index, find_single_mask, is_array_index
from svod_tensor.ops.indexing.updates import check_value, replace_items

if TYPE_CHECKING:
    from svod_tensor.ops.core.base import Operand
    from svod_tensor.ops.indexing.index_items import Index
    from svod_tensor.tensor import Tensor

__all__ = ["assign", "write"]


@operation(
    test="test_assignment.py::test_assigning_replaces_the_elements_and_returns_the_tensor",
    is_function=False,
)
def assign(x: Tensor, /, value: Operand) -> Tensor:
    """Write `value`, which broadcasts, to this tensor in place, and return the tensor.

    Aliases of the elements (slices, reshapes, transposes, flips, expansions, and the base of a
    view) see the new values. Results built on the old values keep them. The write is lazy: it runs
    when a reader of the new values is realized or prepared, and a plan prepared from such a result
    writes at each execution.

    Memory that is shared with a numpy array is never written: the tensor is copied first.

    Raises:
        AssignmentDtypeError: if `value` is a tensor of a different dtype.
        ShapeError: if `value` does not broadcast to the shape of this tensor.
        DeviceMismatchError: if `value` is a tensor on another device.
        ShardError: if this tensor is a shard of another tensor.
        RepeatedWriteError: if this tensor repeats elements, as `expand` does.
        ReadOnlyError: if this tensor is a file on DISK.

    Example:
        >>> from svod_tensor import Tensor
        >>> x = Tensor([1, 2, 3, 4])
        >>> y = x.reshape(2, 2)
        >>> x.assign(x * 10).tolist(), y.tolist()
        ([10, 20, 30, 40], [[10, 20], [30, 40]])
    """
    # `x[index] = value` casts instead, as in numpy.
    if isinstance(value, TensorBase) and value.dtype is not x.dtype:
        raise AssignmentDtypeError(target=x.dtype, value=value.dtype)
    write(x, as_value(value, x))
    return x


@special_method("assignment")
def __setitem__(x: Tensor, index: Index, value: Operand, /) -> None:
    """Write `value` to the elements at `index`, as `assign` does; for repeated indices, the last
    value is kept.

    Args:
        index: as for `x[index]`, and masks that are tensors.
        value: broadcasts to the shape of `x[index]`, and is cast to the dtype of this tensor.

    Raises:
        DataDependentShapeError: in a captured function, if several values are assigned to a mask
            that is a tensor.
        BroadcastError: if the value does not broadcast.
        RepeatedWriteError: if this tensor repeats elements, as `expand` does.

    Example:
        >>> from svod_tensor import Tensor
        >>> x = Tensor([1, 2, 3, 4])
        >>> x[1:3] = 0
        >>> x.tolist()
        [1, 0, 0, 4]
    """
    new = as_value(value, x)
    if _has_arrays(x, index):
        # The elements of an index array form no view: the new values are those of the whole tensor.
        write(x, replace_items(x, index, new, is_written=True))
    else:
        write(view_items(x, index), new)


def write(x: Tensor, value: TensorBase) -> None:
    """Write `value`, which has the dtype of `x` and broadcasts to its shape.

    Raises:
        ShardError: if `x` is a shard of another tensor.
        RepeatedWriteError: if `x` repeats elements.
    """
    # Replicated shards have the same elements, and a write to one of them would make them differ.
    if is_shard(x.content.path):
        raise ShardError(
            devices=(str(x.device),),
            operation="assign",
            problem="a shard is a view of another tensor",
            hint="assign to that tensor, as in x[index] = value",
        )
    # One element of memory would have to take several values.
    if not is_writable(x.content.path):
        raise RepeatedWriteError(shape=x.shape)
    if value.uop is x.uop:
        # `x[1:] += y` has already written to the view when Python assigns the view to `x[1:]`.
        return
    check_value("a tensor", value.shape, x.shape)
    # make_result also checks the devices.
    wide = make_result(broadcast_node(value.uop, x.shape), x, value)
    writing.write(x.content.cell, x.content.path, wide.uop)


def _has_arrays(x: Tensor, index: Index) -> bool:
    if (isinstance(index, TensorBase) and index.ndim) or find_single_mask(index) is not None:
        return True
    return any(
        map(is_array_index, expand_index(index if isinstance(index, tuple) else (index,), x.shape))
    )
