"""numpy functions on tensors: functions with a counterpart build a graph, as the tensor's method
does.

`numpy.sin(x)`, `numpy.add(array, x)` and `array + x` arrive through `__array_ufunc__`,
`numpy.mean(x, axis=0)` through `__array_function__`. A result with an array as `out` is computed at
once. A function, a ufunc method or an argument without a counterpart reads the values, and numpy
computes arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from inspect import Parameter, Signature, signature
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from svod_dtype import to_dtype
from svod_tensor._numpy_libraries import LIBRARIES
from svod_tensor._numpy_samples import SAMPLES
from svod_tensor.ops.core.operands import (
    as_tensor,
    is_scalar,
    overrides_ufuncs,
    promote,
    promote_to_float,
    to_float,
)
from svod_tensor.ops.core.operation import OPERATIONS
from svod_tensor.ops.interface.reading import host_array
from svod_tensor.tensor import Tensor

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["FUNCTIONS", "UFUNCS", "call_function", "call_ufunc"]

Axis: TypeAlias = "int | tuple[int, ...] | None"


def _is_ufunc(name: str) -> bool:
    import numpy as np

    # Skip aliases: the `__name__` of `numpy.acos` is `arccos`.
    function = getattr(np, name, None)
    return isinstance(function, np.ufunc) and function.__name__ == name


UFUNCS: Final[Mapping[str, str]] = {
    name: name
    for operation in OPERATIONS.values()
    if operation.is_function
    for name in (operation.name, *operation.aliases)
    if _is_ufunc(name)
} | {"absolute": "abs", "fabs": "abs"}
"""Tensor method for each numpy ufunc: the operation of the same name."""

_TWO_RESULTS: Final = frozenset({"divmod", "modf"})
_FALLBACK_ARGUMENTS: Final = ("where", "initial")
"""Arguments that tensor methods do not have, so that numpy computes the result."""

_REDUCTIONS: Final = {
    "add": "sum",
    "multiply": "prod",
    "maximum": "max",
    "minimum": "min",
    "logical_and": "all",
    "logical_or": "any",
}
_SCANS: Final = {"add": "cumsum", "multiply": "cumprod", "maximum": "cummax", "minimum": "cummin"}
_FLOAT_METHODS: Final = frozenset(
    {"div", "atan2", "copysign", "hypot", "logaddexp", "nextafter", "heaviside"}
)
"""Methods that convert integers to floats, so that a number operand need not fit an integer dtype.
"""


def call_ufunc(
    owner: Tensor,
    ufunc: np.ufunc,
    ufunc_method: str,
    inputs: Sequence[Any],
    kwargs: Mapping[str, Any],
) -> object:
    """Result of `__array_ufunc__`; one or more numpy arrays, computed from values, if there is no
    counterpart.

    Args:
        owner: a tensor among the operands.
        ufunc: the function.
        ufunc_method: `"__call__"`, `"reduce"`, `"accumulate"`, `"outer"` or `"at"`.
        inputs: its operands.
        kwargs: its other arguments.
    """
    name = ufunc.__name__
    options = dict(kwargs)
    outs = cast("tuple[object, ...]", options.pop("out", ()))
    if any(overrides_ufuncs(value) for value in (*inputs, *outs)):
        # numpy then asks the other library.
        return NotImplemented
    if not _has_counterpart(ufunc, ufunc_method, options):
        return _compute_arrays(ufunc, ufunc_method, inputs, outs, options)
    dtype = options.pop("dtype", None)
    if dtype is not None:
        inputs = [
            value if is_scalar(value) else _wrap(owner, value).cast(dtype) for value in inputs
        ]
    result = _compute(owner, name, ufunc_method, inputs, options)
    if isinstance(result, tuple):
        return result if not outs else tuple(map(_fill, outs, result))
    return _fill(outs[0], result) if outs else result


def _compute(
    owner: Tensor, name: str, ufunc_method: str, inputs: Sequence[Any], given: dict[str, Any]
) -> Tensor | tuple[Tensor, ...]:
    method = UFUNCS.get(name)
    if ufunc_method == "reduce" and name in _REDUCTIONS:
        axis = given.pop("axis", 0)
        return _call(getattr(_wrap(owner, inputs[0]), _REDUCTIONS[name]), (axis,), given)
    if ufunc_method == "accumulate" and name in _SCANS:
        return _call(getattr(_wrap(owner, inputs[0]), _SCANS[name]), (given.pop("axis", 0),), given)
    if ufunc_method == "outer" and method is not None:
        left, right = (_wrap(owner, value) for value in inputs)
        inputs = left.reshape((*left.shape, *(1,) * right.ndim)), right
    if name == "divmod":
        return _call(_bind(owner, "floor_divide", inputs), (), given), _bind(
            owner, "remainder", inputs
        )()
    if name == "modf":
        return _split(_wrap(owner, inputs[0]))
    assert method is not None
    return _call(_bind(owner, method, inputs), (), given)


def _has_counterpart(ufunc: np.ufunc, ufunc_method: str, given: Mapping[str, Any]) -> bool:
    name = ufunc.__name__
    if any(n in given and not _is_default(n, given[n]) for n in _FALLBACK_ARGUMENTS):
        return False
    match ufunc_method:
        case "__call__":
            return name in UFUNCS or name in _TWO_RESULTS
        case "reduce":
            return name in _REDUCTIONS
        case "accumulate":
            return name in _SCANS
        case _:
            return ufunc_method == "outer" and name in UFUNCS


def _compute_arrays(
    ufunc: np.ufunc,
    ufunc_method: str,
    inputs: Sequence[Any],
    outs: Sequence[object],
    given: Mapping[str, Any],
) -> object:
    """Compute with numpy on the values; assign to tensors among the outputs."""
    if ufunc_method == "at":
        target, *operands = inputs
        # A copy: the array may be memory of the tensor, which only an assignment may change.
        array = _read(target).copy() if isinstance(target, Tensor) else target
        ufunc.at(array, *(cast("Any", _to_array(value)) for value in operands))
        if isinstance(target, Tensor):
            cast("Any", target)[...] = array
        return None
    named = {name: _to_array(value) for name, value in given.items()}
    if any(out is not None for out in outs):
        named["out"] = tuple(_read(out).copy() if isinstance(out, Tensor) else out for out in outs)
    result = getattr(ufunc, ufunc_method)(*map(_to_array, inputs), **named)
    if not any(isinstance(out, Tensor) for out in outs):
        return result
    results = cast("tuple[object, ...]", result if isinstance(result, tuple) else (result,))
    for out, array in zip(outs, results, strict=True):
        if isinstance(out, Tensor):
            cast("Any", out)[...] = array
    filled = tuple(array if out is None else out for out, array in zip(outs, results, strict=True))
    return filled if isinstance(result, tuple) else filled[0]


def _split(x: Tensor) -> tuple[Tensor, Tensor]:
    """Fractional and integral parts, both with the sign of `x`, as in `modf`."""
    x = to_float(x)
    integral = cast("Any", x).trunc()
    fraction = integral.eq(x).where(0.0, x.sub(integral)).copysign(x)
    return fraction, integral


def _bind(owner: Tensor, method: str, inputs: Sequence[Any]) -> Callable[..., Tensor]:
    """The method of the first operand, bound to the others."""
    first, *operands = inputs
    if not isinstance(first, Tensor):
        if is_scalar(first) and method != "matmul":
            # Python numbers are weakly typed on either side.
            operand = _wrap(owner, operands[0])
            operands[0], first = (promote_to_float if method in _FLOAT_METHODS else promote)(
                operand, first
            )
        else:
            first = _wrap(owner, first)
    operands = [value if is_scalar(value) else _wrap(owner, value) for value in operands]
    return partial(getattr(first, method), *operands)


def _call(function: Callable[..., Tensor], args: Sequence[Any], given: Mapping[str, Any]) -> Tensor:
    # Layout and casting options of numpy arrays do not apply to tensors.
    ignored = {"casting", "order", "subok", "signature", "copy"}
    kwargs = {
        name: value
        for name, value in given.items()
        if name not in ignored and not _is_default(name, value)
    }
    return function(*args, **kwargs)


def _is_default(name: str, value: object) -> bool:
    import numpy as np

    return (
        value is np._NoValue  # pyright: ignore[reportAttributeAccessIssue, reportPrivateUsage, reportUnknownMemberType]
        or (name == "where" and value is True)
        or (name == "out" and value is None)
    )


def _is_layout(name: str, value: object) -> bool:
    """Whether an argument describes arrays of numpy only: their class, device and memory order. Only
    Fortran's order changes values, in `ravel` and `reshape`.
    """
    return name in ("casting", "device", "subok") or (name == "order" and value != "F")


def _wrap(owner: Tensor, value: Any) -> Tensor:
    return as_tensor(value, owner)


def _read(x: Tensor) -> NDArray[np.generic]:
    return host_array(x)


def _fill(out: object, result: Tensor) -> object:
    """Write a result to the caller's `out`."""
    import numpy as np

    if isinstance(out, np.ndarray):
        # numpy's own rule for `out`.
        np.copyto(cast("NDArray[np.generic]", out), _read(result), casting="same_kind")
        return cast("NDArray[np.generic]", out)
    cast("Any", out)[...] = result
    return out


def call_function(
    owner: Tensor,
    function: Callable[..., Any],
    types: Iterable[type],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
) -> object:
    """Result of `__array_function__`; a numpy array, computed from values, if the function has no
    counterpart.

    Args:
        owner: a tensor among the arguments, or the argument `like`.
        function: function of numpy.
        types: types of the arguments that implement the protocol.
        args: its positional arguments.
        kwargs: its keyword arguments.
    """
    import numpy as np

    if not all(issubclass(kind, (Tensor, np.ndarray)) for kind in types):
        # numpy then asks the other type.
        return NotImplemented
    name = f"{function.__module__}.{function.__name__}".removeprefix("numpy.")
    counterpart = FUNCTIONS.get(name)
    if counterpart is None:
        return function(
            *map(_to_array, args), **{name: _to_array(value) for name, value in kwargs.items()}
        )
    options = {
        name: value
        for name, value in kwargs.items()
        if not (_is_default(name, value) or _is_layout(name, value))
    }
    out = options.pop("out", None)
    try:
        # Arguments that only numpy knows lead to numpy, on the values. A name that is new to both
        # does not arrive here: numpy's own dispatcher raises.
        bound = signature(counterpart).bind(owner, *args, **options)
    except TypeError:
        return function(
            *map(_to_array, args), **{n: _to_array(value) for n, value in kwargs.items()}
        )
    result = counterpart(*bound.args, **bound.kwargs)
    return result if out is None else _fill(out, result)


def _to_array(value: Any) -> object:
    """Replace tensors by arrays, in lists and dicts too."""
    if isinstance(value, Tensor):
        return _read(value)
    if isinstance(value, (list, tuple)):
        arrays = map(_to_array, cast("Sequence[object]", value))
        return list(arrays) if isinstance(value, list) else tuple(arrays)
    if isinstance(value, dict):
        return {key: _to_array(item) for key, item in cast("dict[object, object]", value).items()}
    return cast("object", value)


def _reduce(method: str) -> Callable[..., Tensor]:
    def reduce(owner: Tensor, a: Any, axis: Axis = None, *, keepdims: bool = False) -> Tensor:
        return getattr(_wrap(owner, a), method)(axis, keepdims=keepdims)

    return reduce


def _sum_like(method: str) -> Callable[..., Tensor]:
    def reduce(
        owner: Tensor, a: Any, axis: Axis = None, dtype: Any = None, *, keepdims: bool = False
    ) -> Tensor:
        return getattr(_wrap(owner, a), method)(axis, keepdims=keepdims, dtype=dtype)

    return reduce


def _nan_sum_like(method: str) -> Callable[..., Tensor]:
    def reduce(
        owner: Tensor, a: Any, axis: Axis = None, dtype: Any = None, *, keepdims: bool = False
    ) -> Tensor:
        x = _wrap(owner, a)
        x = x if dtype is None else x.cast(dtype)
        return getattr(x, method)(axis, keepdims=keepdims)

    return reduce


def _average(method: str) -> Callable[..., Tensor]:
    def reduce(
        owner: Tensor,
        a: Any,
        axis: Axis = None,
        dtype: Any = None,
        *,
        ddof: float = 0,
        correction: float | None = None,
        keepdims: bool = False,
    ) -> Tensor:
        x = _wrap(owner, a)
        x = x if dtype is None else x.cast(dtype)
        extra = (
            {}
            if method in ("mean", "nanmean")
            else {"correction": ddof if correction is None else correction}
        )
        return getattr(x, method)(axis, keepdims=keepdims, **extra)

    return reduce


def _scan(method: str) -> Callable[..., Tensor]:
    def scan(owner: Tensor, a: Any, axis: int | None = None, dtype: Any = None) -> Tensor:
        return getattr(_wrap(owner, a), method)(axis, dtype=dtype)

    return scan


def _method(method: str) -> Callable[..., Any]:
    """A tensor method whose further arguments are numpy's."""

    def call(owner: Tensor, a: Any, *args: Any, **kwargs: Any) -> object:
        return getattr(_wrap(owner, a), method)(*args, **kwargs)

    return _with_parameters(call, method, n_tensors=1)


def _property(name: str) -> Callable[..., object]:
    """A property of a tensor."""

    def ask(owner: Tensor, a: Any) -> object:
        return getattr(_wrap(owner, a), name)

    return ask


def _binary_method(method: str) -> Callable[..., Any]:
    """A method of a tensor with a tensor argument."""

    def call(owner: Tensor, a: Any, b: Any, *args: Any, **kwargs: Any) -> object:
        return getattr(_wrap(owner, a), method)(_wrap(owner, b), *args, **kwargs)

    return _with_parameters(call, method, n_tensors=2)


def _with_parameters(
    call: Callable[..., object], method: str, *, n_tensors: int
) -> Callable[..., Any]:
    """Give a function, whose first parameters are its owner and tensors, the further parameters of a
    method of tensors.
    """
    own = signature(call)
    first = list(own.parameters.values())[: n_tensors + 1]
    further = list(signature(getattr(Tensor, method)).parameters.values())[n_tensors:]
    first = [parameter.replace(kind=Parameter.POSITIONAL_ONLY) for parameter in first]
    setattr(call, "__signature__", Signature([*first, *further]))  # noqa: B010
    return call


def _concatenate(
    owner: Tensor, arrays: Iterable[Any], /, axis: int | None = 0, *, dtype: Any = None
) -> Tensor:
    joined = type(owner).concat([_wrap(owner, a) for a in arrays], axis=axis)
    return joined if dtype is None else joined.cast(dtype)


def _stack(owner: Tensor, arrays: Iterable[Any], axis: int = 0, *, dtype: Any = None) -> Tensor:
    joined = type(owner).stack([_wrap(owner, a) for a in arrays], axis=axis)
    return joined if dtype is None else joined.cast(dtype)


def _at_least(n_axes: int) -> Callable[..., object]:
    def extend(owner: Tensor, *arrays: Any) -> object:
        extended = [_wrap(owner, a) for a in arrays]
        for i, x in enumerate(extended):
            # numpy puts the new axes first, but the last of three at the end.
            n_trailing = 1 if n_axes == 3 and x.ndim in (1, 2) else 0
            n_leading = max(0, n_axes - x.ndim - n_trailing)
            sizes = (*(1,) * n_leading, *x.shape, *(1,) * n_trailing)
            extended[i] = x.reshape(sizes) if len(sizes) > x.ndim else x
        return extended[0] if len(extended) == 1 else tuple(extended)

    return extend


def _stack_along(n_axes: int, axis: int) -> Callable[..., Tensor]:
    """`vstack` and its kin: concatenation of arrays with at least `n_axes` axes."""

    def stack(owner: Tensor, tup: Iterable[Any], *, dtype: Any = None) -> Tensor:
        arrays = [cast("Tensor", _at_least(n_axes)(owner, a)) for a in tup]
        # `hstack` joins vectors along their only axis.
        return _concatenate(owner, arrays, min(axis, arrays[0].ndim - 1), dtype=dtype)

    return stack


def _where(owner: Tensor, condition: Any, x: Any, y: Any, /) -> Tensor:
    chosen = _wrap(owner, condition)
    return (chosen if chosen.dtype.is_bool else chosen.ne(0)).where(x, y)


def _transpose(owner: Tensor, a: Any, axes: Sequence[int] | None = None) -> Tensor:
    x = _wrap(owner, a)
    return x.permute(tuple(range(x.ndim))[::-1] if axes is None else tuple(axes))


def _dot(owner: Tensor, a: Any, b: Any) -> Tensor:
    x, y = _wrap(owner, a), _wrap(owner, b)
    if x.ndim == 0 or y.ndim == 0:
        return x.mul(y)
    # Contract the last axis of the first with the second-to-last axis of the second.
    return cast("Any", x).tensordot(y, ((-1,), (-1 if y.ndim == 1 else -2,)))


def _outer(owner: Tensor, a: Any, b: Any) -> Tensor:
    return cast("Any", _wrap(owner, a).flatten()).outer(_wrap(owner, b).flatten())


def _sort(
    owner: Tensor,
    a: Any,
    axis: int | None = -1,
    kind: str | None = None,
    *,
    stable: bool | None = None,
) -> Tensor:
    # Every sort of tensors is stable, which all kinds of numpy allow.
    x = _wrap(owner, a)
    x, axis = (x.flatten(), -1) if axis is None else (x, axis)
    return x.take_along_axis(x.argsort(axis), axis)


def _argsort(
    owner: Tensor,
    a: Any,
    axis: int | None = -1,
    kind: str | None = None,
    *,
    stable: bool | None = None,
) -> Tensor:
    x = _wrap(owner, a)
    return x.flatten().argsort() if axis is None else x.argsort(axis)


def _reshape(owner: Tensor, a: Any, /, shape: Any) -> Tensor:
    return _wrap(owner, a).reshape(shape)


def _ravel(owner: Tensor, /, a: Any, order: str = "C") -> Tensor:
    x = _wrap(owner, a)
    return _transpose(owner, x).flatten() if order == "F" else x.flatten()


def _isin(
    owner: Tensor,
    /,
    element: Any,
    test_elements: Any,
    assume_unique: bool = False,
    invert: bool = False,
    *,
    kind: str | None = None,
) -> Tensor:
    # `assume_unique` and `kind` only choose numpy's algorithm.
    x = cast("Any", _wrap(owner, element))
    return x.isin(_wrap(owner, test_elements), invert=invert)


def _partition(
    owner: Tensor, /, a: Any, kth: Any, axis: int | None = -1, kind: str = "introselect"
) -> Tensor:
    # A sorted tensor is partitioned at every index.
    return _sort(owner, a, axis)


def _argpartition(
    owner: Tensor, /, a: Any, kth: Any, axis: int | None = -1, kind: str = "introselect"
) -> Tensor:
    return _argsort(owner, a, axis)


def _pad(
    owner: Tensor, array: Any, pad_width: Any, mode: str = "constant", **options: Any
) -> object:
    import numpy as np

    x = _wrap(owner, array)
    filling = options.get("constant_values", 0)
    is_known = mode == "constant" and is_scalar(filling)
    if not is_known and (options or mode not in ("edge", "reflect", "symmetric", "wrap")):
        return np.pad(_read(x), pad_width, mode, **options)  # pyright: ignore[reportCallIssue, reportArgumentType, reportUnknownVariableType]
    # numpy's short forms: one number for all sides, or one pair for all axes.
    pairs = [tuple(pair) for pair in np.broadcast_to(np.asarray(pad_width), (x.ndim, 2)).tolist()]
    return cast("Any", x).pad(pairs, mode=mode, constant_values=filling)


def _clip(
    owner: Tensor, a: Any, a_min: Any = None, a_max: Any = None, *, min: Any = None, max: Any = None
) -> Tensor:
    return _wrap(owner, a).clip(a_min if min is None else min, a_max if max is None else max)


def _like(value: bool | int | float) -> Callable[..., Tensor]:
    def make(
        owner: Tensor,
        /,
        prototype: Any = None,
        dtype: Any = None,
        order: str = "K",
        subok: bool = True,
        shape: int | Sequence[int] | None = None,
        *,
        device: str | None = None,
        a: Any = None,
    ) -> Tensor:
        # `empty_like` calls the array `prototype`, the others `a`.
        like = a if prototype is None else prototype
        return _full_like(owner, like, value, dtype, order, subok, shape, device=device)

    return make


def _full_like(
    owner: Tensor,
    /,
    a: Any,
    fill_value: Any,
    dtype: Any = None,
    order: str = "K",
    subok: bool = True,
    shape: int | Sequence[int] | None = None,
    *,
    device: str | None = None,
) -> Tensor:
    # `order` and `subok` describe numpy's own arrays, and its only device is the host.
    x = _wrap(owner, a)
    if shape is None:
        return x.full_like(fill_value, dtype=dtype)
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    kind = x.dtype if dtype is None else to_dtype(dtype)
    return cast("Any", type(owner)).full(sizes, fill_value, dtype=kind, device=_device_of(x))


def _device_of(x: Tensor) -> str | None:
    return x.device if isinstance(x.device, str) else None


def _create(name: str) -> Callable[..., Tensor]:
    """A function of numpy that creates arrays, here with a tensor as `like`: its array becomes a
    tensor on the device of `like`.
    """

    def create(like: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        import numpy as np

        source = args[0] if args else None
        if isinstance(source, Tensor):
            x = source if (dtype := kwargs.get("dtype")) is None else source.cast(dtype)
            n_new = max(0, kwargs.get("ndmin", 0) - x.ndim)
            return x.reshape((*(1,) * n_new, *x.shape))
        return _wrap(like, getattr(np, name)(*map(_to_array, args), **kwargs))

    return create


def _norm(
    owner: Tensor, x: Any, ord: Any = None, axis: Axis = None, keepdims: bool = False
) -> Tensor:
    tensor = cast("Any", _wrap(owner, x))
    if ord is None:
        # Without `ord`, the norm of all elements, as a vector.
        return tensor.norm(axis, keepdims=keepdims)
    axes = tuple(range(tensor.ndim)) if axis is None else axis
    return tensor.norm(axes, ord=ord, keepdims=keepdims)


def _einsum(
    owner: Tensor,
    /,
    formula: str,
    *operands: Any,
    dtype: Any = None,
    order: str = "K",
    casting: str = "safe",
    optimize: object = False,
) -> Tensor:
    # As in numpy, the calculation is in `dtype`. The order of contractions is svod's own.
    tensors = [_wrap(owner, o) for o in operands]
    if dtype is not None:
        tensors = [tensor.cast(dtype) for tensor in tensors]
    return cast("Any", type(owner)).einsum(formula, *tensors)


def _result_type(_owner: Tensor, *values: Any) -> np.dtype:
    import numpy as np

    return np.result_type(
        *(to_dtype(v.dtype).numpy if isinstance(v, Tensor) else v for v in values)
    )


def _all_of(method: str) -> Callable[..., bool]:
    def call(owner: Tensor, a: Any, b: Any, *args: Any, **kwargs: Any) -> bool:
        return bool(getattr(_wrap(owner, a), method)(b, *args, **kwargs).all().item())

    return call


def _array_equal(owner: Tensor, a1: Any, a2: Any) -> bool:
    x, y = _wrap(owner, a1), _wrap(owner, a2)
    return x.shape == y.shape and bool(cast("Any", x.eq(y)).all().item())


FUNCTIONS: Final[Mapping[str, Callable[..., Any]]] = {
    **{
        name: _reduce(name)
        for name in (
            "max",
            "min",
            "amax",
            "amin",
            "any",
            "all",
            "argmax",
            "argmin",
            "count_nonzero",
            "nanmax",
            "nanmin",
        )
    },
    **{name: _sum_like(name) for name in ("sum", "prod")},
    **{name: _nan_sum_like(name) for name in ("nansum", "nanprod")},
    **{name: _scan(name) for name in ("cumsum", "cumprod")},
    **{name: _average(name) for name in ("mean", "std", "var", "nanmean", "nanvar", "nanstd")},
    **{
        name: _method(name)
        for name in (
            "moveaxis",
            "squeeze",
            "flip",
            "roll",
            "tril",
            "triu",
            "take",
            "tile",
            "diff",
            "round",
            "isclose",
            "copy",
            "expand_dims",
            "repeat",
            "broadcast_to",
        )
    },
    **{name: _binary_method(name) for name in ("take_along_axis", "searchsorted", "tensordot")},
    **LIBRARIES,
    **SAMPLES,
    "concatenate": _concatenate,
    "stack": _stack,
    "vstack": _stack_along(2, 0),
    "hstack": _stack_along(1, 1),
    "dstack": _stack_along(3, 2),
    "atleast_1d": _at_least(1),
    "atleast_2d": _at_least(2),
    "atleast_3d": _at_least(3),
    "where": _where,
    "transpose": _transpose,
    "permute_dims": _transpose,
    "swapaxes": _method("transpose"),
    "reshape": _reshape,
    "ravel": _ravel,
    "isin": _isin,
    "partition": _partition,
    "argpartition": _argpartition,
    "pad": _pad,
    "sort": _sort,
    "argsort": _argsort,
    "clip": _clip,
    "around": _method("round"),
    "dot": _dot,
    "outer": _outer,
    "einsum": _einsum,
    "linalg.norm": _norm,
    "linalg.matmul": _binary_method("matmul"),
    **{
        name: _create(name)
        for name in (
            "arange",
            "array",
            "asanyarray",
            "asarray",
            "ascontiguousarray",
            "empty",
            "eye",
            "frombuffer",
            "fromfunction",
            "fromiter",
            "full",
            "identity",
            "ones",
            "tri",
            "zeros",
        )
    },
    "zeros_like": _like(0),
    "ones_like": _like(1),
    "full_like": _full_like,
    "empty_like": _like(0),
    "shape": _property("shape"),
    "ndim": _property("ndim"),
    "size": _property("size"),
    "result_type": _result_type,
    "allclose": _all_of("isclose"),
    "array_equal": _array_equal,
}
"""Counterpart of each numpy function, by its name without the package. The first argument is a
tensor among the arguments, the others are numpy's.
"""
