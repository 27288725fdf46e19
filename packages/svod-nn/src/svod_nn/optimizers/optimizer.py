"""`Optimizer`: a rule for each parameter, applied to all of them at once, as values or in place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar, cast

from svod_nn._foreign_names import find_optimizer_attribute
from svod_nn._module import Module
from svod_nn._state import load_tensors, place_like
from svod_nn._walk import exchange_leaves
from svod_nn.errors import LayerArgumentError
from svod_nn.optimizers.groups import Group, make_groups
from svod_nn.optimizers.rule import Numbers, Rule, Shared, Slots, SlotsInPlace
from svod_nn.optimizers.tensors import (
    Parameters,
    check_gradient_names,
    check_parameters,
    name_tensors,
    widen,
)
from svod_tensor import Tensor, float64, int32

if TYPE_CHECKING:
    from svod_tensor import DType

__all__ = ["Optimizer", "OptimizerState"]

Tree = TypeVar("Tree")


class OptimizerState(TypedDict):
    """What an optimizer keeps, as nested dicts of tensors.

    Attributes:
        step: the number of steps so far, in int32.
        shared: by the number of the group, what is kept for all its parameters together.
        slots: by the name of the parameter, what is kept for it, by PyTorch's names.

    Example:
        >>> import svod_nn as nn
        >>> from svod_tensor import Tensor
        >>> state = nn.Lion().init({"w": Tensor([1.0, 2.0])})
        >>> state["step"].item(), state["slots"]["w"]["exp_avg"].tolist()
        (0, [0.0, 0.0])
    """

    step: Tensor
    shared: dict[str, Shared]
    slots: dict[str, dict[str, Tensor]]


class Optimizer:
    """Changes parameters along their gradients: `update` does it in place, `init` and `apply` with
    values.

    The gradients are named as the parameters are, and each parameter of floats has one, but those
    of the model that are frozen. Everything is part of the graph, the number of the step and what
    follows from it too: a captured function that computes gradients and calls `update` is one plan,
    and each of its kernels goes through a parameter, its gradient and what is kept for it once.
    Outside of `jit`, nothing is computed before a parameter is read.

    Parameters of 16 bits are changed in float32, which also is the dtype of what is kept for them,
    and rounded once.

    Args:
        parameters: what `update` changes: a module, whose frozen parameters stay out, or nested
            lists and dicts of tensors. None for `init` and `apply` alone. A module whose parameters
            are replaced, unfrozen or added afterwards needs a new optimizer; freezing them is all
            right.
        rule: what is done to each of them.
        groups: other options for some of them: dicts of options, in which `"params"` says which.
            The first that fits counts.

    Raises:
        LayerArgumentError: if there are no parameters, or all are frozen.

    Example:
        >>> import svod_nn as nn
        >>> from svod_tensor import Tensor
        >>> w = Tensor([1.0, 2.0])
        >>> optimizer = nn.SGD({"w": w}, lr=0.5)
        >>> optimizer.update({"w": Tensor([2.0, 2.0])})
        >>> w.tolist()
        [0.0, 1.0]
        >>> optimizer.apply({"w": w}, optimizer.init({"w": w}), {"w": Tensor([0.0, 2.0])})[0]["w"].tolist()
        [0.0, 0.0]
        >>> optimizer.load_state_dict(optimizer.state_dict())
    """

    def __init__(
        self, parameters: Parameters | None, rule: Rule, groups: Sequence[Mapping[str, Any]] = ()
    ) -> None:
        self._rule, self._parameters = rule, parameters if isinstance(parameters, Module) else None
        self._tensors = {} if parameters is None else _name_parameters(rule.name, parameters)
        self._groups = make_groups(self._tensors, rule, groups)
        self._state = self._make_state(self._tensors, self._groups)
        _realize(self._state)

    @property
    def groups(self) -> list[Group]:
        """The parameters that have other options, and behind them the rest."""
        return list(self._groups)

    @property
    def state(self) -> OptimizerState:
        """What is kept for the parameters that `update` changes."""
        return self._state

    def update(self, gradients: object, *, when: Tensor | None = None) -> None:
        """Assign the parameters, and what is kept for them, what they are after a step.

        Args:
            gradients: by the names of the parameters, or nested as these are.
            when: a bool: where it is False, everything stays as it is, the number of the step too.

        Raises:
            GradientNameError: if a gradient belongs to no parameter.
            MissingGradientError: if a parameter has none.
            ParametersChangedError: if the model has other parameters than when the optimizer was
                made.
            LayerArgumentError: if a gradient has another shape than its parameter.
        """
        frozen = check_parameters(type(self).__name__, self._parameters, self._tensors)
        named = _name_gradients(self._rule.name, gradients)
        _check_gradients(self._rule.name, self._tensors, named, frozen)
        slots = {
            name: SlotsInPlace(
                kept, None if when is None else place_like(when, self._tensors[name])
            )
            for name, kept in self._state["slots"].items()
        }
        parameters, shared = self._step(self._tensors, self._groups, self._state, named, slots)
        changes = [(self._tensors[name], value) for name, value in parameters.items()]
        for number, old in self._state["shared"].items():
            changes += [(tensor, shared[number][name]) for name, tensor in old.items()]
        for tensor, value in (*changes, (self._state["step"], self._state["step"] + 1)):
            tensor.assign(value if when is None else place_like(when, tensor).where(value, tensor))

    def init(self, parameters: Parameters) -> OptimizerState:
        """What is kept for these parameters before the first step."""
        tensors = name_tensors(parameters)
        state = self._make_state(tensors, [Group(tuple(tensors), self._rule)])
        _realize(state)
        return state

    def apply(
        self, parameters: Tree, state: OptimizerState, gradients: object
    ) -> tuple[Tree, OptimizerState]:
        """What parameters and the state are after a step, as new values; groups have no part in
        this.

        Args:
            parameters: nested lists, tuples and dicts of tensors.
            state: what `init` or the last step gave.
            gradients: by the names of the parameters, or nested as these are.

        Raises:
            GradientNameError: if a gradient belongs to no parameter.
            MissingGradientError: if a parameter has none.
            LayerArgumentError: if a gradient has another shape than its parameter.
        """
        tensors = name_tensors(cast("Parameters", parameters))
        groups = [Group(tuple(tensors), self._rule)]
        slots = {name: Slots(kept) for name, kept in state["slots"].items()}
        named = _name_gradients(self._rule.name, gradients)
        _check_gradients(self._rule.name, tensors, named)
        changed, shared = self._step(tensors, groups, state, named, slots)
        images = {id(tensor): changed.get(name, tensor) for name, tensor in tensors.items()}
        after: OptimizerState = {
            "step": state["step"] + 1,
            "shared": shared,
            "slots": {name: kept.tensors for name, kept in slots.items()},
        }
        return cast("Tree", exchange_leaves(parameters, Tensor, lambda t: images[id(t)])), after

    def state_dict(self) -> dict[str, Tensor]:
        """All that is kept, under one name each:

        `svod_tensor.save_safetensors` writes it. The options are not in it.
        """
        return _list_tensors(self._state)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from what `state_dict` gave, such as `svod_tensor.load_safetensors` reads.

        Raises:
            StateDictError: if names or shapes differ; nothing is assigned then.
        """
        load_tensors(self._rule.name, self.state_dict(), state)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> object:
            # Comes here for what is not there.
            if (foreign := find_optimizer_attribute(type(self).__name__, name)) is not None:
                raise foreign
            return object.__getattribute__(self, name)

    def _make_state(self, tensors: Mapping[str, Tensor], groups: Sequence[Group]) -> OptimizerState:
        device = _find_device(tensors)
        shared = {
            str(number): {
                name: Tensor.full((), value, dtype=float64, device=device)
                for name, value in found.items()
            }
            for number, group in enumerate(groups)
            if (found := group.rule.make_shared())
        }
        slots = {
            name: group.rule.make_slots(widen(tensors[name]))
            for group in groups
            for name in group.names
        }
        return {
            "step": Tensor.full((), 0, dtype=int32, device=device),
            "shared": shared,
            "slots": {name: found for name, found in slots.items() if found},
        }

    def _step(
        self,
        tensors: Mapping[str, Tensor],
        groups: Sequence[Group],
        state: OptimizerState,
        gradients: Mapping[str, Tensor],
        slots: Mapping[str, Slots],
    ) -> tuple[dict[str, Tensor], dict[str, Shared]]:
        """The parameters that have gradients, and what is kept for all of a group, after a step;
        `slots` have been put.
        """
        changed: dict[str, Tensor] = {}
        shared = dict(state["shared"])
        n_before = state["step"].cast(float64)
        for number, group in enumerate(groups):
            key, rule = str(number), group.rule
            numbers, new = rule.make_numbers(
                n_before + 1, rule.get_rate(n_before), shared.get(key, {})
            )
            if key in shared:
                shared[key] = new
            by_kind: dict[tuple[DType, str | tuple[str, ...]], Numbers] = {}
            for name in group.names:
                if name not in gradients:
                    continue
                wide = widen(tensors[name])
                kind = (wide.dtype, wide.device)
                if kind not in by_kind:
                    # Computed once for all parameters, and not in each of their kernels.
                    by_kind[kind] = {n: _to_number(v, wide) for n, v in numbers.items()}
                gradient = gradients[name].cast(wide.dtype)
                after = rule.change(
                    wide,
                    -gradient if rule.maximize else gradient,
                    slots.get(name, Slots({})),
                    by_kind[kind],
                )
                changed[name] = after.cast(tensors[name].dtype)
        return changed, shared


def _name_parameters(optimizer: str, parameters: Parameters) -> dict[str, Tensor]:
    tensors = name_tensors(parameters)
    if tensors:
        return tensors
    if isinstance(parameters, Module) and any(True for _ in parameters.parameters()):
        problem, hint = (
            "all parameters are frozen",
            "write model.unfreeze(), or unfreeze(name), before",
        )
    else:
        problem = "there are no parameters"
        hint = (
            f"give it a model, as in {optimizer}(model), or tensors; an iterator such as"
            " model.parameters() can be read once"
        )
    raise LayerArgumentError(name=optimizer, problem=problem, hint=hint)


def _name_gradients(optimizer: str, gradients: object) -> dict[str, Tensor]:
    named = name_tensors(gradients)
    # Nested containers without any tensor are gradients of nothing.
    if not named and not isinstance(gradients, (Mapping, Sequence)):
        raise LayerArgumentError(
            name=optimizer,
            problem=f"gradients are of {type(gradients).__name__}, and no tensors",
            hint=(
                "write loss, gradients = svod_nn.value_and_grad(model, loss_function)(x), then"
                " optimizer.update(gradients)"
            ),
        )
    return named


def _check_gradients(
    optimizer: str,
    tensors: Mapping[str, Tensor],
    gradients: Mapping[str, Tensor],
    frozen: frozenset[str] = frozenset(),
) -> None:
    check_gradient_names(optimizer, tensors, gradients, frozen)
    for name, gradient in gradients.items():
        if gradient.shape != tensors[name].shape:
            raise LayerArgumentError(
                name=optimizer,
                problem=(
                    f"the gradient of {name} has shape {gradient.shape}, not {tensors[name].shape}"
                ),
            )


def _to_number(value: float | Tensor, like: Tensor) -> float | Tensor:
    return (
        place_like(value.cast(like.dtype).contiguous(), like)
        if isinstance(value, Tensor)
        else value
    )


def _find_device(tensors: Mapping[str, Tensor]) -> str | None:
    """Where the first parameter is, or its first shard."""
    devices = (t.device for t in tensors.values())
    return next((d if isinstance(d, str) else d[0] for d in devices), None)


def _list_tensors(state: OptimizerState) -> dict[str, Tensor]:
    return name_tensors(state)


def _realize(state: OptimizerState) -> None:
    Tensor.realize_batch(list(_list_tensors(state).values()))
