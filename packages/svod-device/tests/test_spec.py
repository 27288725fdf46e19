"""`ProgramSpec` from PROGRAM nodes, and `CompiledSpec`."""

from __future__ import annotations

import pytest

from svod_device import CompiledSpec, LaunchSizeError, ProgramSpec, ProgramStageError, Variable
from svod_dtype import void
from svod_ir import Op, UOp, parse_graph


def program(sink: UOp, *, linear: tuple[UOp, ...] = (), device: object = "CPU") -> UOp:
    stages = (sink, UOp(Op.LINEAR, void, linear), UOp(Op.SOURCE, void, (), "source text"))
    return UOp(Op.PROGRAM, void, stages, device)


SINK = """
    %n = DEFINE_VAR index ["n", 1, 64]
    %shift = DEFINE_VAR index ["a_shift", 0, 4]
    %i = SPECIAL index %n ["gidx0"]
    %j = SPECIAL index 8 ["lidx1"]
    %p2 = PARAM f32 [2, 16]
    %p3 = PARAM f32 [3, 16]
    %p5 = PARAM f32 [5, 16]
    %x = load(%p2[%i + %shift])
    %first = STORE %p5[%i], %x + load(%p3[%j])
    %second = STORE after(%p3, %first)[%i], %x
    SINK %first, %second ["E_n_8"]
"""


def storing_one(line: str) -> UOp:
    """Return the program of a kernel that stores at the index that a line defines."""
    return program(
        parse_graph(
            f"%out = PARAM f32 [0, 16]\n%i = {line}\n%store = STORE %out[%i], 1.0\nSINK %store"
        )
    )


def test_metadata_comes_from_the_sink() -> None:
    sink = parse_graph(SINK)
    spec = ProgramSpec.from_program(program(sink))
    assert (spec.name, spec.source, spec.device, spec.ast) == ("E_n_8", "source text", "CPU", sink)
    assert (spec.globals, spec.outs, spec.ins, spec.n_buffers) == ((2, 3, 5), (3, 5), (2, 3), 3)
    assert spec.variables == (Variable("a_shift", 0, 4), Variable("n", 1, 64))
    assert spec.launch_dims({"n": 7}) == ((7, 1, 1), (1, 8, 1))
    with pytest.raises(LaunchSizeError, match="variable n has no value"):
        spec.launch_dims({})


def test_variables_follow_the_linear_program() -> None:
    sink = parse_graph(SINK)
    linear = tuple(node for node in reversed(sink.toposort()) if node.op is Op.DEFINE_VAR)
    spec = ProgramSpec.from_program(program(sink, linear=linear))
    assert spec.var_names == tuple(node.arg[0] for node in linear)
    assert sorted(spec.var_names) == ["a_shift", "n"]


def test_core_id_sizes_the_grid_and_is_not_a_launch_value() -> None:
    spec = ProgramSpec.from_program(storing_one('DEFINE_VAR index ["core_id", 0, 7]'))
    assert spec.launch_dims({}) == ((8, 1, 1), (1, 1, 1))
    assert (spec.var_names, spec.variables) == ((), (Variable("core_id", 0, 7),))
    assert (spec.name, spec.outs, spec.ins) == ("kernel", (0,), ())


def test_a_grid_of_work_items_has_no_workgroups() -> None:
    spec = ProgramSpec.from_program(storing_one('SPECIAL index 12 ["idx2"]'))
    assert spec.launch_dims({}) == ((1, 1, 12), None)


def test_parameters_with_a_device_are_not_kernel_arguments() -> None:
    sink = parse_graph("""
        %out = PARAM f32 [0, 16]
        %other = PARAM f32 [9, 4, "CPU"]
        %store = STORE %out[0], load(%other[0])
        SINK %store
    """)
    spec = ProgramSpec.from_program(program(sink))
    assert (spec.globals, spec.ins) == ((0,), ())


STAGES = """
    %sink = SINK
    %linear = LINEAR
    %source = SOURCE [""]
    %binary = PROGRAM_BINARY [hex"636f6465"]
"""


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("SINK", "stage root of a PROGRAM must be PROGRAM, found SINK"),
        (
            "PROGRAM %sink, %linear, %source",
            "stage device of a PROGRAM must be a device name, found None",
        ),
        ('PROGRAM ["CPU"]', "stage SINK of a PROGRAM must be SINK, found nothing"),
        ('PROGRAM %linear ["CPU"]', "stage SINK of a PROGRAM must be SINK, found LINEAR"),
        ('PROGRAM %sink ["CPU"]', "stage LINEAR of a PROGRAM must be LINEAR, found nothing"),
        (
            'PROGRAM %sink, %source ["CPU"]',
            "stage LINEAR of a PROGRAM must be LINEAR, found SOURCE",
        ),
        (
            'PROGRAM %sink, %linear ["CPU"]',
            "stage SOURCE of a PROGRAM must be SOURCE, found nothing",
        ),
        (
            'PROGRAM %sink, %linear, %sink ["CPU"]',
            "stage SOURCE of a PROGRAM must be SOURCE, found SINK",
        ),
        (
            'PROGRAM %sink, %linear, %source, %source ["CPU"]',
            "stage PROGRAM_BINARY of a PROGRAM must be PROGRAM_BINARY, found SOURCE",
        ),
        (
            'PROGRAM %sink, %linear, %source, %binary, %sink ["CPU"]',
            "stage end of a PROGRAM must be nothing, found SINK",
        ),
    ],
)
def test_each_wrong_stage_is_named(line: str, message: str) -> None:
    with pytest.raises(ProgramStageError) as caught:
        ProgramSpec.from_program(parse_graph(STAGES + line))
    assert str(caught.value) == message


@pytest.mark.parametrize(
    "name", ["gidx3", "gidx10", "lidx12", "xgidx0", "group0", "tidx0", "gidx", ""]
)
def test_an_unknown_grid_axis_is_an_error(name: str) -> None:
    with pytest.raises(
        ProgramStageError, match="SPECIAL gidx, lidx or idx with axis 0, 1 or 2, found SPECIAL"
    ):
        ProgramSpec.from_program(storing_one(f'SPECIAL index 4 ["{name}"]'))


def test_a_binary_stage_is_accepted() -> None:
    stages = parse_graph(STAGES + 'PROGRAM %sink, %linear, %source, %binary ["CPU"]')
    assert ProgramSpec.from_program(stages).globals == ()


def test_a_compiled_spec_has_source_or_bytes() -> None:
    spec = ProgramSpec(
        "k", "text", "CPU", var_names=("n",), globals=(0, 4), global_size=(2, 1, 1), local_size=None
    )
    assert "text" not in repr(spec)
    jit, aot = CompiledSpec.from_source(spec), CompiledSpec.from_bytes(spec, b"code")
    assert (jit.source, jit.binary) == ("text", b"")
    assert (aot.source, aot.binary) == (None, b"code")
    for compiled in (jit, aot):
        assert (compiled.name, compiled.var_names, compiled.n_buffers) == ("k", ("n",), 2)
        assert (compiled.global_size, compiled.local_size) == ((2, 1, 1), None)
