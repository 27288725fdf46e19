"""`jit`: run a function of tensors as execution plans, one for each signature of its arguments.

The first call with a signature runs the function once on placeholders, and so captures the graph
that it builds; later calls only run the plan. Other effects of the function (printing, counting)
happen during the capture only.

- Tensors, and numpy arrays, anywhere in lists, tuples, dicts and objects are inputs; the plan reads
  them in their own memory. A `variable.bind(value)`, and an expression of it, is an input too: one
  plan serves all its values. Any other argument is part of the signature.
- A tensor that the function uses without getting it as an argument is read at each call: the plan
  sees assignments to it. A variable that is bound outside keeps its value; a call that binds it to
  another one is an error.
- All other outside values that the function can read, in globals, closures,
  objects, dicts and lists, are compared before each call (`outside_values`, `dependencies`). If one
  has changed, the function is captured anew; one plan is kept for each number or string.
- Assignments, to inputs and to other tensors, happen at each call.
- Each call's results have memory of their own.
- A tensor that the function assigns to without getting it as an argument needs memory: if it has
  none, the function runs once more.
- Any thread may call it. While a function is captured, other threads wait before they write or
  capture; where another thread has written to a tensor that the function reads meanwhile, it runs
  once more.
- Calls run in parallel, up to the number of cores, each with its own memory for intermediates;
  calls of a function that assigns, or that takes donated memory, run sequentially.
- Arguments named in `donate` are donated: results of their size are written in their memory, and
  using such a tensor afterwards is an error. A captured function that is called inside another one
  donates nothing.
"""

from __future__ import annotations

import functools
import sys
import types
import warnings
import weakref
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Generic, ParamSpec, TypeVar, cast, overload

from svod_device import DeviceLostError
from svod_dtype import default_float
from svod_ir import IROptions, UOp, get_logger
from svod_ir.forks import make_lock
from svod_tensor._function_name import name_function
from svod_tensor.capture.attribute_changes import is_observed
from svod_tensor.capture.calls import Captured
from svod_tensor.capture.checking import check_result
from svod_tensor.capture.donation import NOTHING_DONATED, Donate, resolve_donated
from svod_tensor.capture.dynamic_shapes import DynamicParameters, DynamicShapes, resolve_sizes
from svod_tensor.capture.function_plan import make_captured, name_inputs
from svod_tensor.capture.keys import list_weak_objects
from svod_tensor.capture.nested import Objects, has_objects
from svod_tensor.capture.quick import UNUSUAL, find_quick_call
from svod_tensor.capture.signature import describe_arguments, get_reason, read_arguments
from svod_tensor.cells import derivatives, registry, tables
from svod_tensor.cells.cell import Cell
from svod_tensor.errors import CaptureError
from svod_tensor.options import resolve_config
from svod_tensor.tensor import Tensor
from svod_tensor.tuning.plan_uses import noting_plan_use

if TYPE_CHECKING:
    from svod_dtype import DType
    from svod_runtime import ExecutionPlan
    from svod_tensor.capture.calls import FastPath
    from svod_tensor.options import AnyConfig

__all__ = ["MAX_CAPTURES", "JitFunction", "jit"]

P = ParamSpec("P")
R = TypeVar("R")

MAX_CAPTURES: Final = 64
"""Number of plans that a function keeps; the least recently used one is dropped first."""

MAX_SIZES: Final = 512
"""Number of signatures that a function keeps: plans of their own, and sizes of plans for all sizes."""

MAX_NETWORKS: Final = 4
"""Number of captures for different networks, or other objects of observed classes, after which such
objects become trees. A plan for all networks of one structure costs each call the time to flatten
one, 1 to 2 ms for a hundred parameters, and saves a capture for each network.
"""

MANY_CAPTURES: Final = 32
"""Number of captures of a function after which a warning gives the reason of the last one."""

N_FIXED: Final = 2
"""Number of captures of a function that get kernels for their sizes; later ones may share kernels with
symbolic sizes.
"""

_log = get_logger("tensor")


@overload
def jit(
    function: Callable[P, R],
    /,
    *,
    config: AnyConfig | None = None,
    donate: Donate = (),
    dynamic_shapes: DynamicShapes | None = None,
) -> JitFunction[P, R]: ...
@overload
def jit(
    *,
    config: AnyConfig | None = None,
    donate: Donate = (),
    dynamic_shapes: DynamicShapes | None = None,
) -> Callable[[Callable[P, R]], JitFunction[P, R]]: ...
def jit(
    function: Callable[P, R] | None = None,
    /,
    *,
    config: AnyConfig | None = None,
    donate: Donate = (),
    dynamic_shapes: DynamicShapes | None = None,
) -> JitFunction[P, R] | Callable[[Callable[P, R]], JitFunction[P, R]]:
    """Run `function`, which computes tensors from tensors, as one execution plan for each
    signature.

    Args:
        function: the function to run.
        config: options of its plans, or an `OptimizerConfig` as a part of them; by default the
            environment's.
        donate: names or positions of parameters (`self` counts) whose tensors are donated by each
            call: their memory may hold intermediates and results, and they cannot be used
            afterwards. `x = step(x)` then needs no second buffer where `x` is large. Memory of a
            numpy array is copied before.
        dynamic_shapes: the variable of each axis whose size differs between calls, by parameter
            (name or position): `{"x": {0: Variable("n", 1, 512)}}`. All sizes within the bounds share
            one plan, and the function sees the size as an expression of the variable. A size
            outside of the bounds gets a plan of its own, and so does each size if the function
            assigns to tensors.

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
             memory: arena: 0 intermediates of 0 bytes

    Raises:
        ConfigError: if `config` is not a configuration.
        DonationError: if `donate` does not name a parameter.
        DynamicShapeError: if `dynamic_shapes` does not name parameters, axes and variables.

    Raises (when called):
        CaptureError: if the function reads values while it is captured, returns an object that is
            not a tree of tensors, or changes an argument other than by writing to its tensors.
        VariableConflictError: if a variable has two values in one call.
        BoundsConflictError: if two variables have one name.
        DonationError: if a donated argument is a file, not a tensor, or used under another name
            too.
        DonatedTensorError: if an argument was donated before.
    """
    if function is None:
        return lambda f: JitFunction(f, config, donate, dynamic_shapes)
    return JitFunction(function, config, donate, dynamic_shapes)


class JitFunction(Generic[P, R]):
    """A function that runs as plans; any thread may call it."""

    def __init__(
        self,
        function: Callable[P, R],
        config: AnyConfig | None,
        donate: Donate = (),
        dynamic_shapes: DynamicShapes | None = None,
    ) -> None:
        self.function = function
        if config is not None:
            resolve_config(config)  # raises errors here; the environment is read at each capture
        self._config = config
        self._donated = (
            resolve_donated(self._name, function, donate) if donate != () else NOTHING_DONATED
        )
        self._dynamic = (
            DynamicParameters(self._name, function, dynamic_shapes) if dynamic_shapes else None
        )
        self._captures: dict[tuple[object, ...], list[Captured]] = {}
        self._quick: FastPath | None = None
        self._quick_kind = default_float()
        self._quick_calls: dict[tuple[object, ...], FastPath] = {}
        self._objects = Objects.UNOBSERVED
        self._n_networks = 0
        self._n_calls = self._n_captured = 0
        self._lock, self._capturing = make_lock(), make_lock()
        self._is_changing = self._has_dead = False
        self._n_dead = 0
        functools.update_wrapper(self, function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        quick = self._quick
        # The default dtype is not an outside value, but affects the trace: it is part of the key.
        kind = default_float()
        if (
            quick is not None
            and kind is self._quick_kind
            and not (kwargs or tables.captured or derivatives.active)
        ):
            try:
                result = quick.run(args)
            except DeviceLostError:
                self._forget(quick.captured)
                raise
            if result is UNUSUAL and len(self._quick_calls) > 1:
                result = self._run_other_quick(quick, kind, args)
            if result is not UNUSUAL:
                return cast("R", result)
        # The outer capture or derivative must see the operations themselves, not a plan.
        if registry.find_capture() is not None or derivatives.is_differentiating():
            return self.function(*args, **kwargs)
        if self._has_dead:
            self._drop_dead()
        key, inputs, borrowed = read_arguments(args, kwargs, objects=self._objects)
        key = (kind, *key)
        known = self._captures.get(key)
        captured = known[0] if known else None
        if (
            captured is None
            or (captured.can_change and not captured.is_current)
            or captured.is_outgrown
        ):
            with self._capturing:
                # Again, now under the lock: another thread may have captured this signature
                # meanwhile.
                captured = self._find(key)
                if captured is None:
                    if self._has_many_networks(key):
                        return self._call_with_trees(*args, **kwargs)
                    captured = self._find_sized(inputs, args, kwargs)
                    if captured is None:
                        captured = self._capture(key, inputs, args, kwargs)
                elif captured.is_outgrown:
                    captured = self._capture(key, inputs, args, kwargs, before=captured)
                self._keep(key, captured)
        self._count_call(captured)
        if captured.direct is not None and not kwargs and not captured.is_checked:
            self._enable_quick(key, captured, args)
        if captured.written and captured.has_aliases(inputs):
            if self._objects is not Objects.NONE and any(
                has_objects(value, self._objects) for value in (*args, *kwargs.values())
            ):
                # The function also holds a tensor of an object that it gets as an argument, as an
                # optimizer holds parameters of a network. From now on objects are compared by
                # identity and their tensors are held.
                self._objects = Objects.NONE
                self.clear()
                return self(*args, **kwargs)
            return self.function(*args, **kwargs)
        try:
            result = captured.run(inputs, borrowed)
        except DeviceLostError:
            self._forget(captured)
            raise
        if captured.is_checked:
            check_result(self._name, result, lambda: self.function(*args, **kwargs))
        return cast("R", result)

    def _find_sized(
        self, given: Sequence[Tensor | UOp], args: Sequence[object], kwargs: Mapping[str, object]
    ) -> Captured | None:
        """The plan for all dynamic sizes with the sizes of this call, if there is one."""
        symbolic = None if self._dynamic is None else self._dynamic.make_symbolic(args, kwargs)
        if symbolic is None:
            return None
        key, inputs, _ = read_arguments(symbolic.args, symbolic.kwargs, objects=self._objects)
        key = (default_float(), *key)
        captured = self._find(key)
        if captured is None:
            captured = self._capture(key, inputs, symbolic.args, symbolic.kwargs)
            self._keep(key, captured)
        # Each use counts as a call, so that plans of single sizes are dropped first.
        captured.last_call = self._n_calls + 1
        sized = resolve_sizes(captured, given, symbolic.values)
        if sized is not None:
            sized.arguments = describe_arguments(args, kwargs, objects=self._objects)
            sized.reason = "with a plan for all sizes"
        return sized

    def _has_many_networks(self, key: tuple[object, ...]) -> bool:
        """Whether a new network exceeds the number of networks that get plans of their own."""
        return (
            self._n_networks >= MAX_NETWORKS
            and self._objects is Objects.UNOBSERVED
            and any(map(is_observed, list_weak_objects(key)))
        )

    def _call_with_trees(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Treat networks as trees from now on and call the function, unless it cannot be captured
        so.
        """
        self._objects = Objects.ALL
        self.clear()
        try:
            return self(*args, **kwargs)
        except CaptureError:
            # For example, the function sets an attribute of a network.
            # The count never reaches the limit again, so this is tried only once.
            self._objects, self._n_networks = Objects.UNOBSERVED, -sys.maxsize
            self.clear()
            return self(*args, **kwargs)

    def _count_call(self, captured: Captured) -> None:
        with self._lock:
            self._disable_quick()
            self._n_calls = captured.last_call = self._n_calls + 1
            captured.n_calls += 1

    def _disable_quick(self) -> None:
        """Disable the fast path. Calls that took it count as the last ones."""
        quick, self._quick = self._quick, None
        if quick is not None:
            quick.captured.last_call = self._n_calls

    def _enable_quick(
        self, key: tuple[object, ...], captured: Captured, args: Sequence[object]
    ) -> None:
        """Use the fast path in calls that are like one with these arguments."""
        if captured.quick is None:
            captured.quick = find_quick_call(captured, args, self._objects)
        with self._lock:
            # Another thread may have dropped the plan.
            if any(known is captured for known in self._captures.get(key, ())):
                self._quick, self._quick_kind = captured.quick, default_float()
                specs = _list_specs(default_float(), args)
                if captured.quick is not None and specs is not None:
                    self._quick_calls[specs] = captured.quick

    def _run_other_quick(self, quick: FastPath, kind: DType, args: Sequence[object]) -> object:
        """The results of the fast path for tensors with these specs, which later calls try first;
        `UNUSUAL` if nothing was done.
        """
        specs = _list_specs(kind, args)
        other = None if specs is None else self._quick_calls.get(specs)
        if other is None or other is quick:
            return UNUSUAL
        with self._lock:
            self._disable_quick()
            # Another thread may have dropped the plan.
            if self._quick_calls.get(specs) is not other:
                return UNUSUAL
            self._quick = other
        try:
            return other.run(args)
        except DeviceLostError:
            self._forget(other.captured)
            raise

    def _forget(self, captured: Captured) -> None:
        """Drop a plan whose device was lost; the function is captured again once the device is open
        again.
        """
        with self._changing():
            self._remove(captured)

    @contextmanager
    def _changing(self) -> Generator[None]:
        """Allow plans to be added and dropped in the block; finalizers that run meanwhile drop
        theirs at its end.
        """
        with self._lock:
            is_inside, self._is_changing = self._is_changing, True
            try:
                yield
            finally:
                self._is_changing = is_inside
                self._drop_dead()

    def on_owner_death(self) -> None:
        """Drop plans of an argument that has just died. Finalizers call this, at any step of any
        thread.
        """
        self._has_dead = True
        self._drop_dead()

    def _drop_dead(self) -> None:
        """Drop the plans that no call can use since an argument of theirs has died, unless plans
        are being changed now.
        """
        # A finalizer must never block, so the lock is only tried. It is reentrant, so the flag
        # tells whether this thread is inside of `_changing`.
        while self._has_dead and not self._is_changing and self._lock.acquire(blocking=False):
            try:
                if not self._is_changing:
                    self._is_changing, self._has_dead = True, False
                    for captured in self._list():
                        if captured.has_lost_owner:
                            self._remove(captured)
                            self._n_dead += 1
                    self._is_changing = False
            finally:
                self._lock.release()

    def __get__(self, instance: object, owner: type | None = None) -> object:
        return self if instance is None else types.MethodType(self, instance)

    @property
    def n_captures(self) -> int:
        """Number of plans that are kept."""
        self._drop_dead()
        return len(
            {id(captured.plan) if captured.sizes else id(captured) for captured in self._list()}
        )

    def plans(self) -> list[ExecutionPlan]:
        """Return the plan of each signature, for inspection. Signatures without computation have
        none.
        """
        plans = {id(c.plan): c.plan for c in self._list() if c.plan is not None}
        return list(plans.values())

    def explain(self) -> str:
        """Describe each signature that has a plan, with the reason for its capture."""
        with self._lock:
            kept = self._list()
            n_calls = self._n_calls + sum(captured.n_quick_calls for captured in kept)
            lines = [
                f"{self._name}: {_format_count(len(kept), 'capture')}, {_format_count(n_calls, 'call')}"
            ]
            for index, captured in enumerate(kept, 1):
                kernels = _format_count(captured.n_kernels, "kernel")
                calls = _format_count(captured.n_calls + captured.n_quick_calls, "call")
                lines.append(f"  {index}. {calls}, {kernels}; captured {captured.reason}")
                lines += [
                    f"     {argument.path}: {argument.text}" for argument in captured.arguments
                ]
                if captured.plan is not None:
                    lines.append(f"     memory: {captured.plan.memory_report}")
            return "\n".join(lines)

    def clear(self) -> None:
        """Drop every plan."""
        with self._changing():
            for captured in self._list():
                self._remove(captured)

    def _list(self) -> list[Captured]:
        return [captured for known in list(self._captures.values()) for captured in known]

    def _find(self, key: tuple[object, ...]) -> Captured | None:
        """Return the plan for a signature that is valid now."""
        return next(
            (captured for captured in self._captures.get(key, ()) if captured.is_current), None
        )

    def _keep(self, key: tuple[object, ...], captured: Captured) -> None:
        """Make a plan the first to be tried for a signature, and drop plans that no later call can
        use.
        """
        with self._changing():
            self._disable_quick()
            for expired in [
                c
                for c in self._captures.get(key, ())
                if c is not captured and (c.is_outgrown or c.has_expired)
            ]:
                self._remove(expired)
            self._captures[key] = [
                captured,
                *(c for c in self._captures.get(key, ()) if c is not captured),
            ]
            while self.n_captures > MAX_CAPTURES or len(self._captures) > MAX_SIZES:
                oldest = min(
                    (c for c in self._list() if c is not captured), key=lambda c: c.last_call
                )
                self._remove(oldest)

    def _remove(self, captured: Captured) -> None:
        self._disable_quick()
        self._quick_calls.clear()
        if any(known is captured for known in self._list()):
            self._n_calls += captured.n_quick_calls
        for key, known in list(self._captures.items()):
            remaining = [c for c in known if c is not captured]
            if remaining:
                self._captures[key] = remaining
            else:
                del self._captures[key]

    @property
    def _name(self) -> str:
        return name_function(self.function)

    def _capture(
        self,
        key: tuple[object, ...],
        given: Sequence[Tensor | UOp],
        args: Sequence[object],
        kwargs: Mapping[str, object],
        before: Captured | None = None,
    ) -> Captured:
        """Capture a call; `before` is an outgrown plan of its signature, which it replaces."""
        arguments = describe_arguments(args, kwargs, objects=self._objects)
        reason = get_reason(arguments, [(c.arguments, c.describe_change()) for c in self._list()])
        if not self._captures and self._n_dead:
            reason = "since an object that another plan was for is gone"
        kind = default_float()
        if self._captures and not any(key[0] is kind for key in list(self._captures)):
            reason = f"since the default dtype is {kind}"
        config = resolve_config(self._config)
        inputs = name_inputs(self._name, arguments, self._donated)
        weak = list_weak_objects(key)
        self._n_networks += self._objects is Objects.UNOBSERVED and any(map(is_observed, weak))
        captured = None
        with noting_plan_use(self._name) as use:
            while captured is None:
                captured = make_captured(
                    self._name,
                    self.function,
                    given,
                    args,
                    kwargs,
                    inputs,
                    config,
                    objects=self._objects,
                    weak=weak,
                    # A function that is called with one or two signatures keeps kernels for their sizes.
                    may_resize=before is None and self._n_captured >= N_FIXED,
                )
        use.captured = captured
        if before is not None:
            reason, captured.n_calls = before.reason, before.n_calls
        on_owner_death = functools.partial(_on_owner_death, weakref.ref(self))
        captured.owners = [weakref.ref(owner, on_owner_death) for owner in weak]
        captured.reason, captured.arguments = reason, arguments
        # The plain function runs a second time for the check, so it must have no side effects.
        captured.is_checked = bool(IROptions.from_env().check) and not captured.takes_memory
        self._n_captured += before is None
        if self._n_captured == MANY_CAPTURES:
            warnings.warn(
                f"{self._name} was captured {MANY_CAPTURES} times, which compiles it anew; the last"
                f" time {reason}. One plan serves all values of tensors and of variables: give it"
                " numbers as tensors, and sizes as bound variables.",
                RuntimeWarning,
                stacklevel=3,
            )
        _log.info("jit.captured", function=self._name, reason=reason, kernels=captured.n_kernels)
        return captured


def _list_specs(kind: DType, args: Sequence[object]) -> tuple[object, ...] | None:
    """The default dtype and the specs of the tensors among arguments; None if one is not known."""
    specs: list[object] = [kind]
    for value in args:
        if type(value) is Tensor:
            content = value.content
            spec = content.known_spec if type(content) is Cell else None
            if spec is None:
                return None
            specs.append(spec)
    return tuple(specs)


def _format_count(n: int, noun: str) -> str:
    return f"{n} {noun}{'' if n == 1 else 's'}"


def _on_owner_death(function: weakref.ref[JitFunction[Any, Any]], _: object) -> None:
    captured_function = function()
    if captured_function is not None:
        captured_function.on_owner_death()
