"""Error messages: a headline in lower case, notes and a hint."""

from __future__ import annotations

import pickle

import pytest

from svod_dtype import (
    DefaultDTypeError,
    DeviceNameError,
    InternalError,
    PromotionError,
    SvodError,
    UnknownDTypeError,
    UserError,
    bool_,
    float32,
    index,
)


def test_a_message_has_a_headline_notes_and_a_hint() -> None:
    error = UserError(
        "shapes do not match", notes=("left is (2,)", "right is (3,)"), hint="reshape one"
    )
    assert (
        str(error)
        == "shapes do not match\n  note: left is (2,)\n  note: right is (3,)\n  hint: reshape one"
    )
    assert (error.headline, error.notes, error.hint) == (
        "shapes do not match",
        ("left is (2,)", "right is (3,)"),
        "reshape one",
    )


def test_user_and_internal_errors_are_distinct() -> None:
    assert issubclass(UserError, SvodError)
    assert issubclass(InternalError, SvodError)
    assert not issubclass(UserError, InternalError)


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (
            UnknownDTypeError(given="f33", known=(bool_.name, float32.name)),
            "data type 'f33' not understood\n  hint: use one of bool, float32",
        ),
        (
            UnknownDTypeError(given="numpy.float32", known=(bool_.name, float32.name)),
            "data type 'numpy.float32' not understood\n  hint: write \"float32\"",
        ),
        (
            UnknownDTypeError(given="i8", meanings=("int8", "int64")),
            '\'i8\' is ambiguous: int8 or int64\n  hint: write "int8" or "int64"',
        ),
        (
            DefaultDTypeError(dtype=bool_),
            (
                "bool cannot be the default float dtype: it must be float16, bfloat16, float32 or float64\n"
                '  hint: write set_default_dtype("float64")'
            ),
        ),
        (
            PromotionError(left=float32, right=index),
            (
                "float32 and index have no common dtype\n  hint: cast one operand explicitly, as in"
                " x.cast(other.dtype)"
            ),
        ),
        (
            DeviceNameError(given="CPU:x", reason="'x' is not a device index"),
            (
                "invalid device name 'CPU:x': 'x' is not a device index\n  hint: write \"CPU\","
                ' "CUDA:1" or "DISK:/path/to/file"'
            ),
        ),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, SvodError) else "",
)
def test_messages(error: SvodError, message: str) -> None:
    assert str(error) == message
    assert isinstance(error, UserError)


def test_errors_are_pickled_with_their_fields_and_messages() -> None:
    error = DeviceNameError(given="CPU:x", reason="no number")
    error.add_note("while it was tried")
    restored = pickle.loads(pickle.dumps(error))
    assert type(restored) is DeviceNameError and str(restored) == str(error)
    assert (restored.given, restored.hint, restored.__notes__) == (
        "CPU:x",
        error.hint,
        ["while it was tried"],
    )


def test_an_unpicklable_field_becomes_its_repr() -> None:
    unpicklable = lambda: None  # noqa: E731
    restored = pickle.loads(pickle.dumps(UnknownDTypeError(given=unpicklable, known=("float32",))))
    assert restored.given == repr(unpicklable)
