"""`Rule`: the update of one parameter, with its options, as functions of tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from svod_nn.errors import LayerArgumentError
from svod_tensor import Tensor

__all__ = [
    "Numbers",
    "Rate",
    "Rule",
    "Shared",
    "Slots",
    "SlotsInPlace",
    "add_decay",
    "make_decayed",
]

Rate: TypeAlias = float | Tensor | Callable[[Tensor], Tensor]
"""Learning rate: a number, a tensor that is read at each step, or a schedule, which is a function of
the number of completed steps."""

Numbers: TypeAlias = dict[str, float | Tensor]
"""Scalars computed once per step for all parameters of a group: tensors of one element, or
constants."""

Shared: TypeAlias = dict[str, Tensor]
"""State that is common to all parameters of a group: tensors of one element."""


class Slots:
    """State of one parameter, by PyTorch's names, as values.

    Args:
        before: state before the step.
    """

    def __init__(self, before: Mapping[str, Tensor]) -> None:
        self.tensors = dict(before)

    def __getitem__(self, name: str) -> Tensor:
        """Return the current tensor of a name."""
        return self.tensors[name]

    def put(self, name: str, value: Tensor) -> Tensor:
        """Set the new value of a name.

        Returns:
            the tensor to use in the remainder of the step.
        """
        self.tensors[name] = value
        return value


class SlotsInPlace(Slots):
    """`Slots` that assign to their tensors, if the bool tensor `when` is true.

    Later computations of the step read the new values. If the parameter's update read the old ones,
    and the new state depended on the parameter too, neither could be written before the other was
    computed."""

    def __init__(self, before: Mapping[str, Tensor], when: Tensor | None) -> None:
        super().__init__(before)
        self._when = when

    def put(self, name: str, value: Tensor) -> Tensor:
        """Assign a value to the tensor of a name, and return the tensor."""
        tensor = self.tensors[name]
        # The result is the tensor after assignment, so that a rule reads the same value with both
        # kinds of slots.
        return tensor.assign(value if self._when is None else self._when.where(value, tensor))


@dataclass(frozen=True, kw_only=True)
class Rule:
    """Options of an optimizer, and its update of one parameter.

    A subclass adds its options as fields, and defines the state of a parameter (`make_slots`), the
    scalars of a step (`make_numbers`) and the update of a parameter (`change`).

    Attributes:
        lr: learning rate.
        maximize: if True, maximize the objective instead of minimizing it.

    Example:
        >>> import svod_nn as nn
        >>> from svod_tensor import Tensor
        >>> class Signs(nn.Rule):
        ...     def change(self, parameter, gradient, slots, numbers):
        ...         return parameter - gradient.sign() * numbers["rate"]
        >>> w = Tensor([1.0, 2.0])
        >>> nn.Optimizer({"w": w}, Signs(lr=0.5)).update({"w": Tensor([0.1, -7.0])})
        >>> w.tolist()
        [0.5, 2.5]
        >>> from dataclasses import dataclass
        >>> @dataclass(frozen=True)
        ... class Heavy(nn.Rule):
        ...     decay: float = 0.9
        ...     name = "Heavy"
        ...     def __post_init__(self):
        ...         self.check_not_negative("decay")
        ...         self.check_betas((self.decay, 0.0))
        ...         self.check("decay", self.decay < 1, "less than 1")
        ...     def make_slots(self, parameter):
        ...         return {"velocity": parameter * 0}
        ...     def make_shared(self):
        ...         return {"total": 0.0}
        ...     def make_numbers(self, count, rate, shared):
        ...         return {"rate": rate}, {"total": shared["total"] + rate}
        ...     def change(self, parameter, gradient, slots, numbers):
        ...         velocity = slots.put("velocity", slots["velocity"] * self.decay + gradient)
        ...         return parameter - velocity * numbers["rate"]
        >>> heavy = nn.Optimizer({"w": w}, Heavy(lr=0.5))
        >>> for _ in range(2):
        ...     heavy.update({"w": Tensor([1.0, 1.0])})
        >>> [round(x, 3) for x in w.tolist()], Heavy(lr=0.5).get_rate(Tensor(0.0))
        ([-0.95, 1.05], 0.5)

        The rate is a number, a tensor, or a function of the number of steps:

        >>> def take_step(lr: nn.Rate) -> list[float]:
        ...     w = Tensor([1.0, 2.0])
        ...     nn.Optimizer({"w": w}, Signs(lr=lr)).update({"w": Tensor([0.1, -7.0])})
        ...     return w.tolist()
        >>> take_step(Tensor(0.5)) == take_step(nn.schedules.constant(0.5)) == take_step(0.5)
        True
    """

    lr: Rate
    maximize: bool = False

    name: ClassVar[str] = "Rule"

    def make_slots(self, parameter: Tensor) -> dict[str, Tensor]:
        """Return the initial state of a parameter."""
        return {}

    def make_shared(self) -> dict[str, float]:
        """Return the initial state that is common to all parameters of a group."""
        return {}

    def make_numbers(
        self, count: Tensor, rate: float | Tensor, shared: Shared
    ) -> tuple[Numbers, Shared]:
        """Compute the scalars of a step, once for all parameters of a group.

        Args:
            count: index of this step, from 1, in float64.
            rate: learning rate of this step, a number or a tensor of float64.
            shared: state of `make_shared`, in float64.

        Returns:
            the scalars for `change`, and the new state of `make_shared`.
        """
        return {"rate": rate}, shared

    def change(self, parameter: Tensor, gradient: Tensor, slots: Slots, numbers: Numbers) -> Tensor:
        """Return the updated parameter, and write its new state to `slots`.

        Args:
            parameter: parameter in the dtype of the computation, at least float32.
            gradient: gradient in the same dtype.
            slots: state of the parameter.
            numbers: result of `make_numbers`.
        """
        raise NotImplementedError

    def get_rate(self, n_before: Tensor) -> float | Tensor:
        """Return the learning rate after `n_before` steps: a number, or a tensor of its dtype."""
        if isinstance(self.lr, Tensor):
            # Read in each step and not copied: assigning to the tensor changes the rate of a
            # compiled step.
            return self.lr.reshape(()).cast(n_before.dtype)
        return self.lr(n_before).cast(n_before.dtype) if callable(self.lr) else self.lr

    def __post_init__(self) -> None:
        if isinstance(self.lr, (int, float)):
            # Only numbers: a tensor or schedule has no value until the step.
            self.check("lr", self.lr >= 0, "at least 0")

    def check(self, option: str, is_valid: bool, expected: str) -> None:
        """Check that an option is valid.

        Args:
            option: name of the option.
            is_valid: condition that must hold.
            expected: description of valid values, for the error.

        Raises:
            LayerArgumentError: if `is_valid` is False.
        """
        if not is_valid:
            value = getattr(self, option)
            raise LayerArgumentError(
                name=self.name, problem=f"{option}={value!r} is not {expected}"
            )

    def check_not_negative(self, *options: str) -> None:
        """Check that options are not negative.

        Args:
            options: names of options.

        Raises:
            LayerArgumentError: if one is negative.
        """
        for option in options:
            self.check(option, getattr(self, option) >= 0, "at least 0")

    def check_betas(self, betas: tuple[float, float]) -> None:
        """Check that `betas` are two decay rates in [0, 1).

        Raises:
            LayerArgumentError: if not.
        """
        self.check(
            "betas",
            # A beta of 1 never forgets the zeros at the start, and its correction divides by 0.
            len(betas) == 2 and all(0 <= b < 1 for b in betas),
            "two numbers in [0, 1)",
        )


def add_decay(gradient: Tensor, parameter: Tensor, weight_decay: float) -> Tensor:
    """Add the gradient of the L2 penalty `weight_decay * parameter ** 2 / 2` to a gradient."""
    # Without decay no term is added, which would cost a read and make NaN of an infinite parameter.
    return gradient + parameter * weight_decay if weight_decay else gradient


def make_decayed(parameter: Tensor, rate: float | Tensor, weight_decay: float) -> Tensor:
    """Apply decoupled weight decay: multiply a parameter by `1 - rate * weight_decay`."""
    # One product with a scalar, which is computed once, instead of two with the parameter.
    return parameter * (1 - rate * weight_decay) if weight_decay else parameter
