"""`python -m svod_device`: which devices there are, who provides them, and why one does not work."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from svod_device.registry import ALLOCATORS, COMPILERS, Registry, get_registry
from svod_dtype import SvodError

__all__ = ["describe", "main"]


def describe(registry: Registry) -> Iterator[str]:
    """The lines of the report."""
    for kind in registry.list_kinds():
        providers = _providers(registry, ALLOCATORS, kind)
        yield f"{kind}: memory by {providers}: {_try_allocator(registry, kind)}"
        if kind == "DISK":
            continue
        backends = registry.list_backends(kind)
        if not backends:
            yield "  no backend: it holds data, but runs no kernels"
        for backend in backends:
            providers = _providers(registry, COMPILERS, f"{kind}.{backend}")
            yield f"  {kind}.{backend} by {providers}: {_try_backend(registry, kind, backend)}"
    without_memory = {p.kind for p in registry.iter_plugins() if p.group == COMPILERS} - set(registry.list_kinds())
    for kind in sorted(without_memory):
        yield f"{kind}: backends {', '.join(registry.list_backends(kind))}, but nothing provides its memory"


def _providers(registry: Registry, group: str, name: str) -> str:
    same = (p for p in registry.iter_plugins() if p.group == group and p.name.upper() == name.upper())
    return " and ".join(p.distribution for p in same)


def _try_allocator(registry: Registry, kind: str) -> str:
    if kind == "DISK":
        return "works (DISK:/path/to/file)"
    try:
        registry.get_allocator(kind)
    except SvodError as error:
        return f"does not work: {error.headline}"
    return "works"


def _try_backend(registry: Registry, kind: str, backend: str) -> str:
    try:
        device = registry.get_device(kind)
        target = device.get_backend(backend).target
    except SvodError as error:
        return f"does not work: {error.headline}"
    chosen = ", the default" if device.default_backend == backend else ""
    return f"works, target {target.name}{chosen}"


def main() -> int:
    """Print the report."""
    for line in describe(get_registry()):
        sys.stdout.write(line + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
