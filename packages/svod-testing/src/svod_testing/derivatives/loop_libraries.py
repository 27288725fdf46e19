"""The programs of `loop_programs` in svod and in JAX: each a library of the loops, choices and
derivatives that they have.
"""

# jax has no types here: it is not installed where this is checked.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownParameterType=false

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from svod_tensor import (
    Tensor,
    Variable,
    checkpoint,
    cond,
    fori_loop,
    grad,
    jacobian,
    scan,
    switch,
    while_loop,
)
from svod_testing.derivatives.loop_programs import (
    DerivativeBlock,
    LoopDerivativeProgram,
    LoopDerivativeStep,
)
from svod_testing.derivatives.programs import FUNCTIONS

__all__ = ["JaxLoops", "LoopLibrary", "SvodLoops", "run_loop_derivative_program"]


class LoopLibrary(Protocol):
    """Loops and derivatives of a library, with its own types of arrays and structures."""

    def apply(self, name: str, operands: Sequence[Any], arguments: Sequence[Any]) -> Any:
        """A function of `programs`."""

    def squash(self, x: Any) -> Any:
        """Map a value to the range from -1 to 1."""

    def spread(self, x: Any, shape: tuple[int, int]) -> Any:
        """Broadcast the cosine of the mean to a shape."""

    def wave(self, x: Any, number: Any) -> Any:
        """`x * cos(number)`."""

    def row(self, x: Any, number: Any) -> Any:
        """`x[number]` as a matrix."""

    def put_row(self, x: Any, index: Any, row: Any, *, is_copied: bool) -> Any:
        """Return `x` with one row replaced."""

    def count(self) -> Any:
        """Return the integer 0, the initial value of a carried counter."""

    def decide(self, x: Any) -> Any:
        """Return a bool: whether the mean is large, or an integer is even."""

    def choose(self, x: Any) -> Any:
        """Return an integer computed from the mean, or from an integer."""

    def scan(
        self, f: Callable[..., Any], init: Any, xs: Any, arguments: Mapping[str, Any]
    ) -> Any: ...

    def fori(self, f: Callable[..., Any], init: Any, arguments: Mapping[str, Any]) -> Any: ...

    def repeat(self, goes_on: Callable[..., Any], f: Callable[..., Any], init: Any) -> Any:
        """Run a while loop: repeat `f` while `goes_on` of the carry is True."""

    def cond(
        self, pred: Any, f: Callable[..., Any], g: Callable[..., Any], *operands: Any
    ) -> Any: ...

    def switch(self, index: Any, branches: Sequence[Callable[..., Any]], *operands: Any) -> Any: ...

    def checkpoint(self, f: Callable[..., Any]) -> Callable[..., Any]: ...

    def grad(self, f: Callable[..., Any], n_args: int) -> Callable[..., Any]: ...

    def hessian(self, f: Callable[..., Any], order: tuple[str, str]) -> Callable[..., Any]:
        """The matrix of second derivatives, by the modes of the second and the first derivative."""
        ...

    def sine_mean(self, x: Any) -> Any:
        """The mean of the sines: one number."""


def run_loop_derivative_program(
    program: LoopDerivativeProgram, library: LoopLibrary, *inputs: Any
) -> Any:
    """The number that a program gives of these inputs."""
    total = None
    for weight, value in enumerate(_run(program.block, inputs, {}, library), 1):
        term = library.sine_mean(value) * weight
        total = term if total is None else total + term
    return total


def _run(
    block: DerivativeBlock, given: Sequence[Any], around: Mapping[int, Any], library: LoopLibrary
) -> list[Any]:
    values = {**around, **dict(zip(block.params, given, strict=True))}
    for step in block.steps:
        values.update(zip(step.results, _run_step(step, values, library), strict=True))
    return [values[n] for n in block.results]


def _run_step(
    step: LoopDerivativeStep, values: Mapping[int, Any], library: LoopLibrary
) -> Sequence[Any]:
    operands, arguments = [values[n] for n in step.operands], step.arguments
    match step.name:
        case "scan":
            return _run_scan(step, values, library)
        case "fori" | "while":
            return _run_counted(step, values, library)
        case "cond" | "switch":
            return _run_choice(step, values, library)
        case "checkpoint":
            return library.checkpoint(lambda *given: _run(step.blocks[0], given, values, library))(
                *operands
            )
        case "gradient":
            gradient = library.grad(
                lambda *given: library.sine_mean(_run(step.blocks[0], given, values, library)[0]),
                len(operands),
            )
            return [library.apply("tanh", (value,), ()) for value in gradient(*operands)]
        case "hessian":
            (x,) = operands
            hessian = library.hessian(
                lambda given: library.sine_mean(_run(step.blocks[0], (given,), values, library)[0]),
                arguments["order"],
            )
            size = x.shape[0] * x.shape[1]
            return [library.apply("tanh", (hessian(x).reshape(size, size),), ())]
        case "wave":
            return [library.wave(*operands)]
        case "row":
            x, counter = operands
            return [library.row(x, counter % arguments["n_rows"])]
        case "put_row":
            x, row, *index = operands
            position = index[0] % arguments["n_rows"] if index else arguments["index"]
            row_mean = library.apply("mean", (row,), (0,))
            return [library.put_row(x, position, row_mean, is_copied=arguments["copy"])]
        case "squash":
            return [library.squash(*operands)]
        case "spread":
            return [library.spread(operands[0], arguments["shape"])]
        case _:
            return [library.apply(step.name, operands, tuple(arguments.values()))]


def _run_scan(
    step: LoopDerivativeStep, values: Mapping[int, Any], library: LoopLibrary
) -> Sequence[Any]:
    (block,), arguments, n = step.blocks, step.arguments, step.arguments["n_carried"]
    structure, counts = arguments["structure"], arguments["counts"]
    operands = [values[k] for k in step.operands]

    def body(carry: Any, xs: Any) -> Any:
        carried = _unpack(structure, carry)
        slices = [] if xs is None else [x.reshape(1, -1) for x in xs]
        results = _run(block, (*carried, *slices), values, library)
        following = [*results[:n], carried[n] + 1] if counts else results[:n]
        return _pack(structure, following), results[n:]

    init = [*operands[:n], library.count()] if counts else operands[:n]
    last, stacks = library.scan(body, _pack(structure, init), operands[n:] or None, arguments)
    if arguments["bound"] == "variable":
        results = [stack.sum(0) for stack in stacks]
    else:
        results = [stack.reshape(-1, stack.shape[-1]) for stack in stacks]
    return [*_unpack(structure, last)[:n], *results]


def _run_counted(
    step: LoopDerivativeStep, values: Mapping[int, Any], library: LoopLibrary
) -> Sequence[Any]:
    (block,), arguments = step.blocks, step.arguments
    structure, init = arguments["structure"], [values[n] for n in step.operands]

    def body(index: Any, carry: Any) -> Any:
        return _pack(structure, _run(block, (index, *_unpack(structure, carry)), values, library))

    if step.name == "fori":
        return _unpack(structure, library.fori(body, _pack(structure, init), arguments))
    last = library.repeat(
        lambda carry: carry[0] < arguments["upper"] - arguments["lower"],
        lambda carry: (carry[0] + 1, body(carry[0], carry[1])),
        (library.count(), _pack(structure, init)),
    )
    return _unpack(structure, last[1])


def _run_choice(
    step: LoopDerivativeStep, values: Mapping[int, Any], library: LoopLibrary
) -> Sequence[Any]:
    selector, *operands = (values[n] for n in step.operands)
    structure = step.arguments["structure"]
    branches = [
        lambda *given, block=block: _pack(structure, _run(block, given, values, library))
        for block in step.blocks
    ]
    if step.name == "cond":
        return _unpack(structure, library.cond(library.decide(selector), *branches, *operands))
    return _unpack(structure, library.switch(library.choose(selector), branches, *operands))


def _pack(structure: str, parts: Sequence[Any]) -> Any:
    match structure:
        case "list":
            return list(parts)
        case "tuple":
            return tuple(parts)
        case "dict":
            return {f"part{n}": part for n, part in enumerate(parts)}
        case _:
            return (parts[0], {"others": list(parts[1:]), "none": None})


def _unpack(structure: str, tree: Any) -> list[Any]:
    match structure:
        case "list" | "tuple":
            return list(tree)
        case "dict":
            return [tree[f"part{n}"] for n in range(len(tree))]
        case _:
            return [tree[0], *tree[1]["others"]]


class SvodLoops:
    """The loops of svod."""

    repeat = staticmethod(while_loop)
    cond = staticmethod(cond)
    switch = staticmethod(switch)
    checkpoint = staticmethod(checkpoint)

    def apply(self, name: str, operands: Sequence[Any], arguments: Sequence[Any]) -> Any:
        return FUNCTIONS[name].call(*operands, *arguments)

    def squash(self, x: Any) -> Any:
        return (x * 0.9).sin()

    def spread(self, x: Any, shape: tuple[int, int]) -> Any:
        return x.mean((0, 1), keepdims=True).cos().expand(shape)

    def wave(self, x: Any, number: Any) -> Any:
        return x * number.cast("float64").cos()

    def row(self, x: Any, number: Any) -> Any:
        return x[number].reshape(1, -1)

    def put_row(self, x: Any, index: Any, row: Any, *, is_copied: bool) -> Any:
        target = x * 1 if is_copied else x
        target[index] = row.reshape(-1)
        return target

    def count(self) -> Any:
        return Tensor(0)

    def decide(self, x: Any) -> Any:
        return x.mean() > 0.1 if x.dtype.is_float else (x % 2).eq(0)

    def choose(self, x: Any) -> Any:
        return (x.mean() * 3).floor().cast("int64") + 1 if x.dtype.is_float else x

    def scan(self, f: Callable[..., Any], init: Any, xs: Any, arguments: Mapping[str, Any]) -> Any:
        length, every = arguments["length"], arguments["every"]
        if arguments["bound"] == "variable":
            length, every = Variable(f"n{length}", 0, 9).bind(length), None if every is None else 1
        length = length if xs is None else None
        return scan(f, init, xs, length, arguments["reverse"], checkpoint_every=every)

    def fori(self, f: Callable[..., Any], init: Any, arguments: Mapping[str, Any]) -> Any:
        upper, every = arguments["upper"], arguments["every"]
        if arguments["bound"] != "number":
            every = None if every is None else 1
            upper = (
                Tensor(upper)
                if arguments["bound"] == "tensor"
                else Variable(f"n{upper}", 0, 9).bind(upper)
            )
        return fori_loop(arguments["lower"], upper, f, init, checkpoint_every=every)

    def grad(self, f: Callable[..., Any], n_args: int) -> Callable[..., Any]:
        return grad(f, tuple(range(n_args)))

    def hessian(self, f: Callable[..., Any], order: tuple[str, str]) -> Callable[..., Any]:
        outer, first = order
        return jacobian(grad(f) if first == "reverse" else jacobian(f, mode="forward"), mode=outer)  # pyright: ignore[reportArgumentType]

    def sine_mean(self, x: Any) -> Any:
        return x.sin().mean()


class JaxLoops:
    """The loops of JAX, for which checkpoints mean nothing."""

    def __init__(self, jax: Any) -> None:
        self._jax, self._np = jax, jax.numpy
        self.repeat = jax.lax.while_loop
        self.cond, self.switch = jax.lax.cond, jax.lax.switch

    def apply(self, name: str, operands: Sequence[Any], arguments: Sequence[Any]) -> Any:
        return FUNCTIONS[name].peer(self._jax, *operands, *arguments)

    def squash(self, x: Any) -> Any:
        return self._np.sin(x * 0.9)

    def spread(self, x: Any, shape: tuple[int, int]) -> Any:
        return self._np.broadcast_to(self._np.cos(x.mean()), shape)

    def wave(self, x: Any, number: Any) -> Any:
        return x * self._np.cos(self._np.asarray(number, np.float64))

    def row(self, x: Any, number: Any) -> Any:
        return x[number].reshape(1, -1)

    def put_row(self, x: Any, index: Any, row: Any, *, is_copied: bool) -> Any:
        return x.at[index].set(row.reshape(-1))

    def count(self) -> Any:
        return self._np.asarray(0)

    def decide(self, x: Any) -> Any:
        x = self._np.asarray(x)
        return x.mean() > 0.1 if x.dtype == np.float64 else x % 2 == 0

    def choose(self, x: Any) -> Any:
        x = self._np.asarray(x)
        return self._np.floor(x.mean() * 3).astype(int) + 1 if x.dtype == np.float64 else x

    def scan(self, f: Callable[..., Any], init: Any, xs: Any, arguments: Mapping[str, Any]) -> Any:
        return self._jax.lax.scan(f, init, xs, arguments["length"], arguments["reverse"])

    def fori(self, f: Callable[..., Any], init: Any, arguments: Mapping[str, Any]) -> Any:
        return self._jax.lax.fori_loop(arguments["lower"], arguments["upper"], f, init)

    def checkpoint(self, f: Callable[..., Any]) -> Callable[..., Any]:
        return f

    def grad(self, f: Callable[..., Any], n_args: int) -> Callable[..., Any]:
        return self._jax.grad(f, tuple(range(n_args)))

    def hessian(self, f: Callable[..., Any], order: tuple[str, str]) -> Callable[..., Any]:
        return self._jax.hessian(f)

    def sine_mean(self, x: Any) -> Any:
        return self._np.sin(x).mean()
