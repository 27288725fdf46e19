"""Sequences of tensors, and values that may be missing."""

from __future__ import annotations

from typing import Any

import numpy as np

from svod_onnx._graph import Graph
from svod_onnx._registry import Ints, Known, Value, operator
from svod_onnx._trace import Call
from svod_tensor import Tensor

__all__ = [
    "concat_from_sequence",
    "optional",
    "optional_get_element",
    "optional_has_element",
    "sequence_at",
    "sequence_construct",
    "sequence_empty",
    "sequence_erase",
    "sequence_insert",
    "sequence_length",
    "sequence_map",
    "split_to_sequence",
]


def _get_list(sequence: Value) -> list[Value]:
    if not isinstance(sequence, list):
        raise TypeError("takes a sequence, and got none")
    return sequence


@operator("SequenceConstruct")
def sequence_construct(*inputs: Value) -> Value:
    return list(inputs)


@operator("SequenceEmpty")
def sequence_empty(*, dtype: int = 1) -> Value:
    del dtype
    return []


@operator("SequenceAt")
def sequence_at(input_sequence: Value, position: Ints) -> Value:
    return _get_list(input_sequence)[position[0]]


@operator("SequenceInsert")
def sequence_insert(input_sequence: Value, tensor: Value, position: Ints | None = None) -> Value:
    """At a position, or at the end."""
    elements = list(_get_list(input_sequence))
    elements.insert(len(elements) if not position else position[0], tensor)
    return elements


@operator("SequenceErase")
def sequence_erase(input_sequence: Value, position: Ints | None = None) -> Value:
    """The one at a position, or the last one."""
    elements = list(_get_list(input_sequence))
    del elements[-1 if not position else position[0]]
    return elements


@operator("SequenceLength")
def sequence_length(input_sequence: Value) -> Value:
    return np.array(len(_get_list(input_sequence)), np.int64)


@operator("SequenceMap")
def sequence_map(
    node: Call, input_sequence: Value, *additional_inputs: Value, body: Graph
) -> Value | tuple[Value, ...]:
    """The body for each element; other operands are sequences as long, or the same for all."""
    elements = _get_list(input_sequence)
    rows = [
        node.trace.run_graph(
            body,
            [element, *(one[place] if isinstance(one, list) else one for one in additional_inputs)],
        )
        for place, element in enumerate(elements)
    ]
    columns = tuple([row[number] for row in rows] for number in range(len(body.outputs)))
    first, *more = columns
    return columns if more else first


@operator("SplitToSequence")
def split_to_sequence(
    input: Tensor, split: Known | None = None, *, axis: int = 0, keepdims: int = 1
) -> Value:
    """Parts of given sizes, of one size of which the last may be smaller, or single elements, with
    their axis or without.
    """
    size: Any = input.shape[axis]
    if split is None:
        return [part if keepdims else part.squeeze(axis) for part in input.split(1, axis)]
    if split.ndim:
        return list(input.split([int(part) for part in split], axis))
    part = int(split)
    return list(input.split([min(part, size - start) for start in range(0, size, part)], axis))


@operator("ConcatFromSequence")
def concat_from_sequence(input_sequence: list[Tensor], *, axis: int, new_axis: int = 0) -> Tensor:
    return (
        Tensor.stack(input_sequence, axis=axis)
        if new_axis
        else Tensor.concat(input_sequence, axis=axis)
    )


@operator("Optional")
def optional(input: Value = None, *, type: Any = None) -> Value:
    del type
    return input


@operator("OptionalGetElement")
def optional_get_element(input: Value = None) -> Value:
    if input is None:
        raise ValueError("reads an optional value that is missing")
    return input


@operator("OptionalHasElement")
def optional_has_element(input: Value = None) -> Value:
    return np.array(input is not None)
