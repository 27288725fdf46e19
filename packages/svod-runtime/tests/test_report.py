"""Reports of profiles: tables, JSON, traces."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from svod_ir.target import Target
from svod_runtime import CachedKernel, KernelProfile, Limits, ProfileReport


def kernel(name: str) -> CachedKernel:
    class Spec:
        def __init__(self) -> None:
            self.name = name

    return CachedKernel(None, Spec())  # pyright: ignore[reportArgumentType]


ADD, MATMUL = kernel("E_16"), kernel("r_8_8_8")
PROFILES = [
    KernelProfile(ADD, "CPU", 3, 1_000, 2_000, 8_000, 5_000_000),
    KernelProfile(MATMUL, "CPU", 3, 10_000, 80_000, 40_000, 5_002_000),
    KernelProfile(ADD, "CPU", 3, 3_000, 2_000, 8_000, 5_013_000),
    KernelProfile(ADD, "CUDA", 3, 500, 2_000, 8_000, 5_017_000),
]


def test_launches_of_one_kernel_add_up_and_the_slowest_comes_first() -> None:
    matmul, add, other = ProfileReport(PROFILES).summaries()
    assert (matmul.name, matmul.n_launches, matmul.elapsed_ns) == ("r_8_8_8", 1, 10_000)
    assert (add.n_launches, add.elapsed_ns, add.fastest_ns, add.n_operations, add.n_bytes) == (
        2, 4_000, 1_000, 4_000, 16_000,
    )  # fmt: skip
    assert (add.gflops, add.gigabytes_per_second) == (1.0, 4.0)
    assert other.device == "CUDA"


def test_the_table_shows_each_kernel_and_their_sum() -> None:
    assert ProfileReport(PROFILES[:3]).table().splitlines() == [
        "kernel   device  launches     us     time  GFLOP/s  GB/s",
        "r_8_8_8  CPU            1  10.00   71.4 %     8.00  4.00",
        "E_16     CPU            2   4.00   28.6 %     1.00  4.00",
        "all                     3  14.00  100.0 %     6.00  4.00",
    ]


def test_a_long_table_is_cut() -> None:
    lines = ProfileReport(PROFILES).table(max_rows=1).splitlines()
    assert lines[2].split() == ["2", "more", "4.50", "31.0", "%"]
    assert len(lines) == 4


def test_rates_are_compared_with_what_the_device_could_do() -> None:
    limits = {"CPU": Limits(operations=16e9, n_bytes=8e9)}
    report = ProfileReport(PROFILES, limits)
    shares = [line.split()[-2] for line in report.table().splitlines()[1:3]]
    assert shares == ["50", "50"]
    target = Target.generic()
    assert Limits.of(target) == (target.peak_flops * target.cores, target.memory_bandwidth)
    assert json.loads(report.to_json())["kernels"][0]["share_of_limit"] == pytest.approx(0.5)


def test_json_has_every_launch_and_every_kernel() -> None:
    data = json.loads(ProfileReport(PROFILES).to_json())
    assert data["elapsed_ns"] == 14_500
    assert [launch["name"] for launch in data["launches"]] == ["E_16", "r_8_8_8", "E_16", "E_16"]
    assert data["kernels"][0] == {
        "name": "r_8_8_8", "device": "CPU", "launches": 1, "elapsed_ns": 10_000, "fastest_ns": 10_000,
        "operations": 80_000, "bytes": 40_000, "gflops": 8.0, "gigabytes_per_second": 4.0, "share_of_limit": None,
    }  # fmt: skip


def test_a_trace_has_one_row_for_each_device_and_times_from_the_first_launch(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    ProfileReport(PROFILES).write_trace(path)
    events = json.loads(path.read_text())["traceEvents"]
    names = {e["tid"]: e["args"]["name"] for e in events if e["ph"] == "M"}
    assert names == {0: "CPU", 1: "CUDA"}
    launches = [e for e in events if e["ph"] == "X"]
    assert [(e["name"], e["tid"], e["ts"], e["dur"]) for e in launches] == [
        ("E_16", 0, 0.0, 1.0), ("r_8_8_8", 0, 2.0, 10.0), ("E_16", 0, 13.0, 3.0), ("E_16", 1, 17.0, 0.5),
    ]  # fmt: skip
    assert launches[1]["args"] == {"buffers": 3, "operations": 80_000, "bytes": 40_000, "GFLOP/s": 8.0, "GB/s": 4.0}


def test_a_report_of_nothing_is_a_sum_of_nothing() -> None:
    report = ProfileReport([])
    assert report.summaries() == []
    assert report.table().splitlines()[-1].startswith("all")
    assert json.loads(report.to_trace())["traceEvents"] == []
