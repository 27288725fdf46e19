"""Registry of operations: each is one function whose first operand is a tensor.

    @operation(test="test_functions.py::test_special_values_agree_with_numpy", standard=True)
    def exp(x: Tensor, /) -> Tensor: ...

    @operation(test="test_bitwise.py::test_bits_and_shifts_agree_with_numpy", standard=True, methods=("lshift",))
    def bitwise_left_shift(x1: Tensor, x2: Operand, /) -> Tensor: ...

The decorator adds the metadata. The registry, `OPERATIONS`, is the source of the package's functions
(`sv.exp`, which takes numbers, lists and arrays too), the methods of `Tensor` (`methods.py`), the
stub for type checkers (`methods.pyi`) and `docs/operations.md`.

`special_method` registers the methods that Python and numpy call: operators, indexing and protocols.

A call that fails is explained by `argument_checks.py`, under the name of the outermost operation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Any, Concatenate, Final, ParamSpec, TypeVar, cast

from svod_tensor._origins import wrap
from svod_tensor.ops.core.base import TensorBase
from svod_tensor.ops.core.operands import first_operand

if TYPE_CHECKING:
    from svod_tensor.ops.core.base import Operand
    from svod_tensor.tensor import Tensor

__all__ = [
    "FUNCTIONS",
    "OPERATIONS",
    "SPECIAL_METHODS",
    "Operation",
    "attach_methods",
    "operation",
    "special_method",
    "static_operation",
]

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Operation:
    """Metadata of one operation.

    Attributes:
        function: its definition; the first operand must be a tensor.
        public: the package's function and method, which convert the first operand.
        test: the test of its values, as "file.py::function" in packages/svod-tensor/tests.
        standard: its name in the array API standard, version 2025.12; empty where that has none.
        aliases: its other names in the package and as a method.
        methods: names that only its method has.
        is_function: whether the package has its name and aliases; otherwise it is only a method.
        is_property: whether it is a property of tensors, and not a method.
        is_variadic: whether the items of the second parameter may be separate arguments:
            `x.reshape(2, 3)`.
        is_static: whether it has no first operand: `Tensor.einsum`.
        binds: whether the method of a static operation passes the tensor: `x.concat(y)`.
    """

    function: Callable[..., Any]
    public: Callable[..., Any]
    test: str
    standard: str
    aliases: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()
    is_function: bool = True
    is_property: bool = False
    is_variadic: bool = False
    is_static: bool = False
    binds: bool = False

    @property
    def name(self) -> str:
        """The name of the function."""
        return self.function.__name__

    @property
    def theme(self) -> str:
        """Module below `svod_tensor.ops` that defines it, such as "elementwise.arithmetic"."""
        return self.function.__module__.removeprefix("svod_tensor.ops.")

    @property
    def names(self) -> tuple[str, ...]:
        """All names of the method."""
        return self.name, *self.aliases, *self.methods


_SEPARATE: Final = frozenset({"q", "weights", "fweights", "aweights"})
"""Operands that take no part in the promotion of the first operand."""

OPERATIONS: Final[dict[str, Operation]] = {}
"""Operations by name, in the order of their definition."""

FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {}
"""The package's functions that are operations, by name and alias."""

SPECIAL_METHODS: Final[dict[str, Callable[..., Any]]] = {}
"""Methods that Python and numpy call, such as `__getitem__`, by name, in the order of their
definition.
"""


def operation(
    *,
    test: str,
    standard: bool | str = False,
    aliases: tuple[str, ...] = (),
    methods: tuple[str, ...] = (),
    is_function: bool = True,
    is_property: bool = False,
    is_variadic: bool = False,
    computes: bool = False,
) -> Callable[[Callable[Concatenate[Tensor, P], R]], Callable[Concatenate[Operand, P], R]]:
    """Register the decorated function as an operation, and return the function of the package.

    The public function accepts any tensor-like first operand. If the first two parameters are `x1`
    and `x2`, a number is weakly typed on either side.

    Args:
        test: the test of its values, as "file.py::function" in packages/svod-tensor/tests.
        standard: its name in the array API standard; True if that is the function's name.
        aliases: its other names in the package and as a method.
        methods: names that only its method has.
        is_function: whether the package has its name and aliases; otherwise it is only a method.
        is_property: whether it is a property of tensors, and not a method.
        is_variadic: whether the items of the second parameter may be separate arguments:
            `x.reshape(2, 3)`.
        computes: whether it realizes values: an error may then be about any operation of the graph,
            and keeps the name of that operation.
    """

    def register(
        function: Callable[Concatenate[Tensor, P], R],
    ) -> Callable[Concatenate[Operand, P], R]:
        # The first operand is converted, so that lists, numbers and arrays are accepted.
        public = cast(
            "Callable[Concatenate[Operand, P], R]",
            _make_public(function, is_variadic=is_variadic, keeps_names=computes),
        )
        name = _spell(standard, function)
        _add(
            Operation(
                function,
                public,
                test,
                name,
                aliases,
                methods,
                is_function,
                is_property,
                is_variadic,
            )
        )
        return public

    return register


def static_operation(
    *,
    test: str,
    standard: bool | str = False,
    methods: tuple[str, ...] = (),
    is_function: bool = True,
    is_variadic: bool = False,
    binds: bool = False,
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Register a function without a first operand, such as `einsum(formula, *operands)`, as a
    static method of tensors.

    Args:
        test: as `operation` takes it.
        standard: as `operation` takes it.
        methods: names that only its method has.
        is_function: as `operation` takes it.
        is_variadic: whether the items of the first parameter may be separate arguments:
            `Tensor.zeros(2, 3)`.
        binds: whether the method passes the tensor as first argument: `x.concat(y)` is
            `concat(x, y)`.
    """

    def register(function: Callable[P, R]) -> Callable[P, R]:
        public = _make_public(
            function,
            is_variadic=is_variadic,
            is_static=True,
            static_owner="sv" if is_function else "Tensor",
        )
        name = _spell(standard, function)
        _add(
            Operation(
                function,
                public,
                test,
                name,
                (),
                methods,
                is_function,
                False,
                is_variadic,
                is_static=True,
                binds=binds,
            )
        )
        return public

    return register


def special_method(operation: str | None = None) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Register a function as the method of its name that Python or numpy calls, such as
    `__getitem__`.

    Args:
        operation: its name in errors; None to keep the names of operations that it calls.
    """

    def register(function: Callable[P, R]) -> Callable[P, R]:
        method = function if operation is None else _make_public(function, name=operation)
        SPECIAL_METHODS[function.__name__] = method
        return method

    return register


def _spell(standard: bool | str, function: Callable[..., object]) -> str:
    return standard if isinstance(standard, str) else function.__name__ if standard else ""


def _add(entry: Operation) -> None:
    OPERATIONS[entry.name] = entry
    if entry.is_function:
        FUNCTIONS.update(dict.fromkeys((entry.name, *entry.aliases), entry.public))


def attach_methods(cls: type) -> None:
    """Set the registered operations, under all their names, and the special methods on a class."""
    for entry in OPERATIONS.values():
        member: Any = entry.public
        if entry.is_property:
            member = property(member, doc=entry.function.__doc__)
        elif entry.is_static and not entry.binds:
            member = staticmethod(member)
        for name in entry.names:
            setattr(cls, name, member)
    for name, method in SPECIAL_METHODS.items():
        setattr(cls, name, method)


def _make_public(
    function: Callable[P, R],
    *,
    name: str | None = None,
    is_variadic: bool = False,
    is_static: bool = False,
    static_owner: str | None = None,
    keeps_names: bool = False,
) -> Callable[P, R]:
    """Wrap `function` with conversion of its first operand and diagnosis of failed calls, for use as
    both a function of the package and a method.

    Args:
        function: the definition of an operation.
        name: its name in errors; by default the name of the function.
        is_variadic: as `operation` takes it.
        is_static: whether it has no first operand.
        static_owner: prefix of a static operation in hints: `sv.zeros`, `Tensor.rand`.
        keeps_names: whether errors of nested operations keep the names of those operations.
    """
    # Separate arguments are collected into the last positional parameter; none at all are the empty
    # shape ().
    n_positional = 1 if is_static else 2
    by_name = (
        set(tuple(signature(function).parameters)[n_positional:]) if is_variadic else set[str]()
    )

    def call(*args: Any, **kwargs: Any) -> R:
        try:
            if (
                is_variadic
                and len(args) != n_positional
                and (not kwargs or kwargs.keys() <= by_name)
            ):
                args = (*args[: n_positional - 1], args[n_positional - 1 :])
            if is_static or not args or isinstance(args[0], TensorBase):
                return function(*args, **kwargs)
            return cast("Callable[..., R]", function)(
                _to_tensor(function, args, kwargs), *args[1:], **kwargs
            )
        except Exception as error:
            from svod_tensor.ops.core.argument_checks import explain_failure

            # Hints show a call with a tensor as a method call.
            owner = (
                static_owner if is_static or (args and isinstance(args[0], TensorBase)) else "sv"
            )
            known = explain_failure(
                error,
                function,
                name or function.__name__,
                args,
                kwargs,
                owner,
                is_static=is_static,
                keeps_names=keeps_names,
            )
            if known is None:
                raise
        # Raised outside of the handler, the error keeps neither the original exception nor frames
        # with half-built tensors alive. One frame of svod suffices to identify the call.
        try:
            raise known.with_traceback(None)
        finally:
            del known

    return wrap(call, function)


def _to_tensor(
    function: Callable[..., object], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> TensorBase:
    """Convert the first operand to a tensor, with the precision of the other operands."""
    _, *parameters = signature(function).parameters.values()
    arguments = {**kwargs, **dict(zip([p.name for p in parameters], args[1:], strict=False))}
    promoted = [arguments[p.name] for p in parameters if p.name in arguments and _promotes(p)]
    return first_operand(args[0], *promoted)


def _promotes(parameter: Parameter) -> bool:
    """True if the parameter's dtype is promoted with the dtype of the first operand."""
    is_operand = str(parameter.annotation).startswith("Operand") or parameter.name in (
        "x2",
        "prepend",
        "append",
    )
    return is_operand and parameter.name not in _SEPARATE
