"""Methods of `Tensor` that are registered operations."""

# Written by tools/stubs.py from svod_tensor.ops: change the functions there.

import numpy as np
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from numpy.typing import NDArray
from svod_device import Buffer
from svod_ir import Mesh, SInt
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
        """Transpose: this tensor with its axes reversed, as a view."""
    def abs(self) -> Self:
        """Absolute value, in the dtype of `x`; the minimum of a signed integer dtype wraps
        to itself."""
    def acos(self) -> Self:
        """Inverse cosine, in [0, pi]; NaN outside of [-1, 1]. Integers become float32."""
    def arccos(self) -> Self:
        """Inverse cosine, in [0, pi]; NaN outside of [-1, 1]. Integers become float32."""
    def acosh(self) -> Self:
        """Inverse hyperbolic cosine, non-negative; NaN below 1. Integers become float32."""
    def arccosh(self) -> Self:
        """Inverse hyperbolic cosine, non-negative; NaN below 1. Integers become float32."""
    def add(self, x2: Operand, /) -> Self:
        """Add element-wise: `x1 + x2`, the logical or for booleans. Shapes broadcast and
        dtypes promote."""
    def add_at(self, index: Index, value: Operand) -> Self:
        """Add `value` to the elements at `index` of a copy of this tensor; repeated indices
        accumulate, as in `np.add.at`."""
    def affine_grid(self, size: Sequence[int], align_corners: bool = False) -> Self:
        """Generate a sampling grid for `grid_sample` from affine matrices: shape (batch,
        *sizes, axes)."""
    def all(self, axis: Axes = None, *, keepdims: bool = False) -> Self:
        """Test whether all elements over axes are nonzero, as bool; True for an empty
        axis."""
    def angle(self) -> Self:
        """Angle (argument) of each element in radians, in [-pi, pi]. Integers become
        float32."""
    def any(self, axis: Axes = None, *, keepdims: bool = False) -> Self:
        """Test whether any element over axes is nonzero, as bool; False for an empty
        axis."""
    @staticmethod
    def arange(start: SInt | float, /, stop: SInt | float | None = None, step: int | float = 1, *, dtype: DTypeLike | None = None, device: str | None = None) -> Tensor:
        """Return evenly spaced values in the half-open interval [start, stop), as a 1-d
        tensor."""
    def argmax(self, axis: int | None = None, *, keepdims: bool = False) -> Self:
        """Index (int64) of the first maximum along an axis; NaN is treated as the
        maximum."""
    def argmin(self, axis: int | None = None, *, keepdims: bool = False) -> Self:
        """Index (int64) of the first minimum along an axis; NaN is treated as the
        minimum."""
    def argsort(self, axis: int = -1, *, descending: bool = False, stable: bool = True) -> Self:
        """Return the indices (int64) that sort a tensor along an axis, stably; NaN sorts
        last, as the largest value."""
    def argwhere(self) -> Self:
        """Return the indices (int64) of the nonzero elements, in row-major order: shape (n,
        ndim)."""
    def as_complex(self) -> Self:
        """Convert pairs (real, imaginary) along the last axis, of size 2, to complex64 or
        complex128 numbers, as a copy."""
    def as_real(self) -> Self:
        """Convert complex numbers to pairs (real, imaginary) along a new last axis of size
        2, as a copy."""
    @staticmethod
    def asarray(obj: object, /, *, dtype: DTypeLike | None = None, device: str | None = None, copy: bool | None = None) -> Tensor:
        """Convert `obj` to a tensor: a tensor is returned as it is, anything else is
        copied."""
    def asin(self) -> Self:
        """Inverse sine, in [-pi/2, pi/2]; NaN outside of [-1, 1]. Integers become
        float32."""
    def arcsin(self) -> Self:
        """Inverse sine, in [-pi/2, pi/2]; NaN outside of [-1, 1]. Integers become
        float32."""
    def asinh(self) -> Self:
        """Inverse hyperbolic sine. Integers become float32."""
    def arcsinh(self) -> Self:
        """Inverse hyperbolic sine. Integers become float32."""
    def assign(self, value: Operand) -> Self:
        """Write `value`, which broadcasts, to this tensor in place, and return the
        tensor."""
    def astype(self, dtype: DTypeLike, *, copy: bool = True, device: str | None = None) -> Self:
        """Cast the elements to `dtype` by the rules of `cast`."""
    def atan(self) -> Self:
        """Inverse tangent, in [-pi/2, pi/2]. Integers become float32."""
    def arctan(self) -> Self:
        """Inverse tangent, in [-pi/2, pi/2]. Integers become float32."""
    def atan2(self, x2: Operand, /) -> Self:
        """Inverse tangent of `x1 / x2` in the quadrant of the point (x2, x1), in [-pi, pi];
        signs of zeros are respected. Shapes broadcast and dtypes promote. Integers become
        float32."""
    def arctan2(self, x2: Operand, /) -> Self:
        """Inverse tangent of `x1 / x2` in the quadrant of the point (x2, x1), in [-pi, pi];
        signs of zeros are respected. Shapes broadcast and dtypes promote. Integers become
        float32."""
    def atanh(self) -> Self:
        """Inverse hyperbolic tangent; NaN outside of [-1, 1]. Integers become float32."""
    def arctanh(self) -> Self:
        """Inverse hyperbolic tangent; NaN outside of [-1, 1]. Integers become float32."""
    def avg_pool2d(self, kernel: Numbers = 2, *, stride: Numbers | None = None, padding: Padding = 0, dilation: Numbers = 1, count_include_pad: bool = True, ceil_mode: bool = False) -> Self:
        """Average pooling over the spatial axes of `x`, of shape (batch, channels,
        *spatial); the number of spatial axes is not limited to two. Integers become
        float32."""
    def batchnorm(self, mean: Self, variance: Self, weight: Self | None = None, bias: Self | None = None, eps: float = 1e-05) -> Self:
        """Batch normalization `(x - mean) / sqrt(variance + eps) * weight + bias` with
        given statistics, of a tensor of shape (batch, channels, ...)."""
    def bernoulli(self, *, seed: Seed | None = None, generator: Generator | None = None, dtype: DTypeLike = bool) -> Self:
        """Sample from Bernoulli distributions: True with the probability given by each
        element, to within 2^-24 (2^-53 for float64)."""
    def beta(self, x2: Operand, /) -> Self:
        """Beta function `gamma(x1) * gamma(x2) / gamma(x1 + x2)` for positive numbers.
        Shapes broadcast and dtypes promote; integers become float32."""
    def bincount(self, weights: Operand | None = None, minlength: int = 0, *, n_bins: SInt | None = None) -> Self:
        """Count the occurrences of each non-negative integer (int64), or sum the weights of
        each, in their dtype: shape (bins,)."""
    def bitcast(self, dtype: DTypeLike) -> Self:
        """Reinterpret the bits as `dtype`; the last axis is scaled if the item size
        differs."""
    def bitwise_and(self, x2: Operand, /) -> Self:
        """Bitwise AND of `x1` and `x2`, element-wise. Shapes broadcast and dtypes
        promote."""
    def bitwise_count(self) -> Self:
        """Count the bits set in the absolute value of each element (uint8)."""
    def bitwise_invert(self) -> Self:
        """Bitwise NOT, element-wise; the logical not for booleans."""
    def bitwise_not(self) -> Self:
        """Bitwise NOT, element-wise; the logical not for booleans."""
    def invert(self) -> Self:
        """Bitwise NOT, element-wise; the logical not for booleans."""
    def bitwise_left_shift(self, x2: Operand, /) -> Self:
        """Shift bits to the left by `x2`; 0 for a shift outside of [0, bits - 1]. Shapes
        broadcast and dtypes promote."""
    def left_shift(self, x2: Operand, /) -> Self:
        """Shift bits to the left by `x2`; 0 for a shift outside of [0, bits - 1]. Shapes
        broadcast and dtypes promote."""
    def lshift(self, x2: Operand, /) -> Self:
        """Shift bits to the left by `x2`; 0 for a shift outside of [0, bits - 1]. Shapes
        broadcast and dtypes promote."""
    def bitwise_or(self, x2: Operand, /) -> Self:
        """Bitwise OR of `x1` and `x2`, element-wise. Shapes broadcast and dtypes
        promote."""
    def bitwise_right_shift(self, x2: Operand, /) -> Self:
        """Arithmetic shift of bits to the right by `x2`. Shapes broadcast and dtypes
        promote."""
    def right_shift(self, x2: Operand, /) -> Self:
        """Arithmetic shift of bits to the right by `x2`. Shapes broadcast and dtypes
        promote."""
    def rshift(self, x2: Operand, /) -> Self:
        """Arithmetic shift of bits to the right by `x2`. Shapes broadcast and dtypes
        promote."""
    def bitwise_xor(self, x2: Operand, /) -> Self:
        """Bitwise XOR of `x1` and `x2`, element-wise. Shapes broadcast and dtypes
        promote."""
    @staticmethod
    def broadcast_arrays(*arrays: Operand) -> tuple[Tensor, ...]:
        """Broadcast arrays against each other, as views."""
    def broadcast_to(self, *shape: SInt | Sequence[SInt]) -> Self:
        """Broadcast a tensor to `shape`, as a view, which is read-only if elements are
        repeated."""
    def buffer(self) -> Buffer:
        """Return the buffer of this tensor, realized first if necessary; for a view, a
        copy."""
    def cast(self, dtype: DTypeLike) -> Self:
        """Cast the elements to `dtype`, as a copy."""
    def categorical(self, axis: int = -1, *, seed: Seed | None = None, generator: Generator | None = None) -> Self:
        """Sample an index for each row of logits along an axis, with probabilities
        `softmax(logits)`."""
    def cbrt(self) -> Self:
        """Cube root, also of negative numbers. Integers become float32."""
    def ceil(self) -> Self:
        """Round toward positive infinity, in the dtype of `x`."""
    def central_differences(self, *spacing: Operand, axis: int | Sequence[int] | None = None, edge_order: int = 1) -> Self | tuple[Self, ...]:
        """Numerical gradient by central differences, as `numpy.gradient`. Integers become
        float32."""
    def chunk(self, n_parts: int, axis: int = 0) -> tuple[Self, ...]:
        """Split a tensor along `axis` into at most `n_parts` views of equal size, the last
        possibly smaller."""
    def clip(self, min: Operand | None = None, max: Operand | None = None) -> Self:
        """Clip the elements to the range from `min` to `max`; either may be None, and NaN
        stays NaN. Shapes broadcast and dtypes promote."""
    def clamp(self, min: Operand | None = None, max: Operand | None = None) -> Self:
        """Clip the elements to the range from `min` to `max`; either may be None, and NaN
        stays NaN. Shapes broadcast and dtypes promote."""
    def complex(self, imag: Operand) -> Self:
        """Construct complex numbers with this tensor as real part. Shapes broadcast, dtypes
        promote, and all dtypes except float64 become float32."""
    def compress(self, condition: Operand, axis: int | None = None) -> Self:
        """Return the slices along an axis where the 1-d `condition` is True; it may be
        shorter than the axis."""
    def concat(*arrays: Operand | Iterable[Operand] | None, axis: int | None = 0) -> Tensor:
        """Concatenate arrays along an existing axis, in their promoted dtype."""
    def cat(*arrays: Operand | Iterable[Operand] | None, axis: int | None = 0) -> Tensor:
        """Concatenate arrays along an existing axis, in their promoted dtype."""
    def conj(self) -> Self:
        """Complex conjugate, element-wise; a copy for a real tensor."""
    def conjugate(self) -> Self:
        """Complex conjugate, element-wise; a copy for a real tensor."""
    def contiguous(self) -> Self:
        """Return the values as a tensor that is realized into its own contiguous buffer."""
    def conv2d(self, weight: Self, bias: Self | None = None, *, stride: Numbers = 1, padding: Padding = 0, dilation: Numbers = 1, groups: int = 1) -> Self:
        """Convolution (cross-correlation) of `x`, of shape (batch, channels, *spatial),
        over 1, 2 or more spatial axes."""
    def conv_transpose2d(self, weight: Self, bias: Self | None = None, *, stride: Numbers = 1, padding: Numbers = 0, output_padding: Numbers = 0, dilation: Numbers = 1, groups: int = 1) -> Self:
        """Transposed convolution of `x`, of shape (batch, channels, *spatial): the
        transpose of `conv2d` with the same options."""
    def convolve(self, v: Operand, mode: Literal["full", "same", "valid"] = 'full') -> Self:
        """Discrete convolution of two 1-d tensors, `sum(x[k] * v[i - k])`. Dtypes
        promote."""
    def copy(self) -> Self:
        """Return a copy; writes to `x` do not change it, and vice versa."""
    def clone(self) -> Self:
        """Return a copy; writes to `x` do not change it, and vice versa."""
    def copysign(self, x2: Operand, /) -> Self:
        """Change the sign of `x1` to that of `x2`, element-wise. Shapes broadcast and
        dtypes promote; integers become float32."""
    def corrcoef(self, y: Operand | None = None, *, rowvar: bool = True) -> Self:
        """Pearson correlation coefficients, in [-1, 1]: `cov` divided by both standard
        deviations. Integers become float32."""
    def correlate(self, v: Operand, mode: Literal["full", "same", "valid"] = 'valid') -> Self:
        """Cross-correlation of two 1-d tensors, `sum(x[i + k] * v[k])`. Dtypes promote."""
    def cos(self) -> Self:
        """Cosine of angles in radians. Integers become float32."""
    def cosh(self) -> Self:
        """Hyperbolic cosine. Integers become float32."""
    def count_nonzero(self, axis: Axes = None, *, keepdims: bool = False) -> Self:
        """Count the nonzero elements over axes (int64)."""
    def cov(self, y: Operand | None = None, *, rowvar: bool = True, correction: float = 1, fweights: Operand | None = None, aweights: Operand | None = None) -> Self:
        """Estimate a covariance matrix, as numpy: shape (rows, rows), or a 0-d variance for
        a 1-d tensor. Integers become float32."""
    def cumargmax(self, axis: int) -> Self:
        """Index (int64) of the cumulative maximum along `axis`: its first occurrence, or
        the first NaN."""
    def cumargmin(self, axis: int) -> Self:
        """Index (int64) of the cumulative minimum along `axis`: its first occurrence, or
        the first NaN."""
    def cummax(self, axis: int) -> Self:
        """Cumulative maximum along `axis`, in the shape and dtype of `x`; NaN
        propagates."""
    def cummin(self, axis: int) -> Self:
        """Cumulative minimum along `axis`, in the shape and dtype of `x`; NaN
        propagates."""
    def cumprod(self, axis: int | None = None, *, dtype: DTypeLike | None = None) -> Self:
        """Cumulative product along an axis, in the shape of `x`."""
    def cumsum(self, axis: int | None = None, *, dtype: DTypeLike | None = None) -> Self:
        """Cumulative sum along an axis, in the shape of `x`."""
    def cumulative_prod(self, axis: int | None = None, *, dtype: DTypeLike | None = None, include_initial: bool = False) -> Self:
        """Cumulative product, as the array API standard specifies it."""
    def cumulative_sum(self, axis: int | None = None, *, dtype: DTypeLike | None = None, include_initial: bool = False) -> Self:
        """Cumulative sum, as the array API standard specifies it."""
    def deg2rad(self) -> Self:
        """Convert angles from degrees to radians. Integers become float32."""
    def radians(self) -> Self:
        """Convert angles from degrees to radians. Integers become float32."""
    def detach(self) -> Self:
        """Return a view that is a constant for derivatives."""
    def diag(self, k: int = 0) -> Self:
        """Construct a diagonal matrix from a 1-d tensor, or extract the `k`-th diagonal of
        a 2-d tensor."""
    def diagonal(self, offset: int = 0) -> Self:
        """Return the diagonals `[..., i, i + offset]` of the last two axes, as a copy of
        shape (..., n)."""
    def diff(self, n: int = 1, axis: int = -1, *, prepend: Self | None = None, append: Self | None = None) -> Self:
        """Calculate the `n`-th discrete difference along an axis, which becomes shorter by
        `n`; for booleans, the logical xor of neighbors."""
    def digamma(self) -> Self:
        """Digamma function, the derivative of `lgamma`; NaN at negative integers. Integers
        become float32."""
    def digitize(self, bins: Operand, right: bool = False) -> Self:
        """Return the indices (int64) of the bins that contain the elements of `x`, in the
        shape of `x`."""
    def divide(self, x2: Operand, /) -> Self:
        """Divide element-wise: `x1 / x2`, in float32 for integers. Shapes broadcast and
        dtypes promote."""
    def true_divide(self, x2: Operand, /) -> Self:
        """Divide element-wise: `x1 / x2`, in float32 for integers. Shapes broadcast and
        dtypes promote."""
    def div(self, x2: Operand, /) -> Self:
        """Divide element-wise: `x1 / x2`, in float32 for integers. Shapes broadcast and
        dtypes promote."""
    def dropout(self, p: float = 0.5, *, seed: Seed | None = None, generator: Generator | None = None) -> Self:
        """Zero each element with probability `p`, and scale the others by 1 / (1 - p) to
        keep the mean."""
    @staticmethod
    def einsum(formula: str, *operands: Operand) -> Tensor:
        """Evaluate the Einstein summation convention. Dtypes promote, and narrow floats are
        multiplied and accumulated in float32. Three or more operands are contracted
        pairwise, in the order with the fewest multiplications."""
    def elu(self, alpha: float = 1.0) -> Self:
        """Exponential linear unit: `x` if positive, else `alpha * (exp(x) - 1)`. Integers
        become float32."""
    def embedding(self, weight: Self) -> Self:
        """Gather the rows of `weight` at the indices in `x`: shape (*x.shape,
        *weight.shape[1:])."""
    @staticmethod
    def empty(*shape: SInt | Sequence[SInt], dtype: DTypeLike | None = None, device: str | None = None) -> Tensor:
        """Return a new uninitialized tensor with its own memory, such as an input to be
        filled."""
    def empty_like(self, *, dtype: DTypeLike | None = None, device: str | None = None) -> Self:
        """Return a new uninitialized tensor with its own memory and the shape of `x`."""
    def equal(self, x2: Operand, /) -> Self:
        """Return `x1 == x2` element-wise, as bool; NaN is not equal to anything. Shapes
        broadcast and dtypes promote."""
    def eq(self, x2: Operand, /) -> Self:
        """Return `x1 == x2` element-wise, as bool; NaN is not equal to anything. Shapes
        broadcast and dtypes promote."""
    def erf(self) -> Self:
        """Error function, `2 / sqrt(pi)` times the integral of `exp(-t ** 2)` from 0 to x.
        Integers become float32."""
    def erfc(self) -> Self:
        """Complementary error function `1 - erf(x)`, accurate in the tail. Integers become
        float32."""
    def erfcx(self) -> Self:
        """Scaled complementary error function `exp(x ** 2) * erfc(x)`. Integers become
        float32."""
    def erfinv(self) -> Self:
        """Inverse error function, `erf(erfinv(x)) = x`: infinite at 1 and -1, NaN outside.
        Integers become float32."""
    def exp(self) -> Self:
        """Exponential function e**x, element-wise. Integers become float32."""
    def exp2(self) -> Self:
        """Power of two 2**x, element-wise. Integers become float32."""
    def expand(self, *shape: SInt | Sequence[SInt]) -> Self:
        """Expand axes of size 1 and add leading axes, as a read-only view."""
    def expand_dims(self, axis: int | Sequence[int]) -> Self:
        """Insert axes of size 1, as a view."""
    def unsqueeze(self, axis: int | Sequence[int]) -> Self:
        """Insert axes of size 1, as a view."""
    def expm1(self) -> Self:
        """Exponential minus one, `exp(x) - 1`, accurate near 0. Integers become float32."""
    @staticmethod
    def exponential(*shape: SInt | Sequence[SInt], scale: Operand = 1.0, seed: Seed | None = None, generator: Generator | None = None, dtype: DTypeLike = float, device: str | None = None) -> Tensor:
        """Sample from the exponential distribution with mean `scale`; values are 2^-64 to
        44.4 times it."""
    @staticmethod
    def eye(n_rows: SInt, n_cols: SInt | None = None, /, *, k: int = 0, dtype: DTypeLike | None = None, device: str | None = None) -> Tensor:
        """Return a 2-d tensor with ones on the `k`-th diagonal and zeros elsewhere."""
    def flatten(self, start_axis: int = 0, end_axis: int = -1) -> Self:
        """Flatten the axes from `start_axis` to `end_axis`, inclusive, into one."""
    def ravel(self, start_axis: int = 0, end_axis: int = -1) -> Self:
        """Flatten the axes from `start_axis` to `end_axis`, inclusive, into one."""
    def flip(self, axis: Axes = None) -> Self:
        """Reverse the elements along axes, as a view. `axis` is one axis, several, or None
        for all."""
    def floor(self) -> Self:
        """Round toward negative infinity, in the dtype of `x`."""
    def floor_divide(self, x2: Operand, /) -> Self:
        """Floor of the quotient of `x1` and `x2`, element-wise. Shapes broadcast and dtypes
        promote."""
    def fmax(self, x2: Operand, /) -> Self:
        """Element-wise maximum of `x1` and `x2`, ignoring NaN: NaN only if both are. Shapes
        broadcast and dtypes promote."""
    def fmin(self, x2: Operand, /) -> Self:
        """Element-wise minimum of `x1` and `x2`, ignoring NaN: NaN only if both are. Shapes
        broadcast and dtypes promote."""
    def fmod(self, x2: Operand, /) -> Self:
        """Remainder of truncating division by `x2`, as C's `fmod`, with the sign of `x1`.
        Shapes broadcast and dtypes promote."""
    def fold(self, size: int | Sequence[int], kernel: Numbers, *, stride: Numbers = 1, padding: Padding = 0, dilation: Numbers = 1) -> Self:
        """Sum sliding windows (col2im), the transpose of `unfold` with the same options:
        from shape (..., channels * window size, number of windows) to (..., channels,
        *size)."""
    def frexp(self) -> tuple[Self, Self]:
        """Decompose floats into mantissas in [0.5, 1) and exponents (int32): `x = mantissa
        * 2 ** exponent`. Integers become float32."""
    @staticmethod
    def from_dlpack(x: object, /, *, device: str | None = None, copy: bool | None = None) -> Tensor:
        """Create a tensor from another library's array, sharing its memory where kernels
        can read it."""
    @staticmethod
    def from_file(path: str | os.PathLike[str]) -> Tensor:
        """Map the file at `path` as a 1-d uint8 tensor on its DISK device; bytes are read
        on use."""
    @staticmethod
    def from_numpy(array: NDArray[np.generic], *, copy: bool | None = None) -> Tensor:
        """Create a tensor from a numpy array, with its shape and dtype."""
    @staticmethod
    def full(shape: SInt | Sequence[SInt], fill_value: complex, *, dtype: DTypeLike | None = None, device: str | None = None) -> Tensor:
        """Return a new tensor filled with `fill_value`; it takes no memory until it is
        realized."""
    def full_like(self, fill_value: complex, *, dtype: DTypeLike | None = None, device: str | None = None) -> Self:
        """Return a tensor filled with `fill_value`, with the shape, dtype and device of
        `x`."""
    def gamma(self) -> Self:
        """Gamma function, the integral of `t ** (x - 1) * exp(-t)` over t >= 0, which is
        `(x - 1)!` for positive integers; NaN at negative integers. Integers become
        float32."""
    def gather(self, axis: int, indices: TensorBase) -> Self:
        """Gather the elements at `indices` along `axis`, as PyTorch does. Other axes may be
        shorter than those of `x`."""
    def gcd(self, x2: Operand, /) -> Self:
        """Greatest common divisor of the absolute values; 0 for two zeros. Shapes broadcast
        and dtypes promote."""
    def gelu(self, approximate: str = 'none') -> Self:
        """Gaussian error linear unit `x * Phi(x)`, where Phi is the normal cumulative
        distribution function. Integers become float32."""
    def glu(self, axis: int = -1) -> Self:
        """Gated linear unit: the first half of `axis` times the sigmoid of the second half.
        Integers become float32."""
    def gradient(self, *sources: Self, cotangent: Self | None = None) -> tuple[Self, ...]:
        """Compute the gradients of this tensor with respect to `sources`, in their shapes
        and dtypes."""
    def greater(self, x2: Operand, /) -> Self:
        """Return `x1 > x2` element-wise, as bool; False for NaN. Shapes broadcast and
        dtypes promote."""
    def gt(self, x2: Operand, /) -> Self:
        """Return `x1 > x2` element-wise, as bool; False for NaN. Shapes broadcast and
        dtypes promote."""
    def greater_equal(self, x2: Operand, /) -> Self:
        """Return `x1 >= x2` element-wise, as bool; False for NaN. Shapes broadcast and
        dtypes promote."""
    def ge(self, x2: Operand, /) -> Self:
        """Return `x1 >= x2` element-wise, as bool; False for NaN. Shapes broadcast and
        dtypes promote."""
    def grid_sample(self, grid: Self, *, mode: SamplingMode = 'bilinear', padding_mode: SamplingPadding = 'zeros', align_corners: bool = False) -> Self:
        """Sample this tensor of shape (batch, channels, *sizes) at the coordinates in
        `grid`, with interpolation, for any number of spatial axes: shape (batch, channels,
        *grid_sizes)."""
    def group_norm(self, n_groups: int, eps: float = 1e-05, weight: Self | None = None, bias: Self | None = None) -> Self:
        """Group normalization `(x - mean) / sqrt(var + eps) * weight + bias` of a tensor of
        shape (batch, channels, ...), with the mean and variance of each group of channels
        of each sample. Integers become float32."""
    def hardsigmoid(self) -> Self:
        """Hard sigmoid `min(max(x + 3, 0), 6) / 6`. Integers become float32."""
    def hardswish(self) -> Self:
        """Hard swish `x * min(max(x + 3, 0), 6) / 6`. Integers become float32."""
    def heaviside(self, x2: Operand, /) -> Self:
        """Heaviside step function: 0 for negative, 1 for positive, `x2` for zero, NaN for
        NaN. Integers become float32."""
    def histogram(self, bins: int | Operand = 10, range: tuple[float, float] | None = None, *, weights: Operand | None = None, density: bool = False) -> tuple[Self, Self]:
        """Compute a histogram and its bin edges: shapes (bins,) and (bins + 1,)."""
    def hypot(self, x2: Operand, /) -> Self:
        """Hypotenuse `sqrt(x1**2 + x2**2)` without overflow. Shapes broadcast and dtypes
        promote; integers become float32."""
    def i0(self) -> Self:
        """Modified Bessel function of the first kind of order 0, the sum of `(x / 2) ** (2
        * k) / k! ** 2` over k >= 0. Integers become float32."""
    def i0e(self) -> Self:
        """Exponentially scaled modified Bessel function `exp(-abs(x)) * i0(x)`. Integers
        become float32."""
    def i1(self) -> Self:
        """Modified Bessel function of the first kind of order 1, the sum of `(x / 2) ** (2
        * k + 1) / (k! * (k + 1)!)` over k >= 0. Integers become float32."""
    def i1e(self) -> Self:
        """Exponentially scaled modified Bessel function `exp(-abs(x)) * i1(x)`. Integers
        become float32."""
    @property
    def imag(self) -> Self:
        """Imaginary part of each element, as a copy; zeros for a real tensor."""
    def index_add(self, axis: int, indices: IndexItem, value: Operand) -> Self:
        """Add the slices of `value` to the slices of a copy of `x` at `indices` along an
        axis, as torch's `index_add` does."""
    def interp(self, xp: Operand, fp: Operand, left: float | None = None, right: float | None = None, *, period: float | None = None) -> Self:
        """Interpolate linearly: values at `x` of the piecewise linear function through
        (`xp`, `fp`). Integers become float32."""
    def interpolate(self, size: int | Sequence[int] | None = None, scale_factor: float | Sequence[float] | None = None, *, mode: ResizingMode = 'nearest', align_corners: bool = False, antialias: bool = False) -> Self:
        """Resize the spatial axes of `x`, of shape (batch, channels, *spatial), by
        interpolation. Integers become float32 except for nearest modes."""
    def intersect1d(self, x2: Operand, /) -> Self:
        """Find the sorted unique elements that are in both `x1` and `x2`. Both are
        realized."""
    def isclose(self, x2: Operand, /, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Self:
        """Test element-wise for equality within a tolerance: `abs(x1 - x2) <= atol + rtol *
        abs(x2)`, as bool. Shapes broadcast and dtypes promote."""
    def isfinite(self) -> Self:
        """Test element-wise for finiteness, neither infinity nor NaN, as bool; True for
        integers."""
    def isin(self, x2: Operand, /, *, invert: bool = False) -> Self:
        """Test whether each element of `x1` is in `x2`; returns booleans in the shape of
        `x1`."""
    def isinf(self) -> Self:
        """Test element-wise for positive or negative infinity, as bool; False for
        integers."""
    def isnan(self) -> Self:
        """Test element-wise for NaN, as bool; False for integers."""
    def item(self) -> Scalar:
        """Return the value of a tensor with one element as a Python number."""
    def j0(self) -> Self:
        """Bessel function of the first kind of order 0, the sum of `(-1) ** k * (x / 2) **
        (2 * k) / k! ** 2` over k >= 0. Integers become float32."""
    def j1(self) -> Self:
        """Bessel function of the first kind of order 1, the sum of `(-1) ** k * (x / 2) **
        (2 * k + 1) / (k! * (k + 1)!)` over k >= 0. Integers become float32."""
    def kron(self, x2: Operand, /) -> Self:
        """Kronecker product: blocks of `x2` scaled by the elements of `x1`. Dtypes
        promote."""
    def layernorm(self, axis: Axes = -1, eps: float = 1e-05, weight: Self | None = None, bias: Self | None = None) -> Self:
        """Layer normalization `(x - mean) / sqrt(var + eps) * weight + bias`, with the mean
        and variance over `axis`. Integers become float32."""
    def lcm(self, x2: Operand, /) -> Self:
        """Least common multiple of the absolute values; 0 if either is 0. Shapes broadcast
        and dtypes promote; overflow wraps."""
    def ldexp(self, x2: Operand, /) -> Self:
        """Compute `x1 * 2 ** x2`, rounded once. Shapes broadcast; integers become
        float32."""
    def leaky_relu(self, slope: float = 0.01) -> Self:
        """Leaky ReLU: `x` if not negative, else `slope * x`. Integers become float32."""
    def lerp(self, end: Operand, weight: Operand) -> Self:
        """Linear interpolation `x + (end - x) * weight`. Shapes broadcast and dtypes
        promote."""
    def less(self, x2: Operand, /) -> Self:
        """Return `x1 < x2` element-wise, as bool; False for NaN. Shapes broadcast and
        dtypes promote."""
    def lt(self, x2: Operand, /) -> Self:
        """Return `x1 < x2` element-wise, as bool; False for NaN. Shapes broadcast and
        dtypes promote."""
    def less_equal(self, x2: Operand, /) -> Self:
        """Return `x1 <= x2` element-wise, as bool; False for NaN. Shapes broadcast and
        dtypes promote."""
    def le(self, x2: Operand, /) -> Self:
        """Return `x1 <= x2` element-wise, as bool; False for NaN. Shapes broadcast and
        dtypes promote."""
    def lgamma(self) -> Self:
        """Logarithm of the absolute value of the gamma function, infinite at 0 and negative
        integers. Integers become float32."""
    def linear(self, weight: Self, bias: Self | None = None) -> Self:
        """Linear layer `x @ weight.T + bias`: maps shape (..., inputs) to (...,
        outputs)."""
    @staticmethod
    def linspace(start: complex, stop: complex, /, num: SInt, *, dtype: DTypeLike | None = None, device: str | None = None, endpoint: bool = True) -> Tensor:
        """Return `num` evenly spaced numbers from `start` to `stop`, as a 1-d tensor."""
    def log(self) -> Self:
        """Natural logarithm; NaN for negative numbers. Integers become float32."""
    def log10(self) -> Self:
        """Base-10 logarithm; NaN for negative numbers. Integers become float32."""
    def log1p(self) -> Self:
        """Natural logarithm of one plus `x`, accurate near 0. Integers become float32."""
    def log2(self) -> Self:
        """Base-2 logarithm; NaN for negative numbers. Integers become float32."""
    def log_ndtr(self) -> Self:
        """Logarithm of `ndtr`, the normal cumulative distribution function, without
        underflow in the lower tail. Integers become float32."""
    def log_softmax(self, axis: int = -1) -> Self:
        """Log-softmax `x - log(sum(exp(x)))` along `axis`, accurate where the softmax is
        near 0. Integers become float32."""
    def logaddexp(self, x2: Operand, /) -> Self:
        """Logarithm of the sum of exponentials, `log(exp(x1) + exp(x2))`, without overflow.
        Shapes broadcast and dtypes promote; integers become float32."""
    def logical_and(self, x2: Operand, /) -> Self:
        """Logical AND of `x1` and `x2`, element-wise, as bool; nonzero values are True.
        Shapes broadcast."""
    def logical_not(self) -> Self:
        """Logical NOT, element-wise, as bool; True for zeros."""
    def logical_or(self, x2: Operand, /) -> Self:
        """Logical OR of `x1` and `x2`, element-wise, as bool; nonzero values are True.
        Shapes broadcast."""
    def logical_xor(self, x2: Operand, /) -> Self:
        """Logical XOR of `x1` and `x2`, element-wise, as bool; nonzero values are True.
        Shapes broadcast."""
    def logit(self) -> Self:
        """Logit `log(x / (1 - x))`, the inverse of `sigmoid`: infinite at 0 and 1, NaN
        outside. Integers become float32."""
    def logsumexp(self, axis: Axes = None, *, keepdims: bool = False) -> Self:
        """Logarithm of the sum of exponentials `log(sum(exp(x)))` over axes, without
        overflow. Integers become float32."""
    def lp_pool2d(self, ord: float = 2, kernel: Numbers = 2, *, stride: Numbers | None = None, padding: Padding = 0, dilation: Numbers = 1, ceil_mode: bool = False) -> Self:
        """Power-average pooling over the spatial axes of `x`, of shape (batch, channels,
        *spatial): the norm of each window, `sum(abs(x) ** ord) ** (1 / ord)` as in ONNX.
        Integers become float32."""
    @property
    def mT(self) -> Self:
        """Matrix transpose: this tensor with its last two axes swapped, as a view."""
    def masked_fill(self, mask: TensorBase, value: bool | int | float | Self) -> Self:
        """Fill with `value` where `mask` is True, and keep the elements of `x` elsewhere.
        All shapes broadcast, and the dtypes promote."""
    def masked_select(self, mask: object) -> Self:
        """Select the elements where `mask` is True; one axis replaces the axes of the mask.
        A mask that is a tensor is realized."""
    def matmul(self, x2: Operand, /, *, dtype: DTypeLike | None = None) -> Self:
        """Matrix product by numpy's rules: a 1-d operand is a row (left) or column (right)
        vector, and batch axes broadcast."""
    def dot(self, x2: Operand, /, *, dtype: DTypeLike | None = None) -> Self:
        """Matrix product by numpy's rules: a 1-d operand is a row (left) or column (right)
        vector, and batch axes broadcast."""
    def matrix_norm(self, *, ord: float | Literal["fro", "nuc"] = 'fro', keepdims: bool = False) -> Self:
        """Matrix norm over the last two axes. Integers become float32."""
    def matrix_transpose(self) -> Self:
        """Transpose matrices: swap the last two axes, as a view."""
    def max(self, axis: Axes = None, *, keepdims: bool = False) -> Self:
        """Maximum over axes, in the dtype of `x`; NaN propagates."""
    def amax(self, axis: Axes = None, *, keepdims: bool = False) -> Self:
        """Maximum over axes, in the dtype of `x`; NaN propagates."""
    @overload
    def max_pool2d(self, kernel: Numbers = 2, *, stride: Numbers | None = None, padding: Padding = 0, dilation: Numbers = 1, ceil_mode: bool = False, return_indices: Literal[False] = False) -> Self:
        """Max pooling over the spatial axes of `x`, of shape (batch, channels, *spatial),
        in its dtype. The number of spatial axes is not limited to two, and padding is never
        the maximum."""
    @overload
    def max_pool2d(self, kernel: Numbers = 2, *, stride: Numbers | None = None, padding: Padding = 0, dilation: Numbers = 1, ceil_mode: bool = False, return_indices: Literal[True]) -> tuple[Self, Self]:
        """Max pooling over the spatial axes of `x`, of shape (batch, channels, *spatial),
        in its dtype. The number of spatial axes is not limited to two, and padding is never
        the maximum."""
    def max_unpool2d(self, indices: TensorBase, kernel: Numbers = 2, *, stride: Numbers | None = None, padding: Padding = 0, size: Sequence[SInt] | None = None) -> Self:
        """Partial inverse of `max_pool2d`: scatter the maxima to their indices, with 0
        elsewhere. For repeated indices, the last value is kept."""
    def maximum(self, x2: Operand, /) -> Self:
        """Element-wise maximum of `x1` and `x2`; NaN if either is NaN. Shapes broadcast,
        dtypes promote."""
    def mean(self, axis: Axes = None, *, keepdims: bool = False) -> Self:
        """Arithmetic mean over axes; NaN for no elements. Integers accumulate in float64
        and give float32."""
    def median(self, axis: Axes = None, *, keepdims: bool = False) -> Self:
        """Median over axes, the mean of the two middle elements for an even number. NaN
        propagates. Integers become float32."""
    @staticmethod
    def meshgrid(*arrays: Operand, indexing: str = 'xy') -> tuple[Tensor, ...]:
        """Return coordinate tensors from 1-d coordinate vectors, one for each of
        `arrays`."""
    def min(self, axis: Axes = None, *, keepdims: bool = False) -> Self:
        """Minimum over axes, in the dtype of `x`; NaN propagates."""
    def amin(self, axis: Axes = None, *, keepdims: bool = False) -> Self:
        """Minimum over axes, in the dtype of `x`; NaN propagates."""
    def minimum(self, x2: Operand, /) -> Self:
        """Element-wise minimum of `x1` and `x2`; NaN if either is NaN. Shapes broadcast,
        dtypes promote."""
    def mish(self) -> Self:
        """Mish `x * tanh(softplus(x))`. Integers become float32."""
    def moveaxis(self, source: int | Sequence[int], destination: int | Sequence[int]) -> Self:
        """Move axes to new positions, as a view; the other axes keep their order."""
    def multinomial(self, n: int, *, replacement: bool = False, seed: Seed | None = None, generator: Generator | None = None) -> Self:
        """Sample `n` indices for each row of weights along the last axis, with
        probabilities proportional to the weights."""
    def multiply(self, x2: Operand, /) -> Self:
        """Multiply element-wise: `x1 * x2`, the logical and for booleans. Shapes broadcast,
        dtypes promote."""
    def mul(self, x2: Operand, /) -> Self:
        """Multiply element-wise: `x1 * x2`, the logical and for booleans. Shapes broadcast,
        dtypes promote."""
    def nan_to_num(self, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None) -> Self:
        """Replace NaN and infinities by finite numbers, in the dtype of `x`."""
    def nanargmax(self, axis: int | None = None, *, keepdims: bool = False) -> Self:
        """Index (int64) of the first maximum along an axis, ignoring NaN; 0 for all-NaN
        slices."""
    def nanargmin(self, axis: int | None = None, *, keepdims: bool = False) -> Self:
        """Index (int64) of the first minimum along an axis, ignoring NaN; 0 for all-NaN
        slices."""
    def nancumprod(self, axis: int | None = None, *, dtype: DTypeLike | None = None) -> Self:
        """Cumulative product, treating NaN as 1."""
    def nancumsum(self, axis: int | None = None, *, dtype: DTypeLike | None = None) -> Self:
        """Cumulative sum, treating NaN as 0."""
    def nanmax(self, axis: Axes = None, *, keepdims: bool = False) -> Self:
        """Maximum over axes, ignoring NaN, in the dtype of `x`; NaN for all-NaN slices."""
    def nanmean(self, axis: Axes = None, *, keepdims: bool = False) -> Self:
        """Arithmetic mean over axes, ignoring NaN; NaN for all-NaN slices. Integers give
        float32."""
    def nanmedian(self, axis: Axes = None, *, keepdims: bool = False) -> Self:
        """Median over axes, ignoring NaN; NaN for all-NaN slices. Integers become
        float32."""
    def nanmin(self, axis: Axes = None, *, keepdims: bool = False) -> Self:
        """Minimum over axes, ignoring NaN, in the dtype of `x`; NaN for all-NaN slices."""
    def nanpercentile(self, q: Operand, axis: Axes = None, *, method: QuantileMethod = 'linear', keepdims: bool = False) -> Self:
        """Compute the `q`-th percentiles over axes, ignoring NaN: shape (*q.shape,
        *remaining axes). NaN for all-NaN slices. Integers become float32."""
    def nanprod(self, axis: Axes = None, *, keepdims: bool = False) -> Self:
        """Product over axes, treating NaN as 1, in the dtype of `prod`."""
    def nanquantile(self, q: Operand, axis: Axes = None, *, method: QuantileMethod = 'linear', keepdims: bool = False) -> Self:
        """Compute the `q`-th quantiles over axes, ignoring NaN: shape (*q.shape, *remaining
        axes). NaN for all-NaN slices. Integers become float32."""
    def nanstd(self, axis: Axes = None, *, correction: float = 0, keepdims: bool = False) -> Self:
        """Standard deviation along axes, ignoring NaN: the square root of `nanvar`.
        Integers become float32."""
    def nansum(self, axis: Axes = None, *, keepdims: bool = False) -> Self:
        """Sum over axes, treating NaN as 0, in the dtype of `sum`."""
    def nanvar(self, axis: Axes = None, *, correction: float = 0, keepdims: bool = False) -> Self:
        """Variance along axes, ignoring NaN; NaN if there are at most `correction`
        elements. Integers become float32."""
    def ndtr(self) -> Self:
        """Standard normal cumulative distribution function `(1 + erf(x / sqrt(2))) / 2`.
        Integers become float32."""
    def ndtri(self) -> Self:
        """Quantile function of the standard normal distribution, the inverse of `ndtr`.
        Integers become float32."""
    def negative(self) -> Self:
        """Negate element-wise, in the dtype of `x`; unsigned integers wrap."""
    def neg(self) -> Self:
        """Negate element-wise, in the dtype of `x`; unsigned integers wrap."""
    def nextafter(self, x2: Operand, /) -> Self:
        """Return the next floating-point value after `x1` towards `x2`, element-wise.
        Shapes broadcast and dtypes promote; integers become float32."""
    def nonzero(self) -> tuple[Self, ...]:
        """Return the indices (int64) of the nonzero elements, in row-major order: a tensor
        per axis."""
    def norm(self, axis: Axes = None, *, ord: float | Literal["fro"] = 2, keepdims: bool = False) -> Self:
        """Vector norm over axes: `sum(abs(x) ** ord) ** (1 / ord)`. Integers become
        float32."""
    def vector_norm(self, axis: Axes = None, *, ord: float | Literal["fro"] = 2, keepdims: bool = False) -> Self:
        """Vector norm over axes: `sum(abs(x) ** ord) ** (1 / ord)`. Integers become
        float32."""
    @staticmethod
    def normal(*shape: SInt | Sequence[SInt], mean: Operand = 0.0, std: Operand = 1.0, seed: Seed | None = None, generator: Generator | None = None, dtype: DTypeLike = float, device: str | None = None) -> Tensor:
        """Sample from the normal distribution."""
    def not_equal(self, x2: Operand, /) -> Self:
        """Return `x1 != x2` element-wise, as bool; True for NaN. Shapes broadcast and
        dtypes promote."""
    def ne(self, x2: Operand, /) -> Self:
        """Return `x1 != x2` element-wise, as bool; True for NaN. Shapes broadcast and
        dtypes promote."""
    def numpy(self, *, copy: bool = False) -> NDArray[np.generic]:
        """Return the values as a numpy array, realized first if necessary."""
    def one_hot(self, n_classes: int, *, dtype: DTypeLike | None = None) -> Self:
        """Encode class indices as one-hot vectors along a new last axis; an out-of-range
        index gives zeros."""
    @staticmethod
    def ones(*shape: SInt | Sequence[SInt], dtype: DTypeLike | None = None, device: str | None = None) -> Tensor:
        """Return a new tensor filled with ones; it takes no memory until it is realized."""
    def ones_like(self, *, dtype: DTypeLike | None = None, device: str | None = None) -> Self:
        """Return ones with the shape of `x`; `dtype` and `device` are by default the dtype
        and device of `x`."""
    def outer(self, x2: Self, /) -> Self:
        """Outer product of `x1` and `x2`, flattened first: shape (n, m). Dtypes promote."""
    def pad(self, *padding: Amounts | Sequence[Amounts], mode: PadMode = 'constant', constant_values: complex = 0) -> Self:
        """Pad each axis with `constant_values` or elements of the tensor; negative widths
        crop."""
    def percentile(self, q: Operand, axis: Axes = None, *, method: QuantileMethod = 'linear', keepdims: bool = False) -> Self:
        """Compute the `q`-th percentiles over axes: shape (*q.shape, *remaining axes). NaN
        propagates. Integers become float32."""
    @staticmethod
    def permutation(n: SInt, *, seed: Seed | None = None, generator: Generator | None = None, device: str | None = None) -> Tensor:
        """Return a random permutation of the integers (int64) from 0 to `n - 1`."""
    def permute_dims(self, *axes: int | Sequence[int]) -> Self:
        """Permute the axes, as a view: axis i of the result is axis `axes[i]` of `x`."""
    def permute(self, *axes: int | Sequence[int]) -> Self:
        """Permute the axes, as a view: axis i of the result is axis `axes[i]` of `x`."""
    def polygamma(self, n: int) -> Self:
        """Polygamma function, the `n`-th derivative of `digamma`. Integers become
        float32."""
    def polyval(self, x: Operand) -> Self:
        """Evaluate a polynomial at `x`, with coefficients from the highest power. Dtypes
        promote."""
    def positive(self) -> Self:
        """Return a copy of the tensor, as numpy's `positive`."""
    def pow(self, x2: Operand, /) -> Self:
        """Raise `x1` to the power `x2` element-wise. Shapes broadcast and dtypes
        promote."""
    def power(self, x2: Operand, /) -> Self:
        """Raise `x1` to the power `x2` element-wise. Shapes broadcast and dtypes
        promote."""
    def prod(self, axis: Axes = None, *, keepdims: bool = False, dtype: DTypeLike | None = None) -> Self:
        """Product over axes; 1 for an empty axis. Narrow floats accumulate in float32 and
        round once."""
    def put_along_axis(self, indices: TensorBase, values: Operand, axis: int) -> Self:
        """Return a copy with `values` at the elements that `take_along_axis(indices, axis)`
        reads; for repeated indices, the last value is kept."""
    def quantile(self, q: Operand, axis: Axes = None, *, method: QuantileMethod = 'linear', keepdims: bool = False) -> Self:
        """Compute the `q`-th quantiles over axes: shape (*q.shape, *remaining axes). NaN
        propagates. Integers become float32."""
    def rad2deg(self) -> Self:
        """Convert angles from radians to degrees. Integers become float32."""
    def degrees(self) -> Self:
        """Convert angles from radians to degrees. Integers become float32."""
    @staticmethod
    def rand(*shape: SInt | Sequence[SInt], seed: Seed | None = None, generator: Generator | None = None, dtype: DTypeLike = float, device: str | None = None) -> Tensor:
        """Sample from the uniform distribution over [0, 1): multiples of 2^-p, where p is
        the precision of `dtype` in bits."""
    @staticmethod
    def randint(*shape: SInt | Sequence[SInt], low: int = 0, high: int, seed: Seed | None = None, generator: Generator | None = None, dtype: DTypeLike | None = None, device: str | None = None) -> Tensor:
        """Sample integers from the discrete uniform distribution over [low, high)."""
    @staticmethod
    def randn(*shape: SInt | Sequence[SInt], seed: Seed | None = None, generator: Generator | None = None, dtype: DTypeLike = float, device: str | None = None) -> Tensor:
        """Sample from the standard normal distribution; magnitudes are at most 5.8, or 8.6
        in float64."""
    @property
    def real(self) -> Self:
        """Real part of each element, as a copy."""
    def reciprocal(self) -> Self:
        """Reciprocal `1 / x`, element-wise. Integers become float32."""
    def relu(self) -> Self:
        """Rectified linear unit `max(x, 0)`, in the dtype of `x`; NaN stays NaN."""
    def relu6(self) -> Self:
        """ReLU6 `min(max(x, 0), 6)`, in the dtype of `x`."""
    def remainder(self, x2: Operand, /) -> Self:
        """Remainder of floor division, `x1 - (x1 // x2) * x2`, with the sign of `x2`.
        Shapes broadcast."""
    def mod(self, x2: Operand, /) -> Self:
        """Remainder of floor division, `x1 - (x1 // x2) * x2`, with the sign of `x2`.
        Shapes broadcast."""
    def repeat(self, repeats: int | Sequence[int] | TensorBase, axis: int | None = None) -> Self:
        """Repeat each element consecutively; `tile` repeats the whole tensor."""
    def repeat_interleave(self, repeats: int | Sequence[int] | TensorBase, axis: int | None = None) -> Self:
        """Repeat each element consecutively; `tile` repeats the whole tensor."""
    def reshape(self, *shape: SInt | Sequence[SInt], copy: bool | None = None) -> Self:
        """Reshape a tensor in row-major order: a view where numpy returns one, else a
        copy."""
    def view(self, *shape: SInt | Sequence[SInt], copy: bool | None = None) -> Self:
        """Reshape a tensor in row-major order: a view where numpy returns one, else a
        copy."""
    def rms_norm(self, axis: Axes = -1, eps: float = 1e-06, weight: Self | None = None) -> Self:
        """Root mean square normalization `x / sqrt(mean(x ** 2) + eps) * weight`, with the
        mean over `axis`. Integers become float32."""
    def roll(self, shift: int | Sequence[int], axis: Axes = None) -> Self:
        """Roll elements by `shift` along an axis; elements beyond the end reappear at the
        start."""
    def round(self, decimals: int = 0) -> Self:
        """Round to the nearest integer, ties to even, in the dtype of `x`. Complex parts
        are rounded separately."""
    def rint(self, decimals: int = 0) -> Self:
        """Round to the nearest integer, ties to even, in the dtype of `x`. Complex parts
        are rounded separately."""
    def rsqrt(self) -> Self:
        """Reciprocal square root `1 / sqrt(x)`. Integers become float32."""
    def scaled_dot_product_attention(self, key: Self, value: Self, mask: Self | None = None, *, is_causal: bool = False, scale: float | None = None) -> Self:
        """Scaled dot product attention, `softmax(q @ k.T * scale + mask) @ v`, with queries
        `x` of shape (..., n, d): shape (..., n, e)."""
    def scatter(self, axis: int, indices: TensorBase, value: Operand) -> Self:
        """Write `value` to a copy of `x` at the elements that `gather(axis, indices)`
        reads; for repeated indices, the last value is kept."""
    def scatter_add(self, axis: int, indices: TensorBase, value: Operand) -> Self:
        """Add `value` to a copy of `x` at the elements that `gather(axis, indices)` reads,
        as torch's `scatter_add` does."""
    def scatter_reduce(self, axis: int, indices: TensorBase, value: Operand, reduce: ReductionAt, *, include_self: bool = True) -> Self:
        """Reduce the values scattered to each index into `x`, as torch's `scatter_reduce`
        does."""
    def searchsorted(self, x2: Operand, /, side: Literal["left", "right"] = 'left', *, sorter: Self | None = None) -> Self:
        """Find the indices (int64) at which to insert `x2` into this sorted 1-d tensor to
        keep its order."""
    def selu(self) -> Self:
        """Scaled ELU `scale * elu(x, alpha)`, with scale = 1.0507 and alpha = 1.6733, which
        preserve mean 0 and variance 1. Integers become float32."""
    def setdiff1d(self, x2: Operand, /) -> Self:
        """Find the sorted unique elements of `x1` that are not in `x2`. Both are
        realized."""
    def setxor1d(self, x2: Operand, /) -> Self:
        """Find the sorted unique elements that are in exactly one of `x1` and `x2`. Both
        are realized."""
    def shard(self, devices: Sequence[str] | Mesh, axis: int | Mapping[str, int] | None = None) -> Self:
        """Shard this tensor over several devices, each of which computes its shard of the
        results."""
    def shards(self) -> tuple[Self, ...]:
        """Return the shard of this tensor on each of its devices, as views; the tensor
        itself if it is on one device."""
    def shrink(self, *bounds: tuple[SInt, SInt] | None) -> Self:
        """Slice each axis to [begin, end), as a view."""
    def shuffle(self, axis: int = 0, *, seed: Seed | None = None, generator: Generator | None = None) -> Self:
        """Shuffle the slices of this tensor along an axis."""
    def sigmoid(self) -> Self:
        """Logistic sigmoid `1 / (1 + exp(-x))`. Integers become float32."""
    def sign(self) -> Self:
        """Sign: -1, 0 or 1 in the dtype of `x`, and NaN for NaN; for complex numbers, `x /
        abs(x)`, and 0 for 0."""
    def signbit(self) -> Self:
        """Test element-wise whether the sign bit is set, also for -0.0 and NaN, as bool. It
        is not set for unsigned integers."""
    def silu(self) -> Self:
        """SiLU (swish) `x * sigmoid(x)`. Integers become float32."""
    def swish(self) -> Self:
        """SiLU (swish) `x * sigmoid(x)`. Integers become float32."""
    def sin(self) -> Self:
        """Sine of angles in radians. Integers become float32."""
    def sinc(self) -> Self:
        """Normalized sinc function `sin(pi * x) / (pi * x)`, 1 at 0. Integers become
        float32."""
    def sinh(self) -> Self:
        """Hyperbolic sine. Integers become float32."""
    def softmax(self, axis: int = -1) -> Self:
        """Softmax `exp(x) / sum(exp(x))` along `axis`, without overflow. Integers become
        float32."""
    def softplus(self, beta: float = 1.0) -> Self:
        """Softplus `log(1 + exp(beta * x)) / beta` without overflow. Integers become
        float32."""
    def softsign(self) -> Self:
        """Softsign `x / (1 + abs(x))`. Integers become float32."""
    def sort(self, axis: int = -1, *, descending: bool = False, stable: bool = True) -> Self:
        """Return a sorted copy of a tensor; NaN sorts last, as the largest value. `argsort`
        gives indices."""
    def split(self, sizes: int | Sequence[int], axis: int = 0) -> tuple[Self, ...]:
        """Split a tensor along an axis into views."""
    def sqrt(self) -> Self:
        """Square root; NaN for negative numbers. Integers become float32."""
    def square(self) -> Self:
        """Square element-wise, in the dtype of `x`."""
    def squeeze(self, axis: Axes = None) -> Self:
        """Remove axes of size 1, as a view. `axis` is one axis, several, or None for all of
        size 1."""
    def stack(*arrays: Operand | Iterable[Operand], axis: int = 0) -> Tensor:
        """Stack arrays of equal shape along a new axis, in their promoted dtype."""
    def std(self, axis: Axes = None, *, correction: float = 0, keepdims: bool = False) -> Self:
        """Standard deviation over axes, the square root of the variance. Integers give
        float32."""
    def subtract(self, x2: Operand, /) -> Self:
        """Subtract element-wise: `x1 - x2`. Shapes broadcast and dtypes promote."""
    def sub(self, x2: Operand, /) -> Self:
        """Subtract element-wise: `x1 - x2`. Shapes broadcast and dtypes promote."""
    def sum(self, axis: Axes = None, *, keepdims: bool = False, dtype: DTypeLike | None = None) -> Self:
        """Sum over axes; 0 for an empty axis. Narrow floats accumulate in float32 and are
        rounded once."""
    def swapaxes(self, axis1: int, axis2: int) -> Self:
        """Swap `axis1` and `axis2`, as a view."""
    def take(self, indices: IndexItem, axis: int | None = None, *, mode: Literal["raise", "wrap", "clip"] = 'raise') -> Self:
        """Take elements from a tensor along an axis; the axes of `indices` replace
        `axis`."""
    def take_along_axis(self, indices: TensorBase, axis: int = -1) -> Self:
        """Take the elements at `indices` along `axis`, as numpy and the array API standard
        do. Other axes broadcast."""
    def tan(self) -> Self:
        """Tangent of angles in radians. Integers become float32."""
    def tanh(self) -> Self:
        """Hyperbolic tangent. Integers become float32."""
    def tensordot(self, x2: Self, /, axes: int | tuple[Sequence[int], Sequence[int]] = 2) -> Self:
        """Tensor contraction over axes of both operands."""
    def tile(self, *repetitions: SInt | Sequence[SInt]) -> Self:
        """Repeat the whole tensor along each axis, as `numpy.tile`; `repeat` repeats the
        elements."""
    def to(self, device: str) -> Self:
        """Return a copy of this tensor on `device`. A sharded tensor is gathered there."""
    def to_device(self, device: str, /, *, stream: object = None) -> Self:
        """Return a copy of this tensor on `device`, as the array API standard specifies
        it."""
    def tolist(self) -> Nested:
        """Return the values as nested lists of Python numbers; for a 0-d tensor, a
        number."""
    def topk(self, k: int, axis: int = -1, *, largest: bool = True) -> tuple[Self, Self]:
        """Return the `k` largest elements along an axis, sorted, and their indices (int64);
        the sort is stable."""
    def trace(self, offset: int = 0, *, dtype: DTypeLike | None = None) -> Self:
        """Sum along a diagonal of the last two axes: `sum(x[..., i, i + offset])`, of shape
        `x.shape[:-2]`."""
    def transpose(self, axes: int | Sequence[int] | None = None, axis1: int | None = None) -> Self:
        """Reverse the axes, permute them, or swap two of them, as a view."""
    def trapezoid(self, x: Operand | None = None, dx: float = 1.0, axis: int = -1) -> Self:
        """Integrate `y` along an axis by the trapezoidal rule: `sum((y[i + 1] + y[i]) * dx
        / 2)`. Integers become float32."""
    def tril(self, k: int = 0) -> Self:
        """Lower triangle of the last two axes: zeros above the `k`-th diagonal."""
    def triu(self, k: int = 0) -> Self:
        """Upper triangle of the last two axes: zeros below the `k`-th diagonal."""
    def trunc(self) -> Self:
        """Round toward zero, in the dtype of `x`."""
    @staticmethod
    def truncated_normal(*shape: SInt | Sequence[SInt], low: float = -2.0, high: float = 2.0, mean: float = 0.0, std: float = 1.0, seed: Seed | None = None, generator: Generator | None = None, dtype: DTypeLike = float, device: str | None = None) -> Tensor:
        """Sample from the normal distribution truncated to [low, high]."""
    def unflatten(self, axis: int, sizes: Sequence[int]) -> Self:
        """Expand `axis` into several axes of `sizes`; one size may be -1, and is
        inferred."""
    def unfold(self, kernel: Numbers, *, stride: Numbers = 1, padding: Padding = 0, dilation: Numbers = 1) -> Self:
        """Extract sliding windows as columns (im2col), as PyTorch's `unfold`, for any
        number of spatial axes: shape (batch, channels * window size, number of windows), in
        row-major order."""
    @staticmethod
    def uniform(*shape: SInt | Sequence[SInt], low: Operand = 0.0, high: Operand = 1.0, seed: Seed | None = None, generator: Generator | None = None, dtype: DTypeLike = float, device: str | None = None) -> Tensor:
        """Sample from the uniform distribution over [low, high); rounding to `dtype` may
        reach `high`."""
    def union1d(self, x2: Operand, /) -> Self:
        """Find the sorted unique elements of `x1` and `x2`. Both are realized."""
    def unique_all(self) -> UniqueAllResult:
        """Find the sorted unique elements, the index of their first occurrences, the
        inverse indices, and their counts."""
    def unique_counts(self) -> UniqueCountsResult:
        """Find the sorted unique elements and their counts (int64)."""
    def unique_inverse(self) -> UniqueInverseResult:
        """Find the sorted unique elements and the inverse indices (int64), in the shape of
        `x`."""
    def unique_values(self) -> Self:
        """Find the sorted unique elements. NaNs are distinct from each other, and come
        last."""
    def unstack(self, axis: int = 0) -> tuple[Self, ...]:
        """Split a tensor into views along `axis`, which is removed."""
    def unbind(self, axis: int = 0) -> tuple[Self, ...]:
        """Split a tensor into views along `axis`, which is removed."""
    def var(self, axis: Axes = None, *, correction: float = 0, keepdims: bool = False) -> Self:
        """Variance over axes: the sum of squared differences from the mean, divided by the
        number of elements minus `correction`."""
    def vecdot(self, x2: Self, /, axis: int = -1) -> Self:
        """Vector dot product `sum(conj(x1) * x2)` along one axis; the other axes broadcast.
        Dtypes promote, and narrow floats accumulate in float32."""
    def where(self, x1: Operand, x2: Operand) -> Self:
        """Select elements of `x1` where `condition` is True, else of `x2`."""
    def windows(self, kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int]) -> Self:
        """Sliding windows over the last axes: shape (..., *outputs, *kernel)."""
    def with_items(self, index: Index, value: Operand) -> Self:
        """Return a copy of this tensor with the elements of `x[index]` replaced. No memory
        is written."""
    def xlogy(self, x2: Operand, /) -> Self:
        """Compute `x1 * log(x2)`, with 0 where `x1` is 0 unless `x2` is NaN. Shapes
        broadcast and dtypes promote; integers become float32."""
    @staticmethod
    def zeros(*shape: SInt | Sequence[SInt], dtype: DTypeLike | None = None, device: str | None = None) -> Tensor:
        """Return a new tensor filled with zeros; it takes no memory until it is
        realized."""
    def zeros_like(self, *, dtype: DTypeLike | None = None, device: str | None = None) -> Self:
        """Return zeros with the shape of `x`; `dtype` and `device` are by default the dtype
        and device of `x`."""
    def zeta(self, q: Operand = 1) -> Self:
        """Hurwitz zeta function, the sum of `(k + q) ** -x` over k >= 0: infinite at 1, NaN
        below. Integers become float32."""
    def __setitem__(self, index: Index, value: Operand, /) -> None:
        """Write `value` to the elements at `index`, as `assign` does; for repeated indices,
        the last value is kept."""
    def __array__(self, dtype: np.dtype | None = None, copy: bool | None = None) -> NDArray[np.generic]:
        """Return the elements for `numpy.asarray`: a writable array that shares the memory
        of this tensor, or a copy."""
    def __dlpack__(self, *, stream: object = None, max_version: tuple[int, int] | None = None, dl_device: tuple[int, int] | None = None, copy: bool | None = None) -> object:
        """Export the elements in host memory by the DLPack protocol; the consumer must not
        write them."""
    def __dlpack_device__(self) -> tuple[int, int]:
        ...
    def __bytes__(self) -> bytes:
        ...
    def __buffer__(self, flags: int, /) -> memoryview:
        """Export the tensor's memory, read-only, by Python's buffer protocol (Python 3.12
        or newer)."""
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
        """Return the elements at an index, by numpy's rules: a view for basic indexing,
        else a copy."""
    def __len__(self) -> int:
        """Size of the first axis."""
    def __iter__(self) -> Iterator[Self]:
        """Iterate over the slices along the first axis: views, or elements of a 1-d
        tensor."""
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
        """Hash of the tensor's identity, since `==` compares elements."""
