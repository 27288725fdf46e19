"""The compiler passes of svod, from graphs of tensors to linear programs.

`svod_schedule.pipeline` is the table of all passes, and runs them; it is not imported here, so that
`python -m svod_schedule.pipeline` can print it.
"""

from __future__ import annotations

from svod_schedule.errors import LinearizeError, OptError, UnsupportedGraphError

__all__ = ["LinearizeError", "OptError", "UnsupportedGraphError"]
