"""Decoding of the values between a line's brackets to the `arg` of its op."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar, cast

from svod_dtype import AddressSpace, DType, cast_value, find_dtype
from svod_ir._sharding import Mesh, MeshLayout
from svod_ir.args import GradientRule, KernelInfo, Mark, Opt, OptOp, RepeatArg
from svod_ir.ops import ARG_TYPES, AxisType, Op
from svod_ir.target import TensorCore
from svod_ir.text.reader import Reader, Record, Symbol
from svod_ir.uop import UOp

__all__ = ["decode_arg"]

T = TypeVar("T")


def decode_arg(reader: Reader, op: Op, dtype: DType, values: tuple[object, ...] | None) -> object:
    """Decode the arg of a node from the values between its brackets; None if there are no brackets.

    Raises:
        ParseError: if the op does not take these values.
    """
    decode = _ARGS.get(op)
    if decode is None and op not in ARG_TYPES:
        if values is not None:
            raise reader.error(f"{op.name} takes no arg")
        return None
    if values is None:
        # The printer omits the brackets of an arg that is None.
        if op in _OPTIONAL:
            return None
        raise reader.error(f"{op.name} needs an arg in brackets")
    try:
        # Decoders raise Python's errors; only here the line is known.
        return _decode_fields(op, values) if decode is None else decode(dtype, values)
    except (TypeError, ValueError, KeyError, IndexError) as error:
        raise reader.error(f"invalid arg of {op.name}: {error}") from error


Values = Sequence[object]


def _only(values: Values) -> object:
    if len(values) != 1:
        raise ValueError(f"expected one value, got {len(values)}")
    return values[0]


def _int(value: object) -> int:
    # True is an int in Python.
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{_spell(value)} is not an integer")
    return value


def _of_type(kind: type[T], name: str) -> Callable[[object], T]:
    """Make the decoder of a value that has a type already."""

    def decode(value: object) -> T:
        if not isinstance(value, kind):
            raise TypeError(f"{_spell(value)} is not {name}")
        return value

    return decode


# The printer writes a point or an exponent, so an integer is no float of an arg.
_float: Final = _of_type(float, "a float")
_text: Final = _of_type(str, "text")
_flag: Final = _of_type(bool, "true or false")
_node: Final = _of_type(UOp, "a node such as %0")


def _tuple(value: object) -> tuple[object, ...]:
    # Named tuples of the reader are tuples too.
    if not isinstance(value, tuple) or isinstance(value, (Symbol, Record)):
        raise TypeError(f"{_spell(value)} is not a tuple")
    return cast("tuple[object, ...]", value)


def _spell(value: object) -> str:
    return value.name if isinstance(value, (Symbol, Record)) else repr(value)


def _symbol(members: dict[str, Any], value: object) -> Any:
    if not isinstance(value, Symbol) or value.name not in members:
        raise ValueError(
            f"{_spell(value)} is not one of {', '.join(members)}"
            if len(members) < 20
            else f"unknown name {_spell(value)}"
        )
    return members[value.name]


def _op(value: object) -> Op:
    return _symbol(dict(Op.__members__), value)


def _decode_scalar(dtype: DType, value: object) -> bool | int | float:
    # Before numbers, since true and false are ints in Python.
    if dtype.is_bool:
        if not isinstance(value, bool):
            raise TypeError(f"{_spell(value)} is not true or false")
        return value
    if (
        isinstance(value, bool)
        or not isinstance(value, (int, float))
        or (isinstance(value, float) and not dtype.is_float)
    ):
        raise TypeError(f"{_spell(value)} is not a number of {dtype}")
    if dtype.is_float:
        return float(value)
    # A printed constant is in range; wrapping a hand-written one would hide a mistake.
    if cast_value(value, dtype) != value:
        raise ValueError(f"{value} is out of range for {dtype}")
    return value


def _fields(values: Values, *decoders: Callable[[object], Any], optional: int = 0) -> list[Any]:
    """Decode each value with its decoder; the last `optional` ones may be missing."""
    if not len(decoders) - optional <= len(values) <= len(decoders):
        raise ValueError(f"expected {len(decoders)} values, got {len(values)}")
    return [decode(value) for decode, value in zip(decoders, values, strict=False)]


def _decode_fields(op: Op, values: Values) -> object:
    kind: Any = ARG_TYPES[op]
    return kind(*_fields(values, *_FIELDS[op], optional=len(kind._field_defaults)))


def _or_none(decode: Callable[[object], Any]) -> Callable[[object], Any]:
    return lambda value: None if value is None else decode(value)


def _opt(value: object) -> Opt:
    if not isinstance(value, Record):
        raise TypeError(f"{_spell(value)} is not an opt such as UPCAST(0, 4)")
    kind = _symbol(dict(OptOp.__members__), Symbol(value.name))
    return Opt(kind, *_fields(value.fields, _or_none(_int), _or_none(_int), optional=2))


def _opts(value: object) -> tuple[Opt, ...]:
    return tuple(_opt(v) for v in _tuple(value))


def _ints(_: DType, values: Values) -> tuple[int, ...]:
    return tuple(_int(v) for v in values)


def _sizes(_: DType, values: Values) -> tuple[int | None, ...]:
    return tuple(None if v is None else _int(v) for v in values)


def _dtype(value: object) -> DType:
    dtype = find_dtype(value.name) if isinstance(value, Symbol) else None
    if dtype is None:
        raise ValueError(f"{_spell(value)} is not a dtype")
    return dtype


def _tensor_core(_: DType, values: Values) -> TensorCore:
    def dtypes(value: object) -> tuple[DType, ...]:
        return tuple(_dtype(v) for v in _tuple(value))

    return TensorCore(*_fields(values, _axes, _int, dtypes, _float, _int, optional=2))


def _bytes(_: DType, values: Values) -> bytes:
    value = _only(values)
    if not isinstance(value, bytes):
        raise TypeError(f'{_spell(value)} is not hex"..."')
    return value


def _flags(_: DType, values: Values) -> tuple[bool, ...]:
    if not all(isinstance(v, bool) for v in values):
        raise TypeError("expected true or false for each axis")
    return tuple(bool(v) for v in values)


def _decode_single(decode: Callable[[object], Any]) -> Callable[[DType, Values], Any]:
    return lambda _, values: decode(_only(values))


def _nodes(value: object) -> tuple[UOp, ...]:
    return tuple(_node(v) for v in _tuple(value))


def _axis_type(value: object) -> AxisType:
    return _symbol(dict(AxisType.__members__), value)


def _space(value: object) -> AddressSpace:
    return _symbol(dict(AddressSpace.__members__), value)


def _parameters(value: object) -> tuple[object, ...]:
    """Decode nested tuples of values that have a text form."""
    return tuple(_dtype(v) if isinstance(v, Symbol) else _nested(v) for v in _tuple(value))


def _nested(value: object) -> object:
    return _parameters(cast("object", value)) if isinstance(value, tuple) else value


def _axes(value: object) -> tuple[int, ...]:
    return tuple(_int(v) for v in _tuple(value))


def _mesh(value: object) -> Mesh:
    names, sizes, position, device, transport = _tuple(value)
    return Mesh(
        tuple(map(_text, _tuple(names))),
        _axes(sizes),
        _axes(position),
        _text(device),
        _text(transport),
    )


def _layout_axes(value: object) -> tuple[int | None, ...]:
    return tuple(map(_or_none(_int), _tuple(value)))


def _parts(value: object) -> tuple[tuple[int, ...], ...]:
    return tuple(map(_axes, _tuple(value)))


def _arrangement(_: DType, values: Values) -> int | MeshLayout:
    if len(values) == 1:
        return _int(values[0])
    return MeshLayout(*_fields(values, *_FIELDS[Op.RESHARD]))


_FIELDS: Final[dict[Op, tuple[Callable[[object], Any], ...]]] = {
    Op.DEFINE_VAR: (_text, _int, _int),
    Op.RANGE: (_int, _axis_type),
    Op.DEFINE_LOCAL: (_int, _int),
    Op.DEFINE_REG: (_int, _int),
    Op.BUFFER: (_int, _int, _text),
    Op.BUFFER_VIEW: (_int, _int),
    Op.PARAM: (_int, _int, _or_none(_text)),
    Op.BUFFERIZE: (_text, _space, _int),
    Op.LOOP: (_node, _int, _int, _or_none(_text), _flag, _flag, _flag),
    Op.SWITCH: (_nodes,),
    Op.REDUCE_AXIS: (_op, _axes),
    Op.SCAN_AXIS: (_op, _int),
    Op.SCATTER: (_int, _or_none(_op)),
    Op.ALLREDUCE: (_op, _text),
    Op.RESHARD: (_mesh, _layout_axes, _parts),
    Op.CHECK: (_text, _or_none(_int), _or_none(_int)),
    Op.GRADIENT: (lambda value: GradientRule(_text(value)), _parameters, _int),
}
"""Decoders of the fields of the args in `ARG_TYPES`."""

_OPTIONAL: Final = frozenset({Op.IOTA, Op.MULTI, Op.SINK, Op.CALL, Op.WMMA, Op.PROGRAM})

_ARGS: Final[dict[Op, Callable[[DType, Values], object]]] = {
    Op.CONST: lambda dtype, values: _decode_scalar(dtype, _only(values)),
    Op.VCONST: lambda dtype, values: tuple(_decode_scalar(dtype.scalar, v) for v in values),
    Op.IOTA: _decode_single(_int),
    Op.SPECIAL: _decode_single(_text),
    Op.COPY: _decode_single(_text),
    Op.MSELECT: _decode_single(_int),
    Op.RESULT: _decode_single(_int),
    Op.TRACED: _decode_single(lambda value: Mark(_int(value))),
    Op.RESHAPE: _sizes,
    Op.EXPAND: _sizes,
    Op.PAD: _sizes,
    Op.SHRINK: _sizes,
    Op.PERMUTE: _ints,
    Op.FLIP: _flags,
    Op.GATHER: _decode_single(_int),
    Op.MULTI: _arrangement,
    Op.REDUCE: _decode_single(_op),
    Op.SCAN: _decode_single(_op),
    Op.CARRY: _decode_single(_int),
    Op.SINK: lambda _, values: KernelInfo(*_fields(values, _text, _or_none(_opts), optional=1)),
    Op.CALL: lambda _, values: RepeatArg(
        *_fields(
            values,
            _int,
            _int,
            _int,
            _axes,
            _or_none(_text),
            _flag,
            _flag,
            _flag,
            _or_none(_int),
            _int,
        )
    ),
    Op.PROGRAM: _decode_single(_text),
    Op.SOURCE: _decode_single(_text),
    Op.PROGRAM_BINARY: _bytes,
    Op.CUSTOM: _decode_single(_text),
    Op.CUSTOM_FUNCTION: _decode_single(_text),
    Op.GEP: _ints,
    Op.WMMA: _tensor_core,
}
