"""Changes of a plan between executions: its buffers and its variables."""

from __future__ import annotations

import operator
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from svod_device import CORE_ID, Buffer, get_allocator
from svod_runtime.errors import PlanError, VariableBoundsError
from svod_runtime.plan.execute import Step, make_steps
from svod_runtime.plan.sharing import Pattern, Sharing
from svod_runtime.plan.view import PlanView

if TYPE_CHECKING:
    from array import array

    from svod_ir.origins import Origin
    from svod_runtime.plan.plan_form import PlanForm

__all__ = ["LARGE", "MAX_PATTERNS", "ChangingPlan", "make_blank"]

LARGE: Final = 1 << 16
"""Bytes from which on a plan keeps no memory of a call: writing a buffer's address again at each
call takes less than filling it.
"""

MAX_PATTERNS: Final = 16
"""For how many ways in which buffers share memory a plan keeps its levels and steps; the oldest
leave first.
"""


class ChangingPlan(PlanView):
    """A plan whose buffers may be replaced, and whose variables may get other values."""

    def __init__(
        self,
        template: PlanForm,
        buffers: Sequence[Buffer],
        values: Mapping[str, int],
        input_ids: Sequence[int] | None,
        origins: Mapping[int, tuple[Origin, ...]],
    ) -> None:
        super().__init__(template, buffers, input_ids, origins)
        self.is_used_again = False
        """Whether it computed something else before what it was bound to last."""
        self._given: dict[str, int] = {}
        self._sharing: Sharing | None = None
        self._arranged: dict[Pattern, tuple[list[list[int]], list[Step]]] = {}
        # Where kernels and loops take the addresses of buffers that were replaced once, or of parts
        # of these.
        self._words: dict[int, list[tuple[array[int], int, int]]] = {}
        self._is_stale = False
        self._donated: dict[int, str] = {}
        # Buffers that are the caller's, and what stands for those of them that the plan does not
        # keep until the next call.
        self._lent: Collection[int] = ()
        self._blanks: dict[int, Buffer] = {}
        # What a caller lends at each call, as long as nothing else puts buffers there: all of them
        # are blanks.
        self._direct: object = None
        if values:
            self._change_variables(values)
        self._make_steps()
        self._is_stale = False

    def replace_buffer(self, index: int, buffer: Buffer) -> None:
        """Let the plan use another buffer from now on: new inputs without a copy.

        A donated input is replaced before each execution, be it by the same buffer with new
        content.

        Raises:
            PlanError: if there is no such index, or the buffer differs in size, dtype or device.
        """
        self.replace_buffers({index: buffer})

    def replace_buffers(self, replacements: Mapping[int, Buffer]) -> None:
        """`replace_buffer` for several buffers by index; none is replaced if one cannot be."""
        with self._lock:
            self._take_back()
            self._replace(replacements)

    def lend(self, indices: frozenset[int]) -> None:
        """Know that these buffers are others' alone, and keep none of them."""
        with self._lock:
            self._take_back()
            self._lent = indices
            if self._blanks.keys() != indices:
                self._blanks = {index: make_blank(self._buffers[index]) for index in indices}
            self._let_go()

    def renew(self, buffers: Mapping[int, Buffer], input_ids: Sequence[int] | None) -> None:
        """Be a plan on these buffers, all that were lent, of which the inputs have these
        AST ids.
        """
        with self._lock:
            self._lent, self._input_ids, self.is_used_again = (), input_ids, True
            self._replace(buffers)

    def _borrow(self, lent: Collection[int], replacements: Mapping[int, Buffer]) -> None:
        """Know that those of `replacements` are the caller's, after the execution too."""
        if not replacements.keys() >= set(self._lent):
            self._take_back()
        self._lent = lent
        outputs, given = (
            self._template.output_indices,
            [(index, replacements[index]) for index in lent],
        )
        self._blanks = {
            index: make_blank(buffer)
            for index, buffer in given
            if index in outputs or buffer.nbytes >= LARGE
        }

    def _let_go(self) -> None:
        """Keep no results of a call, and nothing large: memory that nobody else refers to is free
        for the next one.
        """
        buffers = self._buffers
        for index, blank in self._blanks.items():
            buffers[index] = blank

    def _take_back(self) -> None:
        """Have memory of its own where a call lent its, which is not this plan's to write: zeros,
        since they are indices too.
        """
        lent, self._lent = self._lent, ()
        if lent:
            self._replace({index: make_blank(self._buffers[index]) for index in lent})

    def _replace(self, replacements: Mapping[int, Buffer]) -> None:
        self._direct = None
        buffers, n_buffers = self._buffers, len(self._buffers)
        changes: dict[int, Buffer] = {}
        addresses: dict[int, int] = {}
        for index, buffer in replacements.items():
            old = buffers[index] if 0 <= index < n_buffers else None
            if buffer is not old:
                # What one allocator made can be written, or not, alike.
                if (
                    old is None
                    or buffer.nbytes != old.nbytes
                    or buffer.dtype is not old.dtype
                    or buffer.allocator is not old.allocator
                ):
                    self._check_replacement(index, buffer)
                changes[index], addresses[index] = buffer, buffer.locate()
        if changes and self._template.views:
            views = self._view_parts(changes)
            changes |= views
            addresses |= {index: view.address for index, view in views.items()}
        if self._donated:
            renewed = {*replacements, *self._view_parts(replacements)}
            self._donated = {i: taker for i, taker in self._donated.items() if i not in renewed}
        if not changes:
            return
        if self._is_stale:
            self._renew()
        self._is_stale = True
        pattern = self._follow(changes)
        words = self._words
        for index, buffer in changes.items():
            buffers[index], address = buffer, addresses[index]
            for words_of_op, position, offset in words[index]:
                words_of_op[position] = address + offset
        if pattern is not None:
            self._rearrange(pattern)
        self._is_stale = False

    def _follow(self, changes: Mapping[int, Buffer]) -> Pattern | None:
        """How buffers share memory with `changes` in their places, if that is another way than
        before.
        """
        sharing = self._sharing
        if sharing is None or not changes.keys() <= sharing.moving:
            sharing = self._start_sharing(changes)
        before, pattern = sharing.pattern, sharing.follow(self._buffers, changes)
        return None if pattern is before or pattern == before else pattern

    def _start_sharing(self, changes: Iterable[int]) -> Sharing:
        """Follow how these buffers share memory too, from now on."""
        users, loop_users = self._template.users, self._template.loop_users
        for index in changes:
            kernels = [
                (self._states[number].addresses, position, 0)
                for number, position in users.get(index, ())
            ]
            loops = [
                self._loops[number].list_words(position)
                for number, position in loop_users.get(index, ())
            ]
            self._words[index] = [*kernels, *(word for words in loops for word in words)]
        sharing = self._sharing = Sharing(self._buffers, self._words)
        self._arranged = {sharing.pattern: (self._levels, self._steps)}
        return sharing

    def _view_parts(self, bases: Mapping[int, Buffer]) -> dict[int, Buffer]:
        """The views of `bases`, and the views of these."""
        parts: dict[int, Buffer] = {}
        for op in self._template.views:
            view, base = op.buffer_indices
            new = parts.get(base) or bases.get(base)
            if new is not None and view not in bases:
                parts[view] = new.view(op.byte_offset, op.byte_size, self._buffers[view].dtype)
        return parts

    def _check_replacement(self, index: int, buffer: Buffer) -> None:
        if not 0 <= index < len(self._buffers):
            raise PlanError(op="plan", problem=f"no buffer {index}, there are {len(self._buffers)}")
        old = self._buffers[index]
        if (
            buffer.nbytes != old.nbytes
            or buffer.dtype is not old.dtype
            or buffer.device != old.device
        ):
            raise PlanError(
                op="plan", problem=f"buffer {index} is {old}, which {buffer} cannot replace"
            )
        if not buffer.is_writable and old.is_writable and index in self._template.written:
            raise PlanError(
                op="plan", problem=f"buffer {index} is written, but {buffer} is read-only"
            )

    def _set_variables(self, values: Mapping[str, int]) -> None:
        if self._is_stale:
            self._renew()
        if self._change_variables(values):
            self._make_steps()
        self._is_stale = False

    def _change_variables(self, values: Mapping[str, int]) -> bool:
        """Give variables values, and say whether launch sizes changed."""
        given = {name: operator.index(value) for name, value in values.items() if name != CORE_ID}
        for name, value in given.items():
            for bounds in self._template.bounds.get(name, ()):
                if not bounds.min <= value <= bounds.max:
                    raise VariableBoundsError(
                        name=name, value=value, min=bounds.min, max=bounds.max
                    )
        known, uneven = self._variables, self._template.uneven_names
        changes = {
            name: value
            for name, value in given.items()
            if name in uneven or known.get(name) != value
        }
        if not changes:
            return False
        states = [*self._states, *self._states_in_loops] if self._states_in_loops else self._states
        for state in states:
            if not state.has_constant_sizes:
                state.resolve_sizes(changes)
        counts = [(loop, loop.resolve_count(changes)) for loop in self._counted_loops]
        # Everything that can fail is behind us.
        self._is_stale = True
        self._given.update(changes)
        self._variables.update(changes)
        for loop, count in counts:
            loop.values[0] = count
        has_new_sizes = False
        for state in states:
            state.set_values(changes)
            if not state.has_constant_sizes:
                has_new_sizes = state.renew_sizes() or has_new_sizes
        return has_new_sizes

    def _make_steps(self) -> None:
        arrangement = self._template.arrange(self._levels, self._states)
        self._steps = make_steps(
            arrangement, self._states, self._loops, self._buffers, self._variables
        )
        # Those of other patterns have the launch sizes of before.
        self._arranged = (
            {} if self._sharing is None else {self._sharing.pattern: (self._levels, self._steps)}
        )

    def _rearrange(self, pattern: Pattern) -> None:
        """Take the levels and the steps for another pattern of sharing; steps read through what
        buffers and states hold.
        """
        known = self._arranged
        found = known.get(pattern)
        if found is None:
            levels = self._template.dependencies.get_levels(self._buffers)
            found = next((one for one in known.values() if one[0] == levels), None)
            if found is None:
                arrangement = self._template.arrange(levels, self._states)
                found = (
                    levels,
                    make_steps(
                        arrangement, self._states, self._loops, self._buffers, self._variables
                    ),
                )
            while len(known) >= MAX_PATTERNS:
                del known[next(iter(known))]
            known[pattern] = found
        self._levels, self._steps = found

    def _renew(self) -> None:
        """Derive everything from buffers and variables again: an interrupt came while one of them
        changed.
        """
        self._direct = None
        bases = {
            i: buffer
            for i, buffer in enumerate(self._buffers)
            if i not in self._template.view_indices
        }
        for index, view in self._view_parts(bases).items():
            self._buffers[index] = view
        for state in self._states:
            state.set_addresses()
        for loop in self._loops:
            loop.set_addresses()
        for state in (*self._states, *self._states_in_loops):
            state.set_values(self._variables)
            if not state.has_constant_sizes:
                state.renew_sizes()
        for loop in self._counted_loops:
            loop.values[0] = loop.resolve_count({})
        self._sharing = None
        self._levels = self._template.dependencies.get_levels(self._buffers)
        self._make_steps()
        self._is_stale = False


def make_blank(like: Buffer) -> Buffer:
    """Memory that stands for what a plan does not keep, which has none until somebody
    looks: zeros.
    """
    return Buffer(get_allocator(like.device), like.dtype, like.size, zeroed=True)
