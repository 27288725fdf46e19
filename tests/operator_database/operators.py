"""Counterparts of PyTorch's operators, called with PyTorch's arguments.

`COUNTERPARTS` maps the name of an entry of PyTorch's operator database to a function with PyTorch's
signature, whose tensors and dtypes are those of svod. An argument that the counterpart does not
have is no parameter of the function, or raises `UnsupportedError` for the values that have no
meaning here; the suite counts these samples. `WITHOUT` lists the entries that have no counterpart.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import svod_nn as nn
import svod_tensor as sv
from svod_tensor import Tensor, fft, linalg

Call = Callable[..., Any]


class UnsupportedError(Exception):
    """A sample whose arguments have no meaning for the counterpart."""


def require(condition: bool, argument: str) -> None:
    """Raise `UnsupportedError` unless the condition holds."""
    if not condition:
        raise UnsupportedError(argument)


# Same name, and the same arguments in the same order.
_SAME = """
    abs acos acosh add angle asin asinh atan atan2 atanh bitwise_and bitwise_left_shift bitwise_not bitwise_or
    bitwise_right_shift bitwise_xor broadcast_to ceil conj copysign cos cosh deg2rad diag digamma erf
    erfc erfinv exp exp2 expm1 floor floor_divide fmax fmin fmod frexp gcd heaviside hypot i0 imag index_add isfinite isinf
    isnan kron lcm ldexp lerp lgamma log log10 log1p log2 logaddexp logcumsumexp logical_and logical_not logical_or
    logical_xor masked_fill matmul maximum minimum nan_to_num nextafter outer positive pow rad2deg real
    reciprocal remainder reshape rsqrt scatter_add sigmoid sign signbit sin sinc sinh sqrt square stack sub:subtract
    take tan tanh tile true_divide trunc xlogy mul:multiply clamp:clip
    eq:equal ne:not_equal ge:greater_equal gt:greater le:less_equal lt:less neg:negative

    bmm:matmul mm:matmul mv:matmul clamp_max:minimum clamp_min:maximum max/binary:maximum min/binary:minimum
    conj_physical:conj view_as_real:as_real view_as_complex:as_complex sgn:sign movedim:moveaxis ravel argwhere
    nn.functional.relu:relu nn.functional.relu6:relu6 nn.functional.selu:selu nn.functional.mish:mish
    nn.functional.silu:silu nn.functional.silu/complex:silu nn.functional.hardswish:hardswish nn.functional.hardsigmoid:hardsigmoid
    nn.functional.softsign:softsign nn.functional.glu:glu nn.functional.elu:elu nn.functional.gelu:gelu
    nn.functional.leaky_relu:leaky_relu nn.functional.logsigmoid:special.log_expit
    special.entr:special.entr special.erfcx:special.erfcx special.i0e:special.i0e special.i1:special.i1
    special.i1e:special.i1e special.log_ndtr:special.log_ndtr special.ndtr:special.ndtr special.ndtri:special.ndtri
    special.xlog1py:special.xlog1py special.zeta:special.zeta special.bessel_j0:special.j0 special.bessel_j1:special.j1
    special.modified_bessel_i0:special.i0 special.modified_bessel_i1:special.i1
    linalg.det:linalg.det linalg.eig:linalg.eig linalg.eigvals:linalg.eigvals linalg.inv:linalg.inv
    linalg.matrix_power:linalg.matrix_power linalg.multi_dot:linalg.multi_dot linalg.slogdet:linalg.slogdet
    linalg.svdvals:linalg.svdvals linalg.tensorinv:linalg.tensorinv matrix_exp:linalg.expm linalg.cond:linalg.cond
    linalg.solve:linalg.solve
"""
# Methods of tensors that take PyTorch's arguments.
_METHODS = """
    chunk clone contiguous complex expand item permute view unflatten unbind unsqueeze mT
    polygamma/polygamma_n_0:polygamma polygamma/polygamma_n_1:polygamma polygamma/polygamma_n_2:polygamma
    polygamma/polygamma_n_3:polygamma polygamma/polygamma_n_4:polygamma
    special.polygamma/special_polygamma_n_0:polygamma nn.functional.linear:linear transpose:swapaxes
    split/list_args:split split:split split_with_sizes:split
    __radd__ __rmul__ __rand__ __ror__ __rxor__ __rmatmul__ __rmod__ __rpow__ __rsub__ __rdiv__:__rtruediv__
"""


def _parse(text: str, root: object) -> dict[str, Call]:
    """The functions that a table of names lists, as `name` or `name:target`."""
    calls: dict[str, Call] = {}
    for word in text.split():
        name, _, target = word.partition(":")
        calls[name] = operator.attrgetter(target or name)(root)
    return calls


def _reduce(function: Call, **constants: Any) -> Call:
    def call(x: Tensor, dim: Any = None, keepdim: bool = False) -> Any:
        # An empty tuple is all axes in PyTorch.
        axis = None if dim == () or dim == [] else tuple(dim) if isinstance(dim, Sequence) else dim
        return function(x, axis=axis, keepdims=keepdim, **constants)

    return call


def _sum_like(function: Call) -> Call:
    def call(x: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
        value = _reduce(function)(x if dtype is None else x.cast(dtype), dim, keepdim)
        return value if dtype is None else value.cast(dtype)

    return call


def _reduce_with_index(function: Call, index: Call) -> Call:
    def call(x: Tensor, dim: int, keepdim: bool = False) -> Any:
        return function(x, axis=dim, keepdims=keepdim), index(x, axis=dim, keepdims=keepdim)

    return call


def _cumulate_with_index(function: Call, index: Call) -> Call:
    def call(x: Tensor, dim: int) -> Any:
        return function(x, axis=dim), index(x, axis=dim)

    return call


def _spread(function: Call) -> Call:
    def call(
        x: Tensor,
        dim: Any = None,
        keepdim: bool = False,
        *,
        unbiased: bool | None = None,
        correction: Any = None,
    ) -> Tensor:
        if isinstance(dim, bool):
            dim, unbiased = None, dim
        if correction is None:
            correction = 0 if unbiased is False else 1
        return _reduce(function, correction=correction)(x, dim, keepdim)

    return call


def _along(function: Call) -> Call:
    """A function of one axis that may have a dtype."""

    def call(x: Tensor, dim: int, *, dtype: Any = None) -> Tensor:
        return function(x if dtype is None else x.cast(dtype), axis=dim)

    return call


def _accumulate(function: Call) -> Call:
    def call(x: Tensor, dim: int, *, dtype: Any = None) -> Tensor:
        return function(x, axis=dim, dtype=dtype)

    return call


def _add(x: Tensor, other: Any, *, alpha: Any = 1) -> Tensor:
    require(alpha == 1, "alpha")
    return sv.add(x, other)


def _sub(x: Tensor, other: Any, *, alpha: Any = 1) -> Tensor:
    require(alpha == 1, "alpha")
    return sv.subtract(x, other)


def _div(x: Tensor, other: Any, *, rounding_mode: str | None = None) -> Tensor:
    require(rounding_mode != "trunc", "rounding_mode")
    return sv.floor_divide(x, other) if rounding_mode == "floor" else sv.divide(x, other)


def _clip(x: Tensor, low: Any = None, high: Any = None) -> Tensor:
    return sv.clip(x, low, high)


def _diagonal(x: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    return sv.linalg.diagonal(sv.moveaxis(x, (dim1, dim2), (-2, -1)), offset=offset)


def _linalg_diagonal(x: Tensor, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    return sv.linalg.diagonal(sv.moveaxis(x, (dim1, dim2), (-2, -1)), offset=offset)


def _diff(x: Tensor, n: int = 1, dim: int = -1, prepend: Any = None, append: Any = None) -> Tensor:
    return sv.diff(x, n=n, axis=dim, prepend=prepend, append=append)


def _creation(function: Call) -> Call:
    def call(
        *args: Any,
        dtype: Any = None,
        device: Any = None,
        layout: Any = None,
        requires_grad: bool = False,
    ) -> Tensor:
        return function(*args, dtype=dtype)

    return call


def _arange(
    start: Any, end: Any = None, step: Any = 1, *, dtype: Any = None, device: Any = None
) -> Tensor:
    return sv.arange(start, end, step, dtype=dtype)


def _linspace(start: Any, end: Any, steps: int, *, dtype: Any = None, device: Any = None) -> Tensor:
    require(
        not isinstance(start, Tensor) and not isinstance(end, Tensor), "bounds that are tensors"
    )
    return sv.linspace(start, end, steps, dtype=dtype)


def _flatten(x: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    return sv.flatten(x, start_dim, end_dim)


def _join(function: Call) -> Call:
    def call(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
        return function(tensors, axis=dim)

    return call


def _squeeze(x: Tensor, dim: Any = None) -> Tensor:
    if dim is None:
        return x.squeeze()
    axes = [dim] if isinstance(dim, int) else dim
    # An axis of another size than 1 stays in PyTorch, and is an error here, as in numpy.
    require(all(x.ndim == 0 or x.shape[axis] == 1 for axis in axes), "dim of a size other than 1")
    return x.squeeze(dim if isinstance(dim, int) else tuple(dim))


def _sort(x: Tensor, dim: int = -1, descending: bool = False, *, stable: bool = True) -> Any:
    return _sorted(sv.sort, x, dim, descending), _sorted(sv.argsort, x, dim, descending)


def _sorted(function: Call, x: Tensor, dim: int, descending: bool) -> Tensor:
    return function(x, axis=dim, descending=descending)


def _argsort(x: Tensor, dim: int = -1, descending: bool = False, *, stable: bool = True) -> Tensor:
    return _sorted(sv.argsort, x, dim, descending)


def _msort(x: Tensor) -> Tensor:
    return sv.sort(x, axis=0)


def _topk(x: Tensor, k: int, dim: int = -1, largest: bool = True, is_sorted: bool = True) -> Any:
    return sv.topk(x, k, dim, largest=largest)


def _median(function: Call) -> Call:
    def call(x: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
        # Of an even number of elements the median is the mean of two here, and the lower one in
        # PyTorch.
        require(
            (x.size if dim is None or x.ndim == 0 else x.shape[dim]) % 2 == 1,
            "even number of elements",
        )
        return function(x, dim, keepdims=keepdim)

    return call


def _quantile(function: Call) -> Call:
    def call(
        x: Tensor,
        q: Any,
        dim: int | None = None,
        keepdim: bool = False,
        *,
        interpolation: str = "linear",
    ) -> Tensor:
        return function(x, q, dim, method=interpolation, keepdims=keepdim)

    return call


def _isin(x: Any, test: Any, *, assume_unique: bool = False, invert: bool = False) -> Tensor:
    return sv.isin(x, test, invert=invert)


def _meshgrid(*arrays: Any, indexing: str) -> Any:
    arrays = arrays[0] if isinstance(arrays[0], (list, tuple)) else arrays
    return tuple(sv.meshgrid(*arrays, indexing=indexing))


def _pads(x: Tensor, flat: Sequence[int]) -> list[tuple[int, int]]:
    pairs = [(flat[i], flat[i + 1]) for i in range(0, len(flat), 2)]
    return [(0, 0)] * (x.ndim - len(pairs)) + pairs[::-1]


def _pad(x: Tensor, pad: Sequence[int], mode: str = "constant", value: Any = None) -> Tensor:
    pairs = _pads(x, pad)
    require(all(amount >= 0 for pair in pairs for amount in pair), "amounts below 0")
    names = {"replicate": "edge", "circular": "wrap"}
    options = {"constant_values": value or 0} if mode == "constant" else {}
    return sv.pad(x, pairs, mode=names.get(mode, mode), **options)


def _constant_pad(x: Tensor, pad: Sequence[int], value: Any = 0) -> Tensor:
    return _pad(x, pad, "constant", value)


def _sizes(value: Any, n_axes: int) -> Any:
    if isinstance(value, str):
        return value
    return (
        (value,) * n_axes
        if isinstance(value, int)
        else tuple(value) * (n_axes if len(value) == 1 else 1)
    )


def _convolution(n_axes: int) -> Call:
    def call(
        x: Tensor,
        weight: Tensor,
        bias: Any = None,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
    ) -> Tensor:
        require(x.ndim == n_axes + 2, "input without a batch axis")
        require(not isinstance(padding, str), "padding by name")
        sizes = {"stride": stride, "padding": padding, "dilation": dilation}
        return sv.conv2d(
            x, weight, bias, groups=groups, **{k: _sizes(v, n_axes) for k, v in sizes.items()}
        )

    return call


def _transposed_convolution(n_axes: int) -> Call:
    def call(
        x: Tensor,
        weight: Tensor,
        bias: Any = None,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        groups: int = 1,
        dilation: Any = 1,
    ) -> Tensor:
        require(x.ndim == n_axes + 2, "input without a batch axis")
        sizes = {
            "stride": stride,
            "padding": padding,
            "output_padding": output_padding,
            "dilation": dilation,
        }
        return sv.conv_transpose2d(
            x, weight, bias, groups=groups, **{k: _sizes(v, n_axes) for k, v in sizes.items()}
        )

    return call


def _avg_pool(n_axes: int) -> Call:
    def call(
        x: Tensor,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> Tensor:
        require(divisor_override is None, "divisor_override")
        stride = kernel_size if stride is None or stride == () or stride == [] else stride
        return sv.avg_pool2d(
            x,
            _sizes(kernel_size, n_axes),
            stride=_sizes(stride, n_axes),
            padding=_sizes(padding, n_axes),
            ceil_mode=ceil_mode,
            count_include_pad=count_include_pad,
        )

    return call


def _max_pool(n_axes: int) -> Call:
    def call(
        x: Tensor,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> Any:
        stride = kernel_size if stride is None or stride == () or stride == [] else stride
        return sv.max_pool2d(
            x,
            _sizes(kernel_size, n_axes),
            stride=_sizes(stride, n_axes),
            padding=_sizes(padding, n_axes),
            dilation=_sizes(dilation, n_axes),
            ceil_mode=ceil_mode,
            return_indices=return_indices,
        )

    return call


def _max_unpool(n_axes: int) -> Call:
    def call(
        x: Tensor,
        indices: Tensor,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        output_size: Any = None,
    ) -> Tensor:
        stride = kernel_size if stride is None else stride
        return x.max_unpool2d(
            indices,
            _sizes(kernel_size, n_axes),
            stride=_sizes(stride, n_axes),
            padding=_sizes(padding, n_axes),
            size=None if output_size is None else tuple(output_size)[-n_axes:],
        )

    return call


def _adaptive_avg_pool(n_axes: int) -> Call:
    layer = (nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool2d, nn.AdaptiveAvgPool3d)[n_axes - 1]

    def call(x: Tensor, output_size: Any) -> Tensor:
        sizes = _sizes(output_size, n_axes)
        require(None not in sizes, "output_size of None")
        return layer(sizes[0] if n_axes == 1 else sizes)(x)

    return call


def _group_norm(
    x: Tensor, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> Tensor:
    return x.group_norm(num_groups, eps, weight, bias)


def _layer_norm(
    x: Tensor, shape: Sequence[int], weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> Tensor:
    return x.layernorm(tuple(range(-len(shape), 0)), eps, weight, bias)


def _rms_norm(
    x: Tensor, shape: Sequence[int], weight: Any = None, eps: float | None = None
) -> Tensor:
    eps = (
        (1.1920929e-07 if x.dtype == sv.float32 else 2.220446049250313e-16) if eps is None else eps
    )
    return x.rms_norm(tuple(range(-len(shape), 0)), eps, weight)


def _batch_norm(
    x: Tensor,
    mean: Any,
    variance: Any,
    weight: Any = None,
    bias: Any = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    require(
        not training, "training: the layers of svod_nn have it, and update their own statistics"
    )
    return x.batchnorm(mean, variance, weight, bias, eps)


def _instance_norm(x: Tensor, *, eps: float = 1e-5, momentum: float = 0.1, **others: Any) -> Tensor:
    require(not any(value is not None for value in others.values()), ", ".join(others))
    return (nn.InstanceNorm1d, nn.InstanceNorm2d, nn.InstanceNorm3d)[x.ndim - 3](
        x.shape[1], eps=eps
    )(x)


def _hardtanh(x: Tensor, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
    return sv.clip(x, min_val, max_val)


def _softplus(x: Tensor, beta: float = 1, threshold: float = 20) -> Tensor:
    require(threshold == 20, "threshold")
    return sv.softplus(x, beta)


def _prelu(x: Tensor, weight: Tensor) -> Tensor:
    require(x.ndim > 0, "0-d input")
    layer = nn.PReLU(weight.size)
    layer.weight = weight
    return layer(x)


def _bilinear(x: Tensor, y: Tensor, weight: Tensor, bias: Any = None) -> Tensor:
    layer = nn.Bilinear(weight.shape[1], weight.shape[2], weight.shape[0], bias=bias is not None)
    layer.weight = weight
    if bias is not None:
        layer.bias = bias
    return layer(x, y)


def _attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
) -> Tensor:
    require(dropout_p == 0.0, "dropout_p")
    return q.scaled_dot_product_attention(k, v, attn_mask, is_causal=is_causal)


def _embedding(
    weight: Tensor, indices: Tensor, padding_idx: int | None = None, sparse: bool = False
) -> Tensor:
    require(padding_idx is None, "padding_idx")
    return sv.embedding(indices, weight)


def _one_hot(x: Tensor, num_classes: int = -1) -> Tensor:
    require(num_classes >= 0, "number of classes from the values")
    return sv.one_hot(x, num_classes, dtype=sv.int64)


def _unfold(
    x: Tensor, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
) -> Tensor:
    sizes = {"stride": stride, "padding": padding, "dilation": dilation}
    return sv.unfold(x, _sizes(kernel_size, 2), **{k: _sizes(v, 2) for k, v in sizes.items()})


def _grid_sample(
    x: Tensor,
    grid: Tensor,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: Any = None,
) -> Tensor:
    return sv.grid_sample(
        x, grid, mode=mode, padding_mode=padding_mode, align_corners=bool(align_corners)
    )


def _grid_sampler(x: Tensor, grid: Tensor, mode: int, padding: int, align_corners: bool) -> Tensor:
    modes, paddings = ("bilinear", "nearest", "bicubic"), ("zeros", "border", "reflection")
    return _grid_sample(x, grid, modes[mode], paddings[padding], align_corners)


def _interpolate(
    x: Tensor,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
) -> Tensor:
    require(not recompute_scale_factor, "recompute_scale_factor")
    require(mode != "area", "mode area")
    return sv.interpolate(x, size, scale_factor, mode=mode, align_corners=bool(align_corners))


def _upsample(mode: str, align_corners: bool) -> Call:
    def call(x: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
        return sv.interpolate(x, size, scale_factor, mode=mode, align_corners=align_corners)

    return call


def _ctc_loss(
    log_probabilities: Tensor,
    targets: Tensor,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Tensor:
    lengths = [
        x if isinstance(x, Tensor) else Tensor(list(x), dtype="int64")
        for x in (input_lengths, target_lengths)
    ]
    return nn.ctc_loss(
        log_probabilities,
        targets,
        *lengths,
        blank=blank,
        reduction=reduction,
        zero_infinity=zero_infinity,
    )


def _huber_loss(x: Tensor, target: Tensor, reduction: str = "mean", delta: float = 1.0) -> Tensor:
    return nn.huber_loss(x, target, reduction=reduction, delta=delta)


def _cosine_similarity(x: Tensor, y: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    return nn.cosine_similarity(x, y, axis=dim, eps=eps)


def _tensordot(x: Tensor, y: Tensor, dims: Any = 2) -> Tensor:
    return sv.tensordot(x, y, axes=dims if isinstance(dims, int) else tuple(map(tuple, dims)))


def _flip(x: Tensor, dims: Any) -> Tensor:
    return sv.flip(x, axis=tuple(dims))


def _roll(x: Tensor, shifts: Any, dims: Any = None) -> Tensor:
    return sv.roll(x, shifts, axis=None if dims is None or dims == () else dims)


def _index_select(x: Tensor, dim: int, index: Tensor) -> Tensor:
    return sv.take(x, index, axis=dim)


def _index_add(x: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: Any = 1) -> Tensor:
    require(alpha == 1, "alpha")
    return sv.index_add(x, dim, index, source)


def _gather(x: Tensor, dim: int, index: Tensor) -> Tensor:
    return sv.gather(x, dim, index)


def _scatter(
    x: Tensor, dim: int, index: Tensor, value: Any, *, reduce: str | None = None
) -> Tensor:
    if reduce is None:
        return sv.scatter(x, dim, index, value)
    return sv.scatter_reduce(x, dim, index, value, {"add": "sum", "multiply": "prod"}[reduce])


def _scatter_reduce(
    x: Tensor, dim: int, index: Tensor, source: Any, reduce: str, *, include_self: bool = True
) -> Tensor:
    return sv.scatter_reduce(x, dim, index, source, reduce, include_self=include_self)


def _take_along_dim(x: Tensor, indices: Tensor, dim: int | None = None) -> Tensor:
    if dim is None:
        return sv.take_along_axis(sv.ravel(x), sv.ravel(indices), axis=0)
    return sv.take_along_axis(x, indices, axis=dim)


def _repeat_interleave(
    x: Tensor, repeats: Any, dim: int | None = None, *, output_size: Any = None
) -> Tensor:
    return sv.repeat_interleave(x, repeats, dim)


def _masked_select(x: Tensor, mask: Tensor) -> Tensor:
    require(x.shape == mask.shape, "mask of another shape, which is an index here")
    return sv.masked_select(x, mask)


def _where(x: Tensor, condition: Tensor, other: Tensor) -> Tensor:
    return sv.where(condition, x, other)


def _getitem(x: Tensor, index: Any) -> Tensor:
    return x[index]


def _trapezoid(y: Tensor, x: Any = None, *, dx: float = 1.0, dim: int = -1) -> Tensor:
    return sv.trapezoid(y, x, dx, dim)


def _trace(x: Tensor) -> Tensor:
    return sv.trace(x)


def _bincount(x: Tensor, weights: Any = None, minlength: int = 0) -> Tensor:
    return sv.bincount(x, weights, minlength)


def _histogram(x: Tensor, bins: Any, *, weight: Any = None, density: bool = False) -> Any:
    return tuple(
        sv.histogram(
            sv.ravel(x), bins, weights=None if weight is None else sv.ravel(weight), density=density
        )
    )


def _bucketize(
    x: Any, boundaries: Tensor, *, out_int32: bool = False, right: bool = False
) -> Tensor:
    index = sv.searchsorted(boundaries, x, side="right" if right else "left")
    return index.cast(sv.int32) if out_int32 else index


def _searchsorted(
    boundaries: Tensor,
    values: Any,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Any = None,
) -> Tensor:
    require(boundaries.ndim == 1, "more than one row of boundaries")
    index = sv.searchsorted(
        boundaries, values, side=side or ("right" if right else "left"), sorter=sorter
    )
    return index.cast(sv.int32) if out_int32 else index


def _unique(
    x: Tensor,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Any:
    require(dim is None, "dim")
    result = sv.unique_all(x)
    parts = [result.values]
    parts += [result.inverse_indices] if return_inverse else []
    parts += [result.counts] if return_counts else []
    return parts[0] if len(parts) == 1 else tuple(parts)


def _nonzero(x: Tensor, *, as_tuple: bool = False) -> Any:
    return sv.nonzero(x) if as_tuple else sv.argwhere(x)


def _logit(x: Tensor, eps: float | None = None) -> Tensor:
    require(eps is None, "eps")
    return sv.logit(x)


def _round(x: Tensor, *, decimals: int = 0) -> Tensor:
    require(decimals == 0, "decimals")
    return sv.round(x)


def _isclose(
    x: Tensor, y: Tensor, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> Tensor:
    return sv.isclose(x, y, rtol, atol, equal_nan)


def _cov(x: Tensor, *, correction: int = 1, fweights: Any = None, aweights: Any = None) -> Tensor:
    require(x.ndim > 0, "0-d input")
    return sv.cov(x, correction=correction, fweights=fweights, aweights=aweights)


def _einsum(operands: Sequence[Tensor], formula: str) -> Tensor:
    return Tensor.einsum(formula, *operands)


def _norm(x: Tensor, p: Any = "fro", dim: Any = None, keepdim: bool = False) -> Tensor:
    if p == "nuc":
        require(x.ndim == 2 or dim is not None, "nuc of more than two axes")
        return linalg.matrix_norm(
            x if dim is None else sv.moveaxis(x, tuple(dim), (-2, -1)), ord="nuc"
        )
    axis = tuple(dim) if isinstance(dim, (list, tuple)) else dim
    return linalg.vector_norm(
        x, axis=axis, keepdims=keepdim, ord=2 if p == "fro" or p is None else p
    )


def _linalg_norm(x: Tensor, ord: Any = None, dim: Any = None, keepdim: bool = False) -> Tensor:
    axis = tuple(dim) if isinstance(dim, (list, tuple)) else dim
    return linalg.norm(x, ord, axis, keepdims=keepdim)


def _matrix_norm(x: Tensor, ord: Any = "fro", dim: Any = (-2, -1), keepdim: bool = False) -> Tensor:
    if tuple(dim) == (-2, -1):
        return linalg.matrix_norm(x, ord=ord, keepdims=keepdim)
    return linalg.norm(x, ord, tuple(dim), keepdims=keepdim)


def _vector_norm(
    x: Tensor, ord: Any = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None
) -> Tensor:
    require(dtype is None, "dtype")
    axis = tuple(dim) if isinstance(dim, (list, tuple)) else dim
    return linalg.vector_norm(x, axis=axis, keepdims=keepdim, ord=ord)


def _cross(x: Tensor, y: Tensor, *, dim: int = -1) -> Tensor:
    return linalg.cross(x, y, axis=dim)


def _torch_cross(x: Tensor, y: Tensor, dim: int | None = None) -> Tensor:
    # Without dim, PyTorch takes the first axis of size 3.
    return linalg.cross(x, y, axis=x.shape.index(3) if dim is None else dim)


def _vecdot(x: Tensor, y: Tensor, *, dim: int = -1) -> Tensor:
    return linalg.vecdot(x, y, axis=dim)


def _cholesky(x: Tensor, *, upper: bool = False) -> Tensor:
    return linalg.cholesky(x, upper=upper)


def _torch_cholesky(x: Tensor, upper: bool = False) -> Tensor:
    return linalg.cholesky(x, upper=upper)


def _hermitian(function: Call) -> Call:
    def call(x: Tensor, UPLO: str = "L") -> Any:
        # The lower triangle counts here: that of the adjoint is the upper one.
        return function(x if UPLO == "L" else _adjoint(x))

    return call


def _qr(x: Tensor, mode: str = "reduced") -> Any:
    return linalg.qr(x, mode=mode)


def _torch_qr(x: Tensor, some: bool = True) -> Any:
    return linalg.qr(x, mode="reduced" if some else "complete")


def _svd(x: Tensor, full_matrices: bool = True) -> Any:
    return linalg.svd(x, full_matrices=full_matrices)


def _pinv(x: Tensor, *, atol: Any = None, rtol: Any = None, hermitian: bool = False) -> Tensor:
    require(atol is None, "atol")
    require(not hermitian, "hermitian, of which PyTorch reads one triangle")
    return linalg.pinv(x, rtol=rtol)


def _pinverse(x: Tensor) -> Tensor:
    return linalg.pinv(x, rtol=1e-15)


def _matrix_rank(
    x: Tensor, *, atol: Any = None, rtol: Any = None, hermitian: bool = False
) -> Tensor:
    require(atol is None, "atol")
    require(not hermitian, "hermitian, of which PyTorch reads one triangle")
    return linalg.matrix_rank(x, rtol=rtol)


def _solve_triangular(
    x: Tensor, y: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Tensor:
    require(left, "left")
    return linalg.solve_triangular(x, y, upper=upper, unit_diagonal=unitriangular)


def _lstsq(x: Tensor, y: Tensor, rcond: Any = None, *, driver: str | None = None) -> Any:
    return linalg.lstsq(x, y, rcond)


def _tensorsolve(x: Tensor, y: Tensor, dims: Any = None) -> Tensor:
    return linalg.tensorsolve(x, y, None if dims is None else tuple(dims))


def _fft_axis(function: Call) -> Call:
    def call(x: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
        return function(x, n=n, axis=dim, norm=norm or "backward")

    return call


def _fft_axes(function: Call, default: tuple[int, ...] | None = None) -> Call:
    def call(x: Tensor, s: Any = None, dim: Any = default, norm: str | None = None) -> Tensor:
        axes = (dim,) if isinstance(dim, int) else dim if dim is None else tuple(dim)
        if s is not None and axes is None:
            axes = tuple(range(-len(s), 0))
        return function(x, s=None if s is None else tuple(s), axes=axes, norm=norm or "backward")

    return call


def _fft_shift(function: Call) -> Call:
    def call(x: Tensor, dim: Any = None) -> Tensor:
        return function(x, axes=tuple(dim) if isinstance(dim, (list, tuple)) else dim)

    return call


def _cast(dtype: str) -> Call:
    def call(x: Tensor, *, memory_format: Any = None) -> Tensor:
        return x.cast(dtype)

    return call


def _like(function: Call) -> Call:
    def call(x: Tensor, *args: Any, dtype: Any = None, device: Any = None) -> Tensor:
        return function(x, *args, dtype=dtype)

    return call


def _tri(function: Call) -> Call:
    def call(x: Tensor, diagonal: int = 0) -> Tensor:
        return function(x, k=diagonal)

    return call


def _adjoint(x: Tensor) -> Tensor:
    return sv.matrix_transpose(x).conj()


def _dropout(x: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    require(training, "training=False")
    return x.dropout(p)


def _uniform(x: Tensor, low: float, high: float) -> Tensor:
    return Tensor.uniform(*x.shape, low=low, high=high, dtype=x.dtype)


def _exponential(x: Tensor, rate: float) -> Tensor:
    return Tensor.exponential(*x.shape, scale=1 / rate, dtype=x.dtype)


def _normal_in_place(x: Tensor, mean: float, std: float) -> Tensor:
    return Tensor.normal(*x.shape, mean=mean, std=std, dtype=x.dtype)


def _bernoulli(x: Tensor) -> Tensor:
    return x.bernoulli(dtype=x.dtype)


def _multinomial(x: Tensor, n: int, replacement: bool = False) -> Tensor:
    return x.multinomial(n, replacement=replacement)


def _randint(*args: Any, dtype: Any = None, device: Any = None) -> Tensor:
    low, high, shape = args if len(args) == 3 else (0, *args)
    return Tensor.randint(*shape, low=low, high=high, dtype=dtype or sv.int64)


def _randn(
    *shape: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    return Tensor.randn(*shape, dtype=dtype or sv.float32)


def _normal(
    mean: Any,
    std: Any,
    size: Any = None,
    *,
    dtype: Any = None,
    device: Any = None,
    layout: Any = None,
) -> Tensor:
    shape = size
    if shape is None:
        shape = sv.broadcast_shapes(*(x.shape for x in (mean, std) if isinstance(x, Tensor)))
    return Tensor.normal(*shape, mean=mean, std=std, dtype=dtype or sv.float32)


def _movedim(x: Tensor, source: Any, destination: Any) -> Tensor:
    return sv.moveaxis(x, tuple(source), tuple(destination))


COUNTERPARTS: dict[str, Call] = {
    **_parse(_SAME, sv),
    **_parse(_METHODS, Tensor),
    "add": _add,
    "sub": _sub,
    "div/no_rounding_mode": _div,
    "div/trunc_rounding": _div,
    "div/floor_rounding": _div,
    "clamp": _clip,
    "diagonal": _diagonal,
    "linalg.diagonal": _linalg_diagonal,
    "diff": _diff,
    "arange": _arange,
    "linspace": _linspace,
    "linspace/tensor_overload": _linspace,
    "eye": _creation(sv.eye),
    "ones": _creation(sv.ones),
    "zeros": _creation(sv.zeros),
    "full": _creation(sv.full),
    "empty": _creation(sv.empty),
    "ones_like": _like(sv.ones_like),
    "zeros_like": _like(sv.zeros_like),
    "empty_like": _like(sv.empty_like),
    "full_like": _like(sv.full_like),
    "flatten": _flatten,
    "cat": _join(sv.concat),
    "stack": _join(sv.stack),
    "squeeze": _squeeze,
    "squeeze/multiple": _squeeze,
    "sort": _sort,
    "argsort": _argsort,
    "msort": _msort,
    "topk": _topk,
    "median": _median(sv.median),
    "nanmedian": _median(sv.nanmedian),
    "quantile": _quantile(sv.quantile),
    "nanquantile": _quantile(sv.nanquantile),
    "isin": _isin,
    "meshgrid/variadic_tensors": _meshgrid,
    "meshgrid/list_of_tensors": _meshgrid,
    "constant_pad_nd": _constant_pad,
    **{
        f"nn.functional.pad/{mode}": _pad
        for mode in ("constant", "reflect", "replicate", "replicate_negative", "circular")
    },
    **{f"nn.functional.conv{n}d": _convolution(n) for n in (1, 2, 3)},
    **{f"nn.functional.conv_transpose{n}d": _transposed_convolution(n) for n in (1, 2, 3)},
    **{f"nn.functional.avg_pool{n}d": _avg_pool(n) for n in (1, 2, 3)},
    **{f"nn.functional.max_pool{n}d": _max_pool(n) for n in (1, 2, 3)},
    **{f"nn.functional.max_unpool{n}d": _max_unpool(n) for n in (1, 2, 3)},
    **{f"nn.functional.max_unpool{n}d/grad": _max_unpool(n) for n in (1, 2, 3)},
    **{f"nn.functional.adaptive_avg_pool{n}d": _adaptive_avg_pool(n) for n in (1, 2, 3)},
    "nn.functional.group_norm": _group_norm,
    "nn.functional.layer_norm": _layer_norm,
    "nn.functional.rms_norm": _rms_norm,
    "nn.functional.batch_norm": _batch_norm,
    "nn.functional.batch_norm/without_cudnn": _batch_norm,
    "broadcast_tensors": sv.broadcast_arrays,
    "nn.functional.instance_norm": _instance_norm,
    "nn.functional.hardtanh": _hardtanh,
    "nn.functional.softplus": _softplus,
    "nn.functional.prelu": _prelu,
    "nn.functional.bilinear": _bilinear,
    "nn.functional.scaled_dot_product_attention": _attention,
    "nn.functional.embedding": _embedding,
    "nn.functional.one_hot": _one_hot,
    "nn.functional.unfold": _unfold,
    "nn.functional.grid_sample": _grid_sample,
    "grid_sampler_2d": _grid_sampler,
    "grid_sampler_3d": _grid_sampler,
    **{
        f"nn.functional.interpolate/{mode}": _interpolate
        for mode in (
            "nearest",
            "nearest-exact",
            "linear",
            "bilinear",
            "bicubic",
            "trilinear",
            "area",
        )
    },
    "nn.functional.upsample_bilinear": _upsample("bilinear", True),
    "nn.functional.upsample_nearest": _upsample("nearest", False),
    "nn.functional.cross_entropy": nn.cross_entropy,
    "nn.functional.nll_loss": nn.nll_loss,
    "nn.functional.kl_div": nn.kl_div,
    "nn.functional.mse_loss": nn.mse_loss,
    "nn.functional.l1_loss": nn.l1_loss,
    "nn.functional.smooth_l1_loss": nn.smooth_l1_loss,
    "nn.functional.huber_loss": _huber_loss,
    "nn.functional.binary_cross_entropy": nn.binary_cross_entropy,
    "nn.functional.binary_cross_entropy_with_logits": nn.binary_cross_entropy_with_logits,
    "nn.functional.cosine_embedding_loss": nn.cosine_embedding_loss,
    "nn.functional.triplet_margin_loss": nn.triplet_margin_loss,
    "nn.functional.ctc_loss": _ctc_loss,
    "nn.functional.cosine_similarity": _cosine_similarity,
    "tensordot": _tensordot,
    "flip": _flip,
    "roll": _roll,
    "index_select": _index_select,
    "index_add": _index_add,
    "gather": _gather,
    "scatter": _scatter,
    **{
        f"scatter_reduce/{name}": _scatter_reduce
        for name in ("sum", "prod", "mean", "amin", "amax")
    },
    "take_along_dim": _take_along_dim,
    "repeat": sv.tile,
    "repeat_interleave": _repeat_interleave,
    "__getitem__": _getitem,
    "where": _where,
    "masked_select": _masked_select,
    "trapezoid": _trapezoid,
    "trapz": _trapezoid,
    "trace": _trace,
    "bincount": _bincount,
    "histogram": _histogram,
    "bucketize": _bucketize,
    "searchsorted": _searchsorted,
    "unique": _unique,
    "nonzero": _nonzero,
    "logit": _logit,
    "round": _round,
    "round/decimals_0": _round,
    "round/decimals_3": _round,
    "round/decimals_neg_3": _round,
    "isclose": _isclose,
    "cov": _cov,
    "corrcoef": sv.corrcoef,
    "dot": sv.dot,
    "vdot": sv.vecdot,
    "einsum": _einsum,
    "norm": _norm,
    "norm/nuc": _norm,
    "norm/fro": _norm,
    "norm/inf": _norm,
    "linalg.norm": _linalg_norm,
    "linalg.norm/subgradients_at_zero": _linalg_norm,
    "linalg.matrix_norm": _matrix_norm,
    "linalg.vector_norm": _vector_norm,
    "linalg.cross": _cross,
    "cross": _torch_cross,
    "linalg.vecdot": _vecdot,
    "linalg.cholesky": _cholesky,
    "cholesky": _torch_cholesky,
    "linalg.eigh": _hermitian(linalg.eigh),
    "linalg.eigvalsh": _hermitian(linalg.eigvalsh),
    "linalg.qr": _qr,
    "qr": _torch_qr,
    "linalg.svd": _svd,
    "linalg.pinv": _pinv,
    "linalg.pinv/hermitian": _pinv,
    "pinverse": _pinverse,
    "linalg.matrix_rank": _matrix_rank,
    "linalg.matrix_rank/hermitian": _matrix_rank,
    "linalg.solve_triangular": _solve_triangular,
    "linalg.lstsq": _lstsq,
    "linalg.lstsq/grad_oriented": _lstsq,
    "linalg.tensorsolve": _tensorsolve,
    **{
        f"fft.{name}": _fft_axis(getattr(fft, name))
        for name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
    },
    **{
        f"fft.{name}": _fft_axes(getattr(fft, name))
        for name in ("fftn", "ifftn", "rfftn", "irfftn")
    },
    **{
        f"fft.{name}2": _fft_axes(getattr(fft, f"{name}n"), (-2, -1))
        for name in ("fft", "ifft", "rfft", "irfft")
    },
    **{f"fft.{name}": _fft_shift(getattr(fft, name)) for name in ("fftshift", "ifftshift")},
    "bfloat16": _cast("bfloat16"),
    "bool": _cast("bool"),
    "byte": _cast("uint8"),
    "char": _cast("int8"),
    "double": _cast("float64"),
    "float": _cast("float32"),
    "half": _cast("float16"),
    "int": _cast("int32"),
    "long": _cast("int64"),
    "short": _cast("int16"),
    "cdouble": _cast("complex128"),
    "cfloat": _cast("complex64"),
    "tril": _tri(sv.tril),
    "triu": _tri(sv.triu),
    "mT": sv.matrix_transpose,
    "mH": _adjoint,
    "H": _adjoint,
    "T": sv.matrix_transpose,
    "t": sv.transpose,
    "movedim": _movedim,
    "sum": _reduce(sv.sum),
    "mean": _reduce(sv.mean),
    "nansum": _reduce(sv.nansum),
    "nanmean": _reduce(sv.nanmean),
    "prod": _sum_like(sv.prod),
    "amax": _reduce(sv.amax),
    "amin": _reduce(sv.amin),
    "all": _reduce(sv.all),
    "any": _reduce(sv.any),
    "argmax": _reduce(sv.argmax),
    "argmin": _reduce(sv.argmin),
    "count_nonzero": _reduce(sv.count_nonzero),
    "logsumexp": _reduce(sv.logsumexp),
    "max/reduction_no_dim": _reduce(sv.max),
    "min/reduction_no_dim": _reduce(sv.min),
    "max/reduction_with_dim": _reduce_with_index(sv.max, sv.argmax),
    "min/reduction_with_dim": _reduce_with_index(sv.min, sv.argmin),
    **{
        name: _spread(getattr(sv, name.partition("/")[0]))
        for name in ("std", "var", "std/unbiased", "var/unbiased")
    },
    "cummax": _cumulate_with_index(sv.cummax, sv.cumargmax),
    "cummin": _cumulate_with_index(sv.cummin, sv.cumargmin),
    "cumsum": _accumulate(sv.cumsum),
    "cumprod": _accumulate(sv.cumprod),
    "softmax": _along(sv.softmax),
    "softmax/with_dtype": _along(sv.softmax),
    "log_softmax": _along(sv.log_softmax),
    "log_softmax/with_dtype": _along(sv.log_softmax),
    "nn.functional.dropout": _dropout,
    "bernoulli": _bernoulli,
    "multinomial": _multinomial,
    "randint": _randint,
    "randn": _randn,
    "exponential": _exponential,
    "uniform": _uniform,
    "normal/in_place": _normal_in_place,
    "normal": _normal,
    "normal/number_mean": _normal,
}

# Values that no two libraries share: the suite compares shapes and dtypes.
RANDOM = {
    "bernoulli",
    "empty",
    "empty_like",
    "exponential",
    "multinomial",
    "nn.functional.dropout",
    "normal",
    "normal/in_place",
    "normal/number_mean",
    "randint",
    "randn",
    "uniform",
}

# Residuals, rank and singular values depend on PyTorch's driver, and medians have no index here:
# the suite compares the first result.
FIRST_RESULT = {"linalg.lstsq", "linalg.lstsq/grad_oriented", "median", "nanmedian"}

# Results that are vectors, which are determined up to a sign or a phase: the suite compares
# absolute values.
VECTORS = {"linalg.eig": (1,), "linalg.eigh": (1,), "linalg.svd": (0, 2)}
