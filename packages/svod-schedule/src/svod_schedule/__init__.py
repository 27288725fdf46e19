"""The compiler passes of svod, from graphs of tensors to linear programs.

`svod_schedule.pipeline` is the table of all passes, and runs them; it is not imported here, so that
`python -m svod_schedule.pipeline` can print it.
"""

from __future__ import annotations

from svod_schedule.errors import ConfigError, LinearizeError, OptError, UnsupportedGraphError
from svod_schedule.options import OptimizerConfig

__all__ = ["ConfigError", "LinearizeError", "OptError", "OptimizerConfig", "UnsupportedGraphError"]
