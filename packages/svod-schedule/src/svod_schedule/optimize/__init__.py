"""optimize: kernel → kernel with the chosen `Opt`s applied."""

from __future__ import annotations

from svod_schedule.optimize.apply_opts import apply_opts
from svod_schedule.optimize.choices import Reason
from svod_schedule.optimize.choose import Chosen, choose
from svod_schedule.optimize.scheduler import Scheduler

__all__ = ["Chosen", "Reason", "Scheduler", "apply_opts", "choose"]
