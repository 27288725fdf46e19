"""Sizes that vary between calls, as variables of a single program instead of a program for each
size.

Size 1 is never a variable, since it broadcasts. A variable has an upper bound, for which memory of
intermediates is reserved; the operating system provides pages on the first write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from svod_onnx._graph import ValueInfo
from svod_onnx._registry import Value
from svod_tensor import Tensor, Variable

__all__ = ["SizeVariables", "SymbolicShapes", "name_axis"]

_N_FIXED: Final = 2
"""Number of sizes of a dimension that get a program each, before the dimension becomes a
variable.
"""

_LOWEST: Final = 2
_SMALLEST_LIMIT: Final = 32
_MAX_LIMIT: Final = 1 << 20


@dataclass(frozen=True)
class SymbolicShapes:
    """Input shapes of a program, with variables for some sizes.

    Attributes:
        key: hashable identity.
        variables: variable of each symbolic dimension.
        axes: for each input with variables, the dimension of each axis; None for a fixed size.
    """

    key: object
    variables: Mapping[str, Variable]
    axes: Mapping[str, tuple[str | None, ...]]

    def list_dynamic(self, names: Sequence[str]) -> dict[str | int, dict[int, Variable]]:
        """The variables of each input's axes, by the index of the input in `names`."""
        return {
            names.index(name): {
                index: self.variables[axis] for index, axis in enumerate(axes) if axis is not None
            }
            for name, axes in self.axes.items()
            if name in names
        }


class SizeVariables:
    """Variables for the symbolic dimensions of a model's inputs.

    Args:
        inputs: inputs of the model.
        max_sizes: upper bounds of dimensions that are variables from the first call on.
    """

    def __init__(
        self, inputs: Sequence[ValueInfo], max_sizes: Mapping[str, int] | None = None
    ) -> None:
        self._axes: Final = {
            info.name: tuple(name_axis(info, axis) for axis in range(len(info.shape)))
            for info in inputs
            if info.kind == "tensor" and info.shape is not None
        }
        self._max_sizes: Final = dict(max_sizes or {})
        self._limits: Final = dict(self._max_sizes)
        self._seen: Final[dict[str, set[int]]] = {}
        self._smallest: Final[dict[str, int]] = {}
        self._is_raised = False
        self._rejected: Final[set[object]] = set()

    @property
    def dimensions(self) -> set[str]:
        """Names of the symbolic dimensions."""
        return {axis for axes in self._axes.values() for axis in axes if axis is not None}

    def find_symbolic_shapes(self, live: Mapping[str, Value]) -> SymbolicShapes | None:
        """Symbolic shapes for the inputs; None if a program for these exact shapes is better."""
        sizes = self._list_sizes(live)
        varying = {name for name, size in sizes.items() if self._is_variable(name, size)}
        if not varying:
            return None
        axes = {
            name: tuple(axis if axis in varying else None for axis in names)
            for name, names in self._axes.items()
            if not varying.isdisjoint(names) and isinstance(live.get(name), Tensor)
        }
        variables = {
            name: Variable(f"size_{index}", self._choose_low(name), self._limits[name])
            for index, name in enumerate(sorted(varying))
        }
        fixed = tuple((name, _get_fixed(value, axes.get(name))) for name, value in live.items())
        bounds = [(name, variable.low, variable.high) for name, variable in variables.items()]
        key = tuple(bounds), fixed
        return None if key in self._rejected else SymbolicShapes(key, variables, axes)

    def reject(self, shapes: SymbolicShapes, *, is_invalid: bool) -> None:
        """Exclude `shapes` from now on: no program can be built for them.

        Args:
            shapes: the shapes.
            is_invalid: whether some node has no result. Small sizes may be the cause, as those that
                a model with strides reduces to 0: from now on the lower bounds are near the smallest
                size that has occurred.
        """
        self._rejected.add(shapes.key)
        self._is_raised |= is_invalid

    def _choose_low(self, name: str) -> int:
        """The lower bound of a dimension."""
        # Powers of two, so that smaller sizes rarely need a new program.
        smallest = self._smallest[name]
        return max(_LOWEST, 1 << (smallest.bit_length() - 1)) if self._is_raised else _LOWEST

    def _list_sizes(self, live: Mapping[str, Value]) -> dict[str, int]:
        """Size of each symbolic dimension; empty if inputs disagree or already have
        symbolic sizes.
        """
        sizes: dict[str, int] = {}
        for name, axes in self._axes.items():
            value = live.get(name)
            if not isinstance(value, Tensor):
                continue
            for axis, size in zip(axes, value.shape, strict=True):
                if not isinstance(size, int) or (
                    axis is not None and sizes.setdefault(axis, size) != size
                ):
                    return {}
        return sizes

    def _is_variable(self, name: str, size: int) -> bool:
        """Whether a dimension is a variable at this size. Records the size."""
        seen = self._seen.setdefault(name, set())
        if len(seen) <= _N_FIXED and 1 <= size <= _MAX_LIMIT:
            # Size 1 counts too: a batch of 1 and one of 8 show that the size varies.
            seen.add(size)
        if not _LOWEST <= size <= _MAX_LIMIT:
            return False
        self._smallest[name] = min(size, self._smallest.get(name, size))
        # A declared bound is a promise; larger sizes get programs of their own.
        if name in self._max_sizes:
            return size <= self._max_sizes[name]
        if len(seen) <= _N_FIXED:
            return False
        if size > self._limits.get(name, 0):
            # Round up with headroom, so that growing sizes do not build a program each.
            self._limits[name] = max(1 << (2 * max(*seen, size) - 1).bit_length(), _SMALLEST_LIMIT)
        return True


def name_axis(info: ValueInfo, axis: int) -> str | None:
    """Dimension of an axis: its name, a generated name if it is unnamed, or None if its size is
    fixed.
    """
    assert info.shape is not None
    size = info.shape[axis]
    return None if isinstance(size, int) else size or f"{info.name}[{axis}]"


def _get_fixed(value: Value, axes: tuple[str | None, ...] | None) -> object:
    """Hashable part of an input's spec that is equal in all calls of a program."""
    if isinstance(value, list):
        return tuple(_get_fixed(item, None) for item in value)
    if not isinstance(value, Tensor):
        return value is None
    axes = axes or (None,) * value.ndim
    return tuple(
        size if axis is None else axis for size, axis in zip(value.shape, axes, strict=True)
    ), value.dtype
