"""optimize: kernel → kernel with the chosen `Opt`s applied."""

from __future__ import annotations

from svod_schedule.optimize.apply_opts import apply_opts
from svod_schedule.optimize.heuristics import apply_heuristics
from svod_schedule.optimize.scheduler import Scheduler

__all__ = ["Scheduler", "apply_heuristics", "apply_opts"]
