"""Dynamic shapes: one plan for all sizes of an axis (`jit(..., dynamic_shapes=...)`).

    n = Variable("n", 1, 512)
    f = jit(lambda x: x.sum(axis=1), dynamic_shapes={"x": {0: n}})
    f(x)         # x of (7, 64): traced with a tensor of (n, 64), 1 <= n <= 512; the plan runs with n = 7
    f(y)         # y of (9, 64): the same plan with n = 9

The function is captured for a call on tensors with variables as sizes. Each combination of sizes
then gets a `Captured` of its own, made in a fraction of a millisecond: the same plan, with values for
the variables, and inputs and results of known shapes. Memory is contiguous for the sizes of a call,
at the start of what would be needed for the largest sizes, so arguments are read where they are."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, cast

from svod_device import Buffer, evaluate_expression, get_allocator
from svod_ir import Op, UOp, make_reshape, make_shrink
from svod_ir.sizes import max_size, unbind
from svod_tensor._memory_views import view_prefix
from svod_tensor._variable import Variable
from svod_tensor.capture.calls import Captured
from svod_tensor.capture.function_plan import find_direct
from svod_tensor.capture.inputs import Input
from svod_tensor.capture.parameters import Parameters
from svod_tensor.capture.recipes import Results
from svod_tensor.capture.signature import find_array
from svod_tensor.cells.views import is_symbolic
from svod_tensor.engine import memory_nodes
from svod_tensor.errors import DynamicShapeError
from svod_tensor.tensor import Tensor

if TYPE_CHECKING:
    from svod_dtype import DType
    from svod_ir import SInt
    from svod_tensor._shapes import Shape

__all__ = ["DynamicParameters", "DynamicShapes", "SymbolicCall", "resolve_sizes"]

DynamicShapes: TypeAlias = Mapping[str | int, Mapping[int, Variable]]
"""Variable of each axis with a dynamic size, by parameter (name, or position from 0)."""


class SymbolicCall(NamedTuple):
    """A call with variables as sizes, and their values in the call that it was made from."""

    args: Sequence[object]
    kwargs: Mapping[str, object]
    values: Mapping[str, int]


class DynamicParameters:
    """The parameters of a function with dynamic shapes.

    Args:
        name: name of the function.
        function: the function.
        shapes: the variable of each axis with a dynamic size.

    Raises:
        DynamicShapeError: if `shapes` names no parameter, or is not a mapping of axes to variables.
    """

    def __init__(self, name: str, function: Callable[..., object], shapes: DynamicShapes) -> None:
        self._name = name
        parameters = Parameters.of(function)
        positional = parameters.positional
        self._by_root: dict[int | str, Mapping[int, Variable]] = {}
        for parameter, axes in shapes.items():
            self._check_axes(parameter, axes)
            is_known = (
                parameter in parameters.names
                if isinstance(parameter, str)
                else parameter >= 0 and (parameter < len(positional) or parameters.is_variadic)
            )
            if not is_known:
                raise self._refuse(parameter, "is not a parameter")
            self._by_root[parameter] = axes
            # An argument can be passed by name and by position.
            if isinstance(parameter, int) and parameter < len(positional):
                self._by_root[positional[parameter]] = axes
            elif parameter in positional:
                self._by_root[positional.index(parameter)] = axes
        # Stand-ins for tensors with variables as sizes, which keep no memory.
        self._symbolic: dict[object, Tensor] = {}

    def make_symbolic(
        self, args: Sequence[object], kwargs: Mapping[str, object]
    ) -> SymbolicCall | None:
        """The call with variables as sizes; None if a size is outside of its variable's bounds, two
        sizes of one variable differ, or no argument has a dynamic shape.
        """
        values: dict[str, int] = {}
        new_args = list(args)
        new_kwargs = dict(kwargs)
        # A tensor that is passed twice has one stand-in, as it is one input.
        known: dict[tuple[object, ...], Tensor] = {}
        for root, axes in self._by_root.items():
            is_positional = isinstance(root, int)
            if (root >= len(args)) if is_positional else (root not in kwargs):
                continue
            value = args[root] if isinstance(root, int) else kwargs[root]
            symbolic = self._find_symbolic(value, axes, values, len(known))
            if symbolic is None:
                return None
            identity = value.content if isinstance(value, Tensor) else value
            symbolic = known.setdefault((id(identity), *axes.items()), symbolic)
            if isinstance(root, int):
                new_args[root] = symbolic
            else:
                new_kwargs[root] = symbolic
        return SymbolicCall(new_args, new_kwargs, values) if values else None

    def _find_symbolic(
        self, value: object, axes: Mapping[int, Variable], values: dict[str, int], index: int
    ) -> Tensor | None:
        """Tensor like `value` with variables as sizes, the same one for each `index`; `values` gets
        their values.
        """
        array = value if isinstance(value, Tensor) else find_array(value)
        if array is None:
            return None
        # From the spec, and not from the node, which most tensors never need.
        sizes, dtype, device = array.content.spec
        if not isinstance(device, str) or not all(isinstance(size, int) for size in sizes):
            return None
        shape: list[SInt] = list(sizes)
        for axis, variable in axes.items():
            size = shape[axis] if -len(shape) <= axis < len(shape) else None
            if (
                not isinstance(size, int)
                or not variable.low <= size <= variable.high
                or values.setdefault(variable.name, size) != size
            ):
                return None
            shape[axis] = variable.uop
        key = (index, *shape, dtype, device)
        known = self._symbolic.get(key)
        if known is None:
            bound = tuple([s if isinstance(s, int) else _bind_lowest(s) for s in shape])
            known = self._symbolic[key] = _make_symbolic(bound, dtype, device)
        return known

    def _check_axes(self, parameter: str | int, axes: object) -> None:
        # Checked although it is annotated: a number instead of a variable is an easy mistake.
        entries = (
            list(cast("Mapping[object, object]", axes).items())
            if isinstance(axes, Mapping)
            else [(None, None)]
        )
        for axis, variable in entries:
            if not (isinstance(axis, int) and isinstance(variable, Variable)):
                raise self._refuse(parameter, f"needs a mapping of axes to variables, got {axes!r}")
            if variable.low < 1:
                raise self._refuse(parameter, f"needs sizes of at least 1, got {variable!r}")

    def _refuse(self, parameter: str | int, problem: str) -> DynamicShapeError:
        return DynamicShapeError(function=self._name, parameter=repr(parameter), problem=problem)


def _bind_lowest(variable: UOp) -> UOp:
    return UOp(Op.BIND, variable.dtype, (variable, UOp.const(variable.dtype, variable.arg.low)))


def _make_symbolic(shape: Shape, dtype: DType, device: str) -> Tensor:
    size = _count_elements(shape, dtype)
    buffer = Buffer(get_allocator(device), dtype.part, size)
    memory = memory_nodes.make_memory(dtype.part, size, device, buffer)
    return Tensor.from_uop(view_prefix(memory, shape, dtype), owns=True)


def _count_elements(shape: Shape, dtype: DType) -> int:
    """Number of elements of memory for a tensor: complex numbers are two each, and none is empty."""
    return max(1, math.prod(map(max_size, shape)) * (dtype.itemsize // dtype.part.itemsize))


def resolve_sizes(
    captured: Captured, given: Sequence[Tensor | UOp], values: Mapping[str, int]
) -> Captured | None:
    """The plan of a symbolic call for calls with these sizes; None if such calls donate memory, write
    to arguments with dynamic shapes, or return views of them.

    Args:
        captured: captured for a symbolic call.
        given: tensors and variables of a call with the sizes.
        values: values of the sizes.
    """
    plan, results = captured.plan, captured.results
    inputs: list[Input] = []
    replaced: dict[UOp, UOp] = {}
    for input_ in captured.inputs:
        tensor = given[input_.position]
        assert isinstance(tensor, Tensor)
        memory = _resize_memory(input_.memory, tensor.shape, tensor.dtype)
        if input_.is_donated or (memory is not input_.memory and input_.is_written):
            return None
        replaced[input_.memory] = memory
        inputs.append(input_.on(memory))
    if plan is None or captured.bound or any(is_symbolic(r.path) for r in results.recipes):
        return None
    result_memories = {memory for memory, _ in captured.outputs}
    nodes: list[UOp] = []
    for node in results.nodes:
        leaves = list(node.iter_ops(Op.BUFFER))
        if next(node.iter_ops(Op.BIND), None) is None:
            if any(replaced.get(leaf, leaf) is not leaf for leaf in leaves):
                return None
            nodes.append(node)
            continue
        if len(leaves) != 1 or leaves[0] not in result_memories or leaves[0] in replaced:
            return None
        shape = tuple([_evaluate(size, values) for size in node.shape])
        memory = replaced[leaves[0]] = _resize_memory(leaves[0], shape, node.dtype)
        nodes.append(
            make_reshape(make_shrink(memory, ((0, 0),)), shape)
            if 0 in shape
            else view_prefix(memory, shape, node.dtype)
        )
    outputs = [(replaced.get(memory, memory), index) for memory, index in captured.outputs]
    own = {memory for memory, _ in outputs}
    resolved = captured.with_sizes(
        dict(values),
        inputs,
        outputs,
        Results(results.recipes, nodes, [*(i.memory for i in inputs), *own], own),
    )
    # Other plans need buffers of their largest sizes (`Captured.run`).
    if plan.template.spare_bytes is not None:
        resolved.direct = find_direct(resolved)
    return resolved


def _resize_memory(like: UOp, shape: Shape, dtype: DType) -> UOp:
    """Memory like `like` for a tensor of this shape; `like` itself if it has that size."""
    size = _count_elements(shape, dtype)
    if size == like.arg.size:
        return like
    return memory_nodes.make_memory(like.dtype, size, like.arg.device)


def _evaluate(size: SInt, values: Mapping[str, int]) -> int:
    return size if isinstance(size, int) else int(evaluate_expression(unbind(size), values))
