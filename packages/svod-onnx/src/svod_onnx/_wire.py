"""Finding the weights in a model's bytes, so that they stay in the file: the message around them is read without them.

A model is a protobuf message: fields, each with a number and, but for numbers, a length. Those on the way to the bytes of a weight
are `ModelProto.graph`, `GraphProto.initializer` and `TensorProto.raw_data`; the others are kept as they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from google.protobuf.message import DecodeError

__all__ = ["Weight", "strip_weights"]

Weight = tuple[int, int]
"""Where the bytes of a weight lie in the message: from which one, and how many."""

_GRAPH: Final = 7
_INITIALIZER: Final = 5
_RAW_DATA: Final = 9
_LENGTH_DELIMITED: Final = 2
_FIXED: Final = {1: 8, 5: 4}
_MIN_WEIGHT: Final = 4096  # smaller ones are not worth a cut


def strip_weights(message: memoryview) -> tuple[bytes, dict[int, Weight]]:
    """A model without the bytes of its large weights, and where they lie.

    Args:
        message: a serialized `ModelProto`.

    Returns:
        a shorter `ModelProto`, and a row for each weight that was cut, by its number among the initializers of the graph.

    Raises:
        DecodeError: if the bytes are cut off in the middle of a field, or are no fields.
    """
    graphs = [(start, end) for number, start, end, _ in _iter_fields(message, 0, len(message)) if number == _GRAPH]
    if len(graphs) != 1:
        return bytes(message), {}  # several are one message in parts, which the parser puts together
    weights: dict[int, Weight] = {}
    count = 0
    pieces: list[memoryview | bytes] = []
    (start, end), done = graphs[0], graphs[0][0]
    for number, content, stop, field in _iter_fields(message, start, end):
        if number != _INITIALIZER:
            continue
        found = _find_raw_data(message, content, stop)
        if found is not None:
            data, data_end, data_field = found
            weights[count] = data, data_end - data
            tensor = [message[content:data_field], message[data_end:stop]]
            pieces += [message[done:field], _make_header(_INITIALIZER, sum(map(len, tensor))), *tensor]
            done = stop
        count += 1
    if not weights:
        return bytes(message), {}
    pieces.append(message[done:end])
    graph = b"".join(pieces)
    header = _make_header(_GRAPH, len(graph))
    first = next(field for number, _, _, field in _iter_fields(message, 0, len(message)) if number == _GRAPH)
    return b"".join([message[:first], header, graph, message[end:]]), weights


def _find_raw_data(message: memoryview, start: int, end: int) -> tuple[int, int, int] | None:
    """Where the bytes of a tensor begin and end, and where their field does; None if there are few, or several fields."""
    if end - start < _MIN_WEIGHT:
        return None
    found = [row[1:] for row in _iter_fields(message, start, end) if row[0] == _RAW_DATA]
    return found[0] if len(found) == 1 and found[0][1] - found[0][0] >= _MIN_WEIGHT else None


def _iter_fields(message: memoryview, position: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """The fields of a message: number, where the content begins and ends, and where the field begins."""
    while position < end:
        field = position
        tag, position = _read_varint(message, position, end)
        kind = tag & 7
        if kind == _LENGTH_DELIMITED:
            size, position = _read_varint(message, position, end)
        elif kind == 0:
            size = _read_varint(message, position, end)[1] - position
        elif kind in _FIXED:
            size = _FIXED[kind]
        else:
            raise DecodeError(f"byte {field} begins no field")
        if size > end - position:
            raise DecodeError(f"the field at byte {field} ends behind the message")
        yield tag >> 3, position, position + size, field
        position += size


def _read_varint(message: memoryview, position: int, end: int) -> tuple[int, int]:
    """A number of seven bits to a byte, lowest first, and where it ends."""
    value = shift = 0
    while position < end and shift < 70:
        byte = message[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
    raise DecodeError(f"byte {position} ends no number")


def _make_header(number: int, size: int) -> bytes:
    """What stands before `size` bytes of a field."""
    header = bytearray([number << 3 | _LENGTH_DELIMITED])
    while size >= 0x80:
        header.append(size & 0x7F | 0x80)
        size >>= 7
    header.append(size)
    return bytes(header)
