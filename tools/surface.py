"""What each distribution declares to be public, read from its sources: nothing is imported.

A distribution lists its public modules in `[tool.svod] public-modules` of its pyproject.toml, and a
module its public names in `__all__`. docs/adr/0042 says why, docs/versions.md what is promised of
them."""

from __future__ import annotations

import ast
import tomllib
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import TypeAlias

__all__ = ["ROOT", "Definition", "Distribution", "get_distributions", "read_tree"]

ROOT = Path(__file__).resolve().parent.parent

Definition: TypeAlias = "tuple[str, ast.AST | None]"
"""The module that a name comes from, and what defines it there; None for what another distribution
defines.
"""


@dataclass(frozen=True)
class Distribution:
    """A distribution of this checkout: its folder, and the package that it installs."""

    folder: Path
    package: str

    @property
    def name(self) -> str:
        return self.folder.name

    @cached_property
    def modules(self) -> dict[str, Path]:
        """Every module, by its dotted name."""
        return {
            _name_module(path, self.source.parent): path
            for path in sorted(self.source.rglob("*.py"))
        }

    @property
    def source(self) -> Path:
        return self.folder / "src" / self.package

    @cached_property
    def public_modules(self) -> list[str]:
        """What the distribution declares, the package itself first."""
        settings = tomllib.loads((self.folder / "pyproject.toml").read_text())
        return settings.get("tool", {}).get("svod", {}).get("public-modules", [])

    def get_public_names(self, module: str) -> list[str]:
        """The names of `__all__` of a module; none where it has no such list."""
        for node in read_tree(self.modules[module]).body:
            targets = (
                node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
            )
            if any(isinstance(target, ast.Name) and target.id == "__all__" for target in targets):
                return ast.literal_eval(node.value)  # type: ignore[union-attr]
        return []

    def read_declarations(self, module: str) -> ast.Module:
        """The tree of a module's stub; that of its source where it has none."""
        stub = self.modules[module].with_suffix(".pyi")
        return read_tree(stub if stub.exists() else self.modules[module])

    def find_definition(self, module: str, name: str) -> Definition | None:
        """Where a name that a module binds is defined, through any number of imports."""
        for node in iter_statements(self.read_declarations(module).body):
            if isinstance(node, ast.ImportFrom) and node.module is not None:
                for alias in node.names:
                    if (alias.asname or alias.name) == name:
                        if node.module.split(".")[0] != self.package:
                            return node.module, None
                        inner = f"{node.module}.{alias.name}"
                        found = (
                            self.find_definition(node.module, alias.name)
                            if node.module != module
                            else None
                        )
                        if found is None and inner in self.modules:
                            return inner, read_tree(self.modules[inner])
                        return found
            elif name in get_bound_names(node):
                return module, node
        return None


def get_bound_names(node: ast.stmt) -> set[str]:
    """What a statement of a module defines, imports left out."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return {node.name}
    targets = (
        node.targets
        if isinstance(node, ast.Assign)
        else [node.target]
        if isinstance(node, ast.AnnAssign)
        else []
    )
    return {
        name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)
    }


def iter_statements(body: list[ast.stmt]) -> list[ast.stmt]:
    """The statements of a module or class, those under a condition too."""
    found: list[ast.stmt] = []
    for node in body:
        found += iter_statements([*node.body, *node.orelse]) if isinstance(node, ast.If) else [node]
    return found


@cache
def get_distributions() -> dict[str, Distribution]:
    """Those of `packages/`, by the package that each installs."""
    found = sorted(path.parent for path in ROOT.glob("packages/*/src/*/__init__.py"))
    return {path.name: Distribution(path.parent.parent, path.name) for path in found}


@cache
def read_tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def _name_module(path: Path, base: Path) -> str:
    parts = path.relative_to(base).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
