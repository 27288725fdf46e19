"""Checkpoints that every process writes its part of, and that any number of processes reads.

    directory/
        index.json                  what the checkpoint holds, and which file has which part
        1f0c9d2e-00000.safetensors  the parts that process 0 wrote
        1f0c9d2e-00001.safetensors

A part that several processes hold is written by the lowest of them. The files of each checkpoint
have names of their own, and the index is replaced at last: a process that is killed while it saves
leaves the checkpoint before, and files that the next one removes.

The names of tensors are paths in the state: JSON pointers without the first slash.

Source: JavaScript Object Notation (JSON) Pointer, RFC 6901, sections 3 and 5.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar, cast
from uuid import uuid4

import numpy as np
from mpi4py import MPI

from svod_ir import MeshLayout
from svod_mpi._mesh import from_part, get_communicator
from svod_mpi.errors import CheckpointError, MeshError
from svod_tensor import Tensor, load_safetensors, save_safetensors

if TYPE_CHECKING:
    import svod_ir

__all__ = ["load", "save"]

State = TypeVar("State")
_Bounds = tuple[tuple[int, int], ...]

_FORMAT: Final = "svod_mpi checkpoint 1"
_INDEX: Final = "index.json"
_N_SHOWN: Final = 8
"""Number of keys that an error shows."""


class _Part(NamedTuple):
    """Elements of a tensor in a file: from begin to before end along each axis."""

    file: str
    bounds: _Bounds


class _Entry(NamedTuple):
    """A tensor of a checkpoint."""

    dtype: str
    shape: tuple[int, ...]
    parts: tuple[_Part, ...]


def save(
    state: object, directory: str | os.PathLike[str], mesh: svod_ir.Mesh | None = None
) -> None:
    """Write a state to a directory. All processes of the mesh call this.

    The directory has to be on a file system that all processes share. A process that is killed
    meanwhile leaves the checkpoint that was there. Tensors that are not sharded, and numbers, are
    those of the first process.

    Args:
        state: dicts and lists, nested at will, of tensors, numbers, strings and None, such as
            `{"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": 7}`.
        directory: path of the checkpoint, which is replaced.
        mesh: the processes; by default those of the first sharded tensor, or all.

    Raises:
        CheckpointError: if the state holds something else.
        MeshError: if tensors are sharded over other processes.

    Example:
        >>> import os, tempfile
        >>> import svod_mpi
        >>> from svod_tensor import Tensor
        >>> mesh = svod_mpi.Mesh()
        >>> state = {"w": Tensor([1.0, 2.0]).shard(mesh, {"data": 0}), "step": 7}
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     svod_mpi.save(state, os.path.join(folder, "run"))
        ...     again = svod_mpi.load(os.path.join(folder, "run"), state)
        >>> again["w"].tolist(), again["step"]
        ([1.0, 2.0], 7)
    """
    folder = Path(os.path.abspath(os.fspath(directory)))
    tensors: dict[str, Tensor] = {}
    plain = _flatten(state, "", tensors, str(folder))
    communicator = _get_processes(tensors, mesh)
    rank = communicator.Get_rank()
    # Read by all processes in one order, since reading may compute, together with the others.
    Tensor.realize_batch(list(tensors.values()))
    if rank == 0:
        folder.mkdir(parents=True, exist_ok=True)
    # One name for all, which no earlier checkpoint has.
    prefix: str = communicator.bcast(uuid4().hex[:8] if rank == 0 else None)
    own = {name: x.shards()[0] for name, x in tensors.items() if _is_writer(x, rank)}
    file = _name_file(prefix, rank)
    if own:
        save_safetensors(own, folder / file)
        _flush(folder / file)
    # The first process goes on when it has heard from all, so all files are written.
    sizes = communicator.gather((folder / file).stat().st_size if own else None)
    if sizes is not None:
        index = {
            "format": _FORMAT,
            "processes": len(sizes),
            "files": {_name_file(prefix, r): size for r, size in enumerate(sizes) if size},
            "state": plain,
            "tensors": {name: _describe(x, prefix) for name, x in tensors.items()},
        }
        _replace_index(folder, json.dumps(index, indent=1), prefix)
    communicator.Barrier()


def load(directory: str | os.PathLike[str], like: State) -> State:
    """Read a state that `save` wrote, with tensors that are sharded as those of `like`.

    Each process reads the elements that it holds afterwards. The number of processes, the mesh and
    the layouts may differ from those of the program that saved.

    Args:
        directory: path of the checkpoint.
        like: a state of the same keys, or of some of them; its tensors are not computed.

    Returns:
        new tensors in place of those of `like`, and the saved numbers in place of its numbers.

    Raises:
        CheckpointError: if there is no whole checkpoint, or keys are missing, or shapes or dtypes
            differ.
    """
    folder = Path(os.path.abspath(os.fspath(directory)))
    index = _read_index(folder)
    entries = {name: _read_entry(entry) for name, entry in index["tensors"].items()}
    problems: list[str] = []
    wanted: dict[str, Tensor] = {}
    _match(like, index["state"], "", wanted, problems)
    problems += [
        f"{name}: expected {x.dtype.name} {x.shape}, the checkpoint has {entry.dtype} {entry.shape}"
        for name, x in wanted.items()
        for entry in [entries[name]]
        if (x.dtype.name, x.shape) != (entry.dtype, entry.shape)
    ]
    if problems:
        more = len(problems) - _N_SHOWN
        notes = [*problems[:_N_SHOWN], *([f"and {more} more"] if more > 0 else [])]
        raise CheckpointError(path=str(folder), problem="does not fit the program", notes=notes)
    _check_files(folder, index["files"])
    files = _Files(folder)
    loaded = {name: _load_tensor(files, name, entries[name], x) for name, x in wanted.items()}
    Tensor.realize_batch(list(loaded.values()))
    return cast("State", _rebuild(like, index["state"], "", loaded))


# State as JSON.


def _flatten(state: object, path: str, tensors: dict[str, Tensor], folder: str) -> object:
    """The state as JSON; tensors are added to `tensors`. Each value is tagged by its kind."""
    kind = type(state).__name__
    if isinstance(state, Tensor):
        tensors[path] = state
        return {"tensor": path}
    if isinstance(state, Mapping):
        items = cast("Mapping[object, object]", state).items()
        if all(isinstance(key, str) for key, _ in items):
            return {
                "dict": {
                    key: _flatten(value, _join(path, key), tensors, folder)
                    for key, value in cast("Mapping[str, object]", state).items()
                }
            }
    if isinstance(state, (list, tuple)):
        elements = enumerate(cast("Sequence[object]", state))
        return {"list": [_flatten(x, _join(path, n), tensors, folder) for n, x in elements]}
    if state is None or isinstance(state, (bool, int, float, str)):
        return {"value": state}
    found = "a dict with keys that are not strings" if isinstance(state, Mapping) else "a value"
    raise CheckpointError(
        path=folder,
        problem=f"cannot hold {found}, of type {kind}, at {path or 'its root'}",
        hint="write the state as dicts and lists of tensors, numbers, strings and None; a module or"
        " an optimizer as its state_dict()",
    )


def _join(path: str, key: object) -> str:
    name = str(key).replace("~", "~0").replace("/", "~1")
    return f"{path}/{name}" if path else name


def _match(
    like: object, saved: dict[str, Any], path: str, wanted: dict[str, Tensor], problems: list[str]
) -> None:
    """Find the tensors that are to be loaded, and what the checkpoint lacks."""
    ((kind, value),) = saved.items()
    expected = _get_kind(like)
    if kind != expected:
        problems.append(
            f"{path or 'the state'}: expected a {expected}, the checkpoint has a {kind}"
        )
    elif isinstance(like, Tensor):
        wanted[path] = like
    elif isinstance(like, Mapping):
        for key, item in cast("Mapping[str, object]", like).items():
            if key in value:
                _match(item, value[key], _join(path, key), wanted, problems)
            else:
                problems.append(f"{_join(path, key)}: missing in the checkpoint")
    elif isinstance(like, (list, tuple)):
        items = cast("Sequence[object]", like)
        if len(items) != len(value):
            lengths = f"expected {len(items)} items, the checkpoint has {len(value)}"
            problems.append(f"{path or 'the state'}: {lengths}")
        for number, (item, its) in enumerate(zip(items, value, strict=False)):
            _match(item, its, _join(path, number), wanted, problems)


def _get_kind(state: object) -> str:
    if isinstance(state, Tensor):
        return "tensor"
    if isinstance(state, Mapping):
        return "dict"
    return "list" if isinstance(state, (list, tuple)) else "value"


def _rebuild(
    like: object, saved: dict[str, Any], path: str, loaded: Mapping[str, Tensor]
) -> object:
    ((_, value),) = saved.items()
    if isinstance(like, Tensor):
        return loaded[path]
    if isinstance(like, Mapping):
        keys = cast("Mapping[str, object]", like).items()
        return {key: _rebuild(x, value[key], _join(path, key), loaded) for key, x in keys}
    if isinstance(like, (list, tuple)):
        pairs = enumerate(zip(cast("Sequence[object]", like), value, strict=True))
        items = [_rebuild(x, its, _join(path, n), loaded) for n, (x, its) in pairs]
        return tuple(items) if isinstance(like, tuple) else items
    return value


# Parts.


def _get_layout(x: Tensor) -> MeshLayout | None:
    return None if x.sharding is None else x.sharding.layout


def _get_processes(tensors: Mapping[str, Tensor], mesh: svod_ir.Mesh | None) -> MPI.Intracomm:
    meshes = [mesh] if mesh is not None else []
    meshes += [layout.mesh for x in tensors.values() if (layout := _get_layout(x)) is not None]
    communicators = [get_communicator(m) for m in dict.fromkeys(meshes)] or [MPI.COMM_WORLD]
    same = (MPI.IDENT, MPI.CONGRUENT)
    if any(MPI.Comm.Compare(communicators[0], c) not in same for c in communicators[1:]):
        problem = "tensors are sharded over meshes of different processes"
        raise MeshError(operation="save", problem=problem, hint="save them one by one")
    return communicators[0]


def _is_writer(x: Tensor, rank: int) -> bool:
    """Whether no lower process has the part of this one."""
    layout = _get_layout(x)
    if layout is None:
        return rank == 0
    return not any(
        index for axis, index in zip(layout.axes, layout.mesh.position, strict=True) if axis is None
    )


def _list_parts(layout: MeshLayout | None, shape: Sequence[int]) -> dict[int, _Bounds]:
    """The bounds of each part, by the process that writes it."""
    whole = [(0, size) for size in shape]
    if layout is None:
        return {0: tuple(whole)}
    parts: dict[int, _Bounds] = {}
    choices = [
        range(size) if axis is not None else range(1)
        for axis, size in zip(layout.axes, layout.mesh.sizes, strict=True)
    ]
    for position in product(*choices):
        bounds = list(whole)
        for axis, sizes, index in zip(layout.axes, layout.sizes, position, strict=True):
            if axis is not None:
                begin = sum(sizes[:index])
                bounds[axis] = begin, begin + sizes[index]
        parts[layout.mesh._replace(position=position).rank] = tuple(bounds)
    return parts


def _describe(x: Tensor, prefix: str) -> dict[str, object]:
    layout = _get_layout(x)
    shape = [int(size) for size in x.shape]
    described: dict[str, object] = {"dtype": x.dtype.name, "shape": shape}
    if layout is not None:
        # For people: to load takes no notice of it.
        described["mesh"] = dict(zip(layout.mesh.names, layout.mesh.sizes, strict=True))
        described["layout"] = {
            name: axis
            for name, axis in zip(layout.mesh.names, layout.axes, strict=True)
            if axis is not None
        }
    described["parts"] = [
        {"file": _name_file(prefix, rank), "begin": [b for b, _ in p], "end": [e for _, e in p]}
        for rank, p in _list_parts(layout, shape).items()
    ]
    return described


def _read_entry(entry: Mapping[str, Any]) -> _Entry:
    parts = [
        _Part(part["file"], tuple(zip(part["begin"], part["end"], strict=True)))
        for part in entry["parts"]
    ]
    return _Entry(entry["dtype"], tuple(entry["shape"]), tuple(parts))


class _Files:
    """The files of a checkpoint, each mapped when it is first read."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files: dict[str, dict[str, Tensor]] = {}

    def read(self, part: _Part, name: str) -> np.ndarray[Any, Any]:
        """View of the elements of a part."""
        if part.file not in self._files:
            self._files[part.file] = load_safetensors(self._folder / part.file)
        return self._files[part.file][name].numpy()


def _load_tensor(files: _Files, name: str, entry: _Entry, like: Tensor) -> Tensor:
    sharding, layout = like.sharding, _get_layout(like)
    bounds = [(0, size) for size in entry.shape]
    for cut in sharding.cuts(0) if sharding is not None and layout is not None else ():
        bounds[cut.axis] = cut.begin, cut.end
    own = np.empty([end - begin for begin, end in bounds], like.dtype.numpy)
    for part in entry.parts:
        common = [
            (max(b, low), min(e, high))
            for (b, e), (low, high) in zip(bounds, part.bounds, strict=True)
        ]
        if all(begin < end for begin, end in common):
            source = files.read(part, name)[_slices(common, part.bounds)]
            own[_slices(common, bounds)] = source
    if layout is not None:
        return from_part(Tensor(own), layout)
    if sharding is not None:
        return Tensor(own).shard(sharding.devices, sharding.axis)
    return Tensor(own, device=str(like.device))


def _slices(bounds: Sequence[tuple[int, int]], within: Sequence[tuple[int, int]]) -> Any:
    """The elements within bounds, of an array that begins at others."""
    return tuple(
        slice(begin - low, end - low) for (begin, end), (low, _) in zip(bounds, within, strict=True)
    )


# Files.


def _name_file(prefix: str, rank: int) -> str:
    return f"{prefix}-{rank:05}.safetensors"


def _flush(path: Path) -> None:
    """Wait until a file or directory is on the disk, where a loss of power leaves it."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _replace_index(folder: Path, text: str, prefix: str) -> None:
    partial = folder / f"{prefix}.index.part"
    partial.write_text(text)
    _flush(partial)
    _flush(folder)
    os.replace(partial, folder / _INDEX)
    _flush(folder)
    # The files of the checkpoint before, and of those that were killed while they saved.
    pattern = "[0-9a-f]" * len(prefix)
    for path in (*folder.glob(f"{pattern}-*.safetensors*"), *folder.glob(f"{pattern}.index.part")):
        if not path.name.startswith(prefix):
            path.unlink()


def _read_index(folder: Path) -> dict[str, Any]:
    path = folder / _INDEX
    try:
        index = json.loads(path.read_text())
    except FileNotFoundError:
        hint = "it was killed while it saved for the first time" if folder.is_dir() else None
        raise CheckpointError(path=str(folder), problem=f"has no {_INDEX}", hint=hint) from None
    except ValueError as error:
        raise CheckpointError(path=str(folder), problem=f"has no valid index: {error}") from error
    found = cast("dict[str, Any]", index).get("format") if isinstance(index, dict) else None
    if found != _FORMAT:
        problem = f"has the format {found!r}, expected {_FORMAT!r}"
        raise CheckpointError(path=str(folder), problem=problem)
    return cast("dict[str, Any]", index)


def _check_files(folder: Path, files: Mapping[str, int]) -> None:
    """Check all files in every process, so that all of them raise."""
    problems: list[str] = []
    for name, size in files.items():
        path = folder / name
        found = path.stat().st_size if path.is_file() else None
        if found is None:
            problems.append(f"{name} is missing")
        elif found != size:
            problems.append(f"{name} has {found} bytes of {size}")
    if problems:
        raise CheckpointError(path=str(folder), problem="is not whole", notes=problems[:_N_SHOWN])
