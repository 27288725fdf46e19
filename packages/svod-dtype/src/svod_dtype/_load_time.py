"""When this process loaded svod: a source file that changed later is not the code that runs
here.
"""

from __future__ import annotations

from time import time_ns
from typing import Final

__all__ = ["LOADED_AT_NS"]

LOADED_AT_NS: Final = time_ns()
"""In nanoseconds of the clock that file systems use; every svod distribution imports this one
first.
"""
