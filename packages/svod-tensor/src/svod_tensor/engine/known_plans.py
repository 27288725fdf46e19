"""Known plans: plans of small graphs, found by the structure of the graph.

    ADD(BUFFER 7, BUFFER 9)   and   ADD(BUFFER 12, BUFFER 3), of equal sizes and dtypes on one device, have one structure

A graph is eligible if it consists of elementwise operations, reductions and movement on memory and
constants: no variables, assignments, copies, loops or checks. Derivative marks are left out of the
structure, as they are of kernels. The plan is executed on the memory of each such graph in turn, as
the plan of a captured function is, without normalizing, looking up and binding each graph."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from svod_device import Buffer, PermanentAllocator, get_allocator
from svod_ir import Op, UOp
from svod_ir.ops import ELEMENTWISE, MARKS, MOVEMENT
from svod_ir.origins import has_origins
from svod_runtime import Lending
from svod_tensor._memory_views import view_prefix
from svod_tensor.engine.bounded_cache import BoundedCache
from svod_tensor.engine.memory_nodes import make_memory
from svod_tensor.engine.observe import is_observed

if TYPE_CHECKING:
    from svod_runtime import ExecutionPlan
    from svod_tensor.options import PrepareConfig

__all__ = [
    "KNOWN_PLANS",
    "GraphStructure",
    "KnownPlan",
    "can_be_known",
    "find_structure",
    "keep_known_plan",
]

MAX_NODES: Final = 128
"""Maximum number of nodes of an eligible graph. Larger graphs compute long enough to hide the
overhead of the general path.
"""

MAX_KNOWN_PLANS: Final = 512

MAX_BYTES_UNDER_LOCK: Final = 1 << 18
"""Maximum number of bytes that a plan reads and writes if it runs under the registry's lock, which
must be free again within microseconds.
"""

_BUFFER: Final = Op.BUFFER
_LEAVES: Final = frozenset({Op.CONST, Op.IOTA})
_PLAIN: Final = (
    ELEMENTWISE
    | MOVEMENT
    | {
        Op.REDUCE_AXIS,
        Op.SCAN_AXIS,
        Op.CONTIGUOUS,
        Op.GATHER,
        Op.SCATTER,
    }
)
# A configuration that checks indices has a plan with a second result, which is not known.
_SAME_VALUE: Final = MARKS | {Op.CHECK}

StructureKey: TypeAlias = tuple[Hashable, ...]


class GraphStructure(NamedTuple):
    """Structure of a graph, apart from its memory.

    Attributes:
        key: equal for graphs of one structure.
        memories: the BUFFERs of this graph, in topological order.
    """

    key: StructureKey
    memories: list[UOp]


@dataclass(frozen=True, slots=True)
class KnownPlan:
    """Plan of a structure.

    Attributes:
        config: the options that it was prepared with.
        plan: owned by this object.
        is_short: whether it may run under the registry's lock.
        lending: the indices of the graph's memory and of the result.
        make: allocates the memory of a result.
        make_node: makes the node of a result on its memory.
    """

    config: PrepareConfig
    plan: ExecutionPlan
    is_short: bool
    lending: Lending
    make: Callable[[], Buffer]
    make_node: Callable[[Buffer], UOp]


KNOWN_PLANS: Final = BoundedCache[StructureKey, KnownPlan](lambda: MAX_KNOWN_PLANS)


def can_be_known(config: PrepareConfig) -> bool:
    """Whether plans may be looked up by structure now."""
    is_plain = not config.disable_schedule_cache and config.check_floats == "off"
    return is_plain and not (is_observed() or has_origins())


def find_structure(root: UOp) -> GraphStructure | None:
    """The structure of a graph; None if the graph is not eligible."""
    order = root.toposort()
    if len(order) > MAX_NODES:
        return None
    index_of: dict[UOp, int] = {}
    memories: list[UOp] = []
    key: list[Hashable] = []
    for node in order:
        op = node.op
        if op in _SAME_VALUE:
            index_of[node] = index_of[node.source]
            continue
        if op in _PLAIN:
            key.append((op, node.dtype, node.arg, *[index_of[operand] for operand in node.src]))
        elif op is _BUFFER:
            _, size, device = node.arg
            key.append((size, device, node.dtype))
            memories.append(node)
        elif op in _LEAVES and not node.src:
            # The node itself is the key, since it distinguishes 0.0 from -0.0.
            key.append(node)
        else:
            return None
        index_of[node] = len(key) - 1
    # The operands of a derivative rule may come after the value.
    key.append(index_of[root])
    return GraphStructure(tuple(key), memories)


def keep_known_plan(root: UOp, plan: ExecutionPlan, config: PrepareConfig) -> bool:
    """Store `plan`, which computed `root` and has no other owner, for graphs of the same structure;
    return whether it was stored.

    Only the second plan of a structure is stored: graphs that are computed once need none."""
    # A reused plan has small intermediates, which it may hold as long as it is cached.
    if not (plan.is_reused and can_be_known(config)) or plan.is_special or plan.num_outputs != 1:
        return False
    structure = find_structure(root)
    if structure is None or not plan.can_execute_direct({}):
        return False
    index_of, (result,) = plan.ast_to_buffer, plan.output_indices
    indices = (*(index_of.get(memory.arg.id) for memory in structure.memories), result)
    lent = frozenset([index for index in indices if index is not None])
    if not _is_in_permanent_memory(plan, lent):
        return False
    is_short = sum(plan.buffers[index].nbytes for index in lent) <= MAX_BYTES_UNDER_LOCK
    plan.lend(lent)
    out, allocator = plan.buffers[result], get_allocator(plan.device)
    make = Buffer.make_factory(allocator, out.dtype, out.size)
    known = KnownPlan(config, plan, is_short, Lending(indices), make, _prepare_node(root, out))
    return KNOWN_PLANS.add(structure.key, known) is known


def _is_in_permanent_memory(plan: ExecutionPlan, indices: Iterable[int]) -> bool:
    """True if these buffers are in permanent host memory."""
    allocator, buffers = get_allocator(plan.device), [plan.buffers[index] for index in indices]
    if not (
        isinstance(allocator, PermanentAllocator)
        and allocator.is_permanent
        and allocator.is_host_addressable
    ):
        return False
    return all(b.device == allocator.device for b in buffers)


def _prepare_node(root: UOp, out: Buffer) -> Callable[[Buffer], UOp]:
    shape, kind = root.shape, root.dtype
    dtype, size, device = out.dtype, out.size, out.device
    return lambda buffer: view_prefix(make_memory(dtype, size, device, buffer), shape, kind)
