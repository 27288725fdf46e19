"""Checkpoints of a training run in one file, from which it resumes exactly where it was."""

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
"""Metadata key of the JSON text with everything that is not a tensor."""


class Stateful(Protocol):
    """Object whose state is saved and restored as nested dicts of tensors, numbers and strings."""

    def state_dict(self) -> Mapping[str, Any]: ...

    def load_state_dict(self, state: Mapping[str, Any]) -> object: ...


Part: TypeAlias = "Stateful | Generator | Tensor"
"""Part of a run: a module, optimizer, `Batches` or loss scale; a generator; or a tensor."""


def save_run(
    path: str | os.PathLike[str], *, values: Mapping[str, object] | None = None, **parts: Part
) -> None:
    """Save the state of a training run to one safetensors file.

    The file is replaced atomically: a process that is killed leaves the previous file or the
    complete new one. The tensors of a part named `model` have names that begin with `model.`, so
    that other programs can read them.

    Args:
        path: path of the file, which is replaced if it exists.
        values: numbers, strings and lists of both, which `load_run` returns.
        parts: the parts of the run, by names of your choice: the model, the optimizer, the
            batches, the random generators, a loss scale, ...

    Raises:
        RunError: if a part has no state.

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
        plain[name] = _flatten_state(_get_state(name, part), name, tensors)
    # All parts are computed before the first is written, so that the file is one snapshot.
    Tensor.realize_batch(list(tensors.values()))
    text = json.dumps({"parts": plain, "values": dict(values or {})})
    save_safetensors(tensors, path, metadata={_KEY: text})


def load_run(path: str | os.PathLike[str], **parts: Part) -> dict[str, Any]:
    """Restore the parts of a run from a file written by `save_run`, under the same names.

    Returns:
        the saved `values`.

    Raises:
        RunError: if the file is not a run, or has other parts; no part is changed then.
        MissingFileError: if the file does not exist.
        SafetensorsError: if the file is truncated or inconsistent.

    Example:
        >>> import os, tempfile
        >>> from svod_nn import load_run, save_run
        >>> from svod_tensor import Tensor
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
            path=path, problem="is not a saved run", hint="read its tensors with load_safetensors"
        )
    metadata = json.loads(text)
    saved: dict[str, object] = metadata["parts"]
    # A part left out would silently start anew, as an optimizer without its averages.
    if saved.keys() != parts.keys():
        raise RunError(
            path=path,
            problem=(
                f"has the parts {', '.join(saved) or '(none)'}, expected"
                f" {', '.join(parts) or '(none)'}"
            ),
            hint="pass load_run the same parts as save_run, under the same names",
        )
    tensors = load_safetensors(path)
    # All states are read before the first part is changed, so that a broken file changes none.
    states = {name: _unflatten_state(plain, tensors) for name, plain in saved.items()}
    for name, part in parts.items():
        _set_state(part, states[name])
    return metadata["values"]


def _get_state(name: str, part: Part) -> object:
    if isinstance(part, Generator):
        # JSON has no tuples.
        return list(part.get_state())
    if isinstance(part, Tensor):
        return part
    if not callable(getattr(part, "state_dict", None)):
        raise RunError(path=name, problem=f"is a {type(part).__name__} without state_dict()")
    return part.state_dict()


def _set_state(part: Part, state: Any) -> None:
    if isinstance(part, Generator):
        part.set_state(tuple(state))
    elif isinstance(part, Tensor):
        part.assign(state).realize()
    else:
        part.load_state_dict(state)


def _flatten_state(state: object, path: str, tensors: dict[str, Tensor]) -> object:
    """Return the state as JSON values, with tensors replaced by names; add these to `tensors`."""
    if isinstance(state, Tensor):
        tensors[path] = state
        # Each value is tagged by its kind: otherwise a state's own dict could be taken for a
        # reference to a tensor.
        return {"tensor": path}
    if isinstance(state, Mapping):
        items = cast("Mapping[str, object]", state).items()
        flat = {key: _flatten_state(value, f"{path}.{key}", tensors) for key, value in items}
        return {"dict": flat}
    if isinstance(state, (list, tuple)):
        elements = enumerate(cast("list[object]", state))
        return {"list": [_flatten_state(value, f"{path}.{i}", tensors) for i, value in elements]}
    return {"value": state}


def _unflatten_state(plain: Any, tensors: Mapping[str, Tensor]) -> Any:
    ((kind, value),) = cast("dict[str, Any]", plain).items()
    if kind == "tensor":
        return tensors[value]
    if kind == "dict":
        return {key: _unflatten_state(item, tensors) for key, item in value.items()}
    return [_unflatten_state(item, tensors) for item in value] if kind == "list" else value
