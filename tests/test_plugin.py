"""A device that an installed package provides works like the CPU."""

from __future__ import annotations

import numpy as np
import pytest

from svod_device import get_device
from svod_tensor import Tensor

pytest.importorskip("svod_toy", reason="the plugin of examples/svod-toy is not installed")


def test_a_plugin_is_found_by_its_entry_points() -> None:
    device = get_device("TOY")
    assert device.backend_names == ("interpreter",)
    assert device.target.name == "generic"


def test_data_goes_to_a_plugin_and_comes_back() -> None:
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    there = Tensor(values).to("TOY")
    assert there.device == "TOY"
    np.testing.assert_array_equal(there.numpy(), values)


@pytest.mark.parametrize("shape", [(3,), (4, 5), (2, 3, 4)])
def test_a_plugin_computes(shape: tuple[int, ...]) -> None:
    values = np.random.default_rng(0).standard_normal(shape, dtype=np.float32)
    x = Tensor(values).to("TOY")
    result = (x * 2 + 1).sum(-1)
    assert result.device == "TOY"
    np.testing.assert_allclose(result.numpy(), (values * 2 + 1).sum(-1), rtol=1e-5)


def test_a_product_on_a_plugin_agrees_with_the_cpu() -> None:
    rng = np.random.default_rng(1)
    a, b = rng.standard_normal((5, 7), dtype=np.float32), rng.standard_normal((7, 3), dtype=np.float32)
    on_cpu = (Tensor(a) @ Tensor(b)).numpy()
    on_toy = (Tensor(a).to("TOY") @ Tensor(b).to("TOY")).numpy()
    np.testing.assert_allclose(on_toy, on_cpu, rtol=1e-5)
