"""Calls of operations on windows and images, including scatters, and their torch counterparts."""

# torch has no types here: it is not installed where this is checked.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownParameterType=false

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from svod_tensor import Tensor

__all__ = ["IMAGE_CASES", "Case"]


@dataclass(frozen=True)
class Case:
    """A call of an operation.

    Attributes:
        operation: its name.
        call: from tensors of floats to one.
        peer: the same, from torch and its tensors.
        shapes: shapes of the arguments.
        domain: where they are.
        is_elementwise: whether it takes other shapes too, which broadcast.
        refused: dtypes of arguments for which it is an `OperandError`.
    """

    operation: str
    call: Callable[..., Any]
    peer: Callable[..., Any]
    shapes: tuple[tuple[int, ...], ...]
    domain: str = "real"
    is_elementwise: bool = False
    refused: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.operation


_GRID: Final = [
    [[[-0.9, 0.1], [0.3, -1.4], [1.3, 0.77]], [[0.02, -0.2], [0.6, 0.55], [-0.33, 1.21]]]
]
_PLACES: Final = [[0, 2, 2], [4, 2, 0]]


def _case(
    operation: str, call: Callable[..., Any], peer: Callable[..., Any], *shapes: tuple[int, ...]
) -> Case:
    return Case(operation, call, peer, shapes)


def _list_samples(mode: str, padding: str, align: bool) -> Case:
    """Case of `grid_sample` whose grid depends on an operand, so that it has a derivative too."""
    return _case(
        "grid_sample",
        lambda x, g: x.grid_sample(
            Tensor(_GRID, dtype=g.dtype) + g * 1e-3,
            mode=mode,
            padding_mode=padding,
            align_corners=align,
        ),
        lambda t, x, g: t.nn.functional.grid_sample(
            x, t.tensor(_GRID, dtype=x.dtype) + g * 1e-3, mode, padding, align
        ),
        (1, 2, 4, 3),
        (1, 2, 3, 2),
    )


# fmt: off
IMAGE_CASES: Final = (
    _case("max_pool2d", lambda x: x.max_pool2d(3, stride=2, padding=1), lambda t, x: t.nn.functional.max_pool2d(x, 3, 2, 1), (2, 3, 6, 7)),
    _case("max_pool2d", lambda x: x.max_pool2d(3, stride=2, padding=[(0, 1), 1], ceil_mode=True), lambda t, x: t.nn.functional.max_pool2d(t.nn.functional.pad(x, (1, 1, 0, 1), value=float("-inf")), 3, 2, ceil_mode=True), (1, 2, 6, 8)),
    _case("avg_pool2d", lambda x: x.avg_pool2d(3, stride=2, padding=1, count_include_pad=False), lambda t, x: t.nn.functional.avg_pool2d(x, 3, 2, 1, count_include_pad=False), (2, 3, 6, 7)),
    _case("avg_pool2d", lambda x: x.avg_pool2d(3, stride=2, padding=1, ceil_mode=True), lambda t, x: t.nn.functional.avg_pool2d(x, 3, 2, 1, ceil_mode=True), (2, 3, 6, 8)),
    _case("lp_pool2d", lambda x: x.lp_pool2d(2, 3, stride=2), lambda t, x: t.nn.functional.lp_pool2d(x, 2, 3, 2), (2, 3, 7, 7)),
    _case("max_unpool2d", lambda x: x.max_unpool2d(Tensor([[[[0, 3], [9, 10]]]]), 2), lambda t, x: t.nn.functional.max_unpool2d(x, t.tensor([[[[0, 3], [9, 10]]]]), 2), (1, 1, 2, 2)),
    _case("unfold", lambda x: x.unfold((2, 3), stride=(1, 2), padding=1, dilation=(2, 1)), lambda t, x: t.nn.functional.unfold(x, (2, 3), (2, 1), 1, (1, 2)), (2, 3, 5, 4)),
    _case("fold", lambda x: x.fold((4, 3), 2, padding=1), lambda t, x: t.nn.functional.fold(x, (4, 3), 2, padding=1), (2, 8, 20)),
    _case("interpolate", lambda x: x.interpolate((5, 3), mode="linear"), lambda t, x: t.nn.functional.interpolate(x, (5, 3), mode="bilinear"), (1, 2, 3, 4)),
    _case("interpolate", lambda x: x.interpolate((5, 3), mode="bicubic"), lambda t, x: t.nn.functional.interpolate(x, (5, 3), mode="bicubic"), (1, 2, 3, 4)),
    _case("interpolate", lambda x: x.interpolate((3, 2), mode="cubic", antialias=True), lambda t, x: t.nn.functional.interpolate(x, (3, 2), mode="bicubic", antialias=True), (1, 2, 5, 4)),
    *(_list_samples(*options) for options in (("bilinear", "zeros", False), ("bicubic", "border", True), ("bilinear", "reflection", False))),
    _case("affine_grid", lambda x: x.affine_grid((2, 1, 3, 4)), lambda t, x: t.nn.functional.affine_grid(x, (2, 1, 3, 4), False), (2, 2, 3)),
    *(
        _case("scatter_reduce", lambda x, y, r=r, s=s: x.scatter_reduce(1, Tensor(_PLACES), y, r, include_self=s), lambda t, x, y, r=r, s=s: x.scatter_reduce(1, t.tensor(_PLACES), y, r, include_self=s), (2, 5), (2, 3))
        for r, s in (("sum", False), ("mean", True), ("prod", True), ("amax", True), ("amin", False))
    ),
)
# fmt: on
