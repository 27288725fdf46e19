"""The form of every message: a headline in lower case, notes, and a hint."""

from __future__ import annotations

import pytest

from svod_dtype import (
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
    error = UserError("shapes do not match", notes=("left is (2,)", "right is (3,)"), hint="reshape one")
    assert str(error) == "shapes do not match\n  note: left is (2,)\n  note: right is (3,)\n  hint: reshape one"
    assert (error.headline, error.notes, error.hint) == (
        "shapes do not match",
        ("left is (2,)", "right is (3,)"),
        "reshape one",
    )


def test_users_and_bugs_are_told_apart() -> None:
    assert issubclass(UserError, SvodError)
    assert issubclass(InternalError, SvodError)
    assert not issubclass(UserError, InternalError)


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (
            UnknownDTypeError(given="f33", known=(bool_.name, float32.name)),
            "'f33' is not a dtype\n  hint: use one of bool, float32",
        ),
        (
            PromotionError(left=float32, right=index),
            "float32 and index have no common dtype\n  hint: cast one operand explicitly, as in x.cast(other.dtype)",
        ),
        (
            DeviceNameError(given="CPU:x", reason="'x' is not a device number"),
            'invalid device name \'CPU:x\': \'x\' is not a device number\n  hint: write "CPU", "CUDA:1" or "DISK:/path/to/file"',
        ),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, SvodError) else "",
)
def test_messages(error: SvodError, message: str) -> None:
    assert str(error) == message
    assert isinstance(error, UserError)
