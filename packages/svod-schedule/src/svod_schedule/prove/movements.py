"""Random args of movement ops, and of reductions over axes, for a tensor of a given shape."""

from __future__ import annotations

import math
from collections.abc import Callable
from random import Random
from typing import Final

from svod_ir import Op
from svod_ir.args import ReduceArg, ScanArg
from svod_ir.ops import REDUCTIONS

__all__ = ["MOVED", "sample_arg"]

Shape = tuple[int, ...]

_REDUCTIONS: Final = sorted(REDUCTIONS, key=lambda op: op.value)


def sample_arg(op: Op, shape: Shape, random: Random) -> object:
    """Sample an arg of `op`, which is in `MOVED`, for an operand of `shape`."""
    return _SAMPLERS[op](shape, random)


def _reshape(shape: Shape, random: Random) -> Shape:
    size = math.prod(shape)
    first = random.choice([n for n in range(1, size + 1) if size % n == 0])
    return random.choice(((size,), (first, size // first), (1, *shape), shape))


def _permute(shape: Shape, random: Random) -> Shape:
    return tuple(random.sample(range(len(shape)), len(shape)))


def _expand(shape: Shape, random: Random) -> Shape:
    return tuple(random.choice((1, 3)) if size == 1 else size for size in shape)


def _pad(shape: Shape, random: Random) -> Shape:
    return tuple(random.randint(0, 2) for _ in shape for _ in range(2))


def _shrink(shape: Shape, random: Random) -> Shape:
    bounds = [sorted((random.randint(0, size), random.randint(0, size))) for size in shape]
    return tuple(bound for pair in bounds for bound in pair)


def _flip(shape: Shape, random: Random) -> tuple[bool, ...]:
    return tuple(random.random() < 0.5 for _ in shape)


def _reduce(shape: Shape, random: Random) -> ReduceArg:
    axes = random.sample(range(len(shape)), random.randint(1, len(shape)))
    return ReduceArg(random.choice(_REDUCTIONS), tuple(sorted(axes)))


def _scan(shape: Shape, random: Random) -> ScanArg:
    return ScanArg(random.choice(_REDUCTIONS), random.randrange(len(shape)))


_SAMPLERS: Final[dict[Op, Callable[[Shape, Random], object]]] = {
    Op.RESHAPE: _reshape,
    Op.PERMUTE: _permute,
    Op.EXPAND: _expand,
    Op.PAD: _pad,
    Op.SHRINK: _shrink,
    Op.FLIP: _flip,
    Op.REDUCE_AXIS: _reduce,
    Op.SCAN_AXIS: _scan,
}

MOVED: Final = frozenset(_SAMPLERS)
