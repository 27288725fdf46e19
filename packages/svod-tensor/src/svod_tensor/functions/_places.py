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
    "copy": "functions.base",
    "finfo": "functions.data_types",
    "from_dlpack": "functions.making",
    "iinfo": "functions.data_types",
    "intersect1d": "functions.sets",
    "isdtype": "functions.data_types",
    "max_pool2d": "functions.pooling",
    "result_type": "functions.data_types",
    "setdiff1d": "functions.sets",
    "setxor1d": "functions.sets",
    "union1d": "functions.sets",
}
