"""How many cores a process may use: affinity, and the limits of control groups."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from svod_codegen import _cores as cores
from svod_codegen._cores import count_usable_cores, find_cpu_quota


def make_system(root: Path, group: str, limits: dict[str, str]) -> Path:
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text(group)
    for path, text in limits.items():
        file = root / "sys/fs/cgroup" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return root


def test_a_container_sees_its_own_limit(tmp_path: Path):
    assert find_cpu_quota(make_system(tmp_path, "0::/\n", {"cpu.max": "150000 100000\n"})) == 1.5


def test_an_unlimited_quota_is_none(tmp_path: Path):
    assert find_cpu_quota(make_system(tmp_path, "0::/a\n", {"a/cpu.max": "max 100000\n"})) is None


def test_the_tightest_limit_of_the_groups_above_holds(tmp_path: Path):
    limits = {"a/b/cpu.max": "800000 100000", "a/cpu.max": "200000 100000", "cpu.max": "max 100000"}
    assert find_cpu_quota(make_system(tmp_path, "0::/a/b\n", limits)) == 2.0


def test_the_first_version_of_control_groups_has_two_files(tmp_path: Path):
    limits = {"cpu/cpu.cfs_quota_us": "300000\n", "cpu/cpu.cfs_period_us": "100000\n"}
    assert find_cpu_quota(make_system(tmp_path, "4:cpu,cpuacct:/x\n", limits)) == 3.0
    limits = {"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}
    assert find_cpu_quota(make_system(tmp_path / "free", "", limits)) is None


def test_a_system_without_control_groups_has_no_limit(tmp_path: Path):
    assert find_cpu_quota(tmp_path) is None


@pytest.mark.parametrize("text", ["", "nonsense", "1 2 3", "100000 0"])
def test_a_file_of_another_form_is_no_limit(tmp_path: Path, text: str):
    assert find_cpu_quota(make_system(tmp_path, "0::/\n", {"cpu.max": text})) is None


@pytest.mark.parametrize(
    ("quota", "expected"), [(None, 8), (2.0, 2), (1.5, 2), (0.3, 1), (100.0, 8)]
)
def test_the_count_is_the_lesser_of_mask_and_quota(
    monkeypatch: pytest.MonkeyPatch, quota: float | None, expected: int
):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)
    monkeypatch.setattr(cores, "find_cpu_quota", lambda: quota)
    assert count_usable_cores() == expected
