"""lower: an optimised kernel becomes what renderers accept."""

from __future__ import annotations

from svod_schedule.lower.branch_rare import define_rare

__all__ = ["define_rare"]
