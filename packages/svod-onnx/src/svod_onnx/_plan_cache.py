"""Cache of plans by the spec of the input arrays: a later call with an equal spec skips validation
and tracing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from svod_onnx._options import MAX_PLANS
from svod_onnx._stages import SinglePlan

__all__ = ["MAX_SPECS", "PlanCache", "get_spec"]

MAX_SPECS: Final = 512
_MAX_VALUES: Final = 64


@dataclass(slots=True)
class _Entry:
    """Plans of the calls with a spec.

    Attributes:
        names: names of the inputs whose values select the plan.
        plans: plan of all outputs by the values of these inputs.
    """

    names: tuple[str, ...]
    plans: dict[object, SinglePlan] = field(default_factory=dict[object, SinglePlan])

    def get_values(self, inputs: Mapping[str, Any]) -> object:
        """Hashable values of the inputs that select the plan."""
        return tuple([inputs[name].tobytes() for name in self.names])


class PlanCache:
    """Plans by the spec of the input arrays. A spec in the cache has passed validation.

    Args:
        max_plans: maximum number of captured functions that the cache keeps. One with symbolic
            sizes serves many specs.
    """

    def __init__(self, max_plans: int = MAX_PLANS) -> None:
        self._max_plans: Final = max_plans
        self._by_spec: Final[dict[object, _Entry]] = {}
        self._functions: Final[set[object]] = set()

    def __contains__(self, spec: object) -> bool:
        return spec in self._by_spec

    def find(self, spec: object, inputs: Mapping[str, Any]) -> SinglePlan | None:
        """Plan that computes all outputs of these arrays; None if there is no such plan."""
        entry = self._by_spec.get(spec)
        if entry is None or not entry.plans:
            return None
        return entry.plans.get(entry.get_values(inputs) if entry.names else ())

    def add(
        self,
        spec: object,
        names: tuple[str, ...],
        inputs: Mapping[str, Any],
        plan: SinglePlan | None,
    ) -> None:
        """Add a validated spec, and the plan for the values of the inputs in `names`."""
        by_spec, functions = self._by_spec, self._functions
        is_full = (
            plan is not None
            and plan.function not in functions
            and len(functions) >= self._max_plans
        )
        entry = by_spec.get(spec)
        if entry is None or entry.names != names:
            is_full |= len(by_spec) >= MAX_SPECS
        if is_full:
            # Clearing is simpler than eviction; a caller with this many shapes gains little from
            # the cache.
            by_spec.clear()
            functions.clear()
            entry = None
        if entry is None or entry.names != names:
            entry = by_spec[spec] = _Entry(names)
        if plan is not None:
            if len(entry.plans) >= _MAX_VALUES:
                entry.plans.clear()
            functions.add(plan.function)
            entry.plans[entry.get_values(inputs)] = plan


def get_spec(inputs: Mapping[str, Any]) -> object | None:
    """Names, dtypes and shapes of the inputs; None unless all inputs are numeric arrays."""
    spec: list[object] = []
    # Only names, dtypes and shapes: comparing them must be faster than validating the inputs.
    for name, value in inputs.items():
        # Subclasses of ndarray may override indexing; they take the slow path. So do arrays in
        # another byte order, which are converted.
        if (
            type(value) is not np.ndarray
            or value.dtype.kind not in "biufc"
            or not value.dtype.isnative
        ):
            return None
        spec += (name, value.dtype, value.shape)
    return tuple(spec)
