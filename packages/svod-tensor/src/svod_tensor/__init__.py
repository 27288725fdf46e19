"""Tensors that build a graph, and the pipeline that turns it into compiled kernels."""

from __future__ import annotations

from svod_tensor.tensor import Tensor
from svod_tensor.variable import Variable

__all__ = ["Tensor", "Variable"]
