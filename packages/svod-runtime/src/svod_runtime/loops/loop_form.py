"""`LoopForm`: what holds for a loop in every plan of a template: the order of its ops, and who
takes which local buffer.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from svod_device import Buffer, LoopingLauncher
from svod_ir import Op, UOp
from svod_runtime.kernels.arrangement import Arrangement, arrange
from svod_runtime.kernels.kernel_state import KernelState, find_constant_sizes, has_varying_sizes
from svod_runtime.loops.body_order import BodyDependencies
from svod_runtime.ops.loop_bindings import Binding, CarriedIn, CarriedOut, Slice, Whole
from svod_runtime.ops.prepared import (
    PreparedCopy,
    PreparedCustomFunction,
    PreparedKernel,
    PreparedLoop,
    list_parts,
)

__all__ = ["LoopForm", "User", "list_loop_forms"]


class User(NamedTuple):
    """Who takes a local buffer, and at which position."""

    holder: int
    position: int


class LoopForm:
    """A loop whose local buffers are all bound, or parts of those that are.

    Attributes:
        op: the loop.
        counters: the counters of this loop and of those that it is in.
        levels: indices into the body's ops; the ops of one level do not depend on each other.
        kernels: the kernels of the body, in order, and their launch sizes where these are always
            the same.
        copies: the copies of the body, in order.
        loops: the loops of the body, in order.
        parts: for each local buffer that is bound, what lies on it: indices of local buffers,
            itself first, and offsets.
        users: for each local buffer those who take it. Kernels are numbered first, then copies and
            loops; last comes the condition.
        launcher: the one that runs the whole loop in one call, if there is one.
    """

    def __init__(self, op: PreparedLoop, counters: frozenset[str] = frozenset()) -> None:
        body = self.body = op.body
        self.op = op
        self.counters = counters if body.counter is None else counters | {body.counter}
        self.levels = BodyDependencies(op).get_levels(body.buffers)
        kernels = [inner for inner in body.ops if isinstance(inner, PreparedKernel)]
        self.kernels = [(inner, find_constant_sizes(inner)) for inner in kernels]
        self.copies = [inner for inner in body.ops if isinstance(inner, PreparedCopy)]
        self.loops = [
            LoopForm(inner, self.counters) for inner in body.ops if isinstance(inner, PreparedLoop)
        ]
        self.parts = list_parts(body)
        takers = [kernels, self.copies, [form.op for form in self.loops]]
        taken = [inner.buffer_indices for kind in takers for inner in kind]
        if body.go_on is not None:
            taken.append((body.go_on,))
        self.users: dict[int, list[User]] = {}
        for holder, indices in enumerate(taken):
            for position, index in enumerate(indices):
                self.users.setdefault(index, []).append(User(holder, position))
        self._bound: dict[Binding, list[int]] = {}
        for index, binding in enumerate(body.bindings):
            if binding is not None:
                self._bound.setdefault(binding, []).append(index)
        self.slices = [(i, b.position) for i, b in enumerate(body.bindings) if isinstance(b, Slice)]
        self._has_constant_sizes = all(sizes is not None for _, sizes in self.kernels)
        self._arrangement: Arrangement | None = None
        self.launcher = self._find_launcher()

    def position_of(self, binding: Binding) -> int:
        """The operand that a local buffer follows before the first iteration."""
        match binding:
            case Whole() | Slice():
                return binding.position
            case CarriedOut():
                return self.body.carried[binding.number].result
            case CarriedIn():
                carried = self.body.carried[binding.number]
                return carried.result if carried.spare is None else carried.initial

    def get_bound(self, binding: Binding) -> list[int]:
        """The local buffers that have this binding."""
        return self._bound.get(binding, [])

    def arrange(self, states: Sequence[KernelState]) -> Arrangement:
        """What each call of an iteration runs; the same for all plans unless launch sizes say
        otherwise.
        """
        if not self._has_constant_sizes:
            return arrange(
                self.body.ops, self.levels, states, [form.launcher for form in self.loops]
            )
        if self._arrangement is None:
            self._arrangement = arrange(
                self.body.ops, self.levels, states, [form.launcher for form in self.loops]
            )
        return self._arrangement

    @property
    def count_variables(self) -> frozenset[str]:
        """The variables that the number of iterations depends on."""
        count = self.op.count
        return frozenset() if count is None or isinstance(count, int) else _list_names(count)

    @property
    def has_varying_count(self) -> bool:
        """Whether the number of iterations differs between iterations of a loop that this one is
        in.
        """
        return not self._outer_counters.isdisjoint(self.count_variables)

    @property
    def copied_counter(self) -> str | None:
        """The counter that the number of iterations is, if it is just that."""
        count = self.op.count
        if (
            not isinstance(count, UOp)
            or count.op is not Op.DEFINE_VAR
            or not self.has_varying_count
        ):
            return None
        return str(count.arg.name)

    @property
    def _outer_counters(self) -> frozenset[str]:
        return self.counters - {self.body.counter}

    def _find_launcher(self) -> LoopingLauncher | None:
        """The launcher of all kernels, if it runs loops and everything else in the body is
        something that it can do.
        """
        launchers = {op.kernel.launcher for op, _ in self.kernels} | {
            loop.launcher for loop in self.loops
        }
        launcher = launchers.pop() if len(launchers) == 1 else None
        if not isinstance(launcher, LoopingLauncher) or not launcher.runs_loops:
            return None
        if any(isinstance(op, PreparedCustomFunction) for op in self.body.ops):
            return None
        if any(has_varying_sizes(op, self.counters) for op, _ in self.kernels):
            return None
        if any(loop.has_varying_count and loop.copied_counter is None for loop in self.loops):
            return None
        return launcher if len({_home_of(buffer) for buffer in self.body.buffers}) == 1 else None


def list_loop_forms(ops: Iterable[object]) -> list[tuple[int, LoopForm]]:
    """The loops among ops, with their indices."""
    return [(index, LoopForm(op)) for index, op in enumerate(ops) if isinstance(op, PreparedLoop)]


def _home_of(buffer: Buffer) -> str:
    """What memory a copy within a batch stays in."""
    return "host" if buffer.is_host_addressable else buffer.device


def _list_names(expression: UOp) -> frozenset[str]:
    return frozenset(node.arg.name for node in expression.iter_ops(Op.DEFINE_VAR))
