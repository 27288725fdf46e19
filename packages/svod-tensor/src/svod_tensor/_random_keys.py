"""Keys of random numbers in graphs: updates of a generator's state when captured functions and
plans sample.

The state of a generator is memory of two words (`svod_tensor._generator`),

    state = [seed, n]      key n = seed if n = 0 else threefry(2^64 - n, seed)

and sampling in a graph is an assignment to it, like any other."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, NamedTuple
from weakref import WeakKeyDictionary

from svod_dtype import uint64
from svod_ir import Op, UOp, make_alu, make_iota, make_reshape, make_shrink
from svod_tensor._data import make_array_node
from svod_tensor._origins import add_line
from svod_tensor.cells import registry
from svod_tensor.cells.cell import Cell
from svod_tensor.cells.writing import write
from svod_tensor.engine import versions
from svod_tensor.engine.memory_nodes import find_base

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from svod_tensor.cells.cell import Live

__all__ = [
    "count_samplings",
    "keep_samples",
    "make_words",
    "record_loop_samples",
    "record_sampled_key",
    "resample_on_execution",
    "sample_in_graph",
]


def sample_in_graph(state: Cell, override: tuple[UOp, UOp] | None = None) -> UOp:
    """The next key of a generator, sampled whenever the key is computed.

    Args:
        state: the seed and the number of keys so far, which is incremented.
        override: a condition, and the key to use where it holds; the state does not change then.
    """
    step = make_iota(2, uint64)
    if override is not None:
        step = override[0].where(UOp.const(uint64, 0), step)
    capture = registry.find_capture()
    if capture is not None:
        capture.record_sampling(state)
    write(state, (), state.node + step)
    # Read the new state and subtract, so that the write precedes every use of the key.
    words = state.node - step
    seed, index = (make_reshape(make_shrink(words, ((i, i + 1),)), ()) for i in range(2))
    key = index.eq(0).where(seed, make_alu(Op.THREEFRY, -index, seed))
    if override is not None:
        key = override[0].where(override[1], key)
    if capture is not None and not capture.writes_memory:
        # The state is a value, not memory: no later write can overwrite it.
        return key
    # Store the key: it is then read before the state changes again, and kernels do not depend on
    # it.
    stored = UOp(Op.CONTIGUOUS, uint64, (key,))
    add_line(stored)
    return stored


def record_sampled_key(key: UOp, state: Cell) -> None:
    """Record that `key`, which is memory, was sampled from the generator with this state, outside
    of captures.
    """
    memory = find_base(key)
    assert memory is not None, key
    _sampled[memory] = _Sampled(state, None)


def record_loop_samples(words: UOp, state: Cell, n_samples: int) -> None:
    """Record that `words`, which is memory, were the generator's state before `n_samples` keys were
    sampled by a loop.
    """
    memory = find_base(words)
    assert memory is not None, words
    _sampled[memory] = _Sampled(state, n_samples)


def keep_samples(node: UOp) -> None:
    """Fix the random numbers in the graph of `node`, in plans too: `resample_on_execution` does not
    replace them.
    """
    for memory in node.iter_ops(Op.BUFFER):
        _sampled.pop(memory, None)


def count_samplings(step: UOp) -> int | None:
    """Number of keys that adding `step` to a state samples; None if `step` is anything else."""
    if step is make_iota(2, uint64):
        return 1
    if step.op is Op.ADD:
        counts = [count_samplings(operand) for operand in step.src]
        return None if None in counts else sum(count or 0 for count in counts)
    if step.op is Op.MUL and step.right.op is Op.CONST:
        count = count_samplings(step.left)
        return None if count is None else count * int(step.right.arg)
    return None


def resample_on_execution(tensors: Iterable[Live]) -> None:
    """Make plans that are prepared for `tensors` sample anew at each execution after the first.

    Keys of random numbers are memory. In the graphs of `tensors` each key is replaced by

        where(n_executions = 1, the key, the generator's next key)

    which counts executions, and advances the generator, in memory; the initial state of a loop that
    samples is replaced by the present state likewise. Other tensors keep their random numbers."""
    resampled = list(tensors)
    nodes = UOp.sink(*(tensor.node for tensor in resampled)).toposort()
    memories = [node for node in nodes if node.op is Op.BUFFER and node in _sampled]
    if not memories:
        return
    n_executions = Cell(make_array_node(make_words(0), may_share=False), owns=True)
    write(n_executions, (), n_executions.node + 1)
    is_first = make_reshape(n_executions.node.eq(1), ())
    keys: dict[UOp, UOp] = {}
    for memory in sorted(memories, key=lambda memory: memory.arg.id):
        state, n_samples = _sampled[memory]
        if n_samples is None:
            keys[memory] = make_reshape(
                sample_in_graph(state, (is_first, make_reshape(memory, ()))), (1,)
            )
            continue
        step = is_first.where(UOp.const(uint64, 0), make_iota(2, uint64) * n_samples)
        write(state, (), state.node + step)
        keys[memory] = UOp(Op.CONTIGUOUS, uint64, (is_first.where(memory, state.node - step),))
    new = [tensor.node.substitute(keys) for tensor in resampled]
    # Pending writes are shared with other graphs, so they are replaced for all of them.
    with registry.lock:
        registry.replace_nodes(
            {state: state.substitute(keys) for state in nodes if versions.is_pending_version(state)}
        )
        for tensor, node in zip(resampled, new, strict=True):
            tensor.set_node(node)


def make_words(*words: int) -> NDArray[np.uint64]:
    """64-bit words in host memory."""
    import numpy as np

    return np.array(words, np.uint64)


class _Sampled(NamedTuple):
    """Origin of sampled memory: the state of a generator, and the number of keys that a loop
    samples; None for one key.
    """

    state: Cell
    n_samples: int | None


_sampled: Final[WeakKeyDictionary[UOp, _Sampled]] = WeakKeyDictionary()
"""The memory of each key, and of each loop's initial state, that was sampled outside of captures.
"""
