"""The arguments of a function whose derivative is taken: nested tensors, told apart from all else
while it runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple, cast

from svod_ir import UOp
from svod_ir.derivatives import make_traced
from svod_tensor._trees import Structure, flatten
from svod_tensor.errors import DataError, DerivativeError
from svod_tensor.gradients.floats import check_float
from svod_tensor.tensor import Tensor

__all__ = [
    "BY_PARAMETERS",
    "OTHER_ARGUMENTS",
    "Argnums",
    "TracedArguments",
    "check_argnums",
    "check_unassigned",
    "has_parameters",
    "read_tensors",
    "trace_arguments",
]

Argnums = int | Sequence[int]

BY_PARAMETERS: Final = (
    "svod_nn.value_and_grad(model, loss_function)(x) gives loss_function(model, x) and its"
    " gradients by the parameters"
)
"""What to write for the derivative by the parameters of a network."""

OTHER_ARGUMENTS: Final = ", or name other arguments in argnums"
"""What can be written where an argument is no float, other than a cast."""


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


def check_unassigned(
    operation: str, tensors: Iterable[Tensor], nodes: Iterable[UOp], paths: Iterable[str]
) -> None:
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
                operation=operation,
                problem=f"the function assigns to its argument{path}",
                hint="assign to a copy: x = x.clone()",
            )


def trace_arguments(operation: str, args: Sequence[object], argnums: Argnums) -> TracedArguments:
    """Put tensors that are told apart in the place of those arguments by which derivatives are
    taken.

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
        tensors,
        [t.uop for t in tensors],
        structure,
        tuple(places.get(n, arg) for n, arg in enumerate(args)),
    )


def read_tensors(
    operation: str, tree: object, what: str = "argument"
) -> tuple[list[Tensor], Structure]:
    """The leaves of nested tensors, arrays and numbers as tensors of floats.

    Args:
        operation: what was called.
        tree: the nested values.
        what: they are of the function whose derivative is taken: `argument` or `result`.

    Raises:
        DerivativeError: if one is no float, or no tensor at all.
    """
    leaves, structure = flatten(tree)
    tensors = [
        _read_tensor(operation, leaf, what + path)
        for leaf, path in zip(leaves, structure.paths, strict=True)
    ]
    for tensor, path in zip(tensors, structure.paths, strict=True):
        check_float(operation, tensor, what + path, otherwise=OTHER_ARGUMENTS)
    return tensors, structure


def _read_tensor(operation: str, leaf: object, what: str) -> Tensor:
    if isinstance(leaf, Tensor):
        return leaf
    try:
        return Tensor(leaf)  # pyright: ignore[reportArgumentType]
    except DataError:
        raise DerivativeError(
            operation=operation,
            problem=f"the {what} is of {type(leaf).__name__}, no tensor",
            hint=(
                BY_PARAMETERS
                if has_parameters(leaf)
                else "derivatives are of nested tensors; argnums names the arguments"
            ),
        ) from None


def has_parameters(value: object) -> bool:
    """Whether something is a network, as `svod_nn.Module` is, whose parameters are its
    attributes.
    """
    return callable(getattr(value, "trainable_parameters", None))


def check_argnums(operation: str, f: object, argnums: Argnums) -> None:
    """Check that what should be a function and the numbers of its arguments are.

    Raises:
        DerivativeError: if they are something else.
    """
    if not callable(f):
        raise DerivativeError(
            operation=operation,
            problem=f"{type(f).__name__} is no function",
            hint=f"the function comes first, as in {operation}(f, ...)",
        )
    numbers = cast("object", argnums)
    given = list(cast("Sequence[object]", numbers)) if isinstance(numbers, Sequence) else [numbers]
    if all(isinstance(number, int) for number in given):
        return
    kind = type(cast("object", numbers)).__name__
    raise DerivativeError(
        operation=operation,
        problem=f"argnums is of {kind}, and no number of an argument",
        hint=BY_PARAMETERS if has_parameters(f) else f"write {operation}(f, argnums=0)(x)",
    )


def _normalize(operation: str, argnums: Argnums, n_args: int) -> list[int]:
    numbers = [argnums] if isinstance(argnums, int) else list(argnums)
    found = [n + n_args if n < 0 else n for n in numbers]
    if not found or any(not 0 <= n < n_args for n in found) or len(set(found)) < len(found):
        raise DerivativeError(
            operation=operation,
            problem=f"argnums={argnums} does not name arguments of a call with {n_args}",
            hint="count positional arguments from 0; arguments by name have no number",
        )
    return found
