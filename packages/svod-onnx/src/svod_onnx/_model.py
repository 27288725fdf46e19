"""What a user has of a model: its inputs, its outputs, and calls."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, Final, cast

import numpy as np
import onnx

from svod_onnx._function_bodies import is_supported
from svod_onnx._graph import Graph, ValueInfo, iter_reads
from svod_onnx._plan_cache import PlanCache, get_spec
from svod_onnx._program import Program
from svod_onnx._reading import ModelFile, read_model
from svod_onnx._registry import Value
from svod_onnx._types import STRING, find_carrier
from svod_onnx._values import to_tensor
from svod_onnx.errors import MissingOperator, ModelInputError, UnsupportedOperatorsError
from svod_tensor import Tensor

__all__ = ["Model", "load"]


def load(
    source: str | os.PathLike[str] | bytes | onnx.ModelProto,
    *,
    device: str | None = None,
    sizes: Mapping[str, int] | None = None,
) -> Model:
    """The model in a file, in bytes, or in a message of `onnx`.

    Args:
        source: what to read.
        device: where its weights are put, and its inputs; by default the CPU, or what `SVOD_DEVICE` names.
        sizes: by the name of a symbolic dimension its largest size: for all from 2 on up to it, the first call makes the kernels. Of other
            dimensions, the first two sizes have kernels each, and a third size makes those for any.

    Raises:
        ModelFileError: if it is no model, or contradicts itself.
        UnsupportedOperatorsError: if it needs operators that svod-onnx has not; it names all of them.
        ModelInputError: if no input has a dimension that `sizes` names.
    """
    return Model(read_model(source), device, sizes)


class Model:
    """A model, which is called with its inputs by name.

    Attributes:
        inputs: names, dtypes and shapes with their symbolic dimensions.
        outputs: likewise.
        metadata: what those who made it say of it.
    """

    def __init__(self, file: ModelFile, device: str | None = None, sizes: Mapping[str, int] | None = None) -> None:
        self.inputs: Final = file.graph.inputs
        self.outputs: Final = file.graph.outputs
        self.metadata: Final = file.metadata
        self._title: Final = file.title
        self._device: Final = device
        self._by_name: Final = {info.name: info for info in self.inputs}
        self._plan_cache: Final = PlanCache()
        _check_operators(file)
        self._program: Final = Program(file.graph, {}, device, sizes)
        unknown = set(sizes or {}) - self._program.sizes.dimensions
        if unknown:
            raise self._refuse(f"has no dimension {sorted(unknown)[0]!r}")

    def __call__(self, **inputs: Any) -> dict[str, Tensor]:
        """The outputs by name: tensors; arrays of numpy where they are strings, lists where they are sequences.

        Args:
            inputs: by name: tensors, arrays, nested lists; of an optional input, None or nothing.

        Raises:
            ModelInputError: if they are not those that the model takes.
            NodeError: if a node cannot be computed.
        """
        form = get_spec(inputs)
        known = self._plan_cache.find(form, inputs)
        if known is not None:
            made = known.function(*[Tensor.from_numpy(inputs[name]) for name in known.inputs])
            return dict(zip(known.outputs, made, strict=True))
        live = self._convert_inputs(inputs, form)
        results = self._program.run(live, inputs)
        if form is not None and inputs.keys() == self._by_name.keys():
            names, run = self._program.get_single_plan(live, inputs) if self._device is None else ((), None)
            self._plan_cache.keep(form, names, inputs, run)
        return results  # pyright: ignore[reportReturnType]

    def to_function(self) -> Callable[..., Tensor | tuple[Tensor, ...]]:
        """A function of tensors, in the order of `inputs`, for use inside other programs, `jit` and `grad`.

        It returns the output, or a tuple of them in their order.
        """

        def run(*args: Any, **kwargs: Any) -> Any:
            inputs = dict(zip(self._by_name, args, strict=False)) | kwargs
            results = self._program.trace(self._convert_inputs(inputs))
            return next(iter(results.values())) if len(results) == 1 else tuple(results.values())

        run.__name__ = run.__qualname__ = "model"
        return run

    def plans(self) -> list[Any]:
        """The plans (`svod_runtime.ExecutionPlan`) of all calls so far: `plan.profile()` says where the time goes."""
        return self._program.plans()

    def _convert_inputs(self, inputs: Mapping[str, Any], form: object = None) -> dict[str, Value]:
        if form is not None and form in self._plan_cache:
            return {name: to_tensor(inputs[name], self._device) for name in self._by_name}
        return self._check_inputs(inputs)

    def _check_inputs(self, inputs: Mapping[str, Any]) -> dict[str, Value]:
        unknown = inputs.keys() - self._by_name.keys()
        missing = [name for name, info in self._by_name.items() if name not in inputs and info.kind != "optional"]
        if unknown or missing:
            problem = f"has no input {sorted(unknown)[0]!r}" if unknown else f"needs input {missing[0]!r}"
            raise self._refuse(problem)
        sizes: dict[str, tuple[str, int]] = {}
        return {name: self._convert(info, inputs.get(name), sizes) for name, info in self._by_name.items()}

    def _convert(self, info: ValueInfo, value: Any, sizes: dict[str, tuple[str, int]]) -> Value:
        if info.kind == "optional" and value is None:
            return None
        if isinstance(value, list) and info.kind != "tensor":
            return [self._convert_tensor(info, item) for item in cast("list[object]", value)]
        made = self._convert_tensor(info, value)
        if isinstance(made, Tensor) and info.shape is not None:
            self._check_shape(info, made, sizes)
        return made

    def _convert_tensor(self, info: ValueInfo, value: Any) -> Value:
        if info.element_type == STRING:
            return np.asarray(value, dtype=object)
        wanted = find_carrier(info.element_type)
        if isinstance(value, np.ndarray):
            made = to_tensor(cast("np.ndarray", value), self._device)
        elif isinstance(value, Tensor):
            made = value
        else:
            made = Tensor(value, dtype=wanted, device=self._device)
        if wanted is not None and made.dtype != wanted:
            raise self._refuse(f"input {info.name!r} has dtype {info.dtype}, and was given {made.dtype}")
        return made

    def _check_shape(self, info: ValueInfo, value: Tensor, sizes: dict[str, tuple[str, int]]) -> None:
        assert info.shape is not None
        if len(value.shape) != len(info.shape):
            raise self._refuse(f"input {info.name!r} has {len(info.shape)} axes, and was given shape {value.shape}")
        for axis, (size, wanted) in enumerate(zip(value.shape, info.shape, strict=True)):
            if isinstance(wanted, int) and isinstance(size, int) and size != wanted:
                raise self._refuse(f"axis {axis} of input {info.name!r} has size {wanted}, and was given {size}")
            if isinstance(wanted, str) and isinstance(size, int):
                other, known = sizes.setdefault(wanted, (info.name, size))
                if known != size:
                    raise self._refuse(
                        f"dimension {wanted!r} is {known} in input {other!r} and {size} in input {info.name!r}"
                    )

    def _refuse(self, problem: str) -> ModelInputError:
        return ModelInputError(model=self._title, problem=problem, inputs=[str(info) for info in self.inputs])


def _check_operators(file: ModelFile) -> None:
    missing: list[MissingOperator] = []

    def visit(graph: Graph, read: set[str]) -> None:
        for node in graph.nodes:
            if not is_supported(node):
                wanted = next((name for name in node.outputs if name in read), "")
                missing.append(MissingOperator(node.qualified, node.version, node.title, wanted))
            for inner in node.subgraphs():
                visit(inner, _list_read(inner))

    visit(file.graph, _list_read(file.graph))
    if missing:
        raise UnsupportedOperatorsError(model=file.title, missing=missing)


def _list_read(graph: Graph) -> set[str]:
    return {info.name for info in graph.outputs}.union(*map(iter_reads, graph.nodes))
