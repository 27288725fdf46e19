"""Inputs of a captured function's plan, each on the memory of a tensor argument."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from svod_ir import UOp
from svod_tensor._shards import shards_of
from svod_tensor.capture.donation import find_base_of
from svod_tensor.tensor import Tensor

__all__ = ["Input"]


@dataclass(slots=True)
class Input:
    """Input of a plan.

    Attributes:
        position: index among the tensors and variables of a call.
        memory: its placeholder BUFFER.
        argument: its name in messages.
        is_donated: whether its memory is donated.
        index: in the plan, if the plan uses it.
        is_written: whether the plan assigns to it.
        shard: index of its shard in the argument.
    """

    position: int
    memory: UOp
    argument: str
    is_donated: bool
    index: int | None = None
    is_written: bool = False
    shard: int = 0

    def on(self, memory: UOp) -> Input:
        """This input with another placeholder."""
        # Without `dataclasses.replace`, which takes several times as long.
        return Input(
            self.position,
            memory,
            self.argument,
            self.is_donated,
            self.index,
            self.is_written,
            self.shard,
        )

    @property
    def is_overwritten(self) -> bool:
        """Whether the plan writes to memory that the argument keeps."""
        return self.is_written and not self.is_donated

    def find_memory(self, given: Sequence[Tensor | UOp]) -> UOp | None:
        """The memory of this input in a call, or of a copy of a view; None without elements."""
        tensor = given[self.position]
        assert isinstance(tensor, Tensor)
        while True:
            # Fast path for memory on one device, which is nearly always the case.
            node = find_base_of(tensor, self.shard)
            if node is not None and node.attached is not None:
                return node
            if 0 in shards_of(tensor.uop)[self.shard].shape:
                return None
            # Another thread may have assigned to it meanwhile.
            tensor = tensor.clone().realize() if tensor.is_realized else tensor.realize()
