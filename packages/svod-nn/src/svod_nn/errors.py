"""The errors of svod-nn.

UserError
├── StateDictError (ValueError)           state whose names or shapes differ from the module's
├── ParameterNameError (LookupError)      name that matches no parameter
├── GradientNameError (LookupError)       gradients without a parameter in the optimizer
├── MissingGradientError (LookupError)    parameters of the optimizer without gradients
├── ParametersChangedError (RuntimeError) model whose parameters changed under its optimizer
├── EmptyParameterError (RuntimeError)    parameter that is read before it was loaded
├── LayerArgumentError (ValueError)       invalid arguments of a layer, loss or optimizer
└── RunError (ValueError)                 file that does not hold the state of this run
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches

from svod_tensor.errors import UserError

__all__ = [
    "EmptyParameterError",
    "GradientNameError",
    "LayerArgumentError",
    "MissingGradientError",
    "ParameterNameError",
    "ParametersChangedError",
    "RunError",
    "StateDictError",
]

# A state of a large model may differ in hundreds of names: list enough to recognize the reason.
_N_SHOWN = 8


class StateDictError(UserError, ValueError):
    """State whose names or shapes differ from the module, optimizer or average.

    Attributes:
        missing: names of the module that the state lacks.
        unexpected: names of the state that the module lacks.
        shapes: expected and actual shape of each tensor whose shapes differ, by name.
    """

    def __init__(
        self,
        *,
        module: str,
        missing: Sequence[str],
        unexpected: Sequence[str],
        shapes: Mapping[str, tuple[tuple[object, ...], tuple[object, ...]]],
    ) -> None:
        self.missing, self.unexpected, self.shapes = tuple(missing), tuple(unexpected), dict(shapes)
        notes = [f"missing keys: {_list_names(missing)}"] if missing else []
        notes += [f"unexpected keys: {_list_names(unexpected)}"] if unexpected else []
        notes += [
            f"size mismatch for {name}: expected {expected}, got {actual}"
            for name, (expected, actual) in list(shapes.items())[:_N_SHOWN]
        ]
        notes += (
            [f"size mismatch for {len(shapes) - _N_SHOWN} more"] if len(shapes) > _N_SHOWN else []
        )
        hint = (
            None
            if shapes
            else "write load_state_dict(..., strict=False) to ignore missing and unexpected keys"
        )
        super().__init__(f"error loading the state of {module}", notes=tuple(notes), hint=hint)


class ParameterNameError(UserError, LookupError):
    """Name that matches no parameter, and no module or list with parameters."""

    def __init__(self, *, name: str, known: Sequence[str]) -> None:
        self.name = name
        near = get_close_matches(name, known, n=3) or list(known)
        super().__init__(
            f"no parameter matches {name!r}", notes=(f"known parameters: {_list_names(near)}",)
        )


class GradientNameError(UserError, LookupError):
    """Gradients without a parameter in the optimizer.

    Attributes:
        names: names of the gradients.
    """

    def __init__(self, *, optimizer: str, names: Sequence[str], known: Sequence[str]) -> None:
        self.names = tuple(names)
        super().__init__(
            f"{optimizer} has no parameter for the gradients of {_list_names(names)}",
            notes=(f"its parameters: {_list_names(known)}",),
            hint=(
                "create the optimizer from the model, as in AdamW(model), and call update with the"
                " gradients that value_and_grad of this model returns"
            ),
        )


class MissingGradientError(UserError, LookupError):
    """Parameters of the optimizer without gradients.

    Attributes:
        names: names of the parameters.
    """

    def __init__(self, *, optimizer: str, names: Sequence[str]) -> None:
        self.names = tuple(names)
        super().__init__(
            f"{optimizer} has no gradients for the parameters {_list_names(names)}",
            hint=(
                f"freeze parameters that are not trained, as in model.freeze({names[0]!r}), or"
                f" create {optimizer} without them"
            ),
        )


class ParametersChangedError(UserError, RuntimeError):
    """Model whose parameters have changed since its optimizer or average was created.

    Attributes:
        replaced: names of parameters that have been replaced by other tensors.
        added: names of parameters that are new or have been unfrozen.
        removed: names of parameters that the model no longer has.
    """

    def __init__(
        self,
        *,
        owner: str,
        replaced: Sequence[str] = (),
        added: Sequence[str] = (),
        removed: Sequence[str] = (),
    ) -> None:
        self.replaced, self.added, self.removed = tuple(replaced), tuple(added), tuple(removed)
        notes = [f"replaced by other tensors: {_list_names(replaced)}"] if replaced else []
        notes += [f"new or no longer frozen: {_list_names(added)}"] if added else []
        notes += [f"no longer in the model: {_list_names(removed)}"] if removed else []
        super().__init__(
            f"{owner}: the parameters of the model have changed since it was created",
            notes=tuple(notes),
            hint=(
                "cast, move, shard, unfreeze and replace layers before, or create a new one:"
                f" {owner}(model, ...)"
            ),
        )


class EmptyParameterError(UserError, RuntimeError):
    """Parameter of a model built in `init_empty_weights` that is read before it was loaded.

    Attributes:
        shape: shape of the parameter.
    """

    def __init__(self, *, shape: Sequence[int]) -> None:
        self.shape = tuple(shape)
        super().__init__(
            f"a parameter of shape {self.shape} has no values: it was created in"
            " init_empty_weights() and never loaded",
            hint=(
                "call model.load_state_dict(state) first, or create the model outside of"
                " init_empty_weights()"
            ),
        )


class LayerArgumentError(UserError, ValueError):
    """Invalid arguments of a layer, loss, metric or optimizer.

    Attributes:
        name: name of the layer, loss, metric or optimizer.
    """

    def __init__(self, *, name: str, problem: str, hint: str | None = None) -> None:
        self.name = self.operation = name
        super().__init__(f"{name}: {problem}", hint=hint)


class RunError(UserError, ValueError):
    """File that does not hold the state of this run, or part of a run without a state.

    Attributes:
        path: path of the file, or name of the part.
    """

    def __init__(self, *, path: object, problem: str, hint: str | None = None) -> None:
        self.path = path
        super().__init__(f"{path} {problem}", hint=hint)


def _list_names(names: Sequence[str]) -> str:
    more = f", and {len(names) - _N_SHOWN} more" if len(names) > _N_SHOWN else ""
    return ", ".join(name or "(unnamed tensor)" for name in names[:_N_SHOWN]) + more
