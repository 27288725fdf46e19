"""Conformance of a device to NumPy: operators, dtypes, shapes and random programs."""

from __future__ import annotations

from typing import Any, Final, cast

import numpy as np
import pytest
from hypothesis import HealthCheck, given, reject, settings

from svod_device.testing import Conformance
from svod_dtype import ALL_DTYPES, INTEGER_DTYPES, DType, cast_value
from svod_ir import UOp, threefry
from svod_ir.evaluate import evaluate
from svod_ir.testing import assert_close, count_examples, graphs, random_inputs, tolerance
from svod_schedule.errors import UnsupportedDtypeError
from svod_tensor import PrepareConfig, Tensor, grad, jvp, scan, vjp
from svod_testing._compare import SHAPES, check, make_array
from svod_testing._graphs import place_graph
from svod_testing._operators import OPERATORS, OperatorCase
from svod_testing.derivatives.cases import CASES, draw

__all__ = ["OperatorConformance"]

_ARITHMETIC: Final = tuple(d for d in ALL_DTYPES if (not d.is_bool and d.itemsize > 1) or d.is_int)

_DIFFERENTIATED: Final = ("matmul", "conv2d", "softmax", "take", "max_pool2d", "cumsum", "gelu")
_DERIVATIVES: Final = [
    next(n for n, case in enumerate(CASES) if case.operation == name) for name in _DIFFERENTIATED
]
"""Indices of the derivative cases that run on a device: one of each kind of kernel."""

_UNCHECKED: Final = (HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much)


class OperatorConformance(Conformance):
    """Conformance suite of tensors on a device, compared with NumPy.

    `n_programs` is the number of random programs in each of five parts; a Hypothesis profile may
    reduce it (`svod_ir.testing.count_examples`). Set it lower for a slow device.
    """

    n_programs = 12

    @property
    def config(self) -> PrepareConfig:
        """Configuration with the backend under test, which other devices may lack."""
        kind = self.device.partition(":")[0]
        return PrepareConfig(
            backend=None if self.backend_name is None else f"{kind}.{self.backend_name}"
        )

    def compute(self, tensor: Tensor) -> Tensor:
        """Compute a tensor on the device, and return it; constants are moved there.

        The test is skipped if the device does not support a dtype.
        """
        try:
            return tensor.to(self.device).realize_with(self.config)
        except UnsupportedDtypeError as error:
            pytest.skip(error.headline)

    @pytest.mark.parametrize("case", OPERATORS, ids=lambda case: case.name)
    def test_an_operator_agrees_with_numpy(self, case: OperatorCase) -> None:
        arrays = case.make_inputs()
        result = self.compute(case.on_tensors(*(Tensor(a, device=self.device) for a in arrays)))
        check(result, case.expected(arrays), rtol=case.rtol)
        assert result.device == self.device

    @pytest.mark.parametrize("dtype", ALL_DTYPES, ids=str)
    def test_every_dtype_goes_there_and_back(self, dtype: DType) -> None:
        values = make_array(np.random.default_rng(0), (3, 11), "float32")
        expected = cast("Any", values if not dtype.is_unsigned else np.abs(values)).astype(
            dtype.numpy
        )
        there = Tensor(expected, device=self.device)
        assert there.dtype is dtype
        check(there, expected)
        check(self.compute(there.flip(0)), np.flip(expected, 0))

    @pytest.mark.parametrize("dtype", _ARITHMETIC, ids=str)
    def test_every_dtype_is_computed_with(self, dtype: DType) -> None:
        rng = np.random.default_rng(1)
        a, b = (
            rng.integers(0 if dtype.is_unsigned else -4, 5, (3, 17)).astype(dtype.numpy)
            for _ in range(2)
        )
        x, y = (Tensor(v, device=self.device) for v in (a, b))
        # Small integers, which every dtype represents exactly.
        check(self.compute(x * y + x), a * b + a, rtol=0)
        check(self.compute(x.maximum(y)), np.maximum(a, b), rtol=0)
        check(self.compute((x < y).where(x, y)), np.where(a < b, a, b), rtol=0)

    @pytest.mark.parametrize("target", ALL_DTYPES, ids=str)
    @pytest.mark.parametrize("source", ["float32", "int8", "uint16", "int64", "bool"])
    def test_casts_agree_with_numpy(self, source: str, target: DType) -> None:
        values = np.arange(0, 12).astype(source)
        check(
            self.compute(Tensor(values, device=self.device).cast(target)),
            values.astype(target.numpy),
            rtol=0,
        )

    @pytest.mark.parametrize("target", INTEGER_DTYPES, ids=str)
    def test_numbers_out_of_range_become_the_nearest_integers(self, target: DType) -> None:
        values = np.array(
            [
                np.nan,
                np.inf,
                -np.inf,
                1e30,
                -1e30,
                300.7,
                -300.7,
                2.0**31,
                2.0**63,
                -(2.0**63),
                1.9,
                -0.9,
            ]
        )
        values = values.astype(np.float32)
        expected = np.array([cast_value(float(v), target) for v in values], target.numpy)
        check(self.compute(Tensor(values, device=self.device).cast(target)), expected, rtol=0)

    @pytest.mark.parametrize("shape", SHAPES, ids=str)
    def test_every_shape_is_computed_with(self, shape: tuple[int, ...]) -> None:
        rng = np.random.default_rng(2)
        a, b = make_array(rng, shape, "float32"), make_array(rng, shape, "float32")
        x, y = Tensor(a, device=self.device), Tensor(b, device=self.device)
        check(self.compute(x * y + x - 2), cast("Any", a) * b + a - np.float32(2), rtol=3e-6)
        check(
            self.compute((x * 2).sum()),
            np.asarray(cast("Any", a) * 2).sum(dtype=np.float32),
            rtol=1e-4,
        )

    def test_special_floats_are_kept(self) -> None:
        a = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0, 1.0, np.nan], np.float32)
        b = np.array([1.0, -np.inf, np.nan, 0.0, -0.0, np.nan, np.nan], np.float32)
        x, y = Tensor(a, device=self.device), Tensor(b, device=self.device)
        with np.errstate(all="ignore"):
            check(self.compute(x + y), a + b)
            check(self.compute(x.maximum(y)), np.maximum(a, b))
            check(self.compute(x.max()), a.max())
            check(self.compute(x < y), a < b)
            check(self.compute(x.isnan()), np.isnan(a))
            assert np.signbit(self.compute(x[3:5] * 1.0).numpy()).tolist() == [True, False]

    def test_tensors_move_between_this_device_and_the_cpu(self) -> None:
        values = make_array(np.random.default_rng(3), (7, 13), "float32")
        there = Tensor(values).to(self.device) * 2
        check(there.to("CPU") + 1, cast("Any", values) * 2 + 1)
        check((Tensor(values) + 1).to(self.device), cast("Any", values) + 1)

    def test_random_numbers_are_those_of_every_device(self) -> None:
        bits = cast("Any", threefry(np.arange(300, dtype=np.uint64), np.full(300, 5, np.uint64)))
        high = (bits >> 40).astype(np.float32) * np.float32(2.0**-24)
        low = ((bits & 0xFFFFFFFF) >> 8).astype(np.float64) * 2.0**-24
        check(
            self.compute(Tensor.rand(30, 10, seed=5, device=self.device)),
            high.reshape(30, 10),
            rtol=0,
        )
        check(
            self.compute(Tensor.randint(300, high=1000, seed=5, device=self.device)),
            (bits % 1000).astype(np.int32),
        )
        normal = np.sqrt(-2 * np.log1p(-low)) * np.cos(2 * np.pi * high.astype(np.float64))
        check(
            self.compute(Tensor.randn(300, seed=5, device=self.device)),
            normal.astype(np.float32),
            rtol=1e-4,
        )
        ones = Tensor(np.ones(300, np.float32), device=self.device)
        check(
            self.compute(ones.dropout(0.5, seed=5)),
            np.where(high >= 0.5, 2, 0).astype(np.float32),
            rtol=0,
        )

    def test_several_results_share_one_plan(self) -> None:
        values = make_array(np.random.default_rng(4), (6, 9), "float32")
        x = Tensor(values, device=self.device)
        y = (x * 2).contiguous()
        results = [y.sum(0), y.sum(1), y + 1]
        Tensor.realize_batch_with(results, self.config)
        doubled = cast("Any", values).astype(np.float64) * 2
        for result, expected in zip(
            results, (doubled.sum(0), doubled.sum(1), doubled + 1), strict=True
        ):
            check(result, expected.astype(np.float32), rtol=1e-5)

    @pytest.mark.parametrize("number", _DERIVATIVES, ids=lambda number: f"{CASES[number]}-{number}")
    def test_derivatives_are_those_of_the_cpu(self, number: int) -> None:
        case, rng = CASES[number], np.random.default_rng(number)
        arrays = draw(rng, case)
        value: Tensor = case.call(*map(Tensor, arrays))
        cotangent = rng.normal(size=cast("tuple[int, ...]", value.shape))

        def differentiate(dtype: str, device: str) -> list[Tensor]:
            args = [Tensor(a.astype(dtype), device=device) for a in arrays]
            along = [Tensor(np.cos(a).astype(dtype), device=device) for a in arrays]
            _, pull = vjp(case.call, *args)
            _, tangent = jvp(case.call, args, along)
            return [tangent, *pull(Tensor(cotangent.astype(dtype), device=device))]

        expected = differentiate("float64", "CPU")
        for actual, reference in zip(differentiate("float32", self.device), expected, strict=True):
            check(self.compute(actual), reference.numpy().astype(np.float32), rtol=1e-4, atol=1e-4)

    def test_complex_numbers_are_computed_as_pairs(self) -> None:
        rng = np.random.default_rng(6)
        a, b = (rng.normal(size=(2, 5, 6)).astype(np.float32) for _ in range(2))
        x, y = (
            Tensor(c, device=self.device).permute(1, 2, 0).contiguous().as_complex() for c in (a, b)
        )
        u, v = (c[0] + 1j * c[1] for c in (a, b))
        pairs = [
            (x * y, u * v),
            (x / y, u / v),
            (x @ y.T, u @ v.T),
            (x.conj().sum(0), u.conj().sum(0)),
        ]
        for result, expected in pairs:
            pairwise = np.stack([expected.real, expected.imag], -1)
            check(self.compute(result.as_real()), pairwise, rtol=1e-5, atol=1e-5)

    def test_a_loop_and_its_derivative_are_those_of_the_cpu(self) -> None:
        values = make_array(np.random.default_rng(5), (4, 3), "float32")

        def run(x: Tensor) -> Tensor:
            last, rows = scan(lambda h, row: ((h * row).sin(), h.exp()), x[0], x)
            return (last * rows).sum()

        expected = grad(run)(Tensor(values.astype(np.float64)))
        result = grad(run)(Tensor(values, device=self.device))
        check(self.compute(result), expected.numpy().astype(np.float32), rtol=1e-4, atol=1e-4)

    def test_a_plan_is_executed_again_on_new_inputs(self) -> None:
        x = Tensor(np.arange(6, dtype=np.float32), device=self.device).realize_with(self.config)
        result = (x * 3).sum()
        plan = result.prepare_with(self.config)
        plan.execute()
        assert result.item() == 45.0
        x.assign(Tensor(np.ones(6, np.float32), device=self.device)).realize_with(self.config)
        plan.execute()
        assert result.item() == 18.0

    @pytest.mark.parametrize("part", range(5))
    def test_random_programs_agree_with_the_reference(self, part: int) -> None:
        @settings(
            max_examples=count_examples(self.n_programs),
            deadline=None,
            suppress_health_check=_UNCHECKED,
        )
        @given(graphs(max_ops=8, max_elements=150))
        def run(graph: UOp) -> None:
            inputs = random_inputs(graph)
            try:
                result = place_graph(graph, inputs, self.device).realize_with(self.config).numpy()
            except UnsupportedDtypeError:
                reject()
            expected = evaluate(graph, {node: array.copy() for node, array in inputs.items()})
            assert result.shape == expected.shape
            assert_close(result, expected, loose=tolerance(graph))

        run()
