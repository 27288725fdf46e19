"""`PlanTemplate`: a plan without memory. Plans that differ in nothing but their buffers and
variables share one.

    template = builder.build_template(inputs=[x, y])      # checked and ordered once
    plan = template.bind([x2, y2], {"n": 7})              # other inputs, new memory for everything else

What a template knows holds for every plan made from it: the ops and their levels, which kernel
takes which buffer, the bounds of variables, and how much memory there must be besides the inputs.
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

_MAX_RETIRED: Final = 2
"""How many plans a template keeps to use them again: as many as threads are likely to execute equal
graphs at once.
"""


class _Renewal(NamedTuple):
    """What a plan needs to be used again.

    Attributes:
        inputs: the index of each input among its buffers.
        outputs: the index of each output that is memory of its own, and how that is made.
        indices: of both.
    """

    inputs: tuple[int | None, ...]
    outputs: tuple[tuple[int, Callable[[], Buffer]], ...]
    indices: frozenset[int]


class PlanTemplate(PlanForm):
    """A form that makes plans; made by `ExecutionPlanBuilder`.

    Example:
        >>> from svod_device import get_allocator
        >>> from svod_dtype import int32
        >>> from svod_runtime import ExecutionPlanBuilder
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
    def _retired(self) -> list[ExecutionPlan]:
        return []

    @cached_property
    def _renewal(self) -> _Renewal | None:
        """How plans are used again; None where they hold more than a little memory, or not only
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
        n_inputs, n_parts = len(self._forms), Counter(place.base for place in self._places)
        outputs: dict[int, int] = {}
        for index, (base, part) in enumerate(self._places):
            is_own = base >= n_inputs and index in self.output_indices
            if (base < n_inputs or is_own) and (part is not None or n_parts[base] > 1):
                return None
            if is_own:
                outputs[index] = base - n_inputs
        others = set(range(len(self._makers))) - set(outputs.values())
        if sum(self._makers[number]().nbytes for number in others) >= LARGE:
            return None
        made = [(index, self._makers[number]) for index, number in outputs.items()]
        indices = frozenset([i for i in (*self._input_indices, *outputs) if i is not None])
        return _Renewal(tuple(self._input_indices), tuple(made), indices)

    def retire(self, plan: object) -> None:
        """Use a plan of this template that nobody else has any more for one that is bound later, on
        other memory.
        """
        renewal = self._renewal
        if (
            renewal is None
            or not isinstance(plan, ExecutionPlan)
            or len(self._retired) >= _MAX_RETIRED
        ):
            return
        if not plan.is_special:
            plan.lend(renewal.indices)
            self._retired.append(plan)

    def _use_again(
        self, inputs: Sequence[Buffer], ids: Sequence[int] | None
    ) -> ExecutionPlan | None:
        try:
            plan = self._retired.pop()
        except IndexError:
            # Another thread has it.
            return None
        renewal = self._renewal
        assert renewal is not None
        self._check_inputs(inputs)
        buffers = {
            i: buffer for i, buffer in zip(renewal.inputs, inputs, strict=True) if i is not None
        }
        buffers.update((index, make()) for index, make in renewal.outputs)
        plan.renew(buffers, ids)
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
        """A plan on these inputs, and on new memory for everything else.

        Args:
            inputs: as many as the template was built with, each like the one that it replaces.
            values: of variables; those that are not named start with the values in the ops.
            ids: the AST id of each input, where they are not those that the template was built
                with.
            origins: by the id of an op, the lines of the program that it comes from.
            guard: gets the guarded buffers and the values of the variables after each execution,
                and raises if it finds there that the results mean nothing.
            watched: what no kernel may make of arguments without it; kernels then run one by one.
            output_sizes: the elements of each output where the values of variables say that it has
                fewer than the template has room for, and inputs may be smaller, too; for templates
                with `spare_bytes`.

        Raises:
            PlanError: if an input has another size, dtype or device, is written but read-only, or
                if inputs share memory with each other in another way than those that the template
                was built with.
            VariableBoundsError: if a value is outside its variable's bounds.
            OutOfMemoryError: if a buffer gets no memory.
        """
        if self._retired and not (values or origins or guard or watched):
            again = self._use_again(inputs, ids)
            if again is not None:
                return again
        return ExecutionPlan(
            self, self.place(inputs, output_sizes), values or {}, ids, origins or {}, guard, watched
        )
