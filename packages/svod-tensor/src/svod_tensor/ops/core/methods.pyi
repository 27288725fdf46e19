"""Methods of `Tensor` that are registered operations."""

# Written by tools/stubs.py from svod_tensor.ops: change the functions there.

import numpy as np
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from numpy.typing import NDArray
from svod_device import Buffer
from svod_ir import SInt
from svod_tensor._data import Scalar
from svod_tensor._generator import Generator, Seed
from svod_tensor._shapes import Axes
from svod_tensor.ops.core.base import Amounts, DTypeLike, Operand, TensorBase
from svod_tensor.ops.indexing.data_dependent import UniqueAllResult, UniqueCountsResult, UniqueInverseResult
from svod_tensor.ops.indexing.index_items import Index, IndexItem
from svod_tensor.ops.indexing.scatter_reductions import ReductionAt
from svod_tensor.ops.interface.reading import Nested
from svod_tensor.ops.movement.slicing_and_padding import PadMode
from svod_tensor.ops.neural.grid_sampling import SamplingMode, SamplingPadding
from svod_tensor.ops.neural.resizing import ResizingMode
from svod_tensor.ops.neural.window_options import Numbers, Padding
from svod_tensor.ops.statistics.quantiles import QuantileMethod
from svod_tensor.tensor import Tensor
from typing import Any, Literal, Self, SupportsIndex, overload

class Methods(TensorBase):
    @property
    def T(self) -> Self:
        """This tensor with its axes in reverse order: a view."""
    def abs(self) -> Self:
        """The absolute value, in the dtype of `x`; that of the smallest signed integer
        wraps to itself."""
    def acos(self) -> Self:
        """The angle from 0 to pi with this cosine; NaN outside -1 to 1. Integers become
        float32."""
    def arccos(self) -> Self:
        """The angle from 0 to pi with this cosine; NaN outside -1 to 1. Integers become
        float32."""
    def acosh(self) -> Self:
        """The number, not negative, with this hyperbolic cosine; NaN below 1. Integers
        become float32."""
    def arccosh(self) -> Self:
        """The number, not negative, with this hyperbolic cosine; NaN below 1. Integers
        become float32."""
    def add(self, x2: Operand, /) -> Self:
        """The sum with `x2`; of bools it is the logical or. Shapes broadcast and dtypes
        promote."""
    def add_at(self, index: Index, value: Operand) -> Self:
        """This tensor with `value` added to the elements at `index`; a repeated position
        adds each time, as in `np.add.at`."""
    def affine_grid(self, size: Sequence[int], align_corners: bool = False) -> Self:
        """The grid, as `grid_sample` takes it, of the affine maps with these matrices:
        shape (batch, *sizes, axes)."""
    def all(self, axis: Axes = None, *, keepdims: bool = False) -> Self:
        """Whether no element is zero, as bools; True over no elements."""
    def angle(self) -> Self:
        """The angle of each element in radians, from -pi to pi: 0 or pi of a real number.
        Integers become float32."""
    def any(self, axis: Axes = None, *, keepdims: bool = False) -> Self:
        """Whether an element is not zero, as bools; False over no elements."""
    @staticmethod
    def arange(start: SInt | float, /, stop: SInt | float | None = None, step: int | float = 1, *, dtype: DTypeLike | None = None, device: str | None = None) -> Tensor:
        """The numbers from `start` up to but excluding `stop`, `step` apart, as a tensor of
        one axis."""
    def argmax(self, axis: int | None = None, *, keepdims: bool = False) -> Self:
        """The position (int64) of the largest element; of several the first. A NaN counts
        as the largest."""
    def argmin(self, axis: int | None = None, *, keepdims: bool = False) -> Self:
        """The position (int64) of the smallest element; of several the first. A NaN counts
        as the smallest."""
    def argsort(self, axis: int = -1, *, descending: bool = False, stable: bool = True) -> Self:
        """The positions (int64) of the elements in order; equal elements keep theirs, and
        NaN counts as the largest value."""
    def argwhere(self) -> Self:
        """The positions (int64) of the elements that are not zero, in row-major order:
        shape (n, axes)."""
    def as_complex(self) -> Self:
        """The complex numbers whose parts lie along the last axis, of size 2, the real one
        first, as a new tensor."""
    def as_real(self) -> Self:
        """The parts of complex numbers along a last axis of size 2, the real one first, as
        a new tensor."""
    @staticmethod
    def asarray(obj: object, /, *, dtype: DTypeLike | None = None, device: str | None = None, copy: bool | None = None) -> Tensor:
        """A tensor with the elements of `obj`: that itself if it is a tensor, else a copy
        that later writes to `obj` do not change."""
    def asin(self) -> Self:
        """The angle from -pi/2 to pi/2 with this sine; NaN outside -1 to 1. Integers become
        float32."""
    def arcsin(self) -> Self:
        """The angle from -pi/2 to pi/2 with this sine; NaN outside -1 to 1. Integers become
        float32."""
    def asinh(self) -> Self:
        """The number with this hyperbolic sine. Integers become float32."""
    def arcsinh(self) -> Self:
        """The number with this hyperbolic sine. Integers become float32."""
    def assign(self, value: Operand) -> Self:
        """Write the elements of `value`, which broadcasts to its shape, to this tensor, and
        return it."""
    def astype(self, dtype: DTypeLike, *, copy: bool = True, device: str | None = None) -> Self:
        """Each element converted to `dtype` by the rules of `cast`."""
    def atan(self) -> Self:
        """The angle from -pi/2 to pi/2 with this tangent. Integers become float32."""
    def arctan(self) -> Self:
        """The angle from -pi/2 to pi/2 with this tangent. Integers become float32."""
    def atan2(self, x2: Operand, /) -> Self:
        """The angle of the point (`x2`, this), from -pi to pi, with the signs of zeros
        respected. Shapes broadcast and dtypes promote."""
    def arctan2(self, x2: Operand, /) -> Self:
        """The angle of the point (`x2`, this), from -pi to pi, with the signs of zeros
        respected. Shapes broadcast and dtypes promote."""
    def atanh(self) -> Self:
        """The number with this hyperbolic tangent; NaN outside -1 to 1. Integers become
        float32."""
    def arctanh(self) -> Self:
        """The number with this hyperbolic tangent; NaN outside -1 to 1. Integers become
        float32."""
    def avg_pool2d(self, kernel: Numbers = 2, *, stride: Numbers | None = None, padding: Padding = 0, dilation: Numbers = 1, count_include_pad: bool = True, ceil_mode: bool = False) -> Self:
        """The mean of each window over the spatial axes. Integers become float32."""
    def batchnorm(self, mean: Self, variance: Self, weight: Self | None = None, bias: Self | None = None, eps: float = 1e-05) -> Self:
        """Normalisation with given statistics for each channel, for a tensor of shape
        (batch, channels, ...)."""
    def bernoulli(self, *, seed: Seed | None = None, generator: Generator | None = None, dtype: DTypeLike = bool) -> Self:
        """For each probability in this tensor, True with that probability, up to 2^-24
        (2^-53 where they are float64)."""
    def beta(self, x2: Operand, /) -> Self:
        """`gamma(x1) * gamma(x2) / gamma(x1 + x2)` of positive numbers. Shapes broadcast
        and dtypes promote; integers become float32."""
    def bincount(self, weights: Operand | None = None, minlength: int = 0, *, n_bins: int | None = None) -> Self:
        """How many elements are 0, 1, ... (int64), or the sum of the weights of each, in
        the dtype of these: shape (bins,)."""
    def bitcast(self, dtype: DTypeLike) -> Self:
        """The same bits read as `dtype`; where its elements have another size, the last
        axis changes with it."""
    def bitwise_and(self, x2: Operand, /) -> Self:
        """The bits that both `x1` and `x2` have. Shapes broadcast and dtypes promote."""
    def bitwise_count(self) -> Self:
        """The number of bits set in the absolute value of each element, in uint8."""
    def bitwise_invert(self) -> Self:
        """All bits inverted; of bools, the logical not."""
    def bitwise_not(self) -> Self:
        """All bits inverted; of bools, the logical not."""
    def invert(self) -> Self:
        """All bits inverted; of bools, the logical not."""
    def bitwise_left_shift(self, x2: Operand, /) -> Self:
        """The bits moved to the left by `x2`; one that is not from 0 to bits - 1 gives 0.
        Shapes broadcast and dtypes promote."""
    def left_shift(self, x2: Operand, /) -> Self:
        """The bits moved to the left by `x2`; one that is not from 0 to bits - 1 gives 0.
        Shapes broadcast and dtypes promote."""
    def lshift(self, x2: Operand, /) -> Self:
        """The bits moved to the left by `x2`; one that is not from 0 to bits - 1 gives 0.
        Shapes broadcast and dtypes promote."""
    def bitwise_or(self, x2: Operand, /) -> Self:
        """The bits that `x1` or `x2` has. Shapes broadcast and dtypes promote."""
    def bitwise_right_shift(self, x2: Operand, /) -> Self:
        """The bits moved to the right by `x2`, keeping the sign. Shapes broadcast and
        dtypes promote."""
    def right_shift(self, x2: Operand, /) -> Self:
        """The bits moved to the right by `x2`, keeping the sign. Shapes broadcast and
        dtypes promote."""
    def rshift(self, x2: Operand, /) -> Self:
        """The bits moved to the right by `x2`, keeping the sign. Shapes broadcast and
        dtypes promote."""
    def bitwise_xor(self, x2: Operand, /) -> Self:
        """The bits that one of `x1` and `x2` has. Shapes broadcast and dtypes promote."""
    @staticmethod
    def broadcast_arrays(*arrays: Operand) -> tuple[Tensor, ...]:
        """All of `arrays` with the shape that they broadcast to: views."""
    def broadcast_to(self, *shape: SInt | Sequence[SInt]) -> Self:
        """`x`, repeated to `shape` by the rules of broadcasting: a view, which cannot be
        assigned to where elements are repeated."""
    def buffer(self) -> Buffer:
        """The buffer of this tensor, which is computed first if need be; of a view of a
        larger one, a copy."""
    def cast(self, dtype: DTypeLike) -> Self:
        """Each element converted to `dtype`, as a new tensor."""
    def categorical(self, axis: int = -1, *, seed: Seed | None = None, generator: Generator | None = None) -> Self:
        """For each row of logits along an axis, a random position, with probabilities
        `softmax(logits)`."""
    def cbrt(self) -> Self:
        """The cube root, of negative numbers too. Integers become float32."""
    def ceil(self) -> Self:
        """The smallest integer that is not below each element, in the dtype of `x`."""
    def central_differences(self, *spacing: Operand, axis: int | Sequence[int] | None = None, edge_order: int = 1) -> Self | tuple[Self, ...]:
        """The slope along an axis from both neighbours of each element, as `numpy.gradient`
        has it. Integers become float32."""
    def chunk(self, n_parts: int, axis: int = 0) -> tuple[Self, ...]:
        """At most `n_parts` parts of equal size along `axis`, the last one possibly
        smaller: views."""
    def clip(self, min: Operand | None = None, max: Operand | None = None) -> Self:
        """The elements, limited to `min` and `max`, either of which may be left out; NaN
        stays NaN. Shapes broadcast and dtypes promote."""
    def clamp(self, min: Operand | None = None, max: Operand | None = None) -> Self:
        """The elements, limited to `min` and `max`, either of which may be left out; NaN
        stays NaN. Shapes broadcast and dtypes promote."""
    def complex(self, imag: Operand) -> Self:
        """Complex numbers with these elements as their real parts. Shapes broadcast, dtypes
        promote, and all but float64 become float32."""
    def compress(self, condition: Operand, axis: int | None = None) -> Self:
        """The slices along an axis where `condition`, which has one axis, holds; it may be
        shorter than the axis."""
    def concat(*arrays: Operand | Iterable[Operand] | None, axis: int | None = 0) -> Tensor:
        """The arrays joined along an axis, in the dtype that all promote to."""
    def cat(*arrays: Operand | Iterable[Operand] | None, axis: int | None = 0) -> Tensor:
        """The arrays joined along an axis, in the dtype that all promote to."""
    def conj(self) -> Self:
        """Each element with its imaginary part negated; of a real tensor, its elements."""
    def conjugate(self) -> Self:
        """Each element with its imaginary part negated; of a real tensor, its elements."""
    def contiguous(self) -> Self:
        """The same values as a new tensor that is computed into a buffer of its own."""
    def conv2d(self, weight: Self, bias: Self | None = None, *, stride: Numbers = 1, padding: Padding = 0, dilation: Numbers = 1, groups: int = 1) -> Self:
        """The cross-correlation with `weight`, over 1, 2 or more spatial axes: shape
        (batch, outputs, *sizes)."""
    def conv_transpose2d(self, weight: Self, bias: Self | None = None, *, stride: Numbers = 1, padding: Numbers = 0, output_padding: Numbers = 0, dilation: Numbers = 1, groups: int = 1) -> Self:
        """The transpose of `conv2d` with the same options: each element adds its multiple
        of a filter to a window of the result."""
    def convolve(self, v: Operand, mode: Literal["full", "same", "valid"] = 'full') -> Self:
        """The discrete convolution of two tensors of one axis: `sum(x[k] * v[i - k])`.
        Dtypes promote."""
    def copy(self) -> Self:
        """A copy: writing to `x` does not change it, nor the other way round."""
    def clone(self) -> Self:
        """A copy: writing to `x` does not change it, nor the other way round."""
    def copysign(self, x2: Operand, /) -> Self:
        """The magnitude of each element with the sign of `x2`. Shapes broadcast and dtypes
        promote; integers become float32."""
    def corrcoef(self, y: Operand | None = None, *, rowvar: bool = True) -> Self:
        """The correlation coefficients of the rows, from -1 to 1: `cov` divided by both
        deviations."""
    def correlate(self, v: Operand, mode: Literal["full", "same", "valid"] = 'valid') -> Self:
        """The cross-correlation of two tensors of one axis: `sum(x[i + k] * v[k])`. Dtypes
        promote."""
    def cos(self) -> Self:
        """The cosine of angles in radians. Integers become float32."""
    def cosh(self) -> Self:
        """The hyperbolic cosine. Integers become float32."""
    def count_nonzero(self, axis: Axes = None, *, keepdims: bool = False) -> Self:
        """How many elements are not zero (int64)."""
    def cov(self, y: Operand | None = None, *, rowvar: bool = True, correction: float = 1, fweights: Operand | None = None, aweights: Operand | None = None) -> Self:
        """The covariances of the rows, as numpy has them: shape (rows, rows), of one axis a
        single variance. Integers become float32."""
    def cumargmax(self, axis: int) -> Self:
        """Where the largest of the first 1, 2, ... elements along `axis` is, in int64: the
        first of several, or the first NaN."""
    def cumargmin(self, axis: int) -> Self:
        """Where the smallest of the first 1, 2, ... elements along `axis` is, in int64: the
        first of several, or the first NaN."""
    def cummax(self, axis: int) -> Self:
        """The largest of the first 1, 2, ... elements along `axis`, in the shape and dtype
        of `x`; a NaN stays the largest."""
    def cummin(self, axis: int) -> Self:
        """The smallest of the first 1, 2, ... elements along `axis`, in the shape and dtype
        of `x`; a NaN stays the smallest."""
    def cumprod(self, axis: int | None = None, *, dtype: DTypeLike | None = None) -> Self:
        """The products of the first 1, 2, ... elements along an axis, in the shape of
        `x`."""
    def cumsum(self, axis: int | None = None, *, dtype: DTypeLike | None = None) -> Self:
        """The sums of the first 1, 2, ... elements along an axis, in the shape of `x`."""
    def cumulative_prod(self, axis: int | None = None, *, dtype: DTypeLike | None = None, include_initial: bool = False) -> Self:
        """`cumprod` as the array API standard has it."""
    def cumulative_sum(self, axis: int | None = None, *, dtype: DTypeLike | None = None, include_initial: bool = False) -> Self:
        """`cumsum` as the array API standard has it."""
    def deg2rad(self) -> Self:
        """Degrees as radians. Integers become float32."""
    def radians(self) -> Self:
        """Degrees as radians. Integers become float32."""
    def detach(self) -> Self:
        """The same elements, taken as a constant where gradients are computed: a view."""
    def diag(self, k: int = 0) -> Self:
        """The matrix with these elements on diagonal `k` and 0 elsewhere, of one axis; of
        two, that diagonal."""
    def diagonal(self, offset: int = 0) -> Self:
        """The elements `[..., i, i + offset]` of the last two axes, as a new tensor of
        shape (..., n)."""
    def diff(self, n: int = 1, axis: int = -1, *, prepend: Self | None = None, append: Self | None = None) -> Self:
        """The differences of neighbours along an axis, which is shorter by `n` then; of
        bools, whether they differ."""
    def digamma(self) -> Self:
        """The derivative of `lgamma`; NaN at negative whole numbers. Integers become
        float32."""
    def digitize(self, bins: Operand, right: bool = False) -> Self:
        """The number of the bin (int64) that each element falls into: `i` where `bins[i -
        1] <= x < bins[i]`."""
    def divide(self, x2: Operand, /) -> Self:
        """The quotient by `x2`; integers are divided as float32. Shapes broadcast and
        dtypes promote."""
    def true_divide(self, x2: Operand, /) -> Self:
        """The quotient by `x2`; integers are divided as float32. Shapes broadcast and
        dtypes promote."""
    def div(self, x2: Operand, /) -> Self:
        """The quotient by `x2`; integers are divided as float32. Shapes broadcast and
        dtypes promote."""
    def dropout(self, p: float = 0.5, *, seed: Seed | None = None, generator: Generator | None = None) -> Self:
        """Each element with probability 1 - `p`, scaled to keep the mean, and 0
        otherwise."""
    @staticmethod
    def einsum(formula: str, *operands: Operand) -> Tensor:
        """A sum of products by Einstein's convention. Dtypes promote, and narrow floats are
        multiplied and added in float32. Of three and more operands, two at a time are
        multiplied, in the order that takes the fewest multiplications."""
    def elu(self, alpha: float = 1.0) -> Self:
        """The element where it is positive, else `alpha * (exp(x) - 1)`. Integers become
        float32."""
    def embedding(self, weight: Self) -> Self:
        """The rows of `weight` at the positions in `x`, in the shape of `x` and a row."""
    @staticmethod
    def empty(*shape: SInt | Sequence[SInt], dtype: DTypeLike | None = None, device: str | None = None) -> Tensor:
        """A tensor of `shape` with memory of its own and no defined content: an input to be
        filled."""
    def empty_like(self, *, dtype: DTypeLike | None = None, device: str | None = None) -> Self:
        """A tensor of the shape of `x` with memory of its own and no defined elements."""
    def equal(self, x2: Operand, /) -> Self:
        """Whether each element equals that of `x2`, as bools; NaN equals nothing. Shapes
        broadcast."""
    def eq(self, x2: Operand, /) -> Self:
        """Whether each element equals that of `x2`, as bools; NaN equals nothing. Shapes
        broadcast."""
    def erf(self) -> Self:
        """The error function. Integers become float32."""
    def erfc(self) -> Self:
        """`1 - erf(x)`, exact where that is tiny. Integers become float32."""
    def erfcx(self) -> Self:
        """`exp(x ** 2) * erfc(x)`, which is finite where its factors are not. Integers
        become float32."""
    def erfinv(self) -> Self:
        """The number whose `erf` is `x`: infinite at 1 and -1, NaN beyond. Integers become
        float32."""
    def exp(self) -> Self:
        """e to the power of each element. Integers become float32."""
    def exp2(self) -> Self:
        """2 to the power of each element. Integers become float32."""
    def expand(self, *shape: SInt | Sequence[SInt]) -> Self:
        """This tensor with axes of size 1 repeated, and axes added in front: a view, which
        cannot be assigned to."""
    def expand_dims(self, axis: int | Sequence[int]) -> Self:
        """`x` with an axis of size 1 at `axis`, or at each of several: a view."""
    def unsqueeze(self, axis: int | Sequence[int]) -> Self:
        """`x` with an axis of size 1 at `axis`, or at each of several: a view."""
    def expm1(self) -> Self:
        """`exp(x) - 1`, accurate near 0. Integers become float32."""
    @staticmethod
    def exponential(*shape: SInt | Sequence[SInt], scale: Operand = 1.0, seed: Seed | None = None, generator: Generator | None = None, dtype: DTypeLike = float, device: str | None = None) -> Tensor:
        """Exponentially distributed numbers with mean `scale`: from 2^-64 to 44.4 times
        that."""
    @staticmethod
    def eye(n_rows: SInt, n_cols: SInt | None = None, /, *, k: int = 0, dtype: DTypeLike | None = None, device: str | None = None) -> Tensor:
        """A matrix with ones on diagonal `k`, above the main one where it is positive, and
        zeros elsewhere."""
    def flatten(self, start_axis: int = 0, end_axis: int = -1) -> Self:
        """The axes from `start_axis` to `end_axis`, both included, as one."""
    def ravel(self, start_axis: int = 0, end_axis: int = -1) -> Self:
        """The axes from `start_axis` to `end_axis`, both included, as one."""
    def flip(self, axis: Axes = None) -> Self:
        """`x` with the elements along an axis in reverse order: a view. `axis` is one axis,
        several, or None for all."""
    def floor(self) -> Self:
        """The largest integer that is not above each element, in the dtype of `x`."""
    def floor_divide(self, x2: Operand, /) -> Self:
        """The quotient by `x2`, rounded toward negative infinity. Shapes broadcast and
        dtypes promote."""
    def fmax(self, x2: Operand, /) -> Self:
        """The larger of each element and that of `x2`; where one is NaN, the other. Shapes
        broadcast and dtypes promote."""
    def fmin(self, x2: Operand, /) -> Self:
        """The smaller of each element and that of `x2`; where one is NaN, the other. Shapes
        broadcast and dtypes promote."""
    def fmod(self, x2: Operand, /) -> Self:
        """The remainder of division by `x2`, truncated toward zero: it has the sign of
        `x1`. Shapes broadcast and dtypes promote."""
    def fold(self, size: int | Sequence[int], kernel: Numbers, *, stride: Numbers = 1, padding: Padding = 0, dilation: Numbers = 1) -> Self:
        """The transpose of `unfold` with the same options: what the windows have of each
        element, added up; of shape (batch, channels, *size)."""
    def frexp(self) -> tuple[Self, Self]:
        """Mantissas from 1/2 to below 1 and exponents (int32): `x = mantissa * 2 **
        exponent`. Integers become float32."""
    @staticmethod
    def from_dlpack(x: object, /, *, device: str | None = None, copy: bool | None = None) -> Tensor:
        """A tensor with the values of another library's array, whose memory it shares where
        kernels can read it there."""
    @staticmethod
    def from_file(path: str | os.PathLike[str]) -> Tensor:
        """The bytes of the file at `path` as a uint8 tensor of one axis on its DISK device:
        nothing is read until it is used."""
    @staticmethod
    def from_numpy(array: NDArray[np.generic], *, copy: bool | None = None) -> Tensor:
        """A tensor with the elements of `array`, in its shape and dtype."""
    @staticmethod
    def full(shape: SInt | Sequence[SInt], fill_value: complex, *, dtype: DTypeLike | None = None, device: str | None = None) -> Tensor:
        """A tensor with `fill_value` at every element; it takes no memory until it is
        realized."""
    def full_like(self, fill_value: complex, *, dtype: DTypeLike | None = None, device: str | None = None) -> Self:
        """A tensor with `fill_value` at every element, in the shape of `x` and where it
        is."""
    def gamma(self) -> Self:
        """The gamma function, `(x - 1)!` of whole numbers; NaN at negative ones. Integers
        become float32."""
    def gather(self, axis: int, indices: TensorBase) -> Self:
        """The elements at `indices` along `axis`, as PyTorch takes them. Other axes may be
        shorter than those of `x`."""
    def gcd(self, x2: Operand, /) -> Self:
        """The greatest common divisor of the absolute values, 0 for two zeros. Shapes
        broadcast and dtypes promote."""
    def gelu(self, approximate: str = 'none') -> Self:
        """`x * Phi(x)`, where Phi is the distribution function of normal numbers. Integers
        become float32."""
    def glu(self, axis: int = -1) -> Self:
        """The first half of `axis`, gated by the sigmoid of the second: half as long on
        that axis. Integers become float32."""
    def gradient(self, *sources: Self, cotangent: Self | None = None) -> tuple[Self, ...]:
        """The gradients of this tensor by each of `sources`, which it was built of: tensors
        of their shapes and dtypes."""
    def greater(self, x2: Operand, /) -> Self:
        """Whether each element is above that of `x2`, as bools; False where one is NaN.
        Shapes broadcast."""
    def gt(self, x2: Operand, /) -> Self:
        """Whether each element is above that of `x2`, as bools; False where one is NaN.
        Shapes broadcast."""
    def greater_equal(self, x2: Operand, /) -> Self:
        """Whether each element is at least that of `x2`, as bools; False where one is NaN.
        Shapes broadcast."""
    def ge(self, x2: Operand, /) -> Self:
        """Whether each element is at least that of `x2`, as bools; False where one is NaN.
        Shapes broadcast."""
    def grid_sample(self, grid: Self, *, mode: SamplingMode = 'bilinear', padding_mode: SamplingPadding = 'zeros', align_corners: bool = False) -> Self:
        """The values at the coordinates in `grid`, interpolated between the elements of
        this tensor of shape (batch, channels, *sizes), for any number of spatial axes:
        shape (batch, channels, *places)."""
    def group_norm(self, n_groups: int, eps: float = 1e-05, weight: Self | None = None, bias: Self | None = None) -> Self:
        """`layernorm` over each group of channels, for a tensor of shape (batch, channels,
        ...). Integers become float32."""
    def hardsigmoid(self) -> Self:
        """`min(max(x + 3, 0), 6) / 6`. Integers become float32."""
    def hardswish(self) -> Self:
        """`x * hardsigmoid(x)`. Integers become float32."""
    def heaviside(self, x2: Operand, /) -> Self:
        """0 for negative numbers, 1 for positive ones, `x2` for zeros, and NaN for NaN.
        Integers become float32."""
    def histogram(self, bins: int | Operand = 10, range: tuple[float, float] | None = None, *, weights: Operand | None = None, density: bool = False) -> tuple[Self, Self]:
        """How many elements fall into each bin, and the edges of the bins, in order: shapes
        (bins,) and (bins + 1,)."""
    def hypot(self, x2: Operand, /) -> Self:
        """`sqrt(x1^2 + x2^2)` without overflow. Shapes broadcast and dtypes promote;
        integers become float32."""
    def i0(self) -> Self:
        """The modified Bessel function of the first kind and order 0. Integers become
        float32."""
    def i0e(self) -> Self:
        """`exp(-abs(x)) * i0(x)`, which does not overflow. Integers become float32."""
    def i1(self) -> Self:
        """The modified Bessel function of the first kind and order 1. Integers become
        float32."""
    def i1e(self) -> Self:
        """`exp(-abs(x)) * i1(x)`, which does not overflow. Integers become float32."""
    @property
    def imag(self) -> Self:
        """The imaginary part of each element, as a new tensor; of a real tensor, zeros."""
    def index_add(self, axis: int, indices: IndexItem, value: Operand) -> Self:
        """`x` with slices of `value` added to its own along an axis, in torch's order of
        arguments."""
    def interp(self, xp: Operand, fp: Operand, left: float | None = None, right: float | None = None, *, period: float | None = None) -> Self:
        """Values at `x` of the piecewise linear function through the points (`xp`, `fp`).
        Integers become float32."""
    def interpolate(self, size: int | Sequence[int] | None = None, scale_factor: float | Sequence[float] | None = None, *, mode: ResizingMode = 'nearest', align_corners: bool = False, antialias: bool = False) -> Self:
        """`x`, resized along its spatial axes, all but the first two. Integers become
        float32 unless the mode copies elements."""
    def intersect1d(self, x2: Operand, /) -> Self:
        """The different elements that `x1` and `x2` have in common, in order. Both are
        computed."""
    def isclose(self, x2: Operand, /, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Self:
        """Whether `abs(x1 - x2) <= atol + rtol * abs(x2)`, or both are equal, as bools.
        Shapes broadcast."""
    def isfinite(self) -> Self:
        """Whether each element is neither infinite nor NaN, as bools."""
    def isin(self, x2: Operand, /, *, invert: bool = False) -> Self:
        """Whether each element is among `x2`, as bools in the shape of `x1`."""
    def isinf(self) -> Self:
        """Whether each element is infinite, as bools."""
    def isnan(self) -> Self:
        """Whether each element is NaN, as bools."""
    def item(self) -> Scalar:
        """The value of a tensor with one element, as a Python number."""
    def j0(self) -> Self:
        """The Bessel function of the first kind and order 0. Integers become float32."""
    def j1(self) -> Self:
        """The Bessel function of the first kind and order 1. Integers become float32."""
    def kron(self, x2: Operand, /) -> Self:
        """The Kronecker product: each element times the whole `x2`, side by side. Dtypes
        promote."""
    def layernorm(self, axis: Axes = -1, eps: float = 1e-05, weight: Self | None = None, bias: Self | None = None) -> Self:
        """Mean 0 and variance 1 over `axis`, then times `weight` and plus `bias`. Integers
        become float32."""
    def lcm(self, x2: Operand, /) -> Self:
        """The least common multiple of the absolute values, 0 if one is 0. Shapes broadcast
        and dtypes promote; overflow wraps."""
    def ldexp(self, x2: Operand, /) -> Self:
        """`x1 * 2 ** x2`, rounded once. Shapes broadcast; integers become float32."""
    def leaky_relu(self, slope: float = 0.01) -> Self:
        """The element where it is not negative, else `slope` times it. Integers become
        float32."""
    def lerp(self, end: Operand, weight: Operand) -> Self:
        """`x + (end - x) * weight`: `x` where `weight` is 0, `end` where it is 1. Shapes
        broadcast and dtypes promote."""
    def less(self, x2: Operand, /) -> Self:
        """Whether each element is below that of `x2`, as bools; False where one is NaN.
        Shapes broadcast."""
    def lt(self, x2: Operand, /) -> Self:
        """Whether each element is below that of `x2`, as bools; False where one is NaN.
        Shapes broadcast."""
    def less_equal(self, x2: Operand, /) -> Self:
        """Whether each element is at most that of `x2`, as bools; False where one is NaN.
        Shapes broadcast."""
    def le(self, x2: Operand, /) -> Self:
        """Whether each element is at most that of `x2`, as bools; False where one is NaN.
        Shapes broadcast."""
    def lgamma(self) -> Self:
        """The logarithm of `abs(gamma(x))`. Integers become float32."""
    def linear(self, weight: Self, bias: Self | None = None) -> Self:
        """`x @ weight.T + bias`: shape (..., outputs) of a tensor of shape (...,
        inputs)."""
    @staticmethod
    def linspace(start: complex, stop: complex, /, num: SInt, *, dtype: DTypeLike | None = None, device: str | None = None, endpoint: bool = True) -> Tensor:
        """`num` numbers in equal steps from `start` to `stop`, as a tensor of one axis."""
    def log(self) -> Self:
        """The natural logarithm; NaN of negative numbers. Integers become float32."""
    def log10(self) -> Self:
        """The logarithm to base 10; NaN of negative numbers. Integers become float32."""
    def log1p(self) -> Self:
        """`log(1 + x)`, accurate near 0. Integers become float32."""
    def log2(self) -> Self:
        """The logarithm to base 2; NaN of negative numbers. Integers become float32."""
    def log_ndtr(self) -> Self:
        """The logarithm of `ndtr`, finite far below 0 too. Integers become float32."""
    def log_softmax(self, axis: int = -1) -> Self:
        """`log(softmax(x))` along `axis`, accurate where the softmax is near 0. Integers
        become float32."""
    def logaddexp(self, x2: Operand, /) -> Self:
        """`log(exp(x1) + exp(x2))` without overflow. Shapes broadcast and dtypes promote;
        integers become float32."""
    def logical_and(self, x2: Operand, /) -> Self:
        """Whether an element and that of `x2` are both not zero, as bools. Shapes
        broadcast."""
    def logical_not(self) -> Self:
        """Whether each element is zero, as bools."""
    def logical_or(self, x2: Operand, /) -> Self:
        """Whether an element or that of `x2` is not zero, as bools. Shapes broadcast."""
    def logical_xor(self, x2: Operand, /) -> Self:
        """Whether one of an element and that of `x2` is not zero, as bools. Shapes
        broadcast."""
    def logit(self) -> Self:
        """`log(x / (1 - x))`, the inverse of `sigmoid`: infinite at 0 and 1, NaN outside.
        Integers become float32."""
    def logsumexp(self, axis: Axes = None, *, keepdims: bool = False) -> Self:
        """`log(sum(exp(x)))` without overflow. Integers become float32."""
    def lp_pool2d(self, ord: float = 2, kernel: Numbers = 2, *, stride: Numbers | None = None, padding: Padding = 0, dilation: Numbers = 1, ceil_mode: bool = False) -> Self:
        """The norm of each window over the spatial axes, as in ONNX: of absolute values.
        Integers become float32."""
    @property
    def mT(self) -> Self:
        """This tensor with its last two axes swapped: a view."""
    def masked_fill(self, mask: TensorBase, value: bool | int | float | Self) -> Self:
        """`value` where `mask` holds, the elements of `x` elsewhere. All shapes broadcast,
        and the dtypes promote."""
    def masked_select(self, mask: object) -> Self:
        """The elements where `mask` holds, as a tensor of one axis for those of the mask; a
        mask that is a tensor is computed."""
    def matmul(self, x2: Operand, /, *, dtype: DTypeLike | None = None) -> Self:
        """The matrix product by numpy's rules: 1-d operands are a row (left) or column
        (right), leading axes broadcast."""
    def dot(self, x2: Operand, /, *, dtype: DTypeLike | None = None) -> Self:
        """The matrix product by numpy's rules: 1-d operands are a row (left) or column
        (right), leading axes broadcast."""
    def matrix_norm(self, *, ord: float | Literal["fro", "nuc"] = 'fro', keepdims: bool = False) -> Self:
        """The norm of the matrices in the last two axes. Integers become float32."""
    def matrix_transpose(self) -> Self:
        """`x` with the last two axes swapped: a view."""
    def max(self, axis: Axes = None, *, keepdims: bool = False) -> Self:
        """The largest element, in the dtype of `x`; NaN if there is a NaN."""
    def amax(self, axis: Axes = None, *, keepdims: bool = False) -> Self:
        """The largest element, in the dtype of `x`; NaN if there is a NaN."""
    @overload
    def max_pool2d(self, kernel: Numbers = 2, *, stride: Numbers | None = None, padding: Padding = 0, dilation: Numbers = 1, ceil_mode: bool = False, return_indices: Literal[False] = False) -> Self:
        """The largest element of each window over the spatial axes, in the dtype of `x`;
        padding never wins."""
    @overload
    def max_pool2d(self, kernel: Numbers = 2, *, stride: Numbers | None = None, padding: Padding = 0, dilation: Numbers = 1, ceil_mode: bool = False, return_indices: Literal[True]) -> tuple[Self, Self]:
        """The largest element of each window over the spatial axes, in the dtype of `x`;
        padding never wins."""
    def max_unpool2d(self, indices: TensorBase, kernel: Numbers = 2, *, stride: Numbers | None = None, padding: Padding = 0, size: Sequence[SInt] | None = None) -> Self:
        """These elements where `max_pool2d` with the same options found them, and 0
        elsewhere. Of several for one place, the last stays."""
    def maximum(self, x2: Operand, /) -> Self:
        """The larger of each element and that of `x2`; NaN where either is NaN. Shapes
        broadcast and dtypes promote."""
    def mean(self, axis: Axes = None, *, keepdims: bool = False) -> Self:
        """The mean; NaN over no elements. Integers are added as float64, and their mean is
        float32."""
    def median(self, axis: Axes = None, *, keepdims: bool = False) -> Self:
        """The middle element in order, or the mean of both where there are two. NaN where
        there is a NaN."""
    @staticmethod
    def meshgrid(*arrays: Operand, indexing: str = 'xy') -> tuple[Tensor, ...]:
        """For each of `arrays`, tensors of one axis, its coordinates at all points of their
        grid."""
    def min(self, axis: Axes = None, *, keepdims: bool = False) -> Self:
        """The smallest element, in the dtype of `x`; NaN if there is a NaN."""
    def amin(self, axis: Axes = None, *, keepdims: bool = False) -> Self:
        """The smallest element, in the dtype of `x`; NaN if there is a NaN."""
    def minimum(self, x2: Operand, /) -> Self:
        """The smaller of each element and that of `x2`; NaN where either is NaN. Shapes
        broadcast and dtypes promote."""
    def mish(self) -> Self:
        """`x * tanh(softplus(x))`. Integers become float32."""
    def moveaxis(self, source: int | Sequence[int], destination: int | Sequence[int]) -> Self:
        """`x` with axis `source`, or each of several, at index `destination`; the others
        keep their order: a view."""
    def multinomial(self, n: int, *, replacement: bool = False, seed: Seed | None = None, generator: Generator | None = None) -> Self:
        """For each row of weights along the last axis, `n` positions, with probabilities in
        proportion to their weights."""
    def multiply(self, x2: Operand, /) -> Self:
        """The product with `x2`; of bools it is the logical and. Shapes broadcast and
        dtypes promote."""
    def mul(self, x2: Operand, /) -> Self:
        """The product with `x2`; of bools it is the logical and. Shapes broadcast and
        dtypes promote."""
    def nan_to_num(self, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None) -> Self:
        """Numbers in place of NaN and the infinities, in the dtype of `x`."""
    def nanargmax(self, axis: int | None = None, *, keepdims: bool = False) -> Self:
        """The position (int64) of the largest element that is not NaN, the first of
        several; 0 where there is none."""
    def nanargmin(self, axis: int | None = None, *, keepdims: bool = False) -> Self:
        """The position (int64) of the smallest element that is not NaN, the first of
        several; 0 where there is none."""
    def nancumprod(self, axis: int | None = None, *, dtype: DTypeLike | None = None) -> Self:
        """`cumprod` in which NaNs count as 1."""
    def nancumsum(self, axis: int | None = None, *, dtype: DTypeLike | None = None) -> Self:
        """`cumsum` in which NaNs count as 0."""
    def nanmax(self, axis: Axes = None, *, keepdims: bool = False) -> Self:
        """The largest element that is no NaN, in the dtype of `x`; NaN where there is
        none."""
    def nanmean(self, axis: Axes = None, *, keepdims: bool = False) -> Self:
        """The mean without NaNs; NaN where there is nothing else. That of integers is
        float32."""
    def nanmedian(self, axis: Axes = None, *, keepdims: bool = False) -> Self:
        """`median` of the elements that are not NaN; NaN where there is nothing else."""
    def nanmin(self, axis: Axes = None, *, keepdims: bool = False) -> Self:
        """The smallest element that is no NaN, in the dtype of `x`; NaN where there is
        none."""
    def nanpercentile(self, q: Operand, axis: Axes = None, *, method: QuantileMethod = 'linear', keepdims: bool = False) -> Self:
        """`nanquantile` of `q` in percent."""
    def nanprod(self, axis: Axes = None, *, keepdims: bool = False) -> Self:
        """The product without NaNs, in the dtype that `prod` has."""
    def nanquantile(self, q: Operand, axis: Axes = None, *, method: QuantileMethod = 'linear', keepdims: bool = False) -> Self:
        """`quantile` of the elements that are not NaN; NaN where there is nothing else."""
    def nanstd(self, axis: Axes = None, *, correction: float = 0, keepdims: bool = False) -> Self:
        """The square root of `nanvar`."""
    def nansum(self, axis: Axes = None, *, keepdims: bool = False) -> Self:
        """The sum without NaNs, in the dtype that `sum` has."""
    def nanvar(self, axis: Axes = None, *, correction: float = 0, keepdims: bool = False) -> Self:
        """The variance of the elements that are not NaN; NaN where there are no more of
        them than `correction`."""
    def ndtr(self) -> Self:
        """The probability that a normal number is below `x`. Integers become float32."""
    def ndtri(self) -> Self:
        """The inverse of `ndtr`: below which a normal number is with probability `x`.
        Integers become float32."""
    def negative(self) -> Self:
        """The negative, in the dtype of `x`; unsigned integers wrap."""
    def neg(self) -> Self:
        """The negative, in the dtype of `x`; unsigned integers wrap."""
    def nextafter(self, x2: Operand, /) -> Self:
        """The next number of the dtype in the direction of `x2`. Shapes broadcast and
        dtypes promote; integers become float32."""
    def nonzero(self) -> tuple[Self, ...]:
        """The positions (int64) of the elements that are not zero, in row-major order: a
        tensor for each axis."""
    def norm(self, axis: Axes = None, *, ord: float | Literal["fro"] = 2, keepdims: bool = False) -> Self:
        """The norm of the elements along `axis` as one vector: `sum(abs(x) ** ord) ** (1 /
        ord)`. Integers become float32."""
    def vector_norm(self, axis: Axes = None, *, ord: float | Literal["fro"] = 2, keepdims: bool = False) -> Self:
        """The norm of the elements along `axis` as one vector: `sum(abs(x) ** ord) ** (1 /
        ord)`. Integers become float32."""
    @staticmethod
    def normal(*shape: SInt | Sequence[SInt], mean: Operand = 0.0, std: Operand = 1.0, seed: Seed | None = None, generator: Generator | None = None, dtype: DTypeLike = float, device: str | None = None) -> Tensor:
        """Normally distributed numbers."""
    def not_equal(self, x2: Operand, /) -> Self:
        """Whether each element differs from that of `x2`, as bools; NaN differs from
        everything. Shapes broadcast."""
    def ne(self, x2: Operand, /) -> Self:
        """Whether each element differs from that of `x2`, as bools; NaN differs from
        everything. Shapes broadcast."""
    def numpy(self, *, copy: bool = False) -> NDArray[np.generic]:
        """The values as a numpy array, computed first if need be."""
    def one_hot(self, n_classes: int, *, dtype: DTypeLike | None = None) -> Self:
        """1 at the position that each element names along a new last axis, 0 elsewhere;
        only 0 where that is out of range."""
    @staticmethod
    def ones(*shape: SInt | Sequence[SInt], dtype: DTypeLike | None = None, device: str | None = None) -> Tensor:
        """A tensor of `shape` with 1 at every element; it takes no memory until it is
        realized."""
    def ones_like(self, *, dtype: DTypeLike | None = None, device: str | None = None) -> Self:
        """A tensor with 1 at every element, in the shape of `x`; `dtype` is by default that
        of `x`, and `device` where it is."""
    def outer(self, x2: Self, /) -> Self:
        """The product of each element with each element of `x2`, both flattened: shape (n,
        m). Dtypes promote."""
    def pad(self, *padding: Amounts | Sequence[Amounts], mode: PadMode = 'constant', constant_values: complex = 0) -> Self:
        """`x` with `constant_values`, or elements of its own, before and after each axis;
        negative amounts crop it."""
    def percentile(self, q: Operand, axis: Axes = None, *, method: QuantileMethod = 'linear', keepdims: bool = False) -> Self:
        """`quantile` of `q` in percent."""
    @staticmethod
    def permutation(n: SInt, *, seed: Seed | None = None, generator: Generator | None = None, device: str | None = None) -> Tensor:
        """The numbers (int64) from 0 up to but excluding `n` in random order."""
    def permute_dims(self, *axes: int | Sequence[int]) -> Self:
        """`x` with its axes in another order: a view. Axis i of the result is axis
        `axes[i]` of `x`."""
    def permute(self, *axes: int | Sequence[int]) -> Self:
        """`x` with its axes in another order: a view. Axis i of the result is axis
        `axes[i]` of `x`."""
    def polygamma(self, n: int) -> Self:
        """The derivative of order `n` of `digamma`, which is that of order 0. Integers
        become float32."""
    def polyval(self, x: Operand) -> Self:
        """The polynomial with these coefficients, the highest power first, at `x`. Dtypes
        promote."""
    def positive(self) -> Self:
        """The same values as a new tensor."""
    def pow(self, x2: Operand, /) -> Self:
        """`x1` to the power of `x2`. Shapes broadcast and dtypes promote."""
    def power(self, x2: Operand, /) -> Self:
        """`x1` to the power of `x2`. Shapes broadcast and dtypes promote."""
    def prod(self, axis: Axes = None, *, keepdims: bool = False, dtype: DTypeLike | None = None) -> Self:
        """The product, 1 over no elements. Narrow floats are multiplied in float32 and
        rounded once."""
    def put_along_axis(self, indices: TensorBase, values: Operand, axis: int) -> Self:
        """This tensor with `values` at the elements that `take_along_axis(indices, axis)`
        reads; of several for one, the last stays."""
    def quantile(self, q: Operand, axis: Axes = None, *, method: QuantileMethod = 'linear', keepdims: bool = False) -> Self:
        """The value that a fraction `q` of the elements does not exceed: shape (*shape of
        `q`, *axes left). NaN where there is a NaN."""
    def rad2deg(self) -> Self:
        """Radians as degrees. Integers become float32."""
    def degrees(self) -> Self:
        """Radians as degrees. Integers become float32."""
    @staticmethod
    def rand(*shape: SInt | Sequence[SInt], seed: Seed | None = None, generator: Generator | None = None, dtype: DTypeLike = float, device: str | None = None) -> Tensor:
        """Numbers from 0 up to but excluding 1, uniformly distributed: multiples of 2^-p,
        where p is the precision of `dtype` in bits."""
    @staticmethod
    def randint(*shape: SInt | Sequence[SInt], low: int = 0, high: int, seed: Seed | None = None, generator: Generator | None = None, dtype: DTypeLike | None = None, device: str | None = None) -> Tensor:
        """Integers from `low` up to but excluding `high`, each with the same probability up
        to one part in 2^32."""
    @staticmethod
    def randn(*shape: SInt | Sequence[SInt], seed: Seed | None = None, generator: Generator | None = None, dtype: DTypeLike = float, device: str | None = None) -> Tensor:
        """Normally distributed numbers with mean 0 and variance 1, at most 5.8 from 0, or
        8.6 in float64."""
    @property
    def real(self) -> Self:
        """The real part of each element, as a new tensor; of a real tensor, its
        elements."""
    def reciprocal(self) -> Self:
        """`1 / x`. Integers become float32."""
    def relu(self) -> Self:
        """`max(x, 0)`, in the dtype of `x`; NaN stays NaN."""
    def relu6(self) -> Self:
        """`min(max(x, 0), 6)`, in the dtype of `x`."""
    def remainder(self, x2: Operand, /) -> Self:
        """`x1 - (x1 // x2) * x2`: it has the sign of `x2`. Shapes broadcast and dtypes
        promote."""
    def mod(self, x2: Operand, /) -> Self:
        """`x1 - (x1 // x2) * x2`: it has the sign of `x2`. Shapes broadcast and dtypes
        promote."""
    def repeat(self, repeats: int | Sequence[int] | TensorBase, axis: int | None = None) -> Self:
        """Each element several times in a row; `tile` repeats the whole tensor."""
    def repeat_interleave(self, repeats: int | Sequence[int] | TensorBase, axis: int | None = None) -> Self:
        """Each element several times in a row; `tile` repeats the whole tensor."""
    def reshape(self, *shape: SInt | Sequence[SInt], copy: bool | None = None) -> Self:
        """The same elements in row-major order as a tensor of `shape`: a view where numpy
        makes one, else a copy."""
    def view(self, *shape: SInt | Sequence[SInt], copy: bool | None = None) -> Self:
        """The same elements in row-major order as a tensor of `shape`: a view where numpy
        makes one, else a copy."""
    def rms_norm(self, axis: Axes = -1, eps: float = 1e-06, weight: Self | None = None) -> Self:
        """Mean square 1 over `axis`, then times `weight`. Integers become float32."""
    def roll(self, shift: int | Sequence[int], axis: Axes = None) -> Self:
        """The elements, moved by `shift` along an axis; those that leave at the end come
        back at the start."""
    def round(self, decimals: int = 0) -> Self:
        """The nearest integer, in the dtype of `x`; halves go to the even one. Of complex
        numbers, each part is rounded."""
    def rint(self, decimals: int = 0) -> Self:
        """The nearest integer, in the dtype of `x`; halves go to the even one. Of complex
        numbers, each part is rounded."""
    def rsqrt(self) -> Self:
        """`1 / sqrt(x)`. Integers become float32."""
    def scaled_dot_product_attention(self, key: Self, value: Self, mask: Self | None = None, *, is_causal: bool = False, scale: float | None = None) -> Self:
        """`softmax(q @ k.T * scale + mask) @ v`, with `x` as the queries of shape (..., n,
        d): shape (..., n, e)."""
    def scatter(self, axis: int, indices: TensorBase, value: Operand) -> Self:
        """`x` with `value` at the elements that `gather(axis, indices)` reads; of several
        for one, the last stays."""
    def scatter_add(self, axis: int, indices: TensorBase, value: Operand) -> Self:
        """`x` with `value` added to the elements that `gather(axis, indices)` reads, in
        torch's order of arguments."""
    def scatter_reduce(self, axis: int, indices: TensorBase, value: Operand, reduce: ReductionAt, *, include_self: bool = True) -> Self:
        """`x` with what is written to each place by `scatter`, reduced to one element, in
        torch's order of arguments."""
    def searchsorted(self, x2: Operand, /, side: Literal["left", "right"] = 'left', *, sorter: Self | None = None) -> Self:
        """Where in this sorted tensor of one axis values can be inserted (int64), in the
        shape of `x2`."""
    def selu(self) -> Self:
        """`elu` with the scale and the slope that keep mean 0 and variance 1. Integers
        become float32."""
    def setdiff1d(self, x2: Operand, /) -> Self:
        """The different elements of `x1` that are not in `x2`, in order. Both are
        computed."""
    def setxor1d(self, x2: Operand, /) -> Self:
        """The different elements that are in one of `x1` and `x2` alone, in order. Both are
        computed."""
    def shard(self, devices: Sequence[str], axis: int | None = None) -> Self:
        """This tensor spread over several devices, each of which computes its part of the
        results."""
    def shards(self) -> tuple[Self, ...]:
        """The part of this tensor on each of its devices, as views of one device; the
        tensor itself if it has one."""
    def shrink(self, *bounds: tuple[SInt, SInt] | None) -> Self:
        """The part from `begin` up to but excluding `end` of each axis: a view."""
    def shuffle(self, axis: int = 0, *, seed: Seed | None = None, generator: Generator | None = None) -> Self:
        """The parts of this tensor along an axis in random order."""
    def sigmoid(self) -> Self:
        """`1 / (1 + exp(-x))`. Integers become float32."""
    def sign(self) -> Self:
        """-1, 0 or 1 in the dtype of `x`, and NaN for NaN; of a complex number, `x /
        abs(x)`, and 0 for 0."""
    def signbit(self) -> Self:
        """Whether the sign bit is set, as bools: it is for -0.0 and for some NaNs."""
    def silu(self) -> Self:
        """`x * sigmoid(x)`. Integers become float32."""
    def swish(self) -> Self:
        """`x * sigmoid(x)`. Integers become float32."""
    def sin(self) -> Self:
        """The sine of angles in radians. Integers become float32."""
    def sinc(self) -> Self:
        """`sin(pi * x) / (pi * x)`, 1 at 0. Integers become float32."""
    def sinh(self) -> Self:
        """The hyperbolic sine. Integers become float32."""
    def softmax(self, axis: int = -1) -> Self:
        """`exp(x)`, scaled to a sum of 1 along `axis`, without overflow. Integers become
        float32."""
    def softplus(self, beta: float = 1.0) -> Self:
        """`log(1 + exp(beta * x)) / beta` without overflow. Integers become float32."""
    def softsign(self) -> Self:
        """`x / (1 + abs(x))`. Integers become float32."""
    def sort(self, axis: int = -1, *, descending: bool = False, stable: bool = True) -> Self:
        """The elements in order; NaN counts as the largest value. `argsort` gives their
        positions."""
    def split(self, sizes: int | Sequence[int], axis: int = 0) -> tuple[Self, ...]:
        """Parts of the given sizes along an axis: views."""
    def sqrt(self) -> Self:
        """The square root; NaN of negative numbers. Integers become float32."""
    def square(self) -> Self:
        """Each element times itself, in the dtype of `x`."""
    def squeeze(self, axis: Axes = None) -> Self:
        """`x` without axes of size 1: a view. `axis` is one axis, several, or None for all
        that have size 1."""
    def stack(*arrays: Operand | Iterable[Operand], axis: int = 0) -> Tensor:
        """The arrays, all of one shape, joined along a new axis, in the dtype that all
        promote to."""
    def std(self, axis: Axes = None, *, correction: float = 0, keepdims: bool = False) -> Self:
        """The standard deviation, which is the square root of the variance. That of
        integers is float32."""
    def subtract(self, x2: Operand, /) -> Self:
        """`x1` minus `x2`. Shapes broadcast and dtypes promote."""
    def sub(self, x2: Operand, /) -> Self:
        """`x1` minus `x2`. Shapes broadcast and dtypes promote."""
    def sum(self, axis: Axes = None, *, keepdims: bool = False, dtype: DTypeLike | None = None) -> Self:
        """The sum, 0 over no elements. Narrow floats are added in float32 and rounded
        once."""
    def swapaxes(self, axis1: int, axis2: int) -> Self:
        """`x` with `axis1` and `axis2` swapped: a view."""
    def take(self, indices: IndexItem, axis: int | None = None, *, mode: Literal["raise", "wrap", "clip"] = 'raise') -> Self:
        """The elements at `indices` along an axis: the axis becomes the axes of
        `indices`."""
    def take_along_axis(self, indices: TensorBase, axis: int = -1) -> Self:
        """The elements at `indices` along `axis`, as numpy and the array API standard take
        them. Other axes broadcast."""
    def tan(self) -> Self:
        """The tangent of angles in radians. Integers become float32."""
    def tanh(self) -> Self:
        """The hyperbolic tangent. Integers become float32."""
    def tensordot(self, x2: Self, /, axes: int | tuple[Sequence[int], Sequence[int]] = 2) -> Self:
        """The sum of products with `x2` over axes of both: the shape is that of the other
        axes, first of `x1`, then of `x2`."""
    def tile(self, *repetitions: SInt | Sequence[SInt]) -> Self:
        """The whole tensor again and again: `repetitions[i]` times along axis i."""
    def to(self, device: str) -> Self:
        """The values of this tensor on `device`, as a new tensor. The shards of a sharded
        one are joined there."""
    def to_device(self, device: str, /, *, stream: object = None) -> Self:
        """`to`, as the array API standard calls it: a tensor of its own, also where this
        one is on `device`."""
    def tolist(self) -> Nested:
        """The values as nested lists of Python numbers; of a 0-d tensor, the number."""
    def topk(self, k: int, axis: int = -1, *, largest: bool = True) -> tuple[Self, Self]:
        """The `k` largest elements in order, and their positions (int64); of equal ones the
        first come first."""
    def trace(self, offset: int = 0, *, dtype: DTypeLike | None = None) -> Self:
        """The sum of the diagonal of the last two axes that is `offset` above the main one;
        `dtype` is that of the result, by default as for `sum`."""
    def transpose(self, axes: int | Sequence[int] | None = None, axis1: int | None = None) -> Self:
        """`x` with its axes in reverse order, in the order `axes`, or with two of them
        swapped: a view."""
    def trapezoid(self, x: Operand | None = None, dx: float = 1.0, axis: int = -1) -> Self:
        """The integral along an axis, by the trapezoidal rule. Integers become float32."""
    def tril(self, k: int = 0) -> Self:
        """The elements on and below diagonal `k` of the last two axes, zero above it."""
    def triu(self, k: int = 0) -> Self:
        """The elements on and above diagonal `k` of the last two axes, zero below it."""
    def trunc(self) -> Self:
        """Each element without its fraction, in the dtype of `x`."""
    @staticmethod
    def truncated_normal(*shape: SInt | Sequence[SInt], low: float = -2.0, high: float = 2.0, mean: float = 0.0, std: float = 1.0, seed: Seed | None = None, generator: Generator | None = None, dtype: DTypeLike = float, device: str | None = None) -> Tensor:
        """Normally distributed numbers, restricted to the range from `low` to `high`."""
    def unflatten(self, axis: int, sizes: Sequence[int]) -> Self:
        """This tensor with `axis` split into axes of `sizes`, one of which may be -1 and is
        then inferred."""
    def unfold(self, kernel: Numbers, *, stride: Numbers = 1, padding: Padding = 0, dilation: Numbers = 1) -> Self:
        """The windows over the spatial axes as columns: shape (batch, channels * elements
        of a window, windows), in row-major order, as PyTorch's `nn.functional.unfold` has
        them, for any number of axes."""
    @staticmethod
    def uniform(*shape: SInt | Sequence[SInt], low: Operand = 0.0, high: Operand = 1.0, seed: Seed | None = None, generator: Generator | None = None, dtype: DTypeLike = float, device: str | None = None) -> Tensor:
        """Uniformly distributed numbers from `low` up to but excluding `high`, which
        rounding to `dtype` may reach."""
    def union1d(self, x2: Operand, /) -> Self:
        """The different elements of `x1` and `x2`, in order. Both are computed."""
    def unique_all(self) -> UniqueAllResult:
        """The distinct elements in order, the position of the first of each, the index of
        each element among them, and their counts."""
    def unique_counts(self) -> UniqueCountsResult:
        """The distinct elements in order, and their counts (int64)."""
    def unique_inverse(self) -> UniqueInverseResult:
        """The distinct elements in order, and the index of each element among them (int64),
        in the shape of `x`."""
    def unique_values(self) -> Self:
        """The distinct elements in order. A NaN differs from every other, and is among the
        last."""
    def unstack(self, axis: int = 0) -> tuple[Self, ...]:
        """The slices along `axis`, each without it: views."""
    def unbind(self, axis: int = 0) -> tuple[Self, ...]:
        """The slices along `axis`, each without it: views."""
    def var(self, axis: Axes = None, *, correction: float = 0, keepdims: bool = False) -> Self:
        """The variance: squared distances from the mean, summed and divided by the number
        of elements minus `correction`."""
    def vecdot(self, x2: Self, /, axis: int = -1) -> Self:
        """The dot products with `x2` along one axis; the others broadcast. Dtypes promote,
        and narrow floats are added in float32. Of complex numbers, those of `x1` are
        conjugated."""
    def where(self, x1: Operand, x2: Operand) -> Self:
        """Elements of `x1` where `condition` holds, else of `x2`."""
    def windows(self, kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int]) -> Self:
        """All windows over the last axes: shape (..., *outputs, *kernel)."""
    def with_items(self, index: Index, value: Operand) -> Self:
        """This tensor with the elements at `index` replaced; `x[index]` says which these
        are. No memory is written."""
    def xlogy(self, x2: Operand, /) -> Self:
        """`x1 * log(x2)`, and 0 where `x1` is 0 unless `x2` is NaN. Shapes broadcast and
        dtypes promote; integers become float32."""
    @staticmethod
    def zeros(*shape: SInt | Sequence[SInt], dtype: DTypeLike | None = None, device: str | None = None) -> Tensor:
        """A tensor of `shape` with 0 at every element; it takes no memory until it is
        realized."""
    def zeros_like(self, *, dtype: DTypeLike | None = None, device: str | None = None) -> Self:
        """A tensor with 0 at every element, in the shape of `x`; `dtype` is by default that
        of `x`, and `device` where it is."""
    def zeta(self, q: Operand = 1) -> Self:
        """The sum of `(k + q) ** -x` for k from 0, Riemann's by default: infinite at 1, NaN
        below. Integers become float32."""
    def __setitem__(self, index: Index, value: Operand, /) -> None:
        """Let the elements at `index` be those of `value`, as `assign` does; of several
        values for one place, the last stays."""
    def __array__(self, dtype: np.dtype | None = None, copy: bool | None = None) -> NDArray[np.generic]:
        """The elements as numpy asks for them: an array that may be written, and shares the
        memory of this tensor, or a copy."""
    def __dlpack__(self, *, stream: object = None, max_version: tuple[int, int] | None = None, dl_device: tuple[int, int] | None = None, copy: bool | None = None) -> object:
        """The tensor's elements in memory of the host by the DLPack protocol; the consumer
        shares them and must not write."""
    def __dlpack_device__(self) -> tuple[int, int]:
        ...
    def __bytes__(self) -> bytes:
        ...
    def __buffer__(self, flags: int, /) -> memoryview:
        """The tensor's memory as Python's buffer protocol gives it, from Python 3.12 on; it
        is read-only."""
    def __bool__(self) -> bool:
        ...
    def __complex__(self) -> complex:
        ...
    def __int__(self) -> int:
        ...
    def __index__(self) -> int:
        ...
    def __float__(self) -> float:
        ...
    def __repr__(self) -> str:
        ...
    def __format__(self, format_spec: str) -> str:
        ...
    def __add__(self, other: Operand, /) -> Self:
        """Return `add(x, other)`."""
    def __radd__(self, other: Operand, /) -> Self:
        """Return `add(other, x)`."""
    def __iadd__(self, other: Operand, /) -> Self:
        """Write `add(x, other)` to this tensor, and return it."""
    def __sub__(self, other: Operand, /) -> Self:
        """Return `subtract(x, other)`."""
    def __rsub__(self, other: Operand, /) -> Self:
        """Return `subtract(other, x)`."""
    def __isub__(self, other: Operand, /) -> Self:
        """Write `subtract(x, other)` to this tensor, and return it."""
    def __mul__(self, other: Operand, /) -> Self:
        """Return `multiply(x, other)`."""
    def __rmul__(self, other: Operand, /) -> Self:
        """Return `multiply(other, x)`."""
    def __imul__(self, other: Operand, /) -> Self:
        """Write `multiply(x, other)` to this tensor, and return it."""
    def __truediv__(self, other: Operand, /) -> Self:
        """Return `divide(x, other)`."""
    def __rtruediv__(self, other: Operand, /) -> Self:
        """Return `divide(other, x)`."""
    def __itruediv__(self, other: Operand, /) -> Self:
        """Write `divide(x, other)` to this tensor, and return it."""
    def __floordiv__(self, other: Operand, /) -> Self:
        """Return `floor_divide(x, other)`."""
    def __rfloordiv__(self, other: Operand, /) -> Self:
        """Return `floor_divide(other, x)`."""
    def __ifloordiv__(self, other: Operand, /) -> Self:
        """Write `floor_divide(x, other)` to this tensor, and return it."""
    def __mod__(self, other: Operand, /) -> Self:
        """Return `remainder(x, other)`."""
    def __rmod__(self, other: Operand, /) -> Self:
        """Return `remainder(other, x)`."""
    def __imod__(self, other: Operand, /) -> Self:
        """Write `remainder(x, other)` to this tensor, and return it."""
    def __pow__(self, other: Operand, /) -> Self:
        """Return `pow(x, other)`."""
    def __rpow__(self, other: Operand, /) -> Self:
        """Return `pow(other, x)`."""
    def __ipow__(self, other: Operand, /) -> Self:
        """Write `pow(x, other)` to this tensor, and return it."""
    def __matmul__(self, other: Operand, /) -> Self:
        """Return `matmul(x, other)`."""
    def __rmatmul__(self, other: Operand, /) -> Self:
        """Return `matmul(other, x)`."""
    def __imatmul__(self, other: Operand, /) -> Self:
        """Write `matmul(x, other)` to this tensor, and return it."""
    def __and__(self, other: Operand, /) -> Self:
        """Return `bitwise_and(x, other)`."""
    def __rand__(self, other: Operand, /) -> Self:
        """Return `bitwise_and(other, x)`."""
    def __iand__(self, other: Operand, /) -> Self:
        """Write `bitwise_and(x, other)` to this tensor, and return it."""
    def __or__(self, other: Operand, /) -> Self:
        """Return `bitwise_or(x, other)`."""
    def __ror__(self, other: Operand, /) -> Self:
        """Return `bitwise_or(other, x)`."""
    def __ior__(self, other: Operand, /) -> Self:
        """Write `bitwise_or(x, other)` to this tensor, and return it."""
    def __xor__(self, other: Operand, /) -> Self:
        """Return `bitwise_xor(x, other)`."""
    def __rxor__(self, other: Operand, /) -> Self:
        """Return `bitwise_xor(other, x)`."""
    def __ixor__(self, other: Operand, /) -> Self:
        """Write `bitwise_xor(x, other)` to this tensor, and return it."""
    def __lshift__(self, other: Operand, /) -> Self:
        """Return `bitwise_left_shift(x, other)`."""
    def __rlshift__(self, other: Operand, /) -> Self:
        """Return `bitwise_left_shift(other, x)`."""
    def __ilshift__(self, other: Operand, /) -> Self:
        """Write `bitwise_left_shift(x, other)` to this tensor, and return it."""
    def __rshift__(self, other: Operand, /) -> Self:
        """Return `bitwise_right_shift(x, other)`."""
    def __rrshift__(self, other: Operand, /) -> Self:
        """Return `bitwise_right_shift(other, x)`."""
    def __irshift__(self, other: Operand, /) -> Self:
        """Write `bitwise_right_shift(x, other)` to this tensor, and return it."""
    def __eq__(self, other: object, /) -> Self:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Return `equal(x, other)`."""
    def __ne__(self, other: object, /) -> Self:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Return `not_equal(x, other)`."""
    def __lt__(self, other: Operand, /) -> Self:
        """Return `less(x, other)`."""
    def __le__(self, other: Operand, /) -> Self:
        """Return `less_equal(x, other)`."""
    def __gt__(self, other: Operand, /) -> Self:
        """Return `greater(x, other)`."""
    def __ge__(self, other: Operand, /) -> Self:
        """Return `greater_equal(x, other)`."""
    def __divmod__(self, other: Operand, /) -> tuple[Self, Self]:
        """Return `floor_divide(x, other)` and `remainder(x, other)`."""
    def __neg__(self) -> Self:
        ...
    def __pos__(self) -> Self:
        ...
    def __abs__(self) -> Self:
        ...
    def __invert__(self) -> Self:
        ...
    def __round__(self, ndigits: int | None = None) -> Self:
        ...
    def __trunc__(self) -> int:
        ...
    def __contains__(self, value: Operand) -> bool:
        ...
    def __getitem__(self, index: Index, /) -> Self:
        """The elements at an index, by numpy's rules: a view of basic indices, else values
        of their own."""
    def __len__(self) -> int:
        """The size of the first axis."""
    def __iter__(self) -> Iterator[Self]:
        """The slices along the first axis: views, or of a tensor of one axis the values of
        its elements."""
    def __copy__(self) -> Self:
        ...
    def __deepcopy__(self, memo: object) -> Self:
        ...
    def __reduce_ex__(self, protocol: SupportsIndex, /) -> tuple[object, ...]:
        ...
    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> object:
        ...
    def __array_function__(self, func: Callable[..., Any], types: Iterable[type], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> object:
        ...
    def __hash__(self) -> int:
        """The identity of the tensor: `==` compares elements."""
