"""State of a loop in a plan: operand addresses, trip count, and current bindings of the body."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from svod_device import Buffer, LaunchSizeError, Word, evaluate_expression
from svod_ir import UOp
from svod_runtime.errors import ExecutionError
from svod_runtime.kernels.kernel_state import KernelState
from svod_runtime.ops.loop_bindings import Slice, Whole
from svod_runtime.ops.prepared import describe_op

if TYPE_CHECKING:
    from svod_ir.origins import Origin
    from svod_runtime.kernels.arrangement import Arrangement
    from svod_runtime.loops.loop_form import LoopForm

__all__ = ["Arguments", "LoopState"]


class Arguments:
    """Current buffers of an op's arguments, and their addresses.

    The address array keeps its memory for the lifetime of the object, because batch tables read it
    at each run.
    """

    __slots__ = ("_buffers", "_indices", "addresses")

    def __init__(self, buffers: Sequence[Buffer], indices: Sequence[int]) -> None:
        self._buffers, self._indices = buffers, indices
        self.addresses = array("Q", [buffers[index].address for index in indices])

    @property
    def buffers(self) -> tuple[Buffer, ...]:
        """Current arguments of the op."""
        return tuple([self._buffers[index] for index in self._indices])


class LoopState(Arguments):
    """Loop on the buffers of one plan.

    Attributes:
        form: properties shared by all plans.
        values: one word, the trip count; 0 if the count is read from memory.
        local_buffers: buffers of the body; bound to the memory of an iteration between `begin` and
            `end`.
        kernels: kernels of the body.
        copies: arguments of its copies.
        loops: inner loops.
        condition: the bool buffer that decides whether the loop continues; None without a
            condition.
        counters: value of each counter, shared with enclosing and inner loops.
        variables: values of the plan's variables.
        origins: source lines of the loop.
    """

    __slots__ = (
        "_words",
        "condition",
        "copies",
        "counters",
        "form",
        "kernels",
        "local_buffers",
        "loops",
        "origins",
        "values",
        "variables",
    )

    def __init__(
        self,
        form: LoopForm,
        buffers: Sequence[Buffer],
        variables: dict[str, int],
        origins: Mapping[int, tuple[Origin, ...]],
        outer: LoopState | None = None,
    ) -> None:
        op, body = form.op, form.body
        super().__init__(buffers, op.buffer_indices)
        self.form, self.variables = form, variables
        # One mapping for the whole nest: an inner trip count or launch size may read an outer
        # counter.
        self.counters: dict[str, int] = {} if outer is None else outer.counters
        if body.counter is not None:
            self.counters[body.counter] = 0
        self.origins = origins.get(op.id) or (() if outer is None else outer.origins)
        self.local_buffers = local = list(body.buffers)
        # Empty until the arguments below exist; `bind` then only replaces buffers.
        self._words: dict[int, list[Word]] = {}
        # Kernel states read addresses, so bind the local buffers while they are built.
        self.begin()
        self.kernels = [
            KernelState(kernel, local, sizes, origins.get(kernel.id) or self.origins, form.counters)
            for kernel, sizes in form.kernels
        ]
        self.copies = [Arguments(local, copy.buffer_indices) for copy in form.copies]
        self.loops = [LoopState(inner, local, variables, origins, self) for inner in form.loops]
        self.condition = None if body.go_on is None else Arguments(local, (body.go_on,))
        holders = [
            *self.kernels,
            *self.copies,
            *self.loops,
            *([self.condition] if self.condition else []),
        ]
        # Collected once: each iteration then writes addresses without a search for their readers.
        self._words = {index: list(self._iter_words(index, holders)) for index in form.views}
        # Outside of a run, the local buffers must not keep the operands' memory alive.
        self.end()
        self.values = array("q", [0])
        self.values[0] = self.resolve_count({})

    def _iter_words(self, index: int, holders: Sequence[KernelState | Arguments]) -> Iterator[Word]:
        for view, view_offset in self.form.views[index]:
            for holder, position in self.form.users.get(view, ()):
                user = holders[holder]
                if isinstance(user, LoopState):
                    # An inner loop has address words of its own, for each operand and its views.
                    yield from (
                        word._replace(offset=word.offset + view_offset)
                        for word in user.list_words(position)
                    )
                else:
                    yield Word(user.addresses, position, view_offset)

    def list_words(self, position: int) -> list[Word]:
        """Address words of an operand and of its views, for all iterations."""
        return [
            Word(self.addresses, position),
            *self.list_local_words(*self.form.get_bound(Whole(position))),
        ]

    def list_local_words(self, *indices: int) -> list[Word]:
        """Address words of bound local buffers and of their views."""
        return [word for index in indices for word in self._words[index]]

    def set_addresses(self) -> None:
        """Write the current addresses of the operands."""
        for position, buffer in enumerate(self.buffers):
            for addresses, slot, offset in self.list_words(position):
                addresses[slot] = buffer.address + offset

    def begin(self) -> None:
        """Bind the local buffers for the first iteration."""
        for index in self.form.views:
            self.bind(index, self._get_first(index))

    def end(self) -> None:
        """Release the memory of the operands: the plan may replace them."""
        self.local_buffers[:] = self.form.body.buffers

    def bind(self, index: int, buffer: Buffer) -> None:
        """Bind a local buffer and its views to `buffer`."""
        specs, local = self.form.body.buffers, self.local_buffers
        for view, offset in self.form.views[index]:
            spec = specs[view]
            # The buffer itself serves where it matches: a view would be a new object in each
            # iteration.
            is_all = offset == 0 and spec.nbytes == buffer.nbytes and spec.dtype is buffer.dtype
            local[view] = buffer if is_all else buffer.view(offset, spec.nbytes, spec.dtype)
        for addresses, slot, offset in self._words.get(index, ()):
            addresses[slot] = buffer.address + offset

    def bind_slice(self, index: int, position: int, slice_index: int) -> None:
        """Bind a local buffer to the slice of an operand with this index."""
        spec = self.form.body.buffers[index]
        self.bind(
            index, self.buffers[position].view(slice_index * spec.nbytes, spec.nbytes, spec.dtype)
        )

    def _get_first(self, index: int) -> Buffer:
        """Buffer of a bound local buffer in the first iteration of a loop that counts up."""
        binding, spec = self.form.body.bindings[index], self.form.body.buffers[index]
        assert binding is not None
        base = self.buffers[self.form.position_of(binding)]
        if not isinstance(binding, Slice):
            return base
        if base.nbytes < spec.nbytes:
            # The operand holds no slice, so no iteration runs; kernels still need an address.
            return Buffer(spec.allocator, spec.dtype, spec.size).ensure_allocated()
        return base.view(0, spec.nbytes, spec.dtype)

    def iter_kernels(self) -> Iterator[KernelState]:
        """Every kernel of the body, including kernels of inner loops."""
        yield from self.kernels
        for loop in self.loops:
            yield from loop.iter_kernels()

    def iter_loops(self) -> Iterator[LoopState]:
        """This loop and all inner loops."""
        yield self
        for loop in self.loops:
            yield from loop.iter_loops()

    def resolve_count(self, changes: Mapping[str, int]) -> int:
        """Return the trip count after `changes` to the variables, 0 if it is read from memory.

        Raises:
            ExecutionError: if the trip count cannot be evaluated.
        """
        op = self.form.op
        if not isinstance(op.count, UOp):
            return op.count or 0
        variables = {**self.variables, **changes, **self.counters, **op.fixedvars}
        try:
            return evaluate_expression(op.count, variables)
        except LaunchSizeError as error:
            problem = f"cannot evaluate the trip count: {error}"
            raise ExecutionError(
                op=describe_op(op), problem=problem, origins=self.origins
            ) from error

    @property
    def known_count(self) -> int | None:
        """Trip count, if it is known before the loop runs; else None."""
        op = self.form.op
        if (
            op.count is None
            # A branch runs once or not at all, and a condition may end the loop early: the count is
            # then only an upper bound.
            or op.branch is not None
            or self.form.has_varying_count
            or self.condition is not None
        ):
            return None
        return max(self.values[0], 0)

    def read_count(self) -> int:
        """Return the maximum trip count, at least 0; a computed count is copied from memory."""
        op = self.form.op
        if op.count is None:
            assert op.count_position is not None
            count = int.from_bytes(
                self.buffers[op.count_position].to_bytes(), sys.byteorder, signed=True
            )
        else:
            count = self.values[0]
        if op.branch is None:
            return max(count, 0)
        # Every branch sees the same index, so the clamp makes exactly one of them run.
        return int(min(max(count, 0), op.n_branches - 1) == op.branch)

    def goes_on(self) -> bool:
        """True if the condition of the last iteration asks for another iteration."""
        return self.condition is None or any(self.condition.buffers[0].to_bytes())

    def arrange(self) -> Arrangement:
        """Arrangement of an iteration's calls."""
        return self.form.arrange(self.kernels)
