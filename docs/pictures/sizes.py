"""Draw how fast products of m rows are for each m, from runs of `benchmarks/sizes.py`:

    python docs/pictures/sizes.py benchmarks/results/sizes-*.json

Of several runs the least time of each size counts, so that what else ran on the machine matters
less."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from svg import COLOURS, Picture

LEFT, RIGHT, TOP, BOTTOM = 64, 800, 76, 360
LIBRARIES = {"svod": COLOURS[0], "torch": COLOURS[1]}
STEP = 20


def main(paths: Sequence[str]) -> None:
    runs = [json.loads(Path(path).read_text()) for path in paths]
    first = runs[0]
    assert all(_describe(run) == _describe(first) for run in runs), (
        "runs of one product on one machine"
    )
    speeds = {name: _find_speeds(name, runs) for name in LIBRARIES}
    rows, highest = list(speeds["svod"]), max(max(found.values()) for found in speeds.values())
    top = math.ceil(highest / STEP) * STEP
    given, versions = first["arguments"], first["machine"]["versions"]
    threads = "one thread" if given["threads"] == 1 else f"{given['threads']} threads"

    picture = Picture(840, 424, "GFLOP/s of products of m rows, for each m, of svod and of torch")
    title = (
        f"Products of m×{given['depth']} by {given['depth']}×{given['columns']} of float32,"
        f" {threads}"
    )
    picture.text(LEFT, 32, title, 16, kind="bold")
    picture.text(LEFT, TOP - 12, "GFLOP/s", 13)
    for value in range(0, top + 1, STEP):
        y = BOTTOM - (BOTTOM - TOP) * value / top
        picture.line((LEFT, y), (RIGHT, y))
        picture.text(LEFT - 8, y + 4, str(value), 12, "end", "faint")
    for m in range(0, rows[-1] + 1, 16):
        x = _place(m, rows[-1])
        picture.line((x, TOP), (x, BOTTOM))
        picture.text(x, BOTTOM + 18, str(m), 12, "middle", "faint")
    picture.text((LEFT + RIGHT) / 2, BOTTOM + 40, "m", 13, "middle")
    for number, (name, colour) in enumerate(LIBRARIES.items()):
        points = [
            (_place(m, rows[-1]), BOTTOM - (BOTTOM - TOP) * speeds[name][m] / top) for m in rows
        ]
        picture.line(*points, width=2, colour=colour)
        y = BOTTOM - 52 + 22 * number
        picture.line((RIGHT - 140, y), (RIGHT - 116, y), width=2, colour=colour)
        picture.text(
            RIGHT - 108, y + 4, f"{name} {versions['svod-tensor' if name == 'svod' else name]}", 12
        )
    picture.text(LEFT, BOTTOM + 56, first["machine"]["processor"], 11, kind="faint")
    picture.save(Path(__file__).with_name("sizes.svg"))


def _describe(run: dict[str, Any]) -> tuple[object, ...]:
    arguments = {name: value for name, value in run["arguments"].items() if name != "seconds"}
    return run["machine"]["processor"], run["machine"]["versions"], arguments


def _find_speeds(name: str, runs: Sequence[dict[str, Any]]) -> dict[int, float]:
    """The greatest GFLOP/s of each number of rows."""
    speeds: dict[int, float] = {}
    for row in (row for run in runs for row in run["rows"]):
        speeds[row["rows"]] = max(speeds.get(row["rows"], 0), row["work"] / row[name] / 1e9)
    return dict(sorted(speeds.items()))


def _place(m: int, last: int) -> float:
    return LEFT + (RIGHT - LEFT) * m / last


if __name__ == "__main__":
    main(sys.argv[1:])
