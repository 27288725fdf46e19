"""The errors of svod-tensor.

UserError
├── ArgumentNameError (TypeError)          an unexpected keyword argument
├── MissingNameError (AttributeError)      a missing attribute with a known alternative
├── MissingImportError (ImportError)       the same, in `from module import name`
├── UnknownPlanError (LookupError)         a name of no captured function with kernels to search
├── IndexOutOfRangeError (IndexError)
├── CopyRequiredError (ValueError, BufferError)    elements that must be copied although copy=False
├── ApiVersionError (ValueError)          an unsupported version of the array API standard
├── IndexTensorError (IndexError)         an index tensor with an out-of-bounds index
├── IntegerDivisionError (ZeroDivisionError)
├── IndexKindError (IndexError)           an object that cannot index a tensor
├── DataDependentShapeError (IndexError)  a result whose shape depends on values not computed yet
├── RaggedDataError (ValueError)
├── DataError (TypeError)                 an object that cannot be converted to a tensor
├── IntegerOverflowError (OverflowError)
├── NonFiniteCastError (ValueError)
├── EmptyReductionError (ValueError)
├── AmbiguousTruthError (ValueError)
├── SingleElementError (ValueError)       a number requested from a tensor without exactly one element
├── CalledPropertyError (TypeError)       a call of a property that is a method in another library
├── EinsumError (ValueError)
├── MatrixError (ValueError)              a matrix without a result, such as a singular one
├── SymbolicShapeError (ValueError)
├── SymbolicBoundsError (IndexError)      an index that is out of bounds for some values of variables
├── ShardError (ValueError)               devices that a tensor cannot be sharded over
├── AssignmentDtypeError (TypeError)
├── ResultDtypeError (TypeError)          a result of `x += y` that cannot be cast to x's dtype
├── CaptureError (RuntimeError)           a function that cannot be traced
├── StaleCaptureError (RuntimeError)      a captured function's result that differs from the plain one's
├── TraceError (RuntimeError)             a loop body or branch that cannot be traced
├── DerivativeError (ValueError)          a derivative that is not defined or supported
├── LoopArgumentError (ValueError)        an invalid argument of a loop or a branch operation
├── CarriedValueError (TypeError)         a carry whose spec changes in an iteration
├── BranchError (TypeError)               branches whose results have different specs
├── DonationError (ValueError)            memory that cannot be donated
├── DynamicShapeError (ValueError)        dynamic shapes that do not fit a function
├── RepeatedWriteError (ValueError)        a write to repeated elements
├── DonatedTensorError (RuntimeError)     a use of a donated tensor
├── MissingFileError (FileNotFoundError)
├── SafetensorsError (ValueError)
├── VariableNameError (ValueError)
├── VariableBoundsError (ValueError)
├── VariableConflictError (ValueError)    two values of one variable
├── BoundsConflictError (ValueError)      two variables of one name
└── EmptyScheduleError (ValueError)
InternalError
├── NoKernelsFoundError
├── DependencyCycleError
├── ScheduleError                         a kernel graph that breaks the rules of scheduling
├── BufferNotFoundError (LookupError)
├── BatchOutputError
├── ProgramMetadataError
└── ViewBoundsError (ValueError)
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence

from svod_dtype import InternalError, UserError
from svod_ir import SInt, format_shape, format_size
from svod_ir.origins import Origin, format_origins
from svod_ir.sizes import bounds_of_size

__all__ = [
    "AmbiguousTruthError",
    "ApiVersionError",
    "ArgumentNameError",
    "AssignmentDtypeError",
    "BatchOutputError",
    "BoundsConflictError",
    "BranchError",
    "BufferNotFoundError",
    "CalledPropertyError",
    "CaptureError",
    "CarriedValueError",
    "CopyRequiredError",
    "DataDependentShapeError",
    "DataError",
    "DependencyCycleError",
    "DerivativeError",
    "DonatedTensorError",
    "DonationError",
    "DynamicShapeError",
    "EinsumError",
    "EmptyReductionError",
    "EmptyScheduleError",
    "IndexKindError",
    "IndexOutOfRangeError",
    "IndexTensorError",
    "IntegerDivisionError",
    "IntegerOverflowError",
    "LoopArgumentError",
    "MatrixError",
    "MissingFileError",
    "MissingImportError",
    "MissingNameError",
    "NoKernelsFoundError",
    "NonFiniteCastError",
    "ProgramMetadataError",
    "RaggedDataError",
    "RepeatedWriteError",
    "ResultDtypeError",
    "SafetensorsError",
    "ScheduleError",
    "ShardError",
    "SingleElementError",
    "StaleCaptureError",
    "SymbolicBoundsError",
    "SymbolicShapeError",
    "TraceError",
    "UnknownPlanError",
    "UserError",
    "VariableBoundsError",
    "VariableConflictError",
    "VariableNameError",
    "ViewBoundsError",
]


class ArgumentNameError(UserError, TypeError):
    """An unexpected keyword argument, such as another library's, or a positional argument that must
    be passed by name or vice versa.

    Attributes:
        operation: the name of the operation.
        given: the unexpected name; None for positional arguments.
        expected: the names of the parameters, or of the intended one.
    """

    def __init__(
        self,
        *,
        operation: str,
        given: str | None,
        expected: tuple[str, ...],
        call: str | None = None,
        is_placed: bool = False,
        hint: str | None = None,
    ) -> None:
        self.operation, self.given, self.expected = operation, given, expected
        names = ", ".join(expected) or "none"
        if given is None:
            problem = f"takes {names} only by name"
        elif is_placed:
            problem = f"takes {names} only by position"
        else:
            problem = f"got an unexpected keyword argument {given!r}"
        if call is not None:
            hint = f"write {call}"
        super().__init__(f"{operation}() {problem}", hint=hint or f"its parameters are {names}")


class MissingNameError(UserError, AttributeError):
    """A missing attribute with a known alternative, which the hint names.

    Attributes:
        owner: the object without the attribute, such as `'Tensor' object` or `module 'svod_nn'`.
        missing: the name.
    """

    def __init__(self, *, owner: str, missing: str, hint: str) -> None:
        self.owner, self.missing = owner, missing
        super().__init__(f"{owner} has no attribute {missing!r}", hint=hint)


class MissingImportError(UserError, ImportError):
    """A name that `from module import name` does not find, with a known alternative, which the hint
    names.

    Attributes:
        name: the module.
        missing: the name.
    """

    def __init__(self, *, module: str, missing: str, hint: str | None) -> None:
        self.missing = missing
        super().__init__(f"cannot import name {missing!r} from {module!r}", hint=hint)
        self.name = module

    @staticmethod
    def find(error: MissingNameError, module: str) -> MissingImportError | None:
        """The error to raise instead of `error` by the `__getattr__` of `module` that calls this, if a
        statement `from module import name` called it; None for any other access.

        The statement replaces an AttributeError by an ImportError without the hint.
        """
        from dis import opmap

        # The frame that called `__getattr__`.
        frame = sys._getframe(2)  # pyright: ignore[reportPrivateUsage]
        is_import = frame.f_code.co_code[frame.f_lasti] == opmap["IMPORT_FROM"]
        # After `import module.name as x` the interpreter takes the module from `sys.modules`.
        if not is_import or f"{module}.{error.missing}" in sys.modules:
            return None
        return MissingImportError(module=module, missing=error.missing, hint=error.hint)


class UnknownPlanError(UserError, LookupError):
    """A name of no captured function with kernels to search.

    Attributes:
        name: the name.
        known: the names of the captured functions that have such kernels.
    """

    def __init__(self, *, name: str, known: tuple[str, ...]) -> None:
        self.name, self.known = name, known
        shown = f"there are {', '.join(known)}" if known else "there is none"
        super().__init__(
            f"no captured function {name!r} has kernels that were not searched before; {shown}"
        )


class CopyRequiredError(UserError, ValueError, BufferError):
    """Elements that have to be copied, although the caller passed `copy=False`."""

    def __init__(self, *, operation: str, problem: str) -> None:
        self.operation, self.problem = operation, problem
        super().__init__(f"{operation}(copy=False): {problem}", hint="leave copy out")


class ApiVersionError(UserError, ValueError):
    """A version of the array API standard that this namespace does not implement."""

    def __init__(self, *, given: object, known: tuple[str, ...]) -> None:
        self.given, self.known = given, known
        super().__init__(
            f"no array API {given!r}; there are {', '.join(known)}", hint="leave api_version out"
        )


class IndexOutOfRangeError(UserError, IndexError):
    """An index that is out of bounds for its axis."""

    def __init__(self, *, index: int, axis: int, size: object) -> None:
        self.index, self.axis, self.size = index, axis, size
        super().__init__(
            f"index {index} is out of bounds for axis {axis} with size {size}",
            hint=f"use {_index_span(size)}",
        )


class IndexTensorError(UserError, IndexError):
    """An out-of-bounds index in an index tensor, found by a plan that checks its operands."""

    def __init__(
        self,
        *,
        operation: str,
        position: tuple[int, ...],
        value: int,
        axis: int,
        size: int,
        origins: Collection[Origin] = (),
    ) -> None:
        self.operation, self.position, self.value = operation, position, value
        self.axis, self.size, self.origins = axis, size, tuple(origins)
        element = f"element {format_shape(position)} of the indices" if position else "the index"
        super().__init__(
            f"{operation}: {element} is {value}, out of bounds for axis {axis} with size {size}",
            notes=_name_lines(origins),
            hint=f"use {_index_span(size)}; the results of this execution are invalid",
        )


class IntegerDivisionError(UserError, ZeroDivisionError):
    """An integer division by 0, found by a plan that checks its operands."""

    def __init__(
        self, *, operation: str, position: tuple[int, ...], origins: Collection[Origin] = ()
    ) -> None:
        self.operation, self.position, self.origins = operation, position, tuple(origins)
        element = f"element {format_shape(position)} of the divisor" if position else "the divisor"
        super().__init__(
            f"{operation}: {element} is 0",
            notes=_name_lines(origins),
            hint="divide by y.eq(0).where(1, y); without SVOD_CHECK_OPERANDS the result is 0",
        )


class IndexKindError(UserError, IndexError):
    """An object, or several objects, that cannot index a tensor."""

    def __init__(self, *, found: object, problem: str, hint: str | None = None) -> None:
        self.found = found
        super().__init__(
            f"cannot index with {found!r}: {problem}",
            hint=hint
            or "valid indices are integers, slices, ..., None, and integer or bool arrays",
        )


class DataDependentShapeError(UserError, IndexError):
    """An operation whose result shape depends on values that have not been computed."""

    def __init__(self, *, operation: str, hint: str) -> None:
        self.operation = operation
        super().__init__(
            f"{operation}: the shape of the result depends on values that are not computed yet",
            hint=hint,
        )


class RaggedDataError(UserError, ValueError):
    """Nested lists whose lengths differ."""

    def __init__(self, *, depth: int, lengths: Sequence[int]) -> None:
        self.depth, self.lengths = depth, tuple(lengths)
        shown = ", ".join("a scalar" if n < 0 else str(n) for n in self.lengths)
        super().__init__(
            "nested lists have an inhomogeneous shape after"
            f" {depth} {'dimension' if depth == 1 else 'dimensions'}: lengths {shown}",
            hint="pad the rows to one length, or make one tensor for each",
        )


_NONE_HINT = "whether there is a tensor at all is `x is None`"


class DataError(UserError, TypeError):
    """An object that cannot be converted to a tensor."""

    def __init__(self, *, found: object, hint: str | None = None) -> None:
        self.found = found
        super().__init__(
            f"cannot convert {type(found).__name__} to a tensor",
            hint=hint
            or (
                _NONE_HINT
                if found is None
                else "pass numbers, nested lists of numbers, a numpy array or a Tensor"
            ),
        )


class IntegerOverflowError(UserError, OverflowError):
    """A Python integer that does not fit the target dtype."""

    def __init__(self, *, value: int, dtype: object) -> None:
        self.value, self.dtype = value, dtype
        super().__init__(
            f"{value} does not fit {dtype}",
            hint="cast the tensor to a wider dtype, as in x.cast(int64)",
        )


class NonFiniteCastError(UserError, ValueError):
    """NaN or an infinity converted to an integer."""

    def __init__(self, *, value: float, dtype: object) -> None:
        self.value, self.dtype = value, dtype
        super().__init__(
            f"cannot convert {value} to {dtype}",
            hint="use a floating-point dtype, or replace the value first",
        )


class EmptyReductionError(UserError, ValueError):
    """A reduction without identity over an empty axis."""

    def __init__(self, *, operation: str, shape: tuple[object, ...], axis: int) -> None:
        self.operation, self.shape, self.axis = operation, shape, axis
        super().__init__(
            f"{operation}: zero-size array to reduction operation, which has no"
            f" identity: axis {axis} of shape {format_shape(shape)}"
        )


class AmbiguousTruthError(UserError, ValueError):
    """The truth value of a tensor without exactly one element."""

    def __init__(self, *, shape: tuple[object, ...]) -> None:
        self.shape = shape
        super().__init__(
            f"the truth value of a tensor of shape {format_shape(shape)} is ambiguous",
            hint="use x.any() or x.all()",
        )


class SingleElementError(UserError, ValueError):
    """A number requested from a tensor without exactly one element."""

    def __init__(self, *, operation: str, shape: tuple[object, ...]) -> None:
        self.operation, self.shape = operation, shape
        super().__init__(
            f"{operation}: only one-element tensors can be converted to a Python scalar, not shape"
            f" {format_shape(shape)}",
            hint="x.tolist() gives all of them, x[index].item() one",
        )


class CalledPropertyError(UserError, TypeError):
    """A property that was called, since it is a method in another library."""

    def __init__(self, *, name: str, hint: str) -> None:
        self.operation = self.name = name
        super().__init__(f"{name} is a property and not callable", hint=hint)


class EinsumError(UserError, ValueError):
    """An einsum formula that does not fit its operands."""

    def __init__(self, *, formula: str, problem: str) -> None:
        self.operation, self.formula = "einsum", formula
        super().__init__(
            f"einsum {formula!r}: {problem}",
            hint='write formulas as "ij,jk->ik", with one letter for each axis',
        )


class MatrixError(UserError, ValueError):
    """A matrix without a result, such as a singular one. It is also caught as
    `numpy.linalg.LinAlgError`.

    Attributes:
        operation: the function.
        problem: the property of the matrix that prevents a result.
        index: index of the matrix in a stack, over the leading axes; empty for a single matrix.
    """

    def __init__(self, *, operation: str, problem: str, index: tuple[int, ...] = ()) -> None:
        self.operation, self.problem, self.index = operation, problem, index
        shown = f"matrix {', '.join(map(str, index))}" if index else "the matrix"
        super().__init__(f"{operation}: {shown} {problem}")


class SymbolicShapeError(UserError, ValueError):
    """A symbolic size where an operation needs a concrete one."""

    def __init__(self, *, operation: str, shape: tuple[object, ...]) -> None:
        self.operation, self.shape = operation, shape
        super().__init__(
            f"{operation} needs concrete sizes, not {format_shape(shape)}",
            hint="shrink the tensor to a concrete size first",
        )


class SymbolicBoundsError(UserError, IndexError):
    """An index or a size that is out of bounds for some values of the variables.

    `low` and `high` are the bounds, as sizes."""

    def __init__(
        self, *, operation: str, axis: int, found: SInt, low: SInt, high: SInt | None
    ) -> None:
        self.operation, self.axis, self.found, self.low, self.high = (
            operation,
            axis,
            found,
            low,
            high,
        )
        least, most = bounds_of_size(found)
        shown = format_size(found)
        allowed = (
            f"at least {format_size(low)}"
            if high is None
            else f"from {format_size(low)} to {format_size(high)}"
        )
        values = f", which may be {least} to {most}," if least != most else ""
        super().__init__(
            f"{operation}: {shown}{values} is not known to be {allowed} on axis {axis}",
            hint='declare variables with the bounds that hold, as in Variable("n", 1, 64)',
        )


class ShardError(UserError, ValueError):
    """Devices that a tensor cannot be sharded over, or an operation that is not defined on shards."""

    def __init__(
        self,
        *,
        devices: tuple[str, ...],
        operation: str = "shard",
        problem: str | None = None,
        hint: str | None = None,
    ) -> None:
        self.devices, self.operation = devices, operation
        if problem is None:
            problem = (
                f"got a device twice: {', '.join(devices)}"
                if devices
                else "needs at least one device"
            )
            hint = 'name each once, as in x.shard(("CPU", "CPU:1"), axis=0)'
        super().__init__(f"{operation}: {problem}", hint=hint)


class AssignmentDtypeError(UserError, TypeError):
    """A tensor assigned to a tensor of another dtype."""

    def __init__(self, *, target: object, value: object) -> None:
        self.target, self.value = target, value
        super().__init__(
            f"cannot assign a tensor of {value} to one of {target}",
            hint=f"cast it, as in x.assign(y.cast({target})); x[...] = y casts by itself",
        )


class ResultDtypeError(UserError, TypeError):
    """The result of an augmented operator, such as `x += y`, of a higher kind than the tensor that
    it is written to.
    """

    def __init__(self, *, operation: str, result: object, target: object) -> None:
        self.operation, self.result, self.target = operation, result, target
        super().__init__(
            f"{operation}: cannot cast the result from {result} to {target} with casting rule"
            " 'same_kind'",
            hint=(
                f"write x = x + y for a new tensor of {result}, or cast the result, as in x[...] ="
                " x + y"
            ),
        )


class CaptureError(UserError, RuntimeError):
    """A function that `jit` cannot trace."""

    def __init__(self, *, function: str, problem: str, hint: str) -> None:
        self.function, self.problem = function, problem
        super().__init__(f"cannot capture {function}: {problem}", hint=hint)


class StaleCaptureError(UserError, RuntimeError):
    """A captured function whose result differs from the plain function's, found under `SVOD_CHECK`."""

    def __init__(self, *, function: str, path: str, result: str, expected: str) -> None:
        self.function, self.path = function, path
        super().__init__(
            f"{function}: the captured function's result{path} is {result}, and the plain one's"
            f" {expected}",
            hint=(
                "it reads a value that is not checked before each call, such as an element of a"
                " numpy array: pass it as an argument, or read it with depend_on"
            ),
        )


class TraceError(UserError, RuntimeError):
    """A loop body or a branch that cannot be traced."""

    def __init__(self, *, operation: str, function: str, problem: str, hint: str) -> None:
        self.operation, self.function, self.problem = operation, function, problem
        super().__init__(f"{operation} cannot run {function}: {problem}", hint=hint)


class DerivativeError(UserError, ValueError):
    """A derivative that is not defined or not supported for these arguments."""

    def __init__(self, *, operation: str, problem: str, hint: str | None = None) -> None:
        self.operation, self.problem = operation, problem
        super().__init__(f"{operation}: {problem}", hint=hint)


class LoopArgumentError(UserError, ValueError):
    """An invalid argument of a loop or a branch operation."""

    def __init__(self, *, operation: str, problem: str, hint: str) -> None:
        self.operation, self.problem = operation, problem
        super().__init__(f"{operation}: {problem}", hint=hint)


class CarriedValueError(UserError, TypeError):
    """A carry whose structure, shape, dtype or device changes in an iteration."""

    def __init__(self, *, operation: str, path: str, before: str, after: str) -> None:
        self.operation, self.path, self.before, self.after = operation, path, before, after
        super().__init__(
            f"{operation}: {path}: {before} became {after}",
            hint=(
                "what an iteration returns has the structure, shapes, dtypes and devices of what it"
                " got: convert the initial value, or what is returned, as with x.cast(dtype)"
            ),
        )


class BranchError(UserError, TypeError):
    """Branches whose results differ in structure, shape, dtype or device."""

    def __init__(
        self, *, operation: str, path: str, first: str, other: str, branches: tuple[str, str]
    ) -> None:
        self.operation, self.path, self.first, self.other, self.branches = (
            operation,
            path,
            first,
            other,
            branches,
        )
        super().__init__(
            f"{operation}: {path}: {first} from {branches[0]}, but {other} from {branches[1]}",
            hint="let all branches return values of one structure, shape, dtype and device",
        )


class DonationError(UserError, ValueError):
    """An argument whose memory cannot be donated."""

    def __init__(self, *, function: str, argument: str, problem: str, hint: str) -> None:
        self.function, self.argument, self.problem = function, argument, problem
        super().__init__(f"cannot donate {argument} to {function}: it {problem}", hint=hint)


class DynamicShapeError(UserError, ValueError):
    """Dynamic shapes that do not fit the function."""

    def __init__(self, *, function: str, parameter: str, problem: str) -> None:
        self.function, self.parameter, self.problem = function, parameter, problem
        super().__init__(
            f"dynamic_shapes of {function}: {parameter} {problem}",
            hint='name parameters and axes, as in {"x": {0: Variable("n", 1, 512)}}',
        )


class RepeatedWriteError(UserError, ValueError):
    """A write to repeated elements, as of an expanded tensor."""

    def __init__(self, *, shape: tuple[object, ...]) -> None:
        self.shape = shape
        super().__init__(
            f"cannot write to a tensor of shape {format_shape(shape)} that repeats elements of"
            " another one",
            hint="write to a copy, as in x = x.clone(); x[index] = value",
        )


class DonatedTensorError(UserError, RuntimeError):
    """A use of a tensor after it was donated."""

    def __init__(self, *, argument: str, taker: str) -> None:
        self.argument, self.taker = argument, taker
        super().__init__(
            f"this tensor was donated: {taker} took its memory as {argument}",
            hint="use the result of that call instead, or donate a copy, as in x.clone()",
        )


class MissingFileError(UserError, FileNotFoundError):
    """A missing file that a tensor should be read from."""

    def __init__(self, *, path: str, problem: str = "no such file or directory") -> None:
        self.path = path
        super().__init__(f"{problem}: {path!r}")


class SafetensorsError(UserError, ValueError):
    """A safetensors file that contradicts itself or its size."""

    def __init__(
        self,
        *,
        path: str,
        problem: str,
        name: str | None = None,
        hint: str = "the file is damaged or no safetensors file; download it again",
    ) -> None:
        self.path, self.problem, self.name = path, problem, name
        about = f", tensor {name!r}" if name is not None else ""
        super().__init__(f"{path}{about}: {problem}", hint=hint)


class VariableNameError(UserError, ValueError):
    """An invalid name of a variable."""

    def __init__(self, *, name: object, problem: str) -> None:
        self.name = name
        super().__init__(
            f"variable name {name!r} {problem}",
            hint='take another one, as in Variable("n_rows", 1, 64)',
        )


class VariableBoundsError(UserError, ValueError):
    """A value outside a variable's bounds, or bounds that hold no value."""

    def __init__(self, *, name: str, low: int, high: int, value: int | None = None) -> None:
        self.name, self.low, self.high, self.value = name, low, high, value
        headline = (
            f"bounds {low} to {high} hold no value"
            if value is None
            else f"{value} is outside {low} to {high}"
        )
        super().__init__(f"variable {name!r}: {headline}")


class VariableConflictError(UserError, ValueError):
    """Two values bound to one variable in one computation."""

    def __init__(self, *, name: str, first: int, second: int) -> None:
        self.name, self.first, self.second = name, first, second
        super().__init__(
            f"variable {name!r} is bound to {first} and to {second} in one computation",
            hint="use two variables with different names, or realize one tensor first",
        )


class BoundsConflictError(UserError, ValueError):
    """Two variables of one name with different bounds in one computation."""

    def __init__(self, *, name: str, first: tuple[int, int], second: tuple[int, int]) -> None:
        self.name, self.first, self.second = name, first, second
        first_bounds, second_bounds = sorted((first, second))
        super().__init__(
            f"variable {name!r} goes from {first_bounds[0]} to {first_bounds[1]} and from {second_bounds[0]} to {second_bounds[1]} in"
            " one computation",
            hint="use two variables with different names, or one variable for both",
        )


class EmptyScheduleError(UserError, ValueError):
    """Nothing to prepare: every tensor is realized or empty, or no tensor was passed."""

    def __init__(self, *, n_tensors: int) -> None:
        self.n_tensors = n_tensors
        problem = (
            "no tensors were given"
            if n_tensors == 0
            else f"all {n_tensors} tensors are realized or empty"
        )
        super().__init__(f"nothing to prepare: {problem}")


class NoKernelsFoundError(InternalError, ValueError):
    """A kernel graph without CALL nodes."""

    def __init__(self, *, root: object) -> None:
        self.root = root
        super().__init__(f"no kernels found below {root}")


class DependencyCycleError(InternalError, ValueError):
    """Kernels that depend on each other."""

    def __init__(self, *, kernels: Sequence[object]) -> None:
        self.kernels = tuple(kernels)
        super().__init__(
            f"{len(self.kernels)} kernels depend on each other:"
            f" {', '.join(str(k) for k in self.kernels)}"
        )


class ScheduleError(InternalError, ValueError):
    """A kernel graph that breaks a rule of scheduling."""

    def __init__(self, *, rule: str, found: object) -> None:
        self.rule, self.found = rule, found
        super().__init__(f"{rule}, found {found}")


class BufferNotFoundError(InternalError, LookupError):
    """A node without a buffer that should have one."""

    def __init__(self, *, node: object) -> None:
        self.node = node
        super().__init__(f"no buffer for {node}")


class BatchOutputError(InternalError, ValueError):
    """A plan with fewer outputs than there are tensors."""

    def __init__(self, *, expected: int, found: int) -> None:
        self.expected, self.found = expected, found
        super().__init__(f"{expected} tensors are to be realized, but the plan has {found} outputs")


class ProgramMetadataError(InternalError, ValueError):
    """A compiled kernel whose argument lists contradict its call."""

    def __init__(
        self,
        *,
        problem: str,
        kernel: object,
        globals_: Sequence[int],
        outs: Sequence[int],
        n_buffers: int,
    ) -> None:
        self.problem, self.kernel = problem, kernel
        self.globals, self.outs, self.n_buffers = tuple(globals_), tuple(outs), n_buffers
        super().__init__(
            f"kernel {kernel}: {problem}",
            notes=(f"globals {self.globals}, outs {self.outs}, {n_buffers} buffers",),
        )


class ViewBoundsError(InternalError, ValueError):
    """A view that exceeds its base."""

    def __init__(
        self,
        *,
        kernel: object,
        base_id: object,
        base_bytes: int,
        offset_bytes: int,
        size_bytes: int,
    ) -> None:
        self.kernel, self.base_id = kernel, base_id
        self.base_bytes, self.offset_bytes, self.size_bytes = base_bytes, offset_bytes, size_bytes
        super().__init__(
            f"view {kernel} of buffer {base_id} takes {size_bytes} bytes at offset {offset_bytes},"
            f" but there are {base_bytes}"
        )


def _name_lines(origins: Collection[Origin]) -> tuple[str, ...]:
    return (f"it comes from {format_origins(origins, max_shown=4)}",) if origins else ()


def _index_span(size: object) -> str:
    if not isinstance(size, int):
        return "an index below the size"
    return f"{-size} to {size - 1}" if size else "no index: the axis is empty"
