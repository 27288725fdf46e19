"""Parameter groups: groups of parameters with their own options."""

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
"""Selection of parameters: a module, tensors, a name prefix, or a predicate of name and tensor."""


class Group(NamedTuple):
    """Group of parameters with common options.

    Attributes:
        names: names of the parameters.
        rule: rule with the options.

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
    """Assign each parameter to the first group that selects it, or to a last group with `rule`.

    Raises:
        LayerArgumentError: if a group has no "params", or an unknown option.
        ParameterNameError: if a name matches no parameter.
    """
    # A parameter belongs to the first group that selects it, so a general group may follow special
    # ones.
    unassigned = dict(tensors)
    result: list[Group] = []
    for options in groups:
        if "params" not in options:
            raise LayerArgumentError(
                name=rule.name,
                problem=f"a group with the options {', '.join(map(repr, options))} has no 'params'",
                hint='write {"params": model.head, "lr": 1e-2}',
            )
        is_selected = _make_predicate(options["params"], tensors)
        names = tuple(name for name, tensor in unassigned.items() if is_selected(name, tensor))
        changes = {name: value for name, value in options.items() if name != "params"}
        # A misspelled option would otherwise fail in `replace` with an error about a constructor.
        unknown = [name for name in changes if not hasattr(rule, name)]
        if unknown:
            raise LayerArgumentError(name=rule.name, problem=f"unknown option {unknown[0]!r}")
        result.append(Group(names, replace(rule, **changes)))
        for name in names:
            del unassigned[name]
    # The rest comes last, even if it is empty: numbers of groups are keys of the saved state.
    return [*result, Group(tuple(unassigned), rule)]


def _make_predicate(
    selection: Selection, tensors: Mapping[str, Tensor]
) -> Callable[[str, Tensor], bool]:
    if isinstance(selection, str):
        prefix = selection
        # A prefix without parameters is a misspelling, whereas a predicate may well select nothing.
        if not any(_is_below(name, prefix) for name in tensors):
            raise ParameterNameError(name=prefix, known=list(tensors))
        return lambda name, tensor: _is_below(name, prefix)
    if isinstance(selection, Module):
        # By identity, as `==` of tensors is elementwise.
        selected = {id(tensor) for tensor in selection.parameters()}
    elif isinstance(selection, Tensor):
        selected = {id(selection)}
    elif callable(selection):
        return selection
    else:
        selected = {id(tensor) for tensor in selection}
    return lambda name, tensor: id(tensor) in selected


def _is_below(name: str, prefix: str) -> bool:
    # With the dot: "layer1" must not select "layer10".
    return name == prefix or name.startswith(f"{prefix}.")
