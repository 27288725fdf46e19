"""Scalar and vector element types.

`DType`s are interned: equal types are the same object, so `is` compares them. A type with `lanes >
1` is a SIMD vector of its scalar type. Memory objects have element types; there are no pointer
types.
"""

from __future__ import annotations

import builtins
import math
import re
import struct
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final, Literal

from svod_dtype.errors import UnknownDTypeError

if TYPE_CHECKING:
    import numpy as np

__all__ = [
    "ALL_DTYPES",
    "COMPLEX_DTYPES",
    "FLOAT_DTYPES",
    "INTEGER_DTYPES",
    "DType",
    "Kind",
    "bfloat16",
    "bool_",
    "cast_value",
    "complex64",
    "complex128",
    "default_complex",
    "default_float",
    "find_dtype",
    "float8_e4m3",
    "float8_e5m2",
    "float16",
    "float32",
    "float64",
    "index",
    "int8",
    "int16",
    "int32",
    "int64",
    "process_default",
    "round_float",
    "scoped_default",
    "to_dtype",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "void",
]

Kind = Literal["void", "bool", "uint", "int", "float", "complex", "index"]
Scalar = bool | int | float

_interned: dict[tuple[str, int], DType] = {}


class DType:
    """Element type with `name`, `kind`, `itemsize` of one lane in bytes, and `lanes`.

    `short` is the name in textual IR: `f32`, `i8`, `bool`, `index`; vectors append `x16`.
    `exponent_bits` and `mantissa_bits` are 0 for non-float types.
    """

    __slots__ = (
        "exponent_bits",
        "itemsize",
        "kind",
        "lanes",
        "mantissa_bits",
        "name",
        "scalar",
        "short",
    )

    name: str
    short: str
    kind: Kind
    itemsize: int
    lanes: int
    exponent_bits: int
    mantissa_bits: int
    scalar: DType

    def __init__(
        self,
        name: str,
        short: str,
        kind: Kind,
        itemsize: int,
        *,
        exponent_bits: int = 0,
        mantissa_bits: int = 0,
        lanes: int = 1,
        scalar: DType | None = None,
    ) -> None:
        self.name, self.short, self.kind, self.itemsize, self.lanes = (
            name,
            short,
            kind,
            itemsize,
            lanes,
        )
        self.exponent_bits, self.mantissa_bits = exponent_bits, mantissa_bits
        self.scalar = self if scalar is None else scalar
        _interned[(name, lanes)] = self

    def __repr__(self) -> str:
        return self.name if self.lanes == 1 else f"{self.name}x{self.lanes}"

    def __eq__(self, other: object) -> bool:
        if isinstance(other, DType):
            return self is other
        # As in numpy, a dtype equals names, numpy dtypes and types, and Python types that denote
        # it.
        try:
            return self is to_dtype(other)
        except UnknownDTypeError:
            return NotImplemented

    # `__eq__` would disable hashing. Identity hashes differ from those of equal names and numpy
    # dtypes, as numpy's do.
    __hash__ = object.__hash__

    # Pickles and copies must preserve identity, since dtypes are compared by `is`.
    def __reduce__(self) -> tuple[object, tuple[str, int]]:
        return _restore, (self.name, self.lanes)

    def __copy__(self) -> DType:
        return self

    def __deepcopy__(self, _memo: object) -> DType:
        return self

    def vec(self, lanes: int) -> DType:
        """Return the vector of `lanes` >= 1 lanes of this scalar type; 1 lane is the scalar itself.

        Raises:
            ValueError: if `lanes` is less than 1, or the dtype is void.
        """
        scalar = self.scalar
        if lanes == 1:
            return scalar
        interned = _interned.get((scalar.name, lanes))
        if interned is not None:
            return interned
        if lanes < 1 or scalar.kind == "void":
            raise ValueError(f"vec: {scalar} has no vectors of {lanes} lanes")
        return DType(
            scalar.name,
            f"{scalar.short}x{lanes}",
            scalar.kind,
            scalar.itemsize,
            lanes=lanes,
            scalar=scalar,
            exponent_bits=scalar.exponent_bits,
            mantissa_bits=scalar.mantissa_bits,
        )

    @property
    def nbytes(self) -> int:
        """Size in bytes of all lanes."""
        return self.itemsize * self.lanes

    @property
    def bits(self) -> int:
        """Number of bits of one lane; 1 for bool."""
        return 1 if self.kind == "bool" else self.itemsize * 8

    @property
    def is_float(self) -> bool:
        return self.kind == "float"

    @property
    def is_complex(self) -> bool:
        return self.kind == "complex"

    @property
    def is_inexact(self) -> bool:
        """True for floats and complex types."""
        return self.kind in ("float", "complex")

    @property
    def part(self) -> DType:
        """Float type of a complex type's real and imaginary parts; other types return themselves."""
        return _PARTS.get(self, self)

    @property
    def is_int(self) -> bool:
        """True for signed, unsigned and index types; false for bool."""
        return self.kind in ("int", "uint", "index")

    @property
    def is_signed(self) -> bool:
        return self.kind in ("int", "index")

    @property
    def is_unsigned(self) -> bool:
        return self.kind == "uint"

    @property
    def is_bool(self) -> bool:
        return self.kind == "bool"

    @property
    def min(self) -> Scalar:
        """Smallest value: `-inf` for float types with infinities, else the smallest finite value.

        Raises:
            ValueError: if the dtype is complex or void.
        """
        match self.kind:
            case "bool":
                return False
            case "uint":
                return 0
            case "int" | "index":
                return -(1 << (self.bits - 1))
            case "float":
                return -self.max
            case "complex":
                raise ValueError(f"{self} is not ordered: it has no min and max")
            case "void":
                raise ValueError("void has no values")

    @property
    def max(self) -> Scalar:
        """Largest value: `inf` for float types with infinities, else the largest finite value.

        Raises:
            ValueError: if the dtype is complex or void.
        """
        match self.kind:
            case "bool":
                return True
            case "uint":
                return (1 << self.bits) - 1
            case "int" | "index":
                return (1 << (self.bits - 1)) - 1
            case "float":
                return self.finfo_max if self.scalar is float8_e4m3 else math.inf
            case "complex":
                raise ValueError(f"{self} is not ordered: it has no min and max")
            case "void":
                raise ValueError("void has no values")

    @property
    def finfo_max(self) -> float:
        """Largest finite value of a float type."""
        if self.scalar is float8_e4m3:
            # Its largest exponent has finite values too: only one mantissa is reserved for NaN.
            return 448.0
        bias = (1 << (self.exponent_bits - 1)) - 1
        return math.ldexp(2.0 - math.ldexp(1.0, -self.mantissa_bits), bias)

    @property
    def finfo_eps(self) -> float:
        """Distance from 1.0 to the next larger value of a float type."""
        return math.ldexp(1.0, -self.mantissa_bits)

    @property
    def numpy(self) -> np.dtype:
        """Equivalent numpy dtype, from ml_dtypes for bfloat16 and float8."""
        cached = _numpy_of.get(self)
        if cached is None:
            cached = _numpy_of[self] = self._make_numpy()
        return cached

    def _make_numpy(self) -> np.dtype:
        import numpy as np

        if self.scalar in (bfloat16, float8_e4m3, float8_e5m2):
            import ml_dtypes

            extended = {
                "bfloat16": ml_dtypes.bfloat16,
                "float8_e4m3": ml_dtypes.float8_e4m3fn,
                "float8_e5m2": ml_dtypes.float8_e5m2,
            }
            return np.dtype(extended[self.name])
        if self.kind == "index":
            return np.dtype("int64")
        return np.dtype(self.name)

    dtype = numpy
    """Attribute that `numpy.dtype(x)` reads, so that numpy functions accept a `DType`."""

    hasobject = False
    """As in numpy: no dtype holds references to Python objects."""

    @property
    def type(self) -> builtins.type[np.generic]:
        """numpy's class of scalars, as in numpy: `float32.type is np.float32`."""
        return self.numpy.type


def _restore(name: str, lanes: int) -> DType:
    return _interned[(name, 1)].vec(lanes)


void: Final = DType("void", "void", "void", 0)
"""Dtype of nodes without a value, such as stores."""
bool_: Final = DType("bool", "bool", "bool", 1)
"""Truth value, one byte in memory."""
int8: Final = DType("int8", "i8", "int", 1)
"""Signed 8-bit integer."""
uint8: Final = DType("uint8", "u8", "uint", 1)
"""Unsigned 8-bit integer."""
int16: Final = DType("int16", "i16", "int", 2)
"""Signed 16-bit integer."""
uint16: Final = DType("uint16", "u16", "uint", 2)
"""Unsigned 16-bit integer."""
int32: Final = DType("int32", "i32", "int", 4)
"""Signed 32-bit integer."""
uint32: Final = DType("uint32", "u32", "uint", 4)
"""Unsigned 32-bit integer."""
int64: Final = DType("int64", "i64", "int", 8)
"""Signed 64-bit integer."""
uint64: Final = DType("uint64", "u64", "uint", 8)
"""Unsigned 64-bit integer."""
float8_e4m3: Final = DType("float8_e4m3", "f8e4m3", "float", 1, exponent_bits=4, mantissa_bits=3)
"""8-bit float with 4 bits of exponent and 3 of mantissa, for values."""
float8_e5m2: Final = DType("float8_e5m2", "f8e5m2", "float", 1, exponent_bits=5, mantissa_bits=2)
"""8-bit float with 5 bits of exponent and 2 of mantissa, for gradients."""
float16: Final = DType("float16", "f16", "float", 2, exponent_bits=5, mantissa_bits=10)
"""IEEE 754 half precision."""
bfloat16: Final = DType("bfloat16", "bf16", "float", 2, exponent_bits=8, mantissa_bits=7)
"""Upper half of a float32: its range, with 7 bits of mantissa."""
float32: Final = DType("float32", "f32", "float", 4, exponent_bits=8, mantissa_bits=23)
"""IEEE 754 single precision, the default of floats."""
float64: Final = DType("float64", "f64", "float", 8, exponent_bits=11, mantissa_bits=52)
"""IEEE 754 double precision."""
complex64: Final = DType("complex64", "c64", "complex", 8)
"""Two float32, the real part first."""
complex128: Final = DType("complex128", "c128", "complex", 16)
"""Two float64, the real part first."""
index: Final = DType("index", "index", "index", 8)
"""Dtype of sizes and indices in the IR, before a pass chooses int32 or int64."""

_PARTS: Final = {complex64: float32, complex128: float64}

INTEGER_DTYPES: Final = (int8, uint8, int16, uint16, int32, uint32, int64, uint64)
"""Integers, the narrow ones first."""
FLOAT_DTYPES: Final = (float8_e4m3, float8_e5m2, float16, bfloat16, float32, float64)
"""Floats, the narrow ones first."""
ALL_DTYPES: Final = (bool_, *INTEGER_DTYPES, *FLOAT_DTYPES)
"""All dtypes of memory and kernels; `void` and `index` exist only in the IR."""
COMPLEX_DTYPES: Final = (complex64, complex128)
"""Complex dtypes of tensors. Memory and kernels represent them as pairs of floats."""

_named: Final = (*ALL_DTYPES, *COMPLEX_DTYPES, void, index)
_by_name: Final = {d.name: d for d in _named} | {d.short: d for d in _named}
_by_name.update(
    {
        "half": float16,
        "float": float32,
        "double": float64,
        "complex": complex64,
        "bool_": bool_,
        "float8_e4m3fn": float8_e4m3,
    }
)

_AMBIGUOUS: Final = {"i8": (int8, int64), "u8": (uint8, uint64)}
"""Ambiguous short names: svod counts bits, numpy counts bytes."""

_NUMPY_NAMES: Final = re.compile(r"[<>=|]?([?bBhHiIlLqQefdFD]|b1|[iu][1248]|f[248]|c8|c16)")
"""numpy's type codes of svod's dtypes, with an optional byte order."""

# Cached, since numpy builds the name of a dtype at each access.
_by_numpy: Final[dict[object, DType]] = {}
_numpy_of: Final[dict[DType, np.dtype]] = {}


def find_dtype(spelling: str) -> DType | None:
    """Return the dtype with this name or short name (`float32`, `f32`, `f32x16`), or None."""
    dtype = _by_name.get(spelling)
    if dtype is not None:
        return dtype
    stem, x, lanes = spelling.rpartition("x")
    base = _by_name.get(stem)
    return (
        base.vec(int(lanes))
        if x and base is not None and lanes.isdecimal() and int(lanes) > 0
        else None
    )


def _find_numpy(spelling: object) -> DType | None:
    """Return the dtype of an object that numpy accepts as a dtype, or None."""
    import numpy as np

    try:
        numpy_dtype: object = np.dtype(spelling)  # pyright: ignore[reportCallIssue, reportArgumentType, reportUnknownVariableType]
    except (TypeError, ValueError):
        return None
    dtype = _by_numpy.get(numpy_dtype)
    if dtype is not None:
        return dtype
    dtype = _by_name.get(np.dtype(numpy_dtype).name)
    if dtype is None or dtype.kind in ("void", "index"):
        return None
    _by_numpy[numpy_dtype] = dtype
    return dtype


scoped_default: Final[ContextVar[DType | None]] = ContextVar("svod_default_dtype", default=None)
"""Default float dtype of this thread or task; None means the default of the process."""
process_default: Final[list[DType]] = []
"""Default float dtype of the process; empty unless set."""


def default_float() -> DType:
    """Return the default float dtype.

    Example:
        >>> from svod_dtype import default_dtype, default_float
        >>> with default_dtype("float64"):
        ...     default_float()
        float64
    """
    return scoped_default.get() or (process_default[0] if process_default else float32)


def default_complex() -> DType:
    """Return the default complex dtype: complex128 if the default float dtype is float64, else
    complex64.

    Example:
        >>> from svod_dtype import default_complex, default_dtype
        >>> with default_dtype("float64"):
        ...     default_complex()
        complex128
    """
    return complex128 if default_float() is float64 else complex64


def to_dtype(given: object) -> DType:
    """Convert a DType, a name, a Python type (`complex`, `float`, `int`, `bool`) or a numpy dtype
    to a `DType`.

    Python's `complex` gives complex64, `float` float32 and `int` int32, unless `set_default_dtype`
    was called. numpy's type codes (`"f8"`, `"<i4"`, `"?"`) are accepted, and their byte order is
    ignored. `"i8"` and `"u8"` are ambiguous and raise: svod's short names count bits, numpy's codes
    count bytes.

    Raises:
        UnknownDTypeError: if `given` is not a dtype, or ambiguous.
    """
    if isinstance(given, DType):
        return given
    if given is float:
        return default_float()
    if given is int:
        return int32
    if given is bool:
        return bool_
    if given is complex:
        return default_complex()
    if isinstance(given, str):
        if given in _AMBIGUOUS:
            raise UnknownDTypeError(given=given, meanings=tuple(d.name for d in _AMBIGUOUS[given]))
        dtype = find_dtype("int32" if given == "int" else given)
        if dtype is None and _NUMPY_NAMES.fullmatch(given):
            dtype = _find_numpy(given)
        if dtype is not None:
            return dtype
    elif given is not None:
        # None is excluded since numpy converts it to float64.
        dtype = _find_numpy(given)
        if dtype is not None:
            return dtype
    raise UnknownDTypeError(
        given=given, known=tuple(d.name for d in (*ALL_DTYPES, *COMPLEX_DTYPES))
    )


def cast_value(value: Scalar, dtype: DType) -> Scalar:
    """Convert a Python value to the value of a constant of `dtype`.

    Integers wrap modulo 2^bits. Floats round to the nearest value of a float type. A float converts
    to an integer type by truncation toward zero and saturates at the limits; NaN gives 0.

    Raises:
        ValueError: if the dtype is complex or void.
    """
    match dtype.kind:
        case "bool":
            return bool(value)
        case "int" | "uint" | "index":
            if isinstance(value, float):
                return 0 if math.isnan(value) else int(min(max(value, dtype.min), dtype.max))
            low = int(value) & ((1 << dtype.bits) - 1)
            return (
                low - (1 << dtype.bits) if dtype.kind != "uint" and low >> (dtype.bits - 1) else low
            )
        case "float":
            return round_float(value, dtype)
        case "complex":
            raise ValueError(
                f"cast_value: {dtype} values are pairs of floats: cast the real and the imaginary"
                f" part to {dtype.part}"
            )
        case "void":
            raise ValueError("void has no values")


def round_float(value: Scalar, dtype: DType) -> float:
    """Round `value` once to the nearest value of the float type `dtype`, ties to even."""
    scalar = dtype.scalar
    exact = _to_double(value, scalar)
    if scalar is float64 or exact == 0.0 or not math.isfinite(exact):
        if scalar is float8_e4m3 and math.isinf(exact):
            return math.nan
        return exact
    if scalar is float32:
        try:
            return struct.unpack("f", struct.pack("f", exact))[0]
        except OverflowError:
            return math.copysign(math.inf, exact)
    # Round to a multiple of the unit in the last place at the value's exponent. The exponent is at
    # least that of subnormals.
    bias = (1 << (scalar.exponent_bits - 1)) - 1
    exponent = max(math.frexp(exact)[1] - 1, 1 - bias)
    unit = exponent - scalar.mantissa_bits
    rounded = math.ldexp(round(math.ldexp(exact, -unit)), unit)
    if abs(rounded) > scalar.finfo_max:
        return math.nan if scalar is float8_e4m3 else math.copysign(math.inf, exact)
    return rounded if rounded != 0.0 else math.copysign(0.0, exact)


def _to_double(value: Scalar, scalar: DType) -> float:
    if isinstance(value, float):
        # numpy.float64 is a subclass of float with elementwise comparison: return a plain float.
        return float(value)
    magnitude = abs(value)
    if magnitude > 1 << 53 and scalar is not float64:
        # A sticky last bit represents the bits that a double cannot hold, so that the second
        # rounding is correct.
        shift = magnitude.bit_length() - 53
        magnitude = (magnitude >> shift | (magnitude & ((1 << shift) - 1) != 0)) << shift
    try:
        return float(-magnitude if value < 0 else magnitude)
    except OverflowError:
        return -math.inf if value < 0 else math.inf
