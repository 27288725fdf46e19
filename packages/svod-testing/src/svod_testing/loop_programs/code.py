"""Printing of a program with loops as Python, and building of its tensors by running the lines."""

# Loops are attributes of an untyped namespace.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from types import CodeType
from typing import Any, Final

import numpy as np

from svod_tensor import Tensor, Variable
from svod_testing.loop_programs.operations import OPERATIONS
from svod_testing.loop_programs.program import Block, LoopProgram, LoopStep, Tree

__all__ = ["LOOPS", "PREAMBLE", "bind_variables", "build", "write_program"]

LOOPS: Final = ("cond", "fori_loop", "scan", "switch", "while_loop")
PREAMBLE: Final = (
    f"from svod_tensor import Tensor, Variable, {', '.join(LOOPS)}\nfrom svod_testing.loop_programs"
    " import make_array\n"
)
"""Imports that a printed program needs."""


def write_program(program: LoopProgram, *, with_inputs: bool = True) -> str:
    """Return the lines of the program; without inputs and variables, the lines that `build` runs."""
    lines: list[str] = []
    if with_inputs:
        for name, (low, high, first, _) in program.variables.items():
            lines.append(f'{name} = Variable("{name}", {low}, {high}).bind({first})')
        for step in program.inputs:
            kind = program.kinds[step.results[0]]
            data = f'make_array({kind.shape}, "{kind.dtype}", {step.args["seed"]})'
            lines.append(f"x{step.results[0]} = Tensor({data}).realize()")
    lines += _iter_lines(program.steps)
    return "\n".join([*lines, f"results = [{_names(program.roots)}]"])


def build(
    program: LoopProgram, inputs: Mapping[int, object], variables: Mapping[str, object], loops: Any
) -> list[Any]:
    """Build the result tensors of the program on these tensors and bound variables.

    Args:
        program: program to build.
        inputs: input tensors, by index of their value.
        variables: bound variables, by name.
        loops: namespace with the loop functions.
    """
    names: dict[str, Any] = {f"x{v}": tensor for v, tensor in inputs.items()}
    names |= {name: getattr(loops, name) for name in LOOPS}
    names |= {"np": np, "Tensor": Tensor, **variables}
    # In a function, so that intermediate tensors are freed when it returns.
    lines = write_program(program, with_inputs=False).split("\n")
    exec(_compile("def build():\n    " + "\n    ".join([*lines, "return results"])), names)
    return names["build"]()


def bind_variables(program: LoopProgram, version: int = 0) -> dict[str, object]:
    """Return the variables of a program, bound to the values of a version."""
    return {
        name: Variable(name, bounds[0], bounds[1]).bind(bounds[2 + version])
        for name, bounds in program.variables.items()
    }


@functools.lru_cache(maxsize=64)
def _compile(text: str) -> CodeType:
    return compile(text, "<program>", "exec")


def _iter_lines(steps: Sequence[LoopStep]) -> Iterator[str]:
    for step in steps:
        match step.operation:
            case "input":
                continue
            case "scan":
                yield from _write_scan(step)
            case "fori":
                yield from _write_fori(step)
            case "while":
                yield from _write_while(step)
            case "cond" | "switch":
                yield from _write_branch(step)
            case _:
                yield _write_step(step)


def _write_step(step: LoopStep) -> str:
    row = OPERATIONS[step.operation]
    line = row.svod or row.numpy
    values = dict(zip("abc", (f"x{v}" for v in step.operands), strict=False))
    values |= {
        name: _write_index(value) if name == "index" else repr(value)
        for name, value in step.args.items()
    }
    line = re.sub(r"(?<![\w.\"'])([a-z]+)(?![\w(]|=[^=])", lambda m: values.get(m[1], m[1]), line)
    if re.match(r"x\d+\[.*\] = ", line):
        return f"{line}\nx{step.results[0]} = x{step.operands[0]}"
    return f"x{step.results[0]} = {line}"


def _write_index(index: tuple[Any, ...]) -> str:
    return f"({', '.join(map(repr, index))},)"


def _write_block(
    name: str, parameters: str, taken: Mapping[int, str], block: Block, returned: str
) -> Iterator[str]:
    yield f"def {name}({parameters}):"
    lines = [f"x{v} = {text}" for v, text in taken.items()]
    lines += _iter_lines(block.steps)
    for line in (*lines, f"return {returned}"):
        yield "    " + line.replace("\n", "\n    ")


def _write_scan(step: LoopStep) -> Iterator[str]:
    args, n, (block,) = step.args, step.args["n_carried"], step.blocks
    taken = _take(args["carried"], "carry", block.params[:n]) | _take(
        args["sliced"], "part", block.params[n:]
    )
    name = f"body{step.results[0] if step.results else 0}"
    returned = (
        f"{_pack(args['carried'], block.results[:n])}, {_pack(args['stacked'], block.results[n:])}"
    )
    yield from _write_block(name, "carry, part", taken, block, returned)
    init, xs = _pack(args["carried"], step.operands[:n]), _pack(args["sliced"], step.operands[n:])
    options = f", length={args['length']}" if args["length"] is not None else ""
    options += ", reverse=True" if args["reverse"] else ""
    yield f"last, made = scan({name}, {init}, {xs}{options})"
    yield from _write_taken(_take(args["carried"], "last", step.results[:n]))
    yield from _write_taken(_take(args["stacked"], "made", step.results[n:]))


def _write_fori(step: LoopStep) -> Iterator[str]:
    args, n, (block,) = step.args, step.args["n_carried"], step.blocks
    name = f"body{step.results[0]}"
    taken = {
        block.params[0]: 'number.cast("int32")',
        **_take(args["carried"], "carry", block.params[1:]),
    }
    yield from _write_block(
        name, "number, carry", taken, block, _pack(args["carried"], block.results)
    )
    upper = f"x{step.operands[n]}" if args["upper"] is None else args["upper"]
    yield (
        f"last = fori_loop({args['lower']}, {upper}, {name},"
        f" {_pack(args['carried'], step.operands[:n])})"
    )
    yield from _write_taken(_take(args["carried"], "last", step.results))


def _write_while(step: LoopStep) -> Iterator[str]:
    tree, (condition, block), suffix = step.args["carried"], step.blocks, step.results[0]
    taken = _take(tree, "carry", condition.params)
    yield from _write_block(
        f"goes_on{suffix}", "carry", taken, condition, f"x{condition.results[0]}"
    )
    taken = _take(tree, "carry", block.params)
    yield from _write_block(f"body{suffix}", "carry", taken, block, _pack(tree, block.results))
    yield f"last = while_loop(goes_on{suffix}, body{suffix}, {_pack(tree, step.operands)})"
    yield from _write_taken(_take(tree, "last", step.results))


def _write_branch(step: LoopStep) -> Iterator[str]:
    operand_trees, result_tree, suffix = step.args["given"], step.args["made"], step.results[0]
    names = [f"branch{suffix}_{n}" for n in range(len(step.blocks))]
    for name, block in zip(names, step.blocks, strict=True):
        taken = _take(operand_trees, "given", block.params)
        yield from _write_block(name, "*given", taken, block, _pack(result_tree, block.results))
    index, *leaves = step.operands
    arguments = ", ".join(_pack(tree, leaves) for tree in operand_trees)
    functions = ", ".join(names)
    functions = functions if step.operation == "cond" else f"[{functions}]"
    yield f"last = {step.operation}(x{index}, {functions}, {arguments})"
    yield from _write_taken(_take(result_tree, "last", step.results))


def _write_taken(taken: Mapping[int, str]) -> Iterator[str]:
    yield from (f"x{v} = {text}" for v, text in taken.items())


def _take(tree: Tree, path: str, numbers: Sequence[int]) -> dict[int, str]:
    """Return the access path of each leaf of a structure, by value index."""
    match tree:
        case None:
            return {}
        case int():
            return {numbers[tree]: path}
        case dict():
            children = [_take(child, f'{path}["{key}"]', numbers) for key, child in tree.items()]
        case tuple() | list():
            children = [_take(child, f"{path}[{n}]", numbers) for n, child in enumerate(tree)]
    return {v: text for child in children for v, text in child.items()}


def _pack(tree: Tree, numbers: Sequence[int]) -> str:
    match tree:
        case None:
            return "None"
        case int():
            return f"x{numbers[tree]}"
        case dict():
            return (
                "{"
                + ", ".join(f'"{key}": {_pack(child, numbers)}' for key, child in tree.items())
                + "}"
            )
        case list():
            return f"[{', '.join(_pack(child, numbers) for child in tree)}]"
        case tuple():
            return f"({''.join(_pack(child, numbers) + ', ' for child in tree)})"


def _names(numbers: Sequence[int]) -> str:
    return ", ".join(f"x{v}" for v in numbers)
