"""What has parameters: a plain class whose attributes are tensors, other modules, and lists, tuples
and dicts of both.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple, Self, cast

from svod_nn._empty import realize_derived
from svod_nn._error_notes import add_module, find_wrong_argument
from svod_nn._foreign_names import find_module_attribute
from svod_nn._state import load_tensors
from svod_nn._walk import exchange_leaves, iter_leaves
from svod_nn.errors import LayerArgumentError, ParameterNameError
from svod_tensor import (
    DType,
    Tensor,
    is_tracking_origins,
    observe_attributes,
    realize_deferred,
    scope,
)

__all__ = ["Module"]

# The module whose `forward` runs, where origins are tracked.
_running: Final = ContextVar["Module | None"]("_running", default=None)


class _Place(NamedTuple):
    """Where a tensor stands.

    Attributes:
        name: from the module that was asked, as in `layers.0.weight`.
        owner: the innermost module around the tensor.
        local: the name from there, as in `weight`.
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
    """Something with parameters, which is called: its subclasses say in `forward` what it computes.

    A tensor of floats that is an attribute is a parameter, and the attribute's name is its name;
    tensors of other dtypes, and those whose attributes `buffer_names` lists, are buffers: they
    belong to the state, and nothing is derived by them. Modules in attributes, and tensors and
    modules in lists, tuples and dicts of any depth, are found too: `layers.0.weight` is the weight
    of the first module of the list `layers`. Attributes that begin with an underscore are nobody's
    business, and a tensor that `forward` adds to the attributes of its module is neither a
    parameter nor a buffer.

    Attributes:
        buffer_names: the attributes whose tensors are buffers.

    Example:
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
    # The paths of the tensors that `forward` added, as in `last` or `states.0`.
    _added: frozenset[str] = frozenset()

    forward: Callable[..., Any]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """What `forward` gives for these arguments.

        An error is noted to be that of the innermost module, with its path, as in `in the module
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
                wrong = find_wrong_argument(error, type(self).__name__, args)
                if wrong is not None:
                    add_module(wrong, self)
                    raise wrong from error
            add_module(error, self)
            raise
        finally:
            self._mark_added(before - added)

    def _realize_initial(self) -> None:
        """Compute the initial values of this module and all below it that have not been read yet,
        in one batch.
        """
        realize_deferred(place.tensor for place in self._iter_places())

    def _list_paths(self) -> set[str]:
        return {path for path, _ in self._iter_members((Tensor,))}

    def _mark_added(self, before: set[str]) -> None:
        """Mark the tensors of this module that are at other paths than before as values that
        `forward` keeps.
        """
        paths = self._list_paths() - before
        added = frozenset(path for path in paths if path.split(".")[0] not in self.buffer_names)
        if added != self._added:
            object.__setattr__(self, "_added", added)

    @contextmanager
    def _enter(self) -> Generator[None]:
        """Within the block, what is built has the scope of this module's name, from the module that
        calls it.
        """
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
            # Comes here for what is not there.
            if (foreign := find_module_attribute(type(self).__name__, name)) is not None:
                raise foreign
            # Says what is missing; in a property, what was missing there.
            return object.__getattribute__(self, name)

        def __setattr__(self, name: str, value: object) -> None:
            # An array in the place of a tensor would be no parameter, and the model would be
            # trained without it.
            if (
                hasattr(value, "__array__")
                and not isinstance(value, Tensor)
                and isinstance(vars(self).get(name), Tensor)
            ):
                raise LayerArgumentError(
                    name=type(self).__name__,
                    problem=f"{name} is a tensor, and {type(value).__name__} is none",
                    hint=(
                        f"write model.{name} = Tensor(array), or load_state_dict, which takes"
                        " arrays"
                    ),
                )
            object.__setattr__(self, name, value)
            if self._added:
                # Whatever is set outside of `forward` has the role that its dtype gives it; inside,
                # the marks are set at the end.
                kept = frozenset(path for path in self._added if path.split(".")[0] != name)
                object.__setattr__(self, "_added", kept)

    # What there is.

    def named_modules(self, prefix: str = "") -> Iterator[tuple[str, Module]]:
        """Each module once, with its name: this one, whose name is `prefix`, and all below it."""
        seen: set[int] = set()
        for name, module in self._iter_modules(prefix, ()):
            if id(module) not in seen:
                seen.add(id(module))
                yield name, module

    def modules(self) -> Iterator[Module]:
        """This module and all below it, each once."""
        return (module for _, module in self.named_modules())

    def named_parameters(self) -> Iterator[tuple[str, Tensor]]:
        """Each parameter once, with its name; one that stands in several places has the name of the
        first.
        """
        self._realize_initial()
        return _iter_once((p.name, p.tensor) for p in self._iter_places() if p.is_parameter)

    def parameters(self) -> Iterator[Tensor]:
        """Each parameter once."""
        return (tensor for _, tensor in self.named_parameters())

    def named_buffers(self) -> Iterator[tuple[str, Tensor]]:
        """Each buffer once, with its name."""
        self._realize_initial()
        return _iter_once((p.name, p.tensor) for p in self._iter_places() if not p.is_parameter)

    def buffers(self) -> Iterator[Tensor]:
        """Each buffer once."""
        return (tensor for _, tensor in self.named_buffers())

    def trainable_parameters(self) -> dict[str, Tensor]:
        """The parameters that are not frozen, by name: gradients and the state of optimizers have
        the same keys.
        """
        self._realize_initial()
        parameters = [p for p in self._iter_places() if p.is_parameter]
        frozen = {id(p.tensor) for p in parameters if p.local in p.owner._frozen}
        named = _iter_once((p.name, p.tensor) for p in parameters)
        return {name: tensor for name, tensor in named if id(tensor) not in frozen}

    def _iter_modules(self, prefix: str, above: tuple[int, ...]) -> Iterator[tuple[str, Module]]:
        yield prefix, self
        above = (*above, id(self))
        for name, found in self._iter_members((Module,)):
            module = cast("Module", found)
            if id(module) not in above:
                yield from module._iter_modules(f"{prefix}.{name}" if prefix else name, above)

    def _iter_members(self, kinds: tuple[type, ...]) -> Iterator[tuple[str, object]]:
        for name, value in list(vars(self).items()):
            if name.startswith("_"):
                continue
            if isinstance(value, kinds):
                yield name, value
            elif isinstance(value, (list, tuple, dict)):
                yield from iter_leaves(cast("object", value), kinds, name)

    def _iter_places(self) -> Iterator[_Place]:
        for prefix, module in self._iter_modules("", ()):
            for local, found in module._iter_members((Tensor,)):
                if local in module._added:
                    continue
                yield _Place(
                    f"{prefix}.{local}" if prefix else local, module, local, cast("Tensor", found)
                )

    # Modes. A captured step is captured anew where they have changed.

    @property
    def training(self) -> bool:
        """Whether layers do what they do in training (dropout, statistics of the batch); see
        `train` and `eval`.
        """
        return self._training

    @training.setter
    def training(self, mode: bool) -> None:
        self._training = mode

    def train(self, mode: bool = True) -> Self:
        """Put this module and all below it into training mode, or out of it."""
        for module in self.modules():
            module.training = mode
        return self

    def eval(self) -> Self:
        """The same as `train(False)`."""
        return self.train(False)

    def freeze(self, *names: str) -> Self:
        """Leave parameters as they are: they get no gradients.

        Args:
            names: of parameters, or of modules and lists above them; without any, all parameters.

        Raises:
            ParameterNameError: if nothing has such a name.
        """
        for place in self._select(names):
            place.owner._frozen |= {place.local}
        return self

    def unfreeze(self, *names: str) -> Self:
        """Undo `freeze`, for all parameters or those that are named."""
        for place in self._select(names):
            place.owner._frozen -= {place.local}
        return self

    def _select(self, names: tuple[str, ...]) -> list[_Place]:
        """All places of the parameters with these names."""
        places = [p for p in self._iter_places() if p.is_parameter]
        if not names:
            return places
        chosen: set[int] = set()
        for name in names:
            found = {
                id(p.tensor) for p in places if p.name == name or p.name.startswith(f"{name}.")
            }
            if not found:
                raise ParameterNameError(name=name, known=[p.name for p in places])
            chosen |= found
        return [p for p in places if id(p.tensor) in chosen]

    # State.

    def state_dict(self) -> dict[str, Tensor]:
        """The parameters and buffers by name, under each name that they have.

        They are the tensors themselves: what is trained afterwards changes them.
        `svod_tensor.save_safetensors` writes them."""
        self._realize_initial()
        return {p.name: p.tensor for p in self._iter_places()}

    def load_state_dict(self, state: Mapping[str, Any], *, strict: bool = True) -> Self:
        """Assign what a state holds, such as `svod_tensor.load_safetensors` reads; nothing is
        assigned if something does not fit.

        Args:
            state: tensors by name, of any dtype and on any device: each module keeps its own.
                Arrays of numpy, and tensors of PyTorch and JAX, are copied.
            strict: whether all names must be there, and no others.

        Raises:
            StateDictError: if names are missing or unexpected, or a shape is another one.
        """
        own = {place.name: place.tensor for place in self._iter_places()}
        load_tensors(type(self).__name__, own, state, strict=strict)
        return self

    def to(self, device: str) -> Self:
        """Put copies of all parameters and buffers on a device in their place: make optimizers
        afterwards.

        Raises:
            LayerArgumentError: if it is no name of a device.
        """
        if not isinstance(device, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            problem, hint = (
                f"to takes the name of a device, not {device!r}",
                "cast(dtype) exchanges the dtype",
            )
            raise LayerArgumentError(name=type(self).__name__, problem=problem, hint=hint)
        return self._exchange(lambda tensor: tensor.to(device))

    def shard(self, devices: Sequence[str]) -> Self:
        """Give each device the whole of all parameters and buffers: make optimizers afterwards.

        A batch that is split over the same devices (`x.shard(devices, axis=0)`) is computed on all
        of them, and gradients are added up over them."""
        return self._exchange(lambda tensor: tensor.shard(devices))

    def cast(self, dtype: DType | str) -> Self:
        """Put parameters and buffers of floats in another dtype in their place: make optimizers
        afterwards.
        """
        return self._exchange(
            lambda tensor: tensor.cast(dtype) if tensor.dtype.is_float else tensor
        )

    def _exchange(self, exchange: Callable[[Tensor], Tensor]) -> Self:
        tensors = {id(place.tensor): place.tensor for place in self._iter_places()}
        images = {key: exchange(tensor) for key, tensor in tensors.items()}
        realize_derived([(tensor, images[key]) for key, tensor in tensors.items()])
        _put(self, lambda tensor: images.get(id(tensor), tensor))
        return self

    @contextmanager
    def replaced(self, tensors: Mapping[str, Tensor]) -> Generator[None]:
        """Within the block, these tensors stand in place of the parameters and buffers of these
        names, wherever those stand.

        Afterwards, and after errors too, the attributes are what they were. Other threads see the
        exchange."""
        own = self.state_dict()
        unknown = [name for name in tensors if name not in own]
        if unknown:
            raise ParameterNameError(name=unknown[0], known=list(own))
        images = {id(own[name]): tensor for name, tensor in tensors.items()}
        before = _put(self, lambda tensor: images.get(id(tensor), tensor))
        try:
            yield
        finally:
            for module, name, value in before:
                setattr(module, name, value)

    # Text.

    def extra_repr(self) -> str:
        """What stands in the brackets of the module's text; subclasses say it."""
        return ""

    def __repr__(self) -> str:
        """The class and what is below it, as PyTorch shows it."""
        below = [
            f"({name}): {module!r}".replace("\n", "\n  ")
            for name, module in self._iter_members((Module,))
        ]
        extra = self.extra_repr()
        if not below:
            return f"{type(self).__name__}({extra})"
        return "\n  ".join([f"{type(self).__name__}(", *([extra] if extra else []), *below]) + "\n)"


def _put(module: Module, exchange: Callable[[Tensor], Tensor]) -> list[tuple[Module, str, object]]:
    """Exchange the tensors of a module and of all below it; gives the attributes that were other
    ones, and what they were.
    """
    before: list[tuple[Module, str, object]] = []
    for owner in list(module.modules()):
        for name, value in list(vars(owner).items()):
            changed = value if name.startswith("_") else exchange_leaves(value, Tensor, exchange)
            if changed is not value:
                before.append((owner, name, value))
                setattr(owner, name, changed)
    return before


def _iter_once(named: Iterator[tuple[str, Tensor]]) -> Iterator[tuple[str, Tensor]]:
    seen: set[int] = set()
    for name, tensor in named:
        if id(tensor) not in seen:
            seen.add(id(tensor))
            yield name, tensor
