"""Execution providers: names of devices in the interface of onnxruntime."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from svod_tensor import Tensor
from svod_tensor.errors import UserError

__all__ = [
    "CPU_PROVIDER",
    "find_device",
    "get_available_providers",
    "get_default_device",
    "get_device",
    "read_providers",
]

_SUFFIX: Final = "ExecutionProvider"
CPU_PROVIDER: Final = f"CPU{_SUFFIX}"


def get_available_providers() -> list[str]:
    """Names of the execution providers: of the default device, and of the CPU.

    `<DEVICE>ExecutionProvider` names any other installed device.

    Example:
        >>> from svod_onnx import get_available_providers
        >>> "CPUExecutionProvider" in get_available_providers()
        True
    """
    return list(dict.fromkeys([f"{get_device()}{_SUFFIX}", CPU_PROVIDER]))


def get_device() -> str:
    """Name of the default device, such as "CPU".

    Example:
        >>> from svod_onnx import get_device
        >>> isinstance(get_device(), str)
        True
    """
    return get_default_device().partition(":")[0]


def get_default_device() -> str:
    """Default device, with its number if that is not 0."""
    return cast("str", Tensor(0.0).device)  # a tuple only for a sharded tensor


def find_device(provider: str, options: Mapping[str, str]) -> str | None:
    """Device of an execution provider; None if no such device is installed."""
    name = provider.removesuffix(_SUFFIX).upper()
    if name == provider.upper():
        return None
    device_id = options.get("device_id", "0")
    device = name if device_id == "0" else f"{name}:{device_id}"
    try:
        Tensor(0.0, device=device)
    except UserError:
        return None
    return device


def read_providers(
    providers: Sequence[str | tuple[str, Mapping[Any, Any]]] | None,
    options: Sequence[Mapping[Any, Any]] | None,
) -> dict[str, dict[str, str]]:
    """Options by the names of the providers that are installed, in order of precedence.

    Warns of the other providers, and of duplicates. The CPU follows the installed providers.

    Raises:
        ValueError: if an argument is not of the described form.
    """
    pairs = _pair(providers, options)
    result: dict[str, dict[str, str]] = {}
    for name, entries in pairs:
        normalized = {str(key): str(value) for key, value in entries.items()}
        if find_device(name, normalized) is None:
            available = ", ".join(get_available_providers())
            warnings.warn(
                f"Specified provider '{name}' is not in available provider names."
                f" Available providers: '{available}'",
                stacklevel=4,
            )
        elif name in result:
            warnings.warn(f"Duplicate provider '{name}' encountered, ignoring.", stacklevel=4)
        else:
            result[name] = normalized
    result.setdefault(CPU_PROVIDER, {})
    return result


def _pair(providers: object, options: object) -> list[tuple[str, Mapping[Any, Any]]]:
    if providers is None:
        return [(name, {}) for name in get_available_providers()]
    if not isinstance(providers, Sequence):
        raise ValueError("'providers' should be a sequence.")
    entries = cast("Sequence[object]", providers)
    if options is None:
        return [_read_entry(entry) for entry in entries]
    if not isinstance(options, Sequence):
        raise ValueError("'provider_options' should be a sequence.")
    mappings = cast("Sequence[object]", options)
    if len(entries) != len(mappings):
        raise ValueError(
            "'providers' and 'provider_options' should be the same length if both are given."
        )
    if not all(isinstance(entry, str) for entry in entries):
        raise ValueError(
            "Only string values for 'providers' are supported if 'provider_options' is given."
        )
    if not all(isinstance(mapping, dict) for mapping in mappings):
        raise ValueError("'provider_options' values must be dicts.")
    return [_read_entry(pair) for pair in zip(entries, mappings, strict=True)]


def _read_entry(entry: object) -> tuple[str, Mapping[Any, Any]]:
    match entry:
        case str():
            return entry, {}
        case (str() as name, dict()):
            return name, cast("tuple[str, dict[Any, Any]]", entry)[1]
        case _:
            raise ValueError("'providers' values must be either strings or (string, dict) tuples.")
