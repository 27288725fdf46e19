"""Locations, loads and stores in LLVM assembly.

An access whose gate is false never accesses its location: a load with a scalar gate reads the first
elements of the memory instead, a vector access with a mask is masked, and a store with a scalar gate
is branched around.
"""

from __future__ import annotations

from svod_codegen._locations import location_of, memory_of
from svod_codegen.errors import RenderError
from svod_codegen.llvm.function import FunctionWriter
from svod_codegen.llvm.text import memory_type, suffix_text, type_text
from svod_dtype import DType, bool_, int64
from svod_ir import Op, UOp

__all__ = ["emit_index", "emit_load", "emit_store"]

_BYTE_OF_BOOL = "i8"
_GATHERED_BYTES = 4
"""Size of the narrowest element with a gather instruction; LLVM aborts on some of the others."""


def emit_index(w: FunctionWriter, node: UOp) -> None:
    """Emit the address of a location; a vector of addresses if the index is a vector."""
    memory = memory_of(node)
    if len(node.src) - (node.gate is not None) != 2:
        raise RenderError(problem="needs exactly one index", node=node)
    position = node.position
    element = memory_type(memory.dtype)
    index_type = type_text(int64.vec(position.dtype.lanes))
    # A gated index may be out of bounds, so its address must not be poison.
    inbounds = "inbounds " if node.gate is None else ""
    base = w.value(node.memory)
    if position.op is Op.ADD and position.right.op is Op.CONST and position.dtype.lanes == 1:
        # Of addresses that differ by constants, LLVM computes one: the constants become offsets of
        # the instructions. The address without the constant may be out of bounds.
        start = w.wide_index(position.left)
        base = w.emit(f"getelementptr {element}, ptr {base}, {index_type} {start}")
        index = str(int(position.right.arg))
    else:
        index = w.wide_index(position)
    w.names[node] = w.emit(f"getelementptr {inbounds}{element}, ptr {base}, {index_type} {index}")


def emit_load(w: FunctionWriter, node: UOp) -> None:
    """Load a location, or return the alternative where its gate is false."""
    location = location_of(node)
    gate = location.gate
    if (gate is None) != (len(node.src) == 1):
        raise RenderError(
            problem="needs an alternative exactly where its location has a gate", node=node
        )
    if location.position.dtype.lanes > 1:
        name = _gather(w, node, location, gate)
    elif gate is None:
        name = w.emit(
            f"load {memory_type(node.dtype)}, ptr {w.value(location)}{_access(w, location)}"
        )
    # The first elements are only a substitute if the memory has as many.
    elif gate.dtype.lanes == 1 and memory_of(location).arg.size >= node.dtype.lanes:
        name = _load_safely(w, location, gate)
    else:
        name = _masked_load(w, node, location, gate)
    dtype = node.dtype
    if dtype.is_bool:
        # In memory a bool is a byte: LLVM packs the lanes of an i1 vector into bits.
        name = w.emit(f"icmp ne {memory_type(dtype)} {name}, zeroinitializer")
    if gate is not None and gate.dtype.lanes == 1:
        name = w.emit(
            f"select i1 {w.value(gate)}, {type_text(dtype)} {name}, {w.typed(node.alternative)}"
        )
    w.names[node] = name


def emit_store(w: FunctionWriter, node: UOp) -> None:
    """Store a value to a location, where its gate, if any, is true."""
    location, value = location_of(node), node.value
    gate = location.gate
    if value.dtype.lanes != location.dtype.lanes or value.dtype.itemsize != location.dtype.itemsize:
        raise RenderError(
            problem=f"writes {value.dtype} to a location of {location.dtype}", node=node
        )
    content = _memory_value(w, value)
    dtype = memory_type(value.dtype)
    if location.position.dtype.lanes > 1:
        _scatter(w, location, value.dtype, content, gate)
    elif gate is None:
        w.do(f"store {dtype} {content}, ptr {w.value(location)}{_access(w, location)}")
    elif gate.dtype.lanes > 1:
        suffix = _memory_suffix(value.dtype)
        function = f"llvm.masked.store.{suffix}.p0"
        w.declarations[f"declare void @{function}({dtype}, ptr, i32, {type_text(gate.dtype)})"] = (
            None
        )
        w.do(
            f"call void @{function}({dtype} {content}, ptr {w.value(location)}, i32"
            f" {value.dtype.itemsize}, {w.typed(gate)}){_tags(w, location)}"
        )
    else:
        # A store cannot be replaced by a harmless one, as a load can.
        body, done = w.new_label("store"), w.new_label("stored")
        w.do(f"br i1 {w.value(gate)}, label %{body}, label %{done}")
        w.start_block(body)
        w.do(f"store {dtype} {content}, ptr {w.value(location)}{_access(w, location)}")
        w.do(f"br label %{done}")
        w.start_block(done)


def _access(w: FunctionWriter, location: UOp) -> str:
    """Return the attributes of an access. Vectors are only aligned like an element, since views may
    start at any element.
    """
    return f", align {location.dtype.itemsize}{_tags(w, location)}"


def _tags(w: FunctionWriter, location: UOp) -> str:
    return w.memory_tags.get(memory_of(location), "")


def _memory_suffix(dtype: DType) -> str:
    return (
        suffix_text(dtype)
        if not dtype.is_bool
        else f"v{dtype.lanes}{_BYTE_OF_BOOL}"
        if dtype.lanes > 1
        else _BYTE_OF_BOOL
    )


def _memory_value(w: FunctionWriter, value: UOp) -> str:
    """Convert a value to its type in memory."""
    if not value.dtype.is_bool:
        return w.value(value)
    return w.emit(f"zext {w.typed(value)} to {memory_type(value.dtype)}")


def _load_safely(w: FunctionWriter, location: UOp, gate: UOp) -> str:
    """Load the location, or the first elements of its memory if the gate is false."""
    # A selected address, not a branch: the loop body stays one block, which LLVM schedules as a
    # whole.
    start = w.value(location.memory)
    address = w.emit(f"select i1 {w.value(gate)}, ptr {w.value(location)}, ptr {start}")
    return w.emit(f"load {memory_type(location.dtype)}, ptr {address}{_access(w, location)}")


def _mask(w: FunctionWriter, gate: UOp, lanes: int) -> str:
    return w.value(gate) if gate.dtype.lanes > 1 else w.splat(bool_.vec(lanes), w.value(gate))


def _masked_load(w: FunctionWriter, node: UOp, location: UOp, gate: UOp) -> str:
    dtype = node.dtype
    vector, mask = memory_type(dtype), type_text(bool_.vec(dtype.lanes))
    function = f"llvm.masked.load.{_memory_suffix(dtype)}.p0"
    w.declarations[f"declare {vector} @{function}(ptr, i32, {mask}, {vector})"] = None
    return w.emit(
        f"call {vector} @{function}(ptr {_address_inside(w, location, gate)}, i32 {dtype.itemsize},"
        f" {mask} {_mask(w, gate, dtype.lanes)}, {vector}"
        f" {_memory_value(w, node.value)}){_tags(w, location)}"
    )


def _address_inside(w: FunctionWriter, location: UOp, gate: UOp) -> str:
    """Return the address of a masked load, or the address of the first elements if the gate is false
    for all lanes.

    Processors suppress faults of masked lanes, but this takes hundreds of cycles if the page is not
    mapped: concatenating tensors whose sizes are no multiples of the vector width would be a
    hundred times slower."""
    lanes = gate.dtype.lanes
    if lanes & (lanes - 1):
        # The bits of such a mask are no machine integer.
        return w.value(location)
    bits = w.emit(f"bitcast {w.typed(gate)} to i{lanes}")
    has_any = w.emit(f"icmp ne i{lanes} {bits}, 0")
    return w.emit(f"select i1 {has_any}, ptr {w.value(location)}, ptr {w.value(location.memory)}")


def _gather(w: FunctionWriter, node: UOp, location: UOp, gate: UOp | None) -> str:
    dtype = node.dtype
    if (
        not w.target.has_gather
        or dtype.itemsize < _GATHERED_BYTES
        or dtype.lanes & (dtype.lanes - 1)
    ):
        return _load_each_lane(w, node, location, gate)
    pointers = f"<{dtype.lanes} x ptr>"
    vector, mask_type = memory_type(dtype), type_text(bool_.vec(dtype.lanes))
    mask = "splat (i1 true)" if gate is None else _mask(w, gate, dtype.lanes)
    passthru = "poison" if gate is None else w.value(node.alternative)
    function = f"llvm.masked.gather.{suffix_text(dtype)}.v{dtype.lanes}p0"
    w.declarations[f"declare {vector} @{function}({pointers}, i32, {mask_type}, {vector})"] = None
    return w.emit(
        f"call {vector} @{function}({pointers} {w.value(location)}, i32 {dtype.itemsize},"
        f" {mask_type} {mask}, {vector} {passthru}){_tags(w, location)}"
    )


def _load_each_lane(w: FunctionWriter, node: UOp, location: UOp, gate: UOp | None) -> str:
    """Emit a gather as scalar loads; lanes whose gate is false load element 0, and are replaced by
    the alternative.
    """
    dtype, addresses = node.dtype, w.value(location)
    pointers = f"<{dtype.lanes} x ptr>"
    vector, element = memory_type(dtype), memory_type(dtype.scalar)
    mask = "" if gate is None else _mask(w, gate, dtype.lanes)
    if gate is not None:
        start = w.emit(f"insertelement {pointers} poison, ptr {w.value(location.memory)}, i64 0")
        starts = w.emit(
            f"shufflevector {pointers} {start}, {pointers} poison, <{dtype.lanes} x i32>"
            " zeroinitializer"
        )
        addresses = w.emit(
            f"select <{dtype.lanes} x i1> {mask}, {pointers} {addresses}, {pointers} {starts}"
        )
    name = "poison"
    for lane in range(dtype.lanes):
        address = w.emit(f"extractelement {pointers} {addresses}, i64 {lane}")
        scalar = w.emit(f"load {element}, ptr {address}{_access(w, location)}")
        name = w.emit(f"insertelement {vector} {name}, {element} {scalar}, i64 {lane}")
    if gate is None:
        return name
    alternative = _memory_value(w, node.alternative)
    return w.emit(f"select <{dtype.lanes} x i1> {mask}, {vector} {name}, {vector} {alternative}")


def _scatter(
    w: FunctionWriter, location: UOp, dtype: DType, content: str, gate: UOp | None
) -> None:
    """Emit a scatter. Lanes are stored in order, so the last of equal indices wins."""
    addresses = w.value(location)
    pointers = f"<{dtype.lanes} x ptr>"
    vector, element = memory_type(dtype), memory_type(dtype.scalar)
    if gate is not None:
        mask_type = type_text(bool_.vec(dtype.lanes))
        function = f"llvm.masked.scatter.{_memory_suffix(dtype)}.v{dtype.lanes}p0"
        w.declarations[f"declare void @{function}({vector}, {pointers}, i32, {mask_type})"] = None
        w.do(
            f"call void @{function}({vector} {content}, {pointers} {addresses}, i32"
            f" {dtype.itemsize}, {mask_type} {_mask(w, gate, dtype.lanes)}){_tags(w, location)}"
        )
        return
    access = _access(w, location)
    for lane in range(dtype.lanes):
        address = w.emit(f"extractelement {pointers} {addresses}, i64 {lane}")
        scalar = w.emit(f"extractelement {vector} {content}, i64 {lane}")
        w.do(f"store {element} {scalar}, ptr {address}{access}")
