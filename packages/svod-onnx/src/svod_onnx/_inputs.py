"""Inputs of calls: conversion to tensors, and checks of dtypes and shapes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

import numpy as np

from svod_onnx._graph import ValueInfo
from svod_onnx._registry import Value
from svod_onnx._size_variables import name_axis
from svod_onnx._types import HOST_TYPES, STRING, find_carrier, is_host_type
from svod_onnx._values import is_opaque, to_tensor
from svod_onnx.errors import ModelInputError
from svod_tensor import Tensor

__all__ = ["Inputs"]


class Inputs:
    """The declared inputs of a model.

    Args:
        title: name of the model in errors.
        infos: declarations.
        device: device of the tensors.
    """

    def __init__(self, title: str, infos: Sequence[ValueInfo], device: str | None) -> None:
        self._title: Final = title
        self._device: Final = device
        self._by_name: Final = {info.name: info for info in infos}

    @property
    def names(self) -> list[str]:
        """Names of the inputs, in order."""
        return list(self._by_name)

    def make_zeros(self, sizes: Mapping[str, int]) -> dict[str, np.ndarray]:
        """Arrays of zeros for all inputs.

        Args:
            sizes: sizes of symbolic dimensions, by name.

        Raises:
            ModelInputError: if a size is missing, or an input is not a tensor of numbers.
        """
        arrays: dict[str, np.ndarray] = {}
        for info in self._by_name.values():
            if info.kind == "optional":
                continue
            carrier = find_carrier(info.element_type)
            if info.kind != "tensor" or info.key_type or carrier is None or info.shape is None:
                raise self.refuse(f"input {info.name!r} is not a tensor of numbers of a known rank")
            shape: list[int] = []
            for axis in range(len(info.shape)):
                name, size = name_axis(info, axis), info.shape[axis]
                if name is not None and name not in sizes:
                    raise self.refuse(f"no size for the dimension {name!r} of input {info.name!r}")
                shape.append(cast("int", size) if name is None else sizes[name])
            dtype = HOST_TYPES.get(info.element_type)
            arrays[info.name] = np.zeros(shape, carrier.numpy if dtype is None else dtype)
        return arrays

    def convert(self, inputs: Mapping[str, Any]) -> dict[str, Value]:
        """Tensors, string arrays and sequences for the inputs of a call.

        Raises:
            ModelInputError: if an input is missing, unknown, or of the wrong dtype or shape.
        """
        unknown = inputs.keys() - self._by_name.keys()
        missing = [
            name
            for name, info in self._by_name.items()
            if inputs.get(name) is None and info.kind != "optional"
        ]
        if unknown or missing:
            problem = (
                f"unknown input {sorted(unknown)[0]!r}"
                if unknown
                else f"missing input {missing[0]!r}"
            )
            raise self.refuse(problem)
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
            if is_opaque(array) or not is_host_type(array.dtype, info.element_type):
                raise self.refuse(
                    f"input {info.name!r}: expected dtype {host_type or info.dtype}, got {array.dtype}"
                )
            tensor = to_tensor(array, self._device)
        elif isinstance(value, Tensor):
            tensor = value
        else:
            tensor = Tensor(value, dtype=dtype, device=self._device)
        # Not converted: a wrong dtype is more often a mistake of the caller than a wish.
        if dtype is not None and tensor.dtype != dtype:
            raise self.refuse(
                f"input {info.name!r}: expected dtype {info.dtype}, got {tensor.dtype}"
            )
        return tensor

    def _check_map(self, info: ValueInfo, value: Any) -> Value:
        kind = str if info.key_type == STRING else int
        if isinstance(value, dict) and all(isinstance(key, kind) for key in cast("Any", value)):
            return cast("Value", value)
        raise self.refuse(f"input {info.name!r}: expected a dict with {kind.__name__} keys")

    def _check_shape(
        self, info: ValueInfo, value: Tensor, sizes: dict[str, tuple[str, int]]
    ) -> None:
        assert info.shape is not None
        if len(value.shape) != len(info.shape):
            raise self.refuse(
                f"input {info.name!r}: expected rank {len(info.shape)}, got shape {value.shape}"
            )
        for axis, (size, expected) in enumerate(zip(value.shape, info.shape, strict=True)):
            # In a traced function, sizes may be variables, which a declared size cannot be compared
            # with.
            if isinstance(expected, int) and isinstance(size, int) and size != expected:
                raise self.refuse(
                    f"input {info.name!r}: expected size {expected} on axis {axis}, got {size}"
                )
            if isinstance(expected, str) and isinstance(size, int):
                # A name has one size in all inputs of a call.
                first, known = sizes.setdefault(expected, (info.name, size))
                if known != size:
                    raise self.refuse(
                        f"dimension {expected!r} is {known} in input {first!r} and {size} in input {info.name!r}"
                    )

    def refuse(self, problem: str) -> ModelInputError:
        """An error that lists the inputs of the model."""
        return ModelInputError(
            model=self._title,
            problem=problem,
            inputs=[str(info) for info in self._by_name.values()],
        )
