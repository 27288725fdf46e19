"""Draw a program's way through the compiler: `python docs/pictures/journey.py`."""

from __future__ import annotations

from pathlib import Path

from svg import COLOURS, Picture

ROWS = (
    (
        "from calls on tensors to kernels",
        (("build", "TensorGraph"), ("rangeify", "RangedGraph"), ("kernelize", "KernelGraph")),
    ),
    (
        "cached for equal programs, then given memory",
        (("preschedule", "PreSchedule"), ("instantiate", "Schedule")),
    ),
    (
        "for each new kernel; cached in memory and on disk",
        (
            ("optimize", "OptimizedKernel"),
            ("lower", "LoweredKernel"),
            ("linearize", "LinearProgram"),
            ("render", "ProgramSpec"),
            ("compile", "CompiledSpec"),
            ("load", "CachedKernel"),
        ),
    ),
    (
        "arranged once, run again and again",
        (("prepare", "PreparedOps"), ("plan", "ExecutionPlan"), ("execute", "filled buffers")),
    ),
)
"""The fourteen words, each with what it makes, in four rows."""

_WIDTH, _HEIGHT, _GAP, _LEFT, _TOP, _STEP = 122, 44, 18, 24, 50, 88


def main() -> None:
    picture = Picture(870, 396, "A program's way through the fourteen steps of the compiler")
    picture.text(_LEFT, 30, "From a call on a tensor to filled buffers", 16, kind="bold")
    number = 0
    for row, (says, steps) in enumerate(ROWS):
        y = _TOP + row * _STEP
        picture.text(_LEFT + _WIDTH + _GAP, y + 10, says, 12, kind="faint")
        for column, (word, makes) in enumerate(steps):
            number += 1
            x = _LEFT + column * (_WIDTH + _GAP)
            picture.rect(x, y + 18, _WIDTH, _HEIGHT)
            picture.rect(x, y + 18, 5, _HEIGHT, COLOURS[row])
            picture.text(x + 14, y + 36, f"{number} {word}", 13, kind="bold")
            picture.text(x + 14, y + 53, makes, 11, kind="mono faint")
            if column:
                picture.line(
                    (x - _GAP, y + 18 + _HEIGHT / 2),
                    (x - 1, y + 18 + _HEIGHT / 2),
                    kind="ink",
                    is_arrow=True,
                )
        if row:
            _draw_turn(picture, row, y)
    picture.save(Path(__file__).with_name("journey.svg"))


def _draw_turn(picture: Picture, row: int, y: float) -> None:
    """The arrow from the end of the row above to the start of this one."""
    end = _LEFT + (len(ROWS[row - 1][1]) - 0.5) * (_WIDTH + _GAP) - _GAP / 2
    above, middle, start = y - _STEP + 18 + _HEIGHT, y - 8, _LEFT + _WIDTH / 2
    picture.line(
        (end, above), (end, middle), (start, middle), (start, y + 17), kind="ink", is_arrow=True
    )


if __name__ == "__main__":
    main()
