"""Options and their environment variables."""

from __future__ import annotations

import pytest

from svod_device import DeviceOptions
from svod_device.options import DEFAULT_CACHE_BYTES
from svod_ir import OptionError


def test_an_empty_environment_gives_the_defaults() -> None:
    assert DeviceOptions.from_env({}) == DeviceOptions() == DeviceOptions(DEFAULT_CACHE_BYTES, {})


def test_variables_set_the_options() -> None:
    variables = {
        "SVOD_ALLOCATOR_CACHE_BYTES": "0",
        "SVOD_CPU_BACKEND": "clang",
        "SVOD_CUDA_BACKEND": "nvptx",
    }
    assert DeviceOptions.from_env(variables) == DeviceOptions(0, {"CPU": "clang", "CUDA": "nvptx"})
    assert DeviceOptions.from_env({"SVOD_CPU_BACKEND": " "}).backends == {}
    assert DeviceOptions.from_env({"SVOD_MY_CHIP_BACKEND": "c"}).backends == {"MY_CHIP": "c"}


@pytest.mark.parametrize("value", ["-1", "1G", "many"])
def test_a_size_is_a_number_of_bytes(value: str) -> None:
    with pytest.raises(OptionError, match="SVOD_ALLOCATOR_CACHE_BYTES"):
        DeviceOptions.from_env({"SVOD_ALLOCATOR_CACHE_BYTES": value})
