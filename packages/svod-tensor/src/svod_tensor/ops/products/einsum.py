"""Einstein summation, decomposed into pairwise products and sums of single operands.

    "ij,jk,kl,m->il"    sum of (sum of ij * jk over j) * kl over k, times (sum of m)

An axis that is in neither another operand nor the result is summed before any product.
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
    """Evaluate `formula` for operands of one dtype, with sums accumulated in `dtype`.

    Raises:
        EinsumError: if the formula does not match the operands.
    """
    inputs, output = _parse_formula(formula, operands)
    sizes = _letter_sizes(formula, inputs, operands)
    simplified = [
        _simplify(operand, term, sizes) for operand, term in zip(operands, inputs, strict=True)
    ]
    terms: list[tuple[Tensor, str]] = []
    for i, (operand, term) in enumerate(simplified):
        # Letters of one operand only are summed before the products, which become smaller.
        kept = _list_used(term, output, (*simplified[:i], *simplified[i + 1 :]))
        terms.append((_sum_to(operand, term, kept, dtype), kept))
    # The largest sizes, so that the order of the products, and so the kernels, do not depend on the
    # values of variables.
    bounds = {letter: max_size(size) for letter, size in sizes.items()}
    for first, second in order_pairs([term for _, term in terms], output, bounds):
        (y, right), (x, left) = terms.pop(second), terms.pop(first)
        # The operand with more axes keeps their order.
        wide, narrow = (left, right) if len(left) >= len(right) else (right, left)
        letters = wide + "".join(c for c in narrow if c not in wide)
        kept = _list_used(letters, output, terms)
        # Summed axes last, as in `matmul`.
        letters = kept + "".join(c for c in letters if c not in kept)
        product = _align(x, left, letters).mul(_align(y, right, letters))
        terms.append((_sum_to(product, letters, kept, dtype), kept))
    ((result, term),) = terms
    return _align(result, term, output)


def _simplify(operand: Tensor, term: str, sizes: Mapping[str, SInt]) -> tuple[Tensor, str]:
    """Take diagonals of repeated letters, and drop broadcast axes of size 1, so that the letters of
    the term are distinct.
    """
    while len(set(term)) < len(term):
        letter = next(c for c in term if term.count(c) > 1)
        first = term.index(letter)
        second = term.index(letter, first + 1)
        # `diagonal` takes the last two axes; `second` is moved first, since it comes after `first`,
        # whose position stays.
        operand = operand.moveaxis(second, -1).moveaxis(first, -2).diagonal()
        term = "".join(c for i, c in enumerate(term) if i not in (first, second)) + letter
    for letter in term:
        # As in numpy, size 1 broadcasts; without the letter, the operand is constant along it.
        if operand.shape[term.index(letter)] == 1 and sizes[letter] != 1:
            operand = operand.squeeze(term.index(letter))
            term = term.replace(letter, "")
    return operand, term


def _list_used(term: str, output: str, other_operands: Sequence[tuple[Tensor, str]]) -> str:
    """Letters of a term that are in the result or another operand; for the last operand, in the
    order of the result.
    """
    if not other_operands:
        return output
    return "".join(
        c for c in term if c in output or any(c in other_term for _, other_term in other_operands)
    )


def _sum_to(x: Tensor, term: str, kept: str, dtype: DType) -> Tensor:
    """Sum the axes that are not in `kept`, and order the axes as in `kept`."""
    summed = [c for c in term if c not in kept]
    x = _align(x, term, [*kept, *summed])
    return x.sum(tuple(range(len(kept), len(term))), dtype=dtype) if summed else x


def _align(x: Tensor, term: str, letters: Sequence[str]) -> Tensor:
    """Permute to one axis for each of `letters`, with size 1 for letters that the term lacks."""
    present = [c for c in letters if c in term]
    x = x.permute([term.index(c) for c in present]) if present else x
    sizes = dict(zip(present, x.shape, strict=True))
    return x.reshape(tuple(sizes.get(c, 1) for c in letters))


def _parse_formula(formula: str, operands: Sequence[Tensor]) -> tuple[list[str], str]:
    """Parse input terms and output term; the axes of `...` get unused letters, aligned at the last
    axis.
    """
    left, arrow, right = formula.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(operands):
        raise EinsumError(
            formula=formula,
            problem=f"it has {len(terms)} terms, but {len(operands)} operands were provided",
        )
    used = {c for c in formula if c.isalpha()}
    spare = [c for c in reversed(_DOTS + _DOTS.lower()) if c not in used]
    widths = [
        max(0, t.ndim - len(term.replace("...", ""))) if "..." in term else 0
        for term, t in zip(terms, operands, strict=True)
    ]
    if max(widths) > len(spare):
        raise EinsumError(formula=formula, problem="it has too many axes")
    # Aligned at the last axis, as broadcasting is: a shorter `...` has the last letters.
    dots = "".join(spare[: max(widths)])[::-1]
    inputs = [
        term.replace("...", dots[len(dots) - width :])
        for term, width in zip(terms, widths, strict=True)
    ]
    for term, operand in zip(inputs, operands, strict=True):
        if not all(c.isalpha() for c in term):
            raise EinsumError(
                formula=formula, problem=f"{term!r} has a character that is not a letter"
            )
        if len(term) != operand.ndim:
            raise EinsumError(
                formula=formula,
                problem=f"{term!r} has {len(term)} subscripts for a {operand.ndim}-dimensional operand",
            )
    all_letters = "".join(inputs)
    output = (
        right.replace("...", dots)
        if arrow
        # As in numpy without `->`: broadcast axes, then the letters that occur once, in
        # alphabetical order.
        else dots + "".join(sorted(c for c in used if all_letters.count(c) == 1))
    )
    if len(set(output)) != len(output) or not set(output) <= set(all_letters):
        raise EinsumError(
            formula=formula,
            problem=f"the output {right!r} repeats a subscript or has one that is not in any input",
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
