"""How many cores this process may really use: fewer than the machine has, in a container."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["count_usable_cores", "find_cpu_quota"]


def count_usable_cores() -> int:
    """The cores of the process's affinity mask, or as many as its control group has time for,
    whichever is less.

    More threads than that would wait for each other: the system stops them all when the group's
    time is up."""
    n_cores = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
    quota = find_cpu_quota()
    return n_cores if quota is None else max(1, min(n_cores, round(quota)))


def find_cpu_quota(root: Path = Path("/")) -> float | None:
    """The processor time that Linux grants the process's control groups, in cores; None where it is
    not limited.

    Source: Linux, Documentation/admin-guide/cgroup-v2.rst, `cpu.max`;
    Documentation/scheduler/sched-bwc.rst for version 1."""
    quotas = [quota for quota in _iter_quotas(root) if quota is not None]
    return min(quotas, default=None)


def _iter_quotas(root: Path) -> Iterator[float | None]:
    mount = root / "sys" / "fs" / "cgroup"
    group = Path(_get_group(root).lstrip("/"))
    # A limit of any group above ours holds for us too; in a container, the outermost that is
    # visible is the mount itself.
    for part in (group, *group.parents):
        yield _read_quota(mount / part / "cpu.max")
    yield _read_quota(mount / "cpu" / "cpu.cfs_quota_us", mount / "cpu" / "cpu.cfs_period_us")


def _get_group(root: Path) -> str:
    """The process's group in the unified hierarchy."""
    try:
        lines = (root / "proc" / "self" / "cgroup").read_text().splitlines()
    except OSError:
        return ""
    return next((line.removeprefix("0::") for line in lines if line.startswith("0::")), "")


def _read_quota(*paths: Path) -> float | None:
    """Quota divided by period, which are two words of one file or of two."""
    try:
        quota, period = " ".join(path.read_text() for path in paths).split()
        return None if quota in ("max", "-1") else int(quota) / int(period)
    except (OSError, ValueError, ZeroDivisionError):
        return None
