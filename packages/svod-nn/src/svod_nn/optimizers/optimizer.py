"""`Optimizer`: applies a `Rule` to all parameters, in place or as a pure function of values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar, cast

from svod_nn._foreign_names import find_optimizer_attribute
from svod_nn._module import Module
from svod_nn._state import load_tensors, move_like
from svod_nn._walk import map_leaves
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
    """State of an optimizer, as nested dicts of tensors.

    Attributes:
        step: number of completed steps, in int32.
        shared: state that is common to the parameters of a group, by group index.
        slots: state of each parameter, by parameter name and PyTorch's name of the state.

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
    """Base class of optimizers: updates parameters along their gradients.

    `update` works in place; `init` and `apply` are pure functions of values. Gradients have the
    names of their parameters, and each floating-point parameter that is not frozen needs one. All
    of a step is part of the graph, including the step count and what depends on it: a captured
    function that computes gradients and calls `update` is one plan, and each kernel reads a
    parameter, its gradient and its state once. Outside of `jit`, a step is computed when a
    parameter is read.

    Parameters of 16 bits are updated in float32, the dtype of their state, and rounded once.

    Args:
        parameters: parameters for `update`: a module, without its frozen parameters, or nested
            lists and dicts of tensors; None to use only `init` and `apply`. Create a new optimizer
            if parameters of the module are replaced, unfrozen or added; they may be frozen.
        rule: update rule, with its options.
        groups: options for groups of parameters: dicts of options whose `"params"` selects the
            parameters by a module, tensors, a name prefix, or a predicate of name and tensor. A
            parameter belongs to the first group that selects it.

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
        # Made now rather than in the first step: a compiled step must find all its state.
        self._state = self._make_state(self._tensors, self._groups)
        _realize(self._state)

    @property
    def groups(self) -> list[Group]:
        """Parameter groups; the last one has the parameters without options of their own."""
        return list(self._groups)

    @property
    def state(self) -> OptimizerState:
        """State of the parameters that `update` changes."""
        return self._state

    def update(self, gradients: object, *, when: Tensor | None = None) -> None:
        """Perform one step: update the parameters and their state in place.

        Args:
            gradients: gradients by parameter name, or nested like the parameters.
            when: 0-d bool tensor; if it is False, nothing changes, including the step count.

        Raises:
            GradientNameError: if a gradient has no parameter.
            MissingGradientError: if a parameter has no gradient.
            ParametersChangedError: if the model's parameters have changed since the optimizer was
                created.
            LayerArgumentError: if the shapes of a gradient and its parameter differ.
        """
        # Per step, since the module may have changed after the optimizer was made.
        frozen = check_parameters(type(self).__name__, self._parameters, self._tensors)
        named = _name_gradients(self._rule.name, gradients)
        _check_gradients(self._rule.name, self._tensors, named, frozen)
        slots = {
            name: SlotsInPlace(kept, None if when is None else move_like(when, self._tensors[name]))
            for name, kept in self._state["slots"].items()
        }
        parameters, shared = self._step(self._tensors, self._groups, self._state, named, slots)
        changes = [(self._tensors[name], value) for name, value in parameters.items()]
        for group, old in self._state["shared"].items():
            changes += [(tensor, shared[group][name]) for name, tensor in old.items()]
        for tensor, value in (*changes, (self._state["step"], self._state["step"] + 1)):
            # A choice of values and not a branch in Python: `when` is not known until the step is
            # computed.
            tensor.assign(value if when is None else move_like(when, tensor).where(value, tensor))

    def init(self, parameters: Parameters) -> OptimizerState:
        """Return the initial state of these parameters."""
        tensors = name_tensors(parameters)
        state = self._make_state(tensors, [Group(tuple(tensors), self._rule)])
        _realize(state)
        return state

    def apply(
        self, parameters: Tree, state: OptimizerState, gradients: object
    ) -> tuple[Tree, OptimizerState]:
        """Perform one step as a pure function; parameter groups are not applied.

        Args:
            parameters: nested lists, tuples and dicts of tensors.
            state: state returned by `init` or the previous step.
            gradients: gradients by parameter name, or nested like the parameters.

        Returns:
            the new parameters, nested likewise, and the new state.

        Raises:
            GradientNameError: if a gradient has no parameter.
            MissingGradientError: if a parameter has no gradient.
            LayerArgumentError: if the shapes of a gradient and its parameter differ.
        """
        tensors = name_tensors(cast("Parameters", parameters))
        # The groups of the constructor name tensors that `apply` does not get.
        groups = [Group(tuple(tensors), self._rule)]
        slots = {name: Slots(kept) for name, kept in state["slots"].items()}
        named = _name_gradients(self._rule.name, gradients)
        _check_gradients(self._rule.name, tensors, named)
        changed, shared = self._step(tensors, groups, state, named, slots)
        # By identity, as the tree is walked again without names.
        results = {id(tensor): changed.get(name, tensor) for name, tensor in tensors.items()}
        new_state: OptimizerState = {
            "step": state["step"] + 1,
            "shared": shared,
            "slots": {name: kept.tensors for name, kept in slots.items()},
        }
        return cast("Tree", map_leaves(parameters, Tensor, lambda t: results[id(t)])), new_state

    def state_dict(self) -> dict[str, Tensor]:
        """Return the state as a flat dict of tensors, without the options.

        Write it to a file with `svod_tensor.save_safetensors`.
        """
        return _list_tensors(self._state)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore a state returned by `state_dict`, or read by `svod_tensor.load_safetensors`.

        Raises:
            StateDictError: if names or shapes differ; no tensor is assigned then.
        """
        load_tensors(self._rule.name, self.state_dict(), state)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> object:
            # Called only after the normal lookup has failed.
            if (foreign := find_optimizer_attribute(type(self).__name__, name)) is not None:
                raise foreign
            return object.__getattribute__(self, name)

    def _make_state(self, tensors: Mapping[str, Tensor], groups: Sequence[Group]) -> OptimizerState:
        device = _find_device(tensors)
        shared = {
            str(index): {
                name: Tensor.full((), value, dtype=float64, device=device)
                for name, value in initial.items()
            }
            for index, group in enumerate(groups)
            if (initial := group.rule.make_shared())
        }
        slots = {
            name: group.rule.make_slots(widen(tensors[name]))
            for group in groups
            for name in group.names
        }
        return {
            # An integer: a count in float32 stands still after 2**24 steps.
            "step": Tensor.full((), 0, dtype=int32, device=device),
            "shared": shared,
            "slots": {name: tensors for name, tensors in slots.items() if tensors},
        }

    def _step(
        self,
        tensors: Mapping[str, Tensor],
        groups: Sequence[Group],
        state: OptimizerState,
        gradients: Mapping[str, Tensor],
        slots: Mapping[str, Slots],
    ) -> tuple[dict[str, Tensor], dict[str, Shared]]:
        """Compute the parameters with gradients and the shared state after a step.

        The state of each parameter is written to `slots`.
        """
        changed: dict[str, Tensor] = {}
        shared = dict(state["shared"])
        # In float64, because 1 - beta**count loses digits in the first steps for a beta near 1.
        n_before = state["step"].cast(float64)
        for index, group in enumerate(groups):
            key, rule = str(index), group.rule
            numbers, new = rule.make_numbers(
                n_before + 1, rule.get_rate(n_before), shared.get(key, {})
            )
            if key in shared:
                shared[key] = new
            by_kind: dict[tuple[DType, str | tuple[str, ...]], Numbers] = {}
            for name in group.names:
                # Frozen parameters and integers have no gradient, and keep their slots for later.
                if name not in gradients:
                    continue
                # Slots and arithmetic are in float32: squares of small gradients underflow in
                # float16.
                wide = widen(tensors[name])
                kind = (wide.dtype, wide.device)
                if kind not in by_kind:
                    # Materialized once for all parameters; fused, they would be recomputed in the
                    # kernel of each.
                    by_kind[kind] = {n: _to_number(v, wide) for n, v in numbers.items()}
                gradient = gradients[name].cast(wide.dtype)
                after = rule.change(
                    wide,
                    # Negated before the rule, so that decay still shrinks the parameters.
                    -gradient if rule.maximize else gradient,
                    slots.get(name, Slots({})),
                    by_kind[kind],
                )
                changed[name] = after.cast(tensors[name].dtype)
        return changed, shared


def _name_parameters(optimizer: str, parameters: Parameters) -> dict[str, Tensor]:
    tensors = name_tensors(parameters)
    # Without parameters, the optimizer would silently do nothing.
    if tensors:
        return tensors
    if isinstance(parameters, Module) and any(True for _ in parameters.parameters()):
        problem, hint = (
            "all parameters are frozen",
            "call model.unfreeze() or model.unfreeze(name) first",
        )
    else:
        problem = "got an empty parameter list"
        hint = (
            f"pass the model, as in {optimizer}(model), or tensors; an iterator such as"
            " model.parameters() can be read only once"
        )
    raise LayerArgumentError(name=optimizer, problem=problem, hint=hint)


def _name_gradients(optimizer: str, gradients: object) -> dict[str, Tensor]:
    named = name_tensors(gradients)
    # An empty container is valid: it has no gradients.
    if not named and not isinstance(gradients, (Mapping, Sequence)):
        raise LayerArgumentError(
            name=optimizer,
            problem=f"gradients must be tensors, got {type(gradients).__name__}",
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
        # A gradient that broadcasts would give a result, and a wrong one.
        if gradient.shape != tensors[name].shape:
            raise LayerArgumentError(
                name=optimizer,
                problem=(
                    f"gradient of {name}: expected shape {tensors[name].shape}, got"
                    f" {gradient.shape}"
                ),
            )


def _to_number(value: float | Tensor, like: Tensor) -> float | Tensor:
    return (
        move_like(value.cast(like.dtype).contiguous(), like) if isinstance(value, Tensor) else value
    )


def _find_device(tensors: Mapping[str, Tensor]) -> str | None:
    """Return the device of the first parameter, or of its first shard."""
    devices = (t.device for t in tensors.values())
    # Scalars are moved to the other devices when a parameter there needs them.
    return next((d if isinstance(d, str) else d[0] for d in devices), None)


def _list_tensors(state: OptimizerState) -> dict[str, Tensor]:
    return name_tensors(state)


def _realize(state: OptimizerState) -> None:
    Tensor.realize_batch(list(_list_tensors(state).values()))
