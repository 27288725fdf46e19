"""Profile a step in which the last rank is late at each collective, and print the times."""

from __future__ import annotations

import json
import sys
import time

import svod_mpi
from svod_tensor import Tensor, custom_function, float32, register_custom_function

mesh = svod_mpi.Mesh(data=-1, model=2)
read_clock = time.perf_counter_ns
# As on machines that were started at different times.
time.perf_counter_ns = lambda: read_clock() + mesh.rank * 1_000_000_000


def be_late(out: object, x: object) -> None:
    if mesh.rank == mesh.n_ranks - 1:
        time.sleep(0.1)
    out[...] = x


register_custom_function("late", be_late)
part = custom_function("late", Tensor.ones((2, 3)).contiguous(), outputs=((2, 3), float32))
x = mesh.join(part, {"data": 0, "model": 1})
plan = (x * 2).sum().prepare()
report = svod_mpi.profile(plan, mesh, n_runs=2)
report.save_trace(sys.argv[1])
assert [r.rank for r in report.ranks] == list(range(mesh.n_ranks))
assert len(str(report).splitlines()) == mesh.n_ranks + 1
mesh.barrier()
if mesh.rank == 0:
    print(json.dumps([r._asdict() for r in report.ranks]))
# The plan runs as before, and nothing is recorded.
plan.execute()
