"""`PlanTemplate`: a plan without memory. Plans that differ in nothing but their buffers and variables share one.

    template = builder.build_template(inputs=[x, y])      # checked and ordered once
    plan = template.bind([x2, y2], {"n": 7})              # other inputs, new memory for everything else

What a template knows holds for every plan made from it: the ops and their levels, which kernel takes which
buffer, the bounds of variables, and how much memory there must be besides the inputs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from svod_device import Buffer
from svod_runtime._plan import ExecutionPlan, Guard
from svod_runtime._plan_form import PlanForm

if TYPE_CHECKING:
    from svod_ir.origins import Origin
    from svod_runtime._watch import Watched

__all__ = ["PlanTemplate"]


class PlanTemplate(PlanForm):
    """A form that makes plans; made by `ExecutionPlanBuilder`."""

    def bind(
        self,
        inputs: Sequence[Buffer],
        values: Mapping[str, int] | None = None,
        ids: Sequence[int] | None = None,
        origins: Mapping[int, tuple[Origin, ...]] | None = None,
        guard: Guard | None = None,
        watched: Watched | None = None,
    ) -> ExecutionPlan:
        """A plan on these inputs, and on new memory for everything else.

        Args:
            inputs: as many as the template was built with, each like the one that it replaces.
            values: of variables; those that are not named start with the values in the ops.
            ids: the AST id of each input, where they are not those that the template was built with.
            origins: by the id of an op, the lines of the program that it comes from.
            guard: gets the guarded buffers and the values of the variables after each execution, and raises if it
                finds there that the results mean nothing.
            watched: what no kernel may make of arguments without it; kernels then run one by one.

        Raises:
            PlanError: if an input has another size, dtype or device, is written but read-only, or if inputs
                share memory with each other in another way than those that the template was built with.
            VariableBoundsError: if a value is outside its variable's bounds.
            OutOfMemoryError: if a buffer gets no memory.
        """
        return ExecutionPlan(self, self.place(inputs), values or {}, ids, origins or {}, guard, watched)
