"""Sums of products: matmul, einsum, linear.

A product is a multiplication of broadcast operands and a sum over one or more axes; the optimizer,
not this module, recognises it. float16, bfloat16 and float8 are multiplied and added in float32.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Self, TypeVar

from svod_dtype import promote_types, to_dtype
from svod_ir import ShapeError, SInt, format_shape
from svod_ir.sizes import normalize_size, product
from svod_tensor._shapes import Shape, normalize_axes, normalize_axis
from svod_tensor.errors import EinsumError
from svod_tensor.ops.base import DTypeLike
from svod_tensor.ops.naming import operations
from svod_tensor.ops.rounding import accumulation_dtype, rounds_once
from svod_tensor.ops.theme import Theme

if TYPE_CHECKING:
    from svod_tensor.ops.base import Operand

__all__ = ["Products"]

T = TypeVar("T", bound=Theme)


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
        float32.

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
        inputs, output = _parse_formula(formula, operands)
        letters = [*output, *sorted({c for term in inputs for c in term} - set(output))]
        sizes = _letter_sizes(formula, inputs, operands)
        kind = operands[0].dtype
        for operand in operands[1:]:
            kind = promote_types(kind, operand.dtype)
        inner = accumulation_dtype(kind)
        result: Self | None = None
        for term, operand in zip(inputs, operands, strict=True):
            aligned = _align(operand.cast(inner), term, letters)
            result = aligned if result is None else result.mul(aligned)
        assert result is not None
        result = result.broadcast_to(tuple(sizes[c] for c in letters))
        return result.sum(tuple(range(len(output), len(letters))), dtype=inner).cast(kind)

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
        )  # fmt: skip


_DOTS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def _parse_formula(formula: str, operands: Sequence[Theme]) -> tuple[list[str], str]:
    """Input terms and output term; the axes of `...` get letters of their own, aligned at the last."""
    left, arrow, right = formula.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(operands):
        raise EinsumError(formula=formula, problem=f"it names {len(terms)} operands, but {len(operands)} were given")
    used = {c for c in formula if c.isalpha()}
    spare = [c for c in reversed(_DOTS + _DOTS.lower()) if c not in used]
    widths = [
        max(0, t.ndim - len(term.replace("...", ""))) if "..." in term else 0
        for term, t in zip(terms, operands, strict=True)
    ]
    if max(widths) > len(spare):
        raise EinsumError(formula=formula, problem="it has too many axes")
    dots = "".join(spare[: max(widths)])[::-1]
    inputs = [term.replace("...", dots[len(dots) - width :]) for term, width in zip(terms, widths, strict=True)]
    for term, operand in zip(inputs, operands, strict=True):
        if not all(c.isalpha() for c in term):
            raise EinsumError(formula=formula, problem=f"{term!r} has a character that is no letter")
        if len(term) != operand.ndim:
            raise EinsumError(
                formula=formula, problem=f"{term!r} names {len(term)} axes of a tensor with {operand.ndim}"
            )
    everything = "".join(inputs)
    output = (
        right.replace("...", dots) if arrow else dots + "".join(sorted(c for c in used if everything.count(c) == 1))
    )
    if len(set(output)) != len(output) or not set(output) <= set(everything):
        raise EinsumError(
            formula=formula, problem=f"the output {right!r} repeats a letter or has one that no input has"
        )
    return inputs, output


def _letter_sizes(formula: str, inputs: Sequence[str], operands: Sequence[Theme]) -> dict[str, SInt]:
    sizes: dict[str, SInt] = {}
    for term, operand in zip(inputs, operands, strict=True):
        for letter, size in zip(term, operand.shape, strict=True):
            known = sizes.setdefault(letter, size)
            if known == 1:
                sizes[letter] = size
            elif size not in (known, 1):
                raise EinsumError(formula=formula, problem=f"axis {letter!r} has sizes {known} and {size}")
    return sizes


def _align(operand: T, term: str, letters: Sequence[str]) -> T:
    """`operand` with one axis for each of `letters`, of size 1 where the term lacks it; repeated letters take the diagonal."""
    while len(set(term)) < len(term):
        letter = next(c for c in term if term.count(c) > 1)
        first = term.index(letter)
        second = term.index(letter, first + 1)
        operand = operand.moveaxis(second, -1).moveaxis(first, -2).diagonal()
        term = "".join(c for i, c in enumerate(term) if i not in (first, second)) + letter
    present = [c for c in letters if c in term]
    operand = operand.permute([term.index(c) for c in present]) if present else operand
    sizes = dict(zip(present, operand.shape, strict=True))
    return operand.reshape(tuple(sizes.get(c, 1) for c in letters))


def _count(x: Theme, axes: Sequence[int]) -> SInt:
    return product(tuple(x.shape[a] for a in axes))
