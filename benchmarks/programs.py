"""Programs whose compilation is measured: small ones, whole models, and chains of any length."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

__all__ = ["CHAINS", "PROGRAMS", "make_chain"]


def _prepare_add() -> Callable[[], Any]:
    from svod_tensor import Tensor

    return lambda: Tensor([0.5] * 16) + Tensor([1.5] * 16)


def _prepare_softmax() -> Callable[[], Any]:
    import numpy as np

    from svod_tensor import Tensor

    x = np.ones((512, 512), np.float32)
    return lambda: Tensor.from_numpy(x).softmax(-1)


def _prepare_encoder() -> Callable[[], Any]:
    import numpy as np

    from encoder import iter_layers, make_weights, svod_layer
    from svod_tensor import Tensor

    weights = make_weights(6, 384, 1536)

    def build() -> Any:
        x = Tensor.from_numpy(np.ones((4, 32, 384), np.float32))
        for layer in iter_layers(tuple(map(Tensor.from_numpy, weights))):
            x = svod_layer(x, layer, 12)
        return x

    return build


def _prepare_demo() -> Callable[[], Any] | None:
    from demo import find_demo_encoder, make_demo_inputs
    from svod_tensor import Tensor

    encoder, inputs = find_demo_encoder(), make_demo_inputs()
    return None if encoder is None else lambda: encoder(*map(Tensor.from_numpy, inputs))


PROGRAMS: dict[str, Callable[[], Callable[[], Any] | None]] = {
    "add16": _prepare_add,
    "softmax512": _prepare_softmax,
    "encoder4x32": _prepare_encoder,
    "demo": _prepare_demo,
}
"""Makers of programs: each creates its inputs and returns the function that builds the graph.

None if a package is not installed.
"""


def _make_input(n_elements: int) -> Any:
    import numpy as np

    from svod_tensor import Tensor

    return Tensor.from_numpy(np.linspace(0, 1, n_elements, dtype=np.float32))


def _repeat_sine(x: Any, n: int) -> Any:
    for _ in range(n):
        x = x.sin()
    return x


def _repeat_multiply_add(x: Any, n: int) -> Any:
    start = x
    for index in range(n // 2):
        x = x * start + math.sqrt(index + 2)
    return x


def _sum_tensors(x: Any, n: int) -> Any:
    for _ in range(n):
        x = x + _make_input(x.shape[0])
    return x


CHAINS: dict[str, Callable[[Any, int], Any]] = {
    "sin": _repeat_sine,
    "multiply-add": _repeat_multiply_add,
    "sum of tensors": _sum_tensors,
}


def make_chain(name: str, n: int) -> Any:
    """Apply `n` sequential elementwise operations to a tensor of some thousand elements.

    The number of elements depends on `n`, so that no chain shares a kernel with a shorter chain.
    """
    return CHAINS[name](_make_input(1024 + 64 * n), n)
