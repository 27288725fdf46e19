"""Sorting of rows by kernels: for short rows, or few sorted elements; else the host sorts.

Keys are signed integers of the same order as the elements, the least significant first if there are
several per element.

- Short rows: rank sort. An element's rank is the number of elements that precede it. All pairs are
  compared independently, across lanes and threads; the ranks are then inverted to an order.
- Few elements: selection. Each is the minimum of the elements after the previous one, in one pass.
- Few elements of a longer row: the n least elements are in the n groups with the least minima, since
  the minima of these groups precede all elements of other groups. One pass computes the minima, and
  selection reads n groups only. A tournament does so with groups of groups, and ranks candidates
  instead of selecting them.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from svod_dtype import int32, int64, uint8
from svod_ir import SInt
from svod_ir.sizes import max_size
from svod_tensor.ops.indexing.gathering import gather_along_axis

if TYPE_CHECKING:
    from svod_tensor.tensor import Tensor

__all__ = ["MAX_PASSES", "find_order", "pack_indices"]


MAX_PASSES: Final = 8
"""Maximum number of elements to find by selection, one pass over the row for each."""


_CALL_IN_PAIRS: Final = {int32: 1 << 18, int64: 1 << 17}
_ELEMENT_IN_PAIRS: Final = 32
"""Cost of the host's sort in compared pairs of keys: for the call, 20 to 40 us, and for each element,
2.5 ns.
"""


_GROUP_SIZES: Final = (256, 128, 64)
_LEAST_GROUPS: Final = 8
"""Minimum number of groups per element: the largest group size that allows it is chosen, which keeps
both the minima and the groups read again few.
"""


_TEAM_SIZE: Final = 4
_MAX_CANDIDATES: Final = 256
_CANDIDATE_IN_PAIRS: Final = 32
"""Tournament: team size of a level, maximum number of candidates that a level compares, and cost of a
candidate's gather in compared pairs.
"""


def find_order(keys: Sequence[Tensor], n: SInt) -> Tensor | None:
    """Return the indices (int64) of the first `n` elements of each row in stable order, or None if
    the host's sort is faster.
    """
    size = keys[0].shape[-1]
    most = max_size(size)
    key = keys[0] if len(keys) == 1 else None
    if key is not None and isinstance(n, int) and n <= MAX_PASSES and 3 * n <= most:
        return _select_few(key, n)
    # Several keys per element are compared for short rows only, where this is the faster way for
    # any number of rows.
    call = _CALL_IN_PAIRS[key.dtype] if key is not None else 0
    n_rows = max_size(keys[0].size) // most
    max_pairs = call // n_rows + _ELEMENT_IN_PAIRS * most
    if key is not None and key.sharding is None and isinstance(size, int) and isinstance(n, int):
        sizes = _plan_tournament(size, n)
        # The host sorts all elements by one word of a 64-bit key before it selects by the other.
        full_sorts = (key.dtype.itemsize // 4 - 1) * _ELEMENT_IN_PAIRS * most
        if len(sizes) > 1 and _count_pairs(sizes, n) <= max_pairs + full_sorts:
            return _tournament_sort(key, n, sizes)
    if most * most <= max_pairs:
        return _rank_sort(keys, n)
    if key is not None and isinstance(n, int) and n <= MAX_PASSES:
        return _select_few(key, n)
    return None


def _select_few(key: Tensor, n: int) -> Tensor:
    size = key.shape[-1]
    if isinstance(size, int) and key.sharding is None:
        for group_size in _GROUP_SIZES:
            if size >= _LEAST_GROUPS * group_size * n:
                return _select_from_groups(key, n, size, group_size)
    return _select_by_passes(key, n, key.arange(size).cast(int64))


def pack_indices(key: Tensor, indices: Tensor) -> Tensor:
    """Pack 32-bit keys with their indices in the low bits, which makes all keys distinct."""
    return key.cast(int64).lshift(32).bitwise_or(indices)


def _rank_sort(keys: Sequence[Tensor], n: SInt) -> Tensor:
    indices = keys[0].arange(keys[0].shape[-1])
    if len(keys) == 1 and keys[0].dtype is int32:
        # One 64-bit comparison is faster than two 32-bit comparisons and a select.
        return _order_distinct(pack_indices(keys[0], indices.cast(int64)), n)
    return _order_by(keys, indices, n)


def _order_by(keys: Sequence[Tensor], indices: Tensor, n: SInt) -> Tensor:
    """Rank sort by several keys, the least significant first; `indices` order equal elements."""
    is_before = indices.unsqueeze(-2).lt(indices.unsqueeze(-1))
    for key in keys:
        other_key, own_key = key.unsqueeze(-2), key.unsqueeze(-1)
        is_before = other_key.lt(own_key).logical_or(other_key.eq(own_key).logical_and(is_before))
    return _invert_ranks(is_before, n)


def _order_distinct(key: Tensor, n: SInt) -> Tensor:
    """Rank sort of rows of distinct keys."""
    return _invert_ranks(key.unsqueeze(-2).lt(key.unsqueeze(-1)), n)


def _invert_ranks(is_before: Tensor, n: SInt) -> Tensor:
    """Invert ranks to an order: the indices of the elements with ranks 0 to `n - 1`."""
    size = is_before.shape[-1]
    # Ranks of one byte need a quarter of the vectors.
    dtype = uint8 if max_size(size) <= 256 else int32
    ranks = is_before.cast(int32).sum(-1).cast(dtype).contiguous()
    indices = is_before.arange(size).cast(dtype)
    is_there = ranks.unsqueeze(-2).eq(is_before.arange(n).cast(dtype).unsqueeze(-1))
    return is_there.where(indices, indices.zeros_like()).max(-1).cast(int64)


def _select_from_groups(key: Tensor, n: int, size: int, group_size: int) -> Tensor:
    """Selection among the elements of the `n` groups with the least minima; ties prefer earlier groups."""
    n_groups = -(-size // group_size)
    padded = _pad_row(key, n_groups * group_size - size)
    least = padded.reshape(*key.shape[:-1], n_groups, group_size).min(-1).contiguous()
    chosen = _select_by_passes(least, n, key.arange(n_groups).cast(int64))
    candidates = (
        chosen.unsqueeze(-1).mul(group_size).add(key.arange(group_size).cast(int64)).flatten(-2, -1)
    )
    return _select_by_passes(_gather_or_max(key, candidates, size), n, candidates)


def _plan_tournament(size: int, n: int) -> list[int]:
    """Sizes of the levels of a tournament: a level is added while that halves the compared pairs."""
    sizes = [size]
    while n * _TEAM_SIZE <= min(sizes[-1], _MAX_CANDIDATES):
        longer = [*sizes, -(-sizes[-1] // _TEAM_SIZE)]
        if 2 * _count_pairs(longer[-2:], n) > sizes[-1] ** 2:
            break
        sizes = longer
    return sizes


def _count_pairs(sizes: Sequence[int], n: int) -> int:
    """Cost of a tournament in compared pairs: of the last level, and of the candidates of others."""
    candidates = _TEAM_SIZE * n
    return sizes[-1] ** 2 + (len(sizes) - 1) * candidates * (candidates + _CANDIDATE_IN_PAIRS)


def _tournament_sort(key: Tensor, n: int, sizes: Sequence[int]) -> Tensor:
    """Tournament sort: each level has the minima of the teams of the level below, whose first `n`
    elements are in the teams of this level's first `n`.
    """
    is_packed = key.dtype is int32
    levels = [pack_indices(key, key.arange(sizes[0]).cast(int64)) if is_packed else key]
    for size, n_teams in pairwise(sizes):
        members = _pad_row(levels[-1], n_teams * _TEAM_SIZE - size)
        # Members of a team are strided, so that lanes run over teams; unless keys may be equal:
        # then they are adjacent, so that teams are in the order of their elements' indices.
        teams = (
            members.reshape(*key.shape[:-1], _TEAM_SIZE, n_teams).min(-2)
            if is_packed
            else members.reshape(*key.shape[:-1], n_teams, _TEAM_SIZE).min(-1)
        )
        levels.append(teams.contiguous())
    order = _order_distinct(levels[-1], n) if is_packed else _rank_sort([levels[-1]], n)
    for level in reversed(range(len(levels) - 1)):
        offsets = key.arange(_TEAM_SIZE).cast(int64)
        members = (
            order.unsqueeze(-1).add(offsets.mul(sizes[level + 1]))
            if is_packed
            else order.unsqueeze(-1).mul(_TEAM_SIZE).add(offsets)
        )
        members = members.flatten(-2, -1).contiguous()
        keys = _gather_or_max(levels[level], members, sizes[level])
        team_order = _order_distinct(keys, n) if is_packed else _order_by([keys], members, n)
        order = members.from_uop(gather_along_axis(members.uop, team_order.uop, members.ndim - 1))
    return order


def _pad_row(key: Tensor, n: int) -> Tensor:
    """Append `n` maximal keys, which sort last."""
    return key.pad(*(None,) * (key.ndim - 1), (0, n), constant_values=key.dtype.max) if n else key


def _gather_or_max(key: Tensor, indices: Tensor, size: int) -> Tensor:
    """Gather keys at `indices`; out-of-range indices get the maximal key."""
    gathered = key.from_uop(gather_along_axis(key.uop, indices.uop, key.ndim - 1))
    return indices.lt(size).where(gathered, key.dtype.max).contiguous()


def _select_by_passes(key: Tensor, n: int, indices: Tensor) -> Tensor:
    """Selection of the `n` least keys of each row: one pass over the remaining keys for each."""
    last = int64.max
    if key.dtype is int32:
        packed = pack_indices(key, indices)
        least: list[Tensor] = []
        for _ in range(n):
            remaining = least[-1].lt(packed).where(packed, last) if least else packed
            least.append(remaining.min(-1, keepdims=True))
        return type(key).concat(least, -1).bitwise_and((1 << 32) - 1)
    indices = indices.broadcast_to(key.shape)
    value, index = None, None
    selected: list[Tensor] = []
    for _ in range(n):
        is_remaining = (
            None
            if value is None or index is None
            else key.gt(value).logical_or(key.eq(value).logical_and(indices.gt(index)))
        )
        value = (key if is_remaining is None else is_remaining.where(key, last)).min(
            -1, keepdims=True
        )
        hit = key.eq(value) if is_remaining is None else key.eq(value).logical_and(is_remaining)
        index = hit.where(indices, last).min(-1, keepdims=True)
        selected.append(index)
    return type(key).concat(selected, -1)
