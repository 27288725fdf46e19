"""Sums of products: matmul, einsum, linear.

A product is a multiplication of broadcast operands and a sum over one or more axes; the optimizer,
not this module, recognises it. float16, bfloat16 and float8 are multiplied and added in float32.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING, Self

from svod_dtype import promote_types, to_dtype
from svod_ir import ShapeError, SInt, format_shape
from svod_ir.sizes import normalize_size, product
from svod_tensor._shapes import Shape, normalize_axes, normalize_axis
from svod_tensor.ops.base import DTypeLike
from svod_tensor.ops.contraction import contract
from svod_tensor.ops.naming import operations
from svod_tensor.ops.rounding import accumulation_dtype, rounds_once
from svod_tensor.ops.theme import Theme

if TYPE_CHECKING:
    from svod_tensor.ops.base import Operand

__all__ = ["Products"]


@operations
class Products(Theme):
    """Matrix products and their generalisations."""

    __slots__ = ()

    def matmul(self, other: Operand, *, dtype: DTypeLike | None = None) -> Self:
        """The matrix product by numpy's rules: 1-d operands are a row (left) or column (right), leading axes broadcast.

        Args:
            other: the right operand.
            dtype: of the products, the additions and the result; by default the promoted dtype, where
                narrow floats are multiplied and added in float32 and rounded once.

        Raises:
            ShapeError: if an operand is 0-d or the contracted sizes differ.

        Example:
            >>> Tensor([[1, 2], [3, 4]]).matmul(Tensor([1, 10])).tolist()
            [21, 43]
        """
        right = self._wrap(other)
        _check_contracted(self.shape, right.shape)
        kind = promote_types(self.dtype, right.dtype) if dtype is None else to_dtype(dtype)
        inner = accumulation_dtype(kind)
        # (..., m, 1, k) * (..., 1, n, k), summed over k.
        x = self.cast(inner) if self.ndim > 1 else self.cast(inner).unsqueeze(0)
        y = right.cast(inner).transpose(-2, -1) if right.ndim > 1 else right.cast(inner).unsqueeze(0)
        total = x.unsqueeze(-2).mul(y.unsqueeze(-3)).sum(-1, dtype=inner).cast(kind)
        if right.ndim == 1:
            total = total.squeeze(-1)
        return total.squeeze(-1 if right.ndim == 1 else -2) if self.ndim == 1 else total

    dot = matmul

    @rounds_once
    def linear(self, weight: Self, bias: Self | None = None) -> Self:
        """`x @ weight.T + bias`: shape (..., outputs) of a tensor of shape (..., inputs).

        Args:
            weight: of shape (outputs, inputs).
            bias: of shape (outputs,).

        Raises:
            ShapeError: if the sizes do not fit.

        Example:
            >>> Tensor([1.0, 2.0]).linear(Tensor([[1.0, 1.0], [0.0, 3.0]]), Tensor([0.5, 0.0])).tolist()
            [3.5, 6.0]
        """
        result = self.matmul(weight.transpose(0, 1) if weight.ndim == 2 else weight)
        return result if bias is None else result.add(bias)

    def outer(self, other: Self) -> Self:
        """The product of each element with each element of `other`, both flattened: shape (n, m). Dtypes promote.

        Example:
            >>> Tensor([1, 2]).outer(Tensor([3, 4, 5])).tolist()
            [[3, 4, 5], [6, 8, 10]]
        """
        return self.flatten().unsqueeze(1).mul(other.flatten().unsqueeze(0))

    def vecdot(self, other: Self, axis: int = -1) -> Self:
        """The dot products with `other` along one axis; the others broadcast. Dtypes promote, and narrow floats are added
        in float32. Of complex numbers, those of this tensor are conjugated.

        Args:
            other: the other operand.
            axis: along which; it has the same size in both tensors.

        Raises:
            ShapeError: if the sizes differ.

        Example:
            >>> Tensor([[1, 2], [3, 4]]).vecdot(Tensor([1, 10])).tolist()
            [21, 43]
        """
        ndim = max(self.ndim, other.ndim)
        axis = normalize_axis("vecdot", axis, ndim) - ndim
        if -axis > min(self.ndim, other.ndim) or self.shape[axis] != other.shape[axis]:
            raise ShapeError(
                operation="vecdot", shape=self.shape,
                problem=f"and {format_shape(other.shape)} have no axis {axis} of one size",
            )  # fmt: skip
        kind = promote_types(self.dtype, other.dtype)
        inner = accumulation_dtype(kind)
        left = self.conj() if self.dtype.is_complex else self
        return left.cast(inner).mul(other.cast(inner)).sum(axis, dtype=inner).cast(kind)

    def tensordot(self, other: Self, axes: int | tuple[Sequence[int], Sequence[int]] = 2) -> Self:
        """The sum of products with `other` over axes of both: the shape is that of the other axes, first of this tensor,
        then of `other`.

        Args:
            other: the other operand.
            axes: how many, the last ones of this tensor and the first of `other`; or those of two lists.

        Raises:
            ShapeError: if the sizes differ.

        Example:
            >>> x = Tensor([[1, 2], [3, 4]])
            >>> x.tensordot(x, axes=([0], [1])).tolist()
            [[7, 15], [10, 22]]
        """
        if isinstance(axes, int):
            if not 0 <= axes <= min(self.ndim, other.ndim):
                raise ShapeError(operation="tensordot", shape=self.shape, problem=f"has no {axes} axes to share")
            axes = tuple(range(self.ndim - axes, self.ndim)), tuple(range(axes))
        left, right = normalize_axes("tensordot", axes[0], self.ndim), normalize_axes("tensordot", axes[1], other.ndim)
        rows, columns = ([a for a in range(t.ndim) if a not in used] for t, used in ((self, left), (other, right)))
        shape = (*(self.shape[a] for a in rows), *(other.shape[a] for a in columns))
        if tuple(self.shape[a] for a in left) != tuple(other.shape[a] for a in right):
            raise ShapeError(
                operation="tensordot", shape=self.shape, problem=f"does not fit {other.shape} along {axes}"
            )
        x = self.permute(*rows, *left).reshape(_count(self, rows), _count(self, left))
        y = other.permute(*right, *columns).reshape(_count(other, right), _count(other, columns))
        return x.matmul(y).reshape(shape)

    @classmethod
    def einsum(cls, formula: str, *operands: Self) -> Self:
        """A sum of products by Einstein's convention. Dtypes promote, and narrow floats are multiplied and added in
        float32. Of three and more operands, two at a time are multiplied, in the order that takes the fewest multiplications.

        Args:
            formula: the axes of each operand as letters, and of the result: `"ij,jk->ik"`; `...` and repeated letters
                as in numpy.
            operands: one tensor for each term.

        Raises:
            EinsumError: if the formula does not fit the operands.

        Example:
            >>> Tensor.einsum("ij,j->i", Tensor([[1, 2], [3, 4]]), Tensor([1, 10])).tolist()
            [21, 43]
        """
        kind = reduce(promote_types, (operand.dtype for operand in operands))
        inner = accumulation_dtype(kind)
        return contract(formula, [operand.cast(inner) for operand in operands], inner).cast(kind)

    def kron(self, other: Operand) -> Self:
        """The Kronecker product: each element times the whole `other`, side by side. Dtypes promote.

        Args:
            other: the one with fewer axes gets axes of size 1 before its own.

        Example:
            >>> Tensor([1, 10]).kron([1, 2]).tolist()
            [1, 2, 10, 20]
        """
        x, y = self._pair(other)
        n = max(x.ndim, y.ndim)
        left, right = ((1,) * (n - z.ndim) + z.shape for z in (x, y))
        wide = x.reshape([s for size in left for s in (size, 1)]).mul(
            y.reshape([s for size in right for s in (1, size)])
        )
        return wide.reshape([normalize_size(a * b) for a, b in zip(left, right, strict=True)])

    def trace(self, offset: int = 0, *, dtype: DTypeLike | None = None) -> Self:
        """The sum of the diagonal of the last two axes that is `offset` above the main one; `dtype` is that of the result,
        by default as for `sum`.

        Raises:
            AxisError: if there are less than two axes.

        Example:
            >>> Tensor([[1, 2], [3, 4]]).trace().item()
            5
        """
        return self.diagonal(offset).sum(-1, dtype=dtype)


def _check_contracted(left: Shape, right: Shape) -> None:
    if not left or not right:
        raise ShapeError(operation="matmul", shape=(), problem="has no axes", hint="multiply with * instead")
    axis = max(len(right) - 2, 0)
    inner = right[axis]
    if left[-1] != inner:
        raise ShapeError(
            operation="matmul", shape=left,
            problem=f"ends in {left[-1]}, but {right} needs {inner}, its size on axis {axis}",
            hint="the last axes are as long as each other: write x @ y.mT" if len(right) > 1 and left[-1] == right[-1] else None,
        )  # fmt: skip


def _count(x: Theme, axes: Sequence[int]) -> SInt:
    return product(tuple(x.shape[a] for a in axes))
