"""Sums of products by Einstein's convention, as products of two operands and sums of one.

    "ij,jk,kl,m->il"    sum of (sum of ij * jk over j) * kl over k, times (sum of m)

An axis that no other operand and not the result has is summed before anything is multiplied.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from svod_dtype import DType
from svod_ir import SInt
from svod_ir.sizes import max_size
from svod_tensor._contraction_order import order_pairs
from svod_tensor.errors import EinsumError

if TYPE_CHECKING:
    from svod_tensor.tensor import Tensor

__all__ = ["contract"]


_DOTS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def contract(formula: str, operands: Sequence[Tensor], dtype: DType) -> Tensor:
    """What `formula` says of operands of one dtype, in which sums are added.

    Raises:
        EinsumError: if the formula does not fit the operands.
    """
    inputs, output = _parse_formula(formula, operands)
    sizes = _letter_sizes(formula, inputs, operands)
    given = [
        _simplify(operand, term, sizes) for operand, term in zip(operands, inputs, strict=True)
    ]
    present: list[tuple[Tensor, str]] = []
    for i, (operand, term) in enumerate(given):
        kept = _list_used(term, output, (*given[:i], *given[i + 1 :]))
        present.append((_sum_to(operand, term, kept, dtype), kept))
    bounds = {letter: max_size(size) for letter, size in sizes.items()}
    for first, second in order_pairs([term for _, term in present], output, bounds):
        (y, right), (x, left) = present.pop(second), present.pop(first)
        wide, narrow = (left, right) if len(left) >= len(right) else (right, left)
        letters = wide + "".join(c for c in narrow if c not in wide)
        kept = _list_used(letters, output, present)
        letters = kept + "".join(c for c in letters if c not in kept)
        product = _align(x, left, letters).mul(_align(y, right, letters))
        present.append((_sum_to(product, letters, kept, dtype), kept))
    ((result, term),) = present
    return _align(result, term, output)


def _simplify(operand: Tensor, term: str, sizes: Mapping[str, SInt]) -> tuple[Tensor, str]:
    """The diagonal along axes of one letter, without the axes that are broadcast: the letters of
    the term are different ones.
    """
    while len(set(term)) < len(term):
        letter = next(c for c in term if term.count(c) > 1)
        first = term.index(letter)
        second = term.index(letter, first + 1)
        operand = operand.moveaxis(second, -1).moveaxis(first, -2).diagonal()
        term = "".join(c for i, c in enumerate(term) if i not in (first, second)) + letter
    for letter in term:
        if operand.shape[term.index(letter)] == 1 and sizes[letter] != 1:
            operand = operand.squeeze(term.index(letter))
            term = term.replace(letter, "")
    return operand, term


def _list_used(term: str, output: str, others: Sequence[tuple[Tensor, str]]) -> str:
    """The letters of a term that the result or another operand has: in the order of the result, if
    nothing else is left.
    """
    if not others:
        return output
    return "".join(c for c in term if c in output or any(c in other for _, other in others))


def _sum_to(x: Tensor, term: str, kept: str, dtype: DType) -> Tensor:
    """`x` with the axes of `kept`, in that order, and the others summed."""
    summed = [c for c in term if c not in kept]
    x = _align(x, term, [*kept, *summed])
    return x.sum(tuple(range(len(kept), len(term))), dtype=dtype) if summed else x


def _align(x: Tensor, term: str, letters: Sequence[str]) -> Tensor:
    """`x` with one axis for each of `letters`, of size 1 where the term lacks it."""
    present = [c for c in letters if c in term]
    x = x.permute([term.index(c) for c in present]) if present else x
    sizes = dict(zip(present, x.shape, strict=True))
    return x.reshape(tuple(sizes.get(c, 1) for c in letters))


def _parse_formula(formula: str, operands: Sequence[Tensor]) -> tuple[list[str], str]:
    """Input terms and output term; the axes of `...` get letters of their own, aligned at
    the last.
    """
    left, arrow, right = formula.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(operands):
        raise EinsumError(
            formula=formula,
            problem=f"it names {len(terms)} operands, but {len(operands)} were given",
        )
    used = {c for c in formula if c.isalpha()}
    spare = [c for c in reversed(_DOTS + _DOTS.lower()) if c not in used]
    widths = [
        max(0, t.ndim - len(term.replace("...", ""))) if "..." in term else 0
        for term, t in zip(terms, operands, strict=True)
    ]
    if max(widths) > len(spare):
        raise EinsumError(formula=formula, problem="it has too many axes")
    dots = "".join(spare[: max(widths)])[::-1]
    inputs = [
        term.replace("...", dots[len(dots) - width :])
        for term, width in zip(terms, widths, strict=True)
    ]
    for term, operand in zip(inputs, operands, strict=True):
        if not all(c.isalpha() for c in term):
            raise EinsumError(
                formula=formula, problem=f"{term!r} has a character that is no letter"
            )
        if len(term) != operand.ndim:
            raise EinsumError(
                formula=formula,
                problem=f"{term!r} names {len(term)} axes of a tensor with {operand.ndim}",
            )
    everything = "".join(inputs)
    output = (
        right.replace("...", dots)
        if arrow
        else dots + "".join(sorted(c for c in used if everything.count(c) == 1))
    )
    if len(set(output)) != len(output) or not set(output) <= set(everything):
        raise EinsumError(
            formula=formula,
            problem=f"the output {right!r} repeats a letter or has one that no input has",
        )
    return inputs, output


def _letter_sizes(
    formula: str, inputs: Sequence[str], operands: Sequence[Tensor]
) -> dict[str, SInt]:
    sizes: dict[str, SInt] = {}
    for term, operand in zip(inputs, operands, strict=True):
        for letter, size in zip(term, operand.shape, strict=True):
            known = sizes.setdefault(letter, size)
            if known == 1:
                sizes[letter] = size
            elif size not in (known, 1):
                raise EinsumError(
                    formula=formula, problem=f"axis {letter!r} has sizes {known} and {size}"
                )
    return sizes
