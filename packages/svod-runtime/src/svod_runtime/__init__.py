"""Execution plans: prepared kernels, copies, views, custom functions and loops, run in dependency order."""

from __future__ import annotations

from svod_runtime._builder import ExecutionPlanBuilder
from svod_runtime._custom_function import CustomFunction, clear_custom_functions, register_custom_function
from svod_runtime._dependencies import get_hazards, list_accesses
from svod_runtime._interrupts import InterruptDelay
from svod_runtime._limits import Limits
from svod_runtime._loop_bindings import Binding, Carried, CarriedIn, CarriedOut, Slice, Whole
from svod_runtime._memory_report import MemoryReport, PlannerMode
from svod_runtime._plan import ExecutionPlan, Guard
from svod_runtime._plan_form import find_sharing
from svod_runtime._plan_view import PlannedKernel
from svod_runtime._prepared import (
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
from svod_runtime._profile import KernelProfile
from svod_runtime._report import KernelSummary, ProfileReport, ScopeSummary
from svod_runtime._template import PlanTemplate
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
from svod_runtime.memory.lives import is_fresh

__all__ = [
    "Binding",
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
    "Guard",
    "InterruptDelay",
    "KernelProfile",
    "KernelSummary",
    "Limits",
    "LoopBody",
    "MemoryReport",
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
]
