"""Printing of a program as lines of Python, and building of its tensors by running them."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from types import CodeType
from typing import Any, Final

import numpy as np

from svod_tensor import Tensor
from svod_testing.programs.operations import OPERATIONS
from svod_testing.programs.program import Argument, Program, Step

__all__ = ["PREAMBLE", "build", "write_program"]

PREAMBLE = "import numpy as np\nfrom svod_tensor import Tensor\n"
"""Imports that a printed program needs."""

_WORDS: Final = ("index", "view", "source")
"""Arguments that are inserted into the line as source text."""


def write_program(program: Program, *, with_inputs: bool = True) -> str:
    """Return the lines of the program; without inputs, the lines that `build` runs."""
    lines = [
        _write_step(step) for step in program.steps if with_inputs or step.operation != "input"
    ]
    names = ", ".join(f"x{v}" for v in program.roots)
    return "\n".join([*lines, f"results = [{names}]"])


def _write_step(step: Step) -> str:
    if step.operation == "input":
        return f"x{step.results[0]} = Tensor({_write_data(**step.named)})"
    template = OPERATIONS[step.operation].code
    names = [f"x{v}" for v in step.operands]
    values = {
        name: value if name in _WORDS else _write_argument(value) for name, value in step.args
    }
    results = ", ".join(f"x{v}" for v in step.results) + ("," if _is_tuple(step) else "")
    text = template.format(*names, **values, all=", ".join(names), result=results)
    return text if "{result}" in template else f"{results} = {text}"


def _write_data(shape: tuple[int, ...], dtype: str, low: int, high: int, seed: int) -> str:
    if not dtype.startswith("float"):
        return f'np.random.default_rng({seed}).integers({low}, {high}, {shape}).astype("{dtype}")'
    count = math.prod(shape)
    return (
        f"((np.random.default_rng({seed}).permutation({count}) - {low * count // 2}) /"
        f' 8).reshape({shape}).astype("{dtype}")'
    )


def _is_tuple(step: Step) -> bool:
    return len(step.results) == 1 and OPERATIONS[step.operation].gives_tuple


def _write_argument(value: Argument) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    return repr(value)


@functools.lru_cache(maxsize=64)
def _compile(text: str) -> CodeType:
    return compile(text, "<program>", "exec")


def build(program: Program, inputs: Mapping[int, object]) -> Sequence[Any]:
    """Build the result tensors of the program on these tensors, instead of its own inputs."""
    names: dict[str, Any] = {f"x{v}": tensor for v, tensor in inputs.items()}
    names |= {"np": np, "Tensor": Tensor}
    exec(_compile(write_program(program, with_inputs=False)), names)
    return names["results"]
