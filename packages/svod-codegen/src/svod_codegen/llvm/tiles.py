"""AMX: which values of a kernel are in which tile register, and the instructions on them.

    %acc = DEFINE_REG f32x256 [0, 2]                        two tiles, 0 and 1
    STORE %acc[0], 0                                    ->  tilezero 0
    RANGE k
      %a = LOAD bf16x512 ...                            ->  tileloadd 2
      %b = LOAD bf16x512 ...                            ->  tileloadd 3
      STORE %acc[0], WMMA %a, %b, (LOAD %acc[0])        ->  tdpbf16ps 0, 2, 3
    STORE %results[...], (LOAD %acc[0])                 ->  tilestored 0

LLVM can assign tile registers itself, but spills what does not fit and needs passes that the other
kernels have no use for; here an assignment is found or the kernel refused. A WMMA changes its
accumulator where it lies, so each accumulator is an element of a DEFINE_REG at a constant position,
read where nothing has changed it since. The configuration of the registers, all tiles with 16 rows
of 64 bytes, is loaded at entry; at exit the registers are released, so that a thread that goes on
with something else has no tiles to save.

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
"""A DEFINE_REG and a position in it."""


def assign_tiles(linear: Sequence[UOp]) -> dict[UOp, int]:
    """The tile of each node that stands for one; -1 for what has no instruction of its own. Empty
    for most kernels.

    Raises:
        RenderError: if there are not enough tiles, or an accumulator is used as no instruction can.
    """
    products = [n for n in linear if n.op is Op.WMMA and n.arg.tiles]
    if not products:
        return {}
    registers = {_register(load) for load in map(_first_value, products)}
    walk = _Assignment(
        registers, {_factor(node, factor) for node in products for factor in node.src[:2]}
    )
    for position, node in enumerate(linear):
        walk.visit(node, position)
    tiles = walk.number()
    for node in linear:
        if node in registers or (node.op is Op.INDEX and memory_of(node) in registers):
            tiles[node] = -1
        elif node.op is Op.STORE and node.value in walk.held:
            tiles[node] = tiles[node.value]
    return tiles


@dataclass(slots=True)
class _Life:
    """The positions in the linear list between which a tile is taken, both included."""

    node: UOp
    start: int
    end: int


class _Held(NamedTuple):
    """A value that is in an accumulator, for as long as nothing changes it and in the loop where it
    was read.
    """

    accumulator: Accumulator
    version: int
    loops: tuple[UOp, ...]


@dataclass(slots=True)
class _Assignment:
    """The walk through a kernel that finds out how long each tile is needed and that accumulators
    change in place.
    """

    registers: set[UOp]
    factors: set[UOp]
    lives: dict[Accumulator | UOp, _Life] = field(default_factory=dict)
    held: dict[UOp, _Held] = field(default_factory=dict)
    versions: dict[Accumulator, int] = field(default_factory=dict)
    unstored: set[Accumulator] = field(default_factory=set)
    loops: list[UOp] = field(default_factory=list)
    starts: dict[UOp, int] = field(default_factory=dict)
    spans: list[tuple[int, int]] = field(default_factory=list)

    def visit(self, node: UOp, position: int) -> None:
        """Take the next node into account."""
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
            if key not in self.lives or key in self.unstored:
                raise RenderError(
                    problem="reads an accumulator that holds something else", node=node
                )
            self._hold(node, key)
        elif node.op is Op.STORE:
            self._store(node, position)

    def _leave(self, node: UOp, position: int) -> None:
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
            if source is not None and location.gate is not None:
                raise RenderError(problem="stores a tile where a gate is true", node=node)
            return
        key = _key(node)
        if source is None:
            if not _is_zero(value):
                raise RenderError(
                    problem="sets an accumulator to what is neither zero nor a WMMA", node=node
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
        """The accumulator that `value` is in, checked to be there still."""
        found = self.held.get(value)
        if found is None or found != _Held(
            found.accumulator, self.versions[found.accumulator], tuple(self.loops)
        ):
            raise RenderError(
                problem="uses an accumulator that may have changed since it was read", node=node
            )
        return found.accumulator

    def _touch(self, key: Accumulator | UOp, node: UOp, position: int) -> None:
        self.lives.setdefault(key, _Life(node, position, position)).end = position

    def number(self) -> dict[UOp, int]:
        """The tile of each node that stands for one."""
        for life in self.lives.values():
            self._extend(life)
        numbers = _number_lives(self.lives)
        return {node: numbers[node] for node in self.factors} | {
            node: numbers[held.accumulator] for node, held in self.held.items()
        }

    def _extend(self, life: _Life) -> None:
        """A tile that is taken before a loop and used in it is taken until its end, and the other
        way round.
        """
        for start, end in self.spans:  # inner loops end, and so stand, before outer ones
            if life.start < start <= life.end < end:
                life.end = end
            elif start <= life.start <= end < life.end:
                life.start = start


def _number_lives(lives: dict[Accumulator | UOp, _Life]) -> dict[Accumulator | UOp, int]:
    """Give each the lowest number that is free, in the order in which they begin."""
    ends = [-1] * N_TILES
    numbers: dict[Accumulator | UOp, int] = {}
    for key, life in sorted(lives.items(), key=lambda item: item[1].start):
        free = [number for number, end in enumerate(ends) if end < life.start]
        if not free:
            raise RenderError(problem=f"needs a tile where all {N_TILES} are taken", node=life.node)
        numbers[key] = free[0]
        ends[free[0]] = life.end
    return numbers


def _first_value(product: UOp) -> UOp:
    """What a chain of products adds to."""
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
            problem="multiplies what is no plain load of consecutive elements", node=product
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
    return value.op in (Op.CONST, Op.VCONST) and all(
        str(constant) in ("0", "0.0") for constant in constants
    )


def emit_tile(w: FunctionWriter, node: UOp, tiles: dict[UOp, int]) -> None:
    """The instruction of a node that stands for a tile, if it has one."""
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
    """Configure the thread's tiles: palette 1, the bytes in a row from byte 16 on, the rows from
    byte 48 on.
    """
    row_bytes = (TILE_BYTES.to_bytes(2, "little") * N_TILES).ljust(32, b"\0")
    rows = bytes([TILE_ROWS] * N_TILES).ljust(16, b"\0")
    text = "".join(f"\\{byte:02X}" for byte in bytes([1]).ljust(16, b"\0") + row_bytes + rows)
    w.declarations[f'@tiles = private unnamed_addr constant [64 x i8] c"{text}", align 64'] = None
    w.declarations["declare void @llvm.x86.ldtilecfg(ptr)"] = None
    w.do("call void @llvm.x86.ldtilecfg(ptr @tiles)")


def end_tiles(w: FunctionWriter) -> None:
    """Give the thread's tiles back."""
    w.declarations["declare void @llvm.x86.tilerelease()"] = None
    w.do("call void @llvm.x86.tilerelease()")


def _call(w: FunctionWriter, intrinsic: str, *tiles: int) -> None:
    w.declarations[f"declare void @{intrinsic}({', '.join(['i8 immarg'] * len(tiles))})"] = None
    w.do(f"call void @{intrinsic}({', '.join(f'i8 {tile}' for tile in tiles)})")


def _move(w: FunctionWriter, instruction: str, tile: int, location: UOp) -> None:
    w.declarations[f"declare void @llvm.x86.{instruction}(i8 immarg, ptr, i64)"] = None
    w.do(f"call void @llvm.x86.{instruction}(i8 {tile}, ptr {w.value(location)}, i64 {TILE_BYTES})")
