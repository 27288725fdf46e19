"""`Model`: the inputs, outputs and metadata of a loaded model, which is called like a function."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import onnx

from svod_onnx._diagnosis import CHECK_ERRORS
from svod_onnx._function_bodies import is_supported
from svod_onnx._graph import Graph, iter_reads
from svod_onnx._inputs import Inputs
from svod_onnx._options import MAX_PLANS, ModelOptions
from svod_onnx._overrides import Overrides
from svod_onnx._plan_cache import PlanCache, get_spec
from svod_onnx._program import Program
from svod_onnx._reading import ModelFile, read_model
from svod_onnx._registry import Value
from svod_onnx._values import to_tensor
from svod_onnx.errors import MissingOperator, ModelOutputError, UnsupportedOperatorsError
from svod_tensor import Tensor

__all__ = ["Model", "load"]


def load(
    source: str | os.PathLike[str] | bytes | onnx.ModelProto,
    *,
    device: str | None = None,
    sizes: Mapping[str, int] | None = None,
    outputs: Sequence[str] | None = None,
    check_indices: bool = False,
    threads: int | None = None,
    max_plans: int = MAX_PLANS,
) -> Model:
    """Load a model from a path, bytes, or an `onnx.ModelProto`.

    Args:
        source: path, bytes or message.
        device: device of the weights and inputs; by default the CPU, or the device that
            `SVOD_DEVICE` names.
        sizes: largest size of a symbolic dimension, by its name. The first call compiles kernels
            for all sizes from 2 to this size. For other dimensions, the first two sizes compile
            kernels each, and the third size compiles kernels for any size.
        outputs: names of the outputs that calls return, in this order; by default all of the
            model's. Nodes that only other outputs need are not computed.
        check_indices: whether an index out of bounds, such as of Gather or ScatterND, and an
            integer division by 0 are errors, as in onnxruntime. Otherwise such an element is read
            as 0, and is not written. A check costs a small kernel for each such node, and each call
            then waits for its device. `SVOD_CHECK_OPERANDS=1` enables checks of all models.
        threads: maximum number of threads of a kernel; by default all of the device's
            (`SVOD_THREADS`).
        max_plans: maximum number of plans that are kept, each with memory for intermediates: plans
            for other fixed sizes, and for other values that shapes or branches depend on. The least
            recently used one is dropped first.

    Raises:
        ModelFileError: if the source is not a model, or is inconsistent.
        UnsupportedOperatorsError: if the model needs unsupported operators; the error lists all of
            them.
        ModelInputError: if no input has a dimension that `sizes` names.
        ModelOutputError: if the model has no output that `outputs` names.
        ModelOptionError: if `threads` or `max_plans` is less than 1.
    """
    options = ModelOptions(
        device=device,
        sizes=dict(sizes or {}),
        check_indices=check_indices,
        threads=threads,
        max_plans=max_plans,
    )
    return _load(source, outputs, options)


class Model:
    """An ONNX model, the result of `load`, called with its inputs by name.

    A model that was loaded from a path or from bytes is pickled as these and its options.

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
        options: ModelOptions | None = None,
        origin: tuple[str | bytes, Sequence[str] | None] | None = None,
    ) -> None:
        options = options or ModelOptions()
        self.inputs: Final = file.graph.inputs
        self.outputs: Final = file.graph.outputs
        self.overridable_inputs: Final = file.graph.overridable
        self.metadata: Final = file.metadata
        self._options: Final = options
        self._origin: Final = origin
        self._title: Final = file.title
        self._device: Final = options.device
        self._inputs: Final = Inputs(file.title, self.inputs, options.device)
        self._plan_cache: Final = PlanCache(options.max_plans)
        # Before the weights are folded: the error lists all missing operators, and does not take
        # long.
        _check_operators(file)
        self._program: Final = Program(file.graph, {}, options)
        self._overrides: Final[Overrides[Model]] = Overrides(
            file, lambda changed: Model(changed, options)
        )
        unknown = set(options.sizes) - self._program.sizes.dimensions
        if unknown:
            raise self._inputs.refuse(f"sizes: no input has a dimension {sorted(unknown)[0]!r}")

    def __repr__(self) -> str:
        inputs, outputs = ("; ".join(map(str, infos)) for infos in (self.inputs, self.outputs))
        return f"Model({self._title!r}, inputs: {inputs}, outputs: {outputs})"

    def __reduce__(self) -> tuple[object, ...]:
        if self._origin is None:
            raise TypeError(
                f"cannot pickle {self!r}, which was loaded from a message: load it from a path or bytes"
            )
        return _load, (*self._origin, self._options)

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
            return cached.run(inputs)
        override = self._overrides.find(inputs, self)
        if override is not None:
            model, given = override
            return model(**given)
        live = self._convert_inputs(inputs, spec)
        results = self._program.run(live, inputs)
        # Only now, when the inputs have passed validation and a plan exists.
        if spec is not None and inputs.keys() == set(self._inputs.names):
            names, plan = (
                self._program.get_single_plan(live, inputs) if self._device is None else ((), None)
            )
            self._plan_cache.add(spec, names, inputs, plan)
        return results  # pyright: ignore[reportReturnType]

    def warm(self, sizes: Mapping[str, int] | Sequence[Mapping[str, int]] = ()) -> None:
        """Compile kernels before the first call, by calls on zeros.

        Args:
            sizes: sizes of the symbolic dimensions, by name (an unnamed dimension is `x[0]`, by
                input and axis), or several of these. Three sizes of one dimension compile kernels
                for any size.

        Raises:
            ModelInputError: if a size is missing, or an input is not a tensor of numbers.

        Example:
            >>> import onnx.parser
            >>> import svod_onnx
            >>> model = svod_onnx.load(onnx.parser.parse_model('''
            ...     <ir_version: 10, opset_import: ["" : 21]>
            ...     negate (float[n, 3] x) => (float[n, 3] y) { y = Neg(x) }
            ... '''))
            >>> model.warm({"n": 8})
            >>> len(model.plans())
            1
        """
        for case in [sizes] if isinstance(sizes, Mapping) else list(sizes) or [{}]:
            self(**self._inputs.make_zeros(case))

    def to_function(self) -> Callable[..., Tensor | tuple[Tensor, ...]]:
        """Return a function of tensors in the order of `inputs`, for use in other programs, `jit`
        and `grad`.

        The function returns the only output, or a tuple of the outputs in order. Tensors of a wider
        dtype carry elements of a type without an svod dtype, such as int4. Inputs with an
        initializer may be passed by name.
        """

        def run(*args: Any, **kwargs: Any) -> Any:
            inputs = dict(zip(self._inputs.names, args, strict=False)) | kwargs
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
            return {name: to_tensor(inputs[name], self._device) for name in self._inputs.names}
        return self._inputs.convert(inputs)


def _load(
    source: str | os.PathLike[str] | bytes | onnx.ModelProto,
    outputs: Sequence[str] | None,
    options: ModelOptions,
) -> Model:
    """The model of `load`, and of a pickle."""
    file = read_model(source)
    if outputs is not None:
        file = replace(file, graph=_select_outputs(file, outputs))
    # Not a message, which would keep its weights in memory a second time.
    origin: tuple[str | bytes, Sequence[str] | None] | None = None
    if isinstance(source, bytes):
        origin = source, outputs
    elif not isinstance(source, onnx.ModelProto):
        origin = os.path.abspath(os.fspath(source)), outputs
    return Model(file, options, origin)


def _select_outputs(file: ModelFile, names: Sequence[str]) -> Graph:
    known = {info.name: info for info in file.graph.outputs}
    for name in names:
        if name not in known:
            raise ModelOutputError(model=file.title, name=name, outputs=list(known))
    return file.graph.select([known[name] for name in names])


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
