"""The waves of the example on grids that are split in several ways, compared with numpy, and with a
run without a mesh.

All numbers are float64. A step is elementwise: the runs differ only where a compiler fuses a
product with a sum, and waves do not amplify such rounding errors.
"""

from __future__ import annotations

import runpy
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
from mpi4py import MPI

import svod_mpi
from svod_tensor import Tensor, fori_loop, jit

Run = Callable[..., tuple[Tensor, Tensor, Tensor]]

N = MPI.COMM_WORLD.Get_size()
N_STEPS = 50
EXAMPLE = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "shallow_water.py"))
step = EXAMPLE["step"]


@jit
def run(*state: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return fori_loop(0, N_STEPS, step, state)


@jit
def run_step(*state: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return step(Tensor(0), state)


def run_steps(*state: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    for _ in range(N_STEPS):
        state = run_step(*state)
    return state


def run_numpy(start: np.ndarray) -> list[np.ndarray]:
    """The same scheme, with the velocities of inner faces only."""
    elevation = start.copy()
    velocities = [np.zeros_like(np.diff(start, axis=axis)) for axis in (0, 1)]
    ratio = EXAMPLE["TIME_STEP"] / EXAMPLE["SPACING"]
    for _ in range(N_STEPS):
        change = np.zeros_like(elevation)
        for velocity, of_axis, of_change in zip(
            velocities, (elevation, elevation.T), (change, change.T), strict=True
        ):
            faces = velocity if of_axis is elevation else velocity.T
            faces -= EXAMPLE["GRAVITY"] * ratio * np.diff(of_axis, axis=0)
            flux = faces * (EXAMPLE["DEPTH"] + (of_axis[1:] + of_axis[:-1]) / 2)
            of_change[:-1] -= flux
            of_change[1:] += flux
        elevation += ratio * change
    # The walls are the last faces.
    u, v = velocities
    return [elevation, np.pad(u, ((0, 1), (0, 0))), np.pad(v, ((0, 0), (0, 1)))]


def make_start(n_rows: int, n_columns: int) -> np.ndarray:
    rows, columns = np.meshgrid(np.arange(n_rows), np.arange(n_columns), indexing="ij")
    return np.exp(-((rows - n_rows / 3) ** 2 + (columns - n_columns / 2) ** 2) / 10)


def check(
    sizes: dict[str, int], layout: Mapping[str, int], shape: tuple[int, int], *functions: Run
) -> None:
    mesh = svod_mpi.Mesh(**sizes)
    start = make_start(*shape)
    expected = run_numpy(start)
    state = [Tensor(x) for x in (start, np.zeros_like(start), np.zeros_like(start))]
    plain = [x.numpy() for x in run(*state)]
    split = [x.shard(mesh, layout) for x in state]
    for function in functions:
        for x, own, reference in zip(function(*split), plain, expected, strict=True):
            assert x.sharding == split[0].sharding, (sizes, layout, shape)
            # Elevations are of the size 1.
            np.testing.assert_allclose(x.numpy(), own, rtol=0, atol=1e-14)
            np.testing.assert_allclose(x.numpy(), reference, rtol=0, atol=1e-14)


def main() -> None:
    check({"rows": N}, {"rows": 0}, (21, 13), run, run_steps)
    check({"rows": N}, {"rows": 1}, (21, 13), run)
    # Each process has one row.
    check({"rows": N}, {"rows": 0}, (N, 6), run)
    if N == 4:
        check({"rows": 2, "columns": 2}, {"rows": 0, "columns": 1}, (15, 13), run)


if __name__ == "__main__":
    main()
