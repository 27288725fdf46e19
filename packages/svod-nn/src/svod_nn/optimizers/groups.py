"""Groups of parameters with options of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeAlias

from svod_nn._module import Module
from svod_nn.errors import LayerArgumentError, ParameterNameError
from svod_nn.optimizers.rule import Rule
from svod_tensor import Tensor

__all__ = ["Group", "Selection", "make_groups"]

Selection: TypeAlias = Module | Tensor | str | Callable[[str, Tensor], bool] | Iterable[Tensor]
"""Some parameters: a module, tensors, the name of what is above them, or a function that is asked
for each.
"""


class Group(NamedTuple):
    """Parameters with one rule.

    Attributes:
        names: of the parameters.
        rule: the options.

    Example:
        >>> import svod_nn as nn
        >>> model = nn.Linear(3, 2)
        >>> optimizer = nn.SGD(model, lr=0.1, groups=[{"params": model.bias, "lr": 0.2}])
        >>> [(group.names, group.rule.lr) for group in optimizer.groups]
        [(('bias',), 0.2), (('weight',), 0.1)]
    """

    names: tuple[str, ...]
    rule: Rule


def make_groups(
    tensors: Mapping[str, Tensor], rule: Rule, groups: Sequence[Mapping[str, Any]]
) -> list[Group]:
    """The parameters by their options: each belongs to the first group that chooses it, or else to
    the last one, which has `rule`.

    Raises:
        LayerArgumentError: if a group does not say for what it is, or has an option that the
            optimizer has not.
        ParameterNameError: if nothing has the name that it chooses.
    """
    left = dict(tensors)
    found: list[Group] = []
    for options in groups:
        if "params" not in options:
            raise LayerArgumentError(
                name=rule.name,
                problem=f"a group of {', '.join(map(repr, options))} does not say for what",
                hint='write {"params": model.head, "lr": 1e-2}',
            )
        is_chosen = _make_choice(options["params"], tensors)
        names = tuple(name for name, tensor in left.items() if is_chosen(name, tensor))
        changes = {name: value for name, value in options.items() if name != "params"}
        unknown = [name for name in changes if not hasattr(rule, name)]
        if unknown:
            raise LayerArgumentError(name=rule.name, problem=f"it has no option {unknown[0]!r}")
        found.append(Group(names, replace(rule, **changes)))
        for name in names:
            del left[name]
    return [*found, Group(tuple(left), rule)]


def _make_choice(
    selection: Selection, tensors: Mapping[str, Tensor]
) -> Callable[[str, Tensor], bool]:
    if isinstance(selection, str):
        prefix = selection
        if not any(_is_below(name, prefix) for name in tensors):
            raise ParameterNameError(name=prefix, known=list(tensors))
        return lambda name, tensor: _is_below(name, prefix)
    if isinstance(selection, Module):
        chosen = {id(tensor) for tensor in selection.parameters()}
    elif isinstance(selection, Tensor):
        chosen = {id(selection)}
    elif callable(selection):
        return selection
    else:
        chosen = {id(tensor) for tensor in selection}
    return lambda name, tensor: id(tensor) in chosen


def _is_below(name: str, prefix: str) -> bool:
    return name == prefix or name.startswith(f"{prefix}.")
