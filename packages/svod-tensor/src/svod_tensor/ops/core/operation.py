"""Operations: one definition each, as a function whose first operand is a tensor.

    @operation(test="test_functions.py::test_special_values_agree_with_numpy", standard=True)
    def exp(x: Tensor, /) -> Tensor: ...

    @operation(test="test_bitwise.py::test_bits_and_shifts_agree_with_numpy", standard=True, methods=("lshift",))
    def bitwise_left_shift(x1: Tensor, x2: Operand, /) -> Tensor: ...

The decorator states what the function cannot. From its registry, `OPERATIONS`, derive the names of
the package (`sv.exp`, which takes numbers, lists and arrays too), the methods of `Tensor`
(`methods.py`), the stub for type checkers (`methods.pyi`) and `docs/operations.md`.

`special_method` registers what Python and numpy call: operators, indexing and protocols.

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
    """One operation.

    Attributes:
        function: its definition, without conversion of the first operand.
        public: the function of the package, and the method.
        test: the test that shows its values: a file of packages/svod-tensor/tests, and a function
            of it.
        standard: its name in the array API standard, version 2025.12; empty where that has none.
        aliases: its other names in the package and as a method.
        methods: names that only its method has.
        is_function: whether the package has its name and aliases; otherwise it is only a method.
        is_property: whether it is a property of tensors, and not a method.
        is_variadic: whether the items of the second parameter may be given one by one:
            `x.reshape(2, 3)`.
        is_static: whether it has no first operand: `Tensor.einsum`.
        binds: whether a static method of a tensor has it as its first argument: `x.concat(y)`.
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
"""Operands that do not change the dtype of the first one."""

OPERATIONS: Final[dict[str, Operation]] = {}
"""Operations by name, in the order of their definition."""

FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {}
"""The functions of the package that are operations, by each of their names."""

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

    That one takes for the first operand whatever makes a tensor. Where the first two parameters are
    `x1` and `x2`, a number as `x1` beside a tensor is weak, as it is as `x2`.

    Args:
        test: the test that shows its values: a file of packages/svod-tensor/tests, and a function
            of it.
        standard: its name in the array API standard; True if that is the function's name.
        aliases: its other names in the package and as a method.
        methods: names that only its method has.
        is_function: whether the package has its name and aliases; otherwise it is only a method.
        is_property: whether it is a property of tensors, and not a method.
        is_variadic: whether the items of the second parameter may be given one by one:
            `x.reshape(2, 3)`.
        computes: whether it computes values, so that an error may be about any operation of the
            graph and keeps its name.
    """

    def register(
        function: Callable[Concatenate[Tensor, P], R],
    ) -> Callable[Concatenate[Operand, P], R]:
        # The first operand is converted, so that it may be anything that makes a tensor.
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
        is_variadic: whether the items of the first parameter may be given one by one:
            `Tensor.zeros(2, 3)`.
        binds: whether the method of a tensor has it as its first argument: `x.concat(y)` is
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
        operation: its name in errors; None where an operation that it calls names them.
    """

    def register(function: Callable[P, R]) -> Callable[P, R]:
        method = function if operation is None else _make_public(function, name=operation)
        SPECIAL_METHODS[function.__name__] = method
        return method

    return register


def _spell(standard: bool | str, function: Callable[..., object]) -> str:
    return standard if isinstance(standard, str) else function.__name__ if standard else ""


def _add(one: Operation) -> None:
    OPERATIONS[one.name] = one
    if one.is_function:
        FUNCTIONS.update(dict.fromkeys((one.name, *one.aliases), one.public))


def attach_methods(cls: type) -> None:
    """Give a class the methods of all registered operations, under all their names, and the special
    methods.
    """
    for one in OPERATIONS.values():
        member: Any = one.public
        if one.is_property:
            member = property(member, doc=one.function.__doc__)
        elif one.is_static and not one.binds:
            member = staticmethod(member)
        for name in one.names:
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
    """`function` with conversion of its first operand, and errors about its calls. It is a function
    of the package and a method.

    Args:
        function: the definition of an operation.
        name: its name in errors, by default that of the function.
        is_variadic: as `operation` takes it.
        is_static: whether it has no first operand.
        static_owner: of a static one, what its name follows in hints: `sv.zeros`, `Tensor.rand`.
        keeps_names: whether errors of operations inside of it keep their names.
    """
    # Items given one by one, none of them for the shape (), are those of the last positional
    # parameter.
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

            # Hints write a call on a tensor as one of the method.
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
        # Raised here, the error keeps neither the first one nor frames with half-built tensors
        # alive. One frame of svod is enough to see which call was wrong.
        try:
            raise known.with_traceback(None)
        finally:
            del known

    return wrap(call, function)


def _to_tensor(
    function: Callable[..., object], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> TensorBase:
    """The first operand as a tensor, with the digits of the other operands."""
    _, *parameters = signature(function).parameters.values()
    given = {**kwargs, **dict(zip([p.name for p in parameters], args[1:], strict=False))}
    others = [given[p.name] for p in parameters if p.name in given and _promotes(p)]
    return first_operand(args[0], *others)


def _promotes(parameter: Parameter) -> bool:
    """True if the dtype of a parameter is promoted with that of the first one."""
    is_operand = str(parameter.annotation).startswith("Operand") or parameter.name in (
        "x2",
        "prepend",
        "append",
    )
    return is_operand and parameter.name not in _SEPARATE
