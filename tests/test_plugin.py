"""A device from an installed plugin works like the CPU."""

from __future__ import annotations

from pathlib import Path

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


def test_what_follows_the_colon_of_a_plugin_s_device_names_it() -> None:
    values = np.arange(6, dtype=np.float32)
    there = Tensor(values, device="toy:host-7.example:8080")
    result = (there + 1).sum() * 2
    assert result.device == "TOY:host-7.example:8080"
    assert result.item() == (values + 1).sum() * 2
    assert result.buffer().device == result.device


@pytest.mark.parametrize("shape", [(3,), (4, 5), (2, 3, 4)])
def test_a_plugin_computes(shape: tuple[int, ...]) -> None:
    values = np.random.default_rng(0).standard_normal(shape, dtype=np.float32)
    x = Tensor(values).to("TOY")
    result = (x * 2 + 1).sum(-1)
    assert result.device == "TOY"
    np.testing.assert_allclose(result.numpy(), (values * 2 + 1).sum(-1), rtol=1e-5)


def test_a_product_on_a_plugin_agrees_with_the_cpu() -> None:
    rng = np.random.default_rng(1)
    a, b = (
        rng.standard_normal((5, 7), dtype=np.float32),
        rng.standard_normal((7, 3), dtype=np.float32),
    )
    on_cpu = (Tensor(a) @ Tensor(b)).numpy()
    on_toy = (Tensor(a).to("TOY") @ Tensor(b).to("TOY")).numpy()
    np.testing.assert_allclose(on_toy, on_cpu, rtol=1e-5)


def test_one_plan_runs_on_the_cpu_and_on_a_plugin() -> None:
    values = np.arange(6, dtype=np.float32)
    x = Tensor(values)
    y = ((x + 1).to("TOY") * 2).to("CPU:1") + x.to("CPU:1")
    plan = y.prepare()
    assert [profile.device for profile in plan.execute_profiled()] == ["CPU", "TOY", "CPU:1"]
    np.testing.assert_array_equal(y.numpy(), (values + 1) * 2 + values)


def test_a_plugin_gets_copies_of_files_and_of_results_that_are_made_from_them(
    tmp_path: Path,
) -> None:
    path = tmp_path / "bytes"
    path.write_bytes(bytes(range(16)))
    file, there = Tensor.from_file(path), Tensor(np.ones(4, np.uint8)).to("TOY")
    for result, expected in (
        (file.to("TOY"), range(16)),
        ((file[2:6] * 2).to("TOY"), (4, 6, 8, 10)),
        (file[2:6] + there, (3, 4, 5, 6)),
    ):
        assert result.device == "TOY"
        assert result.tolist() == list(expected)
        assert result.buffer().device == "TOY"


@pytest.mark.parametrize("axis", [None, 0, 1])
def test_a_tensor_is_spread_over_the_cpu_and_a_plugin(axis: int | None) -> None:
    values = np.arange(12, dtype=np.float32).reshape(4, 3)
    x = Tensor(values).shard(("CPU", "TOY"), axis)
    np.testing.assert_array_equal((x * 2).sum(0).numpy(), (values * 2).sum(0))
    x = x.realize()
    x.assign(x + 1)
    np.testing.assert_array_equal(x.to("TOY").numpy(), values + 1)
    assert [shard.buffer().device for shard in x.shards()] == ["CPU", "TOY"]
