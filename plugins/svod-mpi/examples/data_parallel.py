"""Train a network on a batch that is split over processes.

    mpiexec -n 4 python data_parallel.py

The parameters are replicated. The loss is a mean over the split batch, so the compiler sums the
gradients over the processes, and each process takes the same step."""

from __future__ import annotations

import numpy as np

import svod_mpi
import svod_nn as nn
from svod_tensor import Tensor, jit, manual_seed


def make_points(n_points: int) -> tuple[Tensor, Tensor]:
    """Points of the plane, and whether each is inside a ring."""
    points = np.random.default_rng(0).normal(size=(n_points, 2)).astype(np.float32)
    radii = np.hypot(points[:, 0], points[:, 1])
    return Tensor(points), Tensor(((radii > 0.7) & (radii < 1.5)).astype(np.int32))


def get_loss(model: nn.Module, points: Tensor, labels: Tensor) -> Tensor:
    return nn.cross_entropy(model(points), labels)


def main() -> None:
    mesh = svod_mpi.Mesh(data=-1)
    # Each process makes the same tensors, of which it keeps its rows.
    points, labels = (x.shard(mesh, {"data": 0}) for x in make_points(1026))
    manual_seed(0)
    model = nn.Sequential(
        nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 2)
    )
    model.shard(mesh)
    optimizer = nn.AdamW(model, lr=1e-2)

    @jit
    def step(points: Tensor, labels: Tensor) -> Tensor:
        loss, gradients = nn.value_and_grad(model, get_loss)(points, labels)
        optimizer.update(gradients)
        return loss

    for epoch in range(1, 101):
        loss = step(points, labels)
        if epoch % 25 == 0:
            # All processes read the value, since reading may need a collective.
            value = loss.item()
            if mesh.rank == 0:
                print(f"epoch {epoch}: {value:.4f}")
    accuracy = nn.accuracy(model.eval()(points), labels).item()
    if mesh.rank == 0:
        print(f"accuracy {accuracy:.4f}")


if __name__ == "__main__":
    main()
