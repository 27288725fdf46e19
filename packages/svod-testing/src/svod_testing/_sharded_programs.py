"""Random programs on tensors sharded over a mesh, for plugins that provide one."""

# Arrays of any dtype come and go.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from svod_ir import Mesh
from svod_tensor import Tensor, grad, jit
from svod_testing import loop_programs, programs
from svod_testing._stencil_programs import draw_stencil_program
from svod_testing.derivatives.programs import draw_derivative_program
from svod_testing.loop_programs.modes import placing_inputs
from svod_testing.programs.meaning import make_arrays
from svod_testing.programs.modes import MODES
from svod_testing.programs.operations import OPERATIONS
from svod_testing.programs.oracle import UnstableError, find_difference

__all__ = ["check_sharded_program"]

_INVALID: Final = (UnstableError, ValueError, LookupError, TypeError, ArithmeticError)


def check_sharded_program(language: str, seed: int, meshes: Sequence[Mesh]) -> str | None:
    """Compute the program of a seed on inputs that are sharded over one of `meshes`; return what is
    wrong with the results, or None.

    All processes call this alike, and all find the same. A derivative is compared with
    the one that this process computes alone, all others with numpy.

    Args:
        language: `programs`, `loops`, `derivatives` or `stencils`.
        seed: of the program, the choice of the mesh, and the placement of each input.
        meshes: to choose from.

    Example:
        >>> from svod_ir import Mesh
        >>> from svod_testing import check_sharded_program
        >>> check_sharded_program("derivatives", 3, [Mesh(("data",), (1,), (0,))])
    """
    rng = random.Random(seed)
    return _CHECKS[language](seed, rng, rng.choice(meshes))


def _place(x: Tensor, mesh: Mesh, rng: random.Random) -> Tensor:
    """`x` on the mesh, with drawn axes split."""
    axes: dict[str, int] = {}
    for name, size in zip(mesh.names, mesh.sizes, strict=True):
        free = [a for a in range(x.ndim) if a not in axes.values() and int(x.shape[a]) >= size]
        if free and rng.random() < 0.7:
            axes[name] = rng.choice(free)
    return x.shard(mesh, axes)


def _check_program(seed: int, rng: random.Random, mesh: Mesh) -> str | None:
    program = programs.generate(seed)
    mode = MODES[rng.choice(["batch", "prepare", "jit second", "each"])]
    try:
        expected = programs.evaluate_program(program, 0)
    except _INVALID:
        return None
    # A program may ask for memory on the device of a value, which a mesh is not.
    if ".device" in programs.write_program(program):
        return None
    if any(OPERATIONS[step.operation].realizes for step in program.steps):
        mode = MODES["batch"]
    inputs: dict[int, Any] = {
        # Some stay as they are, the same in all processes.
        value: Tensor(array) if rng.random() < 0.1 else _place(Tensor(array), mesh, rng)
        for value, array in make_arrays(program, 0).items()
    }
    results = mode.compute(program, inputs, mode.config)
    for root, result in zip(program.roots, results, strict=True):
        difference = find_difference(result.numpy(copy=True), expected[root])
        if difference is not None:
            return f"x{root}: {difference}"
    return None


def _check_loop(seed: int, rng: random.Random, mesh: Mesh) -> str | None:
    mode = rng.choice(["batch", "jit", "each", "kernels"])
    with placing_inputs(lambda number, x: _place(x, mesh, random.Random(7 * seed + number))):
        failure = loop_programs.check_program(loop_programs.generate(seed), mode)
    return None if failure is None else failure.message


def _check_derivatives(seed: int, rng: random.Random, mesh: Mesh) -> str | None:
    program = draw_derivative_program(seed)
    gradient: Callable[..., Any] = grad(program.compute, argnums=tuple(range(len(program.inputs))))
    expected = gradient(*map(Tensor, program.inputs))
    inputs = [_place(Tensor(x), mesh, rng) for x in program.inputs]
    computed = rng.choice([gradient, jit(gradient)])(*inputs)
    for n, (x, y) in enumerate(zip(computed, expected, strict=True)):
        if not np.allclose(x.numpy(), y.numpy(), rtol=1e-9, atol=1e-11, equal_nan=True):
            return f"derivative {n}: {x.numpy()} instead of {y.numpy()}"
    return None


def _check_stencils(seed: int, rng: random.Random, mesh: Mesh) -> str | None:
    program = draw_stencil_program(seed)
    # One layout for both: else operands are exchanged or gathered, and halos are rare.
    layout = rng.randrange(1 << 30)
    inputs = [_place(Tensor(x), mesh, random.Random(layout)) for x in program.inputs]
    results = rng.choice([program.compute, jit(program.compute)])(*inputs)
    Tensor.realize_batch(results)
    for n, (result, expected) in enumerate(zip(results, program.evaluate(), strict=True)):
        if not np.allclose(result.numpy(), expected, rtol=1e-9, atol=1e-11):
            return f"result {n}: {result.numpy()} instead of {expected}"
    return None


_CHECKS: Final[dict[str, Callable[[int, random.Random, Mesh], str | None]]] = {
    "programs": _check_program,
    "loops": _check_loop,
    "derivatives": _check_derivatives,
    "stencils": _check_stencils,
}
