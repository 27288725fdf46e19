"""Comparison of a model's results with onnxruntime, or with onnx's reference implementation if
onnxruntime is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any, Final, cast

import numpy as np
import onnx

from svod_onnx._model import load
from svod_tensor import Tensor

__all__ = ["Difference", "choose_reference", "compare", "find_first_difference", "iter_lines"]

Arrays = Mapping[str, np.ndarray]
Reference = Callable[[onnx.ModelProto, Arrays], Mapping[str, Any]]

TOLERANCE: Final = 1e-4
"""Relative difference above which results count as different."""


@dataclass(frozen=True, slots=True)
class Difference:
    """Difference of a result from the reference.

    Attributes:
        name: name of the value.
        absolute: largest absolute difference of two elements. NaN if dtypes or shapes differ, or if
            only one result has a NaN or an infinity at an index.
        relative: `absolute` divided by the largest element of the reference.
    """

    name: str
    absolute: float
    relative: float

    @property
    def is_large(self) -> bool:
        """True if the results count as different."""
        # Negated, so that NaN counts as different.
        return not self.relative <= TOLERANCE

    def __str__(self) -> str:
        return f"{self.name}: largest difference {self.absolute:.3g}, {self.relative:.3g} of the largest element"


def choose_reference() -> tuple[str, Reference]:
    """Return the reference's name, and a function that runs a model on inputs."""
    try:
        runtime: Any = import_module("onnxruntime")
    except ImportError:
        return "onnx's reference implementation", _run_reference
    return f"onnxruntime {runtime.__version__}", partial(_run_onnxruntime, runtime)


def _run_reference(model: onnx.ModelProto, arrays: Arrays) -> dict[str, Any]:
    from onnx.reference import ReferenceEvaluator

    names = [info.name for info in model.graph.output]
    evaluator: Any = ReferenceEvaluator(model)
    return dict(zip(names, evaluator.run(names, dict(arrays)), strict=True))


def _run_onnxruntime(runtime: Any, model: onnx.ModelProto, arrays: Arrays) -> dict[str, Any]:
    names = [info.name for info in model.graph.output]
    session = runtime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    return dict(zip(names, session.run(names, dict(arrays)), strict=True))


def compare(model: onnx.ModelProto, arrays: Arrays, reference: Reference) -> list[Difference]:
    """Difference of each output from the output of `reference`.

    Outputs that are not numeric tensors are skipped.
    """
    actual = cast("dict[str, Any]", load(model)(**arrays))
    expected = reference(model, arrays)
    return [
        _measure(name, actual[name], expected[name])
        for name in actual
        if _is_numeric(expected[name])
    ]


def _is_numeric(value: object) -> bool:
    return isinstance(value, np.ndarray) and cast("np.ndarray", value).dtype.kind in "biufcV"


def _measure(name: str, actual: Any, expected: np.ndarray) -> Difference:
    array = actual.numpy() if isinstance(actual, Tensor) else np.asarray(actual)
    if array.shape != expected.shape or array.dtype.kind not in "biufcV":
        return Difference(name, np.nan, np.nan)
    # Measured in float64, so that measuring adds no rounding.
    kind = np.complex128 if expected.dtype.kind == "c" else np.float64
    left, right = array.astype(kind), expected.astype(kind)
    is_finite = np.isfinite(right)
    # NaN and infinities must match exactly; their differences would be NaN.
    if not np.array_equal(left[~is_finite], right[~is_finite], equal_nan=True):
        return Difference(name, np.nan, np.nan)
    absolute = float(np.abs(left - right)[is_finite].max(initial=0))
    largest = float(np.abs(right)[is_finite].max(initial=0))
    return Difference(name, absolute, absolute / largest if largest else absolute)


def find_first_difference(
    model: onnx.ModelProto, arrays: Arrays, reference: Reference
) -> tuple[onnx.NodeProto, Difference] | None:
    """Return the first node with a result that differs, and the difference; None if no node
    differs.

    Every result becomes an output of a copy of the model. Nodes of a subgraph count as a single
    node, the node that owns it."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    producers = {name: node for node in copy.graph.node for name in node.output if name}
    del copy.graph.output[:]
    # Without types, since models rarely declare the types of intermediate values.
    copy.graph.output.extend(onnx.ValueInfoProto(name=name) for name in producers)
    differences = {difference.name: difference for difference in compare(copy, arrays, reference)}
    first = next(
        (
            differences[name]
            for name in producers
            if name in differences and differences[name].is_large
        ),
        None,
    )
    return None if first is None else (producers[first.name], first)


def iter_lines(model: onnx.ModelProto, arrays: Arrays, *, bisects: bool) -> Iterator[str]:
    """Lines that the command prints for a comparison."""
    title, reference = choose_reference()
    yield f"compared with {title}:"
    differences: Sequence[Difference] = compare(model, arrays, reference)
    yield from (f"  {difference}" for difference in differences)
    if not bisects:
        return
    first = find_first_difference(model, arrays, reference)
    if first is None:
        # An output ends fusion, so an error that only a fused kernel makes does not show here.
        yield f"no node differs by more than {TOLERANCE:g} of the largest element with every result as an output"
        return
    node, difference = first
    yield f"first node that differs: {node.name or node.output[0]!r} ({node.op_type}):"
    yield f"  {difference}"
