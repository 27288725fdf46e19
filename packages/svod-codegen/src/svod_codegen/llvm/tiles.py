"""AMX: register allocation for tiles, and the rendering of tile instructions.

    %acc = DEFINE_REG f32x256 [0, 2]                        two tiles, 0 and 1
    STORE %acc[0], 0                                    ->  tilezero 0
    RANGE k
      %a = LOAD bf16x512 ...                            ->  tileloadd 2
      %b = LOAD bf16x512 ...                            ->  tileloadd 3
      STORE %acc[0], WMMA %a, %b, (LOAD %acc[0])        ->  tdpbf16ps 0, 2, 3
    STORE %results[...], (LOAD %acc[0])                 ->  tilestored 0

LLVM can allocate tile registers itself, but it spills, and needs passes that other kernels do not
need; here a kernel that would spill is rejected. A WMMA updates its accumulator in-place, so each
accumulator is an element of a DEFINE_REG at a constant index, and must not be overwritten between a
load and its use. The configuration of the registers, all tiles with 16 rows of 64 bytes, is loaded
at entry; at exit the registers are released, so that later context switches of the thread need not
save tiles.

Source: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 1, chapter 18
(programming with AMX)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from svod_codegen._locations import memory_of
from svod_codegen.errors import RenderError
from svod_codegen.llvm.tensor_cores import N_TILES, TILE_BYTES, TILE_ROWS, get_unit
from svod_ir import Op, UOp

if TYPE_CHECKING:
    from collections.abc import Sequence

    from svod_codegen.llvm.function import FunctionWriter

__all__ = ["assign_tiles", "emit_tile", "end_tiles", "start_tiles"]

Accumulator = tuple[UOp, int]
"""A DEFINE_REG and an index into it."""


def assign_tiles(linear: Sequence[UOp]) -> dict[UOp, int]:
    """Assign a tile to each node that represents one; -1 for nodes without an instruction. Empty for
    most kernels.

    Raises:
        RenderError: if there are not enough tiles, or the use of an accumulator has no instruction.
    """
    products = [n for n in linear if n.op is Op.WMMA and n.arg.tiles]
    if not products:
        return {}
    # The accumulators of all products, found through chains of products to their first load.
    registers = {_register(load) for load in map(_first_value, products)}
    analysis = _Assignment(
        registers, {_factor(node, factor) for node in products for factor in node.src[:2]}
    )
    for position, node in enumerate(linear):
        analysis.visit(node, position)
    tiles = analysis.allocate()
    for node in linear:
        # Accumulators are registers, so neither their memory nor an address into it is written.
        if node in registers or (node.op is Op.INDEX and memory_of(node) in registers):
            tiles[node] = -1
        elif node.op is Op.STORE and node.value in analysis.held:
            tiles[node] = tiles[node.value]
    return tiles


@dataclass(slots=True)
class _LiveRange:
    """Live range of a tile: positions in the linear list, both inclusive."""

    node: UOp
    start: int
    end: int


class _Held(NamedTuple):
    """A value that is in an accumulator, valid until the accumulator is overwritten or the loop of
    the load is left.
    """

    accumulator: Accumulator
    version: int
    loops: tuple[UOp, ...]


@dataclass(slots=True)
class _Assignment:
    """Analysis of a kernel that computes the live ranges of tiles, and checks that accumulators are
    updated in-place.
    """

    registers: set[UOp]
    factors: set[UOp]
    live_ranges: dict[Accumulator | UOp, _LiveRange] = field(default_factory=dict)
    held: dict[UOp, _Held] = field(default_factory=dict)
    versions: dict[Accumulator, int] = field(default_factory=dict)
    unstored: set[Accumulator] = field(default_factory=set)
    loops: list[UOp] = field(default_factory=list)
    starts: dict[UOp, int] = field(default_factory=dict)
    spans: list[tuple[int, int]] = field(default_factory=list)

    def visit(self, node: UOp, position: int) -> None:
        """Process the next node."""
        if node.op is Op.RANGE:
            self.starts[node] = position
            self.loops.append(node)
        elif node.op is Op.END:
            self._leave(node, position)
        elif node in self.factors:
            self._touch(node, node, position)
        elif node.op is Op.WMMA and node.arg.tiles:
            self._multiply(node, position)
        elif node.op is Op.LOAD and memory_of(node.location) in self.registers:
            key = _key(node)
            if key not in self.live_ranges or key in self.unstored:
                raise RenderError(
                    problem="reads an accumulator that holds something else", node=node
                )
            self._hold(node, key)
        elif node.op is Op.STORE:
            self._store(node, position)

    def _leave(self, node: UOp, position: int) -> None:
        # The next iteration would read the accumulator as it was before, but the tile has the new
        # value.
        if self.unstored:
            raise RenderError(
                problem="ends a loop in which the result of a WMMA was not stored", node=node
            )
        for loop in node.src[1:]:
            self.spans.append((self.starts[loop], position))
            self.loops.remove(loop)

    def _multiply(self, node: UOp, position: int) -> None:
        key = self._take(node, node.accumulator)
        for factor in node.src[:2]:
            self._touch(factor, factor, position)
        self._touch(key, node, position)
        # Values read before are no longer in the tile.
        self.versions[key] += 1
        self.unstored.add(key)
        self._hold(node, key)

    def _store(self, node: UOp, position: int) -> None:
        location, value = node.src
        is_accumulator = memory_of(location) in self.registers
        source = self._take(node, value) if value in self.held else None
        if source is not None:
            self._touch(source, node, position)
        if not is_accumulator:
            # Tiles are stored as a whole; there is no masked store.
            if source is not None and location.gate is not None:
                raise RenderError(problem="stores a tile where a gate is true", node=node)
            return
        key = _key(node)
        if source is None:
            if not _is_zero(value):
                raise RenderError(
                    problem="sets an accumulator to a value that is neither zero nor a WMMA",
                    node=node,
                )
            self.versions[key] = self.versions.get(key, 0) + 1
        elif source != key:
            raise RenderError(problem="moves an accumulator to another", node=node)
        self._touch(key, node, position)
        self.unstored.discard(key)
        self._hold(node, key)

    def _hold(self, node: UOp, key: Accumulator) -> None:
        self.held[node] = _Held(key, self.versions[key], tuple(self.loops))

    def _take(self, node: UOp, value: UOp) -> Accumulator:
        """Return the accumulator that `value` is in, checked to be still valid."""
        held = self.held.get(value)
        if held is None or held != _Held(
            held.accumulator, self.versions[held.accumulator], tuple(self.loops)
        ):
            raise RenderError(
                problem="uses an accumulator that may have changed since it was read", node=node
            )
        return held.accumulator

    def _touch(self, key: Accumulator | UOp, node: UOp, position: int) -> None:
        self.live_ranges.setdefault(key, _LiveRange(node, position, position)).end = position

    def allocate(self) -> dict[UOp, int]:
        """Return the tile of each node that represents one."""
        for live_range in self.live_ranges.values():
            self._extend(live_range)
        tile_of = _allocate_tiles(self.live_ranges)
        return {node: tile_of[node] for node in self.factors} | {
            node: tile_of[held.accumulator] for node, held in self.held.items()
        }

    def _extend(self, live_range: _LiveRange) -> None:
        """Extend a live range that enters a loop to the loop's end, and one that leaves a loop to its
        start.
        """
        for start, end in self.spans:  # sorted by end, so inner loops come before outer ones
            if live_range.start < start <= live_range.end < end:
                live_range.end = end
            elif start <= live_range.start <= end < live_range.end:
                live_range.start = start


def _allocate_tiles(
    live_ranges: dict[Accumulator | UOp, _LiveRange],
) -> dict[Accumulator | UOp, int]:
    """Allocate the lowest free tile to each live range, in the order of their starts (linear scan)."""
    # A linear scan suffices: a kernel has a handful of tiles, and one that needs more is refused
    # anyway.
    ends = [-1] * N_TILES
    tile_of: dict[Accumulator | UOp, int] = {}
    for key, live_range in sorted(live_ranges.items(), key=lambda item: item[1].start):
        free = [tile for tile, end in enumerate(ends) if end < live_range.start]
        if not free:
            raise RenderError(
                problem=f"needs a tile where all {N_TILES} are taken", node=live_range.node
            )
        tile_of[key] = free[0]
        ends[free[0]] = live_range.end
    return tile_of


def _first_value(product: UOp) -> UOp:
    """Return the initial accumulator of a chain of products."""
    while product.op is Op.WMMA:
        product = product.accumulator
    return product


def _register(load: UOp) -> UOp:
    memory = memory_of(load.location) if load.op is Op.LOAD else None
    if memory is None or memory.op is not Op.DEFINE_REG or memory.dtype is not load.dtype:
        raise RenderError(
            problem="is added to by a WMMA on tiles, which takes an element of a DEFINE_REG",
            node=load,
        )
    return memory


def _factor(product: UOp, factor: UOp) -> UOp:
    if (
        factor.op is not Op.LOAD
        or len(factor.src) > 1
        or factor.location.unordered.position.dtype.lanes > 1
    ):
        raise RenderError(
            problem="multiplies an operand that is not a plain load of consecutive elements",
            node=product,
        )
    return factor


def _key(node: UOp) -> Accumulator:
    location = node.location.unordered
    position = location.position
    if position.op is not Op.CONST or location.gate is not None:
        raise RenderError(
            problem="has an accumulator at a position that is not constant", node=node
        )
    return memory_of(location), position.arg


def _is_zero(value: UOp) -> bool:
    if value.op is Op.BROADCAST:
        value = value.source
    constants = value.arg if value.op is Op.VCONST else (value.arg,)
    # By text, since -0.0 equals 0.0, and tilezero sets 0.0.
    return value.op in (Op.CONST, Op.VCONST) and all(
        str(constant) in ("0", "0.0") for constant in constants
    )


def emit_tile(w: FunctionWriter, node: UOp, tiles: dict[UOp, int]) -> None:
    """Emit the instruction of a node that represents a tile, if it has one."""
    if node.op is Op.WMMA:
        a, b, _ = node.src
        _call(w, get_unit(node).intrinsic, tiles[node], tiles[a], tiles[b])
    elif node.op is Op.LOAD and memory_of(node.location) not in tiles:
        _move(w, "tileloadd64", tiles[node], node.location)
    elif node.op is Op.STORE and memory_of(node.location) not in tiles:
        _move(w, "tilestored64", tiles[node], node.location)
    elif node.op is Op.STORE and node.value not in tiles:
        _call(w, "llvm.x86.tilezero", tiles[node])


def start_tiles(w: FunctionWriter) -> None:
    """Configure the thread's tiles: palette 1, with bytes per row from byte 16 on, and rows from byte
    48 on.
    """
    row_bytes = (TILE_BYTES.to_bytes(2, "little") * N_TILES).ljust(32, b"\0")
    rows = bytes([TILE_ROWS] * N_TILES).ljust(16, b"\0")
    text = "".join(f"\\{byte:02X}" for byte in bytes([1]).ljust(16, b"\0") + row_bytes + rows)
    w.declarations[f'@tiles = private unnamed_addr constant [64 x i8] c"{text}", align 64'] = None
    w.declarations["declare void @llvm.x86.ldtilecfg(ptr)"] = None
    w.do("call void @llvm.x86.ldtilecfg(ptr @tiles)")


def end_tiles(w: FunctionWriter) -> None:
    """Release the thread's tiles."""
    w.declarations["declare void @llvm.x86.tilerelease()"] = None
    w.do("call void @llvm.x86.tilerelease()")


def _call(w: FunctionWriter, intrinsic: str, *tiles: int) -> None:
    w.declarations[f"declare void @{intrinsic}({', '.join(['i8 immarg'] * len(tiles))})"] = None
    w.do(f"call void @{intrinsic}({', '.join(f'i8 {tile}' for tile in tiles)})")


def _move(w: FunctionWriter, instruction: str, tile: int, location: UOp) -> None:
    w.declarations[f"declare void @llvm.x86.{instruction}(i8 immarg, ptr, i64)"] = None
    w.do(f"call void @llvm.x86.{instruction}(i8 {tile}, ptr {w.value(location)}, i64 {TILE_BYTES})")
