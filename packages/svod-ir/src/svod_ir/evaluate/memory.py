"""Memory of an evaluation: the caller's inputs, allocated memory, and invalid reads (poison)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

import numpy as np

from svod_dtype import DType
from svod_ir._arithmetic import Values
from svod_ir.errors import EvaluationError
from svod_ir.ops import MOVEMENT, Op
from svod_ir.uop import UOp

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

__all__ = [
    "MEMORY_BASES",
    "Environment",
    "Inputs",
    "Poison",
    "checked",
    "find_poison",
    "get_writes",
    "is_location",
    "memory_of",
    "new_memory",
]


Inputs: TypeAlias = "Mapping[UOp | int | str, ArrayLike]"
"""Values by node (BUFFER, PARAM, DEFINE_VAR, RANGE, SPECIAL), PARAM slot or variable name."""


class Environment:
    """The caller's arrays and variables, the buffers of a schedule, and functions that run bodies.

    `run_body` runs the body of a CALL; `evaluate` returns the values of a LOOP's or SWITCH's body.
    """

    def __init__(
        self,
        given: Inputs,
        run_body: Callable[[UOp, Inputs], Values | None],
        evaluate: Callable[[UOp, Inputs], Any],
        scratch: dict[UOp, Values] | None = None,
    ) -> None:
        self.given = given
        self.run_body, self.evaluate = run_body, evaluate
        self.scratch: dict[UOp, Values] = {} if scratch is None else scratch

    def with_values(self, values: Mapping[UOp, int]) -> Environment:
        if not values:
            return self
        return Environment({**self.given, **values}, self.run_body, self.evaluate, self.scratch)

    def has(self, node: UOp) -> bool:
        return self._find(node) is not None

    def _find(self, node: UOp) -> ArrayLike | None:
        if node in self.given:
            return self.given[node]
        if node.op is Op.PARAM:
            return self.given.get(node.arg.slot)
        if node.op is Op.DEFINE_VAR:
            return self.given.get(node.arg.name)
        return self.given.get(node.arg) if node.op is Op.SPECIAL else None

    def array(self, node: UOp) -> Values:
        """The elements of a BUFFER or PARAM as a flat view of the caller's array."""
        value = self._find(node)
        if value is None:
            if node.op is Op.BUFFER and node.arg.id < 0:
                # A negative id is local to one schedule: only the graph's own kernels access the
                # memory.
                return self.scratch.setdefault(node, new_memory(node.dtype, node.arg.size))
            key = (
                f"{{{node.arg.slot}: array}}, by its slot"
                if node.op is Op.PARAM
                else "{node: array}, by the node itself"
            )
            raise EvaluationError(problem="missing array", node=node, hint=f"give it as {key}")
        array = np.asarray(value)
        if array.dtype != node.dtype.numpy:
            raise EvaluationError(
                problem=f"expected an array of {node.dtype}, got {array.dtype}", node=node
            )
        # Larger is fine: memory has room for the largest values of variables.
        if array.size < node.arg.size:
            raise EvaluationError(
                problem=f"expected an array of {node.arg.size} elements, got {array.size}",
                node=node,
            )
        flat = array.reshape(-1)
        # `reshape` copied then, and writes of the graph would not reach the caller's array.
        if array.size and not np.shares_memory(flat, array):
            raise EvaluationError(
                problem="array is not contiguous", node=node, hint="use np.ascontiguousarray"
            )
        return flat

    def scalar(self, node: UOp) -> Values:
        value = self._find(node)
        if value is None:
            raise EvaluationError(problem="missing value of variable", node=node)
        if isinstance(value, np.ndarray):
            return cast("Values", value).astype(node.dtype.numpy)
        return node.dtype.numpy.type(value)


MEMORY_BASES: Final = frozenset({Op.BUFFER, Op.PARAM, Op.DEFINE_LOCAL, Op.DEFINE_REG})


def memory_of(node: UOp) -> UOp:
    """The memory object below views and ordering edges."""
    while node.op in (Op.AFTER, Op.INDEX, Op.ASSIGN, Op.DETACH, Op.TRACED) or node.op in MOVEMENT:
        node = node.src[0]
    return node


def is_location(node: UOp) -> bool:
    """True if the value of `node` is the array of a memory object, not a copy of its elements."""
    node = node.unordered
    return node.op in MEMORY_BASES or node.op is Op.BUFFER_VIEW


def get_writes(root: UOp) -> set[UOp]:
    written: set[UOp] = set()
    for node in root.toposort():
        if node.op in (Op.ASSIGN, Op.STORE):
            written.add(memory_of(node.src[0]))
        elif node.op is Op.CALL:
            written.update(memory_of(s) for s in node.arguments)
    return written


def new_memory(dtype: DType, size: int) -> Values:
    """Uninitialized memory: NaN, or a byte pattern for integers."""
    shape = (size, dtype.lanes) if dtype.lanes > 1 else (size,)
    # A value that tests notice: NaN propagates, and 0x5A5A... is an unlikely result.
    if dtype.is_float:
        return np.full(shape, math.nan, dtype=dtype.numpy)
    return (
        np.full((math.prod(shape) * dtype.itemsize,), 0 if dtype.is_bool else 0x5A, np.uint8)
        .view(dtype.numpy)
        .reshape(shape)
    )


class Poison:
    """The value of an out-of-bounds read, which a WHERE may still discard."""

    def __init__(self, problem: str, node: UOp) -> None:
        self.problem, self.node = problem, node

    def fail(self) -> EvaluationError:
        return EvaluationError(problem=self.problem, node=self.node)


def find_poison(operands: Sequence[Any]) -> Poison | None:
    return next((o for o in operands if isinstance(o, Poison)), None)


def checked(x: Any) -> Any:
    if isinstance(x, Poison):
        raise x.fail()
    return x
