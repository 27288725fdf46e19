"""Classical models and preprocessing (ai.onnx.ml): linear models, scalers and encoders."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

import svod_tensor as sv
from svod_onnx._inlining import Inline
from svod_onnx._registry import Known, RunOnHostError, Value, operator
from svod_onnx._scores import ML_DOMAIN, apply_post_transform, asarray_like, choose_class
from svod_onnx._string_labels import expand_string_labels
from svod_onnx._trace import Call
from svod_tensor import Tensor, asarray

__all__ = [
    "LabelEncoderAttributes",
    "array_feature_extractor",
    "binarizer",
    "feature_vectorizer",
    "imputer",
    "label_encoder",
    "linear_classifier",
    "linear_regressor",
    "normalizer",
    "one_hot_encoder",
    "scaler",
]


@operator("ArrayFeatureExtractor", domain=ML_DOMAIN)
def array_feature_extractor(x: Tensor, y: Tensor) -> Tensor:
    """Elements at indices `y` along the last axis. A vector gets a leading axis."""
    picked = x.take(y.reshape(-1), axis=-1)
    return picked.reshape(1, -1) if x.ndim == 1 else picked


@operator("Binarizer", domain=ML_DOMAIN)
def binarizer(x: Tensor, *, threshold: float = 0.0) -> Tensor:
    """1 above `threshold`, otherwise 0."""
    return (x > threshold).cast(x.dtype)


@operator("Scaler", domain=ML_DOMAIN)
def scaler(
    node: Call, x: Tensor, *, offset: list[float] | None = None, scale: list[float] | None = None
) -> Tensor:
    """`(x - offset) * scale` in float32, with a scalar or one element per column."""
    return (x.cast("float32") - _make_row(node, offset or [0.0], x)) * _make_row(
        node, scale or [1.0], x
    )


def _make_row(node: Call, values: Sequence[float], x: Tensor) -> Tensor:
    if len(values) not in (1, x.shape[-1]):
        raise node.refuse(f"expected 1 or {x.shape[-1]} values, one per column, got {len(values)}")
    return asarray_like(list(values), x, "float32")


@operator("Imputer", domain=ML_DOMAIN)
def imputer(
    node: Call,
    x: Tensor,
    *,
    imputed_value_floats: list[float] | None = None,
    imputed_value_int64s: list[int] | None = None,
    replaced_value_float: float = 0.0,
    replaced_value_int64: int = 0,
) -> Tensor:
    """Replace the marker of missing values, which may be NaN, by the imputed value of each
    column.
    """
    values: Any = imputed_value_floats if x.dtype.is_float else imputed_value_int64s
    if not values or len(values) not in (1, x.shape[-1]):
        raise node.refuse(f"expected 1 or {x.shape[-1]} imputed values of {x.dtype}, got {values}")
    row = asarray_like(values, x, str(x.dtype))
    if not x.dtype.is_float:
        return (x == replaced_value_int64).where(row, x)
    # NaN, the usual marker, differs from itself.
    is_missing = x.isnan() if np.isnan(replaced_value_float) else x == replaced_value_float
    return is_missing.where(row, x)


@operator("FeatureVectorizer", domain=ML_DOMAIN)
def feature_vectorizer(*x: Tensor, inputdimensions: list[int] | None = None) -> Tensor:
    """Concatenated columns in float32.

    `inputdimensions` truncates or pads the columns of each operand.
    """
    rows = [
        operand.cast("float32").reshape(1, -1) if operand.ndim == 1 else operand.cast("float32")
        for operand in x
    ]
    if inputdimensions:
        rows = [
            row[:, :size].pad([(0, 0), (0, max(size - cast("int", row.shape[1]), 0))])
            for row, size in zip(rows, inputdimensions, strict=True)
        ]
    return sv.concat(rows, axis=1)


@operator("Normalizer", domain=ML_DOMAIN)
def normalizer(node: Call, x: Tensor, *, norm: str = "MAX") -> Tensor:
    """Rows divided by their norm. Rows of norm 0 stay."""
    rows = x.cast("float32")
    match norm:
        case "MAX":
            norms = rows.abs().max(-1, keepdims=True)
        case "L1":
            norms = rows.abs().sum(-1, keepdims=True)
        case "L2":
            norms = rows.square().sum(-1, keepdims=True).sqrt()
        case _:
            raise node.refuse(f"unknown norm {norm!r}; expected MAX, L1 or L2")
    return rows / (norms == 0).where(1.0, norms)


def _multiply(
    node: Call,
    x: Tensor,
    coefficients: list[float] | None,
    intercepts: list[float] | None,
    n_targets: int,
) -> Tensor:
    """`x @ coefficients + intercepts`, in float32, of shape (rows, targets).

    Surplus coefficients are ignored.
    """
    rows = x.cast("float32")
    # A vector is one row in this domain.
    rows = rows.reshape(1, -1) if x.ndim == 1 else rows
    n_columns = cast("int", rows.shape[1])
    values = coefficients or []
    if len(values) < n_targets * n_columns:
        raise node.refuse(
            f"expected {n_columns} columns x {n_targets} targets coefficients, got {len(values)}"
        )
    # Old exporters repeat the table; onnxruntime reads its beginning too.
    table = asarray_like(values[: n_targets * n_columns], x, "float32")
    scores = rows @ table.reshape(n_targets, -1).transpose(0, 1)
    if not intercepts:
        return scores
    if len(intercepts) != n_targets:
        raise node.refuse(f"expected {n_targets} intercepts, one per target, got {len(intercepts)}")
    return scores + asarray_like(intercepts, x, "float32")


@operator("LinearRegressor", domain=ML_DOMAIN)
def linear_regressor(
    node: Call,
    x: Tensor,
    *,
    coefficients: list[float] | None = None,
    intercepts: list[float] | None = None,
    post_transform: str = "NONE",
    targets: int = 1,
) -> Tensor:
    """Post-transformed `x @ coefficients + intercepts`, of shape (rows, targets)."""
    return apply_post_transform(
        node, _multiply(node, x, coefficients, intercepts, targets), post_transform
    )


@operator("LinearClassifier", domain=ML_DOMAIN)
def linear_classifier(
    node: Call,
    x: Tensor,
    *,
    coefficients: list[float],
    classlabels_ints: list[int] | None = None,
    classlabels_strings: list[str] | None = None,
    intercepts: list[float] | None = None,
    multi_class: int = 0,
    post_transform: str = "NONE",
) -> tuple[Tensor, Tensor] | Inline:
    """Class of each row, and the scores, of shape (rows, classes)."""
    # The number of intercepts or of coefficients says the same.
    del multi_class
    if classlabels_strings:
        return expand_string_labels(
            node, x, classlabels_strings, strings="classlabels_strings", integers="classlabels_ints"
        )
    labels = classlabels_ints or [0]
    n_features: Any = x.shape[-1]
    # Binary models may have the coefficients of only the second class.
    n_scores = len(intercepts or ()) or max(len(coefficients) // max(n_features, 1), 1)
    return choose_class(
        node,
        _multiply(node, x, coefficients, intercepts, n_scores),
        labels,
        post_transform,
        is_positive=False,
    )


@operator("OneHotEncoder", domain=ML_DOMAIN)
def one_hot_encoder(
    node: Call,
    x: Value,
    *,
    cats_int64s: list[int] | None = None,
    cats_strings: list[str] | None = None,
    zeros: int = 1,
) -> Value:
    """One-hot encoding in float32 along a new last axis. Unknown categories are zeros.

    ONNX makes an unknown category an error for `zeros` 0. Values of tensors are known too late for
    that, so they are zeros too."""
    del zeros
    if isinstance(x, np.ndarray) and x.dtype.kind in "OUST":
        return (x[..., None] == np.array(cats_strings or [], dtype=object)).astype(np.float32)
    (elements,) = node.tensors(x)
    categories = asarray_like(cats_int64s or [], elements, "int64")
    return (elements.cast("int64").unsqueeze(-1) == categories).cast("float32")


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelEncoderAttributes:
    """Attributes of LabelEncoder."""

    keys_tensor: np.ndarray | None = None
    values_tensor: np.ndarray | None = None
    keys_int64s: list[int] | None = None
    keys_floats: list[float] | None = None
    keys_strings: list[str] | None = None
    values_int64s: list[int] | None = None
    values_floats: list[float] | None = None
    values_strings: list[str] | None = None
    default_tensor: np.ndarray | None = None
    default_int64: int = -1
    default_float: float = -0.0
    default_string: str = "_Unused"
    classes_strings: list[str] | None = None


def label_encoder(
    node: Call,
    x: Value,
    *,
    attributes: LabelEncoderAttributes,
) -> Value:
    """Value of each element's key, or the default.

    In version 1 the keys and values are classes and their indices.
    """
    if attributes.classes_strings is not None:
        is_text = isinstance(x, np.ndarray) and x.dtype.kind in "OUST"
        names, indices = (
            _to_array(attributes.classes_strings),
            np.arange(len(attributes.classes_strings)),
        )
        # The dtype of the input decides the direction of the mapping.
        pair = (names, indices) if is_text else (indices, names)
        return _map_values(
            node, x, *pair, attributes.default_int64 if is_text else attributes.default_string
        )
    keys = next(
        (
            _to_array(k)
            for k in (
                attributes.keys_tensor,
                attributes.keys_int64s,
                attributes.keys_floats,
                attributes.keys_strings,
            )
            if k is not None
        ),
        _to_array([]),
    )
    choices = (
        (attributes.values_tensor, attributes.default_tensor),
        (attributes.values_int64s, attributes.default_int64),
        (attributes.values_floats, attributes.default_float),
        (attributes.values_strings, attributes.default_string),
    )
    values, default = next(((v, d) for v, d in choices if v is not None), (None, None))
    if values is None or len(_to_array(values)) != len(keys):
        n_values = 0 if values is None else len(_to_array(values))
        raise node.refuse(f"expected {len(keys)} values, one per key, got {n_values}")
    if attributes.values_tensor is not None and default is None:
        dtype_kind = attributes.values_tensor.dtype.kind
        default = (
            attributes.default_string
            if dtype_kind in "OUST"
            else attributes.default_float
            if dtype_kind == "f"
            else attributes.default_int64
        )
    return _map_values(
        node,
        x,
        keys,
        _to_array(values),
        np.ravel(default)[0] if isinstance(default, np.ndarray) else default,
    )


# The host maps strings, by the same function.
operator("LabelEncoder", domain=ML_DOMAIN, host=label_encoder)(label_encoder)


def _to_array(values: np.ndarray | Sequence[object]) -> np.ndarray:
    """Array with ONNX's dtypes of attributes: int64, float32 and strings."""
    array = np.asarray(values)
    # Float attributes are float32 in the file, and compare exactly only in that dtype.
    if not isinstance(values, np.ndarray) and array.dtype.kind == "f":
        array = array.astype(np.float32)
    return array.astype(object) if array.dtype.kind in "US" else array


def _map_values(node: Call, x: Value, keys: np.ndarray, values: np.ndarray, default: Any) -> Value:
    """Map keys to values, by binary search in the sorted keys."""
    if keys.dtype.kind == "O" or values.dtype.kind == "O":
        # Strings have no tensors, so the host maps them.
        if isinstance(x, Tensor) and not node.trace.can_read:
            raise RunOnHostError
        return _map_values_on_host(
            x.numpy() if isinstance(x, Tensor) else np.asarray(x), keys, values, default
        )
    (elements,) = node.tensors(x)
    # Stable, so that the first of several equal keys wins.
    order = np.argsort(keys, kind="stable")
    # Binary search needs at least one key.
    if not keys.size:
        return asarray_like(np.asarray(default, values.dtype), elements).expand(*elements.shape)
    ordered = asarray_like(keys[order], elements).cast(elements.dtype)
    # An element above all keys has the index after the last.
    index = sv.searchsorted(ordered, elements).clip(0, len(keys) - 1)
    nearest = ordered[index]
    is_match = (
        (nearest == elements) | (nearest.isnan() & elements.isnan())
        if elements.dtype.is_float
        else nearest == elements
    )
    return is_match.where(
        asarray_like(values[order], elements)[index], asarray(default, dtype=str(values.dtype))
    )


def _map_values_on_host(x: Known, keys: np.ndarray, values: np.ndarray, default: Any) -> np.ndarray:
    table = dict(zip(keys.tolist(), values.tolist(), strict=True))
    # NaN differs from itself, so the dictionary cannot find it.
    nan = next((value for key, value in table.items() if key != key), default)
    mapped = [table.get(key, nan if key != key else default) for key in x.ravel().tolist()]
    return np.array(mapped, dtype=values.dtype).reshape(x.shape)
