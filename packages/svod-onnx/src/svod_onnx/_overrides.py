"""Models for calls that pass inputs with an initializer as their default.

Weights are folded into the program, so each set of passed names has a program of its own, in which
these names are inputs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Final, Generic, TypeVar

from svod_onnx._reading import ModelFile

__all__ = ["Overrides"]

_M = TypeVar("_M")


class Overrides(Generic[_M]):
    """Models by the names of the inputs whose default a call overrides.

    Args:
        file: content of the model's file.
        make: function that makes a model from a file in which overridden inputs have no default.
    """

    def __init__(self, file: ModelFile, make: Callable[[ModelFile], _M]) -> None:
        self._file: Final = file
        self._make: Final = make
        self._names: Final = frozenset(info.name for info in file.graph.overridable)
        self._lock: Final = threading.Lock()
        self._models: Final[dict[frozenset[str], _M]] = {}

    def find(self, inputs: Mapping[str, Any], default: _M) -> tuple[_M, dict[str, Any]] | None:
        """Model for a call that names overridable inputs, and the inputs that it takes; None if the
        call names none of them.

        Args:
            inputs: inputs of the call; None stands for the initializer.
            default: model without overridden inputs.
        """
        if self._names.isdisjoint(inputs):
            return None
        given = {
            name: value
            for name, value in inputs.items()
            if value is not None or name not in self._names
        }
        names = self._names.intersection(given)
        if not names:
            return default, given
        # Making a model folds its weights, which two threads should not do for the same names.
        with self._lock:
            model = self._models.get(names)
            if model is None:
                graph = self._file.graph.override(names)
                model = self._models[names] = self._make(replace(self._file, graph=graph))
        return model, given

    def list_models(self) -> Iterable[_M]:
        """Models of all calls so far."""
        with self._lock:
            return list(self._models.values())
