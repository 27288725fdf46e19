"""The plans of a captured function: by signature, by recency, and as fast paths."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, cast

from svod_device import DeviceLostError
from svod_dtype import default_float
from svod_ir.forks import make_lock
from svod_tensor.capture.keys import is_array
from svod_tensor.capture.quick import UNUSUAL
from svod_tensor.cells.cell import Cell
from svod_tensor.ops.interface.sources import describe_array
from svod_tensor.tensor import Tensor

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from svod_dtype import DType
    from svod_tensor.capture.calls import Captured, FastPath

__all__ = ["MAX_CAPTURES", "MAX_SIZES", "PlanTable", "list_specs"]

MAX_CAPTURES: Final = 64
"""Number of plans that a function keeps; the least recently used one is dropped first."""

MAX_SIZES: Final = 512
"""Number of sizes that a function with dynamic shapes remembers; the oldest is dropped first."""


class PlanTable:
    """Plans by signature; several for one signature if outside values differ.

    Attributes:
        quick: the fast path that the next call tries first.
        quick_kind: the default dtype for which it is valid.
        n_calls: number of calls so far, without the calls on fast paths of plans in the table.
        n_dead: number of plans that were dropped since an argument of theirs had died.
    """

    def __init__(self) -> None:
        self.quick: FastPath | None = None
        self.quick_kind = default_float()
        self.n_calls = self.n_dead = 0
        self._plans: dict[tuple[object, ...], list[Captured]] = {}
        # Calls with known sizes of the plans that are for all sizes.
        self._sized: dict[tuple[object, ...], Captured] = {}
        self._quick_calls: dict[tuple[object, ...], FastPath] = {}
        self._lock = make_lock()
        self._is_changing = self._has_dead = False

    def __len__(self) -> int:
        self.drop_dead()
        return len(self.list_plans())

    def list_plans(self) -> list[Captured]:
        """The plans, without the calls with known sizes."""
        return [captured for known in list(self._plans.values()) for captured in known]

    def list_keys(self) -> list[tuple[object, ...]]:
        """The signatures that have plans."""
        return list(self._plans)

    def count_calls(self, captured: Captured) -> int:
        """The number of calls of a plan; of one for all sizes, with any sizes."""
        sized = [c for c in list(self._sized.values()) if c.base is captured]
        return sum(c.n_calls + c.n_quick_calls for c in (captured, *sized))

    def count_all_calls(self) -> int:
        """The number of all calls so far."""
        kept = (*self.list_plans(), *list(self._sized.values()))
        return self.n_calls + sum(captured.n_quick_calls for captured in kept)

    def find_first(self, key: tuple[object, ...]) -> Captured | None:
        """The plan of a signature that was used last, which need not be valid now."""
        known = self._plans.get(key)
        return known[0] if known else self._sized.get(key)

    def find(self, key: tuple[object, ...]) -> Captured | None:
        """The plan of a signature that is valid now."""
        sized = self._sized.get(key)
        known = (*self._plans.get(key, ()), *(() if sized is None else (sized,)))
        return next((captured for captured in known if captured.validity.is_current), None)

    def keep(self, key: tuple[object, ...], captured: Captured) -> None:
        """Make a plan the first to be tried for a signature, and drop plans that no later call can
        use.
        """
        with self._changing():
            self._disable_quick()
            if captured.base is not None:
                self._sized.pop(key, None)
                self._sized[key] = captured
                if len(self._sized) > MAX_SIZES:
                    self._drop_sized(next(iter(self._sized)))
                return
            for expired in [
                c
                for c in self._plans.get(key, ())
                if c is not captured and (c.is_outgrown or c.validity.has_expired)
            ]:
                self._remove(expired)
            self._plans[key] = [
                captured,
                *(c for c in self._plans.get(key, ()) if c is not captured),
            ]
            while len(self.list_plans()) > MAX_CAPTURES:
                oldest = min(
                    (c for c in self.list_plans() if c is not captured), key=lambda c: c.last_call
                )
                self._remove(oldest)

    def count_call(self, captured: Captured) -> None:
        """Note that a call uses a plan, after all calls on the fast path."""
        with self._lock:
            self._disable_quick()
            self.n_calls += 1
            captured.n_calls += 1
            self._note_use(captured)

    def enable_quick(
        self, key: tuple[object, ...], captured: Captured, args: Sequence[object]
    ) -> None:
        """Try the fast path of a plan first in calls that are like one with these arguments."""
        with self._lock:
            # Another thread may have dropped the plan.
            if captured.quick is None or self.find_first(key) is not captured:
                return
            self.quick, self.quick_kind = captured.quick, default_float()
            specs = list_specs(default_float(), args)
            if specs is not None:
                self._quick_calls[specs] = captured.quick

    def run_other_quick(self, quick: FastPath, kind: DType, args: Sequence[object]) -> object:
        """The results of another fast path, for tensors with these specs, which later calls try
        first; `UNUSUAL` if nothing was done.
        """
        specs = list_specs(kind, args) if len(self._quick_calls) > 1 else None
        other = None if specs is None else self._quick_calls.get(specs)
        if specs is None or other is None or other is quick:
            return UNUSUAL
        with self._lock:
            self._disable_quick()
            # Another thread may have dropped the plan.
            if self._quick_calls.get(specs) is not other:
                return UNUSUAL
            self.quick = other
        try:
            return other.run(args)
        except DeviceLostError:
            self.forget(other.captured)
            raise

    def forget(self, captured: Captured) -> None:
        """Drop a plan whose device was lost; the function is captured again once the device is open
        again.
        """
        with self._changing():
            self._remove(captured if captured.base is None else captured.base)

    def clear(self) -> None:
        """Drop every plan."""
        with self._changing():
            for captured in self.list_plans():
                self._remove(captured)

    def make_death_listener(self) -> Callable[[object], None]:
        """A callback for weak references to arguments, which drops their plans."""
        return functools.partial(_on_owner_death, weakref.ref(self))

    def on_owner_death(self) -> None:
        """Drop plans of an argument that has just died. Finalizers call this, at any step of any
        thread.
        """
        self._has_dead = True
        self.drop_dead()

    def drop_dead(self) -> None:
        """Drop the plans that no call can use since an argument of theirs has died, unless plans
        are being changed now.
        """
        # A finalizer must never block, so the lock is only tried. It is reentrant, so the flag
        # tells whether this thread is inside of `_changing`.
        while self._has_dead and not self._is_changing and self._lock.acquire(blocking=False):
            try:
                if not self._is_changing:
                    self._is_changing, self._has_dead = True, False
                    for captured in self.list_plans():
                        if captured.validity.has_lost_owner:
                            self._remove(captured)
                            self.n_dead += 1
                    self._is_changing = False
            finally:
                self._lock.release()

    @contextmanager
    def _changing(self) -> Generator[None]:
        """Allow plans to be added and dropped in the block; finalizers that run meanwhile drop
        theirs at its end.
        """
        with self._lock:
            is_inside, self._is_changing = self._is_changing, True
            try:
                yield
            finally:
                self._is_changing = is_inside
                self.drop_dead()

    def _disable_quick(self) -> None:
        """Disable the fast path. Calls that took it count as the last ones."""
        quick, self.quick = self.quick, None
        if quick is not None:
            self._note_use(quick.captured)

    def _note_use(self, captured: Captured) -> None:
        captured.last_call = self.n_calls
        if captured.base is not None:
            captured.base.last_call = self.n_calls

    def _drop_sized(self, key: tuple[object, ...]) -> None:
        sized = self._sized.pop(key)
        assert sized.base is not None
        self.n_calls += sized.n_quick_calls
        sized.base.n_calls += sized.n_calls + sized.n_quick_calls

    def _remove(self, captured: Captured) -> None:
        self._disable_quick()
        self._quick_calls.clear()
        if any(known is captured for known in self.list_plans()):
            self.n_calls += captured.n_quick_calls
        for key, known in list(self._plans.items()):
            remaining = [c for c in known if c is not captured]
            if remaining:
                self._plans[key] = remaining
            else:
                del self._plans[key]
        for key, sized in list(self._sized.items()):
            if sized.base is captured:
                self._drop_sized(key)


def list_specs(kind: DType, args: Sequence[object]) -> tuple[object, ...] | None:
    """The default dtype and the specs of the tensors and arrays among arguments; None if one is not
    known.
    """
    specs: list[object] = [kind]
    for value in args:
        if type(value) is Tensor:
            content = value.content
            spec = content.known_spec if type(content) is Cell else None
            if spec is None:
                return None
            specs.append(spec)
        elif is_array(value):
            array = cast("NDArray[np.generic]", value)
            specs.append(describe_array(array.dtype, array.shape)[0])
    return tuple(specs)


def _on_owner_death(table: weakref.ref[PlanTable], _: object) -> None:
    plans = table()
    if plans is not None:
        plans.on_owner_death()
