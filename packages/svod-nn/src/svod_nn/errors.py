"""The errors of svod-nn.

UserError
├── StateDictError (ValueError)           tensors that do not fit the parameters and buffers of a module
├── ParameterNameError (LookupError)      a name that no parameter has or begins with
├── GradientNameError (LookupError)       gradients that belong to no parameter of the optimizer
├── MissingGradientError (LookupError)    parameters of the optimizer without gradients
├── ParametersChangedError (RuntimeError) a model whose parameters are others than when the
optimizer was made
├── EmptyParameterError (RuntimeError)    a parameter that is read before it was loaded
├── LayerArgumentError (ValueError)       arguments that no layer, loss or optimizer can be made of
└── RunError (ValueError)                 a file that is not the state of this run
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

_N_SHOWN = 8


class StateDictError(UserError, ValueError):
    """Tensors that do not fit the parameters and buffers of a module.

    Attributes:
        missing: what the module has and the mapping has not.
        unexpected: what the mapping has and the module has not.
        shapes: by name, the shape that the module has and the one that was given.
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
        notes = [f"missing: {_list_names(missing)}"] if missing else []
        notes += [f"unexpected: {_list_names(unexpected)}"] if unexpected else []
        notes += [
            f"{name} has shape {found}, not {wanted}"
            for name, (wanted, found) in list(shapes.items())[:_N_SHOWN]
        ]
        notes += (
            [f"{len(shapes) - _N_SHOWN} more have other shapes"] if len(shapes) > _N_SHOWN else []
        )
        hint = (
            None
            if shapes
            else "load_state_dict(..., strict=False) leaves out what is missing or unexpected"
        )
        super().__init__(f"the state does not fit {module}", notes=tuple(notes), hint=hint)


class ParameterNameError(UserError, LookupError):
    """A name that no parameter has or begins with."""

    def __init__(self, *, name: str, known: Sequence[str]) -> None:
        self.name = name
        near = get_close_matches(name, known, n=3) or list(known)
        super().__init__(
            f"no parameter is named {name!r} or lies below it",
            notes=(f"there are: {_list_names(near)}",),
        )


class GradientNameError(UserError, LookupError):
    """Gradients that belong to no parameter of the optimizer.

    Attributes:
        names: of the gradients.
    """

    def __init__(self, *, optimizer: str, names: Sequence[str], known: Sequence[str]) -> None:
        self.names = tuple(names)
        super().__init__(
            f"{optimizer} has no parameter for the gradients of {_list_names(names)}",
            notes=(f"its parameters are: {_list_names(known)}",),
            hint=(
                "give the optimizer the model itself, as in AdamW(model), and update with what"
                " value_and_grad of this model gave"
            ),
        )


class MissingGradientError(UserError, LookupError):
    """Parameters of the optimizer without gradients.

    Attributes:
        names: of the parameters.
    """

    def __init__(self, *, optimizer: str, names: Sequence[str]) -> None:
        self.names = tuple(names)
        super().__init__(
            f"{optimizer} has no gradients for the parameters {_list_names(names)}",
            hint=(
                f"freeze parameters that are not trained, as in model.freeze({names[0]!r}), or make"
                f" {optimizer} of the others"
            ),
        )


class ParametersChangedError(UserError, RuntimeError):
    """A model whose parameters are others than when the optimizer, or the average, was made.

    Attributes:
        replaced: the parameters that are other tensors now.
        added: the parameters that are new or were frozen before.
        removed: the parameters that the model no longer has.
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
            f"{owner}: the parameters of the model have changed since it was made",
            notes=tuple(notes),
            hint=(
                "call cast, to, shard and unfreeze, and exchange layers, before; or make a new one"
                f" now: {owner}(model, ...)"
            ),
        )


class EmptyParameterError(UserError, RuntimeError):
    """A parameter without values, of a model that was made in `init_empty_weights`, which is read
    before it was loaded.

    Attributes:
        shape: of the parameter.
    """

    def __init__(self, *, shape: Sequence[int]) -> None:
        self.shape = tuple(shape)
        super().__init__(
            f"a parameter of shape {self.shape} has no values: it was made in init_empty_weights()"
            " and never loaded",
            hint=(
                "call model.load_state_dict(state) first, or make the model outside of"
                " init_empty_weights()"
            ),
        )


class LayerArgumentError(UserError, ValueError):
    """Arguments that no layer, loss or optimizer can be made of, or cannot be called with.

    Attributes:
        name: of the layer, loss or optimizer.
    """

    def __init__(self, *, name: str, problem: str, hint: str | None = None) -> None:
        self.name = name
        super().__init__(f"{name}: {problem}", hint=hint)


class RunError(UserError, ValueError):
    """A file, or a part of a run, that does not have the state that is asked for.

    Attributes:
        path: of the file, or the name of the part.
    """

    def __init__(self, *, path: object, problem: str, hint: str | None = None) -> None:
        self.path = path
        super().__init__(f"{path} {problem}", hint=hint)


def _list_names(names: Sequence[str]) -> str:
    more = f", and {len(names) - _N_SHOWN} more" if len(names) > _N_SHOWN else ""
    return ", ".join(name or "(a tensor without a name)" for name in names[:_N_SHOWN]) + more
