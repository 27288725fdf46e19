"""Waves in a closed basin, whose grid is split over the processes.

    mpiexec -n 4 python shallow_water.py

The shallow-water equations on a staggered grid. Differences of slices read a row of the
neighbour's part: the compiler exchanges these halos, two in each step. The loop is one plan."""

from __future__ import annotations

import numpy as np

import svod_mpi
from svod_tensor import Tensor, fori_loop, jit

GRAVITY, DEPTH, SPACING, TIME_STEP = 9.81, 10.0, 100.0, 2.0

State = tuple[Tensor, Tensor, Tensor]


def step(_: Tensor, state: State) -> State:
    """Elevations in the centres of cells, and velocities on their far faces, a step later."""
    elevation, u, v = state
    u, outflow_u = move(elevation, u)
    # The same across columns, which are whole on each process: no halo.
    v, outflow_v = (x.mT for x in move(elevation.mT, v.mT))
    return elevation - TIME_STEP / SPACING * (outflow_u + outflow_v), u, v


def move(elevation: Tensor, velocity: Tensor) -> tuple[Tensor, Tensor]:
    """The velocity across the first axis, and the outflow of each cell by it."""
    near, far = elevation[:-1], elevation[1:]
    # The last face is a wall, which nothing crosses.
    push = (near - far).pad(((0, 1), (0, 0)))
    velocity = velocity + GRAVITY * TIME_STEP / SPACING * push
    flux = velocity * (DEPTH + (near + far) / 2).pad(((0, 1), (0, 0)))
    return velocity, flux - flux[:-1].pad(((1, 0), (0, 0)))


@jit
def run(elevation: Tensor, u: Tensor, v: Tensor) -> State:
    return fori_loop(0, 100, step, (elevation, u, v))


def main() -> None:
    mesh = svod_mpi.Mesh(rows=-1)
    rows, columns = np.meshgrid(np.arange(62), np.arange(48), indexing="ij")
    bump = np.exp(-((rows - 20) ** 2 + (columns - 30) ** 2) / 30).astype(np.float32)
    start = Tensor(bump).shard(mesh, {"rows": 0})
    elevation, u, v = run(start, start.zeros_like(), start.zeros_like())
    volume, highest = elevation.sum().item(), elevation.max().item()
    probe = elevation[50, 10].item()
    fastest = u.hypot(v).max().item()
    if mesh.rank == 0:
        print(f"volume {volume:.4f}, was {bump.sum():.4f}")
        print(f"highest {highest:.5f}, at a probe {probe:.5f}, fastest {fastest:.5f}")


if __name__ == "__main__":
    main()
