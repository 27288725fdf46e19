"""Random programs: operations on recent values and their siblings, and sequences of operations that
are known to be risky.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate
from typing import Final

from svod_testing.programs.draw import Draw, RejectedError
from svod_testing.programs.meaning import evaluate_program
from svod_testing.programs.operations import OPERATIONS
from svod_testing.programs.oracle import UnstableError
from svod_testing.programs.program import Program, make_program

__all__ = ["draw_input", "generate"]

_NAMES: Final = tuple(OPERATIONS)
_WEIGHTS: Final = tuple(accumulate(OPERATIONS[name].weight for name in _NAMES))
_REDUCTIONS: Final = ("sum", "mean", "max", "min", "var", "prod", "norm", "logsumexp", "std")


def generate(seed: int) -> Program:
    """Generate the program of a seed."""
    for attempt in range(100):
        program = _draw_program(seed + (attempt << 40))
        try:
            # Renumbering has changed the seeds of the oracle's perturbations: check again.
            evaluate_program(program)
        except UnstableError:
            continue
        return program
    raise AssertionError(f"seed {seed} generates no program")


def _draw_program(seed: int) -> Program:
    draw = Draw(seed, OPERATIONS)
    for _ in range(draw.number(1, 3)):
        draw_input(draw)
    n_steps = draw.number(6, 25)
    for _ in range(4 * n_steps):
        if len(draw.steps) >= n_steps:
            break
        try:
            if draw.chance(0.25):
                draw.choose(_IDIOMS)(draw)
            else:
                name = draw.rng.choices(_NAMES, cum_weights=_WEIGHTS)[0]
                operands, args = OPERATIONS[name].draw(draw)
                draw.add(name, operands, **args)
        except (RejectedError, UnstableError):
            continue
    return make_program(draw.steps, _draw_roots(draw)).without_dead_steps().renumbered()


def draw_input(draw: Draw) -> None:
    operands, args = OPERATIONS["input"].draw(draw)
    draw.add("input", operands, **args)


def _draw_roots(draw: Draw) -> list[int]:
    computed = [v for step in draw.steps if step.operation != "input" for v in step.results]
    if not computed:
        return [0]
    unread = [v for v in computed if v not in draw.readers]
    roots = unread if draw.chance(0.6) else unread[-1:]
    roots += [draw.choose(computed) for _ in range(draw.choose((0, 0, 1, 1, 2, 4)))]
    makers = {v: step for step in draw.steps for v in step.results}
    operands = [
        v for root in roots for v in makers[root].operands if makers[v].operation != "input"
    ]
    if operands and draw.chance(0.4):
        roots += [draw.choose(operands) for _ in range(draw.number(1, 2))]
    if draw.chance(0.1):
        roots.append(draw.choose(roots))
    draw.rng.shuffle(roots)
    return roots if draw.chance(0.1) else list(dict.fromkeys(roots))


def _centre(draw: Draw) -> None:
    """`x - x.mean(axes, keepdims=True)`, or a quotient."""
    value = draw.floating(lambda v: v.size > 0 and v.ndim > 0)
    axes = draw.axes(draw.values[value].ndim)
    (reduced,) = draw.add(draw.choose(_REDUCTIONS), (value,), axis=axes, keepdims=True)
    operands = (value, reduced) if draw.chance(0.7) else (reduced, value)
    draw.add(draw.choose(("sub", "sub", "div", "mul", "add", "gt", "eq")), operands)


def _normalise(draw: Draw) -> None:
    """Center a value over some axes, then divide it by a reduction over others."""
    value = draw.floating(lambda v: v.size > 0 and v.ndim > 0)
    for name in ("sub", "div"):
        axes = draw.axes(draw.values[value].ndim)
        (reduced,) = draw.add(draw.choose(_REDUCTIONS), (value,), axis=axes, keepdims=True)
        (value,) = draw.add(name, (value, reduced))


def _stack_siblings(draw: Draw) -> None:
    """Stack a reduction with other values of its shape, and reduce the stack."""
    value = draw.value(lambda v: v.size > 0 and v.ndim > 0)
    axis = draw.axis(draw.values[value].ndim)
    names = (
        ("sum", "max", "mean", "any", "var")
        if draw.values[value].dtype != "bool"
        else ("sum", "any", "all")
    )
    (reduced,) = draw.add(draw.choose(names), (value,), axis=axis, keepdims=False)
    shape = draw.values[reduced].shape
    siblings = [draw.value(lambda v: v.shape == shape) for _ in range(draw.number(1, 2))]
    (stacked,) = draw.add("stack", (reduced, *siblings), axis=draw.number(0, len(shape)))
    if draw.values[stacked].dtype == "bool":
        draw.add("argmax", (stacked,), axis=-1, keepdims=draw.chance(0.5))
        return
    axes = draw.axes(len(shape) + 1)
    (total,) = draw.add(
        draw.choose(("mean", "prod", "sum", "max")), (stacked,), axis=axes, keepdims=True
    )
    draw.add(draw.choose(("add", "sub", "mul")), (stacked, total))


def _gate(draw: Draw) -> None:
    """The gate of a mixture of experts."""
    value = draw.value(lambda v: v.ndim == 2 and v.is_float and v.shape[1] > 1 and v.size > 0)
    n = draw.values[value].shape[1]
    if draw.chance(0.5):
        (value,) = draw.add("softmax", (value,), axis=-1)
    weights, indices = draw.add(
        "topk", (value,), k=draw.number(1, min(n, 3)), axis=-1, largest=True
    )
    (total,) = draw.add("sum", (weights,), axis=1, keepdims=True)
    (weights,) = draw.add("div", (weights, total))
    (hit,) = draw.add("is_place", (indices,), n=n)
    (wide,) = draw.add("unsqueeze", (weights,), axis=2)
    (zero,) = draw.add("full", (), shape=(), c=0.0)
    (spread,) = draw.add("where", (hit, wide, zero))
    draw.add("sum", (spread,), axis=1, keepdims=False)


def _masked_softmax(draw: Draw) -> None:
    value = draw.value(lambda v: v.ndim > 1 and v.is_float and v.size > 0)
    n, m = draw.values[value].shape[-2:]
    (masked,) = draw.add(
        draw.choose(("causal_mask", "position_mask")), (value,), n=n, m=m, c=-100.0
    )
    draw.add(draw.choose(("softmax", "softmax", "log_softmax", "cumsum")), (masked,), axis=-1)


def _compare_with_iota(draw: Draw) -> None:
    """An iota along an axis, compared or added, and a reduction."""
    value = draw.numeric(lambda v: v.ndim > 0 and v.size > 0)
    shape = draw.values[value].shape
    axis = draw.number(0, len(shape) - 1)
    (iota,) = draw.add(
        "iota", (), n=shape[axis], shape=(shape[axis], *(1 for _ in shape[axis + 1 :]))
    )
    (mixed,) = draw.add(draw.choose(("add", "sub", "div", "gt", "eq", "mul")), (value, iota))
    axes = draw.axes(len(shape))
    names = _REDUCTIONS if draw.values[mixed].dtype != "bool" else ("any", "all", "sum")
    (reduced,) = draw.add(draw.choose(names), (mixed,), axis=axes, keepdims=True)
    draw.add(draw.choose(("add", "mul", "gt", "eq")), (mixed, reduced))


def _sort_and_look_up(draw: Draw) -> None:
    value = draw.numeric(lambda v: v.ndim > 0 and v.size > 0)
    axis = draw.axis(draw.values[value].ndim)
    (order,) = draw.add("argsort", (value,), axis=axis, descending=draw.chance(0.5))
    draw.add("take_along_axis", (value, order), n=draw.values[value].shape[axis], axis=axis)


def _expand_and_unbind(draw: Draw) -> None:
    value = draw.with_axes(lambda v: 0 < v.size <= 200)
    axis = draw.number(0, draw.values[value].ndim - 1)
    if draw.values[value].shape[axis] > 4:
        (value,) = draw.add(
            "shrink", (value,), bounds=tuple((0, min(s, 2)) for s in draw.values[value].shape)
        )
    (repeated,) = draw.add("repeat_interleave", (value,), n=draw.number(2, 3), axis=axis)
    draw.add("unbind", (repeated,), axis=axis)


def _update_constant(draw: Draw) -> None:
    """Scatter values into a constant, or add them, at computed indices."""
    source = draw.with_axes(lambda v: v.dtype == "float32" and 0 < v.size <= 200)
    count, *row_shape = draw.values[source].shape
    indices = [
        v
        for v, value in draw.values.items()
        if value.shape == (count,) and value.dtype in ("int32", "int64")
    ]
    (index,) = (draw.choose(indices),) if indices else draw.add("iota", (), n=count, shape=(count,))
    n = draw.choose((1, count, draw.number(1, 6)))
    (constant,) = draw.add("full", (), shape=(n, *row_shape), c=draw.choose((0.0, 1.0)))
    draw.add(draw.choose(("index_add", "add_at", "with_items")), (constant, index, source), n=n)


def _pool_centred(draw: Draw) -> None:
    value = draw.floating(lambda v: v.ndim == 4 and v.size > 0 and min(v.shape[2:]) > 1)
    (reduced,) = draw.add(draw.choose(_REDUCTIONS), (value,), axis=(2, 3), keepdims=True)
    (centred,) = draw.add("sub", (value, reduced))
    draw.add(
        draw.choose(("avg_pool2d", "max_pool2d")), (centred,), stride=draw.choose((None, 1, 2))
    )


def _draw_four_axes(draw: Draw) -> None:
    shape = (draw.number(1, 3), draw.number(1, 4), draw.number(2, 6), draw.number(2, 6))
    draw.input(shape)


def _draw_square(draw: Draw) -> None:
    n = draw.number(2, 9)
    shape = (*((draw.number(1, 4),) if draw.chance(0.7) else ()), n, n)
    draw.input(shape)


_IDIOMS: Final[tuple[Callable[[Draw], None], ...]] = (
    _centre,
    _centre,
    _centre,
    _normalise,
    _normalise,
    _stack_siblings,
    _stack_siblings,
    _gate,
    _masked_softmax,
    _compare_with_iota,
    _compare_with_iota,
    _sort_and_look_up,
    _expand_and_unbind,
    _update_constant,
    _pool_centred,
    _draw_four_axes,
    _draw_square,
)
