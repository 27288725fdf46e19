"""Killing a process at a line of its own code, to test crash safety.

Example:
    >>> import subprocess
    >>> import sys
    >>> code = "import colorsys; from svod_codegen.testing import kill_at_line; kill_at_line(colorsys, 3); "
    >>> for call in ("colorsys.ONE_THIRD", "colorsys.rgb_to_hsv(0.1, 0.2, 0.3)"):
    ...     subprocess.run([sys.executable, "-c", code + call]).returncode
    0
    -9
"""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType, ModuleType
from typing import Any

__all__ = ["kill_at_line"]


def kill_at_line(module: ModuleType, n_lines: int) -> None:
    """Kill this process when a thread is about to execute the `n_lines`th line of `module` from now.

    `sys.settrace(None)` cancels it.
    """
    left = n_lines

    def trace(frame: FrameType, event: str, _argument: Any) -> Any:
        nonlocal left
        if frame.f_code.co_filename != module.__file__:
            return None
        left -= event == "line"
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return trace

    sys.settrace(trace)
