"""The order in which operands of a sum of products are multiplied: numpy's best one where all are
compared.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from svod_ir.testing import count_examples
from svod_tensor import Tensor, Variable
from svod_tensor._contraction_order import order_pairs
from svod_testing import check

LETTERS = "abcdef"


def count_multiplications(
    terms: Sequence[str], output: str, sizes: Mapping[str, int], pairs: Sequence[tuple[int, ...]]
) -> int:
    present, total = [set(term) for term in terms], 0
    for pair in pairs:
        union = set[str]().union(*(present.pop(i) for i in sorted(pair, reverse=True)))
        total += math.prod(sizes[c] for c in union)
        present.append(union & set(output).union(*present))
    assert len(present) == 1
    return total


@st.composite
def draw_products(draw: st.DrawFn, most: int) -> tuple[list[str], str, dict[str, int]]:
    """Terms that have no letter for themselves, the letters of the result, and sizes."""
    drawn = draw(
        st.lists(
            st.lists(st.sampled_from(LETTERS), max_size=4, unique=True), min_size=2, max_size=most
        )
    )
    output = draw(st.lists(st.sampled_from(LETTERS), max_size=3, unique=True))
    counts = {c: sum(c in term for term in (*drawn, output)) for c in LETTERS}
    terms = ["".join(c for c in term if counts[c] > 1) for term in drawn]
    sizes = {c: draw(st.integers(2, 50)) for c in LETTERS}
    return terms, "".join(c for c in output if any(c in term for term in terms)), sizes


@settings(deadline=None, max_examples=count_examples(150))
@given(draw_products(5))
def test_few_operands_are_multiplied_in_numpys_best_order(
    drawn: tuple[list[str], str, dict[str, int]],
) -> None:
    terms, output, sizes = drawn
    arrays = [np.empty([sizes[c] for c in term]) for term in terms]
    # Without a limit of memory, and of two operands at a time.
    path = np.einsum_path(f"{','.join(terms)}->{output}", *arrays, optimize=("optimal", 10**30))[0][
        1:
    ]
    ours = count_multiplications(terms, output, sizes, order_pairs(terms, output, sizes))
    assert ours <= count_multiplications(
        terms, output, sizes, [p for p in path if len(p) > 1]
    ) or any(len(p) > 2 for p in path)


@settings(deadline=None, max_examples=count_examples(40))
@given(draw_products(12))
def test_many_operands_are_multiplied_two_at_a_time(
    drawn: tuple[list[str], str, dict[str, int]],
) -> None:
    terms, output, sizes = drawn
    count_multiplications(terms, output, sizes, order_pairs(terms, output, sizes))


def test_a_chain_of_many_matrices_starts_at_the_smallest_product() -> None:
    widths = [100, 90, 80, 70, 60, 50, 40, 30, 2, 90, 90]
    terms = [f"{chr(97 + i)}{chr(98 + i)}" for i in range(len(widths) - 1)]
    sizes = {chr(97 + i): width for i, width in enumerate(widths)}
    output = terms[0][0] + terms[-1][1]
    pairs = order_pairs(terms, output, sizes)
    one_by_one = [(0, 1), *((0, n) for n in range(len(terms) - 2, 0, -1))]
    assert count_multiplications(terms, output, sizes, pairs) * 3 < count_multiplications(
        terms, output, sizes, one_by_one
    )


@st.composite
def draw_formulas(draw: st.DrawFn) -> tuple[str, list[np.ndarray]]:
    """Terms with repeated letters, and arrays of small integers, some of whose axes are
    broadcast.
    """
    letters = LETTERS[:4]
    sizes = {c: draw(st.integers(1, 4)) for c in letters}
    terms = draw(st.lists(st.text(letters, max_size=3), min_size=1, max_size=5))
    dtype = draw(st.sampled_from(["float64", "int32", "int8", "bool", "complex128"]))
    output = (
        draw(st.lists(st.sampled_from(sorted(set("".join(terms)))), max_size=3, unique=True))
        if any(terms)
        else []
    )
    rng = np.random.default_rng(draw(st.integers(0, 1000)))
    shapes = [
        [1 if term.count(c) == 1 and i > 0 and draw(st.booleans()) else sizes[c] for c in term]
        for i, term in enumerate(terms)
    ]
    arrays = [rng.integers(-3, 4, shape).astype(dtype) for shape in shapes]
    return f"{','.join(terms)}->{''.join(output)}", arrays


@settings(deadline=None, max_examples=count_examples(100))
@given(draw_formulas())
def test_random_formulas_agree_with_numpy(drawn: tuple[str, list[np.ndarray]]) -> None:
    formula, arrays = drawn
    terms = formula.partition("->")[0].split(",")
    sizes = dict.fromkeys(LETTERS, 1)
    for term, array in zip(terms, arrays, strict=True):
        sizes |= {c: max(sizes[c], n) for c, n in zip(term, array.shape, strict=True)}
    wide = [
        a if len(set(t)) < len(t) else np.broadcast_to(a, [sizes[c] for c in t])
        for t, a in zip(terms, arrays, strict=True)
    ]
    found, expected = (
        Tensor.einsum(formula, *map(Tensor, arrays)).numpy(),
        np.einsum(formula, *wide),
    )
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)


def test_a_product_of_many_large_operands_is_no_large_array(rng: np.random.Generator) -> None:
    # Multiplied all at once, these would be 10 ** 12 products.
    arrays = [rng.standard_normal((100, 100)) for _ in range(5)]
    expected = np.linalg.multi_dot(arrays)
    check(Tensor.einsum("ab,bc,cd,de,ef->af", *map(Tensor, arrays)), expected, rtol=1e-9)


def test_gradients_go_through_each_product(rng: np.random.Generator) -> None:
    a, b, c = (Tensor(rng.standard_normal(s)) for s in ((4, 5), (5, 6, 4), (6, 3)))
    y = Tensor.einsum("ij,jki,kl->l", a, b, c)
    found = y.mul(Tensor([1.0, 2.0, 3.0], dtype="float64")).sum().gradient(a, b, c)
    w = np.array([1.0, 2.0, 3.0])
    for gradient, formula, operands in zip(
        found,
        ("jki,kl,l->ij", "ij,kl,l->jki", "ij,jki,l->kl"),
        ((b, c), (a, c), (a, b)),
        strict=True,
    ):
        check(gradient, np.einsum(formula, *(x.numpy() for x in operands), w), rtol=1e-10)


@pytest.mark.parametrize("n", [1, 3, 7])
def test_sizes_may_be_variables(rng: np.random.Generator, n: int) -> None:
    a, b, c = rng.standard_normal((5, 7)), rng.standard_normal((7, 6)), rng.standard_normal((6, 4))
    bound = Variable("n", 1, 7).bind(n)
    found = Tensor.einsum("ij,jk,kl->il", Tensor(a)[:, :bound], Tensor(b)[:bound], Tensor(c))
    check(found, a[:, :n] @ b[:n] @ c, rtol=1e-10)
