"""`Module`: base class of layers and models, whose parameters are plain attributes.

Attributes may be tensors, other modules, and nested lists, tuples and dicts of both."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple, Self, cast

from svod_nn._arguments import find_wrong_argument
from svod_nn._empty import realize_derived
from svod_nn._error_notes import add_module
from svod_nn._foreign_names import explain_arguments, find_module_attribute
from svod_nn._state import load_tensors
from svod_nn._walk import iter_leaves, map_leaves
from svod_nn.errors import LayerArgumentError, ParameterNameError
from svod_tensor import (
    DType,
    Mesh,
    Tensor,
    is_tracking_origins,
    observe_attributes,
    realize_deferred,
    scope,
)

__all__ = ["Module"]

# Module whose `forward` is running, set only if origins are tracked.
_running: Final = ContextVar["Module | None"]("_running", default=None)


class _NamedTensor(NamedTuple):
    """A tensor of a module, with its name and owner.

    Attributes:
        name: path from the root module, as in `layers.0.weight`.
        owner: innermost module that holds the tensor.
        local: path from the owner, as in `weight`.
        tensor: the tensor.
    """

    name: str
    owner: Module
    local: str
    tensor: Tensor

    @property
    def is_parameter(self) -> bool:
        return (
            self.tensor.dtype.is_float and self.local.split(".")[0] not in self.owner.buffer_names
        )


@observe_attributes
class Module:
    """Base class for layers and models; subclasses define `forward`.

    An attribute that is a tensor of floats is a parameter, named after the attribute. Tensors of
    other dtypes, and of attributes listed in `buffer_names`, are buffers: part of the state, but
    without gradients. Submodules are found in attributes and, like tensors, in nested lists, tuples
    and dicts: `layers.0.weight` is the weight of the first module of the list `layers`. Attributes
    that begin with an underscore are ignored, and a tensor that `forward` adds to the attributes of
    its module is neither a parameter nor a buffer.

    Attributes:
        buffer_names: names of the attributes whose tensors are buffers.

    Example:
        >>> from svod_nn import Module
        >>> from svod_tensor import Tensor
        >>> class Scale(Module):
        ...     def __init__(self, n):
        ...         self.factor = Tensor.ones(n)
        ...     def forward(self, x):
        ...         return x * self.factor
        >>> model = Scale(3)
        >>> model(Tensor([1.0, 2.0, 3.0])).tolist(), [name for name, _ in model.named_parameters()]
        ([1.0, 2.0, 3.0], ['factor'])
        >>> from svod_nn import Linear, Sequential
        >>> net = Sequential(Linear(3, 4), Linear(4, 2))
        >>> [name for name, _ in net.named_modules()], len(list(net.modules()))
        (['', '0', '1'], 3)
        >>> len(list(net.parameters())), list(net.buffers()), list(net.named_buffers())
        (4, [], [])
        >>> len(net.freeze("0").trainable_parameters()), len(net.unfreeze().trainable_parameters())
        (2, 4)
        >>> net.eval().training, net.train().training
        (False, True)
        >>> state = net.state_dict()
        >>> net.load_state_dict(state) is net
        True
        >>> with net.replaced({name: value * 0 for name, value in state.items()}):
        ...     net(Tensor.ones(1, 3)).tolist()
        [[0.0, 0.0]]
        >>> net.to("CPU").cast("float16")(Tensor.ones(2, 3, dtype="float16")).dtype
        float16
        >>> Linear(3, 4).shard(("CPU", "CPU:1")).weight.device
        ('CPU', 'CPU:1')
        >>> Linear(3, 4).extra_repr()
        'in_features=3, out_features=4, bias=True'
    """

    buffer_names: ClassVar[tuple[str, ...]] = ()
    _training: bool = True
    _frozen: frozenset[str] = frozenset()
    # Paths of the tensors that `forward` added, as in `last` or `states.0`.
    _added: frozenset[str] = frozenset()

    forward: Callable[..., Any]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "__init__" in vars(cls):
            type.__setattr__(cls, "__init__", explain_arguments(vars(cls)["__init__"]))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call `forward` with these arguments.

        Errors get a note with the innermost module that raised and its path, as in `in the module
        layers.0: Linear(...)`."""
        self._realize_initial()
        before, added = self._list_paths(), self._added
        try:
            if is_tracking_origins():
                with self._enter():
                    return self.forward(*args, **kwargs)
            return self.forward(*args, **kwargs)
        except Exception as error:
            if isinstance(error, AttributeError):
                arguments = (*args, *kwargs.values())
                wrong = find_wrong_argument(error, type(self).__name__, arguments)
                if wrong is not None:
                    add_module(wrong, self)
                    raise wrong from error
            add_module(error, self)
            raise
        finally:
            self._mark_added(before - added)

    def _realize_initial(self) -> None:
        """Compute the deferred initial values of this module and its submodules, in one batch."""
        realize_deferred(entry.tensor for entry in self._iter_tensors())

    def _list_paths(self) -> set[str]:
        return {path for path, _ in self._iter_members((Tensor,))}

    def _mark_added(self, before: set[str]) -> None:
        """Mark tensors at new paths as added by `forward`: neither parameters nor buffers."""
        paths = self._list_paths() - before
        added = frozenset(path for path in paths if path.split(".")[0] not in self.buffer_names)
        if added != self._added:
            object.__setattr__(self, "_added", added)

    @contextmanager
    def _enter(self) -> Generator[None]:
        """Build the nodes of the block in a scope named by this module's path from its caller."""
        outer = _running.get()
        names = (
            (name for name, module in outer.named_modules() if module is self)
            if outer
            else iter(())
        )
        name = next(names, "")
        token = _running.set(self)
        try:
            with scope(name) if name else nullcontext():
                yield
        finally:
            _running.reset(token)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> object:
            # Called only after the normal lookup has failed.
            if (foreign := find_module_attribute(type(self).__name__, name)) is not None:
                raise foreign
            # Looked up again for the original error, which in a property names the attribute that
            # was missing there.
            return object.__getattribute__(self, name)

        def __setattr__(self, name: str, value: object) -> None:
            # An array that replaced a tensor would not be a parameter: the model would silently be
            # trained without it.
            if (
                hasattr(value, "__array__")
                and not isinstance(value, Tensor)
                and isinstance(vars(self).get(name), Tensor)
            ):
                raise LayerArgumentError(
                    name=type(self).__name__,
                    problem=f"cannot assign {type(value).__name__} to {name}, which is a tensor",
                    hint=(
                        f"write model.{name} = Tensor(array), or use load_state_dict, which accepts"
                        " arrays"
                    ),
                )
            object.__setattr__(self, name, value)
            if self._added:
                # A tensor that is set outside of `forward` has the role that its dtype gives it;
                # inside, the call marks new paths at its end.
                kept = frozenset(path for path in self._added if path.split(".")[0] != name)
                object.__setattr__(self, "_added", kept)

    # Traversal.

    def named_modules(self, prefix: str = "") -> Iterator[tuple[str, Module]]:
        """Iterate over this module, named `prefix`, and its submodules, each once, with names."""
        seen: set[int] = set()
        for name, module in self._iter_modules(prefix, ()):
            if id(module) not in seen:
                seen.add(id(module))
                yield name, module

    def modules(self) -> Iterator[Module]:
        """Iterate over this module and its submodules, each once."""
        return (module for _, module in self.named_modules())

    def named_parameters(self) -> Iterator[tuple[str, Tensor]]:
        """Iterate over the parameters, each once, with names.

        A shared parameter has the first of its names.
        """
        self._realize_initial()
        return _iter_once((e.name, e.tensor) for e in self._iter_tensors() if e.is_parameter)

    def parameters(self) -> Iterator[Tensor]:
        """Iterate over the parameters, each once."""
        return (tensor for _, tensor in self.named_parameters())

    def named_buffers(self) -> Iterator[tuple[str, Tensor]]:
        """Iterate over the buffers, each once, with names."""
        self._realize_initial()
        return _iter_once((e.name, e.tensor) for e in self._iter_tensors() if not e.is_parameter)

    def buffers(self) -> Iterator[Tensor]:
        """Iterate over the buffers, each once."""
        return (tensor for _, tensor in self.named_buffers())

    def trainable_parameters(self) -> dict[str, Tensor]:
        """Return the parameters that are not frozen, by name.

        Gradients and optimizer states have the same keys.
        """
        self._realize_initial()
        parameters = [entry for entry in self._iter_tensors() if entry.is_parameter]
        # By identity: a shared parameter is frozen under all its names.
        frozen = {id(entry.tensor) for entry in parameters if entry.local in entry.owner._frozen}
        named = _iter_once((entry.name, entry.tensor) for entry in parameters)
        return {name: tensor for name, tensor in named if id(tensor) not in frozen}

    def _iter_modules(self, prefix: str, parents: tuple[int, ...]) -> Iterator[tuple[str, Module]]:
        yield prefix, self
        # A module that refers to one of its parents would recurse forever.
        parents = (*parents, id(self))
        for name, member in self._iter_members((Module,)):
            module = cast("Module", member)
            if id(module) not in parents:
                yield from module._iter_modules(f"{prefix}.{name}" if prefix else name, parents)

    def _iter_members(self, kinds: tuple[type, ...]) -> Iterator[tuple[str, object]]:
        for name, value in list(vars(self).items()):
            if name.startswith("_"):
                continue
            if isinstance(value, kinds):
                yield name, value
            elif isinstance(value, (list, tuple, dict)):
                yield from iter_leaves(cast("object", value), kinds, name)

    def _iter_tensors(self) -> Iterator[_NamedTensor]:
        for prefix, module in self._iter_modules("", ()):
            for local, tensor in module._iter_members((Tensor,)):
                if local in module._added:
                    continue
                name = f"{prefix}.{local}" if prefix else local
                yield _NamedTensor(name, module, local, cast("Tensor", tensor))

    # Modes. A captured function is captured again after they have changed.

    @property
    def training(self) -> bool:
        """True in training mode, in which dropout is active and batch statistics are used."""
        return self._training

    @training.setter
    def training(self, mode: bool) -> None:
        self._training = mode

    def train(self, mode: bool = True) -> Self:
        """Set training mode, or evaluation mode, on this module and its submodules."""
        for module in self.modules():
            module.training = mode
        return self

    def eval(self) -> Self:
        """Set evaluation mode, as `train(False)` does."""
        return self.train(False)

    def freeze(self, *names: str) -> Self:
        """Exclude parameters from gradients and training.

        Args:
            names: names of parameters, or of modules and lists that contain them; without names,
                all parameters.

        Raises:
            ParameterNameError: if a name matches no parameter.
        """
        for entry in self._select(names):
            entry.owner._frozen |= {entry.local}
        return self

    def unfreeze(self, *names: str) -> Self:
        """Undo `freeze` for the named parameters, or for all.

        Args:
            names: names of parameters, or of modules for all parameters below them.

        Raises:
            ParameterNameError: if no parameter has such a name.
        """
        for entry in self._select(names):
            entry.owner._frozen -= {entry.local}
        return self

    def _select(self, names: tuple[str, ...]) -> list[_NamedTensor]:
        """Return all entries of the parameters with these names or below them."""
        entries = [entry for entry in self._iter_tensors() if entry.is_parameter]
        if not names:
            return entries
        chosen: set[int] = set()
        for name in names:
            matches = {
                id(e.tensor) for e in entries if e.name == name or e.name.startswith(f"{name}.")
            }
            if not matches:
                raise ParameterNameError(name=name, known=[entry.name for entry in entries])
            chosen |= matches
        return [entry for entry in entries if id(entry.tensor) in chosen]

    # State.

    def state_dict(self) -> dict[str, Tensor]:
        """Return the parameters and buffers by name; shared tensors appear under each name.

        The values are the tensors themselves, not copies: further training changes them. Write them
        to a file with `svod_tensor.save_safetensors`."""
        self._realize_initial()
        return {entry.name: entry.tensor for entry in self._iter_tensors()}

    def load_state_dict(self, state: Mapping[str, Any], *, strict: bool = True) -> Self:
        """Copy the values of a state, as read by `svod_tensor.load_safetensors`, to this module.

        Args:
            state: values by name, of any dtype and on any device; the module keeps its dtypes and
                devices. Arrays of NumPy, and tensors of PyTorch and JAX, are copied.
            strict: if True, the names must equal the names in `state_dict()`; otherwise missing
                and unexpected names are ignored.

        Returns:
            this module.

        Raises:
            StateDictError: if `strict` and names are missing or unexpected, or if shapes differ; no
                tensor is changed then.
        """
        own = {entry.name: entry.tensor for entry in self._iter_tensors()}
        load_tensors(type(self).__name__, own, state, strict=strict)
        return self

    def to(self, device: str) -> Self:
        """Move all parameters and buffers to a device.

        They are replaced by copies: create optimizers afterwards.

        Args:
            device: name of the device, such as "CUDA:1".

        Raises:
            LayerArgumentError: if `device` is not a string.
            UnknownDeviceError: if no plugin provides the device.
        """
        if not isinstance(device, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            problem = f"to() expects the name of a device, got {device!r}"
            hint = "write cast(dtype) to change the dtype"
            raise LayerArgumentError(name=type(self).__name__, problem=problem, hint=hint)
        return self._map_tensors(lambda tensor: tensor.to(device))

    def shard(self, devices: Sequence[str] | Mesh) -> Self:
        """Replicate all parameters and buffers on several devices, or in all processes of a mesh, for
        data parallelism.

        They are replaced by new tensors: create optimizers afterwards. A batch that is split over
        the same devices (`x.shard(devices, axis=0)`) is computed on all of them, and gradients are
        summed over the devices."""
        return self._map_tensors(lambda tensor: tensor.shard(devices))

    def cast(self, dtype: DType | str) -> Self:
        """Cast all parameters and buffers of floats to a dtype.

        They are replaced by new tensors: create optimizers afterwards.
        """
        return self._map_tensors(
            lambda tensor: tensor.cast(dtype) if tensor.dtype.is_float else tensor
        )

    def _map_tensors(self, function: Callable[[Tensor], Tensor]) -> Self:
        # By identity: a tensor that is shared by several attributes stays shared.
        tensors = {id(entry.tensor): entry.tensor for entry in self._iter_tensors()}
        results = {key: function(tensor) for key, tensor in tensors.items()}
        realize_derived([(tensor, results[key]) for key, tensor in tensors.items()])
        _replace_tensors(self, lambda tensor: results.get(id(tensor), tensor))
        return self

    @contextmanager
    def replaced(self, tensors: Mapping[str, Tensor]) -> Generator[None]:
        """Replace parameters and buffers by other tensors within the block, by name.

        The attributes are restored afterwards, also after an error. The replacement is visible to
        other threads.

        Raises:
            ParameterNameError: if a name is neither a parameter nor a buffer.
        """
        own = self.state_dict()
        unknown = [name for name in tensors if name not in own]
        if unknown:
            raise ParameterNameError(name=unknown[0], known=list(own))
        substitutes = {id(own[name]): tensor for name, tensor in tensors.items()}
        replaced = _replace_tensors(self, lambda tensor: substitutes.get(id(tensor), tensor))
        try:
            yield
        finally:
            for module, name, value in replaced:
                setattr(module, name, value)

    # Display.

    def extra_repr(self) -> str:
        """Return the options shown in `repr(module)`; subclasses override it."""
        return ""

    def __repr__(self) -> str:
        """Return the class and its submodules, in PyTorch's layout."""
        children = [
            f"({name}): {module!r}".replace("\n", "\n  ")
            for name, module in self._iter_members((Module,))
        ]
        extra = self.extra_repr()
        if not children:
            return f"{type(self).__name__}({extra})"
        lines = [f"{type(self).__name__}(", *([extra] if extra else []), *children]
        return "\n  ".join(lines) + "\n)"


def _replace_tensors(
    module: Module, function: Callable[[Tensor], Tensor]
) -> list[tuple[Module, str, object]]:
    """Replace the tensors of a module and its submodules.

    Returns:
        the changed attributes, as (module, name, old value).
    """
    replaced: list[tuple[Module, str, object]] = []
    for owner in list(module.modules()):
        for name, value in list(vars(owner).items()):
            changed = value if name.startswith("_") else map_leaves(value, Tensor, function)
            if changed is not value:
                replaced.append((owner, name, value))
                setattr(owner, name, changed)
    return replaced


def _iter_once(named: Iterator[tuple[str, Tensor]]) -> Iterator[tuple[str, Tensor]]:
    seen: set[int] = set()
    for name, tensor in named:
        if id(tensor) not in seen:
            seen.add(id(tensor))
            yield name, tensor
