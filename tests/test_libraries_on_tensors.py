"""Third-party libraries accept tensors.

These are einops, opt_einsum, array-api-compat, matplotlib, pandas, Pillow, and torch and jax
through DLPack in both directions.
"""

from __future__ import annotations

import io

import numpy as np
import pytest

import svod_tensor as sv
from svod_tensor import Tensor, jit

IMAGE = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


def test_einops_takes_tensors_through_the_standard() -> None:
    einops = pytest.importorskip(
        "einops.array_api", reason="einops is not installed: tox run -e interop"
    )
    x = Tensor(IMAGE)
    for ours, theirs in (
        (einops.rearrange(x, "b h w -> (b h) w"), IMAGE.reshape(6, 4)),
        (
            einops.rearrange(x, "b (h p) w -> b p (w h)", p=3),
            IMAGE.reshape(2, 1, 3, 4).transpose(0, 2, 3, 1).reshape(2, 3, 4),
        ),
        (einops.reduce(x, "b h w -> b h", "mean"), IMAGE.mean(-1)),
        (
            einops.reduce(x, "b h (w p) -> h b w", "max", p=2),
            IMAGE.reshape(2, 3, 2, 2).max(-1).transpose(1, 0, 2),
        ),
        (einops.repeat(x, "b h w -> b (h 2) w"), IMAGE.repeat(2, 1)),
    ):
        assert isinstance(ours, Tensor)
        np.testing.assert_allclose(ours.numpy(), theirs)


def test_opt_einsum_contracts_tensors() -> None:
    opt_einsum = pytest.importorskip(
        "opt_einsum", reason="opt_einsum is not installed: tox run -e interop"
    )
    arrays = [np.random.default_rng(i).standard_normal((5, 5)) for i in range(4)]
    path = opt_einsum.contract_path("ij,jk,kl,lm->im", *arrays)[0]
    found = opt_einsum.contract("ij,jk,kl,lm->im", *map(Tensor, arrays), optimize=path)
    assert isinstance(found, Tensor)
    np.testing.assert_allclose(found.numpy(), np.linalg.multi_dot(arrays), rtol=1e-12)


def test_array_api_compat_finds_the_namespace() -> None:
    compat = pytest.importorskip(
        "array_api_compat", reason="array-api-compat is not installed: tox run -e interop"
    )
    x = Tensor(IMAGE)
    assert compat.is_array_api_obj(x)
    assert compat.array_namespace(x, x + 1) is sv
    assert compat.device(x) == x.device
    assert compat.size(x) == x.size
    assert compat.to_device(x, "CPU").tolist() == x.tolist()
    assert compat.is_writeable_array(x)


@pytest.mark.parametrize(
    "dtype", ["float32", "float64", "int32", "int64", "uint8", "bool", "complex64"]
)
def test_torch_and_tensors_share_memory_both_ways(dtype: str) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed: tox run -e interop")
    array = np.arange(6).reshape(2, 3).astype(dtype)
    x = Tensor(array).clone().realize()
    theirs = torch.from_dlpack(x)
    np.testing.assert_array_equal(theirs.numpy(), array)
    ours = sv.from_dlpack(torch.tensor(array))
    np.testing.assert_array_equal(ours.numpy(), array)
    assert str(ours.dtype) == dtype


def test_narrow_floats_of_torch_become_tensors() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed: tox run -e interop")
    theirs = torch.tensor([1.0, 2.5], dtype=torch.bfloat16)
    x = Tensor(theirs)
    theirs[0] = 9
    assert (x.tolist(), str(x.dtype)) == ([1.0, 2.5], "bfloat16")
    assert Tensor(theirs, dtype="float32").tolist() == [9.0, 2.5]


@pytest.mark.parametrize("dtype", ["float32", "int32", "uint8", "bool", "complex64"])
def test_jax_and_tensors_share_memory_both_ways(dtype: str) -> None:
    jnp = pytest.importorskip("jax.numpy", reason="jax is not installed: tox run -e interop")
    array = np.arange(6).reshape(2, 3).astype(dtype)
    np.testing.assert_array_equal(
        np.asarray(jnp.from_dlpack(Tensor(array).clone().realize())), array
    )
    np.testing.assert_array_equal(sv.from_dlpack(jnp.asarray(array)).numpy(), array)


def test_matplotlib_draws_tensors() -> None:
    matplotlib = pytest.importorskip(
        "matplotlib", reason="matplotlib is not installed: tox run -e interop"
    )
    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    x = Tensor.linspace(0, 1, num=7)
    figure, (left, middle, right) = plt.subplots(1, 3)
    (line,) = left.plot(x, x.sin())
    np.testing.assert_allclose(line.get_ydata(), np.sin(np.linspace(0, 1, 7)), rtol=1e-6)
    shown = middle.imshow(Tensor(IMAGE)[0])
    np.testing.assert_array_equal(shown.get_array(), IMAGE[0])
    counts, _, _ = right.hist(Tensor(IMAGE).flatten(), bins=4)
    assert counts.tolist() == [6, 6, 6, 6]
    left.scatter(x, x, c=x, s=10 * x)
    left.fill_between(x, x, x + 1)
    figure.savefig(io.BytesIO(), format="png")
    plt.close(figure)


def test_pandas_makes_columns_of_tensors() -> None:
    pandas = pytest.importorskip("pandas", reason="pandas is not installed: tox run -e interop")
    x = Tensor([1.5, 2.5, 4.0])
    frame = pandas.DataFrame({"x": np.asarray(x), "y": x * 2})
    assert frame["y"].tolist() == [3.0, 5.0, 8.0]
    assert pandas.DataFrame(Tensor(IMAGE)[0]).shape == (3, 4)
    assert pandas.Series(x).mean() == pytest.approx(8 / 3)
    np.testing.assert_array_equal(Tensor(frame["y"]).numpy(), [3.0, 5.0, 8.0])
    np.testing.assert_array_equal(Tensor(frame).numpy(), frame.to_numpy())


def test_pillow_makes_images_of_tensors() -> None:
    image = pytest.importorskip("PIL.Image", reason="Pillow is not installed: tox run -e interop")
    pixels = (np.arange(48) % 256).reshape(4, 4, 3).astype(np.uint8)
    made = image.fromarray(np.asarray(Tensor(pixels)))
    np.testing.assert_array_equal(np.asarray(made), pixels)
    np.testing.assert_array_equal(Tensor(made).numpy(), pixels)


def test_functions_of_numpy_in_a_captured_function_are_part_of_its_plan() -> None:
    compute = jit(lambda x: np.mean(np.sin(x) ** 2, axis=0))
    for seed in range(3):
        array = np.random.default_rng(seed).standard_normal((5, 3)).astype(np.float32)
        np.testing.assert_allclose(
            compute(Tensor(array)).numpy(), (np.sin(array) ** 2).mean(0), rtol=1e-5
        )
