"""Generators of random numbers: a key and a count of draws, in memory, so that a plan can go on
drawing.

A tensor of random numbers is a function of one 64-bit key: element i of it is made of threefry(i,
key). What a generator has in memory says which key is next,

    state = [seed, n]      key of draw n = seed if n = 0 else threefry(2^64 - n, seed)

and each draw, however large, adds 1 to n. No two draws of a generator have the same key before n
comes round, since threefry is a permutation.

Who draws outside of a captured function gets the next key at once, in memory of its own: what the
numbers are depends neither on when they are computed nor on what else is, and one kernel serves all
keys. In a captured function a draw is an assignment to the state, as any other, which each call
makes again. A plan that is prepared from draws that were made before uses their keys at its first
execution, and draws anew from their generators at each later one: see `svod_tensor._draws`."""

from __future__ import annotations

import operator
import os
from collections.abc import Sequence
from typing import Final, Self, TypeAlias

from svod_dtype import uint64
from svod_ir import OperandError, UOp, make_concat, make_reshape, threefry
from svod_ir.forks import make_lock
from svod_tensor._data import copy_to_device, make_array_node, make_node
from svod_tensor._draws import make_words, record_draw_key, record_loop_draws, sample_in_graph
from svod_tensor.cells import registry
from svod_tensor.cells.cell import Cell
from svod_tensor.cells.registry import check_not_capturing
from svod_tensor.cells.writing import make_own
from svod_tensor.engine.memory_nodes import find_base, find_buffer
from svod_tensor.ops.core.base import TensorBase
from svod_tensor.options import HOST_DEVICE

__all__ = ["Generator", "Seed", "default_generator", "draw_ahead", "get_key", "manual_seed"]

Seed: TypeAlias = "int | TensorBase | UOp"
"""An integer (modulo 2^64), a tensor of one, or a bound variable."""

State: TypeAlias = tuple[int, int]

_MASK: Final = (1 << 64) - 1


class Generator:
    """A source of random numbers, which differ from draw to draw and depend on the seed alone.

    The numbers are the same on every device, for every number of threads, and whether a draw is
    computed at once, in a captured function or by a plan. The state is in the host's memory, and is
    two integers: the seed, and how many draws there were.

    Any thread may draw, in captured functions too. Plans that draw from one generator are executed
    one after the other, as plans that assign to one tensor are; for threads of their own, `spawn`
    makes generators. In the child of a fork a generator goes on where it was, as it does in the
    parent: both draw the same numbers.

    Args:
        seed: an integer, modulo 2^64; a 0-d tensor of integers or a bound variable, in a captured
            function too; by default, what the operating system gives.

    Example:
        >>> from svod_tensor import Generator, Tensor
        >>> g = Generator(7)
        >>> first, second = Tensor.rand(2, generator=g), Tensor.rand(2, generator=g)
        >>> first.tolist() == second.tolist()
        False
        >>> Tensor.rand(2, generator=Generator(7)).tolist() == first.tolist()
        True

    Raises:
        OperandError: if the seed is none.
        CaptureError: if it is to be drawn in a captured function, which would have the same one at
            each call.
        >>> generator = Generator(7)
        >>> first = Tensor.rand(2, generator=generator).tolist()
        >>> generator.manual_seed(7) is generator, Tensor.rand(2, generator=generator).tolist() == first
        (True, True)
        >>> state = generator.get_state()
        >>> following = Tensor.rand(2, generator=generator).tolist()
        >>> generator.set_state(state)
        >>> Tensor.rand(2, generator=generator).tolist() == following
        True
        >>> Tensor.rand(2, generator=Generator.from_state(state)).tolist() == following
        True
        >>> len(generator.spawn(3)), generator.next_key().shape
        (3, ())
    """

    __slots__ = ("__weakref__", "_state")

    def __init__(self, seed: Seed | None = None) -> None:
        if seed is None:
            check_not_capturing("draws a seed")
            seed = _get_seed()
        if registry.find_capture() is None and not isinstance(seed, (TensorBase, UOp)):
            self._state = _make_state(_to_word(seed), 0)
            return
        # A value, no memory that calls would change: a function that makes a generator makes it
        # anew at each call.
        key = (
            _read_seed(seed)
            if isinstance(seed, (TensorBase, UOp))
            else UOp.const(uint64, _to_word(seed))
        )
        words = make_concat([make_reshape(word, (1,)) for word in (key, UOp.const(uint64, 0))], 0)
        if registry.find_capture() is not None:
            self._state = Cell(words)
            return
        self._state = Cell(copy_to_device(words, HOST_DEVICE))
        _realize(self._state)
        while not make_own(self._state):
            pass

    @classmethod
    def from_state(cls, state: State) -> Self:
        """A generator that goes on as another one did when its `get_state` gave this state.

        Raises:
            OperandError: if `state` is no pair of integers.
        """
        made = cls.__new__(cls)
        made._state = _make_state(*_read_state(state))
        return made

    def manual_seed(self, seed: int) -> Self:
        """Begin again, with this seed; plans and captured functions that draw from this generator
        do so too.
        """
        self.set_state((_to_word(seed), 0))
        return self

    def get_state(self) -> State:
        """The seed, and how many draws there were."""
        check_not_capturing("reads the state of a generator")
        return self._update(None)

    def set_state(self, state: State) -> None:
        """Go on as a generator did when `get_state` gave this state.

        Raises:
            OperandError: if `state` is no pair of integers.
        """
        check_not_capturing("sets the state of a generator")
        self._update(_read_state(state))

    def spawn(self, n: int) -> list[Generator]:
        """`n` generators with seeds that are drawn from this one: independent of it and of each
        other.

        Raises:
            OperandError: if `n` is no number of generators.
        """
        check_not_capturing("spawns generators")
        count = _to_count(n)
        key = _key_of_draw(*self._update(1))
        return [Generator(threefry(i, key)) for i in range(count)]

    def next_key(self) -> UOp:
        """The key of the next draw: 0-d, uint64, in the host's memory."""
        if registry.find_capture() is not None:
            return sample_in_graph(self._state)
        key = _make_key(_key_of_draw(*self._update(1)))
        record_draw_key(key, self._state)
        return key

    def __copy__(self) -> Generator:
        return Generator.from_state(self.get_state())

    def __deepcopy__(self, memo: object) -> Generator:
        return self.__copy__()

    def __reduce__(self) -> tuple[object, ...]:
        return Generator.from_state, (self.get_state(),)

    def _update(self, change: State | int | None) -> State:
        """The state, which is then set, or counts so many draws more."""
        return _update(self._state, change)


def draw_ahead(state: Cell, n_draws: int) -> UOp:
    """The state of a generator, in memory of its own, which has made so many draws afterwards: a
    loop makes them.
    """
    words = make_array_node(make_words(*_update(state, n_draws)), may_share=False)
    record_loop_draws(words, state, n_draws)
    return words


def get_key(operation: str, seed: Seed | None, generator: Generator | None) -> UOp:
    """The key of a draw, 0-d and uint64: that of the next draw of a generator, or of the first one
    with a seed.

    Raises:
        OperandError: if there are both, or the seed is none.
    """
    if seed is None:
        if generator is not None and not isinstance(generator, Generator):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise OperandError(
                operation=operation, found=repr(generator), expected="a Generator as generator"
            )
        return (default_generator() if generator is None else generator).next_key()
    if generator is not None:
        raise OperandError(operation=operation, found="both", expected="a seed or a generator")
    return (
        _make_key(_to_word(seed)) if not isinstance(seed, (TensorBase, UOp)) else _read_seed(seed)
    )


def default_generator() -> Generator:
    """What is drawn from where no generator is named; seeded by the operating system until
    `manual_seed` is called.

    Example:
        >>> from svod_tensor import default_generator, manual_seed
        >>> default_generator() is manual_seed(1)
        True
    """
    if not _default:
        with _lock:
            if not _default:
                # A captured function may be the first to draw; this generator outlives it.
                _default.append(Generator.from_state((_get_seed(), 0)))
    return _default[0]


def manual_seed(seed: int) -> Generator:
    """Let the default generator begin again with this seed, and return it.

    Example:
        >>> from svod_tensor import Tensor, manual_seed
        >>> _ = manual_seed(1)
        >>> first = Tensor.rand(2).tolist()
        >>> _ = manual_seed(1)
        >>> Tensor.rand(2).tolist() == first
        True
    """
    return default_generator().manual_seed(seed)


def _read_state(state: State) -> State:
    is_pair = isinstance(state, Sequence) and len(state) == 2  # pyright: ignore[reportUnnecessaryIsInstance, reportUnnecessaryComparison]
    if not is_pair:
        raise OperandError(
            operation="set_state", found=repr(state), expected="a state, as get_state gives it"
        )
    return _to_word(state[0]), _to_word(state[1])


def _get_seed() -> int:
    return int.from_bytes(os.urandom(8), "little")


def _key_of_draw(seed: int, number: int) -> int:
    return threefry((1 << 64) - number, seed) if number else seed


def _to_word(seed: object) -> int:
    try:
        return operator.index(seed) & _MASK  # pyright: ignore[reportArgumentType]
    except TypeError:
        pass
    raise OperandError(
        operation="seed",
        found=repr(seed),
        expected="an integer, a tensor of one, or a bound variable",
    )


def _to_count(n: object) -> int:
    try:
        count = operator.index(n)  # pyright: ignore[reportArgumentType]
    except TypeError:
        count = -1
    if count < 0:
        raise OperandError(operation="spawn", found=repr(n), expected="a number of generators")
    return count


def _read_seed(seed: TensorBase | UOp) -> UOp:
    node = seed.uop if isinstance(seed, TensorBase) else make_node(seed, None)
    if not node.dtype.is_int or node.shape:
        raise OperandError(
            operation="seed",
            found=f"{node.dtype} of shape {node.shape}",
            expected="a 0-d tensor of integers",
        )
    return node.cast(uint64)


def _make_state(seed: int, number: int) -> Cell:
    return Cell(make_array_node(make_words(seed, number), may_share=False), owns=True)


def _update(cell: Cell, change: State | int | None) -> State:
    """The state, which is then set, or counts so many draws more."""
    import numpy as np

    while True:
        with registry.lock:
            registry.wait_for_capture()
            node = find_base(cell.node)
            buffer = None if node is None else find_buffer(node)
            if buffer is not None:
                storage = (buffer.storage_id,)
                computation = registry.start_computation(storage, storage, {})
                if computation is None:
                    registry.wait_if_refused()
                    continue
                words = buffer.as_numpy()
                found = int(words[0]), int(words[1])
                if change is not None:
                    new = (
                        (found[0], (found[1] + change) & _MASK)
                        if isinstance(change, int)
                        else change
                    )
                    words[:] = np.array(new, np.uint64)
                registry.end_computation(computation)
                return found
        _realize(cell)


def _realize(state: Cell) -> None:
    from svod_tensor._realize import realize_tensors
    from svod_tensor.options import resolve_config

    realize_tensors([state], resolve_config(None))


def _make_key(key: int) -> UOp:
    import numpy as np

    return make_array_node(np.array(key, np.uint64), may_share=True)


_default: Final[list[Generator]] = []
_lock: Final = make_lock()
