"""Evaluation of the programs of `carry_programs` with the loops of svod and of JAX.

Operations are written once, over the array API namespace of the arrays."""

# jax has no types here: it is not installed where this is checked.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownParameterType=false

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from svod_tensor import Tensor, checkpoint, cond, fori_loop, jit, scan, switch, while_loop
from svod_testing.derivatives.carry_programs import CarryKind, CarryProgram
from svod_testing.derivatives.loop_programs import DerivativeBlock, LoopDerivativeStep

__all__ = ["CarryLibrary", "JaxCarries", "SvodCarries", "run_carry_program"]


class CarryLibrary(Protocol):
    """Loops of a library with the signatures of `jax.lax`, and the writing of rows."""

    def asarray(self, values: np.ndarray) -> Any: ...
    def put(self, x: Any, index: Any, row: Any, *, is_copied: bool) -> Any:
        """Return `x` with `x[index]` replaced."""
        ...

    def fori_loop(self, lower: int, upper: int, f: Callable[..., Any], init: Any) -> Any: ...
    def scan(
        self, f: Callable[..., Any], init: Any, xs: Any, length: int | None, reverse: bool
    ) -> Any: ...
    def while_loop(self, goes_on: Callable[..., Any], f: Callable[..., Any], init: Any) -> Any: ...
    def cond(
        self, pred: Any, f: Callable[..., Any], g: Callable[..., Any], *operands: Any
    ) -> Any: ...
    def switch(self, index: Any, branches: Sequence[Callable[..., Any]], *operands: Any) -> Any: ...
    def jit(self, f: Callable[..., Any]) -> Callable[..., Any]: ...
    def checkpoint(self, f: Callable[..., Any]) -> Callable[..., Any]: ...


def run_carry_program(program: CarryProgram, library: CarryLibrary, x: Any) -> Any:
    """Return the scalar that a program computes from this input."""
    results = _run(program.block, (x,), {}, library)
    return sum(results[1:], start=results[0])


def _run(
    block: DerivativeBlock, given: Sequence[Any], around: Mapping[int, Any], library: CarryLibrary
) -> tuple[Any, ...]:
    values = {**around, **dict(zip(block.params, given, strict=True))}
    for step in block.steps:
        operands = [values[n] for n in step.operands]
        results = (
            _run_body(step, operands, values, library)
            if step.blocks
            else (_run_operation(step, operands, library),)
        )
        values.update(zip(step.results, results, strict=True))
    return tuple(values[n] for n in block.results)


def _run_operation(step: LoopDerivativeStep, operands: Sequence[Any], library: CarryLibrary) -> Any:
    arguments = step.arguments
    if step.name == "const":
        return library.asarray(_make_constant(arguments["kind"], arguments["seed"]))
    first = operands[0]
    xp = first.__array_namespace__()
    is_complex = xp.isdtype(first.dtype, "complex floating")
    match step.name:
        case "fit":
            return _convert(xp, first, arguments["kind"])
        case "wave":
            return first * (0.6 + 0.8j) if is_complex else xp.sin(first * 1.1)
        case "squash":
            return _squash(xp, first) if is_complex else xp.tanh(first)
        case "mul":
            return first * operands[1]
        case "add":
            return first * 0.5 + operands[1]
        case "where":
            return xp.where(*operands)
        case "reduce":
            return xp.sum(first, axis=0)
        case "spread":
            return xp.broadcast_to(first, arguments["shape"])
        case "modulate":
            return first * xp.astype(xp.cos(xp.astype(operands[1], xp.float64)), first.dtype)
        case _:
            n_rows = first.shape[0]
            index = (operands[-1] + arguments["shift"]) % n_rows
            index = index - n_rows if arguments["negative"] else index
            if step.name == "row":
                return first[index]
            return library.put(first, index, operands[1], is_copied=not arguments["in_place"])


def _squash(xp: Any, x: Any) -> Any:
    """`x / (1.5 + |x|²)` of complex values."""
    return x / xp.astype(xp.real(x * xp.conj(x)) + 1.5, x.dtype)


def _make_constant(kind: CarryKind, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    values = rng.normal(size=kind.shape)
    if kind.dtype.startswith("complex"):
        return np.asarray(values + 1j * rng.normal(size=kind.shape))
    if kind.is_inexact:
        return np.asarray(values, kind.dtype)
    return np.asarray(rng.integers(0, 2 if kind.dtype == "bool" else 5, kind.shape), kind.dtype)


def _convert(xp: Any, x: Any, kind: CarryKind) -> Any:
    """Convert a value to a kind: its sum is broadcast to another shape."""
    if x.shape != kind.shape:
        x = xp.astype(x, xp.int64) if xp.isdtype(x.dtype, "bool") else x
        total = xp.sum(x)
        total = total if xp.isdtype(x.dtype, "integral") else _squash(xp, total)
        x = xp.broadcast_to(xp.astype(total, x.dtype), kind.shape)
    dtype = getattr(xp, "bool" if kind.dtype == "bool" else kind.dtype)
    if x.dtype == dtype:
        return x
    is_integer = xp.isdtype(x.dtype, ("bool", "integral"))
    is_complex = xp.isdtype(x.dtype, "complex floating")
    if is_integer:
        x = xp.astype(x, xp.int64)
        return x % 2 == 0 if kind.dtype == "bool" else _to_inexact(xp, x * 1, dtype, kind)
    if kind.dtype.startswith("complex"):
        return xp.astype(x, dtype) * (0.6 + 0.8j)
    if is_complex:
        x = xp.real(x) + xp.imag(x) * 0.5
    if kind.dtype == "bool":
        return x > 0.3137
    return xp.astype(x if kind.is_inexact else xp.floor(x * 2 + 0.1371), dtype)


def _to_inexact(xp: Any, x: Any, dtype: Any, kind: CarryKind) -> Any:
    if kind.is_inexact:
        x = xp.cos(xp.astype(x, xp.float64))
    return xp.astype(x, dtype)


def _run_body(
    step: LoopDerivativeStep,
    operands: Sequence[Any],
    values: Mapping[int, Any],
    library: CarryLibrary,
) -> Sequence[Any]:
    arguments = step.arguments
    branches = [
        lambda *given, block=block: _run(block, given, values, library) for block in step.blocks
    ]
    f = branches[0]
    match step.name:
        case "fori":
            lower = arguments["lower"]
            return library.fori_loop(
                lower, lower + arguments["count"], lambda k, c: f(k, *c), tuple(operands)
            )
        case "while":
            counter = library.asarray(np.asarray(0, "int32"))
            return library.while_loop(
                lambda carry: carry[0] < arguments["count"],
                lambda carry: (carry[0] + 1, f(*carry[:1], *carry[1])),
                (counter, tuple(operands)),
            )[1]
        case "scan":
            return _run_scan(step, operands, f, library)
        case "cond":
            return library.cond(operands[0], *branches, *operands[1:])
        case "switch":
            return library.switch(operands[0], branches, *operands[1:])
        case "jit":
            return library.jit(f)(*operands)
        case _:
            return library.checkpoint(f)(*operands)


def _run_scan(
    step: LoopDerivativeStep, operands: Sequence[Any], f: Callable[..., Any], library: CarryLibrary
) -> Sequence[Any]:
    arguments, n = step.arguments, step.arguments["n_carried"]
    counts = arguments["counts"]
    zero = np.asarray(0, "int32")

    def body(carry: Any, xs: Any) -> Any:
        carried = carry[1:] if counts else carry
        counter = carry[0] if counts else library.asarray(zero)
        results = f(counter, *carried, *(() if xs is None else xs))
        return (carry[0] + 1, *results[:n]) if counts else results[:n], results[n:]

    init = (library.asarray(zero), *operands[:n]) if counts else tuple(operands[:n])
    xs = tuple(operands[n:]) or None
    length = arguments["count"] if xs is None else None
    last, stacked = library.scan(body, init, xs, length, arguments["reverse"])
    return [*(last[1:] if counts else last), *stacked]


class SvodCarries:
    """Loops of svod."""

    asarray = staticmethod(Tensor)
    fori_loop = staticmethod(fori_loop)
    scan = staticmethod(scan)
    while_loop = staticmethod(while_loop)
    cond = staticmethod(cond)
    switch = staticmethod(switch)
    jit = staticmethod(jit)
    checkpoint = staticmethod(checkpoint)

    def put(self, x: Any, index: Any, row: Any, *, is_copied: bool) -> Any:
        target = x * 1 if is_copied else x
        target[index] = row
        return target


class JaxCarries:
    """Loops of JAX."""

    def __init__(self, jax: Any) -> None:
        self.asarray = jax.numpy.asarray
        self.fori_loop, self.scan = jax.lax.fori_loop, jax.lax.scan
        self.while_loop, self.cond = jax.lax.while_loop, jax.lax.cond
        self.switch, self.jit, self.checkpoint = jax.lax.switch, jax.jit, jax.checkpoint

    def put(self, x: Any, index: Any, row: Any, *, is_copied: bool) -> Any:
        return x.at[index].set(row)
