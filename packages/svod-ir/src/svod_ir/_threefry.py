"""Threefry2x32 with 20 rounds: 64 random bits for each counter and key; the semantics of the op
THREEFRY.

For a fixed key, it is a bijection of the 64-bit integers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["threefry"]

Words = TypeVar("Words", int, "NDArray[Any]", "np.uint64")

_LOW = 0xFFFFFFFF
_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))


def threefry(counter: Words, key: Words) -> Words:
    """Threefry2x32-20 hash: 64 random bits for `counter` under `key`.

    Arguments and result are ints in [0, 2^64), or uint64 arrays that broadcast. The low half of
    each 64-bit word is the first of its two 32-bit words.

    Example:
        >>> from svod_ir import threefry
        >>> hex(threefry(0, 0)), hex(threefry(1, 0))
        ('0x99ba4efe6b200159', '0xc0de3f32508efb2c')

    Source: Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3", section 3.3.
    """
    first, second = key & _LOW, key >> 32
    # The parity constant of Skein: without it, the third word of key 0 would be 0 as well.
    keys = (first, second, first ^ second ^ 0x1BD11BDA)
    a, b = ((counter & _LOW) + first) & _LOW, ((counter >> 32) + second) & _LOW
    # 20 rounds, the default of the paper, and so the bits of other implementations.
    for group in range(5):
        for rotation in _ROTATIONS[group % 2]:
            # Python's integers do not wrap, and numpy's words are of 64 bits.
            a = (a + b) & _LOW
            b = (((b << rotation) | (b >> (32 - rotation))) & _LOW) ^ a
        a = (a + keys[(group + 1) % 3]) & _LOW
        b = (b + keys[(group + 2) % 3] + (group + 1)) & _LOW
    return (b << 32) | a
