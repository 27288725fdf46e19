"""Maps of keys to numbers or strings (ai.onnx.ml), which only the host computes with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from svod_onnx._registry import Known, Value, operator
from svod_onnx._scores import ML_DOMAIN
from svod_onnx._trace import Call
from svod_onnx._types import STRING, find_host_type

__all__ = ["cast_map", "dict_vectorizer", "zip_map"]

_MAX_DENSE: Final = 1 << 24
"""Largest number of columns of a sparse CastMap."""


@operator("ZipMap", domain=ML_DOMAIN, is_host=True)
def zip_map(
    node: Call,
    x: Known,
    *,
    classlabels_int64s: list[int] | None = None,
    classlabels_strings: list[str] | None = None,
) -> Value:
    """A map from labels to scores for each row of `x`. A vector is one row."""
    labels: Sequence[int] | Sequence[str] = classlabels_strings or classlabels_int64s or []
    rows = x.reshape(1, -1) if x.ndim == 1 else x
    if rows.ndim != 2 or rows.shape[1] != len(labels):
        raise node.refuse(
            f"expected rows of {len(labels)} scores, one per label, got shape {x.shape}"
        )
    return [dict(zip(labels, row, strict=True)) for row in rows.tolist()]


def _get_map(node: Call, x: Value) -> Mapping[Any, Any]:
    if not isinstance(x, dict):
        raise node.refuse(f"expected a map, got {type(x).__name__}")
    return x


@operator("DictVectorizer", domain=ML_DOMAIN, is_host=True)
def dict_vectorizer(
    node: Call,
    x: Value,
    *,
    int64_vocabulary: list[int] | None = None,
    string_vocabulary: list[str] | None = None,
) -> Value:
    """The values of the vocabulary's keys, of shape (1, keys); 0 or "" for a missing key."""
    items = _get_map(node, x)
    element_type = node.trace.get_element_type(node.node.inputs[0])
    default = "" if element_type == STRING else 0
    vocabulary: Sequence[int] | Sequence[str] = string_vocabulary or int64_vocabulary or []
    dtype = find_host_type(element_type) or object
    return np.array([[items.get(key, default) for key in vocabulary]], dtype)


@operator("CastMap", domain=ML_DOMAIN, is_host=True)
def cast_map(
    node: Call, x: Value, *, cast_to: str = "TO_FLOAT", map_form: str = "DENSE", max_map: int = 1
) -> Value:
    """The values of a map in the order of its keys, of shape (1, values).

    For `map_form` "SPARSE" the keys are columns, of which there are `max_map`. Other columns have
    0, or for strings onnxruntime's "0.f"."""
    items = _get_map(node, x)
    if map_form not in ("DENSE", "SPARSE"):
        raise node.refuse(f"unknown map_form {map_form!r}; expected DENSE or SPARSE")
    if map_form == "SPARSE":
        if not 0 < max_map <= _MAX_DENSE:
            raise node.refuse(f"expected max_map from 1 to {_MAX_DENSE}, got {max_map}")
        values = [items.get(key) for key in range(max_map)]
    else:
        values = [items[key] for key in sorted(items)]
    match cast_to:
        case "TO_FLOAT":
            return np.array([[float(value or 0) for value in values]], np.float32)
        case "TO_INT64":
            return np.array([[int(float(value or 0)) for value in values]], np.int64)
        case "TO_STRING":
            return np.array([[_to_string(value) for value in values]], object)
        case _:
            raise node.refuse(
                f"unknown cast_to {cast_to!r}; expected TO_FLOAT, TO_INT64 or TO_STRING"
            )


def _to_string(value: object) -> str:
    if value is None:
        return "0.f"
    # As C++ prints a float: six digits.
    return f"{value:f}" if isinstance(value, float) else str(value)
