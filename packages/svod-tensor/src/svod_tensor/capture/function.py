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
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Generic, ParamSpec, Self, TypeVar, cast, overload

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
from svod_tensor.capture.function_plan import make_captured
from svod_tensor.capture.keys import list_weak_objects
from svod_tensor.capture.nested import Objects, has_objects
from svod_tensor.capture.pickling import reduce_function
from svod_tensor.capture.plan_table import PlanTable
from svod_tensor.capture.quick import UNUSUAL, find_quick_call
from svod_tensor.capture.signature import (
    describe_arguments,
    get_reason,
    name_inputs,
    read_arguments,
)
from svod_tensor.capture.tracing import TracedCall
from svod_tensor.cells import derivatives, registry, tables
from svod_tensor.errors import CaptureError
from svod_tensor.options import resolve_config
from svod_tensor.tensor import Tensor
from svod_tensor.tuning.plan_uses import noting_plan_use

if TYPE_CHECKING:
    from svod_runtime import ExecutionPlan
    from svod_tensor.options import AnyConfig

__all__ = ["JitFunction", "jit"]

P = ParamSpec("P")
R = TypeVar("R")

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
        self._options = config, donate, dynamic_shapes
        self._donated = (
            resolve_donated(self._name, function, donate) if donate != () else NOTHING_DONATED
        )
        self._dynamic = (
            DynamicParameters(self._name, function, dynamic_shapes) if dynamic_shapes else None
        )
        self._plans = PlanTable()
        self._objects = Objects.UNOBSERVED
        self._n_networks = self._n_captured = 0
        self._capturing = make_lock()
        functools.update_wrapper(self, function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        plans = self._plans
        quick = plans.quick
        # The default dtype is not an outside value, but affects the trace: it is part of the key.
        kind = default_float()
        if (
            quick is not None
            and kind is plans.quick_kind
            and not (kwargs or tables.captured or derivatives.active)
        ):
            try:
                result = quick.run(args)
            except DeviceLostError:
                plans.forget(quick.captured)
                raise
            if result is UNUSUAL:
                result = plans.run_other_quick(quick, kind, args)
            if result is not UNUSUAL:
                return cast("R", result)
        # The outer capture or derivative must see the operations themselves, not a plan.
        if registry.find_capture() is not None or derivatives.is_differentiating():
            return self.function(*args, **kwargs)
        plans.drop_dead()
        key, inputs, borrowed = read_arguments(args, kwargs, objects=self._objects)
        key = (kind, *key)
        captured = plans.find_first(key)
        if (
            captured is None
            or (captured.validity.can_change and not captured.validity.is_current)
            or captured.is_outgrown
        ):
            with self._capturing:
                # Again, now under the lock: another thread may have captured this signature
                # meanwhile.
                captured = plans.find(key)
                if captured is None:
                    if self._has_many_networks(key):
                        return self._call_with_trees(*args, **kwargs)
                    captured = self._find_sized(inputs, args, kwargs)
                    if captured is None:
                        captured = self._capture(key, inputs, args, kwargs)
                elif captured.is_outgrown:
                    captured = self._capture(key, inputs, args, kwargs, before=captured)
                plans.keep(key, captured)
        plans.count_call(captured)
        if captured.direct is not None and not kwargs and not captured.is_checked:
            if captured.quick is None:
                captured.quick = find_quick_call(captured, args, self._objects)
            plans.enable_quick(key, captured, args)
        if captured.writes is not None and captured.writes.has_aliases(inputs):
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
            plans.forget(captured)
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
        if len(inputs) != len(given):
            # An argument with a dynamic shape is in a tree, too.
            return None
        key = (default_float(), *key)
        captured = self._plans.find(key)
        if captured is None:
            captured = self._capture(key, inputs, symbolic.args, symbolic.kwargs)
            self._plans.keep(key, captured)
        return resolve_sizes(captured, given, symbolic.values)

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

    def __get__(self, instance: object, owner: type | None = None) -> object:
        return self if instance is None else types.MethodType(self, instance)

    def __reduce__(self) -> str | tuple[object, ...]:
        return reduce_function(self, JitFunction, self.function, *self._options)

    # Copies would capture anew; as copies of functions, they are the function itself.
    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self

    @property
    def n_captures(self) -> int:
        """Number of plans that are kept."""
        return len(self._plans)

    @property
    def assigns(self) -> bool:
        """True if a captured signature writes to tensors."""
        return any(captured.assigns for captured in self._plans.list_plans())

    def plans(self) -> list[ExecutionPlan]:
        """Return the plan of each signature, for inspection. Signatures without computation have
        none.
        """
        return [c.plan for c in self._plans.list_plans() if c.plan is not None]

    def explain(self) -> str:
        """Describe each signature that has a plan, with the reason for its capture."""
        plans = self._plans
        kept = plans.list_plans()
        lines = [
            f"{self._name}: {_format_count(len(kept), 'capture')},"
            f" {_format_count(plans.count_all_calls(), 'call')}"
        ]
        for index, captured in enumerate(kept, 1):
            kernels = _format_count(captured.n_kernels, "kernel")
            calls = _format_count(plans.count_calls(captured), "call")
            lines.append(f"  {index}. {calls}, {kernels}; captured {captured.reason}")
            lines += [f"     {argument.path}: {argument.text}" for argument in captured.arguments]
            if captured.plan is not None:
                lines.append(f"     memory: {captured.plan.memory_report}")
        return "\n".join(lines)

    def clear(self) -> None:
        """Drop every plan."""
        self._plans.clear()

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
        reason = get_reason(
            arguments,
            [(c.arguments, c.validity.describe_change()) for c in self._plans.list_plans()],
        )
        known_keys = self._plans.list_keys()
        if not known_keys and self._plans.n_dead:
            reason = "since an object that another plan was for is gone"
        kind = default_float()
        if known_keys and not any(key[0] is kind for key in known_keys):
            reason = f"since the default dtype is {kind}"
        config = resolve_config(self._config)
        inputs = name_inputs(self._name, arguments, self._donated)
        weak = list_weak_objects(key)
        self._n_networks += self._objects is Objects.UNOBSERVED and any(map(is_observed, weak))
        call = TracedCall(
            self._name, self.function, args, kwargs, given, inputs, self._objects, weak
        )
        # A function that is called with one or two signatures keeps kernels for their sizes.
        may_resize = before is None and self._n_captured >= N_FIXED
        with noting_plan_use(self._name) as use:
            captured = make_captured(call, config, may_resize=may_resize)
        use.captured = captured
        if before is not None:
            reason, captured.n_calls = before.reason, before.n_calls
        on_owner_death = self._plans.make_death_listener()
        captured.validity.owners = [weakref.ref(owner, on_owner_death) for owner in weak]
        captured.reason, captured.arguments = reason, arguments
        # The plain function runs a second time for the check, so it must have no side effects.
        captured.is_checked = bool(IROptions.from_env().check) and captured.writes is None
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


def _format_count(n: int, noun: str) -> str:
    return f"{n} {noun}{'' if n == 1 else 's'}"
