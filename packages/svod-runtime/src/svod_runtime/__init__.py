"""Execution plans: prepared kernels, copies, views, custom functions and loops, executed in
dependency order.

Example:
    >>> import numpy as np
    >>> from svod_device import Buffer, Variable, get_allocator
    >>> from svod_dtype import float32
    >>> from svod_runtime import ExecutionPlan, ExecutionPlanBuilder, PreparedCopy, PreparedCustomFunction, PreparedOp
    >>> from svod_runtime import CustomFunction, register_custom_function
    >>> def scale(buffers, variables, attrs):
    ...     out, x = buffers
    ...     out.copyin(x.as_numpy() * np.float32(variables["n"]))
    >>> function: CustomFunction = scale
    >>> register_custom_function("scale", function)
    >>> builder = ExecutionPlanBuilder("CPU")
    >>> source, copied, result = (builder.add_buffer(i, Buffer(get_allocator("CPU"), float32, 4)) for i in (10, 11, 12))
    >>> copy: PreparedOp = PreparedCopy(id=0, buffer_indices=(copied, source))
    >>> _ = builder.add_op(copy)
    >>> call = PreparedCustomFunction(
    ...     id=1, kind="scale", buffer_indices=(result, copied), variables=(Variable("n", 1, 9),), values={"n": 2}
    ... )
    >>> _ = builder.add_op(call)
    >>> builder.set_output_buffer(result)
    >>> plan = builder.build()
    >>> plan.buffer(10).copyin(np.arange(4, dtype=np.float32))
    >>> plan.execute()
    >>> isinstance(plan, ExecutionPlan), plan.output_buffer.as_numpy().tolist()
    (True, [0.0, 2.0, 4.0, 6.0])
    >>> from svod_runtime import MemoryReport, describe_op, find_sharing, get_hazards, is_fresh, list_accesses
    >>> isinstance(plan.memory_report, MemoryReport), describe_op(call)
    (True, "custom function 'scale' (op 1)")
    >>> find_sharing(plan.buffers), is_fresh(Buffer(get_allocator("CPU"), float32, 4))
    (None, True)
    >>> accesses = [list_accesses(plan.buffer(10), is_write) for is_write in (True, False)]
    >>> get_hazards(accesses, range(2))
    [set(), {0}]
    >>> from svod_runtime import ProfileReport
    >>> ProfileReport(plan.execute_profiled()).n_launches
    0

    A loop: each iteration multiplies its carry by a factor and adds a row.

    >>> from svod_runtime import Binding, Carried, CarriedIn, CarriedOut, LoopBody, PreparedLoop, Slice, Whole
    >>> def step(buffers, variables, attrs):
    ...     after, before, row, factor = buffers
    ...     after.copyin(before.as_numpy() * factor.as_numpy() + row.as_numpy())
    >>> register_custom_function("step", step)
    >>> cpu = get_allocator("CPU")
    >>> bindings: tuple[Binding, ...] = (CarriedOut(0), CarriedIn(0), Slice(0), Whole(1))
    >>> body = LoopBody(
    ...     buffers=tuple(Buffer(cpu, float32, 2) for _ in range(4)),
    ...     ops=(PreparedCustomFunction(id=0, kind="step", buffer_indices=(0, 1, 2, 3)),),
    ...     bindings=bindings,
    ...     carried=(Carried(initial=2, result=3, spare=4),),
    ... )
    >>> builder = ExecutionPlanBuilder("CPU")
    >>> indices = tuple(builder.add_buffer(i, Buffer(cpu, float32, n)) for i, n in enumerate((6, 2, 2, 2, 2)))
    >>> loop = PreparedLoop(id=0, buffer_indices=indices, output_indices=(3, 4), body=body, count=3)
    >>> _ = builder.add_op(loop)
    >>> builder.set_output_buffer(indices[3])
    >>> plan = builder.build()
    >>> for ast_id, values in enumerate(([1, 2, 3, 4, 5, 6], [10, 100], [0, 0])):
    ...     plan.buffer(ast_id).copyin(np.array(values, "float32"))
    >>> plan.execute()
    >>> plan.output_buffer.as_numpy().tolist()
    [135.0, 20406.0]

    The plan of a tensor has kernels. A profile has the time and the scope of each:

    >>> import svod_tensor as sv
    >>> from svod_runtime import CachedKernel, KernelProfile, KernelSummary, PlannedKernel, PreparedKernel, ScopeSummary
    >>> with sv.track_origins(), sv.scope("norm"):
    ...     plan = sv.asarray([3.0, 4.0]).square().sum().prepare()
    >>> (planned,) = plan.kernels()
    >>> isinstance(planned, PlannedKernel), isinstance(planned.op, PreparedKernel), isinstance(planned.kernel, CachedKernel)
    (True, True, True)
    >>> planned.device, planned.n_runs, planned.kernel.spec.outs
    ('CPU', 1, (0,))
    >>> report = plan.profile()
    >>> isinstance(report.profiles[0], KernelProfile), report.profiles[0].n_bytes
    (True, 12)
    >>> (kernel,), (scope,) = report.summaries(), report.scopes()
    >>> isinstance(kernel, KernelSummary), isinstance(scope, ScopeSummary), scope.scope
    (True, True, 'norm')
"""

from __future__ import annotations

from svod_runtime.errors import (
    DependencyError,
    DonatedBufferError,
    ExecutionError,
    NonFiniteError,
    PlanError,
    ProfileError,
    UnsupportedError,
    VariableBoundsError,
)
from svod_runtime.memory.live_ranges import is_fresh
from svod_runtime.memory.memory_report import MemoryReport, PlannerMode
from svod_runtime.ops.custom_functions import (
    BoundProgram,
    CustomFunction,
    FindNativeCall,
    NativeCall,
    clear_custom_functions,
    register_custom_function,
    register_native_function,
)
from svod_runtime.ops.dependencies import get_hazards, list_accesses
from svod_runtime.ops.loop_bindings import Binding, Carried, CarriedIn, CarriedOut, Slice, Whole
from svod_runtime.ops.prepared import (
    CachedKernel,
    LoopBody,
    PreparedBufferView,
    PreparedCopy,
    PreparedCustomFunction,
    PreparedKernel,
    PreparedLoop,
    PreparedOp,
    describe_op,
)
from svod_runtime.plan.builder import ExecutionPlanBuilder
from svod_runtime.plan.direct import Lending
from svod_runtime.plan.execution_plan import ExecutionPlan, Guard
from svod_runtime.plan.interrupts import InterruptDelay
from svod_runtime.plan.plan_form import find_sharing
from svod_runtime.plan.template import PlanTemplate
from svod_runtime.plan.view import PlannedKernel
from svod_runtime.profile.kernel_profile import FunctionProfile, KernelProfile
from svod_runtime.profile.limits import Limits
from svod_runtime.profile.report import KernelSummary, ProfileReport, ScopeSummary

__all__ = [
    "Binding",
    "BoundProgram",
    "CachedKernel",
    "Carried",
    "CarriedIn",
    "CarriedOut",
    "CustomFunction",
    "DependencyError",
    "DonatedBufferError",
    "ExecutionError",
    "ExecutionPlan",
    "ExecutionPlanBuilder",
    "FindNativeCall",
    "FunctionProfile",
    "Guard",
    "InterruptDelay",
    "KernelProfile",
    "KernelSummary",
    "Lending",
    "Limits",
    "LoopBody",
    "MemoryReport",
    "NativeCall",
    "NonFiniteError",
    "PlanError",
    "PlanTemplate",
    "PlannedKernel",
    "PlannerMode",
    "PreparedBufferView",
    "PreparedCopy",
    "PreparedCustomFunction",
    "PreparedKernel",
    "PreparedLoop",
    "PreparedOp",
    "ProfileError",
    "ProfileReport",
    "ScopeSummary",
    "Slice",
    "UnsupportedError",
    "VariableBoundsError",
    "Whole",
    "clear_custom_functions",
    "describe_op",
    "find_sharing",
    "get_hazards",
    "is_fresh",
    "list_accesses",
    "register_custom_function",
    "register_native_function",
]
