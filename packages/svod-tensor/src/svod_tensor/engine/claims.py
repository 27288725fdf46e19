"""Claims to kernels: of several processes that share the disk cache and need the same kernels at the
same time, as the ranks of a mesh do, each compiles a part of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from svod_ir import IROptions
from svod_tensor.engine.stored_kernels import claim_kernel, release_kernel

if TYPE_CHECKING:
    from typing import Self

    from svod_tensor.engine.kernels import KernelTask

__all__ = ["KernelClaims"]


class KernelClaims:
    """The claims of this process, until the end of a `with` statement."""

    def __init__(self) -> None:
        self._claimed: list[KernelTask] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        for task in self._claimed:
            release_kernel(task.key, task.device)

    def claim(self, task: KernelTask) -> bool:
        """Claim a kernel, to compile it; False if another process does, or has done so."""
        # A process whose passes an observer must see compiles all that it needs.
        if not task.is_stored or IROptions.from_env().needs_passes:
            return True
        if not claim_kernel(task.key, task.device):
            return False
        self._claimed.append(task)
        return True
