"""A program with loops as the lines of Python that it prints as, and what these build."""

# Loops come as a namespace.
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
"""What a printed program needs before its first line."""


def write_program(program: LoopProgram, *, with_inputs: bool = True) -> str:
    """The lines of the program; without its inputs and variables, they are what `build` runs."""
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
    """The result tensors of the program on these tensors, with these bound variables, by the loops
    of a namespace.
    """
    names: dict[str, Any] = {f"x{v}": tensor for v, tensor in inputs.items()}
    names |= {name: getattr(loops, name) for name in LOOPS}
    names |= {"np": np, "Tensor": Tensor, **variables}
    # In a function, so that what it computes is forgotten when it returns.
    lines = write_program(program, with_inputs=False).split("\n")
    exec(_compile("def build():\n    " + "\n    ".join([*lines, "return results"])), names)
    return names["build"]()


def bind_variables(program: LoopProgram, version: int = 0) -> dict[str, object]:
    """The variables of a program with the values of a version."""
    return {
        name: Variable(name, given[0], given[1]).bind(given[2 + version])
        for name, given in program.variables.items()
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
    tree, (condition, block), number = step.args["carried"], step.blocks, step.results[0]
    taken = _take(tree, "carry", condition.params)
    yield from _write_block(
        f"goes_on{number}", "carry", taken, condition, f"x{condition.results[0]}"
    )
    taken = _take(tree, "carry", block.params)
    yield from _write_block(f"body{number}", "carry", taken, block, _pack(tree, block.results))
    yield f"last = while_loop(goes_on{number}, body{number}, {_pack(tree, step.operands)})"
    yield from _write_taken(_take(tree, "last", step.results))


def _write_branch(step: LoopStep) -> Iterator[str]:
    given, made, number = step.args["given"], step.args["made"], step.results[0]
    names = [f"branch{number}_{n}" for n in range(len(step.blocks))]
    for name, block in zip(names, step.blocks, strict=True):
        taken = _take(given, "given", block.params)
        yield from _write_block(name, "*given", taken, block, _pack(made, block.results))
    index, *rest = step.operands
    arguments = ", ".join(_pack(part, rest) for part in given)
    functions = ", ".join(names)
    functions = functions if step.operation == "cond" else f"[{functions}]"
    yield f"last = {step.operation}(x{index}, {functions}, {arguments})"
    yield from _write_taken(_take(made, "last", step.results))


def _write_taken(taken: Mapping[int, str]) -> Iterator[str]:
    yield from (f"x{v} = {text}" for v, text in taken.items())


def _take(tree: Tree, path: str, numbers: Sequence[int]) -> dict[int, str]:
    """Where in a structure each of its leaves is."""
    match tree:
        case None:
            return {}
        case int():
            return {numbers[tree]: path}
        case dict():
            parts = [_take(part, f'{path}["{key}"]', numbers) for key, part in tree.items()]
        case tuple() | list():
            parts = [_take(part, f"{path}[{n}]", numbers) for n, part in enumerate(tree)]
    return {v: text for part in parts for v, text in part.items()}


def _pack(tree: Tree, numbers: Sequence[int]) -> str:
    match tree:
        case None:
            return "None"
        case int():
            return f"x{numbers[tree]}"
        case dict():
            return (
                "{"
                + ", ".join(f'"{key}": {_pack(part, numbers)}' for key, part in tree.items())
                + "}"
            )
        case list():
            return f"[{', '.join(_pack(part, numbers) for part in tree)}]"
        case tuple():
            return f"({''.join(_pack(part, numbers) + ', ' for part in tree)})"


def _names(numbers: Sequence[int]) -> str:
    return ", ".join(f"x{v}" for v in numbers)
