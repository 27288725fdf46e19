"""Shared memory of the MPI library, for programs that are killed."""

from __future__ import annotations

import os
import re
from pathlib import Path

from mpi4py import MPI

__all__ = ["unlink_shared_memory"]


def unlink_shared_memory() -> None:
    """Remove the name of the memory that MPICH shares on this machine, which all have mapped.

    MPICH removes it at a normal end, and otherwise leaves some MB in /dev/shm.
    """
    MPI.COMM_WORLD.Barrier()
    if MPI.COMM_WORLD.Get_rank() == 0:
        maps = Path("/proc/self/maps").read_text()
        for path in set(re.findall(r"/dev/shm/mpich_shm_\w+$", maps, re.MULTILINE)):
            os.unlink(path)
    MPI.COMM_WORLD.Barrier()
