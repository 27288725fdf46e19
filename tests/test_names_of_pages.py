"""Every name in the column `svod` of a table exists: pages for users of other libraries invent
none.

A cell is code between backquotes. `sv` and `nn` in it are the modules, `x`, `y`, `q` and `out`
tensors, `model` and similar names the objects that they describe; any other name is a name of
`svod_tensor` or of Python. Text that does not parse, such as a command, is skipped.
"""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import svod_ir
import svod_nn
import svod_onnx
import svod_tensor
from svod_runtime import ExecutionPlan
from svod_tensor import Generator, Tensor
from svod_tensor.capture.function import JitFunction

ROOT = Path(__file__).resolve().parent.parent
PAGES = [*sorted(ROOT.glob("docs/coming-from/*.md")), ROOT / "docs/guides/torch-weights.md"]
CODE = re.compile(r"`([^`]+)`")
OPTION = re.compile(r"(SVOD_\w+)=")
ENVIRONMENT = (ROOT / "docs/environment.md").read_text()
KINDS: dict[str, object] = {
    "sv": svod_tensor,
    "svod_tensor": svod_tensor,
    "nn": svod_nn,
    "svod_nn": svod_nn,
    "svod_ir": svod_ir,
    "svod_onnx": svod_onnx,
    "x": Tensor,
    "y": Tensor,
    "q": Tensor,
    "out": Tensor,
    "model": svod_nn.Module,
    "optimizer": svod_nn.Optimizer,
    "plan": ExecutionPlan,
    "f": JitFunction,
    "generator": Generator,
}
# Names of values, whose attributes are not checked.
VALUES = {
    "_",
    "session",
    "buffer_names",
    "in_proj_weight",
    "weight_ih_l0",
    "pad",
    "split",
    "forward",
    "data",
    "i",
    "k",
    "v",
    "key",
    "gradients",
    "devices",
    "arrays",
    "path",
    "s",
    "state",
    "name",
    "a",
    "b",
    "tensors",
}


def iter_cells(text: str) -> Iterator[str]:
    """Yield the cells of the column `svod` in each table."""
    column: int | None = None
    for line in text.splitlines():
        if not line.startswith("|"):
            column = None
            continue
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if column is None:
            column = cells.index("svod") if "svod" in cells else len(cells)
        elif column < len(cells) and not set(cells[column]) <= set("-: "):
            yield cells[column]


def find_missing(code: str) -> list[str]:
    """Return the names in a piece of code that do not exist."""
    if (option := OPTION.match(code)) is not None:
        return [] if f"`{option[1]}`" in ENVIRONMENT else [option[1]]
    try:
        tree = ast.parse(code)
    except SyntaxError:
        return []
    missing: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            owner = _resolve(node.value)
            # The result of a call or of indexing is assumed to be a tensor.
            if owner is not None and not hasattr(owner, node.attr):
                missing.append(ast.unparse(node))
        elif isinstance(node, ast.Name) and not (
            node.id in KINDS
            or node.id in VALUES
            or hasattr(builtins, node.id)
            or hasattr(svod_tensor, node.id)
        ):
            missing.append(node.id)
    return missing


def _resolve(node: ast.expr) -> object | None:
    if isinstance(node, ast.Name):
        return KINDS.get(node.id, getattr(svod_tensor, node.id, None))
    if isinstance(node, ast.Attribute):
        owner = _resolve(node.value)
        found = getattr(owner, node.attr, None)
        return found if isinstance(found, type) or owner in (svod_tensor, svod_nn) else None
    is_of_tensor = isinstance(node, (ast.Call, ast.Subscript, ast.BinOp, ast.Compare))
    return Tensor if is_of_tensor and _find_root(node) in ("x", "y", "q", "Tensor", "sv") else None


def _find_root(node: ast.expr) -> str | None:
    names = [n.id for n in ast.walk(node) if isinstance(n, ast.Name)]
    return names[0] if names else None


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_name_of_svod_in_a_table_exists(page: Path) -> None:
    codes = [code for cell in iter_cells(page.read_text()) for code in CODE.findall(cell)]
    assert len(codes) > 10, "the page has a table with a column `svod`"
    assert {code: found for code in codes if (found := find_missing(code))} == {}


@pytest.mark.parametrize(
    ("code", "missing"),
    [
        ("x.sum(axis=0).cat(1)", []),
        ("x.summ()", ["x.summ"]),
        ("x.T.nothing", []),
        ("(x > 0).wheer(x, 0)", ["(x > 0).wheer"]),
        ("sv.linalg.invert(x)", ["sv.linalg.invert"]),
        ("svod_nn.Adm(model)", ["svod_nn.Adm"]),
        ("jitt(f)", ["jitt"]),
        ("Tensor.rand(3).meen()", ["Tensor.rand(3).meen"]),
        ("python -m svod_device", []),
        ("SVOD_BEAM=4", []),
        ("SVOD_BEEM=4", ["SVOD_BEEM"]),
    ],
)
def test_a_missing_name_is_detected(code: str, missing: list[str]) -> None:
    assert find_missing(code) == missing
