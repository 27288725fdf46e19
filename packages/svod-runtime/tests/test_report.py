"""Reports of profiles: tables, JSON, traces."""

from __future__ import annotations

import io
import json
import math
from pathlib import Path

import pytest

from svod_device import ProgramSpec
from svod_ir import Rates, Target
from svod_ir.origins import Origin
from svod_runtime import CachedKernel, FunctionProfile, KernelProfile, Limits, ProfileReport
from svod_runtime.profile.report_table import align_rows


def kernel(name: str, *reasons: str) -> CachedKernel:
    return CachedKernel(None, ProgramSpec(name, "", "CPU", reasons=reasons))  # pyright: ignore[reportArgumentType]


ADD, MATMUL = kernel("E_16"), kernel("r_8_8_8")
PROFILES = [
    KernelProfile(ADD, "CPU", 3, 1_000, 2_000, 8_000, 5_000_000),
    KernelProfile(MATMUL, "CPU", 3, 10_000, 80_000, 40_000, 5_002_000),
    KernelProfile(ADD, "CPU", 3, 3_000, 2_000, 8_000, 5_013_000),
    KernelProfile(ADD, "CUDA", 3, 500, 2_000, 8_000, 5_017_000),
]


ADDED = Origin("/home/me/model.py", 3, "forward", "add", "encoder.layer0.norm")
MULTIPLIED = Origin("/home/me/model.py", 9, "forward", "matmul", "encoder.layer0.mlp")
TRACKED = [
    KernelProfile(ADD, "CPU", 3, 1_000, 2_000, 8_000, 0, (ADDED,)),
    KernelProfile(MATMUL, "CPU", 3, 10_000, 80_000, 40_000, 0, (MULTIPLIED, ADDED)),
]


def test_the_reasons_for_opts_are_below_the_table() -> None:
    product = kernel(
        "r_8_8_8",
        "UPCAST(1, 8): lanes along axis 1 (8)",
        "one thread: 512 steps are less than 32768",
    )
    report = ProfileReport(
        [KernelProfile(product, "CPU", 3, 10_000, 80_000, 40_000), PROFILES[0]], {}
    )
    below = (
        "r_8_8_8\n    UPCAST(1, 8): lanes along axis 1 (8)\n    one thread: 512 steps are less than"
        " 32768"
    )
    assert str(report) == f"{report.table()}\n\n{below}"
    assert [k["reasons"] for k in json.loads(report.to_json())["kernels"]] == [
        list(product.spec.reasons),
        [],
    ]
    out = io.StringIO()
    report.show(out)
    assert out.getvalue().endswith(f"\n\n{below}\n")


def test_launches_of_one_kernel_add_up_and_the_slowest_comes_first() -> None:
    matmul, add, other = ProfileReport(PROFILES).summaries()
    assert (matmul.name, matmul.n_launches, matmul.elapsed_ns) == ("r_8_8_8", 1, 10_000)
    assert (add.n_launches, add.elapsed_ns, add.fastest_ns, add.n_operations, add.n_bytes) == (
        2,
        4_000,
        1_000,
        4_000,
        16_000,
    )
    assert (add.gflops, add.gigabytes_per_second) == (1.0, 4.0)
    assert other.device == "CUDA"


def test_the_table_shows_each_kernel_and_their_sum() -> None:
    report = ProfileReport(PROFILES[:3], {})
    assert str(report).splitlines() == [
        "kernel   calls     us  fastest     time  GFLOP/s  GB/s",
        "r_8_8_8      1  10.00            71.4 %     8.00  4.00",
        "E_16         2   4.00     1.00   28.6 %     1.00  4.00",
        "all          3  14.00           100.0 %     6.00  4.00",
    ]
    assert repr(report) == "<ProfileReport of 3 launches in 1 runs, 14.00 us>"


def test_copies_have_a_row_and_a_share_of_the_time() -> None:
    report = ProfileReport(PROFILES[:1], {}, n_runs=2, transfer_times=[2_000, 7_000])
    assert report.elapsed_ns == 10_000
    assert str(report).splitlines() == [
        "kernel  calls    us     time  GFLOP/s  GB/s",
        "E_16      0.5  0.50   10.0 %     2.00  8.00",
        "copies      1  4.50   90.0 %",
        "all       1.5  5.00  100.0 %     0.20  0.80",
    ]
    assert json.loads(report.to_json())["transfers_ns"] == 9_000


def test_custom_functions_have_rows_among_the_kernels() -> None:
    functions = [
        FunctionProfile("fft", "CPU", 2, 3_000, 8_000, 5_001_000),
        FunctionProfile("fft", "CPU", 2, 1_000, 8_000, 5_005_000),
    ]
    report = ProfileReport(PROFILES[:2], {}, functions=functions)
    assert str(report).splitlines() == [
        "kernel   calls     us  fastest     time  GFLOP/s  GB/s",
        "r_8_8_8      1  10.00            66.7 %     8.00  4.00",
        "fft          2   4.00     1.00   26.7 %     0.00  4.00",
        "E_16         1   1.00             6.7 %     2.00  8.00",
        "all          4  15.00           100.0 %     5.47  4.27",
    ]
    assert (report.n_launches, report.elapsed_ns) == (2, 15_000)
    launches = json.loads(report.to_json())["launches"]
    assert [launch["kind"] for launch in launches] == ["kernel", "function", "kernel", "function"]
    events = [event for event in json.loads(report.to_trace())["traceEvents"] if "ts" in event]
    assert [(e["name"], e["cat"], e["ts"], e["dur"]) for e in events[:2]] == [
        ("E_16", "kernel", 0, 1),
        ("fft", "function", 1, 3),
    ]


def test_a_table_of_several_runs_shows_the_average_one() -> None:
    report = ProfileReport([PROFILES[0], PROFILES[2]], {}, n_runs=2)
    assert report.table().splitlines()[1].split() == [
        "E_16",
        "1",
        "2.00",
        "1.00",
        "100.0",
        "%",
        "1.00",
        "4.00",
    ]


def test_long_scopes_are_cut() -> None:
    long = "encoder/" * 20
    first, second, _ = align_rows(
        [("kernel", "scope", "from"), ("k", long, "f:1"), ("k" * 99, "short", "f:2")]
    ).splitlines()
    assert first == f"{'kernel':99}  {'scope':60}  from"
    assert second == f"{'k':99}  {long[:57]}...  f:1"


def test_source_lines_and_scopes_are_in_the_rows_of_kernels() -> None:
    report = ProfileReport(TRACKED, {})
    assert report.table().splitlines()[:3] == [
        "kernel   calls     us     time  GFLOP/s  GB/s  scope                from",
        (
            "r_8_8_8      1  10.00   90.9 %     8.00  4.00  encoder.layer0       model.py:9 matmul"
            " (+1 more)"
        ),
        "E_16         1   1.00    9.1 %     2.00  8.00  encoder.layer0.norm  model.py:3 add",
    ]
    assert [(s.scope, s.n_launches, s.elapsed_us) for s in report.scopes()] == [
        ("encoder.layer0", 1, 10.0),
        ("encoder.layer0.norm", 1, 1.0),
    ]
    launch = json.loads(report.to_json())["launches"][0]
    assert launch["origins"] == [
        {
            "file": "/home/me/model.py",
            "line": 3,
            "function": "forward",
            "operation": "add",
            "scope": "encoder.layer0.norm",
        }
    ]
    traced = json.loads(report.to_trace())["traceEvents"][-1]["args"]
    assert traced["from"] == ["/home/me/model.py:9 matmul", "/home/me/model.py:3 add"]
    assert traced["scope"] == "encoder.layer0"


def test_one_kernel_launched_from_several_lines_names_them_all() -> None:
    again = KernelProfile(ADD, "CPU", 3, 1_000, 2_000, 8_000, 0, (MULTIPLIED,))
    (summary,) = ProfileReport([TRACKED[0], again]).summaries()
    assert summary.origins == (ADDED, MULTIPLIED)


def test_a_profile_is_named_in_one_line() -> None:
    assert (
        repr(TRACKED[1])
        == "<KernelProfile r_8_8_8 on CPU: 10.00 us, 8.00 GFLOP/s, 4.00 GB/s, from model.py:9"
        " matmul (+1 more)>"
    )
    assert "from" not in repr(PROFILES[0])


@pytest.mark.parametrize("width", [40, 80, 200])
def test_a_terminal_gets_a_table_by_rich_where_that_is_installed(
    width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("rich")
    monkeypatch.setenv("COLUMNS", str(width))
    out = io.StringIO()
    ProfileReport(TRACKED, {}).show(out)
    assert "r_8_8_8" in out.getvalue()
    assert all(len(line) <= width for line in out.getvalue().splitlines())


def test_without_rich_the_table_is_text(monkeypatch: pytest.MonkeyPatch) -> None:
    def find_nothing(name: str) -> None:
        assert name == "rich"

    monkeypatch.setattr("svod_runtime.profile.report.find_spec", find_nothing)
    out = io.StringIO()
    report = ProfileReport(TRACKED, {})
    report.show(out)
    assert out.getvalue() == f"{report.table()}\n"


def test_a_long_table_is_cut() -> None:
    lines = ProfileReport(PROFILES, {}).table(max_rows=1).splitlines()
    assert lines[2].split() == ["2", "more", "3", "4.50", "31.0", "%"]
    assert len(lines) == 4


def test_rates_are_compared_with_what_the_device_could_do() -> None:
    limits = {"CPU": Limits(operations=16e9, levels=((16_000, 8e9), (math.inf, 9e9)))}
    report = ProfileReport(PROFILES, limits)
    matmul, add, other = report.summaries()
    assert (matmul.share_of_limit, matmul.bound) == (pytest.approx(0.5), "compute")
    assert (add.share_of_limit, add.bound) == (pytest.approx(0.5), "memory")
    assert other.share_of_limit is None
    assert [line.split()[-2] for line in report.table().splitlines()[1:3]] == ["50", "50"]
    assert json.loads(report.to_json())["kernels"][0]["share_of_limit"] == pytest.approx(0.5)


def test_the_limits_of_a_device_are_those_of_its_target() -> None:
    target = Target(
        name="t",
        vector_bits=256,
        vector_registers=16,
        cores=2,
        l1_bytes=1 << 15,
        l2_bytes=1 << 20,
        l3_bytes=1 << 23,
        peak_flops=1e9,
        memory_bandwidth=1e10,
        rates=Rates(clock=1e9, l2_bytes=64.0, l3_bytes=16.0),
    )
    limits = Limits.of(target)
    assert limits.operations == 2e9
    assert [limits.get_bandwidth(1 << n) for n in (21, 22, 24)] == [128e9, 32e9, 1e10]
    assert limits.get_bound(2_000, 1) == (1e-6, "compute")


def test_limits_come_with_the_devices_that_are_here() -> None:
    report = ProfileReport(PROFILES)
    assert "CUDA" not in report.limits


def test_json_has_every_launch_and_every_kernel() -> None:
    data = json.loads(ProfileReport(PROFILES, {}).to_json())
    assert data["elapsed_ns"] == 14_500
    assert [launch["name"] for launch in data["launches"]] == ["E_16", "r_8_8_8", "E_16", "E_16"]
    assert data["kernels"][0] == {
        "name": "r_8_8_8",
        "device": "CPU",
        "launches": 1,
        "elapsed_ns": 10_000,
        "fastest_ns": 10_000,
        "operations": 80_000,
        "bytes": 40_000,
        "gflops": 8.0,
        "gigabytes_per_second": 4.0,
        "share_of_limit": None,
        "bound": None,
        "scope": "",
        "origins": [],
        "reasons": [],
    }


def test_a_trace_has_one_row_for_each_device_and_times_from_the_first_launch(
    tmp_path: Path,
) -> None:
    path = tmp_path / "trace.json"
    ProfileReport(PROFILES).save_trace(path)
    ProfileReport(PROFILES, {}).save_json(tmp_path / "report.json")
    assert json.loads((tmp_path / "report.json").read_text())["runs"] == 1
    events = json.loads(path.read_text())["traceEvents"]
    names = {e["tid"]: e["args"]["name"] for e in events if e["ph"] == "M"}
    assert names == {0: "CPU", 1: "CUDA"}
    launches = [e for e in events if e["ph"] == "X"]
    assert [(e["name"], e["tid"], e["ts"], e["dur"]) for e in launches] == [
        ("E_16", 0, 0.0, 1.0),
        ("r_8_8_8", 0, 2.0, 10.0),
        ("E_16", 0, 13.0, 3.0),
        ("E_16", 1, 17.0, 0.5),
    ]
    assert launches[1]["args"] == {
        "buffers": 3,
        "operations": 80_000,
        "bytes": 40_000,
        "GFLOP/s": 8.0,
        "GB/s": 4.0,
    }


def test_an_empty_report_has_zero_totals() -> None:
    report = ProfileReport([])
    assert report.summaries() == []
    assert report.table().splitlines()[-1].startswith("all")
    assert json.loads(report.to_trace())["traceEvents"] == []
