"""Split the state of an optimizer over the processes, as ZeRO does.

    mpiexec -n 4 python sharded_state.py

Stage 1: the parameters are replicated and the moments of Adam split, so each process updates its
part of the parameters, and the parts are gathered. Stage 2: the sums of the gradients are split
too, so each process receives only the terms of its part."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

import svod_mpi
import svod_nn as nn
from svod_tensor import Tensor, jit, value_and_grad

if TYPE_CHECKING:
    from collections.abc import Callable

SPLIT = {"data": 0}

Weights = dict[str, Tensor]


def get_loss(weights: Weights, x: Tensor, y: Tensor) -> Tensor:
    return (((x @ weights["hidden"]).tanh() @ weights["output"] - y) ** 2).mean()


def differentiate(mesh: svod_mpi.Mesh, weights: Weights, x: Tensor, y: Tensor) -> Weights:
    """Gradients that are replicated, by an all-reduce."""
    return value_and_grad(get_loss)(weights, x, y)[1]


def differentiate_in_parts(mesh: svod_mpi.Mesh, weights: Weights, x: Tensor, y: Tensor) -> Weights:
    """Gradients that are split like the moments, by a reduce-scatter."""
    gradients = differentiate(mesh, weights, x, y)
    return {name: g.shard(mesh, SPLIT) for name, g in gradients.items()}


def train(mesh: svod_mpi.Mesh, get_gradients: Callable[..., Weights]) -> list[float]:
    rng = np.random.default_rng(0)
    shapes = {"hidden": (8, 64), "output": (64, 8)}
    weights = {
        name: Tensor(rng.normal(size=shape, scale=0.2).astype(np.float32)).shard(mesh)
        for name, shape in shapes.items()
    }
    optimizer = nn.Adam(weights, lr=1e-2)
    for slots in optimizer.state["slots"].values():
        slots.update({name: moment.shard(mesh, SPLIT) for name, moment in slots.items()})
    inputs = rng.normal(size=(64, 8)).astype(np.float32)
    x, y = (Tensor(rows).shard(mesh, SPLIT) for rows in (inputs, np.sin(2 * inputs)))

    @jit
    def step(x: Tensor, y: Tensor) -> None:
        optimizer.update(get_gradients(mesh, weights, x, y))

    losses: list[float] = []
    for _ in range(3):
        for _ in range(20):
            step(x, y)
        losses.append(get_loss(weights, x, y).item())
    return losses


def main() -> None:
    mesh = svod_mpi.Mesh()
    for stage, get_gradients in enumerate((differentiate, differentiate_in_parts), 1):
        losses = train(mesh, get_gradients)
        if mesh.rank == 0:
            print(f"stage {stage}:", *(f"{loss:.4f}" for loss in losses))


if __name__ == "__main__":
    main()
