"""Plot of a report: the speed of svod relative to each peer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

from matplotlib import pyplot

__all__ = ["plot_ratios"]

COLOURS = {"numpy": "#4c78a8", "torch": "#f58518"}
HEIGHT = 0.4


def plot_ratios(rows: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Write bars of the peers' times over svod's, on a logarithmic axis, as a PNG file."""
    figure, axes = pyplot.subplots(figsize=(8, 1.2 + 0.36 * len(rows)), layout="constrained")
    for peer_index, (peer, colour) in enumerate(COLOURS.items()):
        known = [
            (row_index, row[f"ratio_{peer}"])
            for row_index, row in enumerate(rows)
            if row[f"ratio_{peer}"] is not None
        ]
        if known:
            positions = [row_index + (peer_index - 0.5) * HEIGHT for row_index, _ in known]
            # A bar starts at 1, where both libraries take the same time.
            axes.barh(
                positions,
                [ratio - 1 for _, ratio in known],
                HEIGHT,
                left=1,
                color=colour,
                label=peer,
            )
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter("{x:g}")
    axes.set_yticks(range(len(rows)), [row["name"] for row in rows])
    axes.invert_yaxis()
    axes.set_xlabel("time of the peer / time of svod (above 1: svod is faster)")
    axes.grid(axis="x", linewidth=0.3)
    axes.legend()
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
