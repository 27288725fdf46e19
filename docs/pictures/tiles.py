"""Draw how a matrix product is split into tiles: `python docs/pictures/tiles.py`.

The tile sizes are the opts that the heuristics choose for a machine of 2 cores with vectors of 512
bits, for 1024×1024 elements."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
from svg import COLOURS, Picture

from svod_tensor import Tensor

SIZE, SCALE, TOP = 1024, 0.21, 88


def main() -> None:
    a, b = (Tensor(np.zeros((SIZE, SIZE), dtype=np.float32)) for _ in range(2))
    (summary,) = (a @ b).prepare().profile(n_runs=1).summaries()
    cuts = {
        kind: int(size)
        for kind, size in re.findall(
            r"(UPCAST|OVERLAP|THREAD)\(\d+, (\d+)\)", "\n".join(summary.reasons)
        )
    }
    columns, rows, threads = cuts["UPCAST"], cuts["OVERLAP"], cuts["THREAD"]
    side = SIZE * SCALE
    picture = Picture(870, 414, "The tiles of a product of matrices")
    picture.text(
        24, 32, f"A kernel's tiles: the product of two matrices of {SIZE}×{SIZE}", 16, kind="bold"
    )

    _draw_matrix(picture, 24, "A", "the rows of a tile")
    picture.rect(24, TOP + 60, side, 7, COLOURS[1], hint=f"{rows} rows of A")

    x = 24 + side + 50
    _draw_matrix(picture, x, "B", f"panels of {columns} columns, packed")
    panel = columns * SCALE
    for number in range(SIZE // columns):
        picture.rect(
            x + number * panel + 0.5,
            TOP,
            panel - 1,
            side,
            COLOURS[2],
            opacity=0.8 if number == 3 else 0.15,
        )

    x += side + 50
    _draw_matrix(picture, x, "A @ B", f"{threads} threads share the panels")
    for number in range(threads):
        picture.rect(
            x + number * side / threads,
            TOP,
            side / threads,
            side,
            COLOURS[4 if number else 0],
            opacity=0.18,
        )
    picture.rect(
        x + 3 * panel, TOP + 60, panel, 7, COLOURS[3], hint=f"a tile of {rows}×{columns} results"
    )
    picture.line((x + 3 * panel, TOP + 67), (24, TOP + side + 45))
    picture.line((x + 4 * panel, TOP + 67), (24 + 16 * 34, TOP + side + 45))

    lanes = 16
    for row in range(rows):
        for vector in range(columns // lanes):
            for lane in range(lanes):
                left = 24 + vector * lanes * 8.5 + lane * 8.5
                picture.rect(
                    left,
                    TOP + side + 45 + row * 8,
                    7.5,
                    7,
                    COLOURS[3],
                    opacity=0.9 if vector % 2 else 0.6,
                )
    says = (
        f"{rows}×{columns} results stay in registers:",
        f"{rows * columns // lanes} vectors of {lanes} floats, while the loop",
        f"adds up {SIZE} products for each.",
    )
    for number, line in enumerate(says):
        picture.text(24 + 16 * 34 + 20, TOP + side + 55 + 17 * number, line, 13)
    picture.save(Path(__file__).with_name("tiles.svg"))


def _draw_matrix(picture: Picture, x: float, name: str, says: str) -> None:
    picture.text(x, TOP - 10, name, 14, kind="mono bold")
    picture.text(x + 12 + 9 * len(name), TOP - 10, says, 12, kind="faint")
    picture.rect(x, TOP, SIZE * SCALE, SIZE * SCALE)


if __name__ == "__main__":
    main()
