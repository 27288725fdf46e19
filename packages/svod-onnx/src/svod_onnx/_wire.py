"""Location of weights in a serialized model, so that they stay in the mapped file. The parser reads
the message without them.

A model is a protobuf message: fields with a number and, except for numeric fields, a length. The
path to the bytes of a weight is `ModelProto.graph`, `GraphProto.initializer`,
`TensorProto.raw_data`. All other fields are copied."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from google.protobuf.message import DecodeError

__all__ = ["Weight", "strip_weights"]

Weight = tuple[int, int]
"""Offset and size of a weight's bytes in the message."""

_GRAPH: Final = 7
_INITIALIZER: Final = 5
_RAW_DATA: Final = 9
_LENGTH_DELIMITED: Final = 2
_FIXED: Final = {1: 8, 5: 4}
_MIN_WEIGHT: Final = 4096  # copying fewer bytes is cheaper than splitting the message


def strip_weights(message: memoryview) -> tuple[bytes, dict[int, Weight]]:
    """Remove the bytes of large weights from a model.

    Args:
        message: serialized `ModelProto`.

    Returns:
        a shorter `ModelProto`, and the location of each removed weight by its index among the
        initializers.

    Raises:
        DecodeError: if the bytes end within a field, or are not fields.
    """
    graphs = [
        (start, end)
        for field_number, start, end, _ in _iter_fields(message, 0, len(message))
        if field_number == _GRAPH
    ]
    if len(graphs) != 1:
        return bytes(message), {}  # the parser merges repeated graph fields into one
    weights: dict[int, Weight] = {}
    index = 0
    pieces: list[memoryview | bytes] = []
    (start, end), copied = graphs[0], graphs[0][0]
    for field_number, content, stop, field in _iter_fields(message, start, end):
        if field_number != _INITIALIZER:
            continue
        raw_data = _find_raw_data(message, content, stop)
        if raw_data is not None:
            data, data_end, data_field = raw_data
            weights[index] = data, data_end - data
            tensor = [message[content:data_field], message[data_end:stop]]
            pieces += [
                message[copied:field],
                _make_header(_INITIALIZER, sum(map(len, tensor))),
                *tensor,
            ]
            copied = stop
        index += 1
    if not weights:
        return bytes(message), {}
    pieces.append(message[copied:end])
    graph = b"".join(pieces)
    header = _make_header(_GRAPH, len(graph))
    first = next(
        field
        for field_number, _, _, field in _iter_fields(message, 0, len(message))
        if field_number == _GRAPH
    )
    return b"".join([message[:first], header, graph, message[end:]]), weights


def _find_raw_data(message: memoryview, start: int, end: int) -> tuple[int, int, int] | None:
    """Start and end of a tensor's bytes, and the start of their field; None if the tensor is small
    or has several such fields.
    """
    if end - start < _MIN_WEIGHT:
        return None
    fields = [row[1:] for row in _iter_fields(message, start, end) if row[0] == _RAW_DATA]
    # Of repeated fields the last one counts, which is left to the parser.
    return fields[0] if len(fields) == 1 and fields[0][1] - fields[0][0] >= _MIN_WEIGHT else None


def _iter_fields(
    message: memoryview, position: int, end: int
) -> Iterator[tuple[int, int, int, int]]:
    """Fields of a message as (field number, start of the content, end of the content, start of the
    field).
    """
    while position < end:
        field = position
        tag, position = _read_varint(message, position, end)
        wire_type = tag & 7
        if wire_type == _LENGTH_DELIMITED:
            size, position = _read_varint(message, position, end)
        elif wire_type == 0:
            size = _read_varint(message, position, end)[1] - position
        elif wire_type in _FIXED:
            size = _FIXED[wire_type]
        else:
            raise DecodeError(f"unknown wire type {wire_type} at byte {field}")
        if size > end - position:
            raise DecodeError(f"field at byte {field} exceeds the message")
        yield tag >> 3, position, position + size, field
        position += size


def _read_varint(message: memoryview, position: int, end: int) -> tuple[int, int]:
    """Read a varint of seven bits per byte, lowest first. Return its value and its end."""
    value = shift = 0
    # A varint has at most ten bytes.
    while position < end and shift < 70:
        byte = message[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
    raise DecodeError(f"unterminated varint at byte {position}")


def _make_header(field_number: int, size: int) -> bytes:
    """Tag and length of a field with `size` bytes."""
    # One byte, since both field numbers are below 16.
    header = bytearray([field_number << 3 | _LENGTH_DELIMITED])
    while size >= 0x80:
        header.append(size & 0x7F | 0x80)
        size >>= 7
    header.append(size)
    return bytes(header)
