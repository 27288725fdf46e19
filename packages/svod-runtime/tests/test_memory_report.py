"""Memory reports."""

from __future__ import annotations

import pytest

from svod_runtime import MemoryReport


def test_a_report_counts_savings_of_sharing_and_donation() -> None:
    report = MemoryReport(
        "arena", 9, bytes_before=9 << 20, bytes_after=3 << 20, lower_bound=2 << 20
    )
    assert (report.bytes_saved, report.ratio) == (6 << 20, 1.5)
    assert (
        str(report)
        == "arena: 9 intermediates of 9.00 MiB in 3.00 MiB, 1.50 times the least possible"
    )
    donated = MemoryReport("remap", 2, 4096, 2048, 2048, n_donated=3, bytes_donated=1 << 30)
    assert donated.bytes_saved == 2048 + (1 << 30)
    assert str(donated) == (
        "remap: 2 intermediates of 4.00 KiB in 2.00 KiB, 1.00 times the least possible, "
        "3 outputs of 1.00 GiB in donated memory"
    )


def test_an_empty_report_is_short() -> None:
    report = MemoryReport("disabled")
    assert (report.bytes_saved, report.ratio, report.n_donated) == (0, 1.0, 0)
    assert str(report) == "disabled: 0 intermediates of 0 bytes"


@pytest.mark.parametrize(
    ("n_bytes", "text"),
    [
        (1023, "1023 bytes"),
        (1024, "1.00 KiB"),
        (1536, "1.50 KiB"),
        (1 << 20, "1.00 MiB"),
        (5 << 40, "5120.00 GiB"),
    ],
)
def test_bytes_are_shown_in_the_largest_unit_that_they_fill(n_bytes: int, text: str) -> None:
    assert str(MemoryReport("arena", 1, n_bytes, n_bytes, n_bytes)).startswith(
        f"arena: 1 intermediates of {text} in"
    )
