"""Special functions under the names of `scipy.special`, which calls them on tensors where
`SCIPY_ARRAY_API` is set.

All are computed by kernels, in float64 and rounded once, and have derivatives. Integers become
float32. SciPy computes its other functions on the host.

Example:
    >>> import svod_tensor as sv
    >>> sv.special.gammaln(sv.asarray([1.0, 4.0])).numpy().round(4)
    array([0.    , 1.7918], dtype=float32)
    >>> sv.special.expit(sv.asarray([0.0])).tolist()
    [0.5]
"""

from __future__ import annotations

from svod_tensor.ops.elementwise.exponential import cbrt, erf, exp2, expm1, log1p, sigmoid as expit
from svod_tensor.ops.neural.activation import log_softmax, softmax
from svod_tensor.ops.special.functions import (
    beta,
    digamma as psi,
    erfc,
    erfcx,
    erfinv,
    gamma,
    i0,
    i0e,
    i1,
    i1e,
    j0,
    j1,
    lgamma as gammaln,
    log_ndtr,
    logit,
    ndtr,
    ndtri,
    sinc,
    xlogy,
    zeta,
)
from svod_tensor.ops.statistics.moments import logsumexp
from svod_tensor.special.entropies import entr, kl_div, log_expit, rel_entr, xlog1py

__all__ = [
    "beta",
    "cbrt",
    "entr",
    "erf",
    "erfc",
    "erfcx",
    "erfinv",
    "exp2",
    "expit",
    "expm1",
    "gamma",
    "gammaln",
    "i0",
    "i0e",
    "i1",
    "i1e",
    "j0",
    "j1",
    "kl_div",
    "log1p",
    "log_expit",
    "log_ndtr",
    "log_softmax",
    "logit",
    "logsumexp",
    "ndtr",
    "ndtri",
    "psi",
    "rel_entr",
    "sinc",
    "softmax",
    "xlog1py",
    "xlogy",
    "zeta",
]
