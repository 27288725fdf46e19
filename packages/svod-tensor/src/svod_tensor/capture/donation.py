"""Memory that its owner gives away: a plan may write intermediates and results where an input was.

A caller who donates a tensor gives up its memory, with every view of it. What was computed from the
tensor but not yet realized gets its values before. Nothing may use the tensor afterwards; a plan
that would read it, or a captured function that holds on to it, says so instead."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from svod_ir import UOp
from svod_ir.sizes import max_size
from svod_tensor._shards import iter_parts, parts_of
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
    "find_base_of",
    "get_memory",
    "give_away",
    "prepare_donating",
    "resolve_donated",
    "take_own",
]

Donate: TypeAlias = str | int | Sequence[str | int]
"""Parameters of a function by name, or by position from 0."""


class DonatedParameters(NamedTuple):
    """Which parameters of a function are donated.

    Attributes:
        names: theirs.
        positional: the names of all parameters that an argument without a name can be for.
    """

    names: frozenset[str]
    positional: tuple[str, ...]

    def get_name(self, root: int | str) -> str:
        """The parameter of an argument that is given by position or by name."""
        if isinstance(root, str):
            return root
        return self.positional[root] if root < len(self.positional) else f"args[{root}]"


NOTHING_DONATED: Final = DonatedParameters(frozenset(), ())


class Donated(NamedTuple):
    """The memory of a donated tensor, and what the tensor is called in messages."""

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
    wanted = [donate] if isinstance(donate, (str, int)) else list(donate)
    kinds = inspect.Parameter
    parameters = list(inspect.signature(function).parameters.values())
    single = [p for p in parameters if p.kind not in (kinds.VAR_POSITIONAL, kinds.VAR_KEYWORD)]
    positional = [p.name for p in single if p.kind is not kinds.KEYWORD_ONLY]
    names: set[str] = set()
    for one in wanted:
        is_known = (
            any(p.name == one for p in single)
            if isinstance(one, str)
            else 0 <= one < len(positional)
        )
        if not is_known:
            shown = ", ".join(p.name for p in single) or "none"
            raise DonationError(
                function=name,
                argument=repr(one),
                problem="is no parameter",
                hint=f"there are: {shown}",
            )
        names.add(one if isinstance(one, str) else positional[one])
    return DonatedParameters(frozenset(names), tuple(positional))


def get_memory(taker: str, tensor: TensorBase, part: int, argument: str) -> Donated:
    """The memory of a realized tensor, or of one shard of it, which may be given away.

    What is another's too, or part of something larger, is copied before.

    Raises:
        DonationError: if it is a file, or part of larger memory.
    """
    _check_no_file(taker, tensor, argument)
    node = take_own(tensor, part)
    buffer = memory_nodes.find_buffer(node)
    assert buffer is not None, node
    # The size is that for the largest values of the variables in the shape.
    size = math.prod(map(max_size, parts_of(tensor.uop)[part].shape))
    if buffer.offset or buffer.nbytes != buffer.storage_nbytes or buffer.size != size:
        problem = "is a part of larger memory"
        raise DonationError(
            function=taker, argument=argument, problem=problem, hint="donate (x + 0).contiguous()"
        )
    return Donated(node, buffer, argument)


def find_base_of(tensor: TensorBase, part: int) -> UOp | None:
    """The memory that a tensor on one device is, or that one of its shards is."""
    return memory_nodes.find_base(tensor.uop) or memory_nodes.find_base(parts_of(tensor.uop)[part])


def take_own(tensor: TensorBase, part: int) -> UOp:
    """The memory of a tensor with elements, or of one shard of it, which is its own afterwards; of
    a view a copy.
    """
    content = tensor.content
    content.cell.end_loan()
    if content is content.cell and content.cell.owns:
        # Memory on one device, as nearly all of it.
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
            if is_whole and writing.make_own(tensor.content.cell):
                node = find_base_of(tensor, part)
                assert node is not None, tensor
                return node
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


def give_away(donated: Sequence[Donated], taker: str) -> None:
    """Let nothing use this memory any more: no tensor, no plan."""
    argument_of = {given.memory: given.argument for given in donated}
    with registry.lock:
        for cell in list(registry.iter_cells()):
            memories = versions.iter_memories(cell.node) if cell.owns else ()
            argument = next(
                (argument_of[memory] for memory in memories if memory in argument_of), None
            )
            if argument is not None:
                cell.mark_donated(argument, taker)
        for given in donated:
            memory_nodes.remove_buffer(given.memory)
    for plan in registry.iter_plans():
        for given in donated:
            plan.mark_donated(given.buffer, f"{taker} took it as {given.argument}")


def check_distinct(taker: str, donated: Sequence[Donated], others: Mapping[str, Buffer]) -> None:
    """Check that what is donated is given once, and used under no other name.

    Raises:
        DonationError: if not.
    """
    known = {buffer.storage_id: argument for argument, buffer in others.items()}
    for given in donated:
        other = known.get(given.buffer.storage_id)
        if other is not None:
            problem = f"has the memory of {other}"
            hint = "donate a tensor that is given once, or a copy, as in x.clone()"
            raise DonationError(function=taker, argument=given.argument, problem=problem, hint=hint)
        known[given.buffer.storage_id] = given.argument


def prepare_donating(
    tensors: Sequence[TensorBase], config: PrepareConfig, given: Sequence[TensorBase]
) -> ExecutionPlan:
    """The plan that computes `tensors` and may overwrite the memory of those in `given`."""
    from svod_tensor._realize import keep_values, prepare_tensors, realize_tensors

    realize_tensors([t.content for t in given], config)
    donated = [
        get_memory("a plan", t, part, f"donate[{i}]")
        for i, t in enumerate(given)
        for part, node in enumerate(parts_of(t.uop))
        if 0 not in node.shape
    ]
    check_distinct(
        "a plan",
        donated,
        {f"tensor {n}, which the plan is for": b for n, b in _iter_buffers(tensors)},
    )
    memories = {one.memory for one in donated}
    wanted = {id(t.content.cell) for t in tensors}
    kept = keep_values(
        [cell for cell in overwriting.list_readers(memories) if id(cell) not in wanted], config
    )
    plan = prepare_tensors([t.content for t in tensors], config, memories)
    give_away(donated, "a plan")
    with registry.lock:
        registry.invalidate({}, {**kept.values, **kept.copies})
    # This plan has their content, for the first execution.
    plan.replace_buffers({index: plan.buffers[index] for index in plan.donated_indices})
    return plan


def _iter_buffers(tensors: Iterable[TensorBase]) -> Iterator[tuple[int, Buffer]]:
    """The number of each tensor that is memory already, and its buffers."""
    for number, tensor in enumerate(tensors):
        if not tensor.is_realized:
            continue
        for part in iter_parts((tensor.uop,)):
            base = memory_nodes.find_base(part)
            buffer = None if base is None else memory_nodes.find_buffer(base)
            if buffer is not None:
                yield number, buffer
