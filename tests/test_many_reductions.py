"""Programs with more reductions than one kernel fuses, in loops and with variable sizes, match
numpy.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from svod_tensor import Tensor, fori_loop, jit, scan

MANY = 20
ROWS = np.random.default_rng(5).standard_normal((12, 30))


def centre(x: Any) -> Any:
    for i in range(MANY):
        x = (x - x.mean(-1, keepdims=True)) * (1 + i / MANY) / abs(1 + x.max(-1, keepdims=True))
    return x


def measure(x: Any) -> Any:
    """Norm of many functions of all elements, like the gradient norm of many parameters."""
    return sum(((x * (i + 1.0) / MANY) ** 2 / (1 + abs(x))).sum() for i in range(MANY)) ** 0.5


def step(x: Any) -> Any:
    return centre(x) + 0.01 * measure(x)


@pytest.mark.parametrize("function", [centre, measure, step])
def test_results_for_any_number_of_rows_agree_with_numpy(function: Any) -> None:
    captured = jit(function)
    for n_rows in (1, 7, 12, 19, 33):
        rows = np.resize(ROWS, (n_rows, 30))
        np.testing.assert_allclose(
            captured(Tensor(rows)).numpy(), function(rows), rtol=1e-10, atol=1e-12
        )


def test_a_loop_body_stores_values_that_do_not_fit_one_kernel() -> None:
    expected = ROWS
    for _ in range(3):
        expected = step(expected)
    found = fori_loop(0, 3, lambda _, x: step(x), Tensor(ROWS))
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-10, atol=1e-12)


def test_a_scan_body_stores_values_that_do_not_fit_one_kernel() -> None:
    def body(carry: Any, row: Any) -> tuple[Any, Any]:
        return carry * 0.5 + measure(row) * row, centre(row.reshape(1, 30) * carry.sum())

    carry: Any = np.ones(30)
    outputs: list[Any] = []
    for row in ROWS:
        carry, output = body(carry, row)
        outputs.append(output)
    found_carry, found_outputs = scan(body, Tensor(np.ones(30)), Tensor(ROWS))
    np.testing.assert_allclose(found_carry.numpy(), carry, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(found_outputs.numpy(), np.stack(outputs), rtol=1e-10, atol=1e-12)
