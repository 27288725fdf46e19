"""Split the layers of a transformer block over the processes.

    mpiexec -n 4 python tensor_parallel.py

The first linear layer of each half is split by its outputs (by columns), the second by its inputs
(by rows): each process computes its heads, and its part of the hidden layer. Each half needs one
all-reduce forward and one backward."""

from __future__ import annotations

import numpy as np

import svod_mpi
import svod_nn as nn
from svod_tensor import Tensor, jit, manual_seed

N_HEADS, WIDTH = 4, 32


class Block(nn.Module):
    """Attention and a feed-forward network, each with a residual connection."""

    def __init__(self) -> None:
        self.norms = [nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)]
        self.queries, self.keys, self.values = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.mixed = nn.Linear(WIDTH, WIDTH)
        self.hidden, self.output = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        normal = self.norms[0](x)
        q, k, v = (split_heads(f(normal)) for f in (self.queries, self.keys, self.values))
        scores = (q @ k.mT / (WIDTH / N_HEADS) ** 0.5).softmax(-1)
        x = x + self.mixed((scores @ v).transpose(-2, -3).reshape(x.shape))
        return x + self.output(self.hidden(self.norms[1](x)).gelu())


def split_heads(x: Tensor) -> Tensor:
    n, length, width = x.shape
    return x.reshape(n, length, N_HEADS, width // N_HEADS).transpose(1, 2)


def shard_block(block: Block, mesh: svod_mpi.Mesh) -> None:
    """Split the linear layers along the axis `model`; all else is replicated."""
    block.shard(mesh)
    for by_columns in (block.queries, block.keys, block.values, block.hidden):
        by_columns.weight = by_columns.weight.shard(mesh, {"model": 0})
        by_columns.bias = by_columns.bias.shard(mesh, {"model": 0})
    for by_rows in (block.mixed, block.output):
        by_rows.weight = by_rows.weight.shard(mesh, {"model": 1})


def get_loss(block: Block, x: Tensor, y: Tensor) -> Tensor:
    return ((block(x) - y) ** 2).mean()


def main() -> None:
    mesh = svod_mpi.Mesh(model=-1)
    manual_seed(0)
    block = Block()
    shard_block(block, mesh)
    optimizer = nn.Adam(block, lr=1e-3)
    rng = np.random.default_rng(0)
    x, y = (Tensor(rng.normal(size=(4, 6, WIDTH)).astype(np.float32)).shard(mesh) for _ in range(2))

    @jit
    def step(x: Tensor, y: Tensor) -> Tensor:
        loss, gradients = nn.value_and_grad(block, get_loss)(x, y)
        optimizer.update(gradients)
        return loss

    losses = [step(x, y).item() for _ in range(20)]
    if mesh.rank == 0:
        print(f"losses {losses[0]:.4f} {losses[9]:.4f} {losses[19]:.4f}")


if __name__ == "__main__":
    main()
