"""Classical models and what prepares their inputs (ai.onnx.ml): linear ones, scalers, encoders."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

import svod_tensor as sv
from svod_onnx._registry import Known, RunOnHostError, Value, operator
from svod_onnx._scores import ML_DOMAIN, apply_post_transform, asarray_like, choose_class
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
    """The elements of the last axis at `y`; a single row gets an axis before it."""
    picked = x.take(y.reshape(-1), axis=-1)
    return picked.reshape(1, -1) if x.ndim == 1 else picked


@operator("Binarizer", domain=ML_DOMAIN)
def binarizer(x: Tensor, *, threshold: float = 0.0) -> Tensor:
    """1 where `x` is greater, and 0 elsewhere."""
    return (x > threshold).cast(x.dtype)


@operator("Scaler", domain=ML_DOMAIN)
def scaler(node: Call, x: Tensor, *, offset: list[float] | None = None, scale: list[float] | None = None) -> Tensor:
    """`(x - offset) * scale`, in float32, with one offset and scale for all columns or one for each."""
    return (x.cast("float32") - _make_row(node, offset or [0.0], x)) * _make_row(node, scale or [1.0], x)


def _make_row(node: Call, values: Sequence[float], x: Tensor) -> Tensor:
    if len(values) not in (1, x.shape[-1]):
        raise node.refuse(f"has {len(values)} values for {x.shape[-1]} columns")
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
    """`x` with another value in the place of one, by which missing ones are marked: NaN among others."""
    values: Any = imputed_value_floats if x.dtype.is_float else imputed_value_int64s
    if not values or len(values) not in (1, x.shape[-1]):
        raise node.refuse(f"has no values to impute for {x.shape[-1]} columns of {x.dtype}")
    row = asarray_like(values, x, str(x.dtype))
    if not x.dtype.is_float:
        return (x == replaced_value_int64).where(row, x)
    is_missing = x.isnan() if np.isnan(replaced_value_float) else x == replaced_value_float
    return is_missing.where(row, x)


@operator("FeatureVectorizer", domain=ML_DOMAIN)
def feature_vectorizer(*x: Tensor, inputdimensions: list[int] | None = None) -> Tensor:
    """The columns of all parts, of each as many as is said, in float32."""
    rows = [part.cast("float32").reshape(1, -1) if part.ndim == 1 else part.cast("float32") for part in x]
    if inputdimensions:
        rows = [
            row[:, :size].pad([(0, 0), (0, max(size - cast("int", row.shape[1]), 0))])
            for row, size in zip(rows, inputdimensions, strict=True)
        ]
    return sv.concat(rows, axis=1)


@operator("Normalizer", domain=ML_DOMAIN)
def normalizer(node: Call, x: Tensor, *, norm: str = "MAX") -> Tensor:
    """Each row divided by its norm; rows of norm 0 stay."""
    rows = x.cast("float32")
    match norm:
        case "MAX":
            size = rows.abs().max(-1, keepdims=True)
        case "L1":
            size = rows.abs().sum(-1, keepdims=True)
        case "L2":
            size = rows.square().sum(-1, keepdims=True).sqrt()
        case _:
            raise node.refuse(f"has no norm {norm!r}")
    return rows / (size == 0).where(1.0, size)


def _multiply(
    node: Call, x: Tensor, coefficients: list[float] | None, intercepts: list[float] | None, n_targets: int
) -> Tensor:
    """`x @ coefficients + intercepts`, in float32, of shape (rows, targets)."""
    rows = x.cast("float32")
    rows = rows.reshape(1, -1) if x.ndim == 1 else rows
    table = asarray_like(coefficients or [], x, "float32")
    if table.size != n_targets * rows.shape[1]:
        raise node.refuse(f"has {table.size} coefficients for {rows.shape[1]} columns and {n_targets} targets")
    scores = rows @ table.reshape(n_targets, -1).transpose(0, 1)
    if not intercepts:
        return scores
    if len(intercepts) != n_targets:
        raise node.refuse(f"has {len(intercepts)} intercepts for {n_targets} targets")
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
    return apply_post_transform(node, _multiply(node, x, coefficients, intercepts, targets), post_transform)


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
) -> tuple[Tensor, Tensor]:
    """The class of each row, and the scores, of shape (rows, classes)."""
    del multi_class
    if classlabels_strings:
        raise node.refuse("has classes that are named by strings, which svod-onnx does not give: name them by numbers")
    labels = classlabels_ints or [0]
    n_features: Any = x.shape[-1]
    n_scores = max(len(coefficients) // max(n_features, 1), 1)
    return choose_class(
        node, _multiply(node, x, coefficients, intercepts, n_scores), labels, post_transform, is_positive=False
    )


@operator("OneHotEncoder", domain=ML_DOMAIN)
def one_hot_encoder(
    node: Call, x: Value, *, cats_int64s: list[int] | None = None, cats_strings: list[str] | None = None, zeros: int = 1
) -> Value:
    """1 in the place of an element's category, along a new last axis, in float32; zeros for what has none.

    With `zeros` = 0 what has none is an error in ONNX; numbers are known too late to say so, and are encoded as with 1.
    """
    del zeros
    if isinstance(x, np.ndarray) and x.dtype.kind in "OUST":
        return (x[..., None] == np.array(cats_strings or [], dtype=object)).astype(np.float32)
    (numbers,) = node.tensors(x)
    categories = asarray_like(cats_int64s or [], numbers, "int64")
    return (numbers.cast("int64").unsqueeze(-1) == categories).cast("float32")


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
    """For each element the value of its key, or the default. Of the first version: classes, and their places."""
    if attributes.classes_strings is not None:
        is_text = isinstance(x, np.ndarray) and x.dtype.kind in "OUST"
        names, places = _array(attributes.classes_strings), np.arange(len(attributes.classes_strings))
        pair = (names, places) if is_text else (places, names)
        return _look_up(node, x, *pair, attributes.default_int64 if is_text else attributes.default_string)
    keys = next(
        (
            _array(k)
            for k in (attributes.keys_tensor, attributes.keys_int64s, attributes.keys_floats, attributes.keys_strings)
            if k is not None
        ),
        _array([]),
    )
    choices = (
        (attributes.values_tensor, attributes.default_tensor),
        (attributes.values_int64s, attributes.default_int64),
        (attributes.values_floats, attributes.default_float),
        (attributes.values_strings, attributes.default_string),
    )
    values, default = next(((v, d) for v, d in choices if v is not None), (None, None))
    if values is None or len(_array(values)) != len(keys):
        raise node.refuse(f"has {len(keys)} keys, and not as many values")
    if attributes.values_tensor is not None and default is None:
        kind = attributes.values_tensor.dtype.kind
        default = (
            attributes.default_string
            if kind in "OUST"
            else attributes.default_float
            if kind == "f"
            else attributes.default_int64
        )
    return _look_up(node, x, keys, _array(values), np.ravel(default)[0] if isinstance(default, np.ndarray) else default)


# Strings are looked up on the host, by the same function.
operator("LabelEncoder", domain=ML_DOMAIN, host=label_encoder)(label_encoder)


def _array(values: np.ndarray | Sequence[object]) -> np.ndarray:
    """ONNX's own widths: int64, float32, and strings."""
    array = np.asarray(values)
    if not isinstance(values, np.ndarray) and array.dtype.kind == "f":
        array = array.astype(np.float32)
    return array.astype(object) if array.dtype.kind in "US" else array


def _look_up(node: Call, x: Value, keys: np.ndarray, values: np.ndarray, default: Any) -> Value:
    if keys.dtype.kind == "O" or values.dtype.kind == "O":
        if isinstance(x, Tensor) and not node.trace.can_read:
            raise RunOnHostError
        return _look_up_on_host(x.numpy() if isinstance(x, Tensor) else np.asarray(x), keys, values, default)
    (numbers,) = node.tensors(x)
    order = np.argsort(keys, kind="stable")
    if not keys.size:
        return asarray_like(np.asarray(default, values.dtype), numbers).expand(*numbers.shape)
    ordered = asarray_like(keys[order], numbers).cast(numbers.dtype)
    place = sv.searchsorted(ordered, numbers).clip(0, len(keys) - 1)
    found = ordered[place]
    same = (found == numbers) | (found.isnan() & numbers.isnan()) if numbers.dtype.is_float else found == numbers
    return same.where(asarray_like(values[order], numbers)[place], asarray(default, dtype=str(values.dtype)))


def _look_up_on_host(x: Known, keys: np.ndarray, values: np.ndarray, default: Any) -> np.ndarray:
    table = dict(zip(keys.tolist(), values.tolist(), strict=True))
    nan = next((value for key, value in table.items() if key != key), default)
    found = [table.get(key, nan if key != key else default) for key in x.ravel().tolist()]
    return np.array(found, dtype=values.dtype).reshape(x.shape)
