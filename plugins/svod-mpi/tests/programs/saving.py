"""Save states without end, each of one number. Each rank prints its process after the first."""

from __future__ import annotations

import os
import sys
from itertools import count

from shared_memory import unlink_shared_memory

import svod_mpi
from svod_tensor import Tensor

mesh = svod_mpi.Mesh()
unlink_shared_memory()
for number in count():
    x = Tensor.full((400, 300), float(number)).shard(mesh, {"data": 0})
    svod_mpi.save({"x": x, "number": number}, sys.argv[1])
    if number == 0:
        sys.stdout.write(f"process {os.getpid()}\n")
        sys.stdout.flush()
