"""numpy's statistical functions on tensors, mapped to the tensor methods."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from svod_tensor.ops.core.operands import as_tensor
from svod_tensor.tensor import Tensor

__all__ = ["SAMPLES"]

Axis: TypeAlias = "int | tuple[int, ...] | None"


def _wrap(owner: Tensor, value: Any) -> Any:
    return as_tensor(value, owner)


def _call_quantile(name: str) -> Callable[..., Tensor]:
    def compute(
        owner: Tensor,
        a: Any,
        q: Any,
        axis: Axis = None,
        *,
        # A permission to reuse memory, which changes no result.
        overwrite_input: bool = False,
        method: str = "linear",
        keepdims: bool = False,
    ) -> Tensor:
        return getattr(_wrap(owner, a), name)(q, axis, method=method, keepdims=keepdims)

    return compute


def _call_median(name: str) -> Callable[..., Tensor]:
    def compute(
        owner: Tensor,
        a: Any,
        axis: Axis = None,
        *,
        overwrite_input: bool = False,
        keepdims: bool = False,
    ) -> Tensor:
        return getattr(_wrap(owner, a), name)(axis, keepdims=keepdims)

    return compute


def _call(name: str) -> Callable[..., Any]:
    """A tensor method whose further arguments are numpy's."""

    def call(owner: Tensor, a: Any, *args: Any, **kwargs: Any) -> object:
        return getattr(_wrap(owner, a), name)(*args, **kwargs)

    return call


def _cov(
    owner: Tensor,
    m: Any,
    y: Any = None,
    rowvar: bool = True,
    bias: bool = False,
    ddof: float | None = None,
    fweights: Any = None,
    aweights: Any = None,
) -> Tensor:
    # In numpy, `ddof` overrides `bias`.
    correction = (0 if bias else 1) if ddof is None else ddof
    return _wrap(owner, m).cov(
        y, rowvar=bool(rowvar), correction=correction, fweights=fweights, aweights=aweights
    )


def _corrcoef(owner: Tensor, x: Any, y: Any = None, rowvar: bool = True) -> Tensor:
    return _wrap(owner, x).corrcoef(y, rowvar=bool(rowvar))


def _histogram(
    owner: Tensor,
    a: Any,
    bins: Any = 10,
    range: Any = None,
    density: bool | None = None,
    weights: Any = None,
) -> tuple[Tensor, Tensor]:
    return _wrap(owner, a).histogram(bins, range, weights=weights, density=bool(density))


SAMPLES: Final[Mapping[str, Callable[..., Any]]] = {
    **{
        name: _call_quantile(name)
        for name in ("quantile", "percentile", "nanquantile", "nanpercentile")
    },
    **{name: _call_median(name) for name in ("median", "nanmedian")},
    **{
        name: _call(name)
        for name in (
            "i0",
            "sinc",
            "diag",
            "kron",
            "nanargmax",
            "nanargmin",
            "nancumsum",
            "nancumprod",
            "digitize",
            "convolve",
            "correlate",
            "trapezoid",
            "interp",
            "polyval",
        )
    },
    "gradient": _call("central_differences"),
    "cov": _cov,
    "corrcoef": _corrcoef,
    "histogram": _histogram,
}
"""Like `FUNCTIONS` of `_numpy_functions`, for statistical functions."""
