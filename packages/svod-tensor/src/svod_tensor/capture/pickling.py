"""Pickles of captured functions: the function and its options, without the plans.

A captured function that is a global of a module is pickled as its name there, as functions are. All
others, and those of `__main__`, are pickled by value with cloudpickle if it is installed. Pickles
with equal contents restore one captured function for each process, so that the tasks of a worker
share its plans.
"""

from __future__ import annotations

import hashlib
import importlib.util
import operator
import sys
from collections.abc import Callable
from typing import Final, Protocol, cast

from svod_tensor.engine.bounded_cache import BoundedCache

__all__ = ["RESTORED", "reduce_function"]

MAX_RESTORED: Final = 64
"""Number of captured functions that are kept for later pickles with equal contents."""


class _Picklable(Protocol):
    @property
    def assigns(self) -> bool: ...


RESTORED: Final[BoundedCache[bytes, _Picklable]] = BoundedCache(lambda: MAX_RESTORED)
"""Captured functions by the digest of their pickles."""


def reduce_function(
    captured: object, kind: Callable[..., object], *arguments: object
) -> str | tuple[object, ...]:
    """Return what `captured.__reduce__` returns.

    Args:
        captured: the captured function.
        kind: its class.
        arguments: the arguments of `kind` that make an equal one.
    """
    name = _find_global_name(captured)
    if name is not None:
        return name
    if importlib.util.find_spec("cloudpickle") is None:
        return kind, arguments
    import cloudpickle  # pyright: ignore[reportMissingTypeStubs]

    source = cloudpickle.dumps((kind, arguments))  # pyright: ignore[reportUnknownMemberType]
    return _restore, (source,)


def _find_global_name(captured: object) -> str | None:
    """Name under which other processes can import it; None if there is none."""
    module_name = cast("str | None", getattr(captured, "__module__", None))
    name = cast("str | None", getattr(captured, "__qualname__", None))
    module = sys.modules.get(module_name or "")
    if module is None or name is None or module_name == "__main__" or "<locals>" in name:
        return None
    try:
        found = operator.attrgetter(name)(module)
    except AttributeError:
        return None
    return name if found is captured else None


def _restore(source: bytes) -> object:
    key = hashlib.sha256(source).digest()
    # A function that writes to its own tensors differs from its pickle after the first call.
    restored = RESTORED.find(key, is_usable=lambda captured: not captured.assigns)
    if restored is None:
        import cloudpickle  # pyright: ignore[reportMissingTypeStubs]

        kind, arguments = cast(
            "tuple[Callable[..., _Picklable], tuple[object, ...]]", cloudpickle.loads(source)
        )
        restored = kind(*arguments)
        RESTORED.replace(key, restored)
        RESTORED.add(key, restored)  # drops the oldest
    return restored
