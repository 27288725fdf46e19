"""Calls with arrays like those of a call before: they are known to be right, and go at once to the plan that computes all outputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from svod_onnx._program import SinglePlan

__all__ = ["PlanCache", "get_spec"]

_MAX_FORMS: Final = 64
_MAX_VALUES: Final = 64


@dataclass(slots=True)
class _Entry:
    """What calls with arrays of one form are computed by.

    Attributes:
        names: the inputs whose values a plan is made for.
        runs: by the bytes of these, what computes all outputs.
    """

    names: tuple[str, ...]
    runs: dict[object, SinglePlan] = field(default_factory=dict[object, SinglePlan])

    def get_values(self, inputs: Mapping[str, Any]) -> object:
        return tuple([inputs[name].tobytes() for name in self.names])


class PlanCache:
    """By the form of their arrays, the calls that were found to be what a model takes."""

    def __init__(self) -> None:
        self._by_form: Final[dict[object, _Entry]] = {}

    def __contains__(self, form: object) -> bool:
        return form in self._by_form

    def find(self, form: object, inputs: Mapping[str, Any]) -> SinglePlan | None:
        """What computes all outputs of these arrays, if one plan does."""
        known = self._by_form.get(form)
        if known is None or not known.runs:
            return None
        return known.runs.get(known.get_values(inputs) if known.names else ())

    def keep(self, form: object, names: tuple[str, ...], inputs: Mapping[str, Any], run: SinglePlan | None) -> None:
        """Let calls with arrays of a form be known, and go to `run` if those that `names` lists have the values of these."""
        by_form = self._by_form
        known = by_form.get(form)
        if known is None or known.names != names:
            if len(by_form) >= _MAX_FORMS:
                by_form.clear()
            known = by_form[form] = _Entry(names)
        if run is not None:
            if len(known.runs) >= _MAX_VALUES:
                known.runs.clear()
            known.runs[known.get_values(inputs)] = run


def get_spec(inputs: Mapping[str, Any]) -> object | None:
    """Names, dtypes and shapes, where all are arrays of numbers."""
    form: list[object] = []
    for name, value in inputs.items():
        if type(value) is not np.ndarray or value.dtype.kind not in "biufc":
            return None
        form += (name, value.dtype, value.shape)
    return tuple(form)
