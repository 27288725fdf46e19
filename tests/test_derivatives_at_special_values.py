"""Both modes agree to second derivatives at zeros, kinks, ties, poles and large values."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest

from svod_ir import Op, make_alu
from svod_ir.args import GradientRule
from svod_ir.derivatives import make_gradient
from svod_tensor import Tensor
from svod_tensor.ops.core.gradient_rules import elementwise_rule, gradient_rule, with_rule
from svod_testing.derivatives.cases import CASES, Case
from svod_testing.derivatives.points import (
    FILLS,
    differentiate,
    differentiate_elementwise,
    fill,
    find_difference,
    find_kink,
    make_grid,
)

OTHER_SHAPES = {"as_real"}
"""Operations whose results have other shapes than their operands."""
POLES = {
    "zeta": "its terms are infinite, and there is no value below 0",
    "beta": "it is the product of an infinite value and an infinite slope",
    "logit": (
        "its case takes the size first, whose slope is 0 where that of the logarithm is infinite"
    ),
}
"""Functions that are tested only above 0, with reasons."""
STEPS = {"cast": "moves in steps", "astype": "rounds as `cast`"}


def _list_elementwise() -> Iterator[object]:
    for number, case in enumerate(CASES):
        if case.is_elementwise and case.operation not in OTHER_SHAPES | STEPS.keys():
            yield pytest.param(case, id=f"{case}-{number}")


def _list_points(case: Case) -> list[np.ndarray]:
    grid = make_grid(len(case.shapes))
    if case.operation not in POLES:
        return grid
    is_inside = np.logical_and.reduce([(x > 0) & np.isfinite(x) for x in grid])
    return [x[is_inside] for x in grid]


@pytest.mark.parametrize("case", [*_list_elementwise()])
def test_elementwise_functions_have_the_same_derivatives_in_both_modes(case: Case) -> None:
    grid = _list_points(case)
    assert find_difference(differentiate_elementwise(case.call, grid)) is None


@pytest.mark.parametrize("case", [*_list_elementwise()])
def test_smooth_functions_have_the_derivatives_of_their_differences(case: Case) -> None:
    if case.operation == "detach":
        pytest.skip("its derivative is not that of its values")
    grid = _list_points(case)
    is_near = np.logical_and.reduce([np.abs(x) < 100 for x in grid])
    assert find_kink(case.call, [x[is_near] for x in grid]) is None


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("case", [*_list_elementwise()])
def test_narrow_floats_have_the_same_derivatives_in_both_modes(case: Case, dtype: str) -> None:
    grid = _list_points(case)
    if case.operation in ("complex", "real", "imag", "conj", "angle") and dtype != "float32":
        pytest.skip("complex numbers have parts of float32 at least")
    assert (
        find_difference(
            differentiate_elementwise(case.call, grid, dtype=dtype, orders=1), 1e-2, 1e-6
        )
        is None
    )


@pytest.mark.parametrize("name", FILLS)
@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=f"{case}-{number}")
        for number, case in enumerate(CASES)
        if not case.is_elementwise and case.operation not in STEPS
    ],
)
def test_all_functions_have_the_same_derivatives_in_both_modes(case: Case, name: str) -> None:
    numbers, parts, _ = differentiate(case.call, fill(name, case), np.random.default_rng(1))
    if np.isfinite(case.call(*map(Tensor, fill(name, case))).numpy()).all():
        assert find_difference(numbers, 1e-6, 1e-7) is None
        assert all(np.isfinite(part).all() for part in parts["gradient"])
    else:
        assert (
            find_difference(
                {mode: numbers[mode] for mode in ("reverse 0", "forward 0")}, 1e-6, 1e-7
            )
            is None
        )


@pytest.mark.parametrize(
    "call",
    [
        lambda x: x * x.exp(),
        lambda x: x * x.tanh(),
        lambda x: x * (x + 1).log(),
        lambda x: x.sin() * (x * 2).exp() * (x + 3).sqrt(),
        lambda x: (x * x.exp()).sin() * x.cos(),
        lambda x: x.silu() * x.sigmoid(),
        lambda x: x.gelu() * x.softplus() * (x * x + 1).rsqrt(),
        lambda x: x.elu() * x.mish(),
    ],
)
def test_second_derivatives_are_right_where_a_cotangent_is_zero(
    call: Callable[[Tensor], Tensor],
) -> None:
    points = [np.array([0.0, -0.0, 0.25, 1.0])]
    assert find_difference(differentiate_elementwise(call, points)) is None
    assert find_kink(call, points) is None


@elementwise_rule("planted-kink")
def _kinked(_: Tensor, operands: tuple[Tensor], __: object) -> tuple[Tensor]:
    """Derivative of the sigmoid whose own derivative at 0 is wrong in both modes."""
    power = operands[0].abs().neg().exp()
    inverse = (power + 1).reciprocal()
    return (operands[0].lt(0).where(power, 1.0) * inverse * inverse.maximum(power * inverse),)


@elementwise_rule("planted-constant")
def _constant(_: Tensor, operands: tuple[Tensor, Tensor], __: object) -> tuple[Tensor, Tensor]:
    x, y = operands
    return y, x.eq(0).where(0.0, x)


@gradient_rule("planted-share")
def _shared(cotangent: Tensor, value: Tensor, operands: tuple[Tensor], __: object) -> tuple[Tensor]:
    return (operands[0].gt(1).where(cotangent, 0),)


def _plant_forward(x: Tensor) -> Tensor:
    """`relu` with derivative 1 at 0 only in forward mode."""
    rule = GradientRule(
        "planted-forward",
        lambda node, cotangent, wanted: (
            Tensor.from_uop(node.src[1]).gt(0).where(Tensor.from_uop(cotangent), 0).uop,
        ),
        lambda node, tangents: (
            Tensor.from_uop(node.src[1]).ge(0).where(Tensor.from_uop(tangents[0]), 0).uop
        ),
    )
    return Tensor.from_uop(make_gradient(make_alu(Op.MAX, x.uop, (x * 0).uop), (x.uop,), rule))


def test_planted_faults_are_detected() -> None:
    near = [x[np.abs(x) < 100] for x in make_grid(1)]
    grid = [axis.reshape(-1) for axis in np.meshgrid(near[0], near[0], indexing="ij")]
    assert "forward 0" in str(
        find_difference(differentiate_elementwise(_plant_forward, near, orders=1))
    )
    assert "reverse 1, reverse 0" in str(
        find_kink(lambda x, y: with_rule(_constant, x * y, (x, y)), grid)
    )
    assert "reverse 0" in str(find_kink(lambda x: with_rule(_kinked, x.sigmoid(), (x,)), near))
    assert "reverse 0" in str(find_kink(lambda x: with_rule(_shared, x.relu(), (x,)), near))
