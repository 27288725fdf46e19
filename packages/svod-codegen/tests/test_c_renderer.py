"""What C promises beyond the text and the values of `test_renderers.py`: templates, errors, and
hooks for other languages.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from svod_codegen.c import Buffer, CRenderer, GnuCRenderer, Variable
from svod_codegen.errors import RenderError
from svod_codegen.testing.calls import C_COMPILER, call_c
from svod_dtype import DType
from svod_ir import UOp
from svod_ir.testing import parse_linear

needs_compiler = pytest.mark.skipif(C_COMPILER is None, reason="no C compiler here")


@needs_compiler
def test_custom_text_is_filled_with_its_operands() -> None:
    out = np.zeros(1, np.float32)
    linear = parse_linear("""
        %out = PARAM f32 [0, 1]
        %in = PARAM f32 [1, 1]
        %custom = CUSTOM f32 load(%in[i32(0)]), 2.0 ["fmaxf({1}, {0}) * {0}"]
        STORE %out[i32(0)], %custom
    """)
    call_c(CRenderer().render(linear, "kernel"), [out, np.array([5], np.float32)])
    assert out[0] == 25


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("%bad = STORE %out[i32(0)], %x // %x", "IDIV"),
        ("%bad = STORE %out[i32(0)], threefry(%x, %x)", "THREEFRY"),
        ('%group = SPECIAL i32 4 ["gidx0"]\n%bad = STORE %out[i32(0)], %group', "grid index"),
        ("%bad = STORE %narrow[i32(0)], load(%narrow[i32(0)]) + load(%narrow[i32(0)])", "lowering"),
        ("%bad = STORE %half[i32(0)], load(%half[i32(0)]) + load(%half[i32(0)])", "lowering"),
        ('%custom = CUSTOM i32 %x ["{0} + {1}"]\n%bad = STORE %out[i32(0)], %custom', "template"),
    ],
)
def test_a_node_that_lowering_must_replace_is_an_error(line: str, problem: str) -> None:
    text = f"""
        %out = PARAM i32 [0, 8]
        %narrow = PARAM bf16 [1, 8]
        %half = PARAM f16 [2, 8]
        %x = DEFINE_VAR i32 ["x", -9, 9]
        {line}
    """
    with pytest.raises(RenderError, match=problem):
        GnuCRenderer().render(parse_linear(text), "k")


class OpenClLikeRenderer(CRenderer):
    """What a plugin for a language with workgroups writes."""

    def type_name(self, dtype: DType) -> str:
        names = {"float32": "float", "int32": "int", "int64": "long", "bool": "bool"}
        return names.get(dtype.name) or super().type_name(dtype)

    def vector_type(self, dtype: DType) -> str:
        return f"{self.type_name(dtype)}{dtype.lanes}"

    def declare_vector(self, dtype: DType) -> str:
        return ""

    def make_vector(self, dtype: DType, lanes: Sequence[str]) -> str:
        return f"({self.vector_type(dtype)})({', '.join(lanes)})"

    def lane(self, dtype: DType, vector: str, position: int) -> str:
        return f"{vector}.s{position:x}"

    def open_file(self) -> list[str]:
        return []

    def open_function(
        self, name: str, buffers: Sequence[Buffer], variables: Sequence[Variable]
    ) -> list[str]:
        arguments = [
            f"__global {'' if b.is_written else 'const '}{self.type_name(b.node.dtype)} *{b.name}"
            for b in buffers
        ]
        arguments += [f"{self.type_name(v.node.dtype)} {v.name}" for v in variables]
        return [f"__kernel void {name}({', '.join(arguments)}) {{"]

    def declare_local(self, name: str, dtype: DType, size: int) -> str:
        return f"__local {self.type_name(dtype)} {name}[{size}];"

    def grid_index(self, node: UOp) -> str:
        return f"{'get_group_id' if node.arg[0] == 'g' else 'get_local_id'}({node.arg[-1]})"

    def barrier(self) -> str:
        return "barrier(CLK_LOCAL_MEM_FENCE);"


def test_a_plugin_writes_another_language_by_overriding_hooks() -> None:
    text = """
        %out = PARAM f32 [0, 64]
        %in = PARAM f32 [1, 64]
        %local = DEFINE_LOCAL f32 [0, 16]
        %group = SPECIAL i32 4 ["gidx0"]
        %base = %group * 16
        %item = SPECIAL i32 16 ["lidx0"]
        %place = %base + %item
        %put = STORE %local[%item], load(%in[%place])
        %meet = BARRIER %put
        STORE %out[%place], load(after(%local, %meet)[i32(15) - %item])
    """
    text = OpenClLikeRenderer().render(parse_linear(text), "reverse")
    assert text.splitlines() == [
        "__kernel void reverse(__global float *data0, __global const float *data1) {",
        "  __local float local0[16];",
        "  const int v1 = get_group_id(0);",
        "  const int v2 = v1 * 16;",
        "  const int v3 = get_local_id(0);",
        "  const int v4 = v2 + v3;",
        "  const float v5 = data1[v4];",
        "  local0[v3] = v5;",
        "  barrier(CLK_LOCAL_MEM_FENCE);",
        "  const int v6 = 15 - v3;",
        "  const float v7 = local0[v6];",
        "  data0[v4] = v7;",
        "}",
    ]


@pytest.mark.parametrize("lanes", [8, 16, 32, 64])
def test_a_selection_by_comparisons_is_done_on_whole_vectors(lanes: int) -> None:
    text = f"""
        %out = PARAM f32 [0, {lanes}]
        %x = PARAM f32 [1, {lanes}]
        %y = PARAM f32 [2, {lanes}]
        %a = load(%x[i32(0) : {lanes}])
        %b = load(%y[i32(0) : {lanes}])
        STORE %out[i32(0) : {lanes}], where(~(%a < %b) & (%a == %a), %a, %b)
    """
    text = GnuCRenderer().render(parse_linear(text), "kernel")
    assert " ? " not in text
    if C_COMPILER is None:
        pytest.skip("no C compiler here")
    a, b = np.random.default_rng(0).normal(0, 3, (2, lanes)).astype(np.float32)
    a[::3], b[::5], found = np.nan, np.nan, np.zeros(lanes, np.float32)
    call_c(text, [found, a, b])
    np.testing.assert_array_equal(found, np.where(~(a < b) & (a == a), a, b))
