"""Each message of svod-ir."""

from __future__ import annotations

import pytest

from svod_dtype import InternalError, SvodError, UserError, float32
from svod_ir import (
    AxisError,
    BroadcastError,
    DeviceMismatchError,
    EvaluationError,
    GraphError,
    MiscompilationError,
    OperandError,
    OptionError,
    ParseError,
    RuleError,
    ShapeError,
    SpecError,
    TargetError,
    UndecidedError,
    UOp,
)

ONE = UOp.const(float32, 1)


@pytest.mark.parametrize(
    ("error", "builtin", "message"),
    [
        (
            ShapeError(
                operation="reshape", shape=(2, 3), problem="holds 6 elements", hint="use -1"
            ),
            ValueError,
            "reshape: holds 6 elements\n  hint: use -1",
        ),
        (
            BroadcastError(left=(2, 3), right=(4,), axis=-1),
            ValueError,
            (
                "operands could not be broadcast together with shapes (2, 3) and (4,): axis -1 has sizes 3 and 4\n  hint: sizes"
                " must be equal or 1, counted from the last axis; reshape or expand one side"
            ),
        ),
        (
            AxisError(operation="sum", axis=3, ndim=2),
            IndexError,
            "sum: axis 3 is out of bounds for a tensor of dimension 2\n  hint: use -2 to 1",
        ),
        (
            AxisError(operation="sum", axis=0, ndim=0),
            IndexError,
            "sum: axis 0 is out of bounds for a tensor of dimension 0\n  hint: a 0-d tensor has no axes",
        ),
        (
            DeviceMismatchError(left="CPU", right="CPU:1"),
            ValueError,
            'operands are on CPU and CPU:1\n  hint: move one, as in y.to("CPU")',
        ),
        (
            DeviceMismatchError(left=("CPU", "CPU:1"), right="CPU"),
            ValueError,
            (
                "operands are on CPU + CPU:1 and CPU\n  hint: shard the other one too, as in"
                " x.shard(('CPU', 'CPU:1'))"
            ),
        ),
        (
            OperandError(operation="SQRT", found="int32", expected="floats", hint="cast"),
            TypeError,
            "SQRT: expected floats, got int32\n  hint: cast",
        ),
        (
            UndecidedError(left="n", sign="<", right=3),
            TypeError,
            (
                "n < 3 holds for some values of its variables, so it is neither true nor false\n "
                " hint: choose between values with condition.where(a, b), or declare variables with"
                " bounds that decide it"
            ),
        ),
        (
            EvaluationError(problem="missing array", node=ONE),
            ValueError,
            "missing array: CONST():f32[1.0]",
        ),
        (EvaluationError(problem="nothing to do"), ValueError, "nothing to do"),
        (
            ParseError(
                line=3, text=" %0 = FOO ", problem="FOO is not an op", hint="did you mean FLOOR?"
            ),
            ValueError,
            "line 3: FOO is not an op\n  note: in '%0 = FOO'\n  hint: did you mean FLOOR?",
        ),
        (
            ParseError(line=0, text="", problem="the text holds no node"),
            ValueError,
            "the text holds no node",
        ),
        (
            RuleError(rule="add_zero", problem="has no pattern", hint="write one"),
            TypeError,
            "rule add_zero has no pattern\n  hint: write one",
        ),
        (
            OptionError(variable="SVOD_CHECK", value="x", expected="0 or 1"),
            ValueError,
            "SVOD_CHECK='x' is not 0 or 1\n  hint: unset SVOD_CHECK to use the default",
        ),
        (
            TargetError(target="generic", problem="has SIN twice", hint="list it once"),
            ValueError,
            "target 'generic' has SIN twice\n  hint: list it once",
        ),
    ],
    ids=lambda v: type(v).__name__ if isinstance(v, SvodError) else None,
)
def test_messages_for_users(error: SvodError, builtin: type[Exception], message: str) -> None:
    assert str(error) == message
    assert isinstance(error, UserError)
    assert isinstance(error, builtin)


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (
            GraphError(rule="a rule", node=ONE, notes=("a note",)),
            "a rule: CONST():f32[1.0]\n  note: a note",
        ),
        (
            SpecError(pass_name="lower:expand", stage="kernel", rule="a rule", node=ONE),
            "after lower:expand: stage kernel: a rule: CONST():f32[1.0]",
        ),
        (
            SpecError(pass_name=None, stage="kernel", rule="a rule", node=ONE),
            "stage kernel: a rule: CONST():f32[1.0]",
        ),
        (
            SpecError(
                pass_name="lower:expand",
                stage="kernel",
                rule="a rule",
                node=ONE,
                made_by="r of R",
                notes=("a note",),
            ),
            (
                "after lower:expand: stage kernel: a rule: CONST():f32[1.0]\n"
                "  note: the rewrite rule r of R made it\n  note: a note"
            ),
        ),
        (
            MiscompilationError(
                pass_name="lower:masks",
                rule="r of R",
                node="(i % 8)",
                problem="1 became 0",
                values={"i": 9},
            ),
            "in lower:masks, the rewrite rule r of R changes (i % 8): 1 became 0 at i = 9",
        ),
        (
            MiscompilationError(
                pass_name="lower:masks", rule=None, node="p0", problem="element 0 is 1, expected 2"
            ),
            "in lower:masks, the pass changes p0: element 0 is 1, expected 2",
        ),
    ],
    ids=lambda v: type(v).__name__ if isinstance(v, SvodError) else None,
)
def test_messages_of_bugs(error: SvodError, message: str) -> None:
    assert str(error) == message
    assert isinstance(error, InternalError)
    assert isinstance(error, ValueError)
