"""Mutation testing of the prover: `make_mutants` changes one thing in a module of rules.

A mutant is the module's syntax tree with one comparison, sign, number, operand or condition changed,
executed as a new module, so that rules call the mutated helper functions."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Final

from svod_ir import Rule

__all__ = ["Mutant", "make_mutants"]

_COMPARISONS: Final[dict[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
_OPERATORS: Final[dict[type[ast.operator], type[ast.operator]]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
}


@dataclass(frozen=True, slots=True)
class Mutant:
    """A mutated module: its rules by name, a description of the change, and the changed function."""

    function: str
    line: int
    change: str
    rules: dict[str, Rule]


def make_mutants(module: ModuleType, functions: frozenset[str] | None = None) -> Iterator[Mutant]:
    """Generate all mutants of a module, or of some functions in it."""
    source = inspect.getsource(module)
    for function, site, change in _list_sites(ast.parse(source)):
        if functions is not None and function not in functions:
            continue
        tree = ast.parse(source)
        node = list(ast.walk(tree))[site]
        text = _apply(node, change)
        try:
            mutated = _run(tree, module)
        except (TypeError, ValueError, AttributeError):
            # The changed module cannot be imported, so it has no rules to prove.
            continue
        rules = {value.name: value for value in vars(mutated).values() if isinstance(value, Rule)}
        yield Mutant(function, getattr(node, "lineno", 0), text, rules)


def _list_sites(tree: ast.Module) -> list[tuple[str, int, int]]:
    """List the possible changes: the function's name, the index of the node in the walk, and the
    index of the change.
    """
    owners: dict[ast.AST, str] = {}
    for statement in tree.body:
        if isinstance(statement, ast.FunctionDef):
            owners.update(dict.fromkeys(ast.walk(statement), statement.name))
            for annotation in filter(None, _annotations(statement)):
                owners.update(dict.fromkeys(ast.walk(annotation), ""))
    return [
        (owners[node], site, change)
        for site, node in enumerate(ast.walk(tree))
        if owners.get(node)
        for change in range(_count_changes(node))
    ]


def _annotations(function: ast.FunctionDef) -> Iterator[ast.AST | None]:
    for node in ast.walk(function):
        if isinstance(node, ast.AnnAssign) or (
            isinstance(node, ast.arg) and node.annotation is not None
        ):
            yield node.annotation
        elif isinstance(node, ast.FunctionDef) and node.returns is not None:
            yield node.returns


def _count_changes(node: ast.AST) -> int:
    match node:
        case ast.Compare(ops=[*ops]):
            return sum(type(op) in _COMPARISONS for op in ops[:1])
        case ast.BinOp(op=op):
            return int(type(op) in _OPERATORS)
        case ast.UnaryOp(op=ast.USub() | ast.Not()):
            return 1
        case ast.BoolOp(values=values):
            return len(values)
        case ast.Constant(value=bool()):
            return 1
        case ast.Constant(value=int()):
            return 1
        case ast.Tuple(elts=[_, _], ctx=ast.Load()):
            return 1
        case _:
            return 0


def _apply(node: ast.AST, change: int) -> str:
    """Change the node in place, and return a description of the change."""
    before = ast.unparse(node)
    match node:
        case ast.Compare():
            node.ops[0] = _COMPARISONS[type(node.ops[0])]()
        case ast.BinOp():
            node.op = _OPERATORS[type(node.op)]()
        case ast.UnaryOp(op=ast.USub()):
            node.op = ast.UAdd()
        case ast.UnaryOp():
            node.operand = ast.UnaryOp(ast.Not(), node.operand)
        case ast.BoolOp():
            # The identity of the operator instead of an operand.
            node.values[change] = ast.Constant(isinstance(node.op, ast.And))
        case ast.Constant(value=bool() as value):
            node.value = not value
        case ast.Constant(value=int() as value):
            node.value = value + 1
        case ast.Tuple():
            node.elts.reverse()
        case _:
            raise AssertionError(node)
    ast.fix_missing_locations(node)
    return f"{before} -> {ast.unparse(node)}"


def _run(tree: ast.Module, module: ModuleType) -> ModuleType:
    mutated = ModuleType(module.__name__)
    mutated.__dict__.update({"__package__": module.__package__, "__file__": module.__file__})
    exec(
        compile(ast.fix_missing_locations(tree), module.__file__ or "mutant", "exec"),
        mutated.__dict__,
    )
    return mutated
