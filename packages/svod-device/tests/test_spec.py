"""`ProgramSpec` from PROGRAM nodes, and `CompiledSpec`."""

from __future__ import annotations

import pytest

from svod_device import CompiledSpec, LaunchSizeError, ProgramSpec, ProgramStageError, Variable
from svod_dtype import float32, index, void
from svod_ir.args import KernelInfo, ParamArg
from svod_ir.ops import Op
from svod_ir.testing import nodes
from svod_ir.uop import UOp


def param(slot: int, size: int = 16) -> UOp:
    return nodes.param(slot, size)


def program(sink: UOp, *, linear: tuple[UOp, ...] = (), device: object = "CPU") -> UOp:
    stages = (sink, UOp(Op.LINEAR, void, linear), UOp(Op.SOURCE, void, (), "source text"))
    return UOp(Op.PROGRAM, void, stages, device)


def make_sink() -> UOp:
    """Slot 5 = slot 2 + slot 3, and slot 3 is overwritten."""
    i = nodes.special("gidx0", UOp.variable("n", 1, 64))
    j = nodes.special("lidx1", 8)
    shift = UOp.variable("a_shift", 0, 4)
    in2, in3 = param(2).index(i + shift).load(), param(3).index(j).load()
    first = param(5).index(i).store(in2 + in3)
    second = param(3).after(first).index(i).store(in2)
    return UOp.sink(first, second, arg=KernelInfo("E_n_8"))


def test_metadata_comes_from_the_sink() -> None:
    sink = make_sink()
    spec = ProgramSpec.from_program(program(sink))
    assert (spec.name, spec.source, spec.device, spec.ast) == ("E_n_8", "source text", "CPU", sink)
    assert (spec.globals, spec.outs, spec.ins, spec.n_buffers) == ((2, 3, 5), (3, 5), (2, 3), 3)
    assert spec.variables == (Variable("a_shift", 0, 4), Variable("n", 1, 64))
    assert spec.launch_dims({"n": 7}) == ((7, 1, 1), (1, 8, 1))
    with pytest.raises(LaunchSizeError, match="variable n has no value"):
        spec.launch_dims({})


def test_variables_follow_the_linear_program() -> None:
    sink = make_sink()
    linear = tuple(node for node in reversed(sink.toposort()) if node.op is Op.DEFINE_VAR)
    spec = ProgramSpec.from_program(program(sink, linear=linear))
    assert spec.var_names == tuple(node.arg[0] for node in linear)
    assert sorted(spec.var_names) == ["a_shift", "n"]


def test_the_core_number_sizes_the_grid_and_is_no_value() -> None:
    core = UOp.variable("core_id", 0, 7)
    sink = UOp.sink(param(0).index(core).store(UOp.const(float32, 1.0)))
    spec = ProgramSpec.from_program(program(sink, linear=(core,)))
    assert spec.launch_dims({}) == ((8, 1, 1), (1, 1, 1))
    assert (spec.var_names, spec.variables) == ((), (Variable("core_id", 0, 7),))
    assert (spec.name, spec.outs, spec.ins) == ("kernel", (0,), ())


def test_a_grid_of_items_has_no_workgroups() -> None:
    item = nodes.special("idx2", 12)
    spec = ProgramSpec.from_program(program(UOp.sink(param(0).index(item).store(UOp.const(float32, 1.0)))))
    assert spec.launch_dims({}) == ((1, 1, 12), None)


def test_normalised_graphs_own_parameters_with_a_device() -> None:
    other = UOp(Op.PARAM, float32, (), ParamArg(9, 4, "CPU"))
    zero = UOp.const(index, 0)
    spec = ProgramSpec.from_program(program(UOp.sink(param(0).index(zero).store(other.index(zero).load()))))
    assert (spec.globals, spec.ins) == ((0,), ())


_SINK = UOp.sink()
_LINEAR, _SOURCE = UOp(Op.LINEAR, void), UOp(Op.SOURCE, void, (), "")
_BINARY = UOp(Op.PROGRAM_BINARY, void, (), b"code")
_FIVE_STAGES = UOp(Op.PROGRAM, void, (_SINK, _LINEAR, _SOURCE, _BINARY, _SINK), "CPU")
_WRONG_BINARY = "stage PROGRAM_BINARY of a PROGRAM must be PROGRAM_BINARY, found SOURCE"


@pytest.mark.parametrize(
    ("node", "message"),
    [
        (_SINK, "stage root of a PROGRAM must be PROGRAM, found SINK"),
        (
            UOp(Op.PROGRAM, void, (_SINK, _LINEAR, _SOURCE), None),
            "stage device of a PROGRAM must be a device name, found None",
        ),
        (UOp(Op.PROGRAM, void, (), "CPU"), "stage SINK of a PROGRAM must be SINK, found nothing"),
        (UOp(Op.PROGRAM, void, (_LINEAR,), "CPU"), "stage SINK of a PROGRAM must be SINK, found LINEAR"),
        (UOp(Op.PROGRAM, void, (_SINK,), "CPU"), "stage LINEAR of a PROGRAM must be LINEAR, found nothing"),
        (UOp(Op.PROGRAM, void, (_SINK, _SOURCE), "CPU"), "stage LINEAR of a PROGRAM must be LINEAR, found SOURCE"),
        (UOp(Op.PROGRAM, void, (_SINK, _LINEAR), "CPU"), "stage SOURCE of a PROGRAM must be SOURCE, found nothing"),
        (UOp(Op.PROGRAM, void, (_SINK, _LINEAR, _SINK), "CPU"), "stage SOURCE of a PROGRAM must be SOURCE, found SINK"),
        (UOp(Op.PROGRAM, void, (_SINK, _LINEAR, _SOURCE, _SOURCE), "CPU"), _WRONG_BINARY),
        (_FIVE_STAGES, "stage end of a PROGRAM must be nothing, found SINK"),
    ],
)
def test_each_wrong_stage_is_named(node: UOp, message: str) -> None:
    with pytest.raises(ProgramStageError) as caught:
        ProgramSpec.from_program(node)
    assert str(caught.value) == message


@pytest.mark.parametrize("name", ["gidx3", "gidx10", "lidx12", "xgidx0", "group0", "tidx0", "gidx", ""])
def test_an_unknown_grid_axis_is_an_error(name: str) -> None:
    special = nodes.special(name, 4)
    with pytest.raises(ProgramStageError, match="SPECIAL gidx, lidx or idx with axis 0, 1 or 2, found SPECIAL"):
        ProgramSpec.from_program(program(UOp.sink(param(0).index(special).store(UOp.const(float32, 1.0)))))


def test_a_binary_stage_is_welcome() -> None:
    stages = (_SINK, _LINEAR, _SOURCE, _BINARY)
    assert ProgramSpec.from_program(UOp(Op.PROGRAM, void, stages, "CPU")).globals == ()


def test_a_compiled_spec_has_source_or_bytes() -> None:
    spec = ProgramSpec("k", "text", "CPU", var_names=("n",), globals=(0, 4), global_size=(2, 1, 1), local_size=None)
    jit, aot = CompiledSpec.from_source(spec), CompiledSpec.from_bytes(spec, b"code")
    assert (jit.source, jit.binary) == ("text", b"")
    assert (aot.source, aot.binary) == (None, b"code")
    for compiled in (jit, aot):
        assert (compiled.name, compiled.var_names, compiled.n_buffers) == ("k", ("n",), 2)
        assert (compiled.global_size, compiled.local_size) == ((2, 1, 1), None)
