"""Equivalence of whole graphs: both are evaluated on the same inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

import numpy as np

from svod_dtype import DType
from svod_ir._trips import max_trips
from svod_ir.evaluate import evaluate, evaluate_kernel, evaluate_linear
from svod_ir.evaluate.memory import memory_of
from svod_ir.loops import iter_nodes, list_free_variables
from svod_ir.ops import Op
from svod_ir.uop import UOp

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "Change",
    "assert_close",
    "assert_same",
    "find_change",
    "random_array",
    "random_inputs",
    "tolerance",
]

_INPUTS: Final = (Op.BUFFER, Op.PARAM, Op.DEFINE_VAR)
_EFFECTS: Final = (Op.STORE, Op.END, Op.GROUP, Op.BARRIER)


class Change(NamedTuple):
    """A difference between two graphs: a result of the first one, or memory that it writes, and a
    description.
    """

    node: UOp
    problem: str


def assert_same(
    before: UOp,
    after: UOp | Sequence[UOp],
    *,
    inputs: Mapping[UOp, Any] | None = None,
    seed: int = 0,
    n_samples: int = 200,
) -> None:
    """Check that two graphs return equal values and write equal memory (see `find_change`).

    Args:
        before: root of the first graph.
        after: root of the second graph, or a linearized kernel.
        inputs: arrays of leaves; other leaves get random values.
        seed: seed of the random values.
        n_samples: number of values tried at once in expressions without buffers and loops.

    Raises:
        AssertionError: with the first difference and the two graphs.
        EvaluationError: if one of them cannot be evaluated.
    """
    change = find_change(before, after, inputs=inputs, seed=seed, n_samples=n_samples)
    if change is not None:
        raise AssertionError(f"{change.problem}\nbefore:\n{_show(before)}\nafter:\n{_show(after)}")


def find_change(
    before: UOp,
    after: UOp | Sequence[UOp],
    *,
    inputs: Mapping[UOp, Any] | None = None,
    seed: int = 0,
    n_samples: int = 200,
) -> Change | None:
    """Find the first difference between the values of two graphs, or the memory that they write.

    Integers must be equal; floats agree within the rounding of the least precise dtype. In
    expressions without buffers and loops, variables and ranges take many values at once, including
    the corners.

    Args:
        before: root of the first graph.
        after: root of the second graph, or a linearized kernel.
        inputs: arrays of leaves; other leaves get random values.
        seed: seed of the random values.
        n_samples: number of values tried at once in expressions without buffers and loops.

    Raises:
        EvaluationError: if one of them cannot be evaluated.
    """
    nodes = (before, after) if isinstance(after, UOp) else (before, *after)
    # Both graphs get the same values, and copies of the arrays, since they may write them.
    values: dict[UOp, Any] = {**_random_inputs(nodes, seed, n_samples), **(inputs or {})}
    loose = tolerance(*nodes)
    left, right = _copy(values), _copy(values)
    before_values, after_values = _run(before, left), _run(after, right)
    if len(before_values) != len(after_values):
        return Change(before, f"{len(after_values)} results, expected {len(before_values)}")
    results = (
        before.src if len(before_values) == len(before.src) else (before,) * len(before_values)
    )
    written = [
        n
        for n, array in left.items()
        if isinstance(array, np.ndarray) and n.op in (Op.BUFFER, Op.PARAM)
    ]
    compared = [
        *zip(results, before_values, after_values, strict=True),
        *((n, left[n], right[n]) for n in written),
    ]
    for node, expected, actual in compared:
        if node.op is Op.ASSIGN:
            # The value of an ASSIGN differs between stages: the view, or the whole memory. The
            # written memory is compared below.
            continue
        problem = _find_mismatch(actual, expected, loose, f"{node}" if node in left else "value")
        if problem is not None:
            return Change(node, problem)
    return None


def assert_close(actual: Any, expected: Any, *, loose: float = 0.0, what: str = "value") -> None:
    """Check that two arrays are equal.

    Args:
        actual: computed array.
        expected: reference array.
        loose: tolerance of floats, relative to the largest finite magnitude (or 1).
        what: name of the value in the error.

    Raises:
        AssertionError: with the first difference.
    """
    problem = _find_mismatch(actual, expected, loose, what)
    if problem is not None:
        raise AssertionError(problem)


def _find_mismatch(actual: Any, expected: Any, loose: float, what: str) -> str | None:
    actual, expected = np.asarray(actual).reshape(-1), np.asarray(expected).reshape(-1)
    if actual.size > expected.size:
        # Memory of a symbolic size has room for its largest value.
        actual = actual[: expected.size]
    if actual.dtype != expected.dtype:
        return f"{what}: dtype {actual.dtype}, expected {expected.dtype}"
    if actual.size != expected.size:
        return f"{what}: {actual.size} elements, expected {expected.size}"
    if expected.dtype.kind in "iub":
        differs = actual != expected
    else:
        a, e = actual.astype(np.float64), expected.astype(np.float64)
        finite = np.abs(e[np.isfinite(e)])
        allowed = loose * max(1.0, float(finite.max()) if finite.size else 0.0)
        with np.errstate(all="ignore"):
            differs = ~((a == e) | (np.isnan(a) & np.isnan(e)) | (np.abs(a - e) <= allowed))
    if not differs.any():
        return None
    where, count = int(np.flatnonzero(differs)[0]), int(differs.sum())
    return (
        f"{what}: element {where} is {actual[where]}, expected {expected[where]} ({count} of"
        f" {differs.size} differ)"
    )


def tolerance(*roots: UOp) -> float:
    """Relative tolerance of float results: 8 times the machine epsilon of the least precise float
    dtype below `roots`; 0 if there is none.
    """
    dtypes: set[DType] = {
        n.dtype.scalar for root in roots for n in iter_nodes(root) if n.dtype.is_float
    }
    # Passes may reorder sums and fuse multiplications, each a rounding of the largest value.
    return 8 * max((d.finfo_eps for d in dtypes), default=0.0)


def random_inputs(*roots: UOp, seed: int = 0) -> dict[UOp, Any]:
    """Random inputs for `evaluate`: an array or integer for each BUFFER, PARAM and DEFINE_VAR below
    `roots`.
    """
    rng = np.random.default_rng(seed)
    nodes = dict.fromkeys(n for root in roots for n in root.toposort() if n.op in _INPUTS)
    nodes.update(dict.fromkeys(n for root in roots for n in list_free_variables(root)))
    # Negative ids are memory that the graph itself fills; `core_id` takes every value in an
    # evaluation.
    inputs = [n for n in nodes if not (n.op is Op.BUFFER and n.arg.id < 0) and not _is_core(n)]
    return _repeat_copies(_share_names({n: _random_input(n, rng) for n in inputs}), roots)


def _repeat_copies(values: dict[UOp, Any], roots: Sequence[UOp]) -> dict[UOp, Any]:
    """Copy the values of the first replica of a tensor to the others."""
    for multi in dict.fromkeys(
        n for root in roots for n in root.iter_ops(Op.MULTI) if n.arg is None
    ):
        memories = [memory_of(shard) for shard in multi.source.src]
        for memory in memories[1:]:
            if memory in values and memories[0] in values:
                values[memory] = values[memories[0]].copy()
    return values


def _share_names(values: dict[UOp, Any]) -> dict[UOp, Any]:
    """Assign one value to all variables of a name, even if passes changed their dtype."""
    first: dict[str, Any] = {}
    return {
        n: first.setdefault(n.arg.name, v) if n.op is Op.DEFINE_VAR else v
        for n, v in values.items()
    }


def _is_core(node: UOp) -> bool:
    return node.op is Op.DEFINE_VAR and node.arg.name == "core_id"


def _random_input(node: UOp, rng: np.random.Generator) -> Any:
    if node.op is Op.DEFINE_VAR:
        return int(rng.integers(int(node.arg.low), int(node.arg.high), endpoint=True))
    size: int = node.arg.size
    return random_array(node.dtype, size, rng)


def random_array(dtype: DType, size: int, rng: np.random.Generator) -> NDArray[Any]:
    """Return `size` random values of `dtype`.

    Floats are multiples of 1/4 in [-4, 4], which every dtype except float8_e5m2 represents exactly.
    Integers are in [-8, 16), without negative ones if unsigned, and in 5 % of the cases the
    maximum of the dtype, so that overflow wraps.
    """
    if dtype.is_bool:
        return rng.random(size) < 0.5
    if dtype.is_float:
        return (rng.integers(-16, 17, size) / 4).astype(dtype.numpy)
    array = rng.integers(-8 if dtype.is_signed else 0, 16, size).astype(dtype.numpy)
    # A few maxima, so that overflow is seen to wrap.
    array[rng.random(size) < 0.05] = dtype.max
    return array


def _random_inputs(nodes: Sequence[UOp], seed: int, n_samples: int) -> dict[UOp, Any]:
    inputs = random_inputs(*nodes, seed=seed)
    free = dict.fromkeys(r for node in nodes[:2] for r in node.ranges)
    is_expression = all(n.op is Op.DEFINE_VAR for n in inputs) and all(
        n.find_shape() == () for n in nodes
    )
    if is_expression and (inputs or free):
        inputs.update(_samples([*inputs, *free], np.random.default_rng(seed), n_samples))
    elif free:
        inputs.update(
            {r: int(np.random.default_rng(seed).integers(0, max(1, max_trips(r)))) for r in free}
        )
    return inputs


def _samples(nodes: Sequence[UOp], rng: np.random.Generator, n_samples: int) -> dict[UOp, Any]:
    """Samples of variables: the corners of their intervals, and random values."""
    columns: dict[UOp, Any] = {}
    for i, node in enumerate(nodes):
        low, high = (
            (node.arg.low, node.arg.high)
            if node.op is Op.DEFINE_VAR
            else (0, max(0, int(node.vmax)))
        )
        samples = rng.integers(low, high, n_samples, endpoint=True)
        # All corners of up to 12 variables, but at most half of the samples.
        n_corners = min(n_samples // 2, 1 << min(len(nodes), 12))
        corners = np.arange(n_corners) >> min(i, 11) & 1
        samples[:n_corners] = np.where(corners, high, low)
        columns[node] = samples
    return _share_names(columns)


def _copy(inputs: Mapping[UOp, Any]) -> dict[UOp, Any]:
    return {n: v.copy() if isinstance(v, np.ndarray) else v for n, v in inputs.items()}


def _run(graph: UOp | Sequence[UOp], inputs: dict[UOp, Any]) -> tuple[Any, ...]:
    names = {n.arg.name: v for n, v in inputs.items() if n.op is Op.DEFINE_VAR}
    if not isinstance(graph, UOp):
        evaluate_linear(graph, {**inputs, **names}, {})
        return ()
    if graph.op is Op.SINK and graph.src and all(s.op in _EFFECTS for s in graph.src):
        evaluate_kernel(graph, {**inputs, **names}, {})
        return ()
    value: object = evaluate(graph, {**inputs, **names})
    if isinstance(value, tuple):
        return tuple(v for v in cast("tuple[object, ...]", value) if v is not None)
    return (_broadcast(value, inputs),)


def _broadcast(value: Any, inputs: Mapping[UOp, Any]) -> Any:
    # An expression that was folded to a constant has one value for all samples.
    columns: list[NDArray[Any]] = [
        v
        for n, v in inputs.items()
        if isinstance(v, np.ndarray) and n.op not in (Op.BUFFER, Op.PARAM)
    ]
    return np.broadcast_to(value, columns[0].shape) if columns and np.ndim(value) == 0 else value


def _show(graph: UOp | Sequence[UOp]) -> str:
    from svod_ir.text import print_graph

    return print_graph(
        graph if isinstance(graph, UOp) else UOp(Op.LINEAR, src=tuple(graph)), limit=200
    )
