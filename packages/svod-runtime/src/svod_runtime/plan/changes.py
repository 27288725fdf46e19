"""Changes to a plan between executions: replacement of buffers, and values of variables."""

from __future__ import annotations

import operator
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Final

from svod_device import CORE_ID, Buffer, get_allocator
from svod_runtime.errors import PlanError, VariableBoundsError
from svod_runtime.plan.execute import Step, make_steps
from svod_runtime.plan.sharing import Pattern, Sharing
from svod_runtime.plan.view import PlanView

if TYPE_CHECKING:
    from array import array

    from svod_ir.origins import Origin
    from svod_runtime.kernels.kernel_state import KernelState
    from svod_runtime.plan.plan_form import PlanForm

__all__ = ["LARGE", "MAX_PATTERNS", "ChangingPlan", "make_placeholder"]

LARGE: Final = 1 << 16
"""Minimum size in bytes of a buffer that a plan releases after a call.

Writing its address again at each call costs less than filling it.
"""

MAX_PATTERNS: Final = 16
"""Maximum number of sharing patterns whose levels and steps a plan caches; the oldest is evicted
first.
"""


class ChangingPlan(PlanView):
    """Plan with replaceable buffers and settable variables."""

    def __init__(
        self,
        template: PlanForm,
        buffers: Sequence[Buffer],
        values: Mapping[str, int],
        input_ids: Sequence[int] | None,
        origins: Mapping[int, tuple[Origin, ...]],
    ) -> None:
        super().__init__(template, buffers, input_ids, origins)
        self.is_reused = False
        """Whether the plan was recycled: it was bound to other buffers before."""
        self._caller_values: dict[str, int] = {}
        self._sharing: Sharing | None = None
        self._arranged: dict[Pattern, tuple[list[list[int]], list[Step]]] = {}
        # Address words of kernels and loops, for buffers that were replaced at least once and for
        # their views. A plan whose buffers never change builds none.
        self._words: dict[int, list[tuple[array[int], int, int]]] = {}
        self._is_stale = False
        self._donated: dict[int, str] = {}
        # Buffers owned by the caller, and the placeholders that take the slots of results and of
        # large buffers between calls.
        self._lent: Collection[int] = ()
        self._placeholders: dict[int, Buffer] = {}
        # The `Lending` whose slots all hold placeholders; None after another operation.
        self._direct: object = None
        if values:
            self._change_variables(values)
        self._make_steps()
        self._is_stale = False

    def replace_buffer(self, index: int, buffer: Buffer) -> None:
        """Replace a buffer, for example by a new input, without a copy.

        A donated input must be replaced before each execution; the same buffer with new data is
        allowed.

        Raises:
            PlanError: if the index is out of range, or the buffer differs in size, dtype or device.
        """
        self.replace_buffers({index: buffer})

    def replace_buffers(self, replacements: Mapping[int, Buffer]) -> None:
        """Replace several buffers by index; if one cannot be replaced, none is."""
        with self._lock:
            self._restore_lent()
            self._replace(replacements)

    def lend(self, indices: frozenset[int]) -> None:
        """Mark the buffers at `indices` as owned by callers, and drop the plan's references to
        them.
        """
        with self._lock:
            self._restore_lent()
            self._lent = indices
            if self._placeholders.keys() != indices:
                self._placeholders = {
                    index: make_placeholder(self._buffers[index]) for index in indices
                }
            self._drop_lent()

    def rebind(self, buffers: Mapping[int, Buffer], input_ids: Sequence[int] | None) -> None:
        """Bind a recycled plan to these buffers, which replace all lent buffers.

        Args:
            buffers: by index.
            input_ids: AST ids of the inputs.
        """
        with self._lock:
            self._lent, self._input_ids, self.is_reused = (), input_ids, True
            self._replace(buffers)

    def _borrow(
        self, lent: Collection[int], replacements: Mapping[int, Buffer], *, may_be_smaller: bool
    ) -> None:
        """Mark the `lent` buffers of `replacements` as owned by the caller, also after the
        execution.
        """
        if not replacements.keys() >= set(self._lent):
            self._restore_lent()
        self._lent = lent
        outputs, lent_buffers = (
            self._template.output_indices,
            [(index, replacements[index]) for index in lent],
        )
        # Other values of variables need larger buffers than this call.
        self._placeholders = {
            index: self._make_planned(index) if may_be_smaller else make_placeholder(buffer)
            for index, buffer in lent_buffers
            if may_be_smaller or index in outputs or buffer.nbytes >= LARGE
        }

    def _make_planned(self, index: int) -> Buffer:
        """A placeholder of the planned size, for the largest values of variables."""
        like = self._buffers[index]
        return make_placeholder(like, self._template.planned_bytes[index] // like.dtype.nbytes)

    def _drop_lent(self) -> None:
        """Drop references to results and to large buffers, so that their memory can be reused once
        no other reference exists.
        """
        buffers = self._buffers
        for index, placeholder in self._placeholders.items():
            buffers[index] = placeholder

    def _restore_lent(self) -> None:
        """Replace lent buffers, which the plan must not write, by zero-filled memory of its own.

        Zeros are safe because a buffer may hold indices.
        """
        lent, self._lent = self._lent, ()
        if lent:
            self._replace({index: make_placeholder(self._buffers[index]) for index in lent})

    def _replace(self, replacements: Mapping[int, Buffer], *, may_be_smaller: bool = False) -> None:
        self._direct = None
        buffers, n_buffers = self._buffers, len(self._buffers)
        changes: dict[int, Buffer] = {}
        addresses: dict[int, int] = {}
        for index, buffer in replacements.items():
            old = buffers[index] if 0 <= index < n_buffers else None
            if buffer is not old:
                # Buffers of one allocator are all writable or all read-only, so the fast path
                # needs no further check.
                if (
                    old is None
                    or buffer.nbytes != old.nbytes
                    or buffer.dtype is not old.dtype
                    or buffer.allocator is not old.allocator
                ):
                    self._check_replacement(index, buffer, may_be_smaller=may_be_smaller)
                # Locating may allocate and thus fail; the plan is still unchanged here.
                changes[index], addresses[index] = buffer, buffer.locate()
        if changes and self._template.views:
            views = self._collect_views(changes)
            changes |= views
            addresses |= {index: view.address for index, view in views.items()}
        if self._donated:
            renewed = {*replacements, *self._collect_views(replacements)}
            self._donated = {i: taker for i, taker in self._donated.items() if i not in renewed}
        if not changes:
            return
        if self._is_stale:
            self._rebuild()
        # Set before the first change: after an interrupt, `_rebuild` repairs the plan.
        self._is_stale = True
        pattern = self._follow(changes)
        words = self._words
        for index, buffer in changes.items():
            buffers[index], address = buffer, addresses[index]
            for address_array, position, offset in words[index]:
                address_array[position] = address + offset
        if pattern is not None:
            self._rearrange(pattern)
        self._is_stale = False

    def _follow(self, changes: Mapping[int, Buffer]) -> Pattern | None:
        """Sharing pattern of the buffers after `changes`, or None if it is the current one."""
        sharing = self._sharing
        if sharing is None or not changes.keys() <= sharing.moving:
            sharing = self._start_sharing(changes)
        before, pattern = sharing.pattern, sharing.follow(self._buffers, changes)
        return None if pattern is before or pattern == before else pattern

    def _start_sharing(self, changes: Iterable[int]) -> Sharing:
        """Track how these buffers share memory too, from now on."""
        users, loop_users = self._template.users, self._template.loop_users
        for index in changes:
            kernels = [
                (self._states[kernel].addresses, position, 0)
                for kernel, position in users.get(index, ())
            ]
            loops = [
                self._loops[loop].list_words(position)
                for loop, position in loop_users.get(index, ())
            ]
            self._words[index] = [*kernels, *(word for words in loops for word in words)]
        sharing = self._sharing = Sharing(self._buffers, self._words)
        self._arranged = {sharing.pattern: (self._levels, self._steps)}
        return sharing

    def _collect_views(self, bases: Mapping[int, Buffer]) -> dict[int, Buffer]:
        """Views of `bases`, and views of these views."""
        views: dict[int, Buffer] = {}
        for op in self._template.views:
            view, base = op.buffer_indices
            new = views.get(base) or bases.get(base)
            if new is not None and view not in bases:
                views[view] = new.view(op.byte_offset, op.byte_size, self._buffers[view].dtype)
        return views

    def _check_replacement(
        self, index: int, buffer: Buffer, *, may_be_smaller: bool = False
    ) -> None:
        if not 0 <= index < len(self._buffers):
            raise PlanError(
                op="plan",
                problem=f"buffer index {index} is out of bounds for {len(self._buffers)} buffers",
            )
        old = self._buffers[index]
        # Only the maximum size is known here: exact sizes depend on the values of variables.
        fits = buffer.nbytes == old.nbytes or (
            may_be_smaller and buffer.nbytes <= self._template.planned_bytes[index]
        )
        if not fits or buffer.dtype is not old.dtype or buffer.device != old.device:
            raise PlanError(op="plan", problem=f"buffer {index}: cannot replace {old} by {buffer}")
        if not buffer.is_writable and old.is_writable and index in self._template.written:
            raise PlanError(
                op="plan", problem=f"buffer {index} is written, but {buffer} is read-only"
            )

    def _set_variables(self, values: Mapping[str, int]) -> None:
        if self._is_stale:
            self._rebuild()
        if self._change_variables(values):
            self._make_steps()
        self._is_stale = False

    def _change_variables(self, values: Mapping[str, int]) -> bool:
        """Set variables; True if launch sizes changed."""
        new_values = {
            name: operator.index(value) for name, value in values.items() if name != CORE_ID
        }
        for name, value in new_values.items():
            for bounds in self._template.bounds.get(name, ()):
                if not bounds.min <= value <= bounds.max:
                    raise VariableBoundsError(
                        name=name, value=value, min=bounds.min, max=bounds.max
                    )
        known, uneven = self._variables, self._template.uneven_names
        changes = {
            name: value
            for name, value in new_values.items()
            if name in uneven or known.get(name) != value
        }
        if not changes:
            return False
        for state in self._varying_states:
            state.resolve_sizes(changes)
        counts = [(loop, loop.resolve_count(changes)) for loop in self._counted_loops]
        # Nothing below can fail, so an error leaves the plan unchanged. Only an interrupt can come
        # in between, and then `_rebuild` repairs the plan.
        self._is_stale, self._direct = True, None
        self._caller_values.update(changes)
        self._variables.update(changes)
        for loop, count in counts:
            loop.values[0] = count
        words = self._value_words
        for name, value in changes.items():
            for values_of_state, position in words.get(name, ()):
                values_of_state[position] = value
        has_new_sizes = [state.renew_sizes() for state in self._varying_states]
        return any(has_new_sizes)

    @cached_property
    def _varying_states(self) -> list[KernelState]:
        """The kernels whose launch sizes depend on variables."""
        states = (*self._states, *self._states_in_loops)
        return [state for state in states if not state.has_constant_sizes]

    @cached_property
    def _value_words(self) -> dict[str, list[tuple[array[int], int]]]:
        """For each settable variable, where kernels read it."""
        words: dict[str, list[tuple[array[int], int]]] = {}
        for state in (*self._states, *self._states_in_loops):
            for position, name in enumerate(state.op.kernel.spec.var_names):
                if state.is_settable(name):
                    words.setdefault(name, []).append((state.values, position))
        return words

    def _make_steps(self) -> None:
        arrangement = self._template.arrange(self._levels, self._states)
        self._steps = make_steps(
            arrangement, self._states, self._loops, self._buffers, self._variables
        )
        # Cached steps of other patterns have outdated launch sizes.
        self._arranged = (
            {} if self._sharing is None else {self._sharing.pattern: (self._levels, self._steps)}
        )

    def _rearrange(self, pattern: Pattern) -> None:
        """Set the levels and steps of another sharing pattern; steps read buffers and states when
        they run.
        """
        known = self._arranged
        entry = known.get(pattern)
        if entry is None:
            levels = self._template.dependencies.get_levels(self._buffers)
            entry = next((cached for cached in known.values() if cached[0] == levels), None)
            if entry is None:
                arrangement = self._template.arrange(levels, self._states)
                entry = (
                    levels,
                    make_steps(
                        arrangement, self._states, self._loops, self._buffers, self._variables
                    ),
                )
            # Dicts keep insertion order, so the first key is the oldest pattern.
            while len(known) >= MAX_PATTERNS:
                del known[next(iter(known))]
            known[pattern] = entry
        self._levels, self._steps = entry

    def _rebuild(self) -> None:
        """Rebuild all derived state from buffers and variables, after an interrupt during an
        update.
        """
        self._direct = None
        bases = {
            i: buffer
            for i, buffer in enumerate(self._buffers)
            if i not in self._template.view_indices
        }
        for index, view in self._collect_views(bases).items():
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


def make_placeholder(like: Buffer, size: int | None = None) -> Buffer:
    """Buffer in the slot of a buffer that the plan does not keep, of its size or another one; it
    allocates zeros on first access.
    """
    return Buffer(
        get_allocator(like.device), like.dtype, like.size if size is None else size, zeroed=True
    )
