"""Writing to the memory of tensors: `x.assign(value)` and `x[index] = value`, with the meaning of numpy.

A tensor that is a buffer, or a slice, reshape, transpose or flip of one, is written in place: its other views see the
new values, graphs that were built before keep the old ones, and a prepared plan writes again each time it
is executed. A tensor that is computed but has no memory yet just stands for the new values.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Self

from svod_device import ReadOnlyError
from svod_tensor import registry, states
from svod_tensor.capture import find_capture
from svod_tensor.errors import AssignmentDtypeError, ShardError
from svod_tensor.ops.base import TensorBase
from svod_tensor.ops.indexing import expand_index, is_array_index
from svod_tensor.ops.naming import operations
from svod_tensor.ops.standard import Standard
from svod_tensor.ops.update import check_value
from svod_tensor.shapes import broadcast_node
from svod_tensor.shards import spread

if TYPE_CHECKING:
    from svod_ir.uop import UOp
    from svod_tensor.ops.elementwise import Operand
    from svod_tensor.ops.indexing import Index

__all__ = ["Assigning"]


@operations
class Assigning(Standard):
    """Writing to memory."""

    __slots__ = ()

    def assign(self, value: Operand) -> Self:
        """Let this tensor have the elements of `value`, which broadcasts to its shape, and return it.

        Views of the same buffer (slices, reshapes, transposes, flips, expansions) see the new elements, unless they
        were realized and so have memory of their own. Results that were built on the old elements keep them. Nothing
        is computed before something that reads the new elements is realized or prepared; a plan that was
        prepared from such results writes at each execution.

        Memory that is shared with a numpy array is never written: the tensor gets a copy of its own first.

        Example:
            >>> from svod_tensor import Tensor
            >>> x = Tensor([1, 2, 3, 4])
            >>> y = x.reshape(2, 2)
            >>> x.assign(x * 10).tolist(), y.tolist()
            ([10, 20, 30, 40], [[10, 20], [30, 40]])

        Raises:
            AssignmentDtypeError: if `value` is a tensor of another dtype.
            ShapeError: if it does not broadcast to this shape.
            DeviceMismatchError: if it is on another device.
            ReadOnlyError: if this tensor is a file on DISK.
            ShardError: if this tensor is a view of one on several devices.
        """
        if isinstance(value, TensorBase):
            if value.uop is self._uop:
                return self
            if value.dtype is not self.dtype:
                raise AssignmentDtypeError(target=self.dtype, value=value.dtype)
        self._write(self._to_value(value))
        return self

    def __setitem__(self, index: Index, value: Operand) -> None:
        new = self._to_value(value)
        state = self._check_writable()
        target = None if state is None or self._has_arrays(index) else self[index]
        if target is None or states.find_target_state(target.uop) is None:
            # Every n-th element where n does not divide the size is no plain view either.
            self._write(self.with_items(index, new))
            return
        check_value("x[index]", new.shape, target.shape)
        target._write(new)

    def _write(self, value: Self) -> None:
        state = self._check_writable()
        check_value("a tensor", value.shape, self.shape)
        # Checks the devices too.
        wide = self._make(broadcast_node(value.uop, self.shape), value)
        if self.size == 0:
            return
        targets = states.find_targets(self._uop)
        if targets:
            self._write_shards(targets, wide)
        elif self.sharding is not None and states.find_states(self._uop):
            raise ShardError(
                devices=self.sharding.devices, operation="assign", problem="a view of a sharded tensor has no memory of its own",
                hint="assign to the tensor itself, as in x[index] = value",
            )  # fmt: skip
        elif state is None:
            capture = find_capture()
            if capture is not None:
                capture.check_has_memory(self)
            self.set_node(wide.uop)
        elif wide.uop is not self._uop:
            states.assign(self._uop, wide.uop)

    def _write_shards(self, targets: Sequence[UOp], value: Self) -> None:
        """Each device writes its own shard."""
        if value.uop is self._uop or self.sharding is None:
            return
        for target, part in zip(targets, spread(value.uop, self.sharding), strict=True):
            if 0 not in target.shape:
                states.assign(target, part)

    def _check_writable(self) -> UOp | None:
        """The state of the buffer that would be written; None if this tensor has none."""
        state = states.find_target_state(self._uop)
        if state is not None:
            buffer = registry.find_buffer(states.memory_of(state))
            if buffer is not None and not buffer.allocator.is_writable:
                raise ReadOnlyError(device=buffer.device)
        return state

    def _has_arrays(self, index: Index) -> bool:
        if isinstance(index, TensorBase):
            return True
        return any(map(is_array_index, expand_index(index if isinstance(index, tuple) else (index,), self.ndim)))
