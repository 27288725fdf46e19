"""`Model`: the inputs, outputs and metadata of a loaded model, which is called like a function."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final, cast

import numpy as np
import onnx

from svod_onnx._diagnosis import CHECK_ERRORS
from svod_onnx._function_bodies import is_supported
from svod_onnx._graph import Graph, ValueInfo, iter_reads
from svod_onnx._overrides import Overrides
from svod_onnx._plan_cache import PlanCache, get_spec
from svod_onnx._program import Program
from svod_onnx._reading import ModelFile, read_model
from svod_onnx._registry import Value
from svod_onnx._types import HOST_TYPES, STRING, find_carrier, is_host_type
from svod_onnx._values import to_tensor
from svod_onnx.errors import MissingOperator, ModelInputError, UnsupportedOperatorsError
from svod_tensor import PrepareConfig, Tensor

__all__ = ["Model", "load"]


def load(
    source: str | os.PathLike[str] | bytes | onnx.ModelProto,
    *,
    device: str | None = None,
    sizes: Mapping[str, int] | None = None,
    check_indices: bool = False,
) -> Model:
    """Load a model from a path, bytes, or an `onnx.ModelProto`.

    Args:
        source: path, bytes or message.
        device: device of the weights and inputs; by default the CPU, or the device that
            `SVOD_DEVICE` names.
        sizes: largest size of a symbolic dimension, by its name. The first call compiles kernels
            for all sizes from 2 to this size. For other dimensions, the first two sizes compile
            kernels each, and the third size compiles kernels for any size.
        check_indices: whether an index out of bounds, such as of Gather or ScatterND, and an
            integer division by 0 are errors, as in onnxruntime. Otherwise such an element is read
            as 0, and is not written. A check costs a small kernel for each such node, and each call
            then waits for its device. `SVOD_CHECK_OPERANDS=1` enables checks of all models.

    Raises:
        ModelFileError: if the source is not a model, or is inconsistent.
        UnsupportedOperatorsError: if the model needs unsupported operators; the error lists all of
            them.
        ModelInputError: if no input has a dimension that `sizes` names.
    """
    return Model(read_model(source), device, sizes, check_indices=check_indices)


class Model:
    """An ONNX model, the result of `load`, called with its inputs by name.

    Attributes:
        inputs: names, dtypes and shapes of the inputs, with symbolic dimensions.
        outputs: names, dtypes and shapes of the outputs, with symbolic dimensions.
        overridable_inputs: inputs with an initializer as their default, which a call may pass.
            Models before IR version 4 list all weights here.
        metadata: metadata properties of the file.
    """

    def __init__(
        self,
        file: ModelFile,
        device: str | None = None,
        sizes: Mapping[str, int] | None = None,
        *,
        check_indices: bool = False,
    ) -> None:
        self.inputs: Final = file.graph.inputs
        self.outputs: Final = file.graph.outputs
        self.overridable_inputs: Final = file.graph.overridable
        self.metadata: Final = file.metadata
        self._title: Final = file.title
        self._device: Final = device
        self._by_name: Final = {info.name: info for info in self.inputs}
        self._plan_cache: Final = PlanCache()
        config = replace(PrepareConfig.from_env(), check_operands=True) if check_indices else None
        # Before the weights are folded: the error lists all missing operators, and does not take
        # long.
        _check_operators(file)
        self._program: Final = Program(file.graph, {}, device, sizes, config)
        self._overrides: Final[Overrides[Model]] = Overrides(
            file, lambda changed: Model(changed, device, sizes, check_indices=check_indices)
        )
        unknown = set(sizes or {}) - self._program.sizes.dimensions
        if unknown:
            raise self._refuse(f"sizes: no input has a dimension {sorted(unknown)[0]!r}")

    def __call__(self, /, **inputs: Any) -> dict[str, Tensor]:
        """Outputs by name: tensors; numpy arrays for strings and for element types without an svod
        dtype, such as int4; and lists for sequences.

        Args:
            inputs: tensors, arrays or nested lists by name. An optional input, and an input with an
                initializer, may be None or omitted.

        Raises:
            ModelInputError: if an input is missing, unknown, or of the wrong dtype or shape.
            NodeError: if a node cannot be computed.
        """
        try:
            return self._run(inputs)
        except (MemoryError, *CHECK_ERRORS) as error:
            model, given = self._overrides.find(inputs, self) or (self, inputs)
            explanation = model._program.explain(error, model._convert_inputs(given))
            if explanation is None:
                raise
            raise explanation from error

    def _run(self, inputs: dict[str, Any]) -> dict[str, Tensor]:
        spec = get_spec(inputs)
        # Inputs that were checked before, and one plan for all outputs: no node is visited.
        cached = self._plan_cache.find(spec, inputs)
        if cached is not None:
            tensors = cached.function(*[inputs[name] for name in cached.inputs])
            return dict(zip(cached.outputs, tensors, strict=True))
        override = self._overrides.find(inputs, self)
        if override is not None:
            model, given = override
            return model(**given)
        live = self._convert_inputs(inputs, spec)
        results = self._program.run(live, inputs)
        # Only now, when the inputs have passed validation and a plan exists.
        if spec is not None and inputs.keys() == self._by_name.keys():
            names, plan = (
                self._program.get_single_plan(live, inputs) if self._device is None else ((), None)
            )
            self._plan_cache.add(spec, names, inputs, plan)
        return results  # pyright: ignore[reportReturnType]

    def to_function(self) -> Callable[..., Tensor | tuple[Tensor, ...]]:
        """Return a function of tensors in the order of `inputs`, for use in other programs, `jit`
        and `grad`.

        The function returns the only output, or a tuple of the outputs in order. Tensors of a wider
        dtype carry elements of a type without an svod dtype, such as int4. Inputs with an
        initializer may be passed by name.
        """

        def run(*args: Any, **kwargs: Any) -> Any:
            inputs = dict(zip(self._by_name, args, strict=False)) | kwargs
            model, inputs = self._overrides.find(inputs, self) or (self, inputs)
            results = model._program.trace(model._convert_inputs(inputs))
            return next(iter(results.values())) if len(results) == 1 else tuple(results.values())

        run.__name__ = run.__qualname__ = "model"
        return run

    def plans(self) -> list[Any]:
        """Plans (`svod_runtime.ExecutionPlan`) of all calls so far.

        `plan.profile()` returns the time of each kernel.
        """
        overriding = self._overrides.list_models()
        return [plan for model in (self, *overriding) for plan in model._program.plans()]

    def _convert_inputs(self, inputs: Mapping[str, Any], spec: object = None) -> dict[str, Value]:
        if spec is not None and spec in self._plan_cache:
            return {name: to_tensor(inputs[name], self._device) for name in self._by_name}
        return self._check_inputs(inputs)

    def _check_inputs(self, inputs: Mapping[str, Any]) -> dict[str, Value]:
        unknown = inputs.keys() - self._by_name.keys()
        missing = [
            name
            for name, info in self._by_name.items()
            if name not in inputs and info.kind != "optional"
        ]
        if unknown or missing:
            problem = (
                f"unknown input {sorted(unknown)[0]!r}"
                if unknown
                else f"missing input {missing[0]!r}"
            )
            raise self._refuse(problem)
        sizes: dict[str, tuple[str, int]] = {}
        return {
            name: self._convert(info, inputs.get(name), sizes)
            for name, info in self._by_name.items()
        }

    def _convert(self, info: ValueInfo, value: Any, sizes: dict[str, tuple[str, int]]) -> Value:
        if info.kind == "optional" and value is None:
            return None
        if isinstance(value, list) and info.kind != "tensor":
            return [self._convert_tensor(info, item) for item in cast("list[object]", value)]
        converted = self._convert_tensor(info, value)
        if isinstance(converted, Tensor) and info.shape is not None:
            self._check_shape(info, converted, sizes)
        return converted

    def _convert_tensor(self, info: ValueInfo, value: Any) -> Value:
        if info.key_type:
            return self._check_map(info, value)
        if info.element_type == STRING:
            return np.asarray(value, dtype=object)
        dtype, host_type = find_carrier(info.element_type), HOST_TYPES.get(info.element_type)
        # Lists carry no dtype, so they get the declared one.
        if host_type is not None and not isinstance(value, np.ndarray | Tensor):
            value = np.array(value, host_type)
        if isinstance(value, np.ndarray):
            array = cast("np.ndarray", value)
            # Before the conversion: a wider dtype carries int4, and holds other values too.
            if not is_host_type(array.dtype, info.element_type):
                raise self._refuse(
                    f"input {info.name!r}: expected dtype {host_type or info.dtype}, got {array.dtype}"
                )
            tensor = to_tensor(array, self._device)
        elif isinstance(value, Tensor):
            tensor = value
        else:
            tensor = Tensor(value, dtype=dtype, device=self._device)
        # Not converted: a wrong dtype is more often a mistake of the caller than a wish.
        if dtype is not None and tensor.dtype != dtype:
            raise self._refuse(
                f"input {info.name!r}: expected dtype {info.dtype}, got {tensor.dtype}"
            )
        return tensor

    def _check_map(self, info: ValueInfo, value: Any) -> Value:
        kind = str if info.key_type == STRING else int
        if isinstance(value, dict) and all(isinstance(key, kind) for key in cast("Any", value)):
            return cast("Value", value)
        raise self._refuse(f"input {info.name!r}: expected a dict with {kind.__name__} keys")

    def _check_shape(
        self, info: ValueInfo, value: Tensor, sizes: dict[str, tuple[str, int]]
    ) -> None:
        assert info.shape is not None
        if len(value.shape) != len(info.shape):
            raise self._refuse(
                f"input {info.name!r}: expected rank {len(info.shape)}, got shape {value.shape}"
            )
        for axis, (size, expected) in enumerate(zip(value.shape, info.shape, strict=True)):
            # In a traced function, sizes may be variables, which a declared size cannot be compared
            # with.
            if isinstance(expected, int) and isinstance(size, int) and size != expected:
                raise self._refuse(
                    f"input {info.name!r}: expected size {expected} on axis {axis}, got {size}"
                )
            if isinstance(expected, str) and isinstance(size, int):
                # A name has one size in all inputs of a call.
                first, known = sizes.setdefault(expected, (info.name, size))
                if known != size:
                    raise self._refuse(
                        f"dimension {expected!r} is {known} in input {first!r} and {size} in input {info.name!r}"
                    )

    def _refuse(self, problem: str) -> ModelInputError:
        return ModelInputError(
            model=self._title, problem=problem, inputs=[str(info) for info in self.inputs]
        )


def _check_operators(file: ModelFile) -> None:
    missing: list[MissingOperator] = []

    def visit(graph: Graph, read: set[str]) -> None:
        for node in graph.nodes:
            if not is_supported(node):
                # Nodes may declare outputs that no other node reads.
                output = next((name for name in node.outputs if name in read), "")
                missing.append(MissingOperator(node.qualified, node.version, node.title, output))
            for inner in node.subgraphs():
                visit(inner, _list_read(inner))

    visit(file.graph, _list_read(file.graph))
    if missing:
        raise UnsupportedOperatorsError(model=file.title, missing=missing)


def _list_read(graph: Graph) -> set[str]:
    return {info.name for info in graph.outputs}.union(*map(iter_reads, graph.nodes))
