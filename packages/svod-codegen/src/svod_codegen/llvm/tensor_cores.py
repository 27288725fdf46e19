"""Matrix instructions of x86, and the rendering of dot products on vector registers.

    WMMA f32x16 a: bf16x2, b: bf16x32, c: f32x16 [16 x 1 x 2]  ->  vdpbf16ps c, b, broadcast(a)

A dot unit multiplies groups of adjacent elements, of 32 bits in total, and adds each group's products
to one lane. Units with tile registers (AMX) are rendered by `svod_codegen.llvm.tiles`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from svod_codegen.errors import RenderError
from svod_codegen.llvm.text import type_text
from svod_dtype import DType, bfloat16, float16, float32, int8, int16, int32, uint8, uint32
from svod_ir import TensorCore

if TYPE_CHECKING:
    from collections.abc import Sequence, Set as AbstractSet

    from svod_codegen.llvm.function import FunctionWriter
    from svod_ir import Target, UOp

__all__ = [
    "N_TILES",
    "TILE_BYTES",
    "TILE_ROWS",
    "UNITS",
    "Unit",
    "check_units",
    "emit_dot",
    "get_unit",
    "list_tensor_cores",
]

TILE_ROWS: Final = 16
TILE_BYTES: Final = 64
"""Bytes per row; palette 1 of AMX has eight tiles of 16 rows."""
N_TILES: Final = 8

_WORD_BYTES: Final = 4
_DOT_CYCLES: Final = 0.5
_TILE_CYCLES: Final = 16.0


class Unit(NamedTuple):
    """A matrix instruction: the CPU features that it requires, by LLVM's names, its operation, and
    LLVM's intrinsic.
    """

    features: frozenset[str]
    core: TensorCore
    intrinsic: str

    @property
    def vector_bits(self) -> int:
        """Width of the registers, 0 for tiles."""
        return 0 if self.core.tiles else 8 * _WORD_BYTES * self.core.dims[0]


def _tile_unit(feature: str, a: DType, b: DType, accumulator: DType, instruction: str) -> Unit:
    group = _WORD_BYTES // a.itemsize
    dims = (TILE_BYTES // accumulator.itemsize, TILE_ROWS, TILE_ROWS * group)
    core = TensorCore(dims, group, (a, b, accumulator), cycles=_TILE_CYCLES, tiles=N_TILES)
    return Unit(frozenset({"amx-tile", feature}), core, f"llvm.x86.{instruction}")


def _dot_unit(
    features: str, lanes: int, a: DType, b: DType, accumulator: DType, intrinsic: str
) -> Unit:
    group = _WORD_BYTES // a.itemsize
    core = TensorCore((lanes, 1, group), group, (a, b, accumulator), cycles=_DOT_CYCLES)
    return Unit(
        frozenset(features.split()), core, f"llvm.x86.{intrinsic}.{8 * _WORD_BYTES * lanes}"
    )


UNITS: Final = (
    _tile_unit("amx-bf16", bfloat16, bfloat16, float32, "tdpbf16ps"),
    _tile_unit("amx-fp16", float16, float16, float32, "tdpfp16ps"),
    _tile_unit("amx-int8", int8, int8, int32, "tdpbssd"),
    _tile_unit("amx-int8", int8, uint8, int32, "tdpbsud"),
    _tile_unit("amx-int8", uint8, int8, int32, "tdpbusd"),
    _tile_unit("amx-int8", uint8, uint8, int32, "tdpbuud"),
    # On AMD's processors this is as fast as a multiply-add; on Intel's it takes four times as long,
    # and widening the operands is twice as fast. The feature sse4a identifies AMD.
    _dot_unit("avx512bf16 sse4a", 16, bfloat16, bfloat16, float32, "avx512bf16.dpbf16ps"),
    _dot_unit("avx512vnni", 16, uint8, int8, int32, "avx512.vpdpbusd"),
    _dot_unit("avx512vnni", 16, int16, int16, int32, "avx512.vpdpwssd"),
    _dot_unit("avxvnni", 8, uint8, int8, int32, "avx512.vpdpbusd"),
    _dot_unit("avxvnni", 8, int16, int16, int32, "avx512.vpdpwssd"),
)
"""All supported units, the fastest first. Instructions that are slower than ordinary vector code are
left out.
"""


def list_tensor_cores(features: AbstractSet[str], vector_bits: int) -> tuple[TensorCore, ...]:
    """List the units of a CPU with vectors of `vector_bits`."""
    return tuple(
        u.core for u in UNITS if u.features <= features and u.vector_bits in (0, vector_bits)
    )


def check_units(products: Sequence[UOp], target: Target) -> None:
    """Check that the target has the units of WMMAs: LLVM aborts on instructions that the processor
    lacks.

    Raises:
        RenderError: if the target lacks a unit.
    """
    units = {_product(core) for core in target.tensor_cores}
    for node in products:
        if _product(node.arg) not in units:
            raise RenderError(
                problem=f"asks for {node.arg}, which {target.name} does not have", node=node
            )


def get_unit(node: UOp) -> Unit:
    """Return the unit of a WMMA.

    Raises:
        RenderError: if no x86 processor has it.
    """
    unit = _BY_PRODUCT.get(_product(node.arg))
    if unit is None:
        raise RenderError(problem=f"asks for {node.arg}, which no x86 processor has", node=node)
    return unit


_Product = tuple[tuple[int, int, int], int, tuple[DType, DType, DType]]


def _product(core: TensorCore) -> _Product:
    """Return the operation of a unit, without its performance estimates, which a target may refine."""
    return core.dims, core.group, core.dtypes


_BY_PRODUCT: Final = {_product(unit.core): unit for unit in UNITS}


def emit_dot(w: FunctionWriter, node: UOp) -> str:
    """Emit a WMMA on vectors: the row's group of elements is a 32-bit word, broadcast to all columns."""
    unit = get_unit(node)
    a, b, accumulator = node.src
    words = uint32.vec(node.dtype.lanes)
    row = w.splat(words, w.emit(f"bitcast {w.typed(a)} to {type_text(words.scalar)}"))
    operand = _operand_type(b.dtype)
    row = w.emit(f"bitcast {type_text(words)} {row} to {operand}")
    columns = w.emit(f"bitcast {w.typed(b)} to {operand}")
    result = type_text(accumulator.dtype)
    return w.call(
        result,
        unit.intrinsic,
        f"{w.typed(accumulator)}, {operand} {row}, {operand} {columns}",
        parameters=f"{result}, {operand}, {operand}",
    )


def _operand_type(dtype: DType) -> str:
    """Return the operand type of an intrinsic: integers of any size are passed as 32-bit words."""
    if dtype.scalar is bfloat16:
        return f"<{dtype.lanes} x bfloat>"
    return type_text(int32.vec(dtype.lanes * dtype.itemsize // _WORD_BYTES))
