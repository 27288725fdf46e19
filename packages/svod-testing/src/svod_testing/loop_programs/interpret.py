"""Interpreter of programs with the loops and operations of any library."""

# Libraries bring their own arrays.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

from svod_testing.loop_programs.program import Block, Kind, LoopProgram, LoopStep, pack, unpack

__all__ = ["Library", "run_program"]

Function: TypeAlias = Callable[..., Any]


class Library(Protocol):
    """Operations on arrays, and loops with the semantics of `jax.lax`."""

    def apply(
        self,
        operation: str,
        operands: Sequence[Any],
        args: Mapping[str, Any],
        kinds: Sequence[Kind],
    ) -> Any:
        """Apply an operation; `kinds` are the kinds of the result and of the operands."""
        ...

    def bind(self, name: str) -> Any:
        """Return the value of a variable that is a trip count, as the library expects it."""
        ...

    def to_counter(self, number: Any) -> Any:
        """Convert the index of an iteration, as passed to a body, to an int32 scalar."""
        ...

    def scan(
        self, f: Function, init: Any, xs: Any, *, length: Any, reverse: bool, made: Any
    ) -> tuple[Any, Any]:
        """Run a scan; `made` has the kind of each stacked result, in their structure."""
        ...

    def fori_loop(self, lower: Any, upper: Any, f: Function, init: Any) -> Any: ...
    def while_loop(self, cond: Function, f: Function, init: Any) -> Any: ...
    def cond(self, pred: Any, f: Function, g: Function, *operands: Any) -> Any: ...
    def switch(self, index: Any, branches: Sequence[Function], *operands: Any) -> Any: ...


def run_program(program: LoopProgram, library: Library, inputs: Mapping[int, Any]) -> list[Any]:
    """Return the results of a program on these inputs."""
    return _Run(program.kinds, library).run_steps(program.steps, dict(inputs), program.roots)


class _Run:
    def __init__(self, kinds: Mapping[int, Kind], library: Library) -> None:
        self._kinds = kinds
        self._library = library

    def run_steps(
        self, steps: Sequence[LoopStep], values: dict[int, Any], results: Sequence[int]
    ) -> list[Any]:
        for step in steps:
            if step.operation == "input":
                continue
            operands = [values[v] for v in step.operands]
            match step.operation:
                case "scan":
                    computed = self._scan(step, operands, values)
                case "fori":
                    computed = self._fori(step, operands, values)
                case "while":
                    computed = self._while(step, operands, values)
                case "cond" | "switch":
                    computed = self._branch(step, operands, values)
                case _:
                    kinds = [self._kinds[v] for v in (*step.results, *step.operands)]
                    computed = [self._library.apply(step.operation, operands, step.args, kinds)]
            values.update(zip(step.results, computed, strict=True))
        return [values[v] for v in results]

    def _call(self, block: Block, leaves: Sequence[Any], values: dict[int, Any]) -> list[Any]:
        return self.run_steps(
            block.steps, values | dict(zip(block.params, leaves, strict=True)), block.results
        )

    def _scan(self, step: LoopStep, operands: list[Any], values: dict[int, Any]) -> list[Any]:
        args, n_carried = step.args, step.args["n_carried"]
        carried, sliced, stacked = args["carried"], args["sliced"], args["stacked"]

        def body(carry: Any, x: Any) -> tuple[Any, Any]:
            leaves = [*unpack(carried, carry), *unpack(sliced, x)]
            results = self._call(step.blocks[0], leaves, values)
            return pack(carried, results[:n_carried]), pack(stacked, results[n_carried:])

        init, xs = pack(carried, operands[:n_carried]), pack(sliced, operands[n_carried:])
        length = (
            self._library.bind(args["length"])
            if isinstance(args["length"], str)
            else args["length"]
        )
        stacked_kinds = pack(stacked, [self._kinds[v] for v in step.results[n_carried:]])
        last, ys = self._library.scan(
            body, init, xs, length=length, reverse=args["reverse"], made=stacked_kinds
        )
        return [*unpack(carried, last), *unpack(stacked, ys)]

    def _fori(self, step: LoopStep, operands: list[Any], values: dict[int, Any]) -> list[Any]:
        carried, n_carried = step.args["carried"], step.args["n_carried"]

        def body(number: Any, carry: Any) -> Any:
            leaves = [self._library.to_counter(number), *unpack(carried, carry)]
            return pack(carried, self._call(step.blocks[0], leaves, values))

        upper = step.args["upper"]
        if isinstance(upper, str):
            upper = self._library.bind(upper)
        elif upper is None:
            upper = operands[n_carried]
        init = pack(carried, operands[:n_carried])
        return unpack(carried, self._library.fori_loop(step.args["lower"], upper, body, init))

    def _while(self, step: LoopStep, operands: list[Any], values: dict[int, Any]) -> list[Any]:
        carried = step.args["carried"]

        def goes_on(carry: Any) -> Any:
            return self._call(step.blocks[0], unpack(carried, carry), values)[0]

        def body(carry: Any) -> Any:
            return pack(carried, self._call(step.blocks[1], unpack(carried, carry), values))

        return unpack(carried, self._library.while_loop(goes_on, body, pack(carried, operands)))

    def _branch(self, step: LoopStep, operands: list[Any], values: dict[int, Any]) -> list[Any]:
        operand_trees, result_tree = step.args["given"], step.args["made"]

        def make(block: Block) -> Function:
            return lambda *leaves: pack(
                result_tree, self._call(block, unpack(operand_trees, list(leaves)), values)
            )

        index, *leaves = operands
        functions = [make(block) for block in step.blocks]
        arguments = pack(operand_trees, leaves)
        if step.operation == "cond":
            return unpack(
                result_tree, self._library.cond(index, functions[0], functions[1], *arguments)
            )
        return unpack(result_tree, self._library.switch(index, functions, *arguments))
