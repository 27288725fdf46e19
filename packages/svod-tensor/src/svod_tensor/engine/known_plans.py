"""Plans of small graphs that were computed before, found by the form of the graph alone.

    ADD(BUFFER 7, BUFFER 9)   and   ADD(BUFFER 12, BUFFER 3), of equal sizes and dtypes on one device, have one form

A graph has a form if it consists of elementwise operations, reductions and movement on memory and
constants: no variables, assignments, copies, loops, checks or marks of derivatives. Its plan is
executed on the memory of each graph in turn, as that of a captured function is, without a graph
being made anew, looked up and bound."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from svod_device import Buffer, PermanentAllocator, get_allocator
from svod_ir import Op, UOp
from svod_ir.ops import ELEMENTWISE, MOVEMENT
from svod_ir.origins import has_origins
from svod_runtime import Lending
from svod_tensor._memory_views import view_prefix
from svod_tensor.engine.bounded_cache import BoundedCache
from svod_tensor.engine.memory_nodes import make_memory
from svod_tensor.engine.observe import is_observed

if TYPE_CHECKING:
    from svod_runtime import ExecutionPlan
    from svod_tensor.options import PrepareConfig

__all__ = ["KNOWN_PLANS", "GraphForm", "KnownPlan", "can_be_known", "find_form", "keep_known_plan"]

MAX_NODES: Final = 64
"""Of a graph with a form: what is larger takes long enough to compute."""

MAX_KNOWN_PLANS: Final = 512

MAX_BYTES: Final = 1 << 18
"""What a known plan reads and writes at most, so that it has run before another thread has waited
long.
"""

_BUFFER: Final = Op.BUFFER
_LEAVES: Final = frozenset({Op.CONST, Op.IOTA})
_PLAIN: Final = ELEMENTWISE | MOVEMENT | {Op.REDUCE_AXIS, Op.CONTIGUOUS, Op.GATHER}

FormKey: TypeAlias = tuple[Hashable, ...]


class GraphForm(NamedTuple):
    """What graphs have in common that differ in their memory.

    Attributes:
        key: equal for graphs of one form.
        memories: the BUFFERs of this one, in the order in which it reads them.
    """

    key: FormKey
    memories: list[UOp]


@dataclass(frozen=True, slots=True)
class KnownPlan:
    """The plan of a form.

    Attributes:
        config: what it was prepared with.
        plan: nobody else has it.
        lending: where it takes the memory of a graph, and its result's.
        make: new memory for a result.
        make_node: what a result is on its memory.
    """

    config: PrepareConfig
    plan: ExecutionPlan
    lending: Lending
    make: Callable[[], Buffer]
    make_node: Callable[[Buffer], UOp]


KNOWN_PLANS: Final = BoundedCache[FormKey, KnownPlan](lambda: MAX_KNOWN_PLANS)


def can_be_known(config: PrepareConfig) -> bool:
    """Whether plans are looked up by forms now."""
    is_plain = not config.disable_schedule_cache and config.check_floats == "off"
    return is_plain and not (is_observed() or has_origins())


def find_form(root: UOp) -> GraphForm | None:
    """The form of a graph, None if it has none."""
    order = root.toposort()
    if len(order) > MAX_NODES or root.dtype.is_complex:
        return None
    numbers: dict[UOp, int] = {}
    memories: list[UOp] = []
    key: list[Hashable] = []
    for node in order:
        op = node.op
        if op in _PLAIN:
            key.append((op, node.dtype, node.arg, *[numbers[operand] for operand in node.src]))
        elif op is _BUFFER:
            _, size, device = node.arg
            key.append((size, device, node.dtype))
            memories.append(node)
        elif op in _LEAVES and not node.src:
            # A node is equal to itself alone, and so tells 0.0 from -0.0.
            key.append(node)
        else:
            return None
        numbers[node] = len(numbers)
    return GraphForm(tuple(key), memories)


def keep_known_plan(root: UOp, plan: ExecutionPlan, config: PrepareConfig) -> bool:
    """Let graphs of the form of `root` be computed by `plan`, which computed it and which nobody
    else has; whether they can be.

    Only the second plan of a form is kept: what is computed once leaves nothing.
    """
    if not (plan.is_reused and can_be_known(config)) or plan.is_special or plan.num_outputs != 1:
        return False
    form = find_form(root)
    if form is None or not plan.can_execute_direct:
        return False
    index_of, (result,) = plan.ast_to_buffer, plan.output_indices
    places = (*(index_of.get(memory.arg.id) for memory in form.memories), result)
    lent = frozenset([index for index in places if index is not None])
    if not _is_small_and_here(plan, lent):
        return False
    plan.lend(lent)
    out, allocator = plan.buffers[result], get_allocator(plan.device)
    make = Buffer.make_factory(allocator, out.dtype, out.size)
    known = KnownPlan(config, plan, Lending(places), make, _prepare_node(root, out))
    return KNOWN_PLANS.add(form.key, known) is known


def _is_small_and_here(plan: ExecutionPlan, indices: Iterable[int]) -> bool:
    """Whether these buffers are little memory of the host that cannot be lost."""
    allocator, buffers = get_allocator(plan.device), [plan.buffers[index] for index in indices]
    if not (
        isinstance(allocator, PermanentAllocator)
        and allocator.is_permanent
        and allocator.is_host_addressable
    ):
        return False
    return (
        all(b.device == allocator.device for b in buffers)
        and sum(b.nbytes for b in buffers) <= MAX_BYTES
    )


def _prepare_node(root: UOp, out: Buffer) -> Callable[[Buffer], UOp]:
    shape, dtype, size, device = root.shape, out.dtype, out.size, out.device
    return lambda buffer: view_prefix(make_memory(dtype, size, device, buffer), shape)
