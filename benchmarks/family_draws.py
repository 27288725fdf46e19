"""Sampling of sizes and elements for families of workloads, and the definition of a workload."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from encoder import Array
from workloads import Workload

__all__ = ["Draw", "DrawnWorkload", "Maker", "OnnxNode", "alike", "format_sizes"]

OnnxNode: TypeAlias = tuple[str, str, Mapping[str, Any]]
"""ONNX operator, names of its inputs (`x0`, `x1`, … or `y` for the previous node) and its
attributes.
"""


@dataclass(frozen=True, kw_only=True)
class DrawnWorkload(Workload):
    """Workload with random sizes; `numpy` gets float64 instead of other floats.

    Attributes:
        dtype: dtype that float inputs are cast to, without rounding.
        jax: the same computation on arrays of jax, if it has the operation.
        onnx: the same computation as a chain of nodes, if that is easy to write.
        constants: further inputs of the nodes, by name.
    """

    dtype: str = "float32"
    jax: Callable[..., Any] | None = None
    onnx: Sequence[OnnxNode] = ()
    constants: Mapping[str, Array] | None = None


Maker: TypeAlias = "Callable[[Draw], DrawnWorkload]"


class Draw:
    """Sampler of sizes and elements from one generator.

    Args:
        rng: the generator.
        scale: divisor of all bounds of sizes.
    """

    def __init__(self, rng: np.random.Generator, scale: int = 1) -> None:
        self.rng, self.scale = rng, scale

    def size(self, low: int, high: int) -> int:
        """Sample a size between two bounds, with equal probability for each power of two."""
        low, high = (max(2, bound // self.scale) for bound in (low, high))
        return int(2 ** self.rng.uniform(math.log2(low), math.log2(high + 1)))

    def above(self, low: int, high: int) -> int:
        """Sample a size that is a multiple of 8, 16, 32 or 64, or up to 3 above it."""
        multiple = self.pick(8, 16, 32, 64)
        return max(1, self.size(low, high) // multiple) * multiple + self.pick(0, 1, 2, 3)

    def pick(self, *choices: Any) -> Any:
        return choices[int(self.rng.integers(len(choices)))]

    def normal(self, *shape: int, dtype: str = "float32") -> Array:
        """Sample numbers that `dtype` represents exactly, as float32."""
        drawn = self.rng.standard_normal(shape, dtype=np.float32)
        if dtype == "float16":
            return drawn.astype(np.float16).astype(np.float32)
        return (
            (drawn.view(np.uint32) & 0xFFFF0000).view(np.float32) if dtype == "bfloat16" else drawn
        )

    def distinct(self, n_rows: int, n: int) -> Array:
        """Sample rows of n distinct numbers, so that their order is unique."""
        rows = np.tile(np.arange(n, dtype=np.float32) - n // 2, (n_rows, 1))
        return self.rng.permuted(rows, axis=1)

    def integers(self, n: int, *shape: int, dtype: Any = np.int64) -> Array:
        """Sample indices from 0 up to but excluding `n`."""
        return self.rng.integers(0, n, shape, dtype=dtype)


def alike(
    name: str, inputs: tuple[Array, ...], run: Callable[..., Any], **fields: Any
) -> DrawnWorkload:
    """Create a workload whose `run`, a function of a library and its inputs, is the same in all
    libraries.

    `rest` has the fields that differ.
    """

    def run_svod(*values: Any) -> Any:
        import svod_tensor

        return run(svod_tensor, *values)

    def run_torch(*values: Any) -> Any:
        import torch

        return run(torch, *values)

    def run_jax(*values: Any) -> Any:
        import jax.numpy

        return run(jax.numpy, *values)

    def run_numpy(*values: Any) -> Any:
        return run(np, *values)

    calls: dict[str, Any] = {
        "numpy": run_numpy,
        "svod": run_svod,
        "torch": run_torch,
        "jax": run_jax,
    }
    return DrawnWorkload(name=name, inputs=inputs, **(calls | fields))


def format_sizes(*shapes: Sequence[int]) -> str:
    return ", ".join("x".join(map(str, shape)) for shape in shapes)
