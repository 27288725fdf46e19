"""Arguments of differentiated functions: trees of tensors, which are distinct nodes (TRACED) while the
function runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
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
    "replace_nodes",
    "select_inexact",
    "trace_arguments",
]

Argnums = int | Sequence[int]

BY_PARAMETERS: Final = (
    "svod_nn.value_and_grad(model, loss_function)(x) gives loss_function(model, x) and its"
    " gradients by the parameters"
)
"""Hint for derivatives by the parameters of a network."""

OTHER_ARGUMENTS: Final = ", or select other arguments by argnums"
"""Addition to the hint for an argument that is not of floats."""


class TracedArguments(NamedTuple):
    """The differentiated arguments of a call.

    Attributes:
        tensors: the tensors that replace the arguments while the function runs.
        nodes: the nodes of these tensors when the function is called.
        structure: the structure of the tuple of differentiated arguments, or of the only one.
        args: all arguments of the call.
    """

    tensors: list[Tensor]
    nodes: list[UOp]
    structure: Structure
    args: tuple[object, ...]

    def check_kept(self, operation: str) -> None:
        """Check that the function did not assign to a differentiated argument.

        Raises:
            DerivativeError: if it did.
        """
        check_unassigned(operation, self.tensors, self.nodes, self.structure.paths)


def check_unassigned(
    operation: str, tensors: Iterable[Tensor], nodes: Iterable[UOp], paths: Iterable[str]
) -> None:
    """Check that a function did not assign to its arguments.

    Args:
        operation: the calling operation.
        tensors: the arguments.
        nodes: the nodes of the arguments when the function was called.
        paths: the path of each argument.

    Raises:
        DerivativeError: if it did.
    """
    for tensor, node, path in zip(tensors, nodes, paths, strict=True):
        # Each assignment gives a tensor another node.
        if tensor.uop is not node:
            raise DerivativeError(
                operation=operation,
                problem=f"the function assigns to its argument{path}",
                hint="assign to a copy: x = x.clone()",
            )


def trace_arguments(operation: str, args: Sequence[object], argnums: Argnums) -> TracedArguments:
    """Replace the differentiated arguments with tensors of distinct nodes.

    Raises:
        DerivativeError: if there is no such argument, or a leaf of an argument is not of floats.
    """
    indices = _normalize(operation, argnums, len(args))
    selected = args[indices[0]] if isinstance(argnums, int) else tuple(args[n] for n in indices)
    leaves, structure = read_tensors(operation, selected)
    # Nodes are interned: without a node of its own, an argument would share its derivative with
    # every equal tensor.
    tensors = [type(t).from_uop(make_traced(t.uop)) for t in leaves]
    replacement = structure.unflatten(tensors)
    values = (replacement,) if isinstance(argnums, int) else cast("tuple[object, ...]", replacement)
    replaced = dict(zip(indices, values, strict=True))
    return TracedArguments(
        tensors,
        [t.uop for t in tensors],
        structure,
        tuple(replaced.get(n, arg) for n, arg in enumerate(args)),
    )


def select_inexact(leaves: Sequence[object]) -> dict[int, Tensor]:
    """The tensors of floats or complex numbers among leaves, by index."""
    return {
        n: leaf
        for n, leaf in enumerate(leaves)
        if isinstance(leaf, Tensor) and leaf.dtype.is_inexact
    }


def replace_nodes(
    structure: Structure,
    leaves: Sequence[object],
    tensors: Mapping[int, Tensor],
    nodes: Iterable[UOp],
) -> object:
    """A structure of leaves, in which tensors have new nodes.

    Args:
        structure: the structure.
        leaves: its leaves.
        tensors: the tensors to replace, by index among the leaves.
        nodes: the new node of each of them.
    """
    replaced = {
        n: tensor.from_uop(node) for (n, tensor), node in zip(tensors.items(), nodes, strict=True)
    }
    return structure.unflatten([replaced.get(n, leaf) for n, leaf in enumerate(leaves)])


def read_tensors(
    operation: str, tree: object, role: str = "argument"
) -> tuple[list[Tensor], Structure]:
    """The leaves of nested tensors, arrays and numbers as tensors of floats.

    Args:
        operation: the called operation.
        tree: the nested values.
        role: `argument` or `result` of the differentiated function.

    Raises:
        DerivativeError: if a leaf is not of floats, or not a tensor.
    """
    leaves, structure = flatten(tree)
    tensors = [
        _read_tensor(operation, leaf, role + path)
        for leaf, path in zip(leaves, structure.paths, strict=True)
    ]
    for tensor, path in zip(tensors, structure.paths, strict=True):
        check_float(operation, tensor, role + path, otherwise=OTHER_ARGUMENTS)
    return tensors, structure


def _read_tensor(operation: str, leaf: object, name: str) -> Tensor:
    if isinstance(leaf, Tensor):
        return leaf
    try:
        return Tensor(leaf)  # pyright: ignore[reportArgumentType]
    except DataError:
        raise DerivativeError(
            operation=operation,
            problem=f"expected a tensor as {name}, got {type(leaf).__name__}",
            hint=(
                BY_PARAMETERS
                if has_parameters(leaf)
                else "pass nested tensors; argnums selects the arguments to differentiate by"
            ),
        ) from None


def has_parameters(value: object) -> bool:
    """Whether a value is a network with parameters, such as a `svod_nn.Module`."""
    # By its method, since svod_nn imports this package.
    return callable(getattr(value, "trainable_parameters", None))


def check_argnums(operation: str, f: object, argnums: Argnums) -> None:
    """Check that `f` is callable and `argnums` are integers.

    Raises:
        DerivativeError: if not.
    """
    if not callable(f):
        raise DerivativeError(
            operation=operation,
            problem=f"{type(f).__name__} is not a function",
            hint=f"pass the function first, as in {operation}(f, ...)",
        )
    indices = cast("object", argnums)
    items = list(cast("Sequence[object]", indices)) if isinstance(indices, Sequence) else [indices]
    if all(isinstance(index, int) for index in items):
        return
    kind = type(cast("object", indices)).__name__
    raise DerivativeError(
        operation=operation,
        problem=f"argnums is of {kind}, not an integer",
        hint=BY_PARAMETERS if has_parameters(f) else f"write {operation}(f, argnums=0)(x)",
    )


def _normalize(operation: str, argnums: Argnums, n_args: int) -> list[int]:
    indices = [argnums] if isinstance(argnums, int) else list(argnums)
    normalized = [n + n_args if n < 0 else n for n in indices]
    if (
        not normalized
        or any(not 0 <= n < n_args for n in normalized)
        or len(set(normalized)) < len(normalized)
    ):
        raise DerivativeError(
            operation=operation,
            problem=f"argnums={argnums} is out of bounds for {n_args} positional arguments, or not unique",
            hint="argnums are indices of positional arguments from 0; keyword arguments have none",
        )
    return normalized
