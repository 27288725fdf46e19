"""The grammar of random programs has every public operation of tensors, or a reason why not."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from svod_tensor import Tensor
from svod_testing.programs.operations import OPERATIONS

EXCLUDED = {
    "programs with derivatives are drawn by svod_testing.derivatives.programs": ["gradient"],
    "made of what is elsewhere: the inputs of every program are": (
        "from_dlpack",
        "from_file",
        "asarray",
        "from_numpy",
        "from_uop",
    ),
    "its elements are random": (
        "bernoulli",
        "categorical",
        "dropout",
        "exponential",
        "multinomial",
        "normal",
        "permutation",
        "rand",
        "randint",
        "randn",
        "shuffle",
        "truncated_normal",
        "uniform",
    ),
    "a property of a tensor, not an operation": (
        "buffer",
        "content",
        "spec",
        "is_realized",
        "itemsize",
        "nbytes",
        "ndim",
        "sharding",
        "size",
        "spec",
        "uop",
    ),
    "reads values, as each program does with its results": ("item", "numpy", "tolist"),
    "computes, as the modes in which programs run do": (
        "prepare",
        "prepare_batch",
        "prepare_batch_with",
        "prepare_with",
        "realize_batch",
        "realize_batch_with",
        "realize_with",
    ),
    "moves tensors between devices: a program runs on one, which is chosen from outside": (
        "shard",
        "shards",
        "to",
        "to_device",
    ),
    "makes the nodes that cast and to make": ["astype"],
    "its elements have no defined values": ["empty_like"],
    "computes its operand to know the shape of its result, which no mode of a whole program can": (
        "argwhere",
        "compress",
        "nonzero",
        "unique_all",
        "unique_counts",
        "unique_inverse",
        "unique_values",
        "intersect1d",
        "setdiff1d",
        "setxor1d",
        "union1d",
    ),
    "its elements are complex, those of programs real: test_complex_numbers.py generates its own programs": (
        "angle",
        "as_complex",
        "as_real",
        "complex",
        "conj",
        "conjugate",
        "imag",
        "real",
    ),
    "NumPy has no such function: their tests compare with SciPy, or with a formula": (
        "digamma",
        "polygamma",
        "zeta",
        "beta",
        "erfcx",
        "erfinv",
        "ndtr",
        "log_ndtr",
        "ndtri",
        "i0e",
        "i1",
        "i1e",
        "j0",
        "j1",
        "xlogy",
        "sinc",
        "interpolate",
        "grid_sample",
        "affine_grid",
        "unfold",
        "fold",
        "lp_pool2d",
        "max_unpool2d",
    ),
    "builds graphs for other operations": ("along", "from_content"),
}
"""Public attributes of tensors that no random program has, by reason."""

OPERATORS = {
    "+": "add",
    "-": "sub",
    "*": "mul",
    "/": "div",
    "//": "floor_divide",
    "%": "remainder",
    "**": "pow",
    "@": "matmul",
    "&": "bitwise_and",
    "|": "bitwise_or",
    "^": "bitwise_xor",
    "<<": "lshift",
    ">>": "rshift",
    "==": "eq",
    "!=": "ne",
    "<": "lt",
    "<=": "le",
    ">": "gt",
    ">=": "ge",
}


def iter_used() -> Iterator[str]:
    """The names that programs call, by themselves or through an operator."""
    for operation in OPERATIONS.values():
        yield from re.findall(r"(?<!\bnp)\.(\w+)", operation.code)
        yield from (name for sign, name in OPERATORS.items() if f" {sign} " in operation.code)
        yield from ("neg",) * operation.code.startswith("-")
        yield from ("bitwise_not",) * operation.code.startswith("~")


def find_function(name: str) -> object:
    """What a name stands for, the same for all names of one operation."""
    found = getattr(Tensor, name)
    return getattr(found, "__func__", found)


PUBLIC = sorted(name for name in dir(Tensor) if not name.startswith("_"))
USED = {find_function(name) for name in iter_used() if hasattr(Tensor, name)}
REASONS = {name: reason for reason, names in EXCLUDED.items() for name in names}


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_operation_is_in_the_grammar_or_has_a_reason_why_not(name: str) -> None:
    is_used = find_function(name) in USED
    assert is_used or name in REASONS, f"no random program has {name}"
    assert not (is_used and name in REASONS), f"{name} is in the grammar: {REASONS.get(name)}"


def test_every_exclusion_is_of_a_public_name() -> None:
    assert set(REASONS) <= set(PUBLIC)
