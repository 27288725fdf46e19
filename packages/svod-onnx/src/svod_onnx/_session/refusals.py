"""Messages of onnxruntime for inputs that a model refuses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from svod_onnx._graph import ValueInfo
from svod_onnx._session.metadata import name_tensor_type
from svod_onnx._types import get_element_type

__all__ = ["explain_inputs"]


def explain_inputs(infos: Mapping[str, ValueInfo], feed: Mapping[str, Any]) -> str | None:
    """First difference of the inputs from their declarations; None if all agree."""
    for name, value in feed.items():
        info = infos.get(name)
        if info is None:
            return f"Invalid input name: {name}"
        if info.kind == "tensor" and hasattr(value, "dtype") and hasattr(value, "shape"):
            problem = _explain_tensor(info, value)
            if problem is not None:
                return problem
    return None


def _explain_tensor(info: ValueInfo, value: Any) -> str | None:
    actual = _name_type(value.dtype)
    expected = name_tensor_type(info.element_type)
    if actual != expected:
        return (
            f"Unexpected input data type for input: {info.name}."
            f" Actual: ({actual}) , expected: ({expected})"
        )
    if info.shape is None:
        return None
    shape = cast("tuple[int, ...]", tuple(value.shape))
    if len(shape) != len(info.shape):
        return (
            f"Invalid rank for input: {info.name} Got: {len(shape)} Expected: {len(info.shape)}"
            " Please fix either the inputs/outputs or the model."
        )
    wrong = [
        f" index: {axis} Got: {size} Expected: {expected}"
        for axis, (size, expected) in enumerate(zip(shape, info.shape, strict=True))
        if isinstance(expected, int) and size != expected
    ]
    if not wrong:
        return None
    lines = "\n".join(wrong)
    return (
        f"Got invalid dimensions for input: {info.name} for the following indices\n{lines}\n"
        " Please fix either the inputs/outputs or the model."
    )


def _name_type(dtype: Any) -> str:
    try:
        return name_tensor_type(get_element_type(dtype))
    except (KeyError, TypeError, AttributeError):
        # A dtype of another library, or one that ONNX does not have.
        return str(dtype)
