"""Computing with a backend that the configuration names."""

from __future__ import annotations

import shutil
import subprocess
import sys

import numpy as np
import pytest

from svod_device import UnknownBackendError, get_device
from svod_tensor import PrepareConfig, Tensor
from svod_tensor.engine.choose_device import choose_device

needs_compiler = pytest.mark.skipif(
    not any(map(shutil.which, ("cc", "gcc", "clang"))), reason="no C compiler here"
)


@pytest.mark.parametrize(
    ("backend", "on_cpu", "on_toy"),
    [
        (None, None, None),
        ("c", "c", "c"),
        ("CPU.c", "c", None),
        ("cpu.c", "c", None),
        ("TOY.x", None, "x"),
    ],
)
def test_a_backend_is_named_for_all_devices_or_for_one_kind(
    backend: str | None, on_cpu: str | None, on_toy: str | None
) -> None:
    config = PrepareConfig(backend=backend)
    assert config.find_backend("CPU") == config.find_backend("CPU:1") == on_cpu
    assert config.find_backend("TOY") == on_toy


def test_kernels_of_two_backends_are_two_kernels() -> None:
    assert PrepareConfig(backend="c").fingerprint != PrepareConfig().fingerprint
    assert PrepareConfig(backend="c").fingerprint != PrepareConfig(backend="llvm").fingerprint


def test_a_backend_that_a_device_lacks_is_an_error() -> None:
    with pytest.raises(UnknownBackendError, match="no backend 'fortran'"):
        (Tensor([1.0, 2.0]) + 1).realize_with(PrepareConfig(backend="fortran"))


def test_a_device_with_another_backend_shares_other_caches() -> None:
    cpu = get_device("CPU")
    assert cpu.with_backend(None) is cpu.with_backend(cpu.default_backend) is cpu
    other = cpu.with_backend("c")
    assert other is cpu.with_backend("c") is choose_device("CPU", PrepareConfig(backend="c"))
    assert (other.default_backend, other.name, other.allocator) == ("c", cpu.name, cpu.allocator)


@needs_compiler
def test_one_process_computes_with_both_compilers_of_the_cpu() -> None:
    values = np.random.default_rng(0).standard_normal((37, 53), dtype=np.float32)
    found = [
        ((Tensor(values) * 3).exp().sum(1)).realize_with(PrepareConfig(backend=backend)).numpy()
        for backend in ("llvm", "c", "llvm", "c")
    ]
    for result in found:
        np.testing.assert_allclose(result, np.exp(values * 3).sum(1), rtol=1e-5)


@needs_compiler
def test_the_environment_sets_the_backend_of_a_kind() -> None:
    code = (
        "from svod_device import get_device; from svod_tensor import Tensor\n"
        "print(get_device('CPU').default_backend, (Tensor([1.0, 2.0]) * 2).numpy().tolist())"
    )
    found = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={"SVOD_CPU_BACKEND": "c", "PATH": "/usr/bin:/bin"},
    )
    assert found.stdout.strip() == "c [2.0, 4.0]"
