"""Random programs on sharded tensors: `random_programs.py LANGUAGE FIRST COUNT`.

LANGUAGE is `programs`, `loops` or `derivatives`. Each program is computed on inputs with a drawn
placement, and compared with numpy, or, for derivatives, with the result in one process. Prints the
seeds that failed, and ends with 1 if there are any.
"""

from __future__ import annotations

import random
import sys
from typing import Any

import numpy as np
from mpi4py import MPI

import svod_mpi
import svod_tensor as sv
from svod_tensor import Tensor
from svod_testing import loop_programs, programs
from svod_testing.derivatives.programs import draw_derivative_program
from svod_testing.loop_programs.modes import placing_inputs
from svod_testing.programs.meaning import make_arrays
from svod_testing.programs.modes import MODES
from svod_testing.programs.operations import OPERATIONS
from svod_testing.programs.oracle import UnstableError, find_difference

COMM = MPI.COMM_WORLD
INVALID = (UnstableError, ValueError, LookupError, TypeError, ArithmeticError)


def make_meshes() -> list[svod_mpi.Mesh]:
    n = COMM.Get_size()
    meshes = [svod_mpi.Mesh(data=n)]
    return meshes if n % 2 else [*meshes, svod_mpi.Mesh(data=2, model=n // 2)]


MESHES = make_meshes()


def place(x: Tensor, mesh: svod_mpi.Mesh, rng: random.Random) -> Tensor:
    """`x` on the mesh, with drawn axes split."""
    axes: dict[str, int] = {}
    for name, size in zip(mesh.names, mesh.sizes, strict=True):
        free = [a for a in range(x.ndim) if a not in axes.values() and int(x.shape[a]) >= size]
        if free and rng.random() < 0.7:
            axes[name] = rng.choice(free)
    return x.shard(mesh, axes)


def check_program(seed: int) -> str | None:
    program = programs.generate(seed)
    rng = random.Random(seed)
    mesh, mode = rng.choice(MESHES), MODES[rng.choice(["batch", "prepare", "jit second", "each"])]
    try:
        expected = programs.evaluate_program(program, 0)
    except INVALID:
        return None
    if any(OPERATIONS[step.operation].realizes for step in program.steps):
        mode = MODES["batch"]
    inputs: dict[int, Any] = {
        # Some stay as they are, the same in all processes.
        value: Tensor(array) if rng.random() < 0.1 else place(Tensor(array), mesh, rng)
        for value, array in make_arrays(program, 0).items()
    }
    # A program may ask for memory on the device of a value, which a mesh is not.
    if any(step.operation == "empty" for step in program.steps):
        return None
    results = mode.compute(program, inputs, mode.config)
    for root, result in zip(program.roots, results, strict=True):
        difference = find_difference(result.numpy(copy=True), expected[root])
        if difference is not None:
            return f"x{root}: {difference}"
    return None


def check_loop_program(seed: int) -> str | None:
    rng = random.Random(seed)
    mesh, mode = rng.choice(MESHES), rng.choice(["batch", "jit", "each", "kernels"])
    with placing_inputs(lambda number, x: place(x, mesh, random.Random(7 * seed + number))):
        failure = loop_programs.check_program(loop_programs.generate(seed), mode)
    return None if failure is None else failure.message


def check_derivatives(seed: int) -> str | None:
    program = draw_derivative_program(seed)
    rng = random.Random(seed)
    mesh = rng.choice(MESHES)
    gradient = sv.grad(program.compute, argnums=tuple(range(len(program.inputs))))
    expected = gradient(*map(Tensor, program.inputs))
    computed = rng.choice([gradient, sv.jit(gradient)])(
        *(place(Tensor(x), mesh, rng) for x in program.inputs)
    )
    for n, (x, y) in enumerate(zip(computed, expected, strict=True)):
        if not np.allclose(x.numpy(), y.numpy(), rtol=1e-9, atol=1e-11, equal_nan=True):
            return f"derivative {n}: {x.numpy()} instead of {y.numpy()}"
    return None


CHECKS = {
    "programs": check_program,
    "loops": check_loop_program,
    "derivatives": check_derivatives,
}


def main(language: str, first: int, count: int) -> int:
    failed: list[int] = []
    for seed in range(first, first + count):
        # All processes find the same difference, as all read the whole results.
        problem = CHECKS[language](seed)
        if problem is not None:
            failed.append(seed)
            if COMM.Get_rank() == 0:
                print(f"{language} {seed}: {problem}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
