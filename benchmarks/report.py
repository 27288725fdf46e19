"""Contents of every report: the machine, the versions, and a file in benchmarks/results/."""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Iterable, Mapping, Sequence
from importlib import metadata
from pathlib import Path

__all__ = [
    "RESULTS",
    "describe_machine",
    "format_machine",
    "format_table",
    "format_time",
    "write_json",
]

RESULTS = Path(__file__).resolve().parent / "results"
LIBRARIES = ("svod-tensor", "llvmlite", "numpy", "torch")


def describe_machine() -> dict[str, object]:
    """Describe the processor, its load, and the measured versions."""
    from svod_device import get_device

    return {
        "processor": _find_processor(),
        "cores": os.cpu_count(),
        "vector_bits": get_device("CPU").target.vector_bits,
        "load_average": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "versions": {
            name: version for name in LIBRARIES if (version := _find_version(name)) is not None
        },
    }


def format_machine(machine: Mapping[str, object]) -> str:
    versions = machine["versions"]
    assert isinstance(versions, dict)
    return (
        f"{machine['processor']}, {machine['cores']} cores, vectors of {machine['vector_bits']}"
        f" bits, load {machine['load_average']}\nPython {machine['python']}, "
        + ", ".join(f"{name} {version}" for name, version in versions.items())
    )


def format_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Format rows as aligned columns, the first to the left, the others to the right."""
    lines = [head, *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    return "\n".join(
        "  ".join(
            [
                line[0].ljust(widths[0]),
                *(cell.rjust(w) for cell, w in zip(line[1:], widths[1:], strict=True)),
            ]
        )
        for line in lines
    )


def format_time(seconds: float | None) -> str:
    """Format seconds with three digits and a unit; a dash for None."""
    if seconds is None:
        return "-"
    for factor, unit in ((1e6, "us"), (1e3, "ms")):
        if seconds * factor < 1000:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds:.3g} s"


def write_json(name: str, content: Mapping[str, object]) -> Path:
    """Write a report as `<name>-<time>.json`, and return its path."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}-{time.strftime('%Y%m%d-%H%M%S')}.json"
    path.write_text(json.dumps(content, indent=1))
    return path


def _find_processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or platform.machine())


def _find_version(library: str) -> str | None:
    try:
        return metadata.version(library)
    except metadata.PackageNotFoundError:
        return None
