"""Draw the distributions of svod and what imports what: `python docs/pictures/design.py`."""

from __future__ import annotations

from pathlib import Path

from svg import COLOURS, Picture

ROWS = (
    (
        ("svod-nn", "modules, losses, optimizers"),
        ("svod-onnx", "ONNX models as graphs"),
        ("your program", "tensors, as in numpy and torch"),
    ),
    (
        (
            "svod-tensor",
            "Tensor, jit, loops, derivatives: builds graphs, runs the fourteen steps, caches plans",
        ),
    ),
    (
        ("svod-schedule", "graphs to kernels, by rules"),
        ("svod-codegen", "kernels to code: LLVM, C"),
        ("svod-runtime", "kernels and memory to plans"),
    ),
    (
        ("svod-ir", "nodes, rules, text form, evaluator, targets"),
        ("svod-device", "buffers, and the interface of plugins"),
    ),
    (("svod-dtype", "element types, promotion, device names"),),
)
"""The distributions, each with what it is, from those that import to those that are imported."""

_LEFT, _TOP, _WIDTH, _HEIGHT, _GAP, _STEP = 24, 56, 640, 50, 20, 84
_THIRD = (_WIDTH - 2 * _GAP) / 3
_DOWN = (
    *((0, (column + 0.5) * _THIRD + column * _GAP) for column in range(3)),
    *((1, (column + 0.5) * _THIRD + column * _GAP) for column in range(3)),
    (2, _THIRD / 2),
    (2, _WIDTH / 2 + 50),
    (2, _WIDTH - _THIRD / 2),
    (3, _WIDTH / 4),
)
"""Arrows from a row to the next: the row, and how far from its left end."""
_ACROSS = ((2, _THIRD + _GAP), (3, (_WIDTH + _GAP) / 2))
"""Arrows to the left within a row: the row, and where the box begins that imports."""


def main() -> None:
    height = _TOP + (len(ROWS) - 1) * _STEP + _HEIGHT + 24
    picture = Picture(888, height, "The distributions of svod, and what each is built on")
    picture.text(
        _LEFT, 32, "The distributions; arrows lead to what each is built on", 16, kind="bold"
    )
    for number, row in enumerate(ROWS):
        y = _TOP + number * _STEP
        width = (_WIDTH - _GAP * (len(row) - 1)) / len(row)
        for column, (name, says) in enumerate(row):
            _draw_box(
                picture, _LEFT + column * (width + _GAP), y, width, COLOURS[number], name, says
            )
    for number, x in _DOWN:
        y = _TOP + number * _STEP + _HEIGHT
        picture.line(
            (_LEFT + x, y), (_LEFT + x, y + _STEP - _HEIGHT - 1), kind="ink", is_arrow=True
        )
    for number, x in _ACROSS:
        y = _TOP + number * _STEP + _HEIGHT / 2
        picture.line((_LEFT + x, y), (_LEFT + x - _GAP + 1, y), kind="ink", is_arrow=True)
    _draw_plugins(picture)
    picture.save(Path(__file__).with_name("design.svg"))


def _draw_box(
    picture: Picture, x: float, y: float, width: float, colour: str, name: str, says: str
) -> None:
    picture.rect(x, y, width, _HEIGHT)
    picture.rect(x, y, 5, _HEIGHT, colour)
    picture.text(x + 14, y + 21, name, 13, kind="bold")
    picture.text(x + 14, y + 39, says, 11, kind="faint")


def _draw_plugins(picture: Picture) -> None:
    """What is found by its entry points, beside the rows that use it."""
    x, width = _LEFT + _WIDTH + 40, 160
    top, bottom = _TOP + 2 * _STEP, _TOP + 3 * _STEP + _HEIGHT
    picture.rect(x, top, width, bottom - top)
    picture.rect(x, top, 5, bottom - top, COLOURS[5])
    picture.text(x + 14, top + 21, "plugins", 13, kind="bold")
    for line, says in enumerate(
        ("an allocator", "a renderer", "a compiler", "a loader", "conformance tests")
    ):
        picture.text(x + 14, top + 43 + 19 * line, says, 11, kind="faint")
    y = _TOP + 3 * _STEP + _HEIGHT / 2
    picture.line((x, y), (_LEFT + _WIDTH + 2, y), kind="ink", is_arrow=True)


if __name__ == "__main__":
    main()
