"""Items of an index: normalization to one item per axis, with checks of known values."""

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

_COUNTER_OPS: Final = frozenset({Op.ADD, Op.SUB, Op.MUL, Op.IDIV, Op.MOD, Op.MAX, Op.MIN, Op.NEG})

__all__ = [
    "NonzeroIndices",
    "check_indices",
    "expand_index",
    "find_single_mask",
    "index_dtype_problem",
    "is_array_index",
    "read_values",
    "resolve_index",
    "resolve_item",
    "wrap_negative",
]


class NonzeroIndices(NamedTuple):
    """Indices of a known mask's True elements along one of its axes, which has `size` elements."""

    indices: NDArray[np.intp]
    size: int


def is_array_index(item: object) -> bool:
    return not (item is None or isinstance(item, (int, slice, UOp)))


def find_single_mask(index: object) -> TensorBase | np.bool_ | None:
    """Return the only item of an index if it is a 0-d bool of svod, numpy or Python, else None."""
    import numpy as np

    mask = _get_only(index)
    if isinstance(mask, bool):
        return np.bool_(mask)
    if isinstance(mask, TensorBase):
        return mask if mask.dtype.is_bool and not mask.ndim else None
    dtype, ndim = getattr(mask, "dtype", None), getattr(mask, "ndim", None)
    # "b" is the kind of numpy's bool dtype.
    is_bool = getattr(dtype, "kind", None) == "b" and ndim == 0
    return cast("np.bool_", mask) if is_bool else None


def _get_only(index: object) -> object:
    items = cast("tuple[object, ...]", index) if isinstance(index, tuple) else (index,)
    return items[0] if len(items) == 1 else None


def expand_index(index: tuple[object, ...], shape: Shape) -> tuple[IndexItem, ...]:
    """Normalize an index to one item per axis of `shape`, besides Nones: expand `...`, add missing
    slices, convert known masks to indices.

    A loop counter that is provably in range is an index like a variable, not an array."""
    ndim = len(shape)
    items = [normalized for item in index for normalized in _normalize_item(item)]
    n_axes = sum(item is not None and item is not Ellipsis for item in items)
    n_dots = sum(item is Ellipsis for item in items)
    if n_dots > 1:
        raise IndexKindError(
            found=index, problem="an index can only have a single ellipsis ('...')"
        )
    if n_axes > ndim:
        problem = (
            f"too many indices for tensor: tensor is {ndim}-dimensional, but {n_axes} were indexed"
        )
        raise IndexKindError(found=index, problem=problem)
    missing: list[object] = [slice(None)] * (ndim - n_axes)
    ellipsis_index = next((i for i, item in enumerate(items) if item is Ellipsis), None)
    if ellipsis_index is None:
        items.extend(missing)
    else:
        items[ellipsis_index : ellipsis_index + 1] = missing
    if any(isinstance(item, TensorBase) or _has_tensor_bounds(item) for item in items):
        sizes = iter(shape)
        items = [item if item is None else _convert_counters(item, next(sizes)) for item in items]
    return tuple(items)  # pyright: ignore[reportReturnType]


def _has_tensor_bounds(item: object) -> bool:
    """True if `item` is a slice with a tensor as start or stop."""
    return _is_slice(item) and (
        isinstance(item.start, TensorBase) or isinstance(item.stop, TensorBase)
    )


def _is_slice(item: object) -> TypeIs[slice[object, object, object]]:
    return isinstance(item, slice)


def _convert_counters(item: object, size: SInt) -> object:
    """Convert a loop counter that is provably in range, or a slice of loop counters, to nodes."""
    if _is_slice(item):
        start, stop = (
            _find_counter_size(e) or e if isinstance(e, TensorBase) else e
            for e in (item.start, item.stop)
        )
        return slice(start, stop, item.step)
    index = _find_counter_size(item) if isinstance(item, TensorBase) else None
    if (
        index is None
        or bounds_of_size(index)[0] < 0
        or not is_known_at_most(index, normalize_size(size - 1))
    ):
        return item
    return index


def _find_counter_size(scalar: TensorBase) -> UOp | None:
    """Convert a 0-d integer tensor computed from constants and loop counters to a size; else None."""
    root = scalar.uop
    if not root.dtype.is_int or root.shape:
        return None
    nodes = root.toposort()
    if not any(map(is_counter, nodes)):
        return None
    done: dict[UOp, UOp] = {}
    for node in nodes:
        if node.op is Op.CONST:
            size = UOp.const(index_dtype, node.arg)
        elif node.op is Op.DEFINE_VAR or node.op is Op.BIND:
            size = node
        elif node.op is Op.CAST:
            size = done[node.source]
        elif node.op in _COUNTER_OPS:
            size = UOp(node.op, index_dtype, tuple([done[s] for s in node.src]))
        else:
            return None
        # A value that may wrap around in its dtype is not equal to the arithmetic on sizes.
        if (
            node.dtype.is_int
            and node.dtype.kind != "index"
            and not node.dtype.min <= size.vmin <= size.vmax <= node.dtype.max
        ):
            return None
        done[node] = size
    return to_node(normalize_size(done[root]))


def _normalize_item(item: object) -> tuple[object, ...]:
    if isinstance(item, TensorBase) and item.dtype.is_bool:
        return _normalize_concrete(read_values(item, "indexing with a bool tensor"))
    if isinstance(item, bool):
        raise IndexKindError(found=item, problem="a bool is not an integer")
    if item is None or item is Ellipsis or isinstance(item, (int, slice, UOp, TensorBase)):
        return (item,)  # pyright: ignore[reportUnknownVariableType]
    return _normalize_concrete(item)


def _normalize_concrete(item: object) -> tuple[object, ...]:
    import numpy as np

    is_array = isinstance(item, (np.ndarray, np.integer))
    if not is_array and not isinstance(item, (list, tuple, range)):
        _reject_unbound(item)
        raise IndexKindError(found=item, problem=f"{type(item).__name__} is not a valid index")  # pyright: ignore[reportUnknownArgumentType]
    if isinstance(item, np.integer):
        return (item.__index__(),)
    array = _to_numpy(item)  # pyright: ignore[reportUnknownArgumentType]
    # numpy makes floats of an empty list, which indexes all the same.
    if array.size == 0 and not is_array:
        array = array.astype(np.int64)
    if array.dtype == np.bool_ and not array.ndim:
        raise IndexKindError(
            found="a mask", problem="a 0-d mask cannot be combined with other indices: use where"
        )
    if array.dtype == np.bool_:
        return tuple(
            NonzeroIndices(p, n) for p, n in zip(np.nonzero(array), array.shape, strict=True)
        )
    if array.dtype.kind not in "iu":
        raise IndexKindError(found="a list or array", problem=index_dtype_problem(array.dtype))
    return (array,)


def _to_numpy(item: object) -> NDArray[np.generic]:
    import numpy as np

    try:
        return np.asarray(item)
    except ValueError as error:
        raise IndexKindError(found="a list", problem="its rows differ in length") from error


def read_values(
    values: object,
    operation: str,
    *,
    hint: str = "use mask.where(x, other), or compute it before the captured function is called",
) -> NDArray[np.generic]:
    """Read the values that the shape of a result depends on; a tensor is realized.

    Args:
        values: a tensor or an array.
        operation: name of the operation.
        hint: what to write instead in a captured function.

    Raises:
        DataDependentShapeError: if `values` is a tensor and a function is being captured.
        OperandError: if `values` cannot be converted to an array.
    """
    import numpy as np

    if isinstance(values, TensorBase) and find_capture() is not None:
        raise DataDependentShapeError(operation=operation, hint=hint)
    try:
        return np.asarray(values)
    except ValueError as error:
        raise OperandError(operation=operation, found=repr(values), expected="an array") from error


def resolve_item(item: IndexItem, size: SInt, axis: int) -> tuple[SInt, SInt, int]:
    """Return begin, end and step of a basic index on one axis; the whole axis for an array index."""
    if isinstance(item, slice):
        return _resolve_slice(item, size, axis)
    if isinstance(item, (int, UOp)):
        begin = resolve_index(item, size, axis)
        return begin, normalize_size(begin + 1), 1
    return 0, size, 1


def resolve_index(item: SInt, size: SInt, axis: int) -> SInt:
    if isinstance(item, int) and isinstance(size, int):
        if not -size <= item < size:
            raise IndexOutOfRangeError(index=item, axis=axis, size=size)
        return size + item if item < 0 else item
    index = _count_from_start(item, size)
    check_within("indexing", axis, index, 0, normalize_size(size - 1))
    return index


def _count_from_start(index: SInt, size: SInt) -> SInt:
    """Add the size to an index that is negative for all values of its variables, as Python does."""
    return normalize_size(index + size if bounds_of_size(index)[1] < 0 else index)


def _reject_unbound(value: object) -> None:
    hint = explain_unbound(value)
    if hint is not None:
        raise IndexKindError(found=value, problem="it has no value", hint=hint)


def _resolve_slice(item: slice, size: SInt, axis: int) -> tuple[SInt, SInt, int]:
    for bound in (item.start, item.stop, item.step):
        _reject_unbound(bound)
    step = 1 if item.step is None else item.step.__index__()
    if step == 0:
        raise IndexKindError(found=item, problem="slice step cannot be zero")
    if isinstance(size, UOp) or isinstance(item.start, UOp) or isinstance(item.stop, UOp):
        return _resolve_symbolic(item, size, step, axis)
    begin, end, step = item.indices(size)
    count = len(range(begin, end, step))
    # Python's bounds of an empty slice may lie outside of the axis.
    if count == 0:
        return 0, 0, 1
    last = begin + (count - 1) * step
    return min(begin, last), max(begin, last) + 1, step


def _resolve_symbolic(item: slice, size: SInt, step: int, axis: int) -> tuple[SInt, SInt, int]:
    """Resolve a slice with symbolic parts: known bounds are clamped to the axis, as in Python;
    symbolic bounds must be in range for all values. Negative ones count from the end.
    """
    # A negative step includes `start` and excludes `stop`, so both bounds of the interval are one
    # higher.
    first, last = (item.start, item.stop) if step > 0 else (item.stop, item.start)
    shift = 0 if step > 0 else 1
    begin = 0 if first is None else _resolve_end(first, shift, size, axis)
    end = size if last is None else _resolve_end(last, shift, size, axis)
    return begin, normalize_size(to_node(begin).maximum(end)), step


def _resolve_end(bound: SInt, shift: int, size: SInt, axis: int) -> SInt:
    if isinstance(bound, UOp):
        end = normalize_size(_count_from_start(bound, size) + shift)
        check_within("indexing with a slice", axis, end, 0, size)
        return end
    end = (
        to_node(size) + (bound.__index__() + shift)
        if bound < 0
        else to_node(bound.__index__() + shift)
    )
    return normalize_size(end.maximum(0).minimum(size))


def index_dtype_problem(dtype: object) -> str:
    """Message about indices of a wrong dtype."""
    return f"arrays used as indices must be of integer or boolean type, not {dtype}"


def check_indices(item: object, size: SInt, axis: int) -> UOp:
    """Check known indices and convert them to a node of non-negative indices."""
    import numpy as np

    array = _to_numpy(item)
    if array.size and array.dtype.kind not in "iu":
        raise IndexKindError(found=item, problem=index_dtype_problem(array.dtype))
    array = array.astype(np.int64)
    if array.size:
        # If the extremes are in range, so are all others.
        for extreme in (int(array.min()), int(array.max())):
            resolve_index(extreme, size, axis)
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


def wrap_negative(indices: UOp, size: SInt) -> UOp:
    if not indices.dtype.is_signed:
        return indices
    # The size is added in the dtype of the indices, and must not wrap around in it.
    if isinstance(size, int) and size > indices.dtype.max:
        indices = indices.cast(int64)
    dtype = indices.dtype
    length = size.cast(dtype) if isinstance(size, UOp) else UOp.const(dtype, size)
    from_end = make_alu(Op.ADD, indices, length)
    return make_alu(Op.WHERE, make_alu(Op.LT, indices, UOp.const(dtype, 0)), from_end, indices)
