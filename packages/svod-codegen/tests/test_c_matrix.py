"""A language with matrix instructions: what a plugin writes to give them to kernels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from svod_codegen.c import CRenderer, GnuCRenderer
from svod_codegen.errors import RenderError
from svod_codegen.testing.calls import C_COMPILER, call_c
from svod_dtype import float32, int16, int32
from svod_ir import AxisType, Op, Target, TensorCore, UOp
from svod_ir.testing import nodes
from svod_ir.testing.nodes import group, param
from svod_schedule.linearize import linearize

DOT = TensorCore((4, 1, 2), 2, (int16, int16, int32))
MATRIX = TensorCore((4, 2, 2), 1, (float32, float32, float32))


def lanewise_product(language: CRenderer, node: UOp, operands: Sequence[str]) -> str:
    """The product lane by lane, where a language with such instructions names one of them."""
    core: TensorCore = node.arg
    (n, m, k), g = core.dims, core.group
    a_type, b_type, c_type = core.operand_dtypes
    a, b, c = operands
    sums: list[str] = []
    for i in range(m):
        for column in range(n):
            terms = [language.lane(c_type, c, i * n + column)]
            for j in range(k):
                element = language.lane(b_type, b, ((j // g) * n + column) * g + j % g)
                terms.append(f"{language.lane(a_type, a, i * k + j)} * {element}")
            sums.append(" + ".join(terms))
    return language.make_vector(c_type, sums)


class PlainMatrixC(CRenderer):
    """C99 with vectors that are structs."""

    def matrix_operation(self, node: UOp, operands: Sequence[str]) -> str:
        return lanewise_product(self, node, operands)


class GnuMatrixC(GnuCRenderer):
    """C with the compilers' vectors."""

    def matrix_operation(self, node: UOp, operands: Sequence[str]) -> str:
        return lanewise_product(self, node, operands)


def const(value: int) -> UOp:
    return UOp.const(int32, value)


def product(core: TensorCore, steps: int) -> UOp:
    """One accumulator in a register, operands in the core's order."""
    a_type, b_type, c_type = core.operand_dtypes
    step = UOp(Op.RANGE, int32, (const(steps),), (0, AxisType.REDUCE))
    register = nodes.register(0, 1, c_type)
    start = register.index(const(0)).store(UOp.const(c_type, 0))
    place = register.after(start, step).index(const(0))
    a = (
        param(1, steps * a_type.lanes, a_type.scalar)
        .index(step * a_type.lanes, lanes=a_type.lanes)
        .load()
    )
    b = (
        param(2, steps * b_type.lanes, b_type.scalar)
        .index(step * b_type.lanes, lanes=b_type.lanes)
        .load()
    )
    update = place.store(UOp(Op.WMMA, c_type, (a, b, place.load()), core))
    result = register.after(group(update).end(step)).index(const(0)).load()
    return UOp.sink(
        param(0, c_type.lanes, c_type.scalar).index(const(0), lanes=c_type.lanes).store(result)
    )


@pytest.mark.skipif(C_COMPILER is None, reason="no C compiler here")
@pytest.mark.parametrize("core", [DOT, MATRIX], ids=str)
@pytest.mark.parametrize("renderer", [PlainMatrixC, GnuMatrixC])
def test_a_language_with_matrix_instructions_names_them(
    renderer: type[CRenderer], core: TensorCore
):
    n, m, k = core.dims
    steps = 3
    rng = np.random.default_rng(0)
    a = rng.integers(-9, 10, (m, steps * k)).astype(core.dtypes[0].numpy)
    b = rng.integers(-9, 10, (steps * k, n)).astype(core.dtypes[1].numpy)
    a_tiles = np.ascontiguousarray(a.reshape(m, steps, k).transpose(1, 0, 2))
    b_tiles = np.ascontiguousarray(
        b.reshape(steps, k // core.group, core.group, n).transpose(0, 1, 3, 2)
    )
    out = np.zeros((m, n), core.dtypes[2].numpy)

    target = replace(Target.generic(), tensor_cores=(core,))
    call_c(
        renderer(target).render(linearize(product(core, steps)), "kernel"), [out, a_tiles, b_tiles]
    )
    np.testing.assert_array_equal(out, a.astype(out.dtype) @ b.astype(out.dtype))


def test_a_language_without_them_refuses():
    with pytest.raises(RenderError, match="matrix operation"):
        CRenderer().render(linearize(product(DOT, 1)), "kernel")
