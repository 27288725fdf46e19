"""The root of every svod exception.

    SvodError
    ├── UserError       the caller can fix it
    └── InternalError   a bug in svod or in a plugin

Each distribution derives its own classes from these two; a class also inherits the builtin
exception that a Python user would catch.  A constructor takes meaning (values), never prose: the
class composes the headline, the notes and the hint.
"""

from __future__ import annotations

import pickle

__all__ = [
    "DefaultDTypeError",
    "DeviceNameError",
    "InternalError",
    "PromotionError",
    "SvodError",
    "UnknownDTypeError",
    "UserError",
]


class SvodError(Exception):
    """Base of all svod errors: a headline, optional notes, and an optional hint with code that
    works.
    """

    def __init__(
        self, headline: str, *, notes: tuple[str, ...] = (), hint: str | None = None
    ) -> None:
        self.headline = headline
        self.notes = notes
        self.hint = hint
        super().__init__(_compose(headline, notes, hint))

    def __reduce__(self) -> tuple[object, ...]:
        # Constructors take meaning by name, and the message is not among it.
        fields = {name: _to_portable(value) for name, value in self.__dict__.items()}
        return _restore, (type(self), self.args, fields)


def _compose(headline: str, notes: tuple[str, ...], hint: str | None) -> str:
    lines = [headline, *(f"  note: {note}" for note in notes)]
    if hint is not None:
        lines.append(f"  hint: {hint}")
    return "\n".join(lines)


class UserError(SvodError):
    """The caller asked for something that cannot be done; the message says how to fix it.

    `operation` is what the caller called, where that is known.
    """

    operation: str | None = None

    def name_operation(self, operation: str) -> None:
        """Say which operation was called, where the mistake was found by another one inside
        of it.
        """
        inner = self.operation
        if inner is not None and inner.startswith(operation):
            # It may say more, such as which part of the operation.
            return
        is_first = inner is not None and self.headline.startswith(inner)
        rest = (
            self.headline[len(inner) :] if inner is not None and is_first else f": {self.headline}"
        )
        self.operation, self.headline = operation, operation + rest
        self.args = (_compose(self.headline, self.notes, self.hint),)


class InternalError(SvodError):
    """A broken invariant: a bug in svod or in a plugin, never the user's mistake."""


class DefaultDTypeError(UserError, TypeError):
    """A dtype that cannot be the default of floats."""

    def __init__(self, *, dtype: object) -> None:
        self.dtype = dtype
        super().__init__(
            f"{dtype} cannot be the default of floats: it is none of floats of 16, 32 or 64 bits",
            hint='write set_default_dtype("float64")',
        )


class UnknownDTypeError(UserError, TypeError):
    """A name or object that denotes no dtype, or one that may mean several."""

    def __init__(
        self, *, given: object, known: tuple[str, ...] = (), meanings: tuple[str, ...] = ()
    ) -> None:
        self.given, self.meanings = given, meanings
        if meanings:
            found = " or ".join(meanings)
            super().__init__(
                f"{given!r} may be {found}", hint=f'write "{meanings[0]}" or "{meanings[1]}"'
            )
            return
        # The dtypes of other libraries have the same names.
        name = str(given).rpartition(".")[2]
        hint = f'write "{name}"' if name in known else f"use one of {', '.join(known)}"
        super().__init__(f"{given!r} is not a dtype", hint=hint)


class PromotionError(UserError, TypeError):
    """Two dtypes that have no common type."""

    def __init__(self, *, left: object, right: object) -> None:
        self.left, self.right = left, right
        super().__init__(
            f"{left} and {right} have no common dtype",
            hint="cast one operand explicitly, as in x.cast(other.dtype)",
        )


class DeviceNameError(UserError, ValueError):
    """A device name that cannot be parsed, or that its plugin does not know; `hint` says how it
    names its devices.
    """

    def __init__(self, *, given: str, reason: str, hint: str | None = None) -> None:
        self.given = given
        super().__init__(
            f"invalid device name {given!r}: {reason}",
            hint=hint or 'write "CPU", "CUDA:1" or "DISK:/path/to/file"',
        )


def _restore(
    kind: type[SvodError], args: tuple[object, ...], fields: dict[str, object]
) -> SvodError:
    """The error that was pickled."""
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(fields)
    return error


def _to_portable(value: object) -> object:
    """`value`, or its text where another process cannot have it: an error must reach the process
    that waits for it.
    """
    try:
        pickle.loads(pickle.dumps(value))
    except Exception:
        return repr(value)
    return value
