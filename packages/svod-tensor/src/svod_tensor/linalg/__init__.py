"""Linear algebra: the extension `linalg` of the array API standard, and further functions of numpy
and SciPy.

Functions of matrices operate on the last two axes of a batch. Factors, inverses and solutions come
from LAPACK, which numpy calls on the host: in the memory of CPU tensors, in a copy of tensors on
other devices. Sharded tensors are gathered on one device. Integers become float32, and narrow floats
are computed in float32 and rounded once. All functions except ranks have derivatives of every order,
in reverse and forward mode, where the mathematical function has one.

Example:
    >>> import svod_tensor as sv
    >>> x = sv.asarray([[2.0, 1.0], [1.0, 3.0]])
    >>> sv.linalg.solve(x, sv.asarray([3.0, 4.0])).round(3).tolist()
    [1.0, 1.0]
"""

from __future__ import annotations

from svod_tensor.errors import MatrixError
from svod_tensor.linalg.decompositions import (
    EighResult,
    EigResult,
    QRResult,
    SVDResult,
    cholesky,
    eig,
    eigh,
    eigvals,
    eigvalsh,
    qr,
    svd,
    svdvals,
)
from svod_tensor.linalg.functions import SlogdetResult, det, expm, matrix_power, slogdet
from svod_tensor.linalg.norms import cond, matrix_norm, matrix_rank, norm, vector_norm
from svod_tensor.linalg.products import (
    cross,
    diagonal,
    matmul,
    matrix_transpose,
    multi_dot,
    outer,
    tensordot,
    trace,
    vecdot,
)
from svod_tensor.linalg.solving import (
    LstsqResult,
    inv,
    lstsq,
    pinv,
    solve,
    solve_triangular,
    tensorinv,
    tensorsolve,
)

__all__ = [
    "EigResult",
    "EighResult",
    "LstsqResult",
    "MatrixError",
    "QRResult",
    "SVDResult",
    "SlogdetResult",
    "cholesky",
    "cond",
    "cross",
    "det",
    "diagonal",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "expm",
    "inv",
    "lstsq",
    "matmul",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "matrix_transpose",
    "multi_dot",
    "norm",
    "outer",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "solve_triangular",
    "svd",
    "svdvals",
    "tensordot",
    "tensorinv",
    "tensorsolve",
    "trace",
    "vecdot",
    "vector_norm",
]
