"""Sequences of tensors, and optional values."""

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
        raise TypeError(f"expected a sequence, got {type(sequence).__name__}")
    return sequence


@operator("SequenceConstruct")
def sequence_construct(*inputs: Value) -> Value:
    """Sequence of the operands."""
    return list(inputs)


@operator("SequenceEmpty")
def sequence_empty(*, dtype: int = 1) -> Value:
    """Empty sequence."""
    # A sequence has no dtype of its own here; its elements have.
    del dtype
    return []


@operator("SequenceAt")
def sequence_at(input_sequence: Value, position: Ints) -> Value:
    """Element at a position."""
    return _get_list(input_sequence)[position[0]]


@operator("SequenceInsert")
def sequence_insert(input_sequence: Value, tensor: Value, position: Ints | None = None) -> Value:
    """Copy with `tensor` inserted at a position, by default at the end."""
    # A copy: sequences are values, and other nodes may read the old one.
    elements = list(_get_list(input_sequence))
    elements.insert(len(elements) if not position else position[0], tensor)
    return elements


@operator("SequenceErase")
def sequence_erase(input_sequence: Value, position: Ints | None = None) -> Value:
    """Copy without the element at a position, by default without the last one."""
    elements = list(_get_list(input_sequence))
    del elements[-1 if not position else position[0]]
    return elements


@operator("SequenceLength")
def sequence_length(input_sequence: Value) -> Value:
    """Number of elements."""
    # An array and not a tensor: the length is known while a program is captured.
    return np.array(len(_get_list(input_sequence)), np.int64)


@operator("SequenceMap")
def sequence_map(
    node: Call, input_sequence: Value, *additional_inputs: Value, body: Graph
) -> Value | tuple[Value, ...]:
    """Apply the body to each element.

    Further operands are sequences of the same length, or values shared by all elements.
    """
    elements = _get_list(input_sequence)
    rows = [
        node.trace.run_graph(
            body,
            [
                element,
                *(value[i] if isinstance(value, list) else value for value in additional_inputs),
            ],
        )
        for i, element in enumerate(elements)
    ]
    columns = tuple([row[i] for row in rows] for i in range(len(body.outputs)))
    first, *following = columns
    return columns if following else first


@operator("SplitToSequence")
def split_to_sequence(
    input: Tensor, split: Known | None = None, *, axis: int = 0, keepdims: int = 1
) -> Value:
    """Split into parts of given sizes, into parts of an equal size, or into single elements with or
    without their axis.
    """
    size: Any = input.shape[axis]
    if split is None:
        # `keepdims` only applies without `split`.
        return [x if keepdims else x.squeeze(axis) for x in input.split(1, axis)]
    if split.ndim:
        return list(input.split([int(length) for length in split], axis))
    # The last part may be smaller.
    step = int(split)
    return list(input.split([min(step, size - start) for start in range(0, size, step)], axis))


@operator("ConcatFromSequence")
def concat_from_sequence(input_sequence: list[Tensor], *, axis: int, new_axis: int = 0) -> Tensor:
    """Concatenate or stack the elements of a sequence."""
    return (
        Tensor.stack(input_sequence, axis=axis)
        if new_axis
        else Tensor.concat(input_sequence, axis=axis)
    )


@operator("Optional")
def optional(input: Value = None, *, type: Any = None) -> Value:
    """Optional value, empty without an operand."""
    del type
    return input


@operator("OptionalGetElement")
def optional_get_element(input: Value = None) -> Value:
    """Value of an optional."""
    if input is None:
        raise ValueError("the optional value is empty")
    return input


@operator("OptionalHasElement")
def optional_has_element(input: Value = None) -> Value:
    """Whether an optional has a value."""
    return np.array(input is not None)
