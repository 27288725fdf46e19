"""Writes to tensors: the values of a tensor, a view of it and an earlier result after a write.

A step makes a copy, a view of the copy and a tensor computed from it, then writes to the copy or
through the view. The results are these three. The copy may be realized, pending, an alias of
another tensor, or a value that was never read."""

# Meanings take arrays of any dtype.
# pyright: reportUnknownLambdaType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from svod_testing.programs.draw import RejectedError
from svod_testing.programs.operation import Drawable, Drawn

if TYPE_CHECKING:
    from svod_testing.programs.draw import Draw
    from svod_testing.programs.oracle import Value
    from svod_testing.programs.program import Argument

__all__ = ["WRITES"]

_VIEWS: Final = ("own.reshape(-1)", "own[1:]", "own.T", "own[::-1]", "own[..., 0]", "own")
"""Views by the same words in numpy: each of them shares the memory of a copy."""


def _draw_index(draw: Draw, shape: tuple[int, ...]) -> str:
    """Numbers and slices; each names elements."""
    n, items = draw.number(1, len(shape)), list[str]()
    is_last = n < len(shape) and draw.chance(0.2)
    for size in shape[-n:] if is_last else shape[:n]:
        kind = draw.rng.random()
        if kind < 0.35:
            items.append(str(draw.number(-size, size - 1)))
        elif kind < 0.6:
            begin = draw.number(0, size - 1)
            items.append(f"slice({begin}, {draw.number(begin + 1, size)})")
        elif kind < 0.75:
            items.append(f"slice({draw.number(0, size - 1)}, None, {draw.number(1, 3)})")
        elif kind < 0.85:
            items.append(f"slice(None, None, -{draw.number(1, 2)})")
        else:
            items.append("slice(None)")
    return f"({', '.join(['...', *items] if is_last else items)},)"


def _can_be_written(value: Value) -> bool:
    return 0 < value.size <= 400 and value.ndim > 0


def _draw_target(draw: Draw) -> tuple[int, dict[str, Argument]]:
    # A result of constants only has no device, but memory needs one.
    placed = set[int]()
    for step in draw.steps:
        if step.operation == "input" or placed.intersection(step.operands):
            placed.update(step.results)
    value = draw.value(_can_be_written)
    if value not in placed:
        raise RejectedError
    return value, {"view": draw.choose(_VIEWS)}


def _draw_source(draw: Draw, shape: tuple[int, ...], dtype: str) -> int:
    """Pick a value that broadcasts to the written elements."""

    def fits(value: Value) -> bool:
        pairs = zip(reversed(shape), reversed(value.shape), strict=False)
        return (
            value.dtype == dtype and value.ndim <= len(shape) and all(b in (a, 1) for a, b in pairs)
        )

    source_shape = shape if draw.chance(0.7) else shape[draw.number(0, len(shape)) :]
    return draw.value_or_input(fits, source_shape, dtype, 0 if dtype == "bool" else None)


def _draw_slice(draw: Draw) -> Drawn:
    value, args = _draw_target(draw)
    target = draw.values[value]
    index = _draw_index(draw, target.shape)
    source = _draw_source(draw, target.array[eval(index)].shape, target.dtype)
    return (value, source), {**args, "index": index}


def _draw_through_view(draw: Draw) -> Drawn:
    value, args = _draw_target(draw)
    target = draw.values[value]
    view, shape = args["view"], _view(target.array, args["view"]).shape
    if not shape or 0 in shape:
        view, shape = "own", target.shape
    index = _draw_index(draw, shape)
    source = _draw_source(draw, np.empty(shape)[eval(index)].shape, target.dtype)
    return (value, source), {"view": view, "index": index}


def _draw_shifted(draw: Draw) -> Drawn:
    value, args = _draw_target(draw)
    if draw.values[value].shape[0] < 2:
        return (value,), {**args, "index": "(slice(None),)", "source": "own[::-1]"}
    begin = draw.number(0, 1)
    return (value,), {
        **args,
        "index": f"(slice({1 - begin}, {-begin or None}),)",
        "source": f"own[{begin}:{(begin - 1) or None}]",
    }


def _draw_mask(draw: Draw) -> Drawn:
    value, args = _draw_target(draw)
    shape = draw.values[value].shape
    shape = shape[: draw.number(1, len(shape))]
    mask = draw.value_or_input(lambda v: v.dtype == "bool" and v.shape == shape, shape, "bool", 0)
    return (value, mask), {**args, "c": draw.number(0, 1)}


def _draw_places(draw: Draw) -> Drawn:
    """Pick indices of rows, possibly with duplicates."""
    value, args = _draw_target(draw)
    target = draw.values[value]
    count = draw.number(1, 5)
    index = draw.value_or_input(
        lambda v: v.dtype in ("int32", "int64") and v.ndim == 1 and 0 < v.size <= 20,
        (count,),
        "int64",
        -4,
    )
    source = _draw_source(draw, (*draw.values[index].shape, *target.shape[1:]), target.dtype)
    return (value, index, source), {**args, "n": target.shape[0]}


def _draw_assign(draw: Draw) -> Drawn:
    value, args = _draw_target(draw)
    return (value, _draw_source(draw, draw.values[value].shape, draw.values[value].dtype)), args


def _view(own: Any, view: Any) -> Any:
    return eval(view, {"own": own})


def _write(
    a: Any, operands: tuple[Any, ...], view: str, put: Callable[..., object]
) -> tuple[Any, Any, Any]:
    own = np.array(a, order="C")
    seen, before = _view(own, view), own + own
    put(own, seen, *operands)
    return own, seen, before


def _put(own: Any, seen: Any, *operands: Any, index: str, **named: Any) -> None:
    own[eval(index)] = operands[0]


def _put_through(own: Any, seen: Any, *operands: Any, index: str, **named: Any) -> None:
    seen[eval(index)] = operands[0]


def _put_shifted(own: Any, seen: Any, *, index: str, source: str, **named: Any) -> None:
    own[eval(index)] = _view(own, source).copy()


def _put_masked(own: Any, seen: Any, mask: Any, *, c: int, **named: Any) -> None:
    own[mask] = c


def _put_places(own: Any, seen: Any, places: Any, source: Any, *, n: int, **named: Any) -> None:
    own[places % n] = source


def _assign(own: Any, seen: Any, source: Any, **named: Any) -> None:
    own[...] = source


_KINDS: Final[tuple[tuple[str, str, Callable[..., None], Callable[[Draw], Drawn], float], ...]] = (
    ("slice", "own[{index}] = {1}", _put, _draw_slice, 0.4),
    ("through_view", "view[{index}] = {1}", _put_through, _draw_through_view, 0.4),
    ("shifted", "own[{index}] = {source}", _put_shifted, _draw_shifted, 0.2),
    ("masked", "own[{1}] = {c}", _put_masked, _draw_mask, 0.2),
    ("places", "own[{1} % {n}] = {2}", _put_places, _draw_places, 0.25),
    ("assign", "own.assign({1})", _assign, _draw_assign, 0.25),
)

_MEMORY: Final = (
    "own = Tensor.empty(*{0}.shape, dtype={0}.dtype, device={0}.device); own.assign({0})"
)
_COPIES: Final = (
    ("value", "own = {0}.clone()"),
    ("pending", _MEMORY),
    ("realized", "own = {0}.clone().realize()"),
    ("shared", "own = Tensor({0}.realize())"),
)


def _iter_writes() -> Iterator[Drawable]:
    for name, code, put, draw, weight in _KINDS:
        for kind, copy in _COPIES:

            def meaning(a: Any, *operands: Any, f: Any = put, **named: Any) -> Any:
                return _write(a, operands, named["view"], lambda *p: f(*p, **named))

            yield Drawable(
                f"write_{name}_{kind}",
                f"{copy}; view = {{view}}; before = own + own; {code}; {{result}} = own, view,"
                " before",
                meaning,
                lambda d, *rest, **named: (d, d, d),
                draw,
                gives_tuple=True,
                realizes=".realize()" in copy,
                weight=3 * weight / len(_COPIES),
            )


WRITES: Final = tuple(_iter_writes())
