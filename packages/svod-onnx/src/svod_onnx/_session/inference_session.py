"""`InferenceSession`: a model with the interface of onnxruntime."""

from __future__ import annotations

import os
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final, cast

import numpy as np
from google.protobuf.message import DecodeError

from svod_onnx._graph import ValueInfo
from svod_onnx._model import Model
from svod_onnx._options import ModelOptions
from svod_onnx._reading import read_model
from svod_onnx._session.host_values import to_host_value, to_host_values
from svod_onnx._session.io_binding import IOBinding, run_binding
from svod_onnx._session.maps import convert_maps, separate_maps
from svod_onnx._session.metadata import ModelMetadata, NodeArg, make_metadata, make_node_arg
from svod_onnx._session.options import RunOptions, SessionOptions, apply_options, list_providers
from svod_onnx._session.ort_value import OrtValue, get_value
from svod_onnx._session.providers import find_device, get_default_device, read_providers
from svod_onnx._session.refusals import explain_inputs
from svod_onnx.capi.onnxruntime_pybind11_state import (
    Fail,
    InvalidArgument,
    InvalidGraph,
    InvalidProtobuf,
    NoSuchFile,
    NotImplemented as UnsupportedError,
)
from svod_onnx.errors import (
    ModelFileError,
    ModelInputError,
    NodeError,
    UnsupportedOperatorsError,
)
from svod_tensor.errors import UserError

__all__ = ["InferenceSession"]

_ARRAY: Final = np.ndarray


class InferenceSession:
    """A model with the interface of onnxruntime's `InferenceSession`.

    Threads may use one session at the same time.

    Args:
        path_or_bytes: path or bytes of the model.
        sess_options: options.
        providers: names of execution providers, or pairs of a name and options, in order of
            precedence. The first that is installed is the device of the model; a warning names
            the others. `<DEVICE>ExecutionProvider` names a device of svod.
        provider_options: options of each provider, if `providers` has names only.
        settings: settings of onnxruntime's fallback, which have no effect.

    Raises:
        NoSuchFile: if there is no such file.
        InvalidProtobuf: if the file is not a model.
        InvalidGraph: if the model is inconsistent.
        NotImplemented: if the model needs unsupported operators; the error lists all of them.

    Example:
        >>> import numpy as np
        >>> import onnx.parser
        >>> import svod_onnx as ort
        >>> session = ort.InferenceSession(onnx.parser.parse_model('''
        ...     <ir_version: 10, opset_import: ["" : 21]>
        ...     square (float[n] x) => (float[n] y) { y = Mul(x, x) }
        ... ''').SerializeToString())
        >>> session.get_inputs()[0].name, session.get_outputs()[0].shape
        ('x', ['n'])
        >>> session.run(None, {"x": np.array([2, 3], np.float32)})
        [array([4., 9.], dtype=float32)]
        >>> session.get_modelmeta().graph_name, session.get_overridable_initializers()
        ('square', [])
        >>> x = ort.OrtValue.ortvalue_from_numpy(np.array([2, 3], np.float32))
        >>> session.run_with_ort_values(["y"], {"x": x})[0].numpy()
        array([4., 9.], dtype=float32)
        >>> binding = session.io_binding()
        >>> binding.bind_ortvalue_input("x", x)
        >>> binding.bind_output("y")
        >>> session.run_with_iobinding(binding)
        >>> session.set_providers(["CPUExecutionProvider"])
        >>> session.get_providers(), session.get_provider_options()
        (['CPUExecutionProvider'], {'CPUExecutionProvider': {}})
        >>> session.get_session_options().enable_profiling, session.end_profiling()
        (False, '')
        >>> session.get_profiling_start_time_ns() > 0
        True
        >>> session.disable_fallback()
        >>> session.enable_fallback()

        A call in another thread:

        >>> from threading import Event
        >>> done, calls = Event(), []
        >>> def callback(results, data, error):
        ...     calls.append(error or results)
        ...     data.set()
        >>> session.run_async(None, {"x": [1, 2]}, callback, done)
        >>> done.wait(60), calls
        (True, [[array([1., 4.], dtype=float32)]])
    """

    def __init__(
        self,
        path_or_bytes: str | bytes | os.PathLike[str],
        sess_options: SessionOptions | None = None,
        providers: Sequence[str | tuple[str, Mapping[Any, Any]]] | None = None,
        provider_options: Sequence[Mapping[Any, Any]] | None = None,
        **settings: object,
    ) -> None:
        del settings
        if not isinstance(cast("object", path_or_bytes), str | bytes | os.PathLike):
            raise TypeError(f"Unable to load from type '{type(path_or_bytes)}'")
        if not isinstance(cast("object", sess_options), SessionOptions | None):
            raise TypeError(f"sess_options: expected SessionOptions, got {sess_options!r}")
        self._source: Final = (
            path_or_bytes if isinstance(path_or_bytes, bytes) else os.fspath(path_or_bytes)
        )
        # For a pickle, which another folder may be current for.
        self._origin: Final = (
            self._source if isinstance(self._source, bytes) else os.path.abspath(self._source)
        )
        self._options: Final = SessionOptions() if sess_options is None else sess_options
        self._executor: ThreadPoolExecutor | None = None
        self._start_ns = time.monotonic_ns()
        self._load(providers, provider_options)

    def _load(self, providers: Any, provider_options: Any) -> None:
        options = self._options
        if providers is None and options.has_providers():
            added = list_providers(options)
            providers, provider_options = list(added), list(added.values())
        read = read_providers(providers, provider_options)
        device = find_device(*next(iter(read.items())))
        try:
            file = apply_options(options, read_model(self._source))
            graph, maps = separate_maps(file.graph)
            model_options = ModelOptions(
                # None for the default device, on which calls read arrays without a copy.
                device=None if providers is None or device == get_default_device() else device,
                threads=options.intra_op_num_threads if options.intra_op_num_threads > 0 else None,
            )
            model = Model(replace(file, graph=graph), model_options)
        except ModelFileError as error:
            raise _translate_file_error(error) from error
        except UnsupportedOperatorsError as error:
            raise UnsupportedError(error.headline, notes=error.notes, hint=error.hint) from error
        # Only now: a session whose providers could not be set stays as it was.
        self._file, self._model, self._model_options = file, model, model_options
        self._providers, self._maps = read, maps
        self._requested = providers, provider_options
        self._names = [info.name for info in file.graph.outputs]
        self._selected: dict[tuple[str, ...], Model] = {}
        self._inputs = {info.name: info for info in file.graph.inputs}
        self._defaults = {info.name: info for info in file.graph.overridable}

    def __reduce__(self) -> tuple[object, ...]:
        return InferenceSession, (self._origin, self._options, *self._requested)

    def run(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        run_options: RunOptions | None = None,
    ) -> list[Any]:
        """Outputs in the order of `output_names`: arrays that the caller owns, lists of arrays
        for sequences, and lists of dicts for the maps of a classifier.

        Args:
            output_names: names of outputs; None for all.
            input_feed: arrays, lists or `OrtValue`s by name.
            run_options: options of the call.

        Raises:
            ModelInputError: if an input is missing.
            InvalidArgument: if an input is unknown or of the wrong dtype or shape, or if the model
                has no such output.
            Fail: if a node cannot be computed.
        """
        for value in input_feed.values():
            if type(value) is not _ARRAY:
                input_feed = {name: _unwrap(value) for name, value in input_feed.items()}
                break
        model = self._model
        if run_options is not None:
            model = self._apply(run_options, output_names) or model
        try:
            results = model(**input_feed)
        except (ModelInputError, NodeError) as error:
            raise self._translate(error, input_feed) from error
        if self._maps:
            names = output_names or self._names
            if set(names) <= set(self._names):
                results = convert_maps(results, names, self._maps)
        if not output_names:
            values = results.values()
        else:
            if isinstance(output_names, str):
                raise TypeError(f"output_names: expected a list of names, got {output_names!r}")
            try:
                values = [results[name] for name in output_names]
            except KeyError:
                raise self._refuse_outputs(output_names) from None
        if len(values) == 1:
            # The common case, without a list of the outputs that are compared.
            return [to_host_value(value) for value in values]
        return to_host_values(values)

    def run_async(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        callback: Callable[[list[Any], Any, str], object],
        user_data: Any,
        run_options: RunOptions | None = None,
    ) -> None:
        """Call `callback(results, user_data, error)` from another thread when the call is done.

        `error` is "" or a message, with which `results` is empty.
        """
        self._check_missing(input_feed)
        if self._executor is None:
            self._executor = ThreadPoolExecutor(thread_name_prefix="svod-onnx")
        self._executor.submit(
            self._run_callback, output_names, input_feed, callback, user_data, run_options
        )

    def _run_callback(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        callback: Callable[[list[Any], Any, str], object],
        user_data: Any,
        run_options: RunOptions | None,
    ) -> None:
        try:
            finish = partial(
                callback, self.run(output_names, input_feed, run_options), user_data, ""
            )
        except Exception as error:
            finish = partial(callback, [], user_data, str(error) or repr(error))
        try:
            finish()
        except Exception:
            traceback.print_exc()

    def run_with_ort_values(
        self,
        output_names: Sequence[str] | None,
        input_dict_ort_values: Mapping[str, OrtValue],
        run_options: RunOptions | None = None,
    ) -> list[OrtValue]:
        """`run` with `OrtValue`s as inputs and outputs."""
        return list(map(OrtValue, self.run(output_names, input_dict_ort_values, run_options)))

    def io_binding(self) -> IOBinding:
        """A new `IOBinding`."""
        return IOBinding(self)

    def run_with_iobinding(
        self, iobinding: IOBinding, run_options: RunOptions | None = None
    ) -> None:
        """Run on the bound inputs, and store the bound outputs.

        Raises:
            RuntimeException: if no output is bound, or the memory of one does not fit.
        """
        run_binding(iobinding, self, run_options)

    def get_inputs(self) -> list[NodeArg]:
        """Declarations of the inputs."""
        return list(map(make_node_arg, self._file.graph.inputs))

    def get_outputs(self) -> list[NodeArg]:
        """Declarations of the outputs."""
        return [
            self._maps[info.name].declaration if info.name in self._maps else make_node_arg(info)
            for info in self._file.graph.outputs
        ]

    def get_overridable_initializers(self) -> list[NodeArg]:
        """Declarations of the inputs with an initializer as their default."""
        return list(map(make_node_arg, self._file.graph.overridable))

    def get_modelmeta(self) -> ModelMetadata:
        """Texts and versions of the model."""
        return make_metadata(self._file)

    def get_session_options(self) -> SessionOptions:
        """Options of the session."""
        return self._options

    def get_providers(self) -> list[str]:
        """Names of the execution providers; the first is the device of the model."""
        return list(self._providers)

    def get_provider_options(self) -> dict[str, dict[str, str]]:
        """Options of the execution providers."""
        return {name: dict(options) for name, options in self._providers.items()}

    def set_providers(
        self,
        providers: Sequence[str | tuple[str, Mapping[Any, Any]]] | None = None,
        provider_options: Sequence[Mapping[Any, Any]] | None = None,
    ) -> None:
        """Load the model again for other execution providers."""
        self._load(providers, provider_options)

    def disable_fallback(self) -> None:
        """Do nothing: no call falls back to another provider."""

    def enable_fallback(self) -> None:
        """Do nothing: no call falls back to another provider."""

    def end_profiling(self) -> str:
        """Write a trace for ui.perfetto.dev of each plan so far, with the option
        `enable_profiling`, and return the path of the first; "" without the option.
        """
        if not self._options.enable_profiling:
            return ""
        start = time.strftime("%Y-%m-%d_%H-%M-%S")
        path = Path(f"{self._options.profile_file_prefix}_{start}.json")
        models = (self._model, *self._selected.values())
        plans = [plan for model in models for plan in model.plans()]
        for i, plan in enumerate(plans):
            plan.profile().save_trace(path if not i else path.with_stem(f"{path.stem}-{i}"))
        return str(path) if plans else ""

    def get_profiling_start_time_ns(self) -> int:
        """Time at which the session was made, in the unit and epoch of `time.monotonic_ns`."""
        return self._start_ns

    @property
    def model(self) -> Model:
        """The model: its `plans`, its `to_function`, and calls with tensors."""
        return self._model

    def _apply(self, options: RunOptions, names: Sequence[str] | None) -> Model | None:
        """A model of the chosen outputs if the options want only these to be computed."""
        if not isinstance(cast("object", options), RunOptions):
            raise TypeError(f"run_options: expected RunOptions, got {options!r}")
        if options.terminate:
            raise Fail("Exiting due to terminate flag being set to true.")
        if not (options.only_execute_path_to_fetches and names):
            return None
        chosen = tuple(dict.fromkeys(names))
        if not set(chosen) <= set(self._names):
            raise self._refuse_outputs(names)
        model = self._selected.get(chosen)
        if model is None:
            infos = {info.name: info for info in self._file.graph.outputs}
            graph = self._file.graph.select([infos[name] for name in chosen])
            graph, _ = separate_maps(graph)
            model = Model(replace(self._file, graph=graph), self._model_options)
            self._selected[chosen] = model
        return model

    def _refuse_outputs(self, names: Sequence[str]) -> InvalidArgument:
        wrong = next(name for name in names if name not in self._names)
        note = f"outputs: {', '.join(self._names)}"
        return InvalidArgument(f"Invalid output name: {wrong}", notes=(note,))

    def _check_missing(self, feed: Mapping[str, Any]) -> None:
        missing = [
            name
            for name, info in self._inputs.items()
            if name not in feed and info.kind != "optional"
        ]
        if missing:
            raise ModelInputError(
                model=self._file.title,
                problem=f"Required inputs ({missing}) are missing from input feed ({list(feed)}).",
                inputs=list(map(str, self._inputs.values())),
            )

    def _translate(self, error: UserError, feed: Mapping[str, Any]) -> UserError:
        """The error of onnxruntime's kind for an error of the model."""
        if isinstance(error, NodeError):
            return Fail(error.headline, notes=error.notes, hint=error.hint)
        self._check_missing(feed)
        infos: dict[str, ValueInfo] = {**self._inputs, **self._defaults}
        problem = explain_inputs(infos, feed) or error.headline
        return InvalidArgument(problem, notes=error.notes, hint=error.hint)


def _unwrap(value: Any) -> Any:
    if isinstance(value, OrtValue):
        return get_value(value)
    return np.asarray(cast("Any", value)) if isinstance(value, np.generic) else value


def _translate_file_error(error: ModelFileError) -> UserError:
    kind = InvalidGraph
    if isinstance(error.__cause__, OSError):
        kind = NoSuchFile
    elif isinstance(error.__cause__, DecodeError):
        kind = InvalidProtobuf
    return kind(error.headline, notes=error.notes, hint=error.hint)
