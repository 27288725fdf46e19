"""Generators of random numbers: a key and a counter in memory, so that a plan can continue to
sample.

A tensor of random numbers is a function of one 64-bit key: element i of it is computed from
threefry(i, key). The state of a generator determines the next key,

    state = [seed, n]      key n = seed if n = 0 else threefry(2^64 - n, seed)

and each sampled tensor, however large, adds 1 to n. No two keys of a generator are equal before n
wraps around, since threefry is a permutation.

Outside of a capture, the next key is computed at once, in memory of its own: the numbers depend
neither on when they are computed nor on other tensors, and one kernel serves all keys. In a
captured function, sampling is an assignment to the state like any other, which each call repeats. A
plan that is prepared from tensors that were sampled before uses their keys at its first execution,
and samples anew from their generators at each later one: see `svod_tensor._random_keys`."""

from __future__ import annotations

import operator
import os
from collections.abc import Sequence
from typing import Final, Self, TypeAlias

from svod_dtype import uint64
from svod_ir import OperandError, UOp, make_concat, make_reshape, threefry
from svod_ir.forks import make_lock
from svod_tensor._data import copy_to_device, make_array_node, make_node
from svod_tensor._random_keys import (
    make_words,
    record_loop_samples,
    record_sampled_key,
    sample_in_graph,
)
from svod_tensor.cells import registry
from svod_tensor.cells.cell import Cell
from svod_tensor.cells.registry import check_not_capturing
from svod_tensor.cells.writing import make_own
from svod_tensor.engine.memory_nodes import find_base, find_buffer
from svod_tensor.ops.core.base import TensorBase
from svod_tensor.options import HOST_DEVICE

__all__ = ["Generator", "Seed", "default_generator", "get_key", "manual_seed", "sample_ahead"]

Seed: TypeAlias = "int | TensorBase | UOp"
"""An integer (modulo 2^64), an integer tensor, or a bound variable."""

State: TypeAlias = tuple[int, int]

_MASK: Final = (1 << 64) - 1


class Generator:
    """A source of random numbers that depend only on the seed and the number of previous samplings.

    The numbers are the same on every device, for every number of threads, and whether they are
    computed at once, in a captured function or by a plan. The state is in host memory, and is two
    integers: the seed, and the number of samplings.

    Any thread may sample, in captured functions too. Plans that sample from one generator run
    sequentially, as plans that assign to one tensor do; `spawn` makes generators for separate
    threads. In the child of a fork a generator continues from its state, as it does in the parent:
    both sample the same numbers.

    Args:
        seed: an integer, modulo 2^64; a 0-d tensor of integers or a bound variable, in a captured
            function too; by default, random bytes from the operating system.

    Example:
        >>> from svod_tensor import Generator, Tensor
        >>> g = Generator(7)
        >>> first, second = Tensor.rand(2, generator=g), Tensor.rand(2, generator=g)
        >>> first.tolist() == second.tolist()
        False
        >>> Tensor.rand(2, generator=Generator(7)).tolist() == first.tolist()
        True
        >>> g.manual_seed(7) is g, Tensor.rand(2, generator=g).tolist() == first.tolist()
        (True, True)
        >>> state = g.get_state()
        >>> following = Tensor.rand(2, generator=g).tolist()
        >>> g.set_state(state)
        >>> Tensor.rand(2, generator=g).tolist() == following
        True
        >>> Tensor.rand(2, generator=Generator.from_state(state)).tolist() == following
        True
        >>> len(g.spawn(3)), g.next_key().shape
        (3, ())

    Raises:
        OperandError: if the seed is not valid.
        CaptureError: if no seed is given in a captured function, which would have the same one at
            each call.
    """

    __slots__ = ("__weakref__", "_state")

    def __init__(self, seed: Seed | None = None) -> None:
        if seed is None:
            check_not_capturing("draws a seed")
            seed = _get_seed()
        if registry.find_capture() is None and not isinstance(seed, (TensorBase, UOp)):
            self._state = _make_state(_to_word(seed), 0)
            return
        # In a capture the state is a value, not memory that calls would update: a function that
        # makes a generator makes a new one at each call.
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
        """A generator that continues from a state that `get_state` returned.

        Raises:
            OperandError: if `state` is not a pair of integers.
        """
        generator = cls.__new__(cls)
        generator._state = _make_state(*_read_state(state))
        return generator

    def manual_seed(self, seed: int) -> Self:
        """Reset to this seed, also for plans and captured functions that sample from this
        generator.

        Args:
            seed: an integer, taken modulo 2^64.

        Returns:
            this generator.

        Raises:
            OperandError: if the seed is not an integer.
        """
        self.set_state((_to_word(seed), 0))
        return self

    def get_state(self) -> State:
        """Return the state: the seed, and the number of samplings. `set_state` and `from_state`
        continue from it.

        Raises:
            CaptureError: in a captured function.
        """
        check_not_capturing("reads the state of a generator")
        return self._update(None)

    def set_state(self, state: State) -> None:
        """Continue from a state that `get_state` returned.

        Raises:
            OperandError: if `state` is not a pair of integers.
            CaptureError: in a captured function.
        """
        check_not_capturing("sets the state of a generator")
        self._update(_read_state(state))

    def spawn(self, n: int) -> list[Generator]:
        """`n` generators with seeds sampled from this one: independent of it and of each other.

        Raises:
            OperandError: if `n` is not a non-negative integer.
            CaptureError: in a captured function.
        """
        check_not_capturing("spawns generators")
        count = _to_count(n)
        key = _compute_key(*self._update(1))
        return [Generator(threefry(i, key)) for i in range(count)]

    def next_key(self) -> UOp:
        """The next key: 0-d, uint64, in host memory."""
        if registry.find_capture() is not None:
            return sample_in_graph(self._state)
        key = _make_key(_compute_key(*self._update(1)))
        record_sampled_key(key, self._state)
        return key

    def __copy__(self) -> Generator:
        return Generator.from_state(self.get_state())

    def __deepcopy__(self, memo: object) -> Generator:
        return self.__copy__()

    def __reduce__(self) -> tuple[object, ...]:
        return Generator.from_state, (self.get_state(),)

    def _update(self, change: State | int | None) -> State:
        """The previous state; the state is then set, or incremented by `change`."""
        return _update(self._state, change)


def sample_ahead(state: Cell, n_samples: int) -> UOp:
    """The state of a generator before `n_samples` keys that a loop samples, in memory of its own."""
    words = make_array_node(make_words(*_update(state, n_samples)), may_share=False)
    record_loop_samples(words, state, n_samples)
    return words


def get_key(operation: str, seed: Seed | None, generator: Generator | None) -> UOp:
    """The key for sampling, 0-d and uint64: the next key of a generator, or the first key of a
    seed.

    Raises:
        OperandError: if both are given, or the seed is not valid.
    """
    if seed is None:
        if generator is not None and not isinstance(generator, Generator):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise OperandError(operation=operation, found=repr(generator), expected="a Generator")
        return (default_generator() if generator is None else generator).next_key()
    if generator is not None:
        raise OperandError(operation=operation, found="both", expected="a seed or a generator")
    return (
        _make_key(_to_word(seed)) if not isinstance(seed, (TensorBase, UOp)) else _read_seed(seed)
    )


def default_generator() -> Generator:
    """Generator that is used if none is given; seeded by the operating system until `manual_seed`
    is called.

    Example:
        >>> from svod_tensor import default_generator, manual_seed
        >>> default_generator() is manual_seed(1)
        True
    """
    if not _default:
        with _lock:
            if not _default:
                # From a state: a captured function may sample first; this generator outlives it.
                _default.append(Generator.from_state((_get_seed(), 0)))
    return _default[0]


def manual_seed(seed: int) -> Generator:
    """Reset the default generator to this seed, and return it.

    Args:
        seed: an integer, taken modulo 2^64; negative seeds are allowed.

    Returns:
        the default generator, which all random functions use without `seed` and `generator`.

    Raises:
        OperandError: if the seed is not an integer.

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
            operation="set_state", found=repr(state), expected="a state that get_state returned"
        )
    return _to_word(state[0]), _to_word(state[1])


def _get_seed() -> int:
    return int.from_bytes(os.urandom(8), "little")


def _compute_key(seed: int, index: int) -> int:
    # The first key is the seed itself, so that `seed=n` and a new generator of that seed agree.
    return threefry((1 << 64) - index, seed) if index else seed


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
        raise OperandError(operation="spawn", found=repr(n), expected="a non-negative integer")
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


def _make_state(seed: int, index: int) -> Cell:
    return Cell(make_array_node(make_words(seed, index), may_share=False), owns=True)


def _update(cell: Cell, change: State | int | None) -> State:
    """The previous state; the state is then set, or incremented by `change`."""
    import numpy as np

    while True:
        with registry.lock:
            registry.wait_for_capture()
            node = find_base(cell.node)
            buffer = None if node is None else find_buffer(node)
            if buffer is not None:
                storage = (buffer.storage_id,)
                # Registered like a plan that writes: no plan samples from this state meanwhile.
                computation = registry.start_computation(storage, storage, {})
                if computation is None:
                    registry.wait_if_refused()
                    continue
                words = buffer.as_numpy()
                previous = int(words[0]), int(words[1])
                if change is not None:
                    new = (
                        (previous[0], (previous[1] + change) & _MASK)
                        if isinstance(change, int)
                        else change
                    )
                    words[:] = np.array(new, np.uint64)
                registry.end_computation(computation)
                return previous
        _realize(cell)


def _realize(state: Cell) -> None:
    from svod_tensor._realize import realize_tensors
    from svod_tensor.options import resolve_config

    realize_tensors([state], resolve_config(None))


def _make_key(key: int) -> UOp:
    import numpy as np

    # Shared: no other code has this array.
    return make_array_node(np.array(key, np.uint64), may_share=True)


_default: Final[list[Generator]] = []
_lock: Final = make_lock()
