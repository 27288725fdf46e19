"""Execution plans: prepared kernels, copies, views and custom functions, run in dependency order."""

from __future__ import annotations

from svod_runtime.builder import ExecutionPlanBuilder
from svod_runtime.custom_function import CustomFunction, clear_custom_functions, register_custom_function
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
from svod_runtime.limits import Limits
from svod_runtime.memory_report import MemoryReport, PlannerMode
from svod_runtime.plan import ExecutionPlan
from svod_runtime.plan_view import PlannedKernel
from svod_runtime.prepared import (
    CachedKernel,
    PreparedBufferView,
    PreparedCopy,
    PreparedCustomFunction,
    PreparedKernel,
    PreparedOp,
)
from svod_runtime.profile import KernelProfile
from svod_runtime.report import KernelSummary, ProfileReport, ScopeSummary
from svod_runtime.template import Guard, PlanTemplate, find_sharing

__all__ = [
    "CachedKernel",
    "CustomFunction",
    "DependencyError",
    "DonatedBufferError",
    "ExecutionError",
    "ExecutionPlan",
    "ExecutionPlanBuilder",
    "Guard",
    "KernelProfile",
    "KernelSummary",
    "Limits",
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
    "PreparedOp",
    "ProfileError",
    "ProfileReport",
    "ScopeSummary",
    "UnsupportedError",
    "VariableBoundsError",
    "clear_custom_functions",
    "find_sharing",
    "register_custom_function",
]
