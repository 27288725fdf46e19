"""Report circles of imports among the modules of a distribution: `python tools/check_circles.py
[distribution ...]`.

An import inside a function counts, since it is how a circle is hidden, and one for the type
checker, since readers follow it too."""

from __future__ import annotations

import sys

import grimp

CLEAN = (
    "svod_dtype",
    "svod_ir",
    "svod_schedule",
    "svod_device",
    "svod_codegen",
    "svod_runtime",
    "svod_tensor",
    "svod_nn",
    "svod_onnx",
    "svod_testing",
)
"""The distributions that have no circle."""


def main(names: list[str]) -> int:
    circles = [circle for name in names or CLEAN for circle in find_circles(name)]
    for circle in circles:
        print(f"{len(circle)} modules import each other: {', '.join(circle)}")
    return 1 if circles else 0


def find_circles(name: str) -> list[list[str]]:
    """The largest sets of modules each of which imports all others, in one step or several."""
    graph = grimp.build_graph(name, exclude_type_checking_imports=False, cache_dir=None)
    reached = {module: _find_reached(graph, module) for module in graph.modules}
    circles = {
        frozenset(m for m in reached[module] if module in reached[m]) for module in graph.modules
    }
    return sorted(sorted(circle) for circle in circles if circle)


def _find_reached(graph: grimp.ImportGraph, module: str) -> set[str]:
    found: set[str] = set()
    todo = [module]
    while todo:
        new = graph.find_modules_directly_imported_by(todo.pop()) - found
        found |= new
        todo += new
    return found


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
