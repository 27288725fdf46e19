"""The reference semantics of graphs of all stages: slow, obvious, and independent of the compiler.

`evaluate` returns the values of tensors and expressions; `evaluate_kernel` runs a kernel body and
`evaluate_linear` a linearized one, both by writing into numpy arrays. A graph is first flattened to
a list of steps (`layout`), which a small interpreter runs (`machine`). Uninitialized memory holds a
pattern, and an out-of-bounds access is an error, so that the tests of a pass detect both.

Example:
    >>> import numpy as np
    >>> from svod_dtype import float32
    >>> from svod_ir import BufferArg, Op, UOp
    >>> from svod_ir.evaluate import evaluate
    >>> x = UOp(Op.BUFFER, float32, (), BufferArg(1, 3, "CPU"))
    >>> evaluate(x * 2.0 + 1.0, {x: np.array([1, 2, 3], np.float32)}).tolist()
    [3.0, 5.0, 7.0]
    >>> from svod_ir.evaluate import evaluate_kernel, evaluate_linear, memory_of
    >>> from svod_ir.testing import parse_linear
    >>> text = '''
    ... %out = PARAM f32 [0, 3]
    ... %x = PARAM f32 [1, 3]
    ... %i = RANGE index 3 [0, LOOP]
    ... %store = STORE %out[%i], -load(%x[%i])
    ... END %store, %i
    ... '''
    >>> nodes = parse_linear(text)
    >>> memory_of(nodes[-1].body.location) is nodes[0]
    True
    >>> out, x = np.zeros(3, np.float32), np.array([1, 2, 3], np.float32)
    >>> evaluate_kernel(UOp.sink(nodes[-1]), {0: out, 1: x})
    >>> out.tolist()
    [-1.0, -2.0, -3.0]
    >>> evaluate_linear(nodes, {0: x, 1: out})
    >>> x.tolist()
    [1.0, 2.0, 3.0]
    >>> from svod_ir.evaluate import Inputs
    >>> def double(inputs: Inputs) -> np.ndarray:
    ...     return evaluate(nodes[1] * 2.0, inputs)
    >>> double({1: out}).tolist() == double({nodes[1]: out}).tolist()  # by slot or by node
    True
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, cast

import numpy as np

from svod_ir._arithmetic import Values
from svod_ir.evaluate.access import is_effect
from svod_ir.evaluate.layout import Layout
from svod_ir.evaluate.machine import Machine
from svod_ir.evaluate.memory import Environment, Inputs, get_writes, memory_of
from svod_ir.ops import Op
from svod_ir.uop import UOp

__all__ = ["Inputs", "evaluate", "evaluate_kernel", "evaluate_linear", "memory_of"]


def evaluate(node: UOp, inputs: Inputs | None = None) -> Any:
    """The value of `node` as a numpy array; for a SINK or GROUP, a tuple with one entry for each
    operand.

    `inputs` maps buffers by node, and PARAMs by node or slot, to arrays, which are written where
    the graph assigns to them. It maps variables by name or node to ints or, in a graph of only
    elementwise ops, to arrays that broadcast.

    Raises:
        EvaluationError: if an input is missing or does not fit, an access is out of bounds, or an
            op has no reference semantics (CUSTOM, PROGRAM).
    """
    roots = node.src if node.op in (Op.SINK, Op.GROUP) else (node,)
    layout = Layout(Environment(inputs or {}, _run_body, evaluate), get_writes(node))
    layout.add_block(roots, None)
    machine = Machine(layout)
    machine.run_to_end()
    values = tuple(None if is_effect(root) else _to_array(machine.value_of(root)) for root in roots)
    return values if node.op in (Op.SINK, Op.GROUP) else values[0]


def _to_array(value: Any) -> Any:
    return _join(cast("tuple[Any, ...]", value)) if isinstance(value, tuple) else np.asarray(value)


def _join(shards: tuple[Any, ...]) -> Any:
    """Join shards: stacked if they have one shape, else flattened and concatenated."""
    if len({np.shape(shard) for shard in shards}) > 1:
        shards = tuple(element for shard in shards for element in shard.reshape(-1))
    return np.array(shards)


def evaluate_kernel(sink: UOp, buffers: Inputs, variables: Mapping[str, int] | None = None) -> None:
    """Run a kernel body of stage kernel or lowered.

    The body runs once for each value of `core_id` and of the SPECIALs.

    Args:
        sink: the body.
        buffers: arrays by PARAM slot or node, which are written.
        variables: values of variables by name.
    """
    environment = _make_environment(buffers, variables)
    roots = sink.src if sink.op is Op.SINK else (sink,)
    _launch(environment, sink.toposort(), lambda layout: layout.add_block(roots, None))


def evaluate_linear(
    nodes: Sequence[UOp], buffers: Inputs, variables: Mapping[str, int] | None = None
) -> None:
    """Run a linearized kernel, node by node in order.

    Args:
        nodes: the nodes of the kernel.
        buffers: arrays by PARAM slot or node, which are written.
        variables: values of variables by name.
    """
    environment = _make_environment(buffers, variables)
    _launch(environment, nodes, lambda layout: layout.add_linear(nodes))


def _make_environment(buffers: Inputs, variables: Mapping[str, int] | None) -> Environment:
    inputs: dict[UOp | int | str, Any] = dict(buffers)
    inputs.update(variables or {})
    return Environment(inputs, _run_body, evaluate)


def _run_body(body: UOp, inputs: Inputs) -> Values | None:
    """Run the body of a CALL: a kernel writes its arguments; a COPY or BUFFER_VIEW returns a value."""
    if body.op is Op.SINK:
        evaluate_kernel(body, inputs)
        return None
    return evaluate(body, inputs)


def _launch(environment: Environment, nodes: Sequence[UOp], fill: Callable[[Layout], None]) -> None:
    """Run a kernel for each core and workgroup, all threads of a workgroup up to each barrier in
    turn.
    """
    cores = [
        n
        for n in nodes
        if n.op is Op.DEFINE_VAR and n.arg.name == "core_id" and not environment.has(n)
    ]
    specials = sorted(
        {n for n in nodes if n.op is Op.SPECIAL and not environment.has(n)}, key=lambda n: n.arg
    )
    grid = [*dict.fromkeys(cores), *(s for s in specials if not s.arg.startswith("l"))]
    local = [s for s in specials if s.arg.startswith("l")]
    writes = {memory_of(n.location) for n in nodes if n.op is Op.STORE}
    for group in _iter_positions(grid, environment):
        shared: dict[UOp, Values] = {}
        threads: list[Iterator[None]] = []
        for thread in _iter_positions(local, environment):
            layout = Layout(
                environment.with_values({**group, **thread}), writes, shared, is_kernel=True
            )
            fill(layout)
            threads.append(Machine(layout).run())
        while threads:
            threads = [t for t in threads if next(t, _FINISHED) is not _FINISHED]


_FINISHED: Final = object()


def _iter_positions(nodes: Sequence[UOp], environment: Environment) -> Iterator[dict[UOp, int]]:
    extents: list[tuple[int, int]] = []
    for node in nodes:
        if node.op is Op.DEFINE_VAR:
            extents.append((node.arg.low, node.arg.high))
        else:
            extents.append((0, int(evaluate(node.src[0], environment.given)) - 1))
    position = [low for low, _ in extents]
    if any(low > high for low, high in extents):
        return
    while True:
        yield dict(zip(nodes, position, strict=True))
        for axis in reversed(range(len(extents))):
            position[axis] += 1
            if position[axis] <= extents[axis][1]:
                break
            position[axis] = extents[axis][0]
        else:
            return
