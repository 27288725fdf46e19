"""`jit`: a function of tensors as execution plans, one for each signature of its arguments.

The first call with a signature runs the function once on placeholders, and so captures the graph
that it builds; later calls only run the plan. What the function does besides (printing, counting) happens
during the capture alone.

- Tensors, and numpy arrays, anywhere in lists, tuples and dicts are inputs; their memory is used where it
  is. A `variable.bind(value)`, and what is computed from it, is an input too: one plan serves all its values. Anything
  else is part of the signature.
- Tensors that the function uses without getting them as arguments are read at each call, where they
  are: what is assigned to them is seen, a new tensor in their place is not. A variable that is bound outside
  keeps its value; a call that binds it to another one is an error.
- Assignments, to inputs and to other tensors, happen at each call.
- Each call's results have memory of their own.
- Any thread may call it. Calls run side by side, each with memory of its own for intermediates, as many as there are
  cores; those of a function that assigns, or that is given memory, run one after the other.
- Arguments named in `donate` give their memory away: results of their size are written there, and using
  such a tensor afterwards is an error. Another captured function that is called inside one donates nothing.
"""

from __future__ import annotations

import functools
import gc
import math
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Generic, ParamSpec, TypeVar, cast, overload

from svod_device import Buffer, DeviceLostError, get_allocator
from svod_ir.forks import make_lock
from svod_ir.log import get_logger
from svod_ir.ops import Op
from svod_ir.placement import Sharding
from svod_ir.shape import max_size
from svod_ir.uop import UOp
from svod_tensor import registry, states
from svod_tensor.capture import Capture, find_capture, start_capture
from svod_tensor.captured import Captured, Input, Results, iter_symbolic
from svod_tensor.donation import NOTHING_DONATED, Donate, DonatedParameters, resolve_donated
from svod_tensor.errors import CaptureError, DonationError
from svod_tensor.memory_views import view_prefix
from svod_tensor.nested import take_apart
from svod_tensor.ops.base import TensorBase
from svod_tensor.options import resolve_config
from svod_tensor.shards import join_parts, parts_of
from svod_tensor.signature import Argument, describe_arguments, find_array, find_reason, read_arguments
from svod_tensor.tensor import Tensor
from svod_tensor.variable import bind_to_call, check_variables

if TYPE_CHECKING:
    from svod_runtime import ExecutionPlan
    from svod_tensor.options import AnyConfig, PrepareConfig

__all__ = ["MAX_CAPTURES", "JitFunction", "jit"]

P = ParamSpec("P")
R = TypeVar("R")

MAX_CAPTURES: Final = 64
"""How many signatures a function keeps plans for; the one that was not used for longest leaves first."""

_log = get_logger("tensor")


@overload
def jit(function: Callable[P, R], /, *, config: AnyConfig | None = None, donate: Donate = ()) -> JitFunction[P, R]: ...
@overload
def jit(*, config: AnyConfig | None = None, donate: Donate = ()) -> Callable[[Callable[P, R]], JitFunction[P, R]]: ...
def jit(
    function: Callable[P, R] | None = None, /, *, config: AnyConfig | None = None, donate: Donate = ()
) -> JitFunction[P, R] | Callable[[Callable[P, R]], JitFunction[P, R]]:
    """Let `function`, which computes tensors from tensors, run as one execution plan for each signature.

    Args:
        function: what to run.
        config: how its plans are prepared, an `OptimizerConfig` being a part of it; by default as the environment says.
        donate: names or positions of parameters (`self` counts) whose tensors are given away by each call: their memory
            may hold intermediates and results, and they cannot be used any more. `x = step(x)` then
            needs no second buffer where `x` is large. What belongs to a numpy array is copied before.

    Example:
        >>> from svod_tensor import Tensor, jit
        >>> @jit
        ... def step(x):
        ...     return x * 2 + 1
        >>> step(Tensor([1.0, 2.0])).tolist(), step(Tensor([3.0, 4.0])).tolist()
        ([3.0, 5.0], [7.0, 9.0])
        >>> print(step.explain())
        step: 1 capture, 2 calls
          1. 2 calls, 1 kernel; captured for the first call
             args[0]: float32 (2,) on CPU

    Raises:
        ConfigError: if `config` is no configuration.
        DonationError: if `donate` names no parameter.

    Raises (when called):
        CaptureError: if the function reads values while it is captured, returns what is no tensor, or
            changes what a plan cannot change.
        VariableConflictError: if a variable has two values in one call.
        BoundsConflictError: if two variables have one name.
        DonationError: if what is donated is a file, no tensor, or used under another name too.
        DonatedTensorError: if an argument was donated before.
    """
    if function is None:
        return lambda f: JitFunction(f, config, donate)
    return JitFunction(function, config, donate)


class JitFunction(Generic[P, R]):
    """A function that runs as plans; any thread may call it."""

    def __init__(self, function: Callable[P, R], config: AnyConfig | None, donate: Donate = ()) -> None:
        self.function = function
        if config is not None:
            resolve_config(config)  # a mistake is raised here; what the environment says is read at each capture
        self._config = config
        self._donated = resolve_donated(self._name, function, donate) if donate != () else NOTHING_DONATED
        self._captures: dict[tuple[object, ...], Captured] = {}
        self._n_calls = 0
        self._lock, self._capturing = make_lock(), make_lock()
        functools.update_wrapper(self, function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        if find_capture() is not None:
            return self.function(*args, **kwargs)
        key, inputs = read_arguments(args, kwargs)
        captured = self._captures.get(key)
        if captured is None:
            with self._capturing:
                captured = self._captures.get(key)
                if captured is None:
                    captured = self._capture(inputs, args, kwargs)
                    self._keep(key, captured)
        with self._lock:
            self._n_calls = captured.last_call = self._n_calls + 1
            captured.n_calls += 1
        try:
            return cast("R", captured.run(inputs))
        except DeviceLostError:
            # The plan is of an opening that is gone: on the next one the function is captured anew.
            with self._lock:
                self._captures.pop(key, None)
            raise

    def __get__(self, instance: object, owner: type | None = None) -> object:
        return self if instance is None else types.MethodType(self, instance)

    @property
    def n_captures(self) -> int:
        """How many plans are kept."""
        return len(self._captures)

    def plans(self) -> list[ExecutionPlan]:
        """The plan of each signature, for inspection; a signature that computes nothing has none."""
        return [c.plan for c in self._captures.values() if c.plan is not None]

    def explain(self) -> str:
        """Each signature that a plan is kept for, and why a new one had to be captured."""
        with self._lock:
            lines = [f"{self._name}: {_count(len(self._captures), 'capture')}, {_count(self._n_calls, 'call')}"]
            for number, captured in enumerate(self._captures.values(), 1):
                kernels = _count(captured.n_kernels, "kernel")
                lines.append(f"  {number}. {_count(captured.n_calls, 'call')}, {kernels}; captured {captured.reason}")
                lines += [f"     {argument.path}: {argument.text}" for argument in captured.arguments]
                if captured.plan is not None:
                    lines.append(f"     memory: {captured.plan.memory_report}")
            return "\n".join(lines)

    def clear(self) -> None:
        """Forget every plan."""
        with self._lock:
            self._captures.clear()

    def _keep(self, key: tuple[object, ...], captured: Captured) -> None:
        with self._lock:
            while len(self._captures) >= MAX_CAPTURES:
                oldest = min(self._captures, key=lambda known: self._captures[known].last_call)
                del self._captures[oldest]
            self._captures[key] = captured

    @property
    def _name(self) -> str:
        return getattr(self.function, "__qualname__", repr(self.function)).rpartition("<locals>.")[2]

    def _capture(self, given: Sequence[Tensor | UOp], args: Sequence[object], kwargs: Mapping[str, object]) -> Captured:
        arguments = describe_arguments(args, kwargs)
        reason = find_reason(arguments, [c.arguments for c in self._captures.values()])
        config = resolve_config(self._config)
        inputs = _name_inputs(self._name, arguments, self._donated)
        captured = _make_captured(self._name, self.function, given, args, kwargs, inputs, config)
        captured.reason, captured.arguments = reason, arguments
        _log.info("jit.captured", function=self._name, reason=reason, kernels=captured.n_kernels)
        return captured


def _make_captured(
    name: str, function: Callable[..., object], given: Sequence[Tensor | UOp], args: Sequence[object],
    kwargs: Mapping[str, object], names: Sequence[tuple[str, bool]], config: PrepareConfig,
) -> Captured:  # fmt: skip
    """Run the function on placeholders and make the plan of what it does."""
    _settle()
    placeholders: list[Tensor | None] = []
    binds = bind_to_call(list(iter_symbolic(given)))
    positional = cast("tuple[object, ...]", _replace_inputs(tuple(args), placeholders, binds))
    named = cast("dict[str, object]", _replace_inputs(dict(kwargs), placeholders, binds))
    positions = [n for n, value in enumerate(given) if isinstance(value, Tensor)]
    inputs = [
        Input(position, memory, *names[position], part=number)
        for position, placeholder in zip(positions, placeholders, strict=True)
        for number, part in enumerate(() if placeholder is None else parts_of(placeholder.uop))
        if (memory := registry.find_base(part)) is not None
    ]
    alive = {id(t): t for t in registry.iter_tensors()}
    with start_capture(name, alive) as capture:
        result = function(*positional, **named)
        outputs: list[Tensor] = []
        build = _make_builder(name, result, outputs)
        del result
        _check_leaks(capture, {i.memory for i in inputs}, alive, outputs, placeholders)
        graphs = [*capture.states.values(), *(t.uop for t in outputs)]
        check_variables([*binds, *graphs])
        own = set(binds.values())
        bound = dict.fromkeys(bind for graph in graphs for bind in graph.iter_ops(Op.BIND) if bind not in own)
        return _finish(name, capture, inputs, outputs, build, config, tuple(bound))


def _name_inputs(name: str, arguments: Sequence[Argument], donated: DonatedParameters) -> list[tuple[str, bool]]:
    """What each input is called, and whether it is donated."""
    for root in {argument.root for argument in arguments if donated.find_name(argument.root) in donated.names}:
        parts = [argument for argument in arguments if argument.root == root]
        if not any(part.is_input for part in parts):
            raise DonationError(
                function=name,
                argument=donated.find_name(root),
                problem=f"is {parts[0].text}, which has no memory",
                hint="donate parameters that are tensors, or lists, tuples and dicts of tensors",
            )
    return [
        (donated.find_name(a.root) + a.place, donated.find_name(a.root) in donated.names)
        for a in arguments
        if a.is_input
    ]


def _settle() -> None:
    """Do the assignments that pend, so that they are not part of a plan."""
    pending = [t for t in registry.iter_tensors() if states.find_written(t.uop)]
    Tensor.realize_batch(t for t in pending if isinstance(t, Tensor))


def _replace_inputs(value: object, made: list[Tensor | None], binds: Mapping[UOp, UOp]) -> object:
    """`value` with a placeholder for each tensor, and `binds` for variables; tensors without elements stay."""
    parts = take_apart(value)
    if parts is not None:
        return parts.build([_replace_inputs(item, made, binds) for item in parts.items])
    if isinstance(value, UOp):
        return value.substitute(binds)
    tensor = value if isinstance(value, Tensor) else find_array(value)
    if tensor is None:
        return value
    placeholder = _make_placeholder(tensor, binds) if tensor.size != 0 else None
    made.append(placeholder)
    return tensor if placeholder is None else placeholder


def _make_placeholder(tensor: Tensor, binds: Mapping[UOp, UOp]) -> Tensor:
    sharding = tensor.sharding
    if sharding is None:
        return Tensor.from_uop(_make_empty(tensor.uop, str(tensor.device), binds))
    parts = [
        part if 0 in part.shape else _make_empty(part, device, binds)
        for part, device in zip(parts_of(tensor.uop), sharding.devices, strict=True)
    ]
    return Tensor.from_uop(join_parts(parts, sharding.axis))


def _make_empty(like: UOp, device: str, binds: Mapping[UOp, UOp]) -> UOp:
    """Memory for what `like` is on one device, with `binds` for the variables in its shape."""
    size = math.prod(max_size(s) for s in like.shape)
    buffer = Buffer(get_allocator(device), like.dtype, size)
    shape = tuple([s if isinstance(s, int) else s.substitute(binds) for s in like.shape])
    return view_prefix(registry.make_memory(like.dtype, size, device, buffer), shape)


def _make_builder(name: str, result: object, outputs: list[Tensor]) -> Callable[[Iterator[object]], object]:
    """How to arrange results as the function did; its tensors are appended to `outputs`."""
    if isinstance(result, Tensor):
        outputs.append(result)
        return next
    if result is None:
        return _build_none
    parts = take_apart(result)
    if parts is None:
        raise CaptureError(
            function=name,
            problem=f"it returns {type(result).__name__}, which is no tensor",
            hint="return tensors, or lists, tuples and dicts of tensors",
        )
    builders = [_make_builder(name, item, outputs) for item in parts.items]
    build = parts.build
    return lambda made: build([builder(made) for builder in builders])


def _build_none(_made: Iterator[object]) -> None:
    return None


def _check_leaks(
    capture: Capture, memories: set[UOp], alive: Mapping[int, TensorBase], outputs: Sequence[Tensor],
    placeholders: Sequence[Tensor | None],
) -> None:  # fmt: skip
    """Raise if a tensor of this run lives on somewhere: it would read a placeholder."""
    known = {*map(id, outputs), *(id(p) for p in placeholders)}
    for collect in (False, True):
        if collect:
            gc.collect()
        # What was assigned is memory afterwards, and other threads may have read it meanwhile.
        leaked = [
            t for t in registry.iter_tensors()
            if id(t) not in known and alive.get(id(t)) is not t
            and not memories.isdisjoint(t.uop.toposort(stop=capture.assigned))
        ]  # fmt: skip
        if not leaked:
            return
    raise CaptureError(
        function=capture.name,
        problem=f"a tensor of shape {leaked[0].shape} that it computes is still held after it returned",
        hint="return the tensor, or assign it to one that was realized before",
    )


def _finish(
    name: str, capture: Capture, inputs: list[Input], outputs: Sequence[Tensor],
    build: Callable[[Iterator[object]], object], config: PrepareConfig, bound: Sequence[UOp],
) -> Captured:  # fmt: skip
    from svod_tensor.graph_plan import make_plan

    # Other threads may give tensors that the function holds other nodes meanwhile.
    nodes = {id(t): t.uop for t in outputs}
    parts = {key: parts_of(node) for key, node in nodes.items()}
    written = {state: memory for node in [*capture.states.values(), *nodes.values()]
               for state, memory in states.find_written(node).items()}  # fmt: skip
    computed = [
        (key, number, part) for key, found in parts.items() for number, part in enumerate(found)
        if 0 not in part.shape and not registry.is_buffer_identity(part) and states.find_whole_state(part) is None
    ]  # fmt: skip
    effects = list(capture.states.values())
    # What is returned as it is, or assigned to, keeps its content.
    kept = {*capture.states, *(registry.find_base(part) for found in parts.values() for part in found)}
    donated = {given.memory for given in inputs if given.is_donated} - kept
    plan = make_plan([*(part for *_, part in computed), *effects], config, donated) if computed or effects else None
    index_of: Mapping[int, int] = {} if plan is None else plan.ast_to_buffer
    for given in inputs:
        given.index, given.is_written = index_of.get(given.memory.arg.id), given.memory in capture.states
    memories = [] if plan is None else [
        (registry.make_memory(part.dtype, plan.buffers[index].size, plan.buffers[index].device), index)
        for (*_, part), index in zip(computed, plan.output_indices[: len(computed)], strict=True)
    ]  # fmt: skip
    made = {
        (key, number): view_prefix(memory, part.shape)
        for (key, number, part), (memory, _) in zip(computed, memories, strict=True)
    }
    result_of = {
        key: _make_result(node, [made.get((key, n)) or part.substitute(written) for n, part in enumerate(parts[key])])
        for key, node in nodes.items()
    }
    leaves = [*(given.memory for given in inputs), *(memory for memory, _ in memories)]
    results = Results([result_of[id(t)] for t in outputs], leaves)
    states.settle(written)
    if plan is not None:
        registry.add_plan(plan)
    return Captured(
        name, plan, inputs, memories, results, build,
        set(capture.states), _find_held(plan, inputs), bound, make_lock(),
    )  # fmt: skip


def _make_result(node: UOp, parts: Sequence[UOp]) -> UOp:
    """What stands for `node`, of which each part is memory now."""
    placement = node.placement
    return join_parts(parts, placement.axis) if isinstance(placement, Sharding) else parts[0]


def _find_held(plan: ExecutionPlan | None, inputs: Sequence[Input]) -> dict[str, Buffer]:
    """The memory of tensors that a function uses without getting them as arguments."""
    if plan is None:
        return {}
    own = {given.memory.arg.id for given in inputs}
    return {
        f"a tensor that the function holds (buffer {number})": plan.buffers[index]
        for number, index in plan.ast_to_buffer.items() if number > 0 and number not in own
    }  # fmt: skip


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
