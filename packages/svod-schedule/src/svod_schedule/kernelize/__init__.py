"""kernelize: `RangedGraph` → `KernelGraph`. Each stored value becomes a CALL that fills a buffer."""

from __future__ import annotations

from svod_schedule.kernelize.cut import cut_kernels
from svod_schedule.kernelize.share_bodies import share_bodies

__all__ = ["cut_kernels", "share_bodies"]
