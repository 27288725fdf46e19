"""Train a small model without end. Each rank prints its process after the first step."""

from __future__ import annotations

import os
import sys

import numpy as np
from shared_memory import unlink_shared_memory

import svod_mpi
from svod_tensor import Tensor, jit

mesh = svod_mpi.Mesh()
unlink_shared_memory()
rng = np.random.default_rng(0)
x = Tensor(rng.standard_normal((8, 6)).astype(np.float32)).shard(mesh, {"data": 0})
y = Tensor(rng.standard_normal((8, 3)).astype(np.float32)).shard(mesh, {"data": 0})
w = Tensor(rng.standard_normal((6, 3)).astype(np.float32)).shard(mesh)


@jit
def step(w: Tensor) -> Tensor:
    (gradient,) = ((x @ w - y) ** 2).mean().gradient(w)
    return w - 0.01 * gradient


w = step(w).realize()
sys.stdout.write(f"process {os.getpid()}\n")
sys.stdout.flush()
while True:
    w = step(w).realize()
    if np.isnan(w.shards()[0].numpy()).any():
        raise ValueError("the weights are not numbers")
