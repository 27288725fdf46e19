"""A model's results beside those of onnxruntime, or where that is not installed of onnx's reference implementation."""

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
"""The difference, in parts of the largest element, from which on results count as different."""


@dataclass(frozen=True, slots=True)
class Difference:
    """How far a result is from the other one's.

    Attributes:
        name: of the value.
        absolute: the largest difference of two elements; NaN where dtypes or shapes differ, or only one has NaN or an infinity.
        relative: the same in parts of the largest element.
    """

    name: str
    absolute: float
    relative: float

    @property
    def is_large(self) -> bool:
        """Whether the results count as different."""
        return not self.relative <= TOLERANCE

    def __str__(self) -> str:
        return f"{self.name}: largest difference {self.absolute:.3g}, {self.relative:.3g} of the largest element"


def choose_reference() -> tuple[str, Reference]:
    """What to compare with: its name, and a function of a model and its inputs."""
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
    session = runtime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return dict(zip(names, session.run(names, dict(arrays)), strict=True))


def compare(model: onnx.ModelProto, arrays: Arrays, reference: Reference) -> list[Difference]:
    """How far each output is from that of `reference`; those that are no tensors of numbers are left out."""
    found = cast("dict[str, Any]", load(model)(**arrays))
    wanted = reference(model, arrays)
    return [_measure(name, found[name], wanted[name]) for name in found if _is_number(wanted[name])]


def _is_number(value: object) -> bool:
    return isinstance(value, np.ndarray) and cast("np.ndarray", value).dtype.kind in "biufcV"


def _measure(name: str, found: Any, wanted: np.ndarray) -> Difference:
    array = found.numpy() if isinstance(found, Tensor) else np.asarray(found)
    if array.shape != wanted.shape or array.dtype.kind not in "biufcV":
        return Difference(name, np.nan, np.nan)
    kind = np.complex128 if wanted.dtype.kind == "c" else np.float64
    one, other = array.astype(kind), wanted.astype(kind)
    is_finite = np.isfinite(other)
    if not np.array_equal(one[~is_finite], other[~is_finite], equal_nan=True):
        return Difference(name, np.nan, np.nan)
    absolute = float(np.abs(one - other)[is_finite].max(initial=0))
    largest = float(np.abs(other)[is_finite].max(initial=0))
    return Difference(name, absolute, absolute / largest if largest else absolute)


def find_first_difference(
    model: onnx.ModelProto, arrays: Arrays, reference: Reference
) -> tuple[onnx.NodeProto, Difference] | None:
    """The first node one of whose results differs, with all results of nodes made outputs of a copy; None where none does.

    Nodes of subgraphs count as part of the node that has them.
    """
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    makers = {name: node for node in copy.graph.node for name in node.output if name}
    del copy.graph.output[:]
    copy.graph.output.extend(onnx.ValueInfoProto(name=name) for name in makers)
    differences = {difference.name: difference for difference in compare(copy, arrays, reference)}
    found = next((differences[name] for name in makers if name in differences and differences[name].is_large), None)
    return None if found is None else (makers[found.name], found)


def iter_lines(model: onnx.ModelProto, arrays: Arrays, *, bisects: bool) -> Iterator[str]:
    """What the command prints of a comparison."""
    title, reference = choose_reference()
    yield f"beside {title}:"
    differences: Sequence[Difference] = compare(model, arrays, reference)
    yield from (f"  {difference}" for difference in differences)
    if not bisects:
        return
    first = find_first_difference(model, arrays, reference)
    if first is None:
        # Results that are outputs are kernels' results, so that what only joined kernels get wrong does not show here.
        yield f"no node's results differ by more than {TOLERANCE:g} of the largest element, each computed as an output"
        return
    node, difference = first
    yield f"the first node that differs is {node.name or node.output[0]!r} ({node.op_type}):"
    yield f"  {difference}"
