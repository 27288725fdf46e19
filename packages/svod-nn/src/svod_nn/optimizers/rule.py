"""`Rule`: how an optimizer changes one parameter, as a value with options and pure functions of
tensors.
"""

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
"""A learning rate: a number, a tensor that is read at each step, or a schedule: a function of the
number of steps before.
"""

Numbers: TypeAlias = dict[str, float | Tensor]
"""What is computed once in a step, for all parameters of a group: tensors of one element, or
numbers that no step changes.
"""

Shared: TypeAlias = dict[str, Tensor]
"""What is kept for all parameters of a group together: tensors of one element."""


class Slots:
    """What is kept for a parameter from step to step, by PyTorch's names, as values.

    Args:
        before: the tensors before the step.
    """

    def __init__(self, before: Mapping[str, Tensor]) -> None:
        self.tensors = dict(before)

    def __getitem__(self, name: str) -> Tensor:
        """What is kept under a name now."""
        return self.tensors[name]

    def put(self, name: str, value: Tensor) -> Tensor:
        """Keep a value from now on.

        Returns:
            what the rest of the step is to be computed from.
        """
        self.tensors[name] = value
        return value


class SlotsInPlace(Slots):
    """`Slots` whose tensors are assigned, `when` a bool is true.

    What is computed from them afterwards reads the new elements: if the parameter's change read the
    old ones, neither could be written before the other one was computed where their values depend
    on the parameter too."""

    def __init__(self, before: Mapping[str, Tensor], when: Tensor | None) -> None:
        super().__init__(before)
        self._when = when

    def put(self, name: str, value: Tensor) -> Tensor:
        """Assign a value, and give the tensor."""
        tensor = self.tensors[name]
        return tensor.assign(value if self._when is None else self._when.where(value, tensor))


@dataclass(frozen=True, kw_only=True)
class Rule:
    """The options of an optimizer, and what it does with them.

    A subclass adds its options as fields, and says what it keeps (`make_slots`), what it computes
    once in a step (`make_numbers`) and what becomes of a parameter (`change`).

    Attributes:
        lr: the learning rate.
        maximize: whether to go up along the gradients.

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
    """

    lr: Rate
    maximize: bool = False

    name: ClassVar[str] = "Rule"

    def make_slots(self, parameter: Tensor) -> dict[str, Tensor]:
        """What is kept for a parameter, before the first step."""
        return {}

    def make_shared(self) -> dict[str, float]:
        """Numbers that are kept for all parameters together, before the first step."""
        return {}

    def make_numbers(
        self, count: Tensor, rate: float | Tensor, shared: Shared
    ) -> tuple[Numbers, Shared]:
        """What a step computes once.

        Args:
            count: the number of this step, from 1, in float64.
            rate: the learning rate in this step, a number or in float64.
            shared: the numbers of `make_shared`, in float64.

        Returns:
            the numbers for `change`, and those of `make_shared` after this step.
        """
        return {"rate": rate}, shared

    def change(self, parameter: Tensor, gradient: Tensor, slots: Slots, numbers: Numbers) -> Tensor:
        """The parameter after a step, of tensors in the dtype that the step is computed in; `slots`
        are given what is kept.
        """
        raise NotImplementedError

    def get_rate(self, n_before: Tensor) -> float | Tensor:
        """The learning rate after so many steps: a number, or in the dtype of `n_before`."""
        if isinstance(self.lr, Tensor):
            return self.lr.reshape(()).cast(n_before.dtype)
        return self.lr(n_before).cast(n_before.dtype) if callable(self.lr) else self.lr

    def __post_init__(self) -> None:
        if isinstance(self.lr, (int, float)):
            self.check("lr", self.lr >= 0, "at least 0")

    def check(self, option: str, is_valid: bool, wanted: str) -> None:
        """Refuse an option that is not valid.

        Raises:
            LayerArgumentError: if it is not.
        """
        if not is_valid:
            raise LayerArgumentError(
                name=self.name, problem=f"{option}={getattr(self, option)!r} is not {wanted}"
            )

    def check_not_negative(self, *options: str) -> None:
        """Refuse negative values of these options."""
        for option in options:
            self.check(option, getattr(self, option) >= 0, "at least 0")

    def check_betas(self, betas: tuple[float, float]) -> None:
        """Refuse decays of averages that are none."""
        self.check(
            "betas",
            len(betas) == 2 and all(0 <= b < 1 for b in betas),
            "two numbers from 0 up to but without 1",
        )


def add_decay(gradient: Tensor, parameter: Tensor, weight_decay: float) -> Tensor:
    """The gradient of what is minimised and half of `weight_decay` times the square of the
    parameter.
    """
    return gradient + parameter * weight_decay if weight_decay else gradient


def make_decayed(parameter: Tensor, rate: float | Tensor, weight_decay: float) -> Tensor:
    """The parameter, smaller by `rate * weight_decay` of it."""
    return parameter * (1 - rate * weight_decay) if weight_decay else parameter
