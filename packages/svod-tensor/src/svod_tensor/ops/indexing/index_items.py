"""The items of an index: what each of them names on its axis, checked as far as it is known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias, cast

from svod_dtype import index as index_dtype, int64
from svod_ir import Op, OperandError, SInt, UOp, index_dtype_for, make_alu
from svod_ir.sizes import bounds_of_size, is_known_at_most, normalize_size
from svod_ir.uop import to_node
from svod_tensor._counters import is_counter
from svod_tensor._shapes import Shape, check_within
from svod_tensor._variable import explain_unbound
from svod_tensor.cells.registry import find_capture
from svod_tensor.errors import DataDependentShapeError, IndexKindError, IndexOutOfRangeError
from svod_tensor.ops.core.base import TensorBase

if TYPE_CHECKING:
    from types import EllipsisType

    import numpy as np
    from numpy.typing import NDArray
    from typing_extensions import TypeIs

    IndexItem: TypeAlias = (
        "int | slice | Sequence[int] | NDArray[np.generic] | TensorBase | UOp | EllipsisType | None"
    )
    Index: TypeAlias = "IndexItem | tuple[IndexItem, ...]"

_COUNTED: Final = frozenset({Op.ADD, Op.SUB, Op.MUL, Op.IDIV, Op.MOD, Op.MAX, Op.MIN, Op.NEG})

__all__ = [
    "Selected",
    "check_positions",
    "expand_index",
    "find_single_mask",
    "is_array_index",
    "read_values",
    "resolve_item",
    "resolve_position",
    "wrap_negative",
]


class Selected(NamedTuple):
    """Where a mask of known values holds, along one of its axes, which has `size` elements."""

    positions: NDArray[np.intp]
    size: int


def is_array_index(item: object) -> bool:
    return not (item is None or isinstance(item, (int, slice, UOp)))


def find_single_mask(index: object) -> TensorBase | np.bool_ | None:
    """The bool without axes that all of an index is: a tensor's, numpy's or Python's; None if it is
    anything else.
    """
    import numpy as np

    mask = _get_only(index)
    if isinstance(mask, bool):
        return np.bool_(mask)
    if isinstance(mask, TensorBase):
        return mask if mask.dtype.is_bool and not mask.ndim else None
    dtype, ndim = getattr(mask, "dtype", None), getattr(mask, "ndim", None)
    # numpy's dtype of bools is of the kind "b".
    is_bool = getattr(dtype, "kind", None) == "b" and ndim == 0
    return cast("np.bool_", mask) if is_bool else None


def _get_only(index: object) -> object:
    items = cast("tuple[object, ...]", index) if isinstance(index, tuple) else (index,)
    return items[0] if len(items) == 1 else None


def expand_index(index: tuple[object, ...], shape: Shape) -> tuple[IndexItem, ...]:
    """One item for each axis of `shape`, besides Nones: `...` written out, missing slices added,
    known masks made positions.

    Numbers of iterations that are known to be positions of an axis are sizes that vary, as
    variables are, not arrays."""
    ndim = len(shape)
    items = [part for item in index for part in _normalize_item(item)]
    n_axes = sum(item is not None and item is not Ellipsis for item in items)
    n_dots = sum(item is Ellipsis for item in items)
    if n_dots > 1:
        raise IndexKindError(found=index, problem="it has more than one ...")
    if n_axes > ndim:
        raise IndexKindError(found=index, problem=f"it has {n_axes} indices for {ndim} dimensions")
    missing: list[object] = [slice(None)] * (ndim - n_axes)
    dots = next((i for i, item in enumerate(items) if item is Ellipsis), None)
    if dots is None:
        items.extend(missing)
    else:
        items[dots : dots + 1] = missing
    if any(isinstance(item, TensorBase) or _has_tensors(item) for item in items):
        sizes = iter(shape)
        items = [item if item is None else _read_counter(item, next(sizes)) for item in items]
    return tuple(items)  # pyright: ignore[reportReturnType]


def _has_tensors(item: object) -> bool:
    """Whether `item` is a slice with an end that is a tensor."""
    return _is_slice(item) and (
        isinstance(item.start, TensorBase) or isinstance(item.stop, TensorBase)
    )


def _is_slice(item: object) -> TypeIs[slice[object, object, object]]:
    return isinstance(item, slice)


def _read_counter(item: object, size: SInt) -> object:
    """A number of an iteration as a node, where it is known to be a position of an axis; a slice
    with such ends.
    """
    if _is_slice(item):
        start, stop = (
            _find_counted(e) or e if isinstance(e, TensorBase) else e
            for e in (item.start, item.stop)
        )
        return slice(start, stop, item.step)
    position = _find_counted(item) if isinstance(item, TensorBase) else None
    if (
        position is None
        or bounds_of_size(position)[0] < 0
        or not is_known_at_most(position, normalize_size(size - 1))
    ):
        return item
    return position


def _find_counted(number: TensorBase) -> UOp | None:
    """A tensor of one integer that is made of constants and the numbers of iterations of loops, as
    a size; else None.
    """
    root = number.uop
    if not root.dtype.is_int or root.shape:
        return None
    nodes = root.toposort()
    if not any(map(is_counter, nodes)):
        return None
    done: dict[UOp, UOp] = {}
    for node in nodes:
        if node.op is Op.CONST:
            made = UOp.const(index_dtype, node.arg)
        elif node.op is Op.DEFINE_VAR or node.op is Op.BIND:
            made = node
        elif node.op is Op.CAST:
            made = done[node.source]
        elif node.op in _COUNTED:
            made = UOp(node.op, index_dtype, tuple([done[s] for s in node.src]))
        else:
            return None
        # Where the number wraps around in its dtype, it is no sum or product of sizes.
        if (
            node.dtype.is_int
            and node.dtype.kind != "index"
            and not node.dtype.min <= made.vmin <= made.vmax <= node.dtype.max
        ):
            return None
        done[node] = made
    return to_node(normalize_size(done[root]))


def _normalize_item(item: object) -> tuple[object, ...]:
    if isinstance(item, TensorBase) and item.dtype.is_bool:
        return _normalize_concrete(read_values(item, "indexing with a bool tensor"))
    if isinstance(item, bool):
        raise IndexKindError(found=item, problem="a bool is no position")
    if item is None or item is Ellipsis or isinstance(item, (int, slice, UOp, TensorBase)):
        return (item,)  # pyright: ignore[reportUnknownVariableType]
    return _normalize_concrete(item)


def _normalize_concrete(item: object) -> tuple[object, ...]:
    import numpy as np

    is_array = isinstance(item, (np.ndarray, np.integer))
    if not is_array and not isinstance(item, (list, tuple, range)):
        _reject_unbound(item)
        raise IndexKindError(found=item, problem=f"{type(item).__name__} is no index")  # pyright: ignore[reportUnknownArgumentType]
    if isinstance(item, np.integer):
        return (item.__index__(),)
    array = _to_numpy(item)  # pyright: ignore[reportUnknownArgumentType]
    if array.size == 0 and not is_array:
        array = array.astype(np.int64)
    if array.dtype == np.bool_ and not array.ndim:
        raise IndexKindError(
            found="a mask", problem="it has no axes, beside other indices: use where"
        )
    if array.dtype == np.bool_:
        return tuple(Selected(p, n) for p, n in zip(np.nonzero(array), array.shape, strict=True))
    if array.dtype.kind not in "iu":
        raise IndexKindError(found="a list or array", problem="its elements are no integers")
    return (array,)


def _to_numpy(item: object) -> NDArray[np.generic]:
    import numpy as np

    try:
        return np.asarray(item)
    except ValueError as error:
        raise IndexKindError(found="a list", problem="its rows have different lengths") from error


def read_values(
    values: object,
    operation: str,
    *,
    hint: str = "use mask.where(x, other), or compute it before the captured function is called",
) -> NDArray[np.generic]:
    """The elements that the shape of a result depends on; a tensor is computed.

    Args:
        values: a tensor or an array.
        operation: whose result it is.
        hint: what to do instead where a function is captured.

    Raises:
        DataDependentShapeError: if they are a tensor, and a function is captured just now.
        OperandError: if they are no array.
    """
    import numpy as np

    if isinstance(values, TensorBase) and find_capture() is not None:
        raise DataDependentShapeError(operation=operation, hint=hint)
    try:
        return np.asarray(values)
    except ValueError as error:
        raise OperandError(operation=operation, found=repr(values), expected="an array") from error


def resolve_item(item: IndexItem, size: SInt, axis: int) -> tuple[SInt, SInt, int]:
    """Begin, end and step of one axis; the whole axis where an array selects from it."""
    if isinstance(item, slice):
        return _resolve_slice(item, size, axis)
    if isinstance(item, (int, UOp)):
        begin = resolve_position(item, size, axis)
        return begin, normalize_size(begin + 1), 1
    return 0, size, 1


def resolve_position(item: SInt, size: SInt, axis: int) -> SInt:
    if isinstance(item, int) and isinstance(size, int):
        if not -size <= item < size:
            raise IndexOutOfRangeError(index=item, axis=axis, size=size)
        return size + item if item < 0 else item
    position = normalize_size(item + size if isinstance(item, int) and item < 0 else item)
    check_within("indexing", axis, position, 0, normalize_size(size - 1))
    return position


def _reject_unbound(value: object) -> None:
    hint = explain_unbound(value)
    if hint is not None:
        raise IndexKindError(found=value, problem="it has no value", hint=hint)


def _resolve_slice(item: slice, size: SInt, axis: int) -> tuple[SInt, SInt, int]:
    for bound in (item.start, item.stop, item.step):
        _reject_unbound(bound)
    step = 1 if item.step is None else item.step.__index__()
    if step == 0:
        raise IndexKindError(found=item, problem="the step is 0")
    if isinstance(size, UOp) or isinstance(item.start, UOp) or isinstance(item.stop, UOp):
        return _resolve_symbolic(item, size, step, axis)
    begin, end, step = item.indices(size)
    count = len(range(begin, end, step))
    if count == 0:
        return 0, 0, 1
    last = begin + (count - 1) * step
    return min(begin, last), max(begin, last) + 1, step


def _resolve_symbolic(item: slice, size: SInt, step: int, axis: int) -> tuple[SInt, SInt, int]:
    """Known bounds are clamped to the axis, as Python does; symbolic ones must lie in it for all
    values.
    """
    # A negative step begins at the element `start` and ends before `stop`: the ends of the part are
    # one higher.
    first, last = (item.start, item.stop) if step > 0 else (item.stop, item.start)
    shift = 0 if step > 0 else 1
    begin = 0 if first is None else _resolve_end(first, shift, size, axis)
    end = size if last is None else _resolve_end(last, shift, size, axis)
    return begin, normalize_size(to_node(begin).maximum(end)), step


def _resolve_end(bound: SInt, shift: int, size: SInt, axis: int) -> SInt:
    if isinstance(bound, UOp):
        place = normalize_size(bound + shift)
        check_within("indexing with a slice", axis, place, 0, size)
        return place
    place = (
        to_node(size) + (bound.__index__() + shift)
        if bound < 0
        else to_node(bound.__index__() + shift)
    )
    return normalize_size(place.maximum(0).minimum(size))


def check_positions(item: object, size: SInt, axis: int) -> UOp:
    """Known positions, checked, counted from the front, as a node."""
    import numpy as np

    array = _to_numpy(item)
    if array.size and array.dtype.kind not in "iu":
        raise IndexKindError(found=item, problem="positions are integers")
    array = array.astype(np.int64)
    if array.size:
        for extreme in (int(array.min()), int(array.max())):
            resolve_position(extreme, size, axis)
        array = np.where(array < 0, array + size, array) if isinstance(size, int) else array
    dtype = index_dtype_for(size)
    from svod_tensor._data import make_array_node

    is_known = isinstance(size, int) or not array.size or int(array.min()) >= 0
    node = (
        UOp.const(dtype, int(array))
        if array.ndim == 0
        else make_array_node(array.astype(dtype.numpy), may_share=True)
    )
    return node if is_known else wrap_negative(node, size)


def wrap_negative(positions: UOp, size: SInt) -> UOp:
    if not positions.dtype.is_signed:
        return positions
    if isinstance(size, int) and size > positions.dtype.max:
        positions = positions.cast(int64)
    dtype = positions.dtype
    length = size.cast(dtype) if isinstance(size, UOp) else UOp.const(dtype, size)
    from_end = make_alu(Op.ADD, positions, length)
    return make_alu(Op.WHERE, make_alu(Op.LT, positions, UOp.const(dtype, 0)), from_end, positions)
