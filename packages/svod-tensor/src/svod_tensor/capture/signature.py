"""Signatures of calls of captured functions: all of the arguments except the elements of tensors
and the values of variables.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeGuard

from svod_ir import Op, UOp
from svod_tensor.capture.donation import DonatedParameters
from svod_tensor.capture.keys import is_array, key_of
from svod_tensor.capture.nested import Objects, flatten_one_level, list_items
from svod_tensor.errors import DonationError
from svod_tensor.tensor import Tensor

__all__ = [
    "Argument",
    "Signature",
    "describe_arguments",
    "find_array",
    "get_reason",
    "name_inputs",
    "read_arguments",
]


class Signature(NamedTuple):
    """Signature of a call.

    Attributes:
        key: equal for all calls that one plan serves.
        inputs: tensors and bound variables, in order.
        borrowed: the tensors among them that are on the memory of a numpy array.
    """

    key: tuple[object, ...]
    inputs: Sequence[Tensor | UOp]
    borrowed: Sequence[Tensor]


class Argument(NamedTuple):
    """An argument, or an item of one, for display.

    Attributes:
        root: position or name of the argument.
        path_in_root: path of the item in the argument, as it is written in Python.
        text: description of the value.
        key: its part of the signature.
        is_input: whether it is a tensor or a bound variable.
    """

    root: int | str
    path_in_root: str
    text: str
    key: tuple[object, ...]
    is_input: bool = False

    @property
    def path(self) -> str:
        return (
            f"args[{self.root}]{self.path_in_root}"
            if isinstance(self.root, int)
            else f"{self.root}{self.path_in_root}"
        )


def read_arguments(
    args: Sequence[object], kwargs: Mapping[str, object], *, objects: Objects
) -> Signature:
    """Return the signature of a call. Every call of a captured function comes through here.

    Args:
        args: its arguments.
        kwargs: its arguments by name.
        objects: which objects are trees; the others are known by their identity.

    A tensor that is in trees twice is one input.
    """
    # The count separates positional arguments from the names and values that follow.
    key: list[object] = [len(args)]
    inputs: list[Tensor | UOp] = []
    reader = _ArgumentReader(key, inputs, objects)
    for value in args:
        # The most frequent kind of argument, without a call of the reader.
        if isinstance(value, Tensor):
            inputs.append(value)
            key.append(value.content.spec)
        else:
            reader.read(value)
    for name, value in kwargs.items():
        key.append(name)
        reader.read(value)
    # A tensor that occurs twice in trees, such as a tied weight, must be one tensor in the traced
    # function, too.
    if reader.has_trees and len(inputs) > 1:
        inputs = _merge_repeated(key, inputs)
    return Signature(tuple(key), inputs, reader.borrowed)


def describe_arguments(
    args: Sequence[object], kwargs: Mapping[str, object], *, objects: Objects
) -> tuple[Argument, ...]:
    """Return the parts of a signature, for display."""
    arguments: list[Argument] = []
    named = [*enumerate(args), *kwargs.items()]
    has_trees = any(list_items(value, objects=objects) is not None for _, value in named)
    # As in `_merge_repeated`, only trees have repeated inputs.
    seen: set[int] | None = set() if has_trees else None
    for root, value in named:
        _describe(value, root, "", arguments, seen, objects)
    return tuple(arguments)


def get_reason(
    new: Sequence[Argument], known: Sequence[tuple[Sequence[Argument], str | None]]
) -> str:
    """Describe the difference between a call and the most similar call that has a plan.

    Args:
        new: its arguments.
        known: the arguments of others, and the change of a Python value that they depend on.
    """
    if not known:
        return "for the first call"
    differences = [
        [*_compare(new, arguments), *([change] if change else [])] for arguments, change in known
    ]
    return "since " + "; ".join(
        # The plan with the fewest differences tells best what to change in the program.
        min(differences, key=len) or ["a tensor that the function holds is another one"]
    )


def find_array(value: object) -> Tensor | None:
    """Return a tensor on the memory of a numpy array; None for anything else."""
    if not is_array(value):
        return None
    import numpy as np

    # On the array's own memory: the plan reads it without a copy.
    return Tensor.from_numpy(np.asarray(value))


class _ArgumentReader:
    """Reads arguments into a key and a list of inputs."""

    __slots__ = ("_inputs", "_key", "_objects", "borrowed", "has_trees")

    def __init__(self, key: list[object], inputs: list[Tensor | UOp], objects: Objects) -> None:
        self._key, self._inputs, self._objects = key, inputs, objects
        self.has_trees = False
        self.borrowed: list[Tensor] = []

    def read(self, value: object) -> None:
        if isinstance(value, Tensor):
            self._inputs.append(value)
            self._key.append(value.content.spec)
            return
        tree = list_items(value, objects=self._objects)
        if tree is not None:
            self.has_trees = True
            kind, items = tree
            self._key += kind
            for item in items:
                self.read(item)
            return
        array = find_array(value)
        if array is not None:
            # The program may write to the array after the call, so no result may share its memory.
            self.borrowed.append(array)
            value = array
        if _is_input(value):
            self._inputs.append(value)
        self._key += _key_of(value)


def _merge_repeated(key: list[object], inputs: list[Tensor | UOp]) -> list[Tensor | UOp]:
    """Return each tensor once; the key gets the order in which they are repeated."""
    index_of: dict[int, int] = {}
    order = [index_of.setdefault(_identify(value), len(index_of)) for value in inputs]
    if len(index_of) == len(inputs):
        return inputs
    # The plan reads a repeated tensor once, so calls with another pattern need another plan.
    key.append(tuple(order))
    return list({_identify(value): value for value in inputs}.values())


def _identify(value: Tensor | UOp) -> int:
    return id(value.content) if isinstance(value, Tensor) else id(value)


def _is_input(value: object) -> TypeGuard[Tensor | UOp]:
    return isinstance(value, Tensor) or (
        isinstance(value, UOp) and next(value.iter_ops(Op.BIND), None) is not None
    )


def _as_tensor(value: object) -> object:
    """Convert a numpy array to a tensor; return any other value unchanged."""
    array = None if isinstance(value, Tensor) else find_array(value)
    return value if array is None else array


def _key_of(value: object) -> tuple[object, ...]:
    return (value.content.spec,) if isinstance(value, Tensor) else key_of(value)


def _describe(
    value: object,
    root: int | str,
    path_in_root: str,
    arguments: list[Argument],
    seen: set[int] | None,
    objects: Objects,
) -> None:
    level = None if isinstance(value, Tensor) else flatten_one_level(value, objects=objects)
    if level is not None:
        text = f"{type(value).__name__} of {', '.join(level.names) or 'nothing'}"
        arguments.append(Argument(root, path_in_root, text, level.kind))
        for name, item in zip(level.names, level.items, strict=True):
            _describe(item, root, f"{path_in_root}{name}", arguments, seen, objects)
        return
    value = _as_tensor(value)
    is_input = _is_input(value) and (seen is None or _identify(value) not in seen)
    if seen is not None and _is_input(value):
        seen.add(_identify(value))
    arguments.append(Argument(root, path_in_root, _show(value), _key_of(value), is_input))


def _show(value: object) -> str:
    match value:
        case Tensor():
            sizes = ", ".join(str(s) if isinstance(s, int) else "symbolic" for s in value.shape)
            return (
                f"{value.dtype} ({sizes}{',' if value.ndim == 1 else ''}) on {_show_device(value)}"
            )
        case UOp() if value.op is Op.BIND:
            name, low, high = value.symbol.arg
            return f"variable {name} from {low} to {high}"
        case None | bool() | int() | float() | str() | bytes() | UOp():
            return repr(value)
        case _:
            return f"this {type(value).__name__}"


def _show_device(tensor: Tensor) -> str:
    sharding = tensor.sharding
    if sharding is None:
        return str(tensor.device)
    devices = " + ".join(sharding.devices)
    return devices if sharding.axis is None else f"{devices} along axis {sharding.axis}"


def _compare(new: Sequence[Argument], old: Sequence[Argument]) -> list[str]:
    before = {argument.path: argument for argument in old}
    differences: list[str] = []
    for argument in new:
        previous = before.pop(argument.path, None)
        if previous is None:
            differences.append(f"{argument.path} is new")
        elif previous.key != argument.key:
            text = previous.text if previous.text != argument.text else "another one"
            differences.append(f"{argument.path} is {argument.text} instead of {text}")
    return [*differences, *(f"{path} is missing" for path in before)]


def name_inputs(
    name: str, arguments: Sequence[Argument], donated: DonatedParameters
) -> list[tuple[str, bool]]:
    """Return the name of each input, and whether it is donated."""
    for root in {
        argument.root for argument in arguments if donated.get_name(argument.root) in donated.names
    }:
        items = [argument for argument in arguments if argument.root == root]
        if not any(item.is_input for item in items):
            raise DonationError(
                function=name,
                argument=donated.get_name(root),
                problem=f"is {items[0].text}, which has no memory",
                hint="donate parameters that are tensors, or lists, tuples and dicts of tensors",
            )
    return [
        (donated.get_name(a.root) + a.path_in_root, donated.get_name(a.root) in donated.names)
        for a in arguments
        if a.is_input
    ]
