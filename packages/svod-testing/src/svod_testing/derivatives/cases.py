"""A call of each differentiable operation of `Tensor` and of its torch counterpart, and the reason why
the other operations have no derivative.
"""

# torch has no types here: it is not installed where this is checked.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownParameterType=false

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from svod_tensor import Tensor
from svod_testing.derivatives.image_cases import IMAGE_CASES, Case

__all__ = ["CASES", "NO_DERIVATIVE", "Case", "draw"]


def draw(
    rng: np.random.Generator, case: Case, shapes: tuple[tuple[int, ...], ...] | None = None
) -> list[np.ndarray]:
    """Return random arguments of float64."""
    return [_DOMAINS[case.domain](rng, shape) for shape in shapes or case.shapes]


_DOMAINS: Final[dict[str, Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]]] = {
    "real": lambda rng, shape: rng.normal(0, 2, shape),
    "positive": lambda rng, shape: rng.uniform(0.3, 3, shape),
    "unit": lambda rng, shape: rng.uniform(-0.9, 0.9, shape),
    "above": lambda rng, shape: rng.uniform(1.1, 4, shape),
    "moderate": lambda rng, shape: rng.uniform(-2.5, 4, shape),
}


def _one(
    operation: str,
    peer: Callable[..., Any],
    domain: str = "real",
    call: Callable[..., Any] | None = None,
) -> Case:
    function = call or (lambda x: getattr(x, operation)())
    return Case(operation, function, peer, ((3, 5),), domain, is_elementwise=True)


def _two(
    operation: str,
    peer: Callable[..., Any],
    domain: str = "real",
    call: Callable[..., Any] | None = None,
) -> Case:
    function = call or (lambda x, y: getattr(x, operation)(y))
    return Case(operation, function, peer, ((3, 5), (3, 5)), domain, is_elementwise=True)


def _case(
    operation: str,
    call: Callable[..., Any],
    peer: Callable[..., Any],
    *shapes: tuple[int, ...],
    domain: str = "real",
) -> Case:
    return Case(operation, call, peer, shapes, domain)


def _list(t: Any, *values: Any) -> Any:
    return t.tensor(list(values))


def _variance(t: Any, x: Any, is_there: Any, correction: int) -> Any:
    """Compute the variance of the present elements along the second axis."""
    count = is_there.sum(1, keepdim=True)
    mean = t.where(is_there, x, 0.0).sum(1, keepdim=True) / count
    return (t.where(is_there, x - mean, 0.0) ** 2).sum(1) / (count[:, 0] - correction)


_ROWS = np.array([[2, 0, 0, 1, 2], [1, 1, 1, 0, 2]])
_MASK = np.array([[1, 0, 1, 1, 0], [0, 0, 0, 0, 0], [1, 1, 1, 1, 1]], bool)


def _attention_mask(rows: int, columns: int) -> np.ndarray:
    mask = (np.arange(rows)[:, None] + 2 * np.arange(columns)) % 3 != 0
    mask[1] = False
    return mask


# fmt: off
_ELEMENTWISE: Final = (
    _one("relu", lambda t, x: t.relu(x)),
    _one("relu6", lambda t, x: t.nn.functional.relu6(x)),
    _one("leaky_relu", lambda t, x: t.nn.functional.leaky_relu(x, 0.2), call=lambda x: x.leaky_relu(0.2)),
    _one("elu", lambda t, x: t.nn.functional.elu(x, 1.5), call=lambda x: x.elu(1.5)),
    _one("selu", lambda t, x: t.selu(x)),
    _one("silu", lambda t, x: t.nn.functional.silu(x)),
    _one("gelu", lambda t, x: t.nn.functional.gelu(x)),
    _one("gelu", lambda t, x: t.nn.functional.gelu(x, approximate="tanh"), call=lambda x: x.gelu("tanh")),
    _one("softplus", lambda t, x: t.nn.functional.softplus(x, 1.5, 1e9), call=lambda x: x.softplus(1.5)),
    _one("mish", lambda t, x: t.nn.functional.mish(x)),
    # torch has a sixth in float32 there, of float64 too.
    _one("hardsigmoid", lambda t, x: (x + 3).clamp(0, 6) / 6),
    _one("hardswish", lambda t, x: t.nn.functional.hardswish(x)),
    _one("softsign", lambda t, x: t.nn.functional.softsign(x)),
    _two("add", lambda t, x, y: x + y),
    _two("sub", lambda t, x, y: x - y),
    _two("mul", lambda t, x, y: x * y),
    _two("div", lambda t, x, y: x / y, "positive"),
    _two("floor_divide", lambda t, x, y: (x.detach() / y.detach()).floor(), "positive"),
    _two("remainder", lambda t, x, y: t.remainder(x, y)),
    _two("fmod", lambda t, x, y: t.fmod(x, y)),
    _two("pow", lambda t, x, y: x**y, "positive"),
    _one("pow", lambda t, x: x**3, call=lambda x: x**3),
    _one("pow", lambda t, x: x**-1.5, "positive", call=lambda x: x**-1.5),
    _one("pow", lambda t, x: 2.5**x, call=lambda x: 2.5**x),
    _one("square", lambda t, x: x * x),
    _one("reciprocal", lambda t, x: 1 / x, "positive"),
    _one("neg", lambda t, x: -x),
    _one("positive", lambda t, x: +x),
    _one("abs", lambda t, x: x.abs()),
    _one("sign", lambda t, x: x.sign()),
    _one("floor", lambda t, x: x.floor()),
    _one("ceil", lambda t, x: x.ceil()),
    _one("trunc", lambda t, x: x.trunc()),
    _one("round", lambda t, x: x.round()),
    Case("lerp", lambda x, y, w: x.lerp(y, w), lambda t, x, y, w: t.lerp(x, y, w), ((3, 5), (3, 5), (3, 5)), is_elementwise=True),
    _two("complex", lambda t, x, y: t.complex(x, y).abs(), call=lambda x, y: x.complex(y).abs()),
    _two("real", lambda t, x, y: t.complex(x, y).square().real, call=lambda x, y: x.complex(y).square().real),
    _two("imag", lambda t, x, y: t.complex(x, y).square().imag, call=lambda x, y: x.complex(y).square().imag),
    _two("conj", lambda t, x, y: t.complex(x, y).square().conj().imag, call=lambda x, y: x.complex(y).square().conj().imag),
    _two("angle", lambda t, x, y: t.complex(x, y).angle(), "positive", call=lambda x, y: x.complex(y).angle()),
    # torch's derivative of view_as_real refuses cotangents without elements.
    _two("as_real", lambda t, x, y: t.stack((t.complex(x, y).square().real, t.complex(x, y).square().imag), -1), call=lambda x, y: x.complex(y).square().as_real()),
    _two("maximum", lambda t, x, y: t.maximum(x, y)),
    _two("minimum", lambda t, x, y: t.minimum(x, y)),
    _two("fmax", lambda t, x, y: t.fmax(x, y)),
    _two("fmin", lambda t, x, y: t.fmin(x, y)),
    _one("clip", lambda t, x: t.clamp(x, -1, 1), call=lambda x: x.clip(-1, 1)),
    _two("copysign", lambda t, x, y: t.copysign(x, y)),
    _one("clone", lambda t, x: x.clone()),
    _one("astype", lambda t, x: x.clone(), call=lambda x: x.astype(x.dtype)),
    _one("cast", lambda t, x: x.to(t.float32).to(x.dtype), call=lambda x: x.cast("float32").cast(x.dtype)),
    _one("contiguous", lambda t, x: x.contiguous()),
    _one("exp", lambda t, x: x.exp()),
    _one("exp2", lambda t, x: t.exp2(x)),
    _one("expm1", lambda t, x: t.expm1(x)),
    _one("log", lambda t, x: x.log(), "positive"),
    _one("log2", lambda t, x: x.log2(), "positive"),
    _one("log10", lambda t, x: x.log10(), "positive"),
    _one("log1p", lambda t, x: x.log1p(), "positive"),
    _two("logaddexp", lambda t, x, y: t.logaddexp(x, y)),
    _one("sqrt", lambda t, x: x.sqrt(), "positive"),
    _one("rsqrt", lambda t, x: x.rsqrt(), "positive"),
    _one("cbrt", lambda t, x: x.sign() * x.abs() ** (1 / 3)),
    _two("hypot", lambda t, x, y: t.hypot(x, y)),
    _one("sigmoid", lambda t, x: x.sigmoid()),
    _one("erf", lambda t, x: x.erf()),
    _one("sin", lambda t, x: x.sin()),
    _one("cos", lambda t, x: x.cos()),
    _one("tan", lambda t, x: x.tan(), "unit"),
    _one("asin", lambda t, x: x.asin(), "unit"),
    _one("acos", lambda t, x: x.acos(), "unit"),
    _one("atan", lambda t, x: x.atan()),
    _two("atan2", lambda t, x, y: t.atan2(x, y)),
    _one("sinh", lambda t, x: x.sinh()),
    _one("cosh", lambda t, x: x.cosh()),
    _one("tanh", lambda t, x: x.tanh()),
    _one("asinh", lambda t, x: x.asinh()),
    _one("acosh", lambda t, x: x.acosh(), "above"),
    _one("atanh", lambda t, x: x.atanh(), "unit"),
    _one("deg2rad", lambda t, x: t.deg2rad(x)),
    _one("rad2deg", lambda t, x: t.rad2deg(x)),
    _two("where", lambda t, x, y: t.where(x > 0, x, y), call=lambda x, y: (x > 0).where(x, y)),
    _one("masked_fill", lambda t, x: x.masked_fill(x > 0, 3.0), call=lambda x: x.masked_fill(x > 0, 3.0)),
    _one("detach", lambda t, x: x * x.detach(), call=lambda x: x * x.detach()),
)

_ARRANGED: Final = (
    _case("take", lambda x: x.take([2, 0, 2], 0), lambda t, x: x[[2, 0, 2]], (3, 5)),
    _case("take_along_axis", lambda x: x.take_along_axis(Tensor(_ROWS), 0), lambda t, x: t.take_along_dim(x, t.tensor(_ROWS), 0), (3, 5)),
    _case("gather", lambda x: x.gather(0, Tensor(_ROWS)), lambda t, x: x.gather(0, t.tensor(_ROWS)), (3, 5)),
    _case("embedding", lambda w: Tensor(_ROWS).embedding(w), lambda t, w: t.nn.functional.embedding(t.tensor(_ROWS), w), (3, 5)),
    _case("masked_select", lambda x: x.masked_select(_MASK), lambda t, x: x.masked_select(t.tensor(_MASK)), (3, 5)),
    _case("concat", lambda x, y: x.concat(y, x, axis=1), lambda t, x, y: t.cat([x, y, x], 1), (3, 5), (3, 2)),
    _case("stack", lambda x, y: x.stack(y, x, axis=1), lambda t, x, y: t.stack([x, y, x], 1), (3, 5), (3, 5)),
    _case("split", lambda x: x.split([2, 3], 1)[1], lambda t, x: x.split([2, 3], 1)[1], (3, 5)),
    _case("chunk", lambda x: x.chunk(2, 1)[0], lambda t, x: x.chunk(2, 1)[0], (3, 4)),
    _case("unbind", lambda x: x.unbind(1)[2], lambda t, x: x.unbind(1)[2], (3, 5)),
    _case("tile", lambda x: x.tile(2, 1, 3), lambda t, x: x.tile(2, 1, 3), (3, 5)),
    _case("repeat", lambda x: x.repeat(3, 1), lambda t, x: x.repeat_interleave(3, 1), (3, 5)),
    _case("reshape", lambda x: x.T.reshape(5, 3), lambda t, x: x.T.reshape(5, 3), (3, 5)),
    _case("flatten", lambda x: x.flatten(1), lambda t, x: x.flatten(1), (2, 3, 5)),
    _case("unflatten", lambda x: x.unflatten(1, (2, 3)), lambda t, x: x.unflatten(1, (2, 3)), (2, 6)),
    _case("squeeze", lambda x: x.squeeze(1), lambda t, x: x.squeeze(1), (3, 1)),
    _case("unsqueeze", lambda x: x.unsqueeze(1), lambda t, x: x.unsqueeze(1), (3, 5)),
    _case("permute", lambda x: x.permute(2, 0, 1), lambda t, x: x.permute(2, 0, 1), (2, 3, 5)),
    _case("transpose", lambda x: x.transpose(0, 2), lambda t, x: x.transpose(0, 2), (2, 3, 5)),
    _case("swapaxes", lambda x: x.swapaxes(0, 2), lambda t, x: x.swapaxes(0, 2), (2, 3, 5)),
    _case("matrix_transpose", lambda x: x.matrix_transpose(), lambda t, x: x.mT, (2, 3, 5)),
    _case("moveaxis", lambda x: x.moveaxis(0, 2), lambda t, x: x.moveaxis(0, 2), (2, 3, 5)),
    _case("T", lambda x: x.T, lambda t, x: x.T, (3, 5)),
    _case("mT", lambda x: x.mT, lambda t, x: x.mT, (3, 5)),
    _case("flip", lambda x: x.flip(1), lambda t, x: x.flip(1), (3, 5)),
    _case("expand", lambda x: x.expand(4, 3, 5), lambda t, x: x.expand(4, 3, 5), (3, 1)),
    _case("broadcast_to", lambda x: x.broadcast_to(4, 3, 5), lambda t, x: x.broadcast_to(4, 3, 5), (3, 1)),
    _case("broadcast_arrays", lambda x, y: Tensor.broadcast_arrays(x, y)[0] * y, lambda t, x, y: t.broadcast_tensors(x, y)[0] * y, (3, 1), (5,)),
    _case("meshgrid", lambda x, y: Tensor.meshgrid(x, y, indexing="ij")[0] * y, lambda t, x, y: t.meshgrid(x, y, indexing="ij")[0] * y, (3,), (5,)),
    _case("shrink", lambda x: x.shrink((1, 3), (0, 2)), lambda t, x: x[1:3, :2], (3, 5)),
    _case("pad", lambda x: x.pad((1, 2), (-1, 1), constant_values=3.0), lambda t, x: t.nn.functional.pad(x, (-1, 1, 1, 2), value=3.0), (3, 5)),
    _case("roll", lambda x: x.roll((1, -2), (0, 1)), lambda t, x: x.roll((1, -2), (0, 1)), (3, 5)),
    _case("diagonal", lambda x: x.diagonal(), lambda t, x: x.diagonal(dim1=-2, dim2=-1), (2, 4, 4)),
    _case("triu", lambda x: x.triu(1), lambda t, x: x.triu(1), (4, 4)),
    _case("tril", lambda x: x.tril(-1), lambda t, x: x.tril(-1), (4, 4)),
    _case("windows", lambda x: x.windows((3,), (2,), (1,)), lambda t, x: x.unfold(1, 3, 2), (2, 9)),
    _case("with_items", lambda x, y: x.with_items((slice(0, 2), [0, 3]), y), lambda t, x, y: t.index_put(x, (_list(t, [0], [1]), _list(t, 0, 3)), y), (3, 5), (2, 2)),
    _case("put_along_axis", lambda x, y: x.put_along_axis(Tensor([[2, 0, 1, 1, 0]]), y, 0), lambda t, x, y: x.scatter(0, t.tensor([[2, 0, 1, 1, 0]]), y), (3, 5), (1, 5)),
    _case("scatter", lambda x, y: x.scatter(0, Tensor([[2, 0, 1, 1, 0]]), y), lambda t, x, y: x.scatter(0, t.tensor([[2, 0, 1, 1, 0]]), y), (3, 5), (1, 5)),
    _case("add_at", lambda x, y: x.add_at([2, 0, 2], y), lambda t, x, y: x.index_add(0, _list(t, 2, 0, 2), y), (3, 5), (3, 5)),
    _case("index_add", lambda x, y: x.index_add(0, [2, 0, 2], y), lambda t, x, y: x.index_add(0, _list(t, 2, 0, 2), y), (3, 5), (3, 5)),
    _case("scatter_add", lambda x, y: x.scatter_add(0, Tensor(_ROWS), y), lambda t, x, y: x.scatter_add(0, t.tensor(_ROWS), y), (3, 5), (2, 5)),
    _case("bincount", lambda w: Tensor([0, 2, 2, 1]).bincount(w, n_bins=3), lambda t, w: w.new_zeros(3).index_add(0, _list(t, 0, 2, 2, 1), w), (4,)),
    _case("assign", lambda x, y: (y * 1).assign(x), lambda t, x, y: x + 0 * y, (3, 5), (3, 5)),
    _case("to", lambda x: x.to("CPU"), lambda t, x: x.clone(), (3, 5)),
    _case("compress", lambda x: x.compress([True, False, True], 0), lambda t, x: x[[0, 2]], (3, 5)),
    _case("unique_all", lambda x: x.unique_all().values, lambda t, x: x.flatten().sort()[0], (3, 5)),
    _case("unique_counts", lambda x: x.unique_counts().values, lambda t, x: x.flatten().sort()[0], (3, 5)),
    _case("unique_inverse", lambda x: x.unique_inverse().values, lambda t, x: x.flatten().sort()[0], (3, 5)),
    _case("unique_values", lambda x: x.unique_values(), lambda t, x: x.flatten().sort()[0], (3, 5)),
    _case("to_device", lambda x: x.to_device("CPU:1").to_device("CPU"), lambda t, x: x.clone(), (3, 5)),
    _case("shard", lambda x: x.shard(("CPU:0", "CPU:1")).sum(0).to("CPU"), lambda t, x: x.sum(0), (4, 3)),
    _case("realize", lambda x: x.square().realize() * x, lambda t, x: x**3, (3, 5)),
    _case("shuffle", lambda x: x.shuffle(seed=1) - x.shuffle(seed=1) + x, lambda t, x: x.clone(), (3, 5)),
    _case("dropout", lambda x: x.dropout(0.0, seed=1), lambda t, x: x.clone(), (3, 5)),
)

_SUMS: Final = (
    _case("glu", lambda x: x.glu(), lambda t, x: t.nn.functional.glu(x), (3, 6)),
    _case("softmax", lambda x: x.softmax(0), lambda t, x: x.softmax(0), (3, 5)),
    _case("log_softmax", lambda x: x.log_softmax(), lambda t, x: x.log_softmax(-1), (3, 5)),
    _case("cumsum", lambda x: x.cumsum(1), lambda t, x: x.cumsum(1), (3, 5)),
    _case("cumprod", lambda x: x.cumprod(1), lambda t, x: x.cumprod(1), (3, 5)),
    _case("cumulative_sum", lambda x: x.cumulative_sum(axis=1, include_initial=True), lambda t, x: t.cat([x[:, :1] * 0, x.cumsum(1)], 1), (3, 5)),
    _case("cumulative_prod", lambda x: x.cumulative_prod(axis=1), lambda t, x: x.cumprod(1), (3, 5)),
    _case("cummax", lambda x: x.cummax(1), lambda t, x: x.cummax(1)[0], (3, 7)),
    _case("cummin", lambda x: x.cummin(1), lambda t, x: x.cummin(1)[0], (3, 7)),
    _case("diff", lambda x: x.diff(2), lambda t, x: x.diff(2), (3, 5)),
    _case("sum", lambda x: x.sum(1), lambda t, x: x.sum(1), (3, 5)),
    _case("prod", lambda x: x.prod(1), lambda t, x: x.prod(1), (3, 5)),
    _case("max", lambda x: x.max(1), lambda t, x: x.amax(1), (3, 5)),
    _case("min", lambda x: x.min(0), lambda t, x: x.amin(0), (3, 5)),
    _case("nansum", lambda x: x.nansum(1), lambda t, x: x.nansum(1), (3, 5)),
    _case("nanprod", lambda x: x.nanprod(1), lambda t, x: x.prod(1), (3, 5)),
    _case("nanmax", lambda x: x.nanmax(1), lambda t, x: x.amax(1), (3, 5)),
    _case("nanmin", lambda x: x.nanmin(1), lambda t, x: x.amin(1), (3, 5)),
    _case("mean", lambda x: x.mean((0, 2)), lambda t, x: x.mean((0, 2)), (3, 5, 2)),
    _case("var", lambda x: x.var(1, correction=1), lambda t, x: x.var(1), (3, 5)),
    _case("std", lambda x: x.std(1), lambda t, x: x.std(1, correction=0), (3, 5)),
    _case("nanmean", lambda x: x.nanmean(1), lambda t, x: x.nanmean(1), (3, 5)),
    _case("logsumexp", lambda x: x.logsumexp(1), lambda t, x: x.logsumexp(1), (3, 5)),
    *(_case("norm", lambda x, p=p: x.norm(1, ord=p), lambda t, x, p=p: t.linalg.vector_norm(x, p, 1), (3, 5)) for p in (1, 2, 3, float("inf"), float("-inf"), 0.5)),
    *(_case("matrix_norm", lambda x, p=p: x.matrix_norm(ord=p), lambda t, x, p=p: t.linalg.matrix_norm(x, p), (2, 3, 5)) for p in ("fro", 1, float("-inf"))),
    _case("sort", lambda x: x.sort(1), lambda t, x: x.sort(1)[0], (3, 7)),
    _case("topk", lambda x: x.topk(3, 1)[0], lambda t, x: x.topk(3, 1)[0], (3, 7)),
    _case("matmul", lambda x, y: x @ y, lambda t, x, y: x @ y, (4, 1, 3, 5), (2, 5, 7)),
    _case("matmul", lambda x, y: x @ y, lambda t, x, y: x @ y, (5,), (2, 5, 7)),
    _case("linear", lambda x, w, b: x.linear(w, b), lambda t, x, w, b: t.nn.functional.linear(x, w, b), (3, 5), (7, 5), (7,)),
    _case("outer", lambda x, y: x.outer(y), lambda t, x, y: t.outer(x, y), (3,), (5,)),
    _case("vecdot", lambda x, y: x.vecdot(y), lambda t, x, y: (x * y).sum(-1), (3, 5), (5,)),
    _case("tensordot", lambda x, y: x.tensordot(y, ([0], [1])), lambda t, x, y: t.tensordot(x, y, ([0], [1])), (3, 5), (2, 3)),
    _case("einsum", lambda x, y: Tensor.einsum("iij,jk->ki", x, y), lambda t, x, y: t.einsum("iij,jk->ki", x, y), (3, 3, 5), (5, 2)),
    _case("trace", lambda x: x.trace(), lambda t, x: x.trace(), (4, 4)),
)

_LAYERS: Final = (
    _case("layernorm", lambda x, w, b: x.layernorm(-1, weight=w, bias=b), lambda t, x, w, b: t.nn.functional.layer_norm(x, (5,), w, b), (3, 5), (5,), (5,)),
    _case("rms_norm", lambda x, w: x.rms_norm(-1, 1e-6, w), lambda t, x, w: t.nn.functional.rms_norm(x, (5,), w, 1e-6), (3, 5), (5,)),
    _case("group_norm", lambda x, w, b: x.group_norm(2, weight=w, bias=b), lambda t, x, w, b: t.nn.functional.group_norm(x, 2, w, b), (2, 4, 3), (4,), (4,)),
    _case("batchnorm", lambda x, m, v, w, b: x.batchnorm(m, v, w, b), lambda t, x, m, v, w, b: (x - m[:, None]) / (v[:, None] + 1e-5).sqrt() * w[:, None] + b[:, None], (2, 4, 3), (4,), (4,), (4,), (4,), domain="positive"),
    *(
        _case("scaled_dot_product_attention", lambda q, k, v, o=o: q.scaled_dot_product_attention(k, v, **o), lambda t, q, k, v, o=o: t.nn.functional.scaled_dot_product_attention(q, k, v, **o), (2, 4, 3), (2, 4, 3), (2, 4, 5))
        for o in ({}, {"is_causal": True}, {"scale": 0.3})
    ),
    _case("scaled_dot_product_attention", lambda q, k, v: q.scaled_dot_product_attention(k, v, Tensor(_attention_mask(4, 6))), lambda t, q, k, v: (q @ k.mT / 3**0.5).masked_fill(~t.tensor(_attention_mask(4, 6)), -1e300).softmax(-1).mul(t.tensor(_attention_mask(4, 6))) @ v, (2, 4, 3), (2, 6, 3), (2, 6, 5)),
    _case("scaled_dot_product_attention", lambda q, k, v, m: q.scaled_dot_product_attention(k, v, m), lambda t, q, k, v, m: t.nn.functional.scaled_dot_product_attention(q, k, v, m), (2, 4, 3), (2, 6, 3), (2, 6, 5), (4, 6)),
    _case("conv2d", lambda x, w, b: x.conv2d(w, b, stride=2, padding=1), lambda t, x, w, b: t.conv2d(x, w, b, stride=2, padding=1), (2, 3, 6, 7), (4, 3, 3, 2), (4,)),
    _case("conv2d", lambda x, w: x.conv2d(w, groups=2, dilation=2), lambda t, x, w: t.conv1d(x, w, groups=2, dilation=2), (2, 4, 7), (6, 2, 3)),
    _case("conv_transpose2d", lambda x, w, b: x.conv_transpose2d(w, b, stride=2, padding=1, output_padding=1), lambda t, x, w, b: t.conv_transpose2d(x, w, b, stride=2, padding=1, output_padding=1), (2, 3, 4, 3), (3, 2, 3, 2), (2,)),
    _case("conv_transpose2d", lambda x, w: x.conv_transpose2d(w, stride=3, groups=2), lambda t, x, w: t.conv_transpose1d(x, w, stride=3, groups=2), (2, 4, 5), (4, 3, 2)),
    # It reads the memory of pairs as it is, and no complex dtype has parts of 2 bytes.
    Case("as_complex", lambda x: x.as_complex().abs(), lambda t, x: t.view_as_complex(x).abs(), ((3, 2),), refused=("float16", "bfloat16")),
)
_SAMPLES: Final = (
    _case("diag", lambda x: x.diag(1), lambda t, x: x.diag(1), (4,)),
    _case("kron", lambda x, y: x.kron(y), lambda t, x, y: t.kron(x, y), (2, 3), (2, 2)),
    _case("pad", lambda x: x.pad((0, 0), (2, 1), mode="reflect"), lambda t, x: t.nn.functional.pad(x, (2, 1), mode="reflect"), (3, 5)),
    # torch's gradient is 0 where an exponent of integers is negative.
    _case("ldexp", lambda x: x.ldexp([[3], [0], [-2]]), lambda t, x: x * t.tensor([[8.0], [1.0], [0.25]]), (3, 5)),
    _case("median", lambda x: x.median(1), lambda t, x: x.median(1)[0], (3, 7)),
    _case("quantile", lambda x: x.quantile([0.2, 0.9], 1), lambda t, x: x.quantile(t.tensor([0.2, 0.9], dtype=x.dtype), 1), (3, 7)),
    _case("percentile", lambda x: x.percentile(30, (0, 1)), lambda t, x: x.quantile(0.3), (3, 7)),
    _case("nanmedian", lambda x: x.nanmedian(1), lambda t, x: x.nanmedian(1)[0], (3, 7)),
    _case("nanquantile", lambda x: x.nanquantile(0.4, 1), lambda t, x: x.nanquantile(0.4, 1), (3, 7)),
    _case("nanpercentile", lambda x: x.nanpercentile(40, 1), lambda t, x: x.nanquantile(0.4, 1), (3, 7)),
    _case("nanvar", lambda x: (x > 2).where(float("nan"), x).nanvar(1, correction=1), lambda t, x: _variance(t, x, x <= 2, 1), (3, 7)),
    _case("nanstd", lambda x: (x > 2).where(float("nan"), x).nanstd(1), lambda t, x: _variance(t, x, x <= 2, 0).sqrt(), (3, 7)),
    _case("nancumsum", lambda x: x.nancumsum(1), lambda t, x: x.cumsum(1), (3, 5)),
    _case("nancumprod", lambda x: x.nancumprod(1), lambda t, x: x.cumprod(1), (3, 5)),
    _case("nan_to_num", lambda x: (x > 1).where(float("nan"), x).nan_to_num(3.0), lambda t, x: t.where(x > 1, 3.0, x), (3, 5)),
    _case("cov", lambda x: x.cov(), lambda t, x: x.cov(), (3, 7)),
    _case("corrcoef", lambda x: x.corrcoef(), lambda t, x: x.corrcoef(), (3, 7)),
    _case("histogram", lambda x, w: Tensor([0.5, 1.5, 1.0, 3.5]).histogram(4, (0, 4), weights=w)[0] * x, lambda t, x, w: w.new_zeros(4).index_add(0, _list(t, 0, 1, 1, 3), w) * x, (4,), (4,)),
    _case("convolve", lambda x, y: x.convolve(y, "same"), lambda t, x, y: t.nn.functional.conv1d(x[None, None], y.flip(0)[None, None], padding=1)[0, 0], (6,), (3,)),
    _case("correlate", lambda x, y: x.correlate(y, "full"), lambda t, x, y: t.nn.functional.conv1d(x[None, None], y[None, None], padding=2)[0, 0], (6,), (3,)),
    _case("trapezoid", lambda y, x: y.trapezoid(x, axis=0), lambda t, y, x: t.trapezoid(y, x[:, None], dim=0), (4, 3), (4,)),
    _case("interp", lambda x, y: x.interp(np.array([-1.0, 0.0, 1.0]), y), lambda t, x, y: t.where(x < 0, y[0] + (y[1] - y[0]) * (x + 1), y[1] + (y[2] - y[1]) * x), (5,), (3,), domain="unit"),
    _case("polyval", lambda c, x: c.polyval(x), lambda t, c, x: (c[0] * x + c[1]) * x + c[2], (3,), (4,)),
    _case("central_differences", lambda x: x.central_differences(0.5, axis=1, edge_order=2), lambda t, x: t.gradient(x, spacing=0.5, dim=1, edge_order=2)[0], (3, 5)),
)

def _bessel(t: Any, x: Any, order: int) -> Any:
    """Power series of the Bessel function, since torch has no derivative of it."""
    terms = ((-1) ** k * (x / 2) ** (2 * k + order) / (math.factorial(k) * math.factorial(k + order)) for k in range(12))
    return sum(terms, start=t.zeros_like(x))


_SPECIAL: Final = (
    _one("gamma", lambda t, x: x.lgamma().exp(), "positive"),
    _one("lgamma", lambda t, x: x.lgamma()),
    # The zeta function of order 1 is infinite, but its derivative is that of digamma; torch's own
    # is off by 5e-10.
    _one("digamma", lambda t, x: -t.special.zeta(1.0, x), "positive"),
    _one("polygamma", lambda t, x: t.polygamma(2, x), "positive", call=lambda x: x.polygamma(2)),
    _one("zeta", lambda t, x: t.special.zeta(3.0, x), "positive", call=lambda x: x.full_like(3.0).zeta(x)),
    _two("beta", lambda t, x, y: (x.lgamma() + y.lgamma() - (x + y).lgamma()).exp(), "positive"),
    _one("erfc", lambda t, x: x.erfc()),
    # Below -3 the derivative, of which torch's is in float64, is beyond float16.
    _one("erfcx", lambda t, x: t.special.erfcx(x), "moderate"),
    _one("erfinv", lambda t, x: x.erfinv(), "unit"),
    _one("ndtr", lambda t, x: t.special.ndtr(x)),
    _one("log_ndtr", lambda t, x: t.special.log_ndtr(x)),
    _one("ndtri", lambda t, x: t.special.ndtri((x + 1) / 2), "unit", call=lambda x: ((x + 1) / 2).ndtri()),
    _one("i0", lambda t, x: t.special.i0(x)),
    _one("i0e", lambda t, x: t.special.i0e(x)),
    _one("i1", lambda t, x: t.special.i1(x)),
    _one("i1e", lambda t, x: t.special.i1e(x)),
    _one("j0", lambda t, x: _bessel(t, x, 0), "unit"),
    _one("j1", lambda t, x: _bessel(t, x, 1), "unit"),
    _two("xlogy", lambda t, x, y: t.xlogy(x, y), "positive"),
    _one("logit", lambda t, x: x.abs().logit(), "unit", call=lambda x: x.abs().logit()),
    _one("sinc", lambda t, x: x.sinc()),
)
# fmt: on

CASES: Final = (*_ELEMENTWISE, *_ARRANGED, *_SUMS, *_LAYERS, *_SAMPLES, *_SPECIAL, *IMAGE_CASES)

NO_DERIVATIVE: Final[dict[str, tuple[str, ...]]] = {
    "it does not return floats": (
        *(
            "bitwise_and",
            "bitwise_or",
            "bitwise_xor",
            "bitwise_not",
            "lshift",
            "rshift",
            "eq",
            "ne",
            "lt",
            "le",
            "gt",
            "ge",
        ),
        *(
            "isclose",
            "bitwise_count",
            "isnan",
            "isinf",
            "isfinite",
            "signbit",
            "cumargmax",
            "cumargmin",
            "one_hot",
            "any",
            "all",
        ),
        *(
            "logical_and",
            "logical_or",
            "logical_xor",
            "logical_not",
            "count_nonzero",
            "argmax",
            "argmin",
            "argsort",
        ),
        *(
            "searchsorted",
            "digitize",
            "nanargmax",
            "nanargmin",
            "isin",
            "nonzero",
            "argwhere",
            "bernoulli",
            "categorical",
            "multinomial",
            "heaviside",
            "gcd",
            "lcm",
        ),
    ),
    "it makes a tensor of no other": (
        *(
            "full",
            "zeros",
            "ones",
            "empty",
            "empty_like",
            "full_like",
            "zeros_like",
            "ones_like",
            "arange",
            "linspace",
            "eye",
        ),
        *(
            "rand",
            "randn",
            "randint",
            "uniform",
            "normal",
            "exponential",
            "truncated_normal",
            "permutation",
        ),
        *("from_numpy", "from_file", "from_dlpack", "asarray"),
    ),
    "it says something of the tensor": (
        *(
            "content",
            "from_uop",
            "along",
            "from_content",
            "uop",
            "dtype",
            "shape",
            "ndim",
            "size",
            "itemsize",
            "nbytes",
        ),
        *(
            "device",
            "sharding",
            "spec",
            "is_realized",
            "buffer",
            "numpy",
            "tolist",
            "item",
            "gradient",
            "shards",
        ),
    ),
    "it computes what others say": (
        *("realize_with", "realize_batch", "realize_batch_with"),
        *("prepare", "prepare_with", "prepare_batch", "prepare_batch_with"),
    ),
    "the shape of the result depends on values": (
        "intersect1d",
        "setdiff1d",
        "setxor1d",
        "union1d",
    ),
    "bits have no derivative": ("bitcast", "nextafter", "frexp"),
}
"""Operations without derivatives, by the reason."""
