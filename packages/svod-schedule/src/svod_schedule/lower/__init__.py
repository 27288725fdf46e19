"""lower: legalize an optimized kernel for the renderers."""

from __future__ import annotations

from svod_schedule.lower.branch_rare import SharedFunctions, define_shared

__all__ = ["SharedFunctions", "define_shared"]
