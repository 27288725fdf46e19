"""What names the line of the program that a kernel of a derivative, or a mistake, belongs to."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from svod_ir import NotDifferentiableError
from svod_tensor import Tensor, checkpoint, custom_function, grad, track_origins, value_and_grad

_W = np.ones((16, 16), np.float32)


def _list_origins(f: Callable[[Tensor], Tensor]) -> list[str]:
    with track_origins():
        value, gradient = value_and_grad(f)(Tensor(_W).realize())
        plan = Tensor.prepare_batch([value, gradient])
        return [str(origin) for profile in plan.execute_profiled() for origin in profile.origins]


def test_a_kernel_of_a_derivative_has_the_origin_of_its_operation() -> None:
    def f(w: Tensor) -> Tensor:
        h = Tensor(_W) @ w
        return (h.softmax(-1) * h).sum()

    found = _list_origins(f)
    assert any(line.endswith("gradient of softmax") for line in found)
    assert any(line.endswith("gradient of matmul") for line in found)
    lines = {line.split()[0] for line in found if "gradient of" in line}
    assert all(line.startswith("test_derivative_origins.py:") for line in lines)


def test_recomputed_kernels_name_the_line_of_the_forward_pass() -> None:
    layer = checkpoint(lambda w: (Tensor(_W) @ w).tanh())
    found = _list_origins(lambda w: (layer(w) @ layer(layer(w))).sum())
    assert sum(line.endswith("gradient of matmul") for line in found) >= 1


def test_a_nondifferentiable_operation_is_named_with_its_shape_and_line() -> None:
    def bits(w: Tensor) -> Tensor:
        return (w.bitcast("int32") + 1).bitcast("float32").sum()

    with pytest.raises(
        NotDifferentiableError, match=r"BITCAST to float32 of shape \(16, 16\)"
    ) as found:
        grad(bits)(Tensor(_W))
    assert found.value.lines == ()
    with (
        track_origins(),
        pytest.raises(NotDifferentiableError, match=r"test_derivative_origins\.py") as found,
    ):
        grad(bits)(Tensor(_W))
    assert found.value.lines[0].endswith("bitcast")

    with pytest.raises(
        NotDifferentiableError, match=r"custom function 'test_nameless'.*custom_gradient"
    ):
        grad(lambda w: custom_function("test_nameless", w, outputs=(w.shape, w.dtype)).sum())(
            Tensor(_W)
        )
