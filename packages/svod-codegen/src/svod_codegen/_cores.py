"""Number of cores that this process may use, which is fewer than the machine has in a container."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["count_usable_cores", "find_cpu_quota"]


def count_usable_cores() -> int:
    """Count the cores of the process's affinity mask, limited by the CPU quota of its control group.

    More threads than that would wait for each other: the system throttles all of them when the
    group's quota is used up."""
    n_cores = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
    quota = find_cpu_quota()
    return n_cores if quota is None else max(1, min(n_cores, round(quota)))


def find_cpu_quota(root: Path = Path("/")) -> float | None:
    """Return the CPU quota of the process's control groups on Linux, in cores; None if unlimited.

    Source: Linux, Documentation/admin-guide/cgroup-v2.rst, `cpu.max`;
    Documentation/scheduler/sched-bwc.rst for version 1."""
    quotas = [quota for quota in _iter_quotas(root) if quota is not None]
    return min(quotas, default=None)


def _iter_quotas(root: Path) -> Iterator[float | None]:
    mount = root / "sys" / "fs" / "cgroup"
    group = Path(_get_group(root).lstrip("/"))
    # Limits of parent groups apply as well; in a container, the outermost visible group is the mount
    # itself.
    for directory in (group, *group.parents):
        yield _read_quota(mount / directory / "cpu.max")
    yield _read_quota(mount / "cpu" / "cpu.cfs_quota_us", mount / "cpu" / "cpu.cfs_period_us")


def _get_group(root: Path) -> str:
    """Return the process's group in the unified hierarchy."""
    try:
        lines = (root / "proc" / "self" / "cgroup").read_text().splitlines()
    except OSError:
        return ""
    return next((line.removeprefix("0::") for line in lines if line.startswith("0::")), "")


def _read_quota(*paths: Path) -> float | None:
    """Return the quota divided by the period, which are two words of one file, or in two files."""
    try:
        quota, period = " ".join(path.read_text() for path in paths).split()
        return None if quota in ("max", "-1") else int(quota) / int(period)
    except (OSError, ValueError, ZeroDivisionError):
        return None
