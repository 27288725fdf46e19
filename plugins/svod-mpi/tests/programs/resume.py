"""Train a network for some steps, from a checkpoint if there is one, and print what it ends with.

Arguments: the number of steps, the step before which the last rank is killed (-1: none), the sizes
of the mesh, and the directory of the checkpoint of each run.
"""

from __future__ import annotations

import hashlib
import os
import signal
import sys

import numpy as np
from shared_memory import unlink_shared_memory

import svod_mpi
import svod_nn as nn
from svod_tensor import Generator, Tensor, jit


def run(folder: str) -> None:
    mesh = svod_mpi.Mesh(data=data, model=n_model, deterministic=True)
    first, second = (nn.Linear(*s, generator=Generator(n)) for n, s in enumerate([(3, 4), (4, 2)]))
    model = nn.Sequential(first, nn.Tanh(), second).shard(mesh)
    # The hidden units are split.
    first.weight = first.weight.shard(mesh, {"model": 0})
    first.bias = first.bias.shard(mesh, {"model": 0})
    second.weight = second.weight.shard(mesh, {"model": 1})
    optimizer = nn.Adam(model, lr=0.05)

    @jit
    def step(x: Tensor, y: Tensor) -> Tensor:
        loss, gradients = nn.value_and_grad(model, lambda model, x, y: nn.mse_loss(model(x), y))(
            x, y
        )
        optimizer.update(gradients)
        return loss

    def get_state(number: int) -> dict[str, object]:
        return {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": number}

    start = 0
    if os.path.exists(f"{folder}/index.json"):
        state = svod_mpi.load(folder, get_state(0))
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        start = state["step"]
        assert first.weight.sharding == state["model"]["0.weight"].sharding
    rng = np.random.default_rng(0)
    batches = [[rng.normal(size=(6, n)).astype(np.float32) for n in (3, 2)] for _ in range(n_steps)]
    for number in range(start, n_steps):
        if number == killed_at:
            unlink_shared_memory()
        if number == killed_at and mesh.rank == mesh.n_ranks - 1:
            os.kill(os.getpid(), signal.SIGKILL)
        step(*(Tensor(a).shard(mesh, {"data": 0}) for a in batches[number])).realize()
        if number % 2 == 1:
            svod_mpi.save(get_state(number + 1), folder)
    tensors = [*model.state_dict().values(), *optimizer.state_dict().values()]
    values = [t.numpy() for t in tensors]
    digest = hashlib.sha256(b"".join(v.tobytes() for v in values)).hexdigest()
    total = float(sum(abs(v).sum() for v in values))
    if mesh.rank == 0:
        print(start, digest, f"{total:.4f}")


n_steps, killed_at, data, n_model = map(int, sys.argv[1:5])
for folder in sys.argv[5:]:
    run(folder)
