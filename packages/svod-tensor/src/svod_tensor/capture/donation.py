"""Donation: an owner gives up memory, so that a plan may write intermediates and results there.

A caller who donates a tensor gives up its memory, with every view of it. Pending tensors that were
computed from it get their values before. Later uses of the tensor, and plans or captured functions
that still hold it, raise errors."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from svod_ir import UOp
from svod_ir.sizes import max_size
from svod_tensor._shards import iter_shards, shards_of
from svod_tensor.capture.parameters import Parameters
from svod_tensor.cells import overwriting, registry, writing
from svod_tensor.engine import memory_nodes, versions
from svod_tensor.errors import DonationError

if TYPE_CHECKING:
    from svod_device import Buffer
    from svod_runtime import ExecutionPlan
    from svod_tensor.ops.core.base import TensorBase
    from svod_tensor.options import PrepareConfig

__all__ = [
    "NOTHING_DONATED",
    "Donate",
    "Donated",
    "DonatedParameters",
    "check_distinct",
    "ensure_own_memory",
    "find_base_of",
    "get_donated_memory",
    "invalidate_donated",
    "prepare_donating",
    "resolve_donated",
]

Donate: TypeAlias = str | int | Sequence[str | int]
"""Parameters of a function by name, or by position from 0."""


class DonatedParameters(NamedTuple):
    """Donated parameters of a function.

    Attributes:
        names: their names.
        positional: the names of all parameters that can be passed by position.
    """

    names: frozenset[str]
    positional: tuple[str, ...]

    def get_name(self, root: int | str) -> str:
        """The parameter for an argument that is passed by position or by name."""
        if isinstance(root, str):
            return root
        return self.positional[root] if root < len(self.positional) else f"args[{root}]"


NOTHING_DONATED: Final = DonatedParameters(frozenset(), ())


class Donated(NamedTuple):
    """Memory of a donated tensor, with the tensor's name in messages."""

    memory: UOp
    buffer: Buffer
    argument: str


def resolve_donated(
    name: str, function: Callable[..., object], donate: Donate
) -> DonatedParameters:
    """The parameters of `function` that `donate` names.

    Raises:
        DonationError: if it has no such parameter.
    """
    donated = [donate] if isinstance(donate, (str, int)) else list(donate)
    parameters = Parameters.of(function)
    positional = parameters.positional
    names: set[str] = set()
    for parameter in donated:
        is_known = (
            parameter in parameters.names
            if isinstance(parameter, str)
            else 0 <= parameter < len(positional)
        )
        if not is_known:
            shown = ", ".join(parameters.names) or "none"
            raise DonationError(
                function=name,
                argument=repr(parameter),
                problem="is not a parameter",
                hint=f"there are: {shown}",
            )
        names.add(parameter if isinstance(parameter, str) else positional[parameter])
    return DonatedParameters(frozenset(names), positional)


def get_donated_memory(taker: str, tensor: TensorBase, shard: int, argument: str) -> Donated:
    """The memory of a realized tensor, or of one of its shards, ready for donation.

    Shared memory is copied first.

    Raises:
        DonationError: if it is a file, or part of larger memory.
    """
    _check_no_file(taker, tensor, argument)
    node = ensure_own_memory(tensor, shard)
    buffer = memory_nodes.find_buffer(node)
    assert buffer is not None, node
    # Memory of a symbolic shape has room for the largest sizes.
    size = math.prod(map(max_size, shards_of(tensor.uop)[shard].shape))
    # The taker may use the storage for anything of its size, so elements beside the tensor would be
    # overwritten.
    if buffer.offset or buffer.nbytes != buffer.storage_nbytes or buffer.size != size:
        problem = "is a part of larger memory"
        raise DonationError(
            function=taker, argument=argument, problem=problem, hint="donate (x + 0).contiguous()"
        )
    return Donated(node, buffer, argument)


def find_base_of(tensor: TensorBase, shard: int) -> UOp | None:
    """The BUFFER of a tensor on one device, or of one of its shards."""
    return memory_nodes.find_base(tensor.uop) or memory_nodes.find_base(
        shards_of(tensor.uop)[shard]
    )


def ensure_own_memory(tensor: TensorBase, shard: int) -> UOp:
    """The memory of a tensor with elements, or of one of its shards, which the tensor owns
    afterwards; of a view a copy.
    """
    content = tensor.content
    content.cell.end_loan()
    if content is content.cell and content.cell.owns:
        # Fast path for memory on one device, which is nearly always the case.
        node = memory_nodes.find_base(content.node)
        if (
            node is not None
            and (buffer := memory_nodes.find_buffer(node)) is not None
            and buffer.is_writable
        ):
            return node
    from svod_tensor._realize import realize_tensors
    from svod_tensor.options import resolve_config

    while True:
        with registry.lock:
            is_whole = memory_nodes.is_buffer_identity(
                tensor.content.cell.node
            ) and memory_nodes.is_buffer_identity(tensor.uop)
            # False if this thread had to wait, during which another thread may have assigned: look
            # again.
            if is_whole and writing.make_own(tensor.content.cell):
                node = find_base_of(tensor, shard)
                assert node is not None, tensor
                return node
        # A view of memory becomes a tensor of its own, whose computation copies the elements.
        tensor = tensor.from_uop(tensor.uop) if tensor.is_realized else tensor
        realize_tensors([tensor.content], resolve_config(None))


def _check_no_file(taker: str, tensor: TensorBase, argument: str) -> None:
    for memory in versions.iter_memories(tensor.uop):
        buffer = memory_nodes.find_buffer(memory)
        if buffer is not None and not buffer.allocator.is_writable:
            problem = f"is a file, on {buffer.device}"
            raise DonationError(
                function=taker, argument=argument, problem=problem, hint='donate x.to("CPU")'
            )


def invalidate_donated(donated: Sequence[Donated], taker: str) -> None:
    """Invalidate donated memory for all tensors and plans."""
    argument_of = {memory.memory: memory.argument for memory in donated}
    with registry.lock:
        for cell in list(registry.iter_cells()):
            memories = versions.iter_memories(cell.node) if cell.owns else ()
            argument = next(
                (argument_of[memory] for memory in memories if memory in argument_of), None
            )
            if argument is not None:
                cell.mark_donated(argument, taker)
        for memory in donated:
            memory_nodes.remove_buffer(memory.memory)
    for plan in registry.iter_plans():
        for memory in donated:
            plan.mark_donated(memory.buffer, f"{taker} took it as {memory.argument}")


def check_distinct(taker: str, donated: Sequence[Donated], buffers: Mapping[str, Buffer]) -> None:
    """Check that each donated tensor is passed once, and used under no other name.

    Raises:
        DonationError: if one is not.
    """
    known = {buffer.storage_id: argument for argument, buffer in buffers.items()}
    for memory in donated:
        known_as = known.get(memory.buffer.storage_id)
        if known_as is not None:
            problem = f"has the memory of {known_as}"
            hint = "donate a tensor that is given once, or a copy, as in x.clone()"
            raise DonationError(
                function=taker, argument=memory.argument, problem=problem, hint=hint
            )
        known[memory.buffer.storage_id] = memory.argument


def prepare_donating(
    tensors: Sequence[TensorBase], config: PrepareConfig, given: Sequence[TensorBase]
) -> ExecutionPlan:
    """The plan that computes `tensors` and may overwrite the memory of the tensors in `given`."""
    from svod_tensor._realize import keep_values, prepare_tensors, realize_tensors

    realize_tensors([t.content for t in given], config)
    donated = [
        get_donated_memory("a plan", t, shard, f"donate[{i}]")
        for i, t in enumerate(given)
        for shard, node in enumerate(shards_of(t.uop))
        if 0 not in node.shape
    ]
    check_distinct(
        "a plan",
        donated,
        {f"tensor {n}, which the plan is for": b for n, b in _iter_buffers(tensors)},
    )
    memories = {memory.memory for memory in donated}
    computed = {id(t.content.cell) for t in tensors}
    # Pending readers get their values now: each execution of the plan may overwrite the memory.
    kept = keep_values(
        [cell for cell in overwriting.list_readers(memories) if id(cell) not in computed], config
    )
    plan = prepare_tensors([t.content for t in tensors], config, memories)
    invalidate_donated(donated, "a plan")
    with registry.lock:
        # Graphs that another thread has built on the memory meanwhile read the kept values instead.
        registry.invalidate({}, {**kept.values, **kept.copies})
    # The plan keeps the buffers, for its first execution.
    plan.replace_buffers({index: plan.buffers[index] for index in plan.donated_indices})
    return plan


def _iter_buffers(tensors: Iterable[TensorBase]) -> Iterator[tuple[int, Buffer]]:
    """The index of each tensor that is memory already, with its buffers."""
    for index, tensor in enumerate(tensors):
        if not tensor.is_realized:
            continue
        for shard in iter_shards((tensor.uop,)):
            base = memory_nodes.find_base(shard)
            buffer = None if base is None else memory_nodes.find_buffer(base)
            if buffer is not None:
                yield index, buffer
