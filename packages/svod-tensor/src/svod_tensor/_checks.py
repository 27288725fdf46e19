"""Checked plans: an out-of-bounds index and an integer division by 0 are errors of `execute`.

An operation's requirement on its integer operands is a CHECK in the graph, which costs nothing
unless it is enabled. A plan with checks has one more output, two numbers for each CHECK:

    CHECK %x [take, 0, 10]   ->   first = MIN(WHERE(%x >= -10 & %x < 10, none, 0 1 2 ...)), GATHER(%x, first)

A guard reads them after each execution, and raises an error for the first violated CHECK."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from svod_device import Buffer, evaluate_expression
from svod_dtype import DType, UserError, int64, uint64
from svod_ir import (
    CheckArg,
    Op,
    Sharding,
    SInt,
    UOp,
    make_concat,
    make_gather,
    make_iota,
    make_reduce_axis,
    make_reshape,
)
from svod_ir.origins import Origin, get_origins
from svod_ir.sizes import product, unbind
from svod_ir.uop import to_node
from svod_tensor._data import copy_to_device
from svod_tensor._shapes import Shape
from svod_tensor.engine.build import build, make_result
from svod_tensor.errors import IndexTensorError, IntegerDivisionError
from svod_tensor.options import DEFAULT_DEVICE

if TYPE_CHECKING:
    from svod_runtime import Guard
    from svod_tensor.engine.build import TensorGraph
    from svod_tensor.options import PrepareConfig

__all__ = ["Checks", "build_checked", "make_checks"]

# Larger than every index, so that the minimum is the first violation.
_NO_VIOLATION: Final = int64.max


class Checks(NamedTuple):
    """Output of a plan that checks its operands, and the guard that reads it."""

    findings: UOp
    guard: Guard


def build_checked(nodes: Sequence[UOp], config: PrepareConfig) -> tuple[TensorGraph, Guard | None]:
    """The graph of `nodes`, none of which is memory, with the guard of its last result if the
    configuration enables checks.
    """
    checks = make_checks(UOp.sink(*map(make_result, nodes))) if config.check_operands else None
    return (build(nodes), None) if checks is None else (build(nodes, checks.findings), checks.guard)


def make_checks(sink: UOp) -> Checks | None:
    """The findings of all checks in `sink`, and the guard that reads them; None without checks."""
    checks = [node for node in sink.iter_ops(Op.CHECK) if 0 not in node.shape]
    if not checks:
        return None
    device = _device_of(checks[0])
    # One output for all checks, so that `execute` reads the device once.
    findings = make_concat(
        [copy_to_device(_get_first_violation(check), device) for check in checks], 0
    )
    return Checks(UOp(Op.CONTIGUOUS, int64, (findings,)), _make_guard(checks))


def _device_of(node: UOp) -> str:
    placement = node.placement
    return placement.devices[0] if isinstance(placement, Sharding) else placement or DEFAULT_DEVICE


def _get_first_violation(check: UOp) -> UOp:
    """The flat index of the first violating element, and the element."""
    size = product(check.shape)
    x = make_reshape(check.source, (size,))
    indices = _is_violation(x, check).where(make_iota(size, int64), _NO_VIOLATION)
    first = make_reduce_axis(indices, Op.MIN, (0,))
    # Without a violation the index is out of bounds, for which GATHER gives 0.
    return make_concat([first, make_gather(x, first, 0).cast(int64)], 0)


def _is_violation(x: UOp, check: UOp) -> UOp:
    if check.arg.axis is None:
        return x.eq(0)
    wide, limit = x.cast(int64), to_node(_size_of(check)).cast(int64)
    is_outside = (wide < -limit) | (wide >= limit)
    # Unsigned indices beyond 2^63 are negative here, and out of bounds all the same.
    return is_outside if x.dtype.is_signed else is_outside | (wide < 0)


def _size_of(check: UOp) -> SInt:
    if check.arg.size is not None:
        return check.arg.size
    _, size = check.src
    return size


def _make_guard(checks: Sequence[UOp]) -> Guard:
    # Keep only the data for messages: nodes would keep memory alive.
    infos = [_CheckInfo.of(check) for check in checks]

    def guard(buffers: Sequence[Buffer], variables: Mapping[str, int]) -> None:
        import numpy as np

        findings: list[list[int]] = buffers[0].as_numpy().reshape(-1, 2).tolist()
        for (flat_index, value), info in zip(findings, infos, strict=True):
            if flat_index != _NO_VIOLATION:
                sizes = [_resolve(s, variables) for s in info.shape]
                position = (
                    tuple(int(i) for i in np.unravel_index(flat_index, sizes)) if sizes else ()
                )
                raise info.make_error(position, value, variables)

    return guard


class _CheckInfo(NamedTuple):
    """Data of a CHECK for error messages."""

    arg: CheckArg
    shape: Shape
    size: SInt
    dtype: DType
    origins: Sequence[Origin]

    @staticmethod
    def of(check: UOp) -> _CheckInfo:
        size = 0 if check.arg.axis is None else _unbind(_size_of(check))
        return _CheckInfo(
            check.arg,
            tuple(map(_unbind, check.shape)),
            size,
            check.dtype,
            sorted(get_origins(check)),
        )

    def make_error(
        self, position: tuple[int, ...], value: int, variables: Mapping[str, int]
    ) -> UserError:
        operation, axis, _ = self.arg
        if axis is None:
            return IntegerDivisionError(
                operation=operation, position=position, origins=self.origins
            )
        # The finding was stored as int64.
        value = value % (1 << 64) if self.dtype is uint64 else value
        size = _resolve(self.size, variables)
        return IndexTensorError(
            operation=operation,
            position=position,
            value=value,
            axis=axis,
            size=size,
            origins=self.origins,
        )


def _unbind(size: SInt) -> SInt:
    return unbind(size) if isinstance(size, UOp) else size


def _resolve(size: SInt, variables: Mapping[str, int]) -> int:
    return size if isinstance(size, int) else evaluate_expression(size, variables)
