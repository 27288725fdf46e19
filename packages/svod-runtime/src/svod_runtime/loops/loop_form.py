"""`LoopForm`: properties of a loop shared by all plans of a template: op order and users of the
local buffers.
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
    list_local_views,
)

__all__ = ["LoopForm", "User", "list_loop_forms"]


class User(NamedTuple):
    """Op that takes a local buffer, and the argument position."""

    holder: int
    position: int


class LoopForm:
    """Loop in which each local buffer is bound or a view of a bound buffer.

    Attributes:
        op: the loop.
        counters: counters of this loop and of the enclosing loops.
        levels: indices into the body's ops; ops of one level are independent.
        kernels: kernels of the body in order, each with its launch sizes if they are constant.
        copies: copies of the body, in order.
        loops: inner loops of the body, in order.
        views: for each bound local buffer, the local buffers on its memory (itself first) and their
            offsets.
        users: for each local buffer its users. Kernels come first in the numbering, then copies,
            loops and the condition.
        launcher: launcher that runs the whole loop in one call, or None.
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
        self.views = list_local_views(body)
        ops_by_kind = [kernels, self.copies, [form.op for form in self.loops]]
        arguments = [inner.buffer_indices for kind in ops_by_kind for inner in kind]
        if body.go_on is not None:
            # The condition is read by address after each iteration, like an argument, so it is
            # rebound with the buffers of the ops.
            arguments.append((body.go_on,))
        self.users: dict[int, list[User]] = {}
        for holder, indices in enumerate(arguments):
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
        """Return the operand that a local buffer aliases before the first iteration."""
        match binding:
            case Whole() | Slice():
                return binding.position
            case CarriedOut():
                return self.body.carried[binding.index].result
            case CarriedIn():
                carried = self.body.carried[binding.index]
                return carried.result if carried.spare is None else carried.initial

    def get_bound(self, binding: Binding) -> list[int]:
        """Return the local buffers with this binding."""
        return self._bound.get(binding, [])

    def arrange(self, states: Sequence[KernelState]) -> Arrangement:
        """Arrangement of an iteration's calls; shared by all plans if launch sizes are constant."""
        # Kernels are grouped by whether they use all cores, which depends on launch sizes. If sizes
        # vary, plans of one template may need different groups.
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
        """Variables that the trip count depends on."""
        count = self.op.count
        return frozenset() if count is None or isinstance(count, int) else _list_names(count)

    @property
    def has_varying_count(self) -> bool:
        """True if the trip count depends on the counter of an enclosing loop."""
        return not self._outer_counters.isdisjoint(self.count_variables)

    @property
    def copied_counter(self) -> str | None:
        """Counter that the trip count equals, or None if the trip count is another expression."""
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
        """Launcher of all kernels, if it can run the loop with every op of the body; else None."""
        launchers = {op.kernel.launcher for op, _ in self.kernels} | {
            loop.launcher for loop in self.loops
        }
        launcher = launchers.pop() if len(launchers) == 1 else None
        if not isinstance(launcher, LoopingLauncher) or not launcher.runs_loops:
            return None
        # Custom functions need Python.
        if any(isinstance(op, PreparedCustomFunction) for op in self.body.ops):
            return None
        # A batch table fixes the launch sizes.
        if any(has_varying_sizes(op, self.counters) for op, _ in self.kernels):
            return None
        # Launchers copy a counter to a trip count, but evaluate no expressions.
        if any(loop.has_varying_count and loop.copied_counter is None for loop in self.loops):
            return None
        # Copies within a batch stay in one memory space.
        return launcher if len({_memory_of(buffer) for buffer in self.body.buffers}) == 1 else None


def list_loop_forms(ops: Iterable[object]) -> list[tuple[int, LoopForm]]:
    """Forms of the loops among `ops`, with their indices."""
    return [(index, LoopForm(op)) for index, op in enumerate(ops) if isinstance(op, PreparedLoop)]


def _memory_of(buffer: Buffer) -> str:
    """Memory space of a buffer: a batch copies only within one."""
    return "host" if buffer.is_host_addressable else buffer.device


def _list_names(expression: UOp) -> frozenset[str]:
    return frozenset(node.arg.name for node in expression.iter_ops(Op.DEFINE_VAR))
