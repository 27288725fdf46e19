"""Execution of kernels: a thread pool and a batch launcher in native code."""

from __future__ import annotations

from svod_codegen.launcher.batch import CPU_LAUNCHER, CpuBatchLauncher
from svod_codegen.launcher.pool import Pool, get_pool
from svod_codegen.launcher.program import CpuProgram

__all__ = ["CPU_LAUNCHER", "CpuBatchLauncher", "CpuProgram", "Pool", "get_pool"]
