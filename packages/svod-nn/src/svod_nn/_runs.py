"""A training run in one file: everything that a run which was ended needs to go on as if it had not
been.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any, Final, Protocol, TypeAlias, cast

from svod_nn.errors import RunError
from svod_tensor import (
    Generator,
    Tensor,
    load_safetensors,
    read_safetensors_metadata,
    save_safetensors,
)

__all__ = ["Part", "Stateful", "load_run", "save_run"]

_KEY: Final = "svod_nn.run"
"""The name of the metadata that hold what is no tensor."""


class Stateful(Protocol):
    """Something whose state can be taken and given back, as nested dicts of tensors and plain
    numbers and texts.
    """

    def state_dict(self) -> Mapping[str, Any]: ...

    def load_state_dict(self, state: Mapping[str, Any]) -> object: ...


Part: TypeAlias = "Stateful | Generator | Tensor"
"""What a run is made of: modules, optimizers, batches, loss scales, ...; generators; tensors that
are assigned to.
"""


def save_run(
    path: str | os.PathLike[str], *, values: Mapping[str, object] | None = None, **parts: Part
) -> None:
    """Write the state of a run to one safetensors file, which appears under its name only when it
    is complete.

    A process that is killed at any time leaves the file from before, or the new one. The tensors of
    a part named `model` have names that begin with `model.`, so that other programs read them too.

    Args:
        path: of the file; one that is there is replaced.
        values: numbers, texts and lists of such, which `load_run` returns.
        parts: what the run is made of, by names of your choice: the model, the optimizer, the
            batches, the generators that are drawn from, a loss scale, ...

    Raises:
        RunError: if something has no state.

    Example:
        >>> import os, tempfile
        >>> from svod_nn import Linear, load_run, save_run
        >>> from svod_tensor import Generator
        >>> model, noise = Linear(2, 1), Generator(7)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = os.path.join(folder, "run.safetensors")
        ...     save_run(path, model=model, noise=noise, values={"best": 0.5})
        ...     load_run(path, model=model, noise=noise)
        {'best': 0.5}
    """
    tensors: dict[str, Tensor] = {}
    plain: dict[str, object] = {}
    for name, part in parts.items():
        plain[name] = _take_apart(_get_state(name, part), name, tensors)
    # Files of several parts show one moment: all of them are computed before the first is written.
    Tensor.realize_batch(list(tensors.values()))
    text = json.dumps({"parts": plain, "values": dict(values or {})})
    save_safetensors(tensors, path, metadata={_KEY: text})


def load_run(path: str | os.PathLike[str], **parts: Part) -> dict[str, Any]:
    """Give the parts of a run the state that `save_run` wrote, under the same names.

    Returns:
        the values that were saved.

    Raises:
        RunError: if the file holds no run, or has other parts; nothing has changed then.
        MissingFileError: if the file is not there.
        SafetensorsError: if it is truncated or contradicts itself.

    Example:
        >>> import os, tempfile
        >>> from svod_nn import load_run, save_run
        >>> weight = Tensor([1.0, 2.0]).realize()
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = os.path.join(folder, "run.safetensors")
        ...     save_run(path, weight=weight)
        ...     _ = weight.assign(weight * 0)
        ...     load_run(path, weight=weight), weight.tolist()
        ({}, [1.0, 2.0])
    """
    text = read_safetensors_metadata(path).get(_KEY)
    if text is None:
        raise RunError(
            path=path,
            problem="holds tensors, but no run",
            hint="load_safetensors reads its tensors",
        )
    found = json.loads(text)
    saved: dict[str, object] = found["parts"]
    if saved.keys() != parts.keys():
        raise RunError(
            path=path,
            problem=f"has the parts {', '.join(saved) or 'none'}, not {', '.join(parts) or 'none'}",
            hint="load_run takes what save_run took, by the same names",
        )
    tensors = load_safetensors(path)
    states = {name: _put_together(plain, tensors) for name, plain in saved.items()}
    for name, part in parts.items():
        _set_state(part, states[name])
    return found["values"]


def _get_state(name: str, part: Part) -> object:
    if isinstance(part, Generator):
        return list(part.get_state())
    if isinstance(part, Tensor):
        return part
    if not callable(getattr(part, "state_dict", None)):
        raise RunError(path=name, problem=f"is a {type(part).__name__}, which has no state_dict()")
    return part.state_dict()


def _set_state(part: Part, state: Any) -> None:
    if isinstance(part, Generator):
        part.set_state(tuple(state))
    elif isinstance(part, Tensor):
        part.assign(state).realize()
    else:
        part.load_state_dict(state)


def _take_apart(state: object, path: str, tensors: dict[str, Tensor]) -> object:
    """The state with the name of each tensor in its place, for JSON; `tensors` gets them by
    name.
    """
    if isinstance(state, Tensor):
        tensors[path] = state
        return {"tensor": path}
    if isinstance(state, Mapping):
        items = cast("Mapping[str, object]", state).items()
        return {"dict": {key: _take_apart(value, f"{path}.{key}", tensors) for key, value in items}}
    if isinstance(state, (list, tuple)):
        elements = cast("list[object]", state)
        return {
            "list": [_take_apart(value, f"{path}.{n}", tensors) for n, value in enumerate(elements)]
        }
    return {"value": state}


def _put_together(plain: Any, tensors: Mapping[str, Tensor]) -> Any:
    ((kind, value),) = cast("dict[str, Any]", plain).items()
    if kind == "tensor":
        return tensors[value]
    if kind == "dict":
        return {key: _put_together(below, tensors) for key, below in value.items()}
    return [_put_together(below, tensors) for below in value] if kind == "list" else value
