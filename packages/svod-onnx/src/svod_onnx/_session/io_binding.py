"""`IOBinding`: inputs and outputs of repeated calls, in memory of the caller."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, cast

import numpy as np

from svod_onnx._session.host_values import check_device, view_memory
from svod_onnx._session.ort_value import OrtValue, get_value
from svod_onnx.capi.onnxruntime_pybind11_state import Fail, InvalidArgument, RuntimeException
from svod_onnx.errors import ModelInputError

__all__ = ["IOBinding", "run_binding"]


class IOBinding:
    """Inputs and outputs of `InferenceSession.run_with_iobinding`, by name.

    An input is read, and an output in memory of the caller is written, at each call.

    Args:
        session: the session that calls use.

    Example:
        >>> import numpy as np
        >>> import onnx.parser
        >>> from svod_onnx import InferenceSession
        >>> session = InferenceSession(onnx.parser.parse_model('''
        ...     <ir_version: 10, opset_import: ["" : 21]>
        ...     square (float[n] x) => (float[n] y) { y = Mul(x, x) }
        ... ''').SerializeToString())
        >>> binding = session.io_binding()
        >>> x, y = np.array([2, 3], np.float32), np.zeros(2, np.float32)
        >>> binding.bind_cpu_input("x", x)
        >>> binding.bind_output("y", "cpu", 0, np.float32, y.shape, y.ctypes.data)
        >>> session.run_with_iobinding(binding)
        >>> y.tolist()
        [4.0, 9.0]

        With values instead of arrays, and outputs that the session allocates:

        >>> from svod_onnx import OrtValue
        >>> binding.bind_ortvalue_input("x", OrtValue.ortvalue_from_numpy(x + 1))
        >>> binding.bind_ortvalue_output("y", OrtValue.ortvalue_from_numpy(y))
        >>> binding.synchronize_inputs()
        >>> session.run_with_iobinding(binding)
        >>> binding.synchronize_outputs()
        >>> y.tolist(), binding.get_outputs()[0].shape()
        ([9.0, 16.0], [2])
        >>> binding.clear_binding_outputs()
        >>> binding.clear_binding_inputs()
        >>> binding.bind_input("x", "cpu", 0, np.float32, x.shape, x.ctypes.data)
        >>> binding.bind_output("y")
        >>> session.run_with_iobinding(binding)
        >>> binding.copy_outputs_to_cpu(), len(binding.get_outputs_as_ortvaluevector())
        ([array([4., 9.], dtype=float32)], 1)
    """

    def __init__(self, session: Any) -> None:
        self._session: Final = session
        self._names: Final = {
            arg.name for arg in (*session.get_inputs(), *session.get_overridable_initializers())
        }
        self._inputs: Final[dict[str, OrtValue]] = {}
        # None for an output that the session allocates.
        self._outputs: Final[dict[str, OrtValue | None]] = {}
        self._results: list[OrtValue] = []

    def bind_cpu_input(self, name: str, arr_on_cpu: np.ndarray) -> None:
        """Bind an input to an array."""
        self.bind_ortvalue_input(name, OrtValue.ortvalue_from_numpy(arr_on_cpu))

    def bind_input(
        self,
        name: str,
        device_type: str,
        device_id: int,
        element_type: Any,
        shape: Sequence[int],
        buffer_ptr: int,
    ) -> None:
        """Bind an input to memory of the caller, who keeps it alive.

        Args:
            name: name of the input.
            device_type: "cpu".
            device_id: 0.
            element_type: a numpy dtype, or an ONNX element type.
            shape: sizes of the tensor.
            buffer_ptr: address of the first element.
        """
        check_device(device_type, device_id)
        self.bind_ortvalue_input(name, OrtValue(view_memory(element_type, shape, buffer_ptr)))

    def bind_ortvalue_input(self, name: str, ortvalue: OrtValue) -> None:
        """Bind an input to a value.

        Raises:
            RuntimeException: if the model has no such input.
        """
        if name not in self._names:
            raise RuntimeException(f"Failed to find NodeArg with name: {name} in the def list")
        self._inputs[name] = ortvalue

    def bind_output(
        self,
        name: str,
        device_type: str = "cpu",
        device_id: int = 0,
        element_type: Any = None,
        shape: Sequence[int] | None = None,
        buffer_ptr: int | None = None,
    ) -> None:
        """Bind an output to memory of the caller, or without `buffer_ptr` to memory that the session
        allocates in each call.
        """
        check_device(device_type, device_id)
        if buffer_ptr is None:
            self._outputs[name] = None
            return
        if element_type is None or shape is None:
            raise ValueError(
                "`element_type` and `shape` are to be provided if pre-allocated memory is provided"
            )
        self._outputs[name] = OrtValue(view_memory(element_type, shape, buffer_ptr))

    def bind_ortvalue_output(self, name: str, ortvalue: OrtValue) -> None:
        """Bind an output to the memory of a value."""
        self._outputs[name] = ortvalue

    def synchronize_inputs(self) -> None:
        """Do nothing: inputs are in host memory."""

    def synchronize_outputs(self) -> None:
        """Do nothing: a call returns when its outputs are computed."""

    def get_outputs(self) -> list[OrtValue]:
        """Outputs of the last call, in the order in which they were bound."""
        return list(self._results)

    def get_outputs_as_ortvaluevector(self) -> list[OrtValue]:
        """Outputs of the last call, as `get_outputs`."""
        return self.get_outputs()

    def copy_outputs_to_cpu(self) -> list[Any]:
        """Copies of the outputs of the last call: arrays, and lists of arrays."""
        return [_copy(get_value(result)) for result in self._results]

    def clear_binding_inputs(self) -> None:
        """Remove the bound inputs."""
        self._inputs.clear()

    def clear_binding_outputs(self) -> None:
        """Remove the bound outputs and the results."""
        self._outputs.clear()
        self._results = []

    def _run(self, session: object, options: Any) -> None:
        if session is not self._session:
            raise ValueError("IOBinding must be used with the session that created it.")
        if not self._outputs:
            raise RuntimeException("Error in execution: At least one output should be requested.")
        feed = {name: get_value(value) for name, value in self._inputs.items()}
        try:
            values = self._session.run(list(self._outputs), feed, options)
        except (InvalidArgument, ModelInputError, Fail) as error:
            problem = f"Error in execution: {error.headline}"
            raise RuntimeException(problem, notes=error.notes, hint=error.hint) from error
        self._results = list(_store(self._outputs, values))


def run_binding(binding: IOBinding, session: object, options: Any = None) -> None:
    """Run the session on the bound inputs, and store the bound outputs."""
    binding._run(session, options)  # pyright: ignore[reportPrivateUsage]


def _store(outputs: Mapping[str, OrtValue | None], values: Sequence[Any]) -> Iterator[OrtValue]:
    for (name, target), value in zip(outputs.items(), values, strict=True):
        if target is None:
            yield OrtValue(value)
            continue
        memory = target.numpy()
        if memory.shape != value.shape or memory.dtype != value.dtype:
            raise RuntimeException(
                f"The memory bound to output {name!r} has {memory.dtype}{memory.shape}, but the"
                f" output has {value.dtype}{value.shape}"
            )
        np.copyto(memory, value)
        yield target


def _copy(value: Any) -> Any:
    if isinstance(value, list):
        return list(map(_copy, cast("list[Any]", value)))
    # Maps are dicts.
    return dict(cast("dict[Any, Any]", value)) if isinstance(value, dict) else np.array(value)
