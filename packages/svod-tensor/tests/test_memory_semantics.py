"""Random programs of views, values and writes mean what they mean in numpy, whenever anything is
computed.

A program is drawn as a list of statements; each works on tensors and, in the same way, on arrays.
Statements that only compute (realize, print, prepare, copy, pickle) stand anywhere between the
others, and must not be seen. `SVOD_TEST_PROGRAMS=20000` runs that many."""

from __future__ import annotations

import contextlib
import copy
import operator as op
import os
import pickle
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from svod_tensor import Tensor, jit
from svod_tensor.cells import registry
from svod_tensor.errors import EmptyScheduleError

N_PROGRAMS = int(os.environ.get("SVOD_TEST_PROGRAMS", "500"))
MAX_VARIABLES = 6
FAR = "CPU:1"


class Statement(NamedTuple):
    """A kind of statement, and numbers that say of which variables, and which of its forms."""

    kind: str
    x: int
    y: int
    form: int


class Variable(NamedTuple):
    """The same thing as a tensor and as an array."""

    tensor: Tensor
    array: np.ndarray

    @property
    def family(self) -> int:
        """The same for all arrays that are views of one."""
        array = self.array
        while isinstance(array.base, np.ndarray):
            array = array.base
        return id(array)


def value(array: np.ndarray) -> np.ndarray:
    """An array that is no view, in row-major order as the content of every new tensor."""
    return np.array(array, np.int32, order="C")


# What gives a tensor of its own.
VALUES: list[tuple[str, Callable[[Any], Any], Callable[[Any], Any]]] = [
    ("{x} + 1", lambda x: x + 1, lambda a: a + 1),
    ("{x} * 3", lambda x: x * 3, lambda a: a * 3),
    ("{x} * 1", lambda x: x * 1, lambda a: a * 1),
    ("{x} + 0", lambda x: x + 0, lambda a: a),
    ("{x} // 1", lambda x: x // 1, lambda a: a),
    ("+{x}", lambda x: +x, lambda a: a),
    ("{x}.astype('int32')", lambda x: x.astype("int32"), lambda a: a),
    ("{x}.clip()", lambda x: x.clip(), lambda a: a),
    ("{x}.roll(0)", lambda x: x.roll(0), lambda a: a),
    ("{x}.floor()", lambda x: x.floor(), lambda a: a),
    ("{x}.tile(1)", lambda x: x.tile(1) if x.ndim else x.tile(), lambda a: a),
    ("Tensor({x})", Tensor, lambda a: a),
    ("{x}.clone()", lambda x: x.clone(), lambda a: a),
    ("{x}.contiguous()", lambda x: x.contiguous(), lambda a: a),
    ("copy.copy({x})", copy.copy, lambda a: a),
    ("copy.deepcopy({x})", copy.deepcopy, lambda a: a),
    ("pickle.loads(pickle.dumps({x}))", lambda x: pickle.loads(pickle.dumps(x)), lambda a: a),
    ("Tensor.concat([{x}])", lambda x: Tensor.concat([x]) if x.ndim else x + 0, lambda a: a),
    (
        "{x}.sum(0)",
        lambda x: x.sum(0, dtype="int32") if x.ndim else x + 0,
        lambda a: a.sum(0) if a.ndim else a,
    ),
    ("{x}.zeros_like()", lambda x: x.zeros_like(), lambda a: a * 0),
    (
        "{x}.cumsum(0)",
        lambda x: x.cumsum(0, dtype="int32") if x.ndim else x + 0,
        lambda a: a.cumsum(0) if a.ndim else a,
    ),
]

# What gives a view, where numpy gives one.
VIEWS: list[tuple[str, Callable[[Any], Any], Callable[[Any], Any]]] = [
    ("{x}.reshape(-1)", lambda x: x.reshape(-1), lambda a: a.reshape(-1)),
    ("{x}.reshape(-1, 2)", lambda x: x.reshape(-1, 2), lambda a: a.reshape(-1, 2)),
    ("{x}.reshape(3, -1)", lambda x: x.reshape(3, -1), lambda a: a.reshape(3, -1)),
    ("{x}.T", lambda x: x.T, lambda a: a.T),
    ("{x}.flip(0)", lambda x: x.flip(0), lambda a: np.flip(a, 0)),
    ("{x}.unsqueeze(0)", lambda x: x.unsqueeze(0), lambda a: a[None]),
    ("{x}.squeeze()", lambda x: x.squeeze(), np.squeeze),
    ("{x}.detach()", lambda x: x.detach(), lambda a: a[...]),
    (
        "{x}.broadcast_to(2, ...)",
        lambda x: x.broadcast_to((2, *x.shape)),
        lambda a: np.broadcast_to(a, (2, *a.shape)),
    ),
    ("{x}.split(1)[-1]", lambda x: x.split(1)[-1], lambda a: np.split(a, a.shape[0])[-1]),
]

_S = np.s_
INDICES = [
    _S[0],
    _S[-1],
    _S[1:],
    _S[:-1],
    _S[::-1],
    _S[::2],
    _S[1::2],
    _S[...],
    _S[..., 0],
    _S[..., 1:],
    _S[:, 0],
    _S[:, ::2],
    _S[None],
    _S[0, 0],
    _S[:0],
    _S[1, ::-1],
]
PLACES = [*INDICES, [0], [1, 0], np.array([True, False])]


AUGMENTED = [op.iadd, op.isub, op.imul, op.ifloordiv, op.imod, op.iand, op.ior, op.ixor]


def twice(x: Any) -> Any:
    return x * 2 + 1


def write_first(x: Any) -> Any:
    x[0] = x[0] * 3 + 1
    return x + 1


def copy_and_write(x: Any) -> Any:
    y = x * 1
    y[0] = 5
    return y, x


def write_and_copy(x: Any) -> Any:
    before = x * 1
    x[...] = x + 7
    after = x * 1
    x[0] = 9
    return before, after


def give_back(x: Any) -> Any:
    return x


def give_view(x: Any) -> Any:
    return x[1:], x + 2


def give_base_and_view(x: Any) -> Any:
    y = np.multiply(x, 5, order="C") if isinstance(x, np.ndarray) else x * 5
    return y, y[0:1]


def add_to(x: Any, y: Any) -> Any:
    x[...] = x + y
    return y * 1


FUNCTIONS = [
    twice,
    write_first,
    copy_and_write,
    write_and_copy,
    give_back,
    give_view,
    give_base_and_view,
]
CAPTURED = {function: jit(function) for function in (*FUNCTIONS, add_to)}
DONATING = jit(lambda x: (x * 2, x[:1]), donate=0)


class Run:
    """One program in the running."""

    def __init__(self) -> None:
        self.variables: list[Variable] = []
        self.kept: list[tuple[np.ndarray, np.ndarray]] = []
        # Arrays that share the memory of a tensor, and what the tensor is in numpy.
        self.shared: list[tuple[np.ndarray, Variable]] = []
        # Such arrays after the tensor was assigned to, and what they keep.
        self.left: list[tuple[np.ndarray, np.ndarray]] = []
        # Captured functions, what they do, and the variable that they hold.
        self.functions: list[
            tuple[Callable[[Any], Any], Callable[[Any, Any], Any], Variable, bool]
        ] = []
        # The families that begin with the array of somebody else, which tensors do not write.
        self.foreign: set[int] = set()
        self.lines: list[str] = []
        self.n = 0

    def add(self, text: str, tensor: Tensor, array: np.ndarray) -> None:
        if len(self.variables) >= MAX_VARIABLES:
            del self.variables[0]
        self.lines.append(f"{text}    # {tensor.shape}")
        assert tensor.shape == array.shape, self.lines
        self.variables.append(Variable(tensor, array))

    def step(self, s: Statement) -> None:
        if not self.variables or s.kind == "new":
            self.make(s)
            return
        getattr(self, f"do_{s.kind}")(s, *self.pick(s.x))

    def pick(self, number: int) -> Variable:
        return self.variables[number % len(self.variables)]

    def make(self, s: Statement) -> None:
        self.n += 1
        shape = ((2, 3), (4,), (2, 2))[s.x % 3]
        array = np.arange(np.prod(shape), dtype=np.int32).reshape(shape) + 10 * self.n
        match s.form % 4:
            case 0:
                self.add(
                    f"zeros{shape}", Tensor.zeros(*shape, dtype="int32"), np.zeros(shape, np.int32)
                )
            case 1:
                self.add(f"data{shape} on {FAR}", Tensor(array, device=FAR), array)
            case 2:
                shared = array.copy()
                self.add(f"from_numpy{shape}", Tensor.from_numpy(shared), array)
                self.foreign.add(self.variables[-1].family)
            case _:
                self.add(f"data{shape}", Tensor(array), array)

    def do_value(self, s: Statement, x: Tensor, a: np.ndarray) -> None:
        text, on_tensors, on_arrays = VALUES[s.form % len(VALUES)]
        self.add(text.format(x=s.x), on_tensors(x), value(on_arrays(a)))

    def do_binary(self, s: Statement, x: Tensor, a: np.ndarray) -> None:
        y, b = self.pick(s.y)
        if a.shape == b.shape and x.device == y.device:
            self.add(f"{s.x} - {s.y}", x - y, value(a - b))

    def do_view(self, s: Statement, x: Tensor, a: np.ndarray) -> None:
        text, on_tensors, on_arrays = VIEWS[s.form % len(VIEWS)]
        try:
            array = on_arrays(a)
        except (ValueError, IndexError, ZeroDivisionError):
            return
        if 0 in a.shape:
            return
        # Where numpy copies, the content of the new tensor is in row-major order.
        self.add(
            text.format(x=s.x),
            on_tensors(x),
            array if np.may_share_memory(array, a) else value(array),
        )

    def do_index(self, s: Statement, x: Tensor, a: np.ndarray) -> None:
        index = INDICES[s.form % len(INDICES)]
        try:
            array = a[index]
        except IndexError:
            return
        # As many integers as axes give a number, and a value of svod.
        self.add(
            f"{s.x}[{index}]", x[index], array if isinstance(array, np.ndarray) else value(array)
        )

    def do_augment(self, s: Statement, x: Tensor, a: np.ndarray) -> None:
        operator = AUGMENTED[s.form % len(AUGMENTED)]
        if not a.flags.writeable:
            return
        y, b = self.pick(s.y)
        self.lines.append(f"{operator.__name__}({s.x}, {s.y} or number)")
        self.end_sharing(a)
        takes_tensor = (
            operator not in (op.ifloordiv, op.imod)
            and b.shape in (a.shape, ())
            and x.device == y.device
        )
        other, wanted = (y, b.copy()) if takes_tensor else (s.y + 1, s.y + 1)
        assert operator(x, other) is x
        assert operator(a, wanted) is a

    def do_keep(self, s: Statement, x: Tensor, a: np.ndarray) -> None:
        """An array of a tensor, which never changes."""
        self.lines.append(f"keep {s.x}.numpy()")
        self.kept.append((x.numpy(), a.copy()))

    def do_share(self, s: Statement, x: Tensor, a: np.ndarray) -> None:
        """An array that is written, and that the tensor shares its memory with from now on."""
        one = self.pick(s.x)
        array = np.asarray(x)
        if not array.flags.writeable:
            assert not a.flags.writeable or one.family in self.foreign
            self.kept.append((array, a.copy()))
            return
        np.testing.assert_array_equal(array, a)
        # Where an assignment changed nothing, an array may share the memory still.
        self.left = [
            (other, wanted) for other, wanted in self.left if not np.may_share_memory(other, array)
        ]
        self.write_shared(array, one, s)
        if s.y % 4:
            self.shared.append((array, one))

    def do_write_shared(self, s: Statement, x: Tensor, a: np.ndarray) -> None:
        if self.shared:
            self.write_shared(*self.shared[s.y % len(self.shared)], s)

    def do_drop_shared(self, s: Statement, x: Tensor, a: np.ndarray) -> None:
        del self.shared[s.y % 2 :]

    def write_shared(self, array: np.ndarray, one: Variable, s: Statement) -> None:
        self.lines.append(f"write array {id(array)} of shape {array.shape}, (with +) {s.form}")
        for target in (array, one.array):
            if s.form % 3:
                target += np.int32(s.form)
            else:
                target[...] = np.int32(s.form)

    def end_sharing(self, a: np.ndarray) -> None:
        """What is written is not what arrays show any more, which keep what they have."""
        written = Variable(Tensor(0), a).family
        self.left += [(array, array.copy()) for array, one in self.shared if one.family == written]
        self.shared = [(array, one) for array, one in self.shared if one.family != written]

    def do_move(self, s: Statement, x: Tensor, a: np.ndarray) -> None:
        device = (FAR, "CPU")[s.form % 2]
        self.add(f"{s.x}.to({device})", x.to(device), value(a))

    def do_assign(self, s: Statement, x: Tensor, a: np.ndarray) -> None:
        y, b = self.pick(s.y)
        if not a.flags.writeable or b.shape != a.shape or x.device != y.device:
            return
        self.lines.append(f"{s.x}.assign({s.y} + {s.form})")
        self.end_sharing(a)
        if s.form % 3 == 0:
            x.assign(y)
            a[...] = b.copy()
        else:
            x.assign(y + s.form)
            a[...] = b + np.int32(s.form)

    def do_write(self, s: Statement, x: Tensor, a: np.ndarray) -> None:
        index = PLACES[s.form % len(PLACES)]
        if not a.flags.writeable:
            return
        try:
            place = a[index]
        except IndexError:
            return
        y, b = self.pick(s.y)
        self.lines.append(f"{s.x}[{index}] = {s.y} or number")
        self.end_sharing(a)
        if (
            b.shape == place.shape
            and x.device == y.device
            and not isinstance(index, (list, np.ndarray))
        ):
            a[index] = b.copy()
            x[index] = y
        elif s.y % 2:
            a[index] += 3
            x[index] += 3
        else:
            a[index] = s.y
            x[index] = s.y

    def do_forget(self, s: Statement, x: Tensor, a: np.ndarray) -> None:
        self.lines.append(f"del {s.x}")
        del self.variables[s.x % len(self.variables)]

    def do_call(self, s: Statement, x: Tensor, a: np.ndarray) -> None:
        function = FUNCTIONS[s.form % len(FUNCTIONS)]
        if not a.ndim or not a.size or not a.flags.writeable:
            return
        self.lines.append(f"{function.__name__}({s.x})")
        if function in (write_first, write_and_copy):
            self.end_sharing(a)
        self.add_results(CAPTURED[function](x), function(a), a)

    def do_call_with_two(self, s: Statement, x: Tensor, a: np.ndarray) -> None:
        y, b = self.pick(s.y)
        if a.shape == b.shape and a.size and a.flags.writeable and x.device == y.device:
            self.lines.append(f"add_to({s.x}, {s.y})")
            self.end_sharing(a)
            self.add_results(CAPTURED[add_to](x, y), add_to(a, b), a)

    def do_hold(self, s: Statement, x: Tensor, a: np.ndarray) -> None:
        """A function that holds a variable, and writes to it; it is called twice."""
        if not a.ndim or not a.size or not a.flags.writeable:
            return

        def step(held: Any, z: Any) -> Any:
            if s.form % 2:
                held[0] = held[0] + 1
            return held * 2 + z

        self.functions.append((jit(lambda z: step(x, z)), step, Variable(x, a), bool(s.form % 2)))
        for _ in range(2):
            self.call_held(len(self.functions) - 1, s)

    def do_call_held(self, s: Statement, x: Tensor, a: np.ndarray) -> None:
        if self.functions:
            self.call_held(s.form % len(self.functions), s)

    def call_held(self, number: int, s: Statement) -> None:
        captured, step, (x, a), writes = self.functions[number]
        y, b = self.pick(s.y)
        if b.shape != a.shape or x.device != y.device:
            return
        if writes:
            self.end_sharing(a)
        self.add(f"call held {number} with {s.y}", captured(y), value(step(a, b)))

    def add_results(self, made: Any, wanted: Any, a: np.ndarray) -> None:
        made, wanted = (r if isinstance(r, tuple) else (r,) for r in (made, wanted))
        for number, (tensor, array) in enumerate(zip(made, wanted, strict=True)):
            is_view = any(np.may_share_memory(array, other) for other in (a, *wanted[:number]))
            self.add(
                "  result", tensor, array if is_view or array.flags.c_contiguous else value(array)
            )

    def do_donate(self, s: Statement, x: Tensor, a: np.ndarray) -> None:
        """The memory of a variable is given away, and with it all its views."""
        one = self.pick(s.x)
        if not a.ndim or not a.size or not a.flags.writeable or (a.base is not None and s.form % 2):
            return
        self.lines.append(f"donate {s.x}")
        self.end_sharing(a)
        self.variables = [v for v in self.variables if v.family != one.family]
        self.functions = [known for known in self.functions if known[2].family != one.family]
        if s.form % 2:
            double, first = DONATING(x)
            self.add("  result", double, value(a * 2))
            self.add("  result", first, value(a[:1]))
        else:
            made = x * 2 + 1
            # Another thread that captures a function does the assignments that pend, and what
            # depends on them.
            with contextlib.suppress(EmptyScheduleError):
                made.prepare(donate=[x]).execute()
            self.add("  result", made, value(a * 2 + 1))

    def do_realize(self, s: Statement, x: Tensor, a: np.ndarray) -> None:
        self.lines.append(f"{s.x}.realize()")
        x.realize()

    def do_realize_batch(self, s: Statement, x: Tensor, a: np.ndarray) -> None:
        self.lines.append(f"realize_batch({s.form})")
        Tensor.realize_batch([v.tensor for n, v in enumerate(self.variables) if s.form >> n & 1])

    def do_read(self, s: Statement, x: Tensor, a: np.ndarray) -> None:
        self.lines.append(f"{s.x}.numpy(), .tolist()")
        if s.form % 2:
            np.testing.assert_array_equal(x.numpy(), a)
        else:
            assert x.tolist() == a.tolist()

    def do_print(self, s: Statement, x: Tensor, a: np.ndarray) -> None:
        self.lines.append(f"repr({s.x})")
        repr(x)

    def do_prepare(self, s: Statement, x: Tensor, a: np.ndarray) -> None:
        chosen = [x] if s.form % 2 else [v.tensor for v in self.variables]
        if not all(t.is_realized or not t.size for t in chosen):
            self.lines.append(f"prepare {s.x if s.form % 2 else 'all'}, execute")
            with contextlib.suppress(EmptyScheduleError):
                Tensor.prepare_batch(chosen).execute()

    def check(self) -> None:
        for number, (tensor, array) in enumerate(self.variables):
            np.testing.assert_array_equal(tensor.numpy(), array, err_msg=f"variable {number}")
        for number, (array, wanted) in enumerate([*self.kept, *self.left]):
            np.testing.assert_array_equal(array, wanted, err_msg=f"kept array {number}")
        for number, (array, one) in enumerate(self.shared):
            np.testing.assert_array_equal(array, one.array, err_msg=f"shared array {number}")


KINDS = [
    "new",
    "value",
    "value",
    "binary",
    "view",
    "view",
    "index",
    "index",
    "move",
    "assign",
    "assign",
    "write",
    "write",
    "write",
    "augment",
    "augment",
    "keep",
    "keep",
    "share",
    "share",
    "share",
    "write_shared",
    "write_shared",
    "drop_shared",
    "forget",
    "call",
    "call_with_two",
    "hold",
    "call_held",
    "call_held",
    "donate",
    "realize",
    "realize",
    "realize_batch",
    "read",
    "print",
    "prepare",
]
statements = st.builds(
    Statement, st.sampled_from(KINDS), st.integers(0, 5), st.integers(0, 5), st.integers(0, 31)
)
programs = st.lists(statements, min_size=2, max_size=14)
_settings = settings(deadline=None, suppress_health_check=list(HealthCheck), database=None)


def run(program: Sequence[Statement]) -> None:
    state = Run()
    try:
        state.step(Statement("new", program[0].x, 0, 3))
        for statement in program:
            state.step(statement)
        state.check()
    except BaseException as error:
        error.add_note("\n".join(state.lines))
        raise


@settings(_settings, max_examples=N_PROGRAMS)
@given(programs)
def test_a_program_has_the_semantics_of_numpy(program: list[Statement]) -> None:
    try:
        run(program)
    finally:
        # What a traceback keeps alive is no part of the next program.
        registry.clear()


@settings(_settings, max_examples=max(1, N_PROGRAMS // 50))
@given(st.lists(programs, min_size=4, max_size=4))
def test_programs_in_several_threads_are_isolated(several: list[list[Statement]]) -> None:
    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(run, program) for program in several]:
            done.result()


def test_all_statements_are_known() -> None:
    assert all(kind == "new" or hasattr(Run, f"do_{kind}") for kind in KINDS)
    assert pytest is not None
