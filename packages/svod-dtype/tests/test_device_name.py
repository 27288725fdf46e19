"""Device names."""

from __future__ import annotations

import pytest

from svod_dtype import DeviceName, DeviceNameError, parse_device_name


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("CPU", DeviceName("CPU")),
        ("cpu", DeviceName("CPU")),
        ("CPU:0", DeviceName("CPU", 0)),
        ("cuda:3", DeviceName("CUDA", 3)),
        ("DISK:/tmp/a:b", DeviceName("DISK", 0, "/tmp/a:b")),
        ("disk:weights.bin", DeviceName("DISK", 0, "weights.bin")),
        ("MY_CHIP2:12", DeviceName("MY_CHIP2", 12)),
        ("remote:Host-7.example:8080/x", DeviceName("REMOTE", 0, "Host-7.example:8080/x")),
        ("REMOTE:::1", DeviceName("REMOTE", 0, "::1")),
        ("CPU:-1", DeviceName("CPU", 0, "-1")),
        ("CPU:\u0663", DeviceName("CPU", 0, "\u0663")),
    ],
)
def test_names_parse(text: str, expected: DeviceName) -> None:
    assert parse_device_name(text) == expected


@pytest.mark.parametrize("text", ["", ":", ":1", "CPU:", "CPU: ", "2CPU", "C PU", "DISK", "DISK:"])
def test_an_invalid_name_is_an_error_that_shows_it(text: str) -> None:
    with pytest.raises(DeviceNameError) as caught:
        parse_device_name(text)
    assert isinstance(caught.value, ValueError)
    assert caught.value.given == text
    assert repr(text) in str(caught.value)


@pytest.mark.parametrize("text", ["CPU", "CUDA:3", "DISK:/tmp/file"])
def test_the_canonical_spelling_reads_back(text: str) -> None:
    assert str(parse_device_name(text)) == text


def test_index_zero_is_the_default() -> None:
    assert parse_device_name("CPU:0") == parse_device_name("CPU")
    assert str(parse_device_name("cpu:0")) == "CPU"


def test_a_location_is_not_an_index() -> None:
    assert parse_device_name("CPU:3").get_index() == 3
    with pytest.raises(
        DeviceNameError, match="invalid device name 'CPU:x': 'x' is not a device index"
    ):
        parse_device_name("cpu:x").get_index()
