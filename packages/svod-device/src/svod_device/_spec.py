"""Kernel metadata: `ProgramSpec` for launches, and `CompiledSpec` for loaders.

Both are derived from a PROGRAM node, PROGRAM(SINK, LINEAR, SOURCE, [PROGRAM_BINARY]). Of the graph
they keep only launch-size expressions and, for inspection, the SINK. Kernels from a disk cache have
no graph.

Example:
    >>> from svod_device import CompiledSpec, LaunchDims, ProgramSpec, Variable
    >>> from svod_ir import UOp
    >>> n = UOp.variable("n", 1, 1000)
    >>> spec = ProgramSpec(
    ...     "scale",
    ...     "__global__ void scale(...) ...",
    ...     "CUDA",
    ...     variables=(Variable("n", 1, 1000),),
    ...     var_names=("n",),
    ...     globals=(0, 1),
    ...     outs=(0,),
    ...     ins=(1,),
    ...     global_size=((n + 31) // 32, 1, 1),
    ...     local_size=(32, 1, 1),
    ... )
    >>> spec.launch_dims({"n": 70}) == LaunchDims((3, 1, 1), (32, 1, 1))
    True
    >>> compiled = CompiledSpec.from_bytes(spec, b"machine code")
    >>> compiled.name, compiled.n_buffers, compiled.source
    ('scale', 2, None)

    A kernel that runs on 4 threads, each with its own `core_id`:

    >>> from svod_device import CORE_ID
    >>> threaded = ProgramSpec("sums", "...", "CPU", variables=(Variable(CORE_ID, 0, 3),), global_size=(4, 1, 1))
    >>> threaded.launch_dims({}).global_size, threaded.var_names
    ((4, 1, 1), ())
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from svod_device._launch_size import Dims, LaunchSizes, Size, evaluate_launch_sizes
from svod_device.errors import ProgramStageError
from svod_ir import Op, UOp
from svod_ir.args import GridIndex, find_grid_index

__all__ = ["CORE_ID", "CompiledSpec", "LaunchDims", "ProgramSpec", "Variable"]

CORE_ID = "core_id"
"""Name of the variable that holds the thread index of a threaded CPU kernel. The launch sets it,
never a caller.
"""

_ONE: LaunchSizes = (1, 1, 1)
_ALIASES = frozenset({Op.AFTER, Op.CAST, Op.BITCAST, Op.INDEX, Op.RESHAPE})


class Variable(NamedTuple):
    """Integer argument of a kernel, with inclusive bounds."""

    name: str
    min: int
    max: int


class LaunchDims(NamedTuple):
    """Evaluated grid and workgroup size of a launch."""

    global_size: Dims
    local_size: Dims | None


@dataclass(frozen=True, slots=True)
class ProgramSpec:
    """Kernel metadata for launches.

    Attributes:
        name: name of the entry point.
        source: rendered source text.
        device: canonical device name.
        ast: SINK of the kernel, or None.
        variables: variables with bounds, `core_id` included, in the order of `var_names` and then
            by name.
        var_names: names of a launch's `values`, in order; without `core_id`.
        globals: PARAM slots in ascending order: the buffer arguments of a launch.
        outs: slots that the kernel writes, ascending.
        ins: slots that the kernel reads, ascending; a slot may be in both.
        global_size: grid size: three ints or expressions of variables.
        local_size: workgroup size; None if the grid counts work-items and has no workgroups.
        n_operations: estimated arithmetic operations of one launch; 0 if unknown.
        n_bytes: estimated bytes read and written by one launch; 0 if unknown.
        reasons: human-readable reasons for the kernel's opts.
    """

    name: str
    source: str = field(repr=False)
    device: str
    ast: UOp | None = None
    variables: tuple[Variable, ...] = ()
    var_names: tuple[str, ...] = ()
    globals: tuple[int, ...] = ()
    outs: tuple[int, ...] = ()
    ins: tuple[int, ...] = ()
    global_size: LaunchSizes = _ONE
    local_size: LaunchSizes | None = _ONE
    n_operations: int = 0
    n_bytes: int = 0
    reasons: tuple[str, ...] = ()

    @property
    def n_buffers(self) -> int:
        """Number of buffer arguments."""
        return len(self.globals)

    def launch_dims(self, variables: Mapping[str, int]) -> LaunchDims:
        """Evaluate the launch sizes for values of the variables.

        Raises:
            LaunchSizeError: if a size cannot be evaluated or is not positive.
        """
        local = (
            None if self.local_size is None else evaluate_launch_sizes(self.local_size, variables)
        )
        return LaunchDims(evaluate_launch_sizes(self.global_size, variables), local)

    @classmethod
    def from_program(cls, program: UOp) -> ProgramSpec:
        """Return the spec of a PROGRAM node that has its LINEAR and SOURCE.

        Raises:
            ProgramStageError: if a stage is missing or wrong.
        """
        sink, linear, source = _check_stages(program)
        facts = _derive_facts(sink)
        # The entry point takes its parameters in the order of the linear program. Variables that
        # only launch sizes use follow, sorted by name.
        ordered = {node.arg.name: node for node in linear.src if node.op is Op.DEFINE_VAR}
        variables = tuple(
            facts.variables[n] for n in (*ordered, *sorted(facts.variables.keys() - ordered.keys()))
        )
        name = getattr(sink.arg, "name", "kernel")
        return cls(
            name,
            source.arg,
            program.arg,
            sink,
            variables,
            var_names=tuple(v.name for v in variables if v.name != CORE_ID),
            # Ascending, as renderers declare the parameters.
            globals=tuple(sorted(facts.slots)),
            outs=tuple(sorted(facts.outs)),
            ins=tuple(sorted(facts.ins)),
            global_size=facts.global_size,
            local_size=facts.local_size,
        )


@dataclass(frozen=True, slots=True)
class CompiledSpec:
    """Input of a loader: source text for just-in-time compilers, bytes for other compilers.

    Attributes:
        source: source text, or None.
        binary: compiled code, or empty.
        n_buffers: number of buffer arguments of a launch, the length of `ProgramSpec.globals`.
        name, ast, var_names, global_size, local_size: as in `ProgramSpec`.
    """

    name: str
    source: str | None = None
    binary: bytes = b""
    ast: UOp | None = None
    var_names: tuple[str, ...] = ()
    global_size: LaunchSizes = _ONE
    local_size: LaunchSizes | None = _ONE
    n_buffers: int = 0

    @classmethod
    def from_source(cls, spec: ProgramSpec) -> CompiledSpec:
        """Return the spec of a just-in-time backend: source, no bytes."""
        return cls._make(spec, spec.source, b"")

    @classmethod
    def from_bytes(cls, spec: ProgramSpec, binary: bytes) -> CompiledSpec:
        """Return the spec of an ahead-of-time backend: bytes, no source."""
        return cls._make(spec, None, binary)

    @classmethod
    def _make(cls, spec: ProgramSpec, source: str | None, binary: bytes) -> CompiledSpec:
        sizes = spec.global_size, spec.local_size
        return cls(spec.name, source, binary, spec.ast, spec.var_names, *sizes, spec.n_buffers)


def _check_stages(program: UOp) -> tuple[UOp, UOp, UOp]:
    if program.op is not Op.PROGRAM:
        raise ProgramStageError(stage="root", expected="PROGRAM", found=program.op.name)
    if not isinstance(program.arg, str):
        raise ProgramStageError(stage="device", expected="a device name", found=repr(program.arg))
    stages = (Op.SINK, Op.LINEAR, Op.SOURCE, Op.PROGRAM_BINARY)
    for position, expected in enumerate(stages):
        if position >= len(program.src):
            if expected is not Op.PROGRAM_BINARY:
                raise ProgramStageError(
                    stage=expected.name, expected=expected.name, found="nothing"
                )
        elif program.src[position].op is not expected:
            raise ProgramStageError(
                stage=expected.name, expected=expected.name, found=program.src[position].op.name
            )
    if len(program.src) > len(stages):
        raise ProgramStageError(
            stage="end", expected="nothing", found=program.src[len(stages)].op.name
        )
    return program.kernel, program.linear, program.text


@dataclass(slots=True)
class _Facts:
    variables: dict[str, Variable] = field(default_factory=dict[str, Variable])
    slots: set[int] = field(default_factory=set[int])
    outs: set[int] = field(default_factory=set[int])
    ins: set[int] = field(default_factory=set[int])
    global_size: LaunchSizes = _ONE
    local_size: LaunchSizes | None = _ONE


_FACTS = frozenset({Op.PARAM, Op.DEFINE_VAR, Op.SPECIAL, Op.STORE})


def _derive_facts(sink: UOp) -> _Facts:
    facts = _Facts()
    nodes = sink.toposort()
    global_size: list[Size] = list(_ONE)
    local_size: list[Size] = list(_ONE)
    is_direct = False
    for node in nodes:
        if node.op not in _FACTS:
            continue
        match node.op:
            # A PARAM with a device is not an argument of the kernel.
            case Op.PARAM if node.arg.device is None:
                facts.slots.add(node.arg.slot)
            case Op.DEFINE_VAR:
                variable = Variable(*node.arg)
                facts.variables[variable.name] = variable
                # A threaded CPU kernel runs once for each value of `core_id`.
                if variable.name == CORE_ID:
                    global_size[0] = variable.max + 1
            case Op.SPECIAL:
                prefix, axis = _parse_special(node.arg)
                is_direct |= prefix == "idx"
                (local_size if prefix == "lidx" else global_size)[axis] = _simplify(node.stop)
            case Op.STORE:
                facts.outs |= _get_slots(node.location)
            case _:
                pass
    facts.ins = _read_slots(nodes)
    facts.global_size = (global_size[0], global_size[1], global_size[2])
    # `idx` counts work-items of the whole grid, so the device chooses the workgroups.
    facts.local_size = None if is_direct else (local_size[0], local_size[1], local_size[2])
    return facts


def _parse_special(name: object) -> GridIndex:
    grid_index = find_grid_index(name)
    if grid_index is None:
        expected = "SPECIAL gidx, lidx or idx with axis 0, 1 or 2"
        raise ProgramStageError(stage="SINK", expected=expected, found=f"SPECIAL {name!r}")
    return grid_index


def _simplify(size: UOp) -> Size:
    return size.arg if size.op is Op.CONST and isinstance(size.arg, int) else size


def _read_slots(nodes: Iterable[UOp]) -> set[int]:
    """Return the slots of all locations that are read: used other than as the target of a STORE."""
    slots: set[int] = set()
    store, location = Op.STORE, Op.INDEX
    for node in nodes:
        for operand in node.src[1:] if node.op is store else node.src:
            # A cast or an AFTER of a location reads nothing itself; its user does.
            if operand.op is location and node.op not in _ALIASES:
                slots |= _get_slots(operand)
    return slots


def _get_slots(location: UOp) -> set[int]:
    location = location.strip(_ALIASES)
    return {location.arg.slot} if location.op is Op.PARAM and location.arg.device is None else set()
