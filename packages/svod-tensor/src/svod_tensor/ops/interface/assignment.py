"""Writing to tensors: `x.assign(value)` and `x[index] = value`, with the meaning of numpy;
`operators.py` has `x += value`.

All views of what is written see the new values, and graphs that were built before keep the old
ones. A tensor that has memory is written in place, and a prepared plan writes again each time it is
executed; one without stands for the new values."""

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
from svod_tensor.ops.indexing.updates import check_value

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
    """Write the elements of `value`, which broadcasts to its shape, to this tensor, and return it.

    Views of the same elements (slices, reshapes, transposes, flips, expansions) see the new ones,
    and what this tensor is a view of has them. Results that were built on the old elements keep
    them. Nothing is computed before something that reads the new elements is realized or prepared;
    a plan that was prepared from such results writes at each execution.

    Memory that is shared with a numpy array is never written: the tensor gets a copy of its own
    first.

    Raises:
        AssignmentDtypeError: if `value` is a tensor of another dtype.
        ShapeError: if it does not broadcast to this shape.
        DeviceMismatchError: if it is on another device.
        ShardError: if this tensor is one of the shards of another one.
        RepeatedWriteError: if this tensor repeats elements, as `expand` does.
        ReadOnlyError: if this tensor is a file on DISK.

    Example:
        >>> x = Tensor([1, 2, 3, 4])
        >>> y = x.reshape(2, 2)
        >>> x.assign(x * 10).tolist(), y.tolist()
        ([10, 20, 30, 40], [[10, 20], [30, 40]])
    """
    if isinstance(value, TensorBase) and value.dtype is not x.dtype:
        raise AssignmentDtypeError(target=x.dtype, value=value.dtype)
    write(x, as_value(value, x))
    return x


@special_method("assignment")
def __setitem__(x: Tensor, index: Index, value: Operand, /) -> None:
    """Let the elements at `index` be those of `value`, as `assign` does; of several values for one
    place, the last stays.

    Args:
        index: as for reading, and masks that are tensors.
        value: broadcasts to the shape of `x[index]`, and gets the dtype of this tensor.

    Raises:
        DataDependentShapeError: in a function that is captured, if several values are given for a
            mask that is a tensor.
        BroadcastError: if the value does not broadcast.
        RepeatedWriteError: if this tensor repeats elements, as `expand` does.

    Example:
        >>> x = Tensor([1, 2, 3, 4])
        >>> x[1:3] = 0
        >>> x.tolist()
        [1, 0, 0, 4]
    """
    new = as_value(value, x)
    if _has_arrays(x, index):
        write(x, x.with_items(index, new))
    else:
        write(view_items(x, index), new)


def write(x: Tensor, value: TensorBase) -> None:
    """Write `value`, which has the dtype of `x` and broadcasts to its shape.

    Raises:
        ShardError: if `x` is one of the shards of another tensor.
        RepeatedWriteError: if `x` repeats elements.
    """
    if is_shard(x.content.path):
        raise ShardError(
            devices=(str(x.device),),
            operation="assign",
            problem="a shard is a part of another tensor",
            hint="assign to that one, as in x[index] = value",
        )
    if not is_writable(x.content.path):
        raise RepeatedWriteError(shape=x.shape)
    if value.uop is x.uop:
        # `x[1:] += y` has written to the view already when Python puts it back.
        return
    check_value("a tensor", value.shape, x.shape)
    # Checks the devices too.
    wide = make_result(broadcast_node(value.uop, x.shape), x, value)
    writing.write(x.content.cell, x.content.path, wide.uop)


def _has_arrays(x: Tensor, index: Index) -> bool:
    if (isinstance(index, TensorBase) and index.ndim) or find_single_mask(index) is not None:
        return True
    return any(
        map(is_array_index, expand_index(index if isinstance(index, tuple) else (index,), x.shape))
    )
