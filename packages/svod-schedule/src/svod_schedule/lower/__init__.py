"""lower: legalize an optimized kernel for the renderers."""

from __future__ import annotations

from svod_schedule.lower.branch_rare import define_rare

__all__ = ["define_rare"]
