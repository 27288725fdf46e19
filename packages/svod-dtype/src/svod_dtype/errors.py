"""Base classes of all svod exceptions.

    SvodError
    ├── UserError       a mistake that the caller can fix
    └── InternalError   a bug in svod or in a plugin

Each distribution derives its exceptions from these two. An exception also inherits the builtin
class that a Python user would catch. Constructors take values, never prose: the class composes the
headline, the notes and the hint.
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
    """Base of all svod errors: a headline, optional notes, and an optional hint with working code."""

    def __init__(
        self, headline: str, *, notes: tuple[str, ...] = (), hint: str | None = None
    ) -> None:
        self.headline = headline
        self.notes = notes
        self.hint = hint
        super().__init__(_compose(headline, notes, hint))

    def __reduce__(self) -> tuple[object, ...]:
        # The default of exceptions would call the constructor with the message, but constructors
        # take other values, by keyword.
        fields = {name: _to_portable(value) for name, value in self.__dict__.items()}
        return _restore, (type(self), self.args, fields)


def _compose(headline: str, notes: tuple[str, ...], hint: str | None) -> str:
    lines = [headline, *(f"  note: {note}" for note in notes)]
    if hint is not None:
        lines.append(f"  hint: {hint}")
    return "\n".join(lines)


class UserError(SvodError):
    """Invalid request by the caller; the message says how to fix it.

    `operation` is the name of the called operation, or None if unknown.
    """

    operation: str | None = None

    def name_operation(self, operation: str) -> None:
        """Set the operation that the user called, if an operation inside of it raised the error."""
        inner = self.operation
        if inner is not None and inner.startswith(operation):
            # The inner name is more specific, such as the operation with a parameter.
            return
        has_prefix = inner is not None and self.headline.startswith(inner)
        message = (
            self.headline[len(inner) :]
            if inner is not None and has_prefix
            else f": {self.headline}"
        )
        self.operation, self.headline = operation, operation + message
        self.args = (_compose(self.headline, self.notes, self.hint),)


class InternalError(SvodError):
    """Broken invariant: a bug in svod or in a plugin, never a mistake of the user."""


class DefaultDTypeError(UserError, TypeError):
    """Dtype that cannot be the default float dtype."""

    def __init__(self, *, dtype: object) -> None:
        self.dtype = dtype
        super().__init__(
            f"{dtype} cannot be the default float dtype: it must be float16, bfloat16, float32 or"
            " float64",
            hint='write set_default_dtype("float64")',
        )


class UnknownDTypeError(UserError, TypeError):
    """Name or object that is not a dtype, or an ambiguous name."""

    def __init__(
        self, *, given: object, known: tuple[str, ...] = (), meanings: tuple[str, ...] = ()
    ) -> None:
        self.given, self.meanings = given, meanings
        if meanings:
            super().__init__(
                f"{given!r} is ambiguous: {' or '.join(meanings)}",
                hint=f'write "{meanings[0]}" or "{meanings[1]}"',
            )
            return
        # Dtypes of other libraries have the same names behind a prefix, as in torch.float32.
        name = str(given).rpartition(".")[2]
        hint = f'write "{name}"' if name in known else f"use one of {', '.join(known)}"
        super().__init__(f"data type {given!r} not understood", hint=hint)


class PromotionError(UserError, TypeError):
    """Two dtypes without a common dtype."""

    def __init__(self, *, left: object, right: object) -> None:
        self.left, self.right = left, right
        super().__init__(
            f"{left} and {right} have no common dtype",
            hint="cast one operand explicitly, as in x.cast(other.dtype)",
        )


class DeviceNameError(UserError, ValueError):
    """Device name that cannot be parsed, or that the plugin rejects."""

    def __init__(self, *, given: str, reason: str, hint: str | None = None) -> None:
        self.given = given
        super().__init__(
            f"invalid device name {given!r}: {reason}",
            hint=hint or 'write "CPU", "CUDA:1" or "DISK:/path/to/file"',
        )


def _restore(
    kind: type[SvodError], args: tuple[object, ...], fields: dict[str, object]
) -> SvodError:
    """Return the unpickled error."""
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(fields)
    return error


def _to_portable(value: object) -> object:
    """Return `value`, or its repr if it cannot be pickled.

    A worker's error must reach the process that waits for it; a pool would otherwise block forever.
    """
    try:
        pickle.loads(pickle.dumps(value))
    except Exception:
        return repr(value)
    return value
