"""Keys of random numbers in graphs: what a draw does to the state of its generator, in captured
functions and in plans.

The state of a generator is memory of two words (`svod_tensor._generator`),

    state = [seed, n]      key of draw n = seed if n = 0 else threefry(2^64 - n, seed)

and a draw in a graph is an assignment to it, as any other.
"""

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
    "count_draws",
    "forget_draws",
    "make_words",
    "record_draw_key",
    "record_loop_draws",
    "sample_again",
    "sample_in_graph",
]


def sample_in_graph(state: Cell, given: tuple[UOp, UOp] | None = None) -> UOp:
    """The key of a draw that is made whenever the key is computed.

    Args:
        state: the seed and the number of the draw, which is then the next one.
        given: a condition, and the key where that holds; nothing is drawn then.
    """
    step = make_iota(2, uint64)
    if given is not None:
        step = given[0].where(UOp.const(uint64, 0), step)
    capture = registry.find_capture()
    if capture is not None:
        capture.record_sampling(state)
    write(state, (), state.node + step)
    # Who reads the state after the draw makes sure that it is done.
    words = state.node - step
    seed, number = (
        make_reshape(make_shrink(words, ((place, place + 1),)), ()) for place in range(2)
    )
    key = number.eq(0).where(seed, make_alu(Op.THREEFRY, -number, seed))
    if given is not None:
        key = given[0].where(given[1], key)
    if capture is not None and not capture.writes_memory:
        # The state is a value, of which nothing is lost.
        return key
    # Stored, so that it is read before the state changes again, and that no kernel differs for it.
    stored = UOp(Op.CONTIGUOUS, uint64, (key,))
    add_line(stored)
    return stored


def record_draw_key(key: UOp, state: Cell) -> None:
    """Remember that `key`, which is memory, was drawn from the generator with this state, outside
    of captured functions.
    """
    memory = find_base(key)
    assert memory is not None, key
    _drawn[memory] = _Drawn(state, None)


def record_loop_draws(words: UOp, state: Cell, n_draws: int) -> None:
    """Remember that `words`, which is memory, were the generator's state before so many draws,
    which a loop makes.
    """
    memory = find_base(words)
    assert memory is not None, words
    _drawn[memory] = _Drawn(state, n_draws)


def forget_draws(node: UOp) -> None:
    """Keep the numbers that the graph of `node` sampled, in plans too:

    `sample_again` samples none of them anew.
    """
    for memory in node.iter_ops(Op.BUFFER):
        _drawn.pop(memory, None)


def count_draws(step: UOp) -> int | None:
    """How many draws add `step` to a state; None if it is not made of draws alone."""
    if step is make_iota(2, uint64):
        return 1
    if step.op is Op.ADD:
        counts = [count_draws(operand) for operand in step.src]
        return None if None in counts else sum(count or 0 for count in counts)
    if step.op is Op.MUL and step.right.op is Op.CONST:
        count = count_draws(step.left)
        return None if count is None else count * int(step.right.arg)
    return None


def sample_again(tensors: Iterable[Live]) -> None:
    """Let what tensors are computed from be drawn again whenever a plan that is prepared for them
    is executed, but the first time.

    What was drawn from generators has keys in memory of its own. In the graphs of `tensors` each is
    replaced by

        where(n_executions = 1, the key, that of the generator's next draw)

    (and the state that a loop began to draw from by the state now)
    which counts executions, and advances the generator, in memory. Other tensors keep the numbers
    that were drawn."""
    found = list(tensors)
    nodes = UOp.sink(*(one.node for one in found)).toposort()
    memories = [node for node in nodes if node.op is Op.BUFFER and node in _drawn]
    if not memories:
        return
    n_executions = Cell(make_array_node(make_words(0), may_share=False), owns=True)
    write(n_executions, (), n_executions.node + 1)
    is_first = make_reshape(n_executions.node.eq(1), ())
    keys: dict[UOp, UOp] = {}
    for memory in sorted(memories, key=lambda memory: memory.arg.id):
        state, n_draws = _drawn[memory]
        if n_draws is None:
            keys[memory] = make_reshape(
                sample_in_graph(state, (is_first, make_reshape(memory, ()))), (1,)
            )
            continue
        step = is_first.where(UOp.const(uint64, 0), make_iota(2, uint64) * n_draws)
        write(state, (), state.node + step)
        keys[memory] = UOp(Op.CONTIGUOUS, uint64, (is_first.where(memory, state.node - step),))
    new = [one.node.substitute(keys) for one in found]
    # Assignments that pend are everybody's, and stay the same for everybody.
    with registry.lock:
        registry.replace_nodes(
            {state: state.substitute(keys) for state in nodes if versions.is_pending_version(state)}
        )
        for one, node in zip(found, new, strict=True):
            one.set_node(node)


def make_words(*words: int) -> NDArray[np.uint64]:
    """Words of 64 bits, as memory of the host."""
    import numpy as np

    return np.array(words, np.uint64)


class _Drawn(NamedTuple):
    """What memory was drawn from: the state of a generator, and how many draws a loop makes; None
    for one key.
    """

    state: Cell
    n_draws: int | None


_drawn: Final[WeakKeyDictionary[UOp, _Drawn]] = WeakKeyDictionary()
"""The memory of each key, and of each state, that was drawn outside of captured functions."""
