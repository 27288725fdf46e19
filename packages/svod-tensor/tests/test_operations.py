"""The table of operations, and what operations compute that no other file is about."""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np

from svod_tensor import Tensor
from svod_tensor.ops.core.methods import Methods
from svod_tensor.ops.core.table import TABLE

HERE = Path(__file__).parent
RNG = np.random.default_rng(7)
NUMBERS = RNG.standard_normal((4, 6)).astype(np.float32)


def public_names(place: type) -> set[str]:
    return {name for name in vars(place) if not name.startswith("_")}


def test_the_table_has_every_public_name_of_a_tensor_once():
    names = [name for row in TABLE for name in (row.name, *row.also)]
    assert len(names) == len(set(names))
    assert set(names) == {name for place in Tensor.__mro__ for name in public_names(place)}


def test_an_operation_is_defined_by_its_theme_under_all_its_names():
    for row in TABLE:
        (place,) = (place for place in Tensor.__mro__ if row.name in vars(place))
        assert (
            place is Methods
            or place.__module__.removeprefix("svod_tensor.").removeprefix("ops.") == row.theme
        ), row
        assert {id(vars(place)[name]) for name in row.also} <= {id(vars(place)[row.name])}, row


def test_the_test_of_each_operation_exists():
    tests = {tuple(row.test.split("::")) for row in TABLE}
    for file in {file for file, _ in tests}:
        functions = {
            n.name
            for n in ast.parse((HERE / file).read_text()).body
            if isinstance(n, ast.FunctionDef)
        }
        assert {test for of, test in tests if of == file} <= functions, file


def test_each_name_of_the_standard_belongs_to_one_operation():
    names = [row.standard for row in TABLE if row.standard]
    assert len(names) == len(set(names))


def test_signs_and_squares_agree_with_numpy():
    x = Tensor(NUMBERS)
    np.testing.assert_array_equal(x.neg().numpy(), -NUMBERS)
    np.testing.assert_array_equal(x.positive().numpy(), +NUMBERS)
    np.testing.assert_array_equal(x.square().numpy(), NUMBERS * NUMBERS)


def test_limits_agree_with_numpy():
    limits = RNG.standard_normal((6,)).astype(np.float32)
    np.testing.assert_array_equal(Tensor(NUMBERS).clip(-0.5, 0.5).numpy(), NUMBERS.clip(-0.5, 0.5))
    np.testing.assert_array_equal(
        Tensor(NUMBERS).clip(max=Tensor(limits)).numpy(), NUMBERS.clip(max=limits)
    )


def test_selu_agrees_with_its_formula():
    wide = NUMBERS.astype(np.float64)
    expected = 1.0507009873554805 * np.where(wide > 0, wide, 1.6732632423543772 * np.expm1(wide))
    np.testing.assert_allclose(Tensor(NUMBERS).selu().numpy(), expected, rtol=1e-6)


def test_constants_have_their_value_in_every_element():
    for made, expected in (
        (Tensor.zeros(2, 3), 0),
        (Tensor.ones((2, 3)), 1),
        (Tensor.full((2, 3), 7), 7),
    ):
        np.testing.assert_array_equal(made.numpy(), np.full((2, 3), expected))


def test_the_cumulative_maximum_agrees_with_numpy():
    np.testing.assert_array_equal(
        Tensor(NUMBERS).cummax(1).numpy(), np.maximum.accumulate(NUMBERS, 1)
    )


def test_shrink_agrees_with_slices_of_numpy():
    np.testing.assert_array_equal(Tensor(NUMBERS).shrink((1, 3), None).numpy(), NUMBERS[1:3])


def test_elements_are_filled_by_a_mask():
    expected = np.where(NUMBERS > 0, np.float32(9), NUMBERS)
    np.testing.assert_array_equal(
        Tensor(NUMBERS).masked_fill(Tensor(NUMBERS > 0), 9.0).numpy(), expected
    )


def test_windows_agree_with_numpy():
    found = Tensor(NUMBERS).windows((2, 3), (1, 2), (1, 1)).numpy()
    expected = np.lib.stride_tricks.sliding_window_view(NUMBERS, (2, 3))[:, ::2]
    np.testing.assert_array_equal(found, expected)


def test_sizes_agree_with_numpy():
    x = Tensor(NUMBERS)
    found = (x.shape, x.ndim, x.size, x.itemsize, x.nbytes)
    assert found == (NUMBERS.shape, NUMBERS.ndim, NUMBERS.size, NUMBERS.itemsize, NUMBERS.nbytes)


def test_a_tensor_is_created_from_a_node_or_the_content_of_another():
    x = Tensor(NUMBERS)
    assert Tensor.from_uop(x.uop).uop is x.uop
    assert Tensor.from_content(x.content).content is x.content
    assert Tensor(NUMBERS).spec == x.spec
    assert x.along().content is x.content
