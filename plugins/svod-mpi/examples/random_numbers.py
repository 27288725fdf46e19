"""Estimate pi from random points that are split over the processes.

    mpiexec -n 4 python random_numbers.py

The elements of a random tensor depend on the seed and their index, so each process samples its own
part, and the points do not depend on the number of processes."""

from __future__ import annotations

import svod_mpi
from svod_tensor import Generator, Tensor, jit


def main() -> None:
    mesh = svod_mpi.Mesh()
    generator = Generator(0)

    @jit
    def estimate() -> Tensor:
        x, y = (
            Tensor.rand(200_003, generator=generator).shard(mesh, {"data": 0}) for _ in range(2)
        )
        return (x * x + y * y < 1).mean() * 4

    for sample in range(3):
        value = estimate().item()
        if mesh.rank == 0:
            print(f"sample {sample}: {value:.6f}")


if __name__ == "__main__":
    main()
