"""What a captured function's plan depends on: everything about its arguments but the values of tensors and variables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias, TypeGuard, cast

from svod_ir import Op, UOp
from svod_ir.sizes import unbind
from svod_tensor.capture.nested import list_items, take_apart
from svod_tensor.tensor import Tensor

__all__ = [
    "Argument",
    "Signature",
    "describe_arguments",
    "find_array",
    "get_reason",
    "is_plain",
    "key_of",
    "read_arguments",
]


Signature: TypeAlias = tuple[tuple[object, ...], Sequence[Tensor | UOp]]


class Argument(NamedTuple):
    """An argument, or a part of one, for people.

    Attributes:
        root: position or name of the whole argument.
        place: of the part in it, as it is written in Python.
        text: what it is.
        key: what of it is part of the signature.
        is_input: whether it is a tensor or a bound variable.
    """

    root: int | str
    place: str
    text: str
    key: tuple[object, ...]
    is_input: bool = False

    @property
    def path(self) -> str:
        return f"args[{self.root}]{self.place}" if isinstance(self.root, int) else f"{self.root}{self.place}"


def read_arguments(args: Sequence[object], kwargs: Mapping[str, object]) -> Signature:
    """The signature of a call. Every call of a captured function comes through here.

    Returns:
        what is equal for calls that one plan serves; tensors and bound variables, in order.
    """
    key: list[object] = [len(args)]
    inputs: list[Tensor | UOp] = []
    for value in args:
        if isinstance(value, Tensor):
            inputs.append(value)
            key.append(value.content.form)
        else:
            _read(value, key, inputs)
    for name, value in kwargs.items():
        key.append(name)
        _read(value, key, inputs)
    return tuple(key), inputs


def describe_arguments(args: Sequence[object], kwargs: Mapping[str, object]) -> tuple[Argument, ...]:
    """The parts of a signature, for people."""
    found: list[Argument] = []
    for number, value in enumerate(args):
        _describe(value, number, "", found)
    for name, value in kwargs.items():
        _describe(value, name, "", found)
    return tuple(found)


def get_reason(new: Sequence[Argument], known: Sequence[tuple[Sequence[Argument], str | None]]) -> str:
    """What is new about a call, against the one of those known that is most like it.

    Args:
        new: its arguments.
        known: the arguments of others, and how a Python value has changed that they depend on.
    """
    if not known:
        return "for the first call"
    differences = [[*_compare(new, other), *([change] if change else [])] for other, change in known]
    return "since " + "; ".join(min(differences, key=len) or ["a tensor that the function holds is another one"])


def find_array(value: object) -> Tensor | None:
    """A tensor on the memory of a numpy array; None for anything else."""
    if not hasattr(value, "__array_interface__"):
        return None
    import numpy as np

    return Tensor.from_numpy(np.asarray(value))


class _ById:
    """An object of which nothing is known: the same only as itself, and kept so that nothing takes its place."""

    __slots__ = ("value",)

    def __init__(self, value: object) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ById) and self.value is other.value

    def __hash__(self) -> int:
        return id(self.value)


def _read(value: object, key: list[object], inputs: list[Tensor | UOp]) -> None:
    if isinstance(value, Tensor):
        inputs.append(value)
        key.append(value.content.form)
        return
    found = list_items(value)
    if found is not None:
        kind, items = found
        key += kind
        for item in items:
            _read(item, key, inputs)
        return
    value = _as_tensor(value)
    if _is_input(value):
        inputs.append(value)
    key += key_of(value)


def is_plain(value: object) -> bool:
    """Whether a value is a number, a text or nothing, or some of these, which are compared by value."""
    if isinstance(value, (tuple, frozenset)):
        return all(map(is_plain, cast("Iterable[object]", value)))
    return isinstance(value, (int, float, str, bytes, type(None)))


def _is_input(value: object) -> TypeGuard[Tensor | UOp]:
    return isinstance(value, Tensor) or (isinstance(value, UOp) and next(value.iter_ops(Op.BIND), None) is not None)


def _as_tensor(value: object) -> object:
    """A numpy array as a tensor, anything else as it is."""
    array = None if isinstance(value, Tensor) else find_array(value)
    return value if array is None else array


def key_of(value: object) -> tuple[object, ...]:
    """What of a value that is no container belongs to the signature."""
    match value:
        case Tensor():
            return (value.content.form,)
        case UOp():
            return (unbind(value),)
        case float():
            # 0.0 == -0.0, but they are different constants.
            return (float, value.hex())
        case None | bool() | int() | str() | bytes():
            return (type(value), value)
        case _:
            if is_plain(value):
                keys = map(key_of, cast("Iterable[object]", value))
                return (tuple, *keys) if isinstance(value, tuple) else (frozenset, frozenset(keys))
            return (_ById(value),)


def _describe(value: object, root: int | str, place: str, found: list[Argument]) -> None:
    parts = None if isinstance(value, Tensor) else take_apart(value)
    if parts is not None:
        text = f"{type(value).__name__} of {', '.join(parts.names) or 'nothing'}"
        found.append(Argument(root, place, text, parts.kind))
        for name, item in zip(parts.names, parts.items, strict=True):
            _describe(item, root, f"{place}{name}", found)
        return
    value = _as_tensor(value)
    found.append(Argument(root, place, _show(value), key_of(value), _is_input(value)))


def _show(value: object) -> str:
    match value:
        case Tensor():
            sizes = ", ".join(str(s) if isinstance(s, int) else "symbolic" for s in value.shape)
            return f"{value.dtype} ({sizes}{',' if value.ndim == 1 else ''}) on {_show_place(value)}"
        case UOp() if value.op is Op.BIND:
            name, low, high = value.symbol.arg
            return f"variable {name} from {low} to {high}"
        case None | bool() | int() | float() | str() | bytes() | UOp():
            return repr(value)
        case _:
            return f"this {type(value).__name__}"


def _show_place(tensor: Tensor) -> str:
    sharding = tensor.sharding
    if sharding is None:
        return str(tensor.device)
    devices = " + ".join(sharding.devices)
    return devices if sharding.axis is None else f"{devices} along axis {sharding.axis}"


def _compare(new: Sequence[Argument], old: Sequence[Argument]) -> list[str]:
    before = {argument.path: argument for argument in old}
    found: list[str] = []
    for argument in new:
        other = before.pop(argument.path, None)
        if other is None:
            found.append(f"{argument.path} is new")
        elif other.key != argument.key:
            text = other.text if other.text != argument.text else "another one"
            found.append(f"{argument.path} is {argument.text} instead of {text}")
    return [*found, *(f"{path} is missing" for path in before)]
