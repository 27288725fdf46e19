"""State of a loop in a plan: memory of its operands, trip count, and position in its body."""

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
    """Those of some buffers that an op takes, as they are at any time, and their addresses.

    The addresses keep their place in memory: batch tables read them at each run.
    """

    __slots__ = ("_buffers", "_indices", "addresses")

    def __init__(self, buffers: Sequence[Buffer], indices: Sequence[int]) -> None:
        self._buffers, self._indices = buffers, indices
        self.addresses = array("Q", [buffers[index].address for index in indices])

    @property
    def buffers(self) -> tuple[Buffer, ...]:
        """What the op takes now."""
        return tuple([self._buffers[index] for index in self._indices])


class LoopState(Arguments):
    """A loop on the buffers of one plan.

    Attributes:
        form: what holds for it in all plans.
        values: one word, the number of iterations where that is no number in memory.
        local_buffers: those of the body; between `begin` and `end` with the memory of an iteration.
        kernels: the kernels of the body.
        copies: the arguments of its copies.
        loops: the loops in it.
        condition: of one buffer, the bool that says whether the loop goes on; None where nothing
            says that.
        counters: the value of each counter, shared with the loops around this one and within.
        variables: the values of the plan's variables.
        origins: the lines of the program that it comes from.
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
        around: LoopState | None = None,
    ) -> None:
        op, body = form.op, form.body
        super().__init__(buffers, op.buffer_indices)
        self.form, self.variables = form, variables
        self.counters: dict[str, int] = {} if around is None else around.counters
        if body.counter is not None:
            self.counters[body.counter] = 0
        self.origins = origins.get(op.id) or (() if around is None else around.origins)
        self.local_buffers = local = list(body.buffers)
        self._words: dict[int, list[Word]] = {}
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
        self._words = {index: list(self._iter_words(index, holders)) for index in form.parts}
        self.end()
        self.values = array("q", [0])
        self.values[0] = self.resolve_count({})

    def _iter_words(self, index: int, holders: Sequence[KernelState | Arguments]) -> Iterator[Word]:
        for part, start in self.form.parts[index]:
            for holder, position in self.form.users.get(part, ()):
                taker = holders[holder]
                if isinstance(taker, LoopState):
                    yield from (
                        word._replace(offset=word.offset + start)
                        for word in taker.list_words(position)
                    )
                else:
                    yield Word(taker.addresses, position, start)

    def list_words(self, position: int) -> list[Word]:
        """The words that hold the address of an operand, or of a part of it, whatever iteration
        runs.
        """
        return [
            Word(self.addresses, position),
            *self.list_local_words(*self.form.get_bound(Whole(position))),
        ]

    def list_local_words(self, *indices: int) -> list[Word]:
        """The words that hold the address of bound local buffers, or of parts of these."""
        return [word for index in indices for word in self._words[index]]

    def set_addresses(self) -> None:
        """Take the addresses of the operands as they are now."""
        for position, buffer in enumerate(self.buffers):
            for words, place, offset in self.list_words(position):
                words[place] = buffer.address + offset

    def begin(self) -> None:
        """Let the local buffers be what they are in the first iteration."""
        for index in self.form.parts:
            self.bind(index, self._get_first(index))

    def end(self) -> None:
        """Let go of the memory of operands: the plan may get others."""
        self.local_buffers[:] = self.form.body.buffers

    def bind(self, index: int, buffer: Buffer) -> None:
        """Let a local buffer, with its parts, be this one."""
        shapes, local = self.form.body.buffers, self.local_buffers
        for part, offset in self.form.parts[index]:
            shape = shapes[part]
            is_all = offset == 0 and shape.nbytes == buffer.nbytes and shape.dtype is buffer.dtype
            local[part] = buffer if is_all else buffer.view(offset, shape.nbytes, shape.dtype)
        for words, place, offset in self._words.get(index, ()):
            words[place] = buffer.address + offset

    def bind_slice(self, index: int, position: int, number: int) -> None:
        """Let a local buffer be the slice of an operand with this number."""
        shape = self.form.body.buffers[index]
        self.bind(
            index, self.buffers[position].view(number * shape.nbytes, shape.nbytes, shape.dtype)
        )

    def _get_first(self, index: int) -> Buffer:
        """What a bound local buffer is in the first iteration of a loop that counts up."""
        binding, shape = self.form.body.bindings[index], self.form.body.buffers[index]
        assert binding is not None
        base = self.buffers[self.form.position_of(binding)]
        if not isinstance(binding, Slice):
            return base
        if base.nbytes < shape.nbytes:
            # There is no slice, and no iteration: kernels have addresses all the same.
            return Buffer(shape.allocator, shape.dtype, shape.size).ensure_allocated()
        return base.view(0, shape.nbytes, shape.dtype)

    def iter_kernels(self) -> Iterator[KernelState]:
        """Every kernel of the body, those of inner loops included."""
        yield from self.kernels
        for loop in self.loops:
            yield from loop.iter_kernels()

    def iter_loops(self) -> Iterator[LoopState]:
        """This loop and all in it."""
        yield self
        for loop in self.loops:
            yield from loop.iter_loops()

    def resolve_count(self, changes: Mapping[str, int]) -> int:
        """The number of iterations after `changes` to the variables, 0 where it is a number in
        memory.

        Raises:
            ExecutionError: if it has no value.
        """
        op = self.form.op
        if not isinstance(op.count, UOp):
            return op.count or 0
        variables = {**self.variables, **changes, **self.counters, **op.fixedvars}
        try:
            return evaluate_expression(op.count, variables)
        except LaunchSizeError as error:
            problem = f"its number of iterations: {error}"
            raise ExecutionError(
                op=describe_op(op), problem=problem, origins=self.origins
            ) from error

    @property
    def known_count(self) -> int | None:
        """The number of iterations, if that is known before the loop runs."""
        op = self.form.op
        if (
            op.count is None
            or op.branch is not None
            or self.form.has_varying_count
            or self.condition is not None
        ):
            return None
        return max(self.values[0], 0)

    def read_count(self) -> int:
        """How many iterations there are at most, from 0 on; reads it from memory where it
        is there.
        """
        op = self.form.op
        if op.count is None:
            assert op.count_position is not None
            number = int.from_bytes(
                self.buffers[op.count_position].to_bytes(), sys.byteorder, signed=True
            )
        else:
            number = self.values[0]
        if op.branch is None:
            return max(number, 0)
        return int(min(max(number, 0), op.n_branches - 1) == op.branch)

    def goes_on(self) -> bool:
        """Whether the iteration that ran last asks for another one."""
        return self.condition is None or any(self.condition.buffers[0].to_bytes())

    def arrange(self) -> Arrangement:
        """What each call of an iteration runs."""
        return self.form.arrange(self.kernels)
