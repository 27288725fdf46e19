"""Executions on memory that a caller lends at the same places each time: addresses are written
where kernels take them, and steps run.

So go the calls of captured functions. Nothing is looked up in a dict, compared with the call before
or kept after it: the plan has blanks in these places all the time, so that everything else that is
done with it puts buffers there first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from svod_runtime.plan.changes import ChangingPlan, make_blank

if TYPE_CHECKING:
    from array import array

    from svod_device import Buffer

__all__ = ["DirectPlan", "Lending"]


@dataclass(slots=True, eq=False)
class Lending:
    """Memory that a caller lends a plan in the same places at each of its calls.

    Attributes:
        places: the index in the plan of each buffer of a call, inputs and outputs; None for one
            that the plan has no use for.
        n_executions: how many calls there were.

    Example:
        >>> from svod_runtime import Lending
        >>> Lending((0, 1)).n_executions
        0
    """

    places: tuple[int | None, ...]
    n_executions: int = 0


class DirectPlan(ChangingPlan):
    """A plan that can be executed on what a caller lends, without being changed by it."""

    _is_at_work = False
    _is_checked = False
    """Whether something looks at each execution, so that none goes directly."""

    _direct_runs: Sequence[Callable[[], None]] = ()
    # For each place, where kernels take its address or that of a part, and the address that is
    # there now.
    _direct_words: Sequence[Sequence[tuple[array[int], int, int]]] = ()
    _direct_starts: list[int | None]

    def execute_direct(self, lending: Lending, buffers: Sequence[Buffer]) -> bool:
        """Run on buffers of the caller's, of which the plan keeps none.

        Args:
            lending: the places of all buffers that are others at each call; the same object as long
                as the caller is the same.
            buffers: one for each place, equal in size, dtype and device to what is there. Those
                that the plan writes have storages of their own, which nobody else has.

        Returns:
            False if nothing was done: another thread is at work with the plan, or the call must go
                by `execute_on`, which says
            what is wrong if something is.
        """
        # See `execute_on`.
        if self._is_at_work:
            return False
        with self._lock:
            if (self._direct is not lending and not self._enter(lending)) or self._donated:
                return False
            self._is_at_work = True
            try:
                starts = self._direct_starts
                for number, words in enumerate(self._direct_words):
                    buffer = buffers[number]
                    start = buffer.start
                    if start is None:
                        start = buffer.locate()
                    # What is given again, and a block that is freed and given again, is there
                    # already.
                    if start != starts[number]:
                        starts[number] = None  # an interrupt may come in between
                        for words_of_op, position, offset in words:
                            words_of_op[position] = start + offset
                        starts[number] = start
                for run in self._direct_runs:
                    run()
                lending.n_executions += 1
            finally:
                self._is_at_work = False
        return True

    @property
    def can_execute_direct(self) -> bool:
        """Whether `execute_direct` can do anything."""
        form = self._template
        is_plain = not (form.views or form.writes_inputs or form.bounds or form.donated_indices)
        return (
            is_plain and not self._is_checked and all(step.takes_addresses for step in self._steps)
        )

    def _enter(self, lending: Lending) -> bool:
        """Have blanks in these places, which share memory with nothing, and the steps for that;
        False if it cannot be.
        """
        if not self.can_execute_direct:
            return False
        lent = frozenset(index for index in lending.places if index is not None)
        if not lent.issuperset(self._lent):
            self._take_back()
        if self._is_stale:
            self._renew()
        blanks = {index: make_blank(self._buffers[index]) for index in lent}
        self._is_stale = True
        pattern = self._follow(blanks)
        for index, blank in blanks.items():
            self._buffers[index] = blank
        self._lent, self._blanks = lent, blanks
        if pattern is not None:
            self._rearrange(pattern)
        self._is_stale = False
        if not self.can_execute_direct:
            # With other levels there may be other steps.
            return False
        self._direct_words = [
            () if index is None else self._words[index] for index in lending.places
        ]
        self._direct_starts = [None] * len(lending.places)
        self._direct_runs = [step.run for step in self._steps]
        self._direct = lending
        return True
