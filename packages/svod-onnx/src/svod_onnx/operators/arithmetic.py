"""Arithmetic on elements."""

from __future__ import annotations

from functools import reduce

from svod_onnx._registry import Value, operator
from svod_onnx._trace import Call
from svod_tensor import Tensor

__all__ = ["add_all", "combine", "identity", "map_elements"]

_BY_NAME = {"Add": "add", "Sub": "sub", "Mul": "mul"}


@operator("Add", "Sub", "Mul", since=7)
def combine(node: Call, a: Tensor, b: Tensor) -> Tensor:
    return getattr(a, _BY_NAME[node.operator])(b)


@operator("Sum", since=6)
def add_all(*terms: Tensor) -> Tensor:
    return reduce(Tensor.add, terms)


@operator("Abs", "Neg", "Exp", "Relu")
def map_elements(node: Call, x: Tensor) -> Tensor:
    return getattr(x, node.operator.lower())()


@operator("Identity")
def identity(x: Value) -> Value:
    return x
