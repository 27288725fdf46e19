"""Direct executions on memory that a caller lends in the same slots at each call.

Calls of captured functions take this path: addresses are written into the argument arrays, and
steps run, without a dict lookup or a comparison with the previous call. The plan keeps placeholders
in the lent slots, so every other operation on the plan binds buffers first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from svod_runtime.plan.changes import ChangingPlan, make_placeholder
from svod_runtime.plan.interrupts import InterruptDelay

if TYPE_CHECKING:
    from array import array

    from svod_device import Buffer

__all__ = ["DirectPlan", "Lending"]


@dataclass(slots=True, eq=False)
class Lending:
    """Slots of a plan that a caller fills with its own buffers at each call.

    Attributes:
        buffer_indices: index in the plan of each buffer of a call, inputs and outputs; None for a
            buffer that the plan does not use.
        values: values of the plan's variables by name, the same at each call. Buffers may then be
            smaller than planned, if the plan's form has `spare_bytes`.
        n_executions: number of calls so far.

    Example:
        >>> from svod_runtime import Lending
        >>> Lending((0, 1)).n_executions
        0
    """

    buffer_indices: tuple[int | None, ...]
    values: Mapping[str, int] = field(default_factory=dict[str, int])
    n_executions: int = 0


class DirectPlan(ChangingPlan):
    """Plan that can be executed on lent buffers without being changed by the call."""

    _is_executing = False
    _is_checked = False
    """Whether a guard or a watch inspects each execution, which rules out direct ones."""

    _direct_runs: Sequence[Callable[[], None]] = ()
    _delays_interrupts = False
    """Whether direct executions write inputs in several calls, so that Ctrl-C must wait for the last."""
    # For each slot, the address words of the buffer and of its views, and the address that they
    # hold now.
    _direct_words: Sequence[Sequence[tuple[array[int], int, int]]] = ()
    _direct_addresses: list[int | None]

    def execute_direct(self, lending: Lending, buffers: Sequence[Buffer]) -> bool:
        """Run on buffers of the caller; the plan keeps no reference to them.

        Args:
            lending: slots of the buffers that change at each call; pass the same object at each
                call.
            buffers: a buffer per slot, equal in size (see `Lending.values`), dtype and device to
                the buffer in the plan. Written buffers must have their own storage, which no other
                buffer shares.

        Returns:
            False if the plan did not run: another thread uses it, or the call requires
            `execute_on`, which reports errors.
        """
        # Read without the lock on purpose; see `execute_on`.
        if self._is_executing:
            return False
        with self._lock:
            if (self._direct is not lending and not self._enter(lending)) or self._donated:
                return False
            self._is_executing = True
            try:
                addresses = self._direct_addresses
                for slot, words in enumerate(self._direct_words):
                    buffer = buffers[slot]
                    start = buffer.start
                    if start is None:
                        start = buffer.locate()
                    # Reused buffers, and freed blocks that were allocated again, keep their
                    # address: nothing to write then.
                    if start != addresses[slot]:
                        addresses[slot] = None  # invalid if an interrupt comes in between
                        for address_array, position, offset in words:
                            address_array[position] = start + offset
                        addresses[slot] = start
                if self._delays_interrupts:
                    with InterruptDelay():
                        for run in self._direct_runs:
                            run()
                else:
                    for run in self._direct_runs:
                        run()
                lending.n_executions += 1
            finally:
                self._is_executing = False
        return True

    def can_execute_direct(self, values: Mapping[str, int]) -> bool:
        """True if the plan supports `execute_direct` with these values of its variables."""
        form = self._template
        # Views and donations need work at each call, which only `execute_on` does; so do variables
        # without a value.
        is_plain = not (form.views or form.donated_indices) and form.bounds.keys() <= values.keys()
        return (
            is_plain and not self._is_checked and all(step.takes_addresses for step in self._steps)
        )

    def _is_one_call(self) -> bool:
        """True if all writes happen in one call, which Ctrl-C cannot interrupt."""
        return len(self._steps) == 1 and self._steps[0].is_whole

    def _enter(self, lending: Lending) -> bool:
        """Put placeholders, which share no memory, into the lent slots, and select their steps.

        Returns:
            False if the plan cannot be executed directly.
        """
        values = lending.values
        if not self.can_execute_direct(values):
            return False
        if self._is_stale:
            self._rebuild()
        before, self._direct = self._direct, None
        if values:
            self._set_variables(values)
        if isinstance(before, Lending) and before.buffer_indices == lending.buffer_indices:
            # Only the values differ, as between the calls of a function with dynamic shapes.
            self._direct_runs = [step.run for step in self._steps]
            self._direct = lending
            return True
        lent = frozenset(index for index in lending.buffer_indices if index is not None)
        if not lent.issuperset(self._lent):
            self._restore_lent()
        placeholders = {
            index: self._make_planned(index) if values else make_placeholder(self._buffers[index])
            for index in lent
        }
        # Set before the first change: after an interrupt, `_rebuild` repairs the plan.
        self._is_stale = True
        pattern = self._follow(placeholders)
        for index, placeholder in placeholders.items():
            self._buffers[index] = placeholder
        self._lent, self._placeholders = lent, placeholders
        if pattern is not None:
            self._rearrange(pattern)
        self._is_stale = False
        if not self.can_execute_direct(values):
            # The steps of the new levels may not support it.
            return False
        self._direct_words = [
            () if index is None else self._words[index] for index in lending.buffer_indices
        ]
        self._direct_addresses = [None] * len(lending.buffer_indices)
        self._direct_runs = [step.run for step in self._steps]
        self._delays_interrupts = self._template.writes_inputs and not self._is_one_call()
        self._direct = lending
        return True
