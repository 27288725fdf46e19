"""Rewrite rules: golden text of each rule's result, and equality with onnx's reference
implementation.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx.parser
import pytest
from onnx.reference import ReferenceEvaluator

import svod_onnx
from svod_ir.testing.golden import GoldenCase, bless, list_cases
from svod_onnx._reading import read_model
from svod_onnx._rewrites import RULES, rewrite

CASES = list_cases(Path(__file__).parent / "golden" / "rewrites")
BY_NAME = {rule.__name__: rule for rule in RULES}


def _parse(text: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 21]> {text}')


def _rewrite(case: GoldenCase) -> str:
    graph = read_model(_parse(case.before)).graph
    rules = [BY_NAME[case.pass_name]]
    nodes, constants = rewrite(
        graph.nodes, graph.constants, [info.name for info in graph.outputs], rules
    )
    lines: list[str] = []
    for node in nodes:
        attributes = ", ".join(
            f"{name} = {value}"
            for name, value in sorted(node.attributes.items())
            if name != "value"
        )
        text = f"<{attributes}>" if attributes else ""
        lines.append(
            f"{', '.join(node.outputs)} = {node.qualified}{text}({', '.join(node.inputs)})"
        )
    for name in sorted(constants.keys() - graph.constants.keys()):
        array = np.asarray(constants[name])
        lines.append(
            f"{name} = {array.dtype}{array.shape}: {' '.join(map(str, array.ravel().tolist()))}"
        )
    return "\n".join(lines)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_rule_matches_its_golden_text(case: GoldenCase, request: pytest.FixtureRequest) -> None:
    actual = _rewrite(case)
    if request.config.getoption("--bless", default=False):
        bless(case, actual)
    assert actual == case.expected.strip()


def test_each_rule_fires_in_a_case() -> None:
    assert {case.pass_name for case in CASES} == BY_NAME.keys()
    for name in BY_NAME:
        assert any(
            "fused." in case.expected or "#weight" in case.expected
            for case in CASES
            if case.pass_name == name
        )


def _sample(info: onnx.ValueInfoProto, rng: np.random.Generator) -> np.ndarray:
    shape = [size.dim_value for size in info.type.tensor_type.shape.dim]
    dtype = onnx.helper.tensor_dtype_to_np_dtype(info.type.tensor_type.elem_type)
    if dtype.kind == "f":
        return rng.uniform(0.01, 0.1, shape).astype(dtype)
    limits = np.iinfo(dtype)
    return rng.integers(limits.min, limits.max + 1, shape).astype(dtype)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_rule_preserves_results(case: GoldenCase) -> None:
    _check(_parse(case.before))


def _check(model: onnx.ModelProto) -> None:
    rng = np.random.default_rng(0)
    inputs = {info.name: _sample(info, rng) for info in model.graph.input}
    results = svod_onnx.load(model)(**inputs)
    for info, reference in zip(
        model.graph.output, ReferenceEvaluator(model).run(None, inputs), strict=True
    ):
        np.testing.assert_allclose(results[info.name].numpy(), reference, rtol=2e-6, atol=1e-5)


@pytest.mark.parametrize("a_type", ["int8", "uint8"])
@pytest.mark.parametrize("b_type", ["int8", "uint8"])
@pytest.mark.parametrize("columns", ["", "[7]"])
def test_int8_products_with_zero_points(a_type: str, b_type: str, columns: str) -> None:
    for size in (3, 70):
        _check(
            _parse(f"""
            g ({a_type}[2, 5, {size}] p, {b_type}[{size}, 7] w, float s, {a_type} m, float{columns} t, {b_type}{columns} n)
            => (float[2, 5, 7] y) {{
                a = DequantizeLinear(p, s, m)
                b = DequantizeLinear<axis = -1>(w, t, n)
                y = MatMul(a, b)
            }}
        """)
        )


@pytest.mark.parametrize(("first", "second"), [(0, 1), (1, 0), (1, 1)])
def test_int8_products_of_transposed_operands(first: int, second: int) -> None:
    p, w = ("[6, 5]" if first else "[5, 6]"), ("[7, 6]" if second else "[6, 7]")
    _check(
        _parse(f"""
        g (uint8{p} p, int8{w} w, float s, uint8 m, float[7] t, int8[7] n, float[7] c) => (float[5, 7] y) {{
            a = DequantizeLinear(p, s, m)
            b = DequantizeLinear<axis = {1 - second}>(w, t, n)
            y = Gemm<transA = {first}, transB = {second}, alpha = 0.5, beta = 2.0>(a, b, c)
        }}
    """)
    )


@pytest.mark.parametrize("shape", [(1, 1), (3, 1), (3, 2)], ids=str)
@pytest.mark.parametrize(
    "signs", [("uint8", "int8"), ("int8", "uint8"), ("uint8", "uint8")], ids=str
)
def test_int8_convolutions_are_exact(shape: tuple[int, int], signs: tuple[str, str]) -> None:
    (kernel, stride), (first, second) = shape, signs
    pads = f"pads = [{kernel // 2}, {kernel - 1}, {kernel // 2}, 0], " if kernel > 1 else ""
    model = _parse(f"""
        g ({first}[2, 3, 7, 9] x, {second}[5, 3, {kernel}, {kernel}] w, {first} m, {second} n) => (int32[a, b, c, d] y) {{
            y = ConvInteger<{pads}strides = [{stride}, {stride}]>(x, w, m, n)
        }}
    """)
    rng = np.random.default_rng(0)
    inputs = {info.name: _sample(info, rng) for info in model.graph.input}
    image = np.pad(
        inputs["x"].astype(np.float64) - float(inputs["m"]),
        [(0, 0), (0, 0), (kernel // 2,) * 2, (kernel - 1 if kernel > 1 else 0, 0)],
    )
    windows = np.lib.stride_tricks.sliding_window_view(image, (kernel, kernel), (2, 3))[
        :, :, ::stride, ::stride
    ]
    reference = np.einsum(
        "ncyxij,fcij->nfyx", windows, inputs["w"].astype(np.float64) - float(inputs["n"])
    )
    np.testing.assert_array_equal(
        svod_onnx.load(model)(**inputs)["y"].numpy(), reference.astype(np.int32)
    )


def test_scales_along_the_summed_axis_fall_back_to_floats() -> None:
    _check(
        _parse("""
        g (uint8[5, 6] p, int8[6, 7] w, float[6] s, uint8[6] m, float[6] t, int32 n) => (float[5, 7] y) {
            k = Cast<to = 3>(n)
            zero = Sub(k, k)
            a = DequantizeLinear<axis = 1>(p, s, m)
            b = DequantizeLinear<axis = 0>(w, t)
            y = MatMul(a, b)
        }
    """)
    )
