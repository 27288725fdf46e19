"""The arguments of a function whose derivative is taken: nested tensors, told apart from all else while it runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, cast

from svod_ir import UOp
from svod_ir.derivatives import make_traced
from svod_tensor._trees import Structure, flatten
from svod_tensor.errors import DerivativeError
from svod_tensor.tensor import Tensor

__all__ = ["Argnums", "TracedArguments", "check_float", "check_unassigned", "read_tensors", "trace_arguments"]

Argnums = int | Sequence[int]


class TracedArguments(NamedTuple):
    """What derivatives are taken by.

    Attributes:
        tensors: that stand for the arguments while the function runs.
        nodes: what these were made of.
        structure: how they are nested: a tuple of the arguments, or the only one.
        args: all arguments of the call.
    """

    tensors: list[Tensor]
    nodes: list[UOp]
    structure: Structure
    args: tuple[object, ...]

    def check_kept(self, operation: str) -> None:
        """Check that the function assigned to none of them.

        Raises:
            DerivativeError: if it did.
        """
        check_unassigned(operation, self.tensors, self.nodes, self.structure.paths)


def check_unassigned(operation: str, tensors: Iterable[Tensor], nodes: Iterable[UOp], paths: Iterable[str]) -> None:
    """Check that a function assigned to none of its arguments.

    Args:
        operation: what called it.
        tensors: the arguments.
        nodes: what these were when it was called.
        paths: where each stands among the arguments.

    Raises:
        DerivativeError: if it assigned to one.
    """
    for tensor, node, path in zip(tensors, nodes, paths, strict=True):
        if tensor.uop is not node:
            raise DerivativeError(
                operation=operation, problem=f"the function assigns to its argument{path}",
                hint="assign to a copy: x = x.clone()",
            )  # fmt: skip


def trace_arguments(operation: str, args: Sequence[object], argnums: Argnums) -> TracedArguments:
    """Put tensors that are told apart in the place of those arguments by which derivatives are taken.

    Raises:
        DerivativeError: if there is no such argument, or something in one is no float.
    """
    numbers = _normalize(operation, argnums, len(args))
    chosen = args[numbers[0]] if isinstance(argnums, int) else tuple(args[n] for n in numbers)
    given, structure = read_tensors(operation, chosen)
    tensors = [type(t).from_uop(make_traced(t.uop)) for t in given]
    new = structure.unflatten(tensors)
    values = (new,) if isinstance(argnums, int) else cast("tuple[object, ...]", new)
    places = dict(zip(numbers, values, strict=True))
    return TracedArguments(
        tensors, [t.uop for t in tensors], structure, tuple(places.get(n, arg) for n, arg in enumerate(args))
    )


def read_tensors(operation: str, tree: object) -> tuple[list[Tensor], Structure]:
    """The leaves of nested tensors, arrays and numbers as tensors of floats.

    Raises:
        DerivativeError: if one is no float.
    """
    leaves, structure = flatten(tree)
    tensors = [leaf if isinstance(leaf, Tensor) else Tensor(leaf) for leaf in leaves]  # pyright: ignore[reportArgumentType]
    for tensor, path in zip(tensors, structure.paths, strict=True):
        check_float(operation, tensor, f"argument{path}")
    return tensors, structure


def check_float(operation: str, tensor: Tensor, what: str) -> None:
    """Check that a tensor has a derivative.

    Raises:
        DerivativeError: if it is not of floats.
    """
    if not tensor.dtype.is_float:
        raise DerivativeError(
            operation=operation, problem=f"the {what} is {tensor.dtype}, and floats alone have derivatives",
            hint="cast it, as in x.cast(float32), or name other arguments in argnums",
        )  # fmt: skip


def _normalize(operation: str, argnums: Argnums, n_args: int) -> list[int]:
    numbers = [argnums] if isinstance(argnums, int) else list(argnums)
    found = [n + n_args if n < 0 else n for n in numbers]
    if not found or any(not 0 <= n < n_args for n in found) or len(set(found)) < len(found):
        raise DerivativeError(
            operation=operation, problem=f"argnums={argnums} does not name arguments of a call with {n_args}",
            hint="count positional arguments from 0; arguments by name have no number",
        )  # fmt: skip
    return found
