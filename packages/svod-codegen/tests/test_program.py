from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from svod_codegen._program import (
    compile_program,
    linearize_program,
    load_program,
    make_program,
    render_program,
)
from svod_codegen.backend import make_llvm_backend
from svod_device import CompiledSpec, ProgramSpec, ProgramStageError
from svod_dtype import int32, void
from svod_ir import Op, UOp, parse_graph

BACKEND = make_llvm_backend("CPU")


class RecordingRenderer:
    """Writes the ops' names, and remembers what it was given."""

    def __init__(self) -> None:
        self.calls: list[tuple[Sequence[UOp], str]] = []

    def render(self, linear: Sequence[UOp], name: str) -> str:
        self.calls.append((linear, name))
        return " ".join(n.op.name for n in linear)


class CountingCompiler:
    """Gives the source's bytes back."""

    cache_key = "counting"

    def __init__(self, *, is_lazy: bool = False) -> None:
        self.n_calls, self.is_lazy = 0, is_lazy

    def compile(self, spec: ProgramSpec) -> CompiledSpec:
        self.n_calls += 1
        return (
            CompiledSpec.from_source(spec)
            if self.is_lazy
            else CompiledSpec.from_bytes(spec, spec.source.encode())
        )


def doubling_kernel(size: int = 10) -> UOp:
    return parse_graph(f"""
        %out = PARAM f32 [0, {size}]
        %i = RANGE i32 {size} [0, LOOP]
        %in = PARAM f32 [3, {size}]
        %x = load(%in[%i])
        %store = STORE %out[%i], %x + %x
        %end = END %store, %i
        SINK %end ["double_it"]
    """)


def build_program(kernel: UOp) -> UOp:
    program = kernel if kernel.op is Op.PROGRAM else make_program(kernel, "CPU")
    return compile_program(
        render_program(linearize_program(program), BACKEND.renderer), BACKEND.compiler
    )


def test_stages_are_filled_one_by_one() -> None:
    renderer, compiler = RecordingRenderer(), CountingCompiler()
    sink = doubling_kernel()
    made = make_program(sink, "CPU")
    linear = linearize_program(made)
    rendered = render_program(linear, renderer)
    compiled = compile_program(rendered, compiler)
    assert [s.op for s in compiled.src] == [Op.SINK, Op.LINEAR, Op.SOURCE, Op.PROGRAM_BINARY]
    assert compiled.arg == "CPU"
    assert compiled.src[0] is sink
    assert compiled.src[3].arg == compiled.src[2].arg.encode()


def test_an_existing_stage_is_unchanged() -> None:
    renderer, compiler = RecordingRenderer(), CountingCompiler()
    compiled = compile_program(
        render_program(linearize_program(make_program(doubling_kernel(), "CPU")), renderer),
        compiler,
    )
    assert linearize_program(compiled) is compiled
    assert render_program(compiled, renderer) is compiled
    assert compile_program(compiled, compiler) is compiled
    assert len(renderer.calls) == compiler.n_calls == 1


def test_the_renderer_is_given_the_linear_list_and_the_kernels_name() -> None:
    renderer = RecordingRenderer()
    linear = linearize_program(make_program(doubling_kernel(), "CPU"))
    render_program(linear, renderer)
    ((nodes, name),) = renderer.calls
    assert nodes == linear.src[1].src
    assert name == "double_it"


def test_a_program_runs_after_all_stages() -> None:
    program = build_program(doubling_kernel())
    run = load_program(program, BACKEND.loader)
    values, out = np.arange(10, dtype=np.float32), np.zeros(10, np.float32)
    run((out.ctypes.data, values.ctypes.data), (), (1, 1, 1))
    np.testing.assert_array_equal(out, values * 2)
    spec = ProgramSpec.from_program(program)
    assert spec.globals == (0, 3)
    assert (spec.outs, spec.ins) == ((0,), (3,))
    assert run.name == spec.name == "double_it"


def test_building_continues_from_any_stage() -> None:
    linear = linearize_program(make_program(doubling_kernel(), "CPU"))
    assert build_program(linear) is build_program(doubling_kernel())


def test_a_compiler_without_bytes_hands_its_source_to_the_loader() -> None:
    seen: list[CompiledSpec] = []

    def loader(spec: CompiledSpec) -> object:
        seen.append(spec)
        return spec

    rendered = render_program(
        linearize_program(make_program(doubling_kernel(), "CPU")), RecordingRenderer()
    )
    load_program(compile_program(rendered, CountingCompiler(is_lazy=True)), loader)  # pyright: ignore[reportArgumentType]
    load_program(compile_program(rendered, CountingCompiler()), loader)  # pyright: ignore[reportArgumentType]
    lazy, eager = seen
    assert lazy.source == rendered.src[2].arg
    assert lazy.binary == b""
    assert eager.source is None
    assert eager.binary == rendered.src[2].arg.encode()


def test_a_wrong_stage_is_an_error_that_names_it() -> None:
    sink = doubling_kernel()
    made = make_program(sink, "CPU")
    with pytest.raises(ProgramStageError, match="must be SINK, found CONST"):
        make_program(UOp.const(int32, 1), "CPU")
    with pytest.raises(ProgramStageError, match=r"stage LINEAR .* found nothing"):
        render_program(made, RecordingRenderer())
    with pytest.raises(ProgramStageError, match=r"stage SOURCE .* found nothing"):
        compile_program(linearize_program(made), CountingCompiler())
    with pytest.raises(ProgramStageError, match=r"stage PROGRAM_BINARY .* found nothing"):
        load_program(render_program(linearize_program(made), RecordingRenderer()), BACKEND.loader)
    source = UOp(Op.SOURCE, void, (), "text")
    with pytest.raises(ProgramStageError, match=r"stage LINEAR .* found SOURCE"):
        compile_program(made.with_src((sink, source)), CountingCompiler())
    with pytest.raises(ProgramStageError, match="must be PROGRAM, found SINK"):
        linearize_program(sink)
    full = build_program(sink)
    with pytest.raises(ProgramStageError, match="stage end"):
        linearize_program(full.with_src((*full.src, source)))
