"""The order of rows by kernels: where few elements are compared, or few are wanted; the rest is
left to the host's sort.

Keys are signed integers that order like the elements, the least significant first where there are
several for an element.

- Short rows: what an element's place is, the number of those before it says. All pairs are
  compared, which are independent of each other, so that lanes and threads compare them; then each
  place looks for the element that belongs there.
- Few elements of a row: each is found by a pass over those behind the one before.
- Few of a long row: the n elements are in the n groups with the least minima, since the minimum of
  each of these is before all of any other group. So there is one pass over the row, and those for
  the n elements read groups only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from svod_dtype import int32, int64, uint8
from svod_ir import SInt
from svod_ir.sizes import max_size
from svod_tensor.ops.indexing.gathering import look_up

if TYPE_CHECKING:
    from svod_tensor.tensor import Tensor

__all__ = ["MAX_PASSES", "find_order", "pack_places"]


MAX_PASSES: Final = 8
"""How many of the least elements are found by so many passes over the rows."""


_MAX_COMPARED: Final = 32
"""Up to which size rows are ordered by comparing all pairs, however many rows there are: the host's
sort takes longer.
"""


_MAX_PAIRS: Final = {int32: 1 << 18, int64: 1 << 17}
"""How many pairs of keys are compared in less time than the host takes for its call alone,
40 us.
"""


_GROUP_SIZES: Final = (256, 128, 64)
_LEAST_GROUPS: Final = 8
"""Groups are the largest of which a row has so many for each element that is wanted: few are read
again, and few minima.
"""


_TEAM_SIZE: Final = 4
_MAX_CANDIDATES: Final = 256
_LEAST_TEAMS: Final = 2048
"""Of how many elements the first of each is kept at each level, and how many candidates of a level
are compared; and from which size on rows have levels."""


def find_order(keys: Sequence[Tensor], n: SInt) -> Tensor | None:
    """The positions (int64) of the first `n` of each row in stable order, or None if the host's
    sort is the faster way.
    """
    size = keys[0].shape[-1]
    most = max_size(size)
    key = keys[0] if len(keys) == 1 else None
    if key is not None and isinstance(n, int) and n <= MAX_PASSES and 3 * n <= most:
        return _order_few(key, n)
    if most <= _MAX_COMPARED or (
        key is not None and max_size(key.size) * most <= _MAX_PAIRS[key.dtype]
    ):
        return _order_by_comparing(keys, n)
    if key is None or not isinstance(n, int):
        return None
    if n <= MAX_PASSES:
        return _order_few(key, n)
    is_long = isinstance(size, int) and size >= _LEAST_TEAMS and n * _TEAM_SIZE <= _MAX_CANDIDATES
    return (
        _order_by_levels(key, n)
        if is_long and key.dtype is int32 and key.sharding is None
        else None
    )


def _order_few(key: Tensor, n: int) -> Tensor:
    size = key.shape[-1]
    if isinstance(size, int) and key.sharding is None:
        for group_size in _GROUP_SIZES:
            if size >= _LEAST_GROUPS * group_size * n:
                return _order_from_groups(key, n, size, group_size)
    return _order_by_passes(key, n, key.arange(size).cast(int64))


def pack_places(key: Tensor, places: Tensor) -> Tensor:
    """Keys of 32 bits, and below each its place: no two are equal."""
    return key.cast(int64).lshift(32).bitwise_or(places)


def _order_by_comparing(keys: Sequence[Tensor], n: SInt) -> Tensor:
    if len(keys) == 1 and keys[0].dtype is int32:
        # One comparison of 64 bits takes less time than two of 32 and a choice.
        return _order_different(
            pack_places(keys[0], keys[0].arange(keys[0].shape[-1]).cast(int64)), n
        )
    positions = keys[0].arange(keys[0].shape[-1])
    is_before = positions.unsqueeze(-2).lt(positions.unsqueeze(-1))
    for key in keys:
        other, own = key.unsqueeze(-2), key.unsqueeze(-1)
        is_before = other.lt(own).logical_or(other.eq(own).logical_and(is_before))
    return _place(is_before, n)


def _order_different(key: Tensor, n: SInt) -> Tensor:
    """The order of rows of keys of which no two are equal."""
    return _place(key.unsqueeze(-2).lt(key.unsqueeze(-1)), n)


def _place(is_before: Tensor, n: SInt) -> Tensor:
    """The elements at the first `n` places, where the number of those before an element is its
    place.
    """
    size = is_before.shape[-1]
    # Places of a byte are found in a quarter of the vectors.
    dtype = uint8 if max_size(size) <= 256 else int32
    places = is_before.cast(int32).sum(-1).cast(dtype).contiguous()
    positions = is_before.arange(size).cast(dtype)
    is_there = places.unsqueeze(-2).eq(is_before.arange(n).cast(dtype).unsqueeze(-1))
    return is_there.where(positions, positions.zeros_like()).max(-1).cast(int64)


def _order_from_groups(key: Tensor, n: int, size: int, group_size: int) -> Tensor:
    """What is in the `n` groups with the least minima, of which the first come first."""
    n_groups = -(-size // group_size)
    padded = _pad_row(key, n_groups * group_size - size)
    least = padded.reshape(*key.shape[:-1], n_groups, group_size).min(-1).contiguous()
    chosen = _order_by_passes(least, n, key.arange(n_groups).cast(int64))
    places = (
        chosen.unsqueeze(-1).mul(group_size).add(key.arange(group_size).cast(int64)).flatten(-2, -1)
    )
    return _order_by_passes(_look_up_within(key, places, size), n, places)


def _order_by_levels(key: Tensor, n: int) -> Tensor:
    """A level has the first of each team of the one below: the first `n` of that one are in the
    teams of the first `n` of this.
    """
    row = pack_places(key, key.arange(key.shape[-1]).cast(int64))
    levels, sizes = [row], [max_size(key.shape[-1])]
    while sizes[-1] > _MAX_CANDIDATES:
        n_teams = -(-sizes[-1] // _TEAM_SIZE)
        # Members of a team are far from each other, so that lanes are teams.
        members = _pad_row(levels[-1], n_teams * _TEAM_SIZE - sizes[-1])
        levels.append(members.reshape(*key.shape[:-1], _TEAM_SIZE, n_teams).min(-2).contiguous())
        sizes.append(n_teams)
    places = _order_different(levels[-1], n)
    for level in reversed(range(len(levels) - 1)):
        numbers = key.arange(_TEAM_SIZE).cast(int64).mul(sizes[level + 1])
        members = places.unsqueeze(-1).add(numbers).flatten(-2, -1).contiguous()
        order = _order_different(_look_up_within(levels[level], members, sizes[level]), n)
        places = members.from_uop(look_up(members.uop, order.uop, members.ndim - 1))
    return places


def _pad_row(key: Tensor, n: int) -> Tensor:
    """Keys with `n` more that are behind all."""
    return key.pad(*(None,) * (key.ndim - 1), (0, n), constant_values=key.dtype.max) if n else key


def _look_up_within(key: Tensor, places: Tensor, size: int) -> Tensor:
    """The keys at places; where there are none, one behind all."""
    found = key.from_uop(look_up(key.uop, places.uop, key.ndim - 1))
    return places.lt(size).where(found, key.dtype.max).contiguous()


def _order_by_passes(key: Tensor, n: int, places: Tensor) -> Tensor:
    """The places of the `n` least keys of each row, each found by a pass over those behind the
    last.
    """
    last = int64.max
    if key.dtype is int32:
        packed = pack_places(key, places)
        least: list[Tensor] = []
        for _ in range(n):
            rest = least[-1].lt(packed).where(packed, last) if least else packed
            least.append(rest.min(-1, keepdims=True))
        return type(key).concat(least, -1).bitwise_and((1 << 32) - 1)
    places = places.broadcast_to(key.shape)
    value, place = None, None
    found: list[Tensor] = []
    for _ in range(n):
        rest = (
            None
            if value is None or place is None
            else key.gt(value).logical_or(key.eq(value).logical_and(places.gt(place)))
        )
        value = (key if rest is None else rest.where(key, last)).min(-1, keepdims=True)
        hit = key.eq(value) if rest is None else key.eq(value).logical_and(rest)
        place = hit.where(places, last).min(-1, keepdims=True)
        found.append(place)
    return type(key).concat(found, -1)
