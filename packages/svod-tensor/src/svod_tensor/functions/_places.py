"""Which module of svod_tensor has each function of the array API standard."""

# Written by tools/functions.py from svod_tensor/ops/standard.py.

from __future__ import annotations

from typing import Final

__all__ = ["PLACES"]

PLACES: Final = {
    "__array_namespace_info__": "functions.information",
    "asarray": "functions.making",
    "avg_pool2d": "functions.pooling",
    "broadcast_shapes": "functions.data_types",
    "can_cast": "functions.data_types",
    "convolve": "functions.samples",
    "copy": "functions.base",
    "corrcoef": "functions.samples",
    "correlate": "functions.samples",
    "cov": "functions.samples",
    "digitize": "functions.samples",
    "finfo": "functions.data_types",
    "from_dlpack": "functions.making",
    "histogram": "functions.samples",
    "iinfo": "functions.data_types",
    "intersect1d": "functions.sets",
    "isdtype": "functions.data_types",
    "logsumexp": "functions.statistics",
    "max_pool2d": "functions.pooling",
    "mean": "functions.statistics",
    "nan_to_num": "functions.missing",
    "nanargmax": "functions.missing",
    "nanargmin": "functions.missing",
    "nancumprod": "functions.missing",
    "nancumsum": "functions.missing",
    "nanmean": "functions.statistics",
    "nanstd": "functions.missing",
    "nanvar": "functions.missing",
    "result_type": "functions.data_types",
    "setdiff1d": "functions.sets",
    "setxor1d": "functions.sets",
    "std": "functions.statistics",
    "union1d": "functions.sets",
    "var": "functions.statistics",
}
