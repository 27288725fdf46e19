"""Rendering of linear programs to LLVM assembly.

The function is `void name(ptr buffers, ptr values, i64 core_id)`: it loads the buffers' addresses
and the variables' values at entry. A buffer that is written does not overlap other buffers; scoped
alias metadata on each access tells LLVM so.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from svod_codegen._locations import memory_of
from svod_codegen.errors import RenderError
from svod_codegen.llvm.elementwise import EMITTERS, emit_reduce
from svod_codegen.llvm.function import FunctionWriter
from svod_codegen.llvm.memory import emit_index, emit_load, emit_store
from svod_codegen.llvm.shared_functions import define_functions, emit_call, is_condition, list_calls
from svod_codegen.llvm.tensor_cores import check_units, emit_dot
from svod_codegen.llvm.text import (
    constant_text,
    memory_type,
    type_text,
    vector_constant_text,
)
from svod_codegen.llvm.tiles import assign_tiles, emit_tile, end_tiles, start_tiles
from svod_dtype import DType
from svod_ir import Op, UOp

if TYPE_CHECKING:
    from svod_ir import Target

__all__ = ["render"]

# A cache line, and the widest vector: private memory is read in whole vectors.
_LOCAL_ALIGNMENT: Final = 64
_RARELY: Final = '!{!"branch_weights", i32 1, i32 2000}'
"""Weights of the branch to a slow path: without them, registers are spilled before the branch instead
of inside it.
"""

_MEMORY: Final = frozenset({Op.DEFINE_REG, Op.INDEX})


def render(linear: tuple[UOp, ...], name: str, target: Target) -> str:
    """Render one kernel to LLVM assembly.

    Args:
        linear: the nodes in execution order, from `svod_schedule.linearize`.
        name: the function's name, an identifier.
        target: the features of the machine.

    Raises:
        RenderError: if a node has no rendering; lowering should have replaced it.
    """
    w = FunctionWriter(target)
    n_scopes = _bind_arguments(w, linear)
    weights = f"!{1 + 3 * n_scopes}"
    rarely = f", !prof {weights}"
    calls = list_calls(linear, target)
    w.branch_tags = {call.branch: rarely for call in calls.values() if call.branch is not None}
    # Before anything is written: LLVM would abort the process on an intrinsic that the processor
    # lacks.
    check_units([node for node in linear if node.op is Op.WMMA], target)
    tiles = assign_tiles(linear)
    if tiles:
        start_tiles(w)
    for node in linear:
        if node in tiles:
            emit_tile(w, node, tiles)
            continue
        if node in calls:
            emit_call(w, calls[node])
            continue
        emitter = EMITTERS.get(node.op)
        if emitter is not None:
            w.names[node] = emitter(w, node)
            continue
        handler = _HANDLERS.get(node.op)
        if handler is None:
            raise RenderError(problem="has no rendering in LLVM assembly", node=node)
        handler(w, node)
    if tiles:
        end_tiles(w)
    definitions = define_functions(w, calls.values(), _write_value, rarely)
    core_id = f"i64{_core_id_range(linear)} %core_id"
    # Kernels do not throw: without nounwind each would get unwind tables.
    header = (
        f"define void @{name}(ptr noalias %buffers, ptr noalias %values, {core_id}) nounwind {{"
    )
    lines = [
        header,
        "entry:",
        *w.entry,
        *w.lines,
        "  ret void",
        "}",
        *definitions,
        *w.declarations,
        *_scopes(n_scopes),
    ]
    lines += [f"{weights} = {_RARELY}", ""] if calls else [""]
    return "\n".join(lines)


def _write_value(w: FunctionWriter, node: UOp) -> None:
    """Write a node of an expression without loops and memory."""
    if node.op in EMITTERS:
        w.names[node] = EMITTERS[node.op](w, node)
    elif node.op not in _MEMORY:
        _HANDLERS[node.op](w, node)


def _bind_arguments(w: FunctionWriter, linear: tuple[UOp, ...]) -> int:
    """Load the buffers' addresses and the variables; return the number of buffers that need alias
    scopes.
    """
    params = sorted({n for n in linear if n.op is Op.PARAM}, key=lambda n: n.arg.slot)
    for position, param in enumerate(params):
        w.names[param] = _load_word(w, "ptr", "%buffers", position)
    position = 0
    for node in linear:
        if node.op is not Op.DEFINE_VAR or node in w.names:
            continue
        if node.arg.name == "core_id":
            word = "%core_id"
        else:
            word, position = _load_word(w, "i64", "%values", position), position + 1
        w.names[node] = (
            word
            if node.dtype.itemsize == 8
            else w.emit_at_entry(f"trunc i64 {word} to {type_text(node.dtype)}")
        )
    written = any(n.op is Op.STORE and memory_of(n.location).op is Op.PARAM for n in linear)
    if not written or len(params) < 2:
        return 0
    # Scopes, since `noalias` applies to parameters of the function, and these addresses are loaded
    # from an array.
    for scope, param in enumerate(params):
        w.memory_tags[param] = f", !alias.scope !{scope + 1}, !noalias !{scope + 1 + len(params)}"
    return len(params)


def _core_id_range(linear: tuple[UOp, ...]) -> str:
    """Return the range attribute of `core_id`.

    Without it LLVM does not know that indices that depend on `core_id` fit 32 bits, so it cannot
    hoist loop-invariant parts out of their sign extension, and recomputes each address,
    which matters most in convolutions."""
    args = [n.arg for n in linear if n.op is Op.DEFINE_VAR and n.arg.name == "core_id"]
    if not args:
        return ""
    return f" range(i64 {min(a.low for a in args)}, {max(a.high for a in args) + 1})"


def _load_word(w: FunctionWriter, kind: str, array: str, position: int) -> str:
    address = (
        array
        if position == 0
        else w.emit_at_entry(f"getelementptr inbounds {kind}, ptr {array}, i64 {position}")
    )
    return w.emit_at_entry(f"load {kind}, ptr {address}, align 8")


def _scopes(n: int) -> list[str]:
    """Make the alias metadata: !0 is the domain; !1 to !n contain one scope each, !n+1 to !2n all other
    scopes; the scopes follow.
    """
    if n == 0:
        return []
    first = 1 + 2 * n
    own = [f"!{1 + k} = !{{!{first + k}}}" for k in range(n)]
    complements = [
        f"!{1 + n + k} = !{{" + ", ".join(f"!{first + j}" for j in range(n) if j != k) + "}"
        for k in range(n)
    ]
    scopes = [f"!{first + k} = distinct !{{!{first + k}, !0}}" for k in range(n)]
    return ["!0 = distinct !{!0}", *own, *complements, *scopes]


Handler = Callable[[FunctionWriter, UOp], None]


def _nothing(_w: FunctionWriter, _node: UOp) -> None:
    """Skip effects and structure without an instruction."""


def _constant(w: FunctionWriter, node: UOp) -> None:
    is_vector = node.op is Op.VCONST
    w.names[node] = (
        vector_constant_text(node.dtype, node.arg)
        if is_vector
        else constant_text(node.dtype, node.arg)
    )


def _alias(w: FunctionWriter, node: UOp) -> None:
    first = node.source
    if first in w.names:
        w.names[node] = w.names[first]


def _allocate(w: FunctionWriter, node: UOp) -> None:
    size = node.arg.size
    w.names[node] = w.emit_at_entry(
        f"alloca [{size} x {memory_type(node.dtype)}], align {_LOCAL_ALIGNMENT}"
    )


def _special(_w: FunctionWriter, node: UOp) -> None:
    raise RenderError(
        problem="is a grid index, which a CPU does not have: its ranges become loops or core_id",
        node=node,
    )


def _index(w: FunctionWriter, node: UOp) -> None:
    emit_index(w, node)


def _start_loop(w: FunctionWriter, node: UOp) -> None:
    end = node.stop
    dtype = type_text(node.dtype)
    limit = w.value(end)
    label = w.new_label("loop")
    before = w.block
    index = f"%{label}.i"
    if not (end.op is Op.CONST and end.arg > 0):
        # A symbolic loop may be empty, but the test in the latch comes after the first iteration.
        enter = w.value(end.source) if is_condition(end) else w.emit(f"icmp slt {dtype} 0, {limit}")
        w.do(f"br i1 {enter}, label %{label}, label %{label}.done{w.branch_tags.get(node, '')}")
    else:
        w.do(f"br label %{label}")
    w.start_block(label)
    again = "" if is_condition(end) else f", [ {index}.next, %{label}.latch ]"
    w.do(f"{index} = phi {dtype} [ 0, %{before} ]{again}")
    w.names[node] = index


def _leave_loop(w: FunctionWriter, node: UOp) -> None:
    # The index of a loop is named `%label.i`.
    label = w.value(node.loop)[1:-2]
    w.do(f"br i1 {w.value(node.condition)}, label %{label}.done, label %{label}.again")
    w.start_block(f"{label}.again")


def _end_loop(w: FunctionWriter, node: UOp) -> None:
    ranges = node.loops
    if len(ranges) != 1:
        raise RenderError(
            problem=f"closes {len(ranges)} ranges, but one END closes one after linearize",
            node=node,
        )
    loop = ranges[0]
    index = w.value(loop)
    label, dtype = index[1:-2], type_text(loop.dtype)
    if is_condition(loop.stop):
        w.do(f"br label %{label}.done")
    else:
        w.do(f"br label %{label}.latch")
        w.start_block(f"{label}.latch")
        # The index is below the trip count, so it cannot wrap; LLVM can then widen it.
        w.do(f"{index}.next = add nuw nsw {dtype} {index}, 1")
        again = w.emit(f"icmp slt {dtype} {index}.next, {w.value(loop.stop)}")
        w.do(f"br i1 {again}, label %{label}, label %{label}.done")
    w.start_block(f"{label}.done")


def _broadcast(w: FunctionWriter, node: UOp) -> None:
    w.names[node] = w.splat(node.dtype, w.value(node.source))


def _vectorize(w: FunctionWriter, node: UOp) -> None:
    w.names[node] = w.lanes(node.dtype, [w.value(s) for s in node.src])


def _pick_lanes(w: FunctionWriter, node: UOp) -> None:
    vector = node.source
    lanes: tuple[int, ...] = node.arg
    name = w.value(vector)
    if vector.dtype.lanes == 1:
        w.names[node] = name if node.dtype.lanes == 1 else w.splat(node.dtype, name)
    elif len(lanes) == 1:
        w.names[node] = w.extract(vector.dtype, name, lanes[0])
    elif lanes == tuple(range(vector.dtype.lanes)):
        w.names[node] = name
    else:
        w.names[node] = w.shuffle(vector.dtype, name, "poison", lanes)


def _concatenate(w: FunctionWriter, node: UOp) -> None:
    vectors = [(s.dtype, w.value(s)) for s in node.src]
    if all(dtype.lanes == 1 for dtype, _ in vectors):
        w.names[node] = w.lanes(node.dtype, [name for _, name in vectors])
        return
    # Pairwise: the depth of the shuffles grows with the logarithm.
    while len(vectors) > 1:
        paired = [_join(w, *vectors[k], *vectors[k + 1]) for k in range(0, len(vectors) - 1, 2)]
        vectors = paired + vectors[2 * len(paired) :]
    w.names[node] = vectors[0][1]


def _join(w: FunctionWriter, left: DType, x: str, right: DType, y: str) -> tuple[DType, str]:
    """Concatenate two vectors. The operands of a shuffle have the same type, so the narrower vector is
    widened first.
    """
    widest = left if left.lanes >= right.lanes else right
    x, y = _widen(w, left, x, widest), _widen(w, right, y, widest)
    lanes = [*range(left.lanes), *range(widest.lanes, widest.lanes + right.lanes)]
    return left.vec(len(lanes)), w.shuffle(widest, x, y, lanes)


def _widen(w: FunctionWriter, dtype: DType, name: str, target: DType) -> str:
    if dtype is target:
        return name
    if dtype.lanes == 1:
        return w.emit(f"insertelement {type_text(target)} poison, {type_text(dtype)} {name}, i64 0")
    return w.shuffle(
        dtype, name, "poison", [*range(dtype.lanes), *[-1] * (target.lanes - dtype.lanes)]
    )


def _multiply_matrices(w: FunctionWriter, node: UOp) -> None:
    w.names[node] = emit_dot(w, node)


def _reduce(w: FunctionWriter, node: UOp) -> None:
    w.names[node] = emit_reduce(w, node)


_HANDLERS: Final[dict[Op, Handler]] = {
    **dict.fromkeys((Op.PARAM, Op.DEFINE_VAR, Op.SINK, Op.GROUP, Op.NOOP, Op.BARRIER), _nothing),
    Op.CONST: _constant,
    Op.VCONST: _constant,
    Op.AFTER: _alias,
    Op.DEFINE_REG: _allocate,
    Op.DEFINE_LOCAL: _allocate,
    Op.SPECIAL: _special,
    Op.INDEX: _index,
    Op.LOAD: emit_load,
    Op.STORE: emit_store,
    Op.RANGE: _start_loop,
    Op.END: _end_loop,
    Op.LEAVE: _leave_loop,
    Op.BROADCAST: _broadcast,
    Op.VECTORIZE: _vectorize,
    Op.GEP: _pick_lanes,
    Op.CAT: _concatenate,
    Op.REDUCE: _reduce,
    Op.WMMA: _multiply_matrices,
}
