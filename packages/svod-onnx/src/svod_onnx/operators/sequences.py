"""Sequences of tensors, and values that may be missing."""

from __future__ import annotations

from typing import Any

import numpy as np

from svod_onnx._graph import Graph
from svod_onnx._registry import Ints, Known, Value, operator
from svod_onnx._trace import Call
from svod_tensor import Tensor

__all__ = [
    "concatenate_sequence",
    "erase_element",
    "get_element",
    "get_optional",
    "has_optional",
    "insert_element",
    "make_empty_sequence",
    "make_optional",
    "make_sequence",
    "map_sequence",
    "measure_length",
    "split_to_sequence",
]


def _get_list(sequence: Value) -> list[Value]:
    if not isinstance(sequence, list):
        raise TypeError("takes a sequence, and got none")
    return sequence


@operator("SequenceConstruct")
def make_sequence(*elements: Value) -> Value:
    return list(elements)


@operator("SequenceEmpty")
def make_empty_sequence(*, dtype: int = 1) -> Value:
    del dtype
    return []


@operator("SequenceAt")
def get_element(sequence: Value, position: Ints) -> Value:
    return _get_list(sequence)[position[0]]


@operator("SequenceInsert")
def insert_element(sequence: Value, element: Value, position: Ints | None = None) -> Value:
    """At a position, or at the end."""
    elements = list(_get_list(sequence))
    elements.insert(len(elements) if not position else position[0], element)
    return elements


@operator("SequenceErase")
def erase_element(sequence: Value, position: Ints | None = None) -> Value:
    """The one at a position, or the last one."""
    elements = list(_get_list(sequence))
    del elements[-1 if not position else position[0]]
    return elements


@operator("SequenceLength")
def measure_length(sequence: Value) -> Value:
    return np.array(len(_get_list(sequence)), np.int64)


@operator("SequenceMap")
def map_sequence(node: Call, sequence: Value, *others: Value, body: Graph) -> Value | tuple[Value, ...]:
    """The body for each element; other operands are sequences as long, or the same for all."""
    elements = _get_list(sequence)
    rows = [
        node.trace.run_graph(body, [element, *(one[place] if isinstance(one, list) else one for one in others)])
        for place, element in enumerate(elements)
    ]
    columns = tuple([row[number] for row in rows] for number in range(len(body.outputs)))
    first, *more = columns
    return columns if more else first


@operator("SplitToSequence")
def split_to_sequence(x: Tensor, split: Known | None = None, *, axis: int = 0, keepdims: int = 1) -> Value:
    """Parts of given sizes, of one size of which the last may be smaller, or single elements, with their axis or without."""
    size: Any = x.shape[axis]
    if split is None:
        return [part if keepdims else part.squeeze(axis) for part in x.split(1, axis)]
    if split.ndim:
        return list(x.split([int(part) for part in split], axis))
    part = int(split)
    return list(x.split([min(part, size - start) for start in range(0, size, part)], axis))


@operator("ConcatFromSequence")
def concatenate_sequence(sequence: list[Tensor], *, axis: int, new_axis: int = 0) -> Tensor:
    return Tensor.stack(sequence, axis=axis) if new_axis else Tensor.concat(sequence, axis=axis)


@operator("Optional")
def make_optional(value: Value = None, *, type: Any = None) -> Value:
    del type
    return value


@operator("OptionalGetElement")
def get_optional(value: Value = None) -> Value:
    if value is None:
        raise ValueError("reads an optional value that is missing")
    return value


@operator("OptionalHasElement")
def has_optional(value: Value = None) -> Value:
    return np.array(value is not None)
