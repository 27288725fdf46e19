"""Sizes that differ from call to call: which of them are variables of one program, instead of each having a program of its own.

A size that is one is no variable: what is broadcast is another program. A variable has a largest value, for which memory is laid out (the
system gives pages of it when they are first written).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

import numpy as np

from svod_onnx._graph import ValueInfo
from svod_onnx._registry import Value
from svod_tensor import Tensor, Variable, asarray

__all__ = ["SizeVariables", "SymbolicShapes", "to_fixed_shapes"]

_N_TRIED: Final = 2
"""How many sizes of a dimension have a program each, before it becomes a variable."""

_LOWEST: Final = 2
_SMALLEST_LIMIT: Final = 32
_MAX_LIMIT: Final = 1 << 20


@dataclass(frozen=True)
class SymbolicShapes:
    """The shapes of inputs of one program, some of whose sizes are variables.

    Attributes:
        key: equal for equal forms.
        variables: by the dimension.
        places: for each input with such sizes, the dimension of each of its axes, or None where the size is fixed.
    """

    key: object
    variables: Mapping[str, Variable]
    places: Mapping[str, tuple[str | None, ...]]

    def bind(self, live: Mapping[str, Value], given: Mapping[str, object], device: str | None) -> dict[str, Value]:
        """The inputs, with variables as sizes: each lies at the start of memory for the largest ones.

        Args:
            live: the inputs.
            given: the arrays that they were made of, where they were.
            device: where the copies are put.
        """
        bound = dict(live)
        for name, places in self.places.items():
            value = live[name]
            assert isinstance(value, Tensor)
            array = cast("np.ndarray | None", given.get(name) if isinstance(given.get(name), np.ndarray) else None)
            if array is None or array.dtype != np.dtype(str(value.dtype)):
                array = value.numpy()
            limits = [
                size if axis is None else self.variables[axis].high
                for size, axis in zip(array.shape, places, strict=True)
            ]
            whole = np.zeros(limits, array.dtype)
            whole[tuple(map(slice, array.shape))] = array
            cut = (
                slice(None) if axis is None else slice(self.variables[axis].bind(size))
                for size, axis in zip(array.shape, places, strict=True)
            )
            bound[name] = asarray(whole, dtype=value.dtype, device=device)[tuple(cut)]
        return bound


class SizeVariables:
    """Which dimensions of a model's inputs are variables.

    Args:
        inputs: of the model; their symbolic dimensions are those that may vary.
        largest: the largest sizes of dimensions that are variables from the first call on.
    """

    def __init__(self, inputs: Sequence[ValueInfo], largest: Mapping[str, int] | None = None) -> None:
        self._places: Final = {
            info.name: tuple(_name_axis(info, axis) for axis in range(len(info.shape)))
            for info in inputs
            if info.kind == "tensor" and info.shape is not None
        }
        self._given: Final = dict(largest or {})
        self._limits: Final = dict(self._given)
        self._seen: Final[dict[str, set[int]]] = {}
        self._refused: Final[set[object]] = set()

    @property
    def dimensions(self) -> set[str]:
        """The names of those that may vary."""
        return {place for places in self._places.values() for place in places if place is not None}

    def find_symbolic_shapes(self, live: Mapping[str, Value]) -> SymbolicShapes | None:
        """The form of a program for the shapes of `live`; None where a program for these shapes alone is wanted."""
        sizes = self._list_sizes(live)
        varying = {name for name, size in sizes.items() if self._is_variable(name, size)}
        if not varying:
            return None
        places = {
            name: tuple(axis if axis in varying else None for axis in axes)
            for name, axes in self._places.items()
            if not varying.isdisjoint(axes) and isinstance(live.get(name), Tensor)
        }
        variables = {
            name: Variable(f"size_{number}", _LOWEST, self._limits[name]) for number, name in enumerate(sorted(varying))
        }
        fixed = tuple((name, _get_fixed(value, places.get(name))) for name, value in live.items())
        key = tuple(sorted((name, variable.high) for name, variable in variables.items())), fixed
        return None if key in self._refused else SymbolicShapes(key, variables, places)

    def refuse(self, form: SymbolicShapes) -> None:
        """Never give `form` again: a program of it cannot be built."""
        self._refused.add(form.key)

    def _list_sizes(self, live: Mapping[str, Value]) -> dict[str, int]:
        """The size of each dimension that may vary; nothing where inputs disagree, or have variables already."""
        sizes: dict[str, int] = {}
        for name, places in self._places.items():
            value = live.get(name)
            if not isinstance(value, Tensor):
                continue
            for place, size in zip(places, value.shape, strict=True):
                if not isinstance(size, int) or (place is not None and sizes.setdefault(place, size) != size):
                    return {}
        return sizes

    def _is_variable(self, name: str, size: int) -> bool:
        """Whether a dimension is one, at this size, which is noted."""
        if not _LOWEST <= size <= _MAX_LIMIT:
            return False
        if name in self._given:
            return size <= self._given[name]
        seen = self._seen.setdefault(name, set())
        if len(seen) <= _N_TRIED:
            seen.add(size)
            if len(seen) <= _N_TRIED:
                return False
        if size > self._limits.get(name, 0):
            # Room for sizes to come, so that a few growing ones do not make a program each.
            self._limits[name] = max(1 << (2 * max(*seen, size) - 1).bit_length(), _SMALLEST_LIMIT)
        return True


def _name_axis(info: ValueInfo, axis: int) -> str | None:
    """The dimension of an axis: its name, one of its own where it has none, or None where its size is fixed."""
    assert info.shape is not None
    size = info.shape[axis]
    return None if isinstance(size, int) else size or f"{info.name}[{axis}]"


def _get_fixed(value: Value, places: tuple[str | None, ...] | None) -> object:
    """What of an input's form is the same in all calls of a program."""
    if isinstance(value, list):
        return tuple(_get_fixed(item, None) for item in value)
    if not isinstance(value, Tensor):
        return value is None
    axes = places or (None,) * value.ndim
    return tuple(size if axis is None else axis for size, axis in zip(value.shape, axes, strict=True)), value.dtype


def to_fixed_shapes(values: Mapping[str, Value], device: str | None) -> dict[str, Value]:
    """The values with numbers as sizes, where they are variables with values."""
    return {name: _to_fixed_shape(value, device) for name, value in values.items()}


def _to_fixed_shape(value: Any, device: str | None) -> Any:
    if isinstance(value, list):
        return [_to_fixed_shape(item, device) for item in cast("list[Any]", value)]
    if not isinstance(value, Tensor) or all(isinstance(size, int) for size in value.shape):
        return value
    return asarray(value.numpy(), dtype=value.dtype, device=device)
