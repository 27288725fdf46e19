"""`PlanTemplate`: a plan without memory, shared by plans that differ only in buffers and variables.

    template = builder.build_template(inputs=[x, y])      # checked and ordered once
    plan = template.bind([x2, y2], {"n": 7})              # other inputs, new memory for everything else

A template holds the properties of all its plans: the ops and their levels, the users of each
buffer, the bounds of variables, and the memory layout.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

from svod_device import Buffer
from svod_runtime.ops.prepared import PreparedCopy, PreparedKernel
from svod_runtime.plan.changes import LARGE
from svod_runtime.plan.execution_plan import ExecutionPlan, Guard
from svod_runtime.plan.plan_form import PlanForm

if TYPE_CHECKING:
    from svod_ir.origins import Origin
    from svod_runtime.plan.watch import Watched

__all__ = ["PlanTemplate"]

_MAX_RECYCLED: Final = 2
"""Maximum number of plans that a template keeps for reuse: the number of threads that are likely to
execute equal graphs at once.
"""


class _Rebinding(NamedTuple):
    """Slots to fill when a plan is reused.

    Attributes:
        inputs: buffer index of each input.
        outputs: index of each output with its own memory, and the factory of that memory.
        indices: indices of both.
    """

    inputs: tuple[int | None, ...]
    outputs: tuple[tuple[int, Callable[[], Buffer]], ...]
    indices: frozenset[int]


class PlanTemplate(PlanForm):
    """Form that builds plans; created by `ExecutionPlanBuilder`.

    Example:
        >>> from svod_device import Buffer, get_allocator
        >>> from svod_dtype import int32
        >>> from svod_runtime import ExecutionPlanBuilder, PreparedCopy
        >>> first, second, out = (Buffer(get_allocator("CPU"), int32, 2) for _ in range(3))
        >>> builder = ExecutionPlanBuilder("CPU")
        >>> source, copied = builder.add_buffer(1, first), builder.add_buffer(2, out)
        >>> _ = builder.add_op(PreparedCopy(id=0, buffer_indices=(copied, source)))
        >>> builder.set_output_buffer(copied)
        >>> template = builder.build_template(inputs=[first])
        >>> second.copyin(memoryview(bytes([7, 0, 0, 0, 8, 0, 0, 0])))
        >>> plan = template.bind([second])
        >>> plan.execute()
        >>> plan.output_buffer.as_numpy().tolist()
        [7, 8]
    """

    @cached_property
    def _recycled(self) -> list[ExecutionPlan]:
        return []

    @cached_property
    def _rebinding(self) -> _Rebinding | None:
        """Slots to fill for reuse; None for plans with large intermediates or with ops other than
        kernels and copies.
        """
        is_plain = all(isinstance(op, (PreparedKernel, PreparedCopy)) for op in self.ops)
        if (
            not is_plain
            or self.bounds
            or self.donated_indices
            or self.guarded_indices
            or self._sharing is not None
        ):
            return None
        n_inputs, n_users = len(self._specs), Counter(location.base for location in self._locations)
        outputs: dict[int, int] = {}
        for index, (base, view) in enumerate(self._locations):
            is_own = base >= n_inputs and index in self.output_indices
            # Reuse replaces single buffers; other views of the same memory would keep the old one.
            if (base < n_inputs or is_own) and (view is not None or n_users[base] > 1):
                return None
            if is_own:
                outputs[index] = base - n_inputs
        intermediates = set(range(len(self._factories))) - set(outputs.values())
        # A recycled plan keeps its intermediates allocated while nothing uses it.
        if sum(self._factories[index]().nbytes for index in intermediates) >= LARGE:
            return None
        output_factories = [(index, self._factories[i]) for index, i in outputs.items()]
        indices = frozenset([i for i in (*self._input_indices, *outputs) if i is not None])
        return _Rebinding(tuple(self._input_indices), tuple(output_factories), indices)

    def recycle(self, plan: object) -> None:
        """Keep a plan without other references for reuse by a later `bind`."""
        rebinding = self._rebinding
        if (
            rebinding is None
            or not isinstance(plan, ExecutionPlan)
            or len(self._recycled) >= _MAX_RECYCLED
        ):
            return
        if not plan.is_special:
            plan.lend(rebinding.indices)
            self._recycled.append(plan)

    def _reuse_plan(
        self, inputs: Sequence[Buffer], ids: Sequence[int] | None
    ) -> ExecutionPlan | None:
        try:
            plan = self._recycled.pop()
        except IndexError:
            # Another thread took the last one between the test and this call.
            return None
        rebinding = self._rebinding
        assert rebinding is not None
        self._check_inputs(inputs)
        buffers = {
            i: buffer for i, buffer in zip(rebinding.inputs, inputs, strict=True) if i is not None
        }
        buffers.update((index, make()) for index, make in rebinding.outputs)
        plan.rebind(buffers, ids)
        return plan

    def bind(
        self,
        inputs: Sequence[Buffer],
        values: Mapping[str, int] | None = None,
        ids: Sequence[int] | None = None,
        origins: Mapping[int, tuple[Origin, ...]] | None = None,
        guard: Guard | None = None,
        watched: Watched | None = None,
        output_sizes: Sequence[int] | None = None,
    ) -> ExecutionPlan:
        """Return a plan on these inputs, with new memory for all other buffers.

        Args:
            inputs: inputs in the template's order, each equal in size, dtype and device.
            values: values of variables by name; omitted variables start with the values in the ops.
            ids: AST id of each input, if they differ from the template's.
            origins: op id -> source lines of the op.
            guard: called with the guarded buffers and the variable values after each execution;
                raises if the results are invalid.
            watched: kind of values that no kernel may produce from inputs without them; kernels
                then run sequentially.
            output_sizes: number of elements of each output, if variable values make it smaller than
                the template's; inputs may be smaller, too. Only for templates with `spare_bytes`.

        Raises:
            PlanError: if an input has another size, dtype or device, is written but read-only, or
                if inputs share memory with each other differently than the template's inputs.
            VariableBoundsError: if a value is outside its variable's bounds.
            OutOfMemoryError: if a buffer cannot be allocated.
        """
        # Recycled plans have no values, origins, guard or watch, so neither may the new plan.
        if self._recycled and not (values or origins or guard or watched):
            recycled = self._reuse_plan(inputs, ids)
            if recycled is not None:
                return recycled
        return ExecutionPlan(
            self,
            self.allocate_buffers(inputs, output_sizes),
            values or {},
            ids,
            origins or {},
            guard,
            watched,
        )
