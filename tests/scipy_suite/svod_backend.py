"""Pytest plugin that runs SciPy's own tests of array libraries on tensors.

SciPy's `conftest.py` lists the libraries that it knows. The plugin imports it before pytest does
and replaces the list by svod, so the installed SciPy stays as it is. `exceptions.toml` says which
tests fail, and why: each of these must fail."""

from __future__ import annotations

import functools
import inspect
import tomllib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from scipy import conftest

import svod_tensor
from svod_tensor import DType, Tensor

_CREATION = ("arange", "asarray", "empty", "eye", "full", "linspace", "ones", "zeros")


def _has_arrays(value: object) -> bool:
    """True if `value` is, or holds, an array or a scalar that has a dtype of its own."""
    if isinstance(value, (list, tuple)):
        return any(map(_has_arrays, value))
    return not isinstance(value, (bool, int, float, complex)) or isinstance(value, np.generic)


def _create_wide(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """The creation function with int64 for Python's integers."""

    @functools.wraps(function)
    def create(*args: Any, dtype: DType | None = None, **options: Any) -> Tensor:
        result = function(*args, dtype=dtype, **options)
        if dtype is None and result.dtype == svod_tensor.int32 and not any(map(_has_arrays, args)):
            result = function(*args, dtype=svod_tensor.int64, **options)
        return result

    return create


class _Information:
    """Namespace information with int64 as the default of integers."""

    def __init__(self) -> None:
        self._information = svod_tensor.__array_namespace_info__()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._information, name)

    def devices(self) -> list[str]:
        """The devices as a list, to which SciPy adds one; the standard has a tuple since
        2025.12.
        """
        return list(self._information.devices())

    def default_dtypes(self, *, device: Any = None) -> dict[str, DType]:
        return {**self._information.default_dtypes(device=device), "integral": svod_tensor.int64}


def _make_namespace() -> ModuleType:
    """The namespace of tensors with defaults of 64 bits.

    SciPy's tests set these for torch (`set_default_dtype`) and jax (`jax_enable_x64`) and expect
    them of all other libraries."""
    namespace = ModuleType(BACKEND)
    namespace.__getattr__ = functools.partial(getattr, svod_tensor)  # type: ignore[method-assign]
    for name in dir(svod_tensor):
        if not name.startswith("_"):
            setattr(namespace, name, getattr(svod_tensor, name))
    for name in _CREATION:
        setattr(namespace, name, _create_wide(getattr(svod_tensor, name)))
    namespace.__array_namespace_info__ = _Information  # type: ignore[attr-defined]
    return namespace


svod_tensor.set_default_dtype("float64")
BACKEND = svod_tensor.__name__
NAMESPACE = _make_namespace()
Tensor.__array_namespace__ = lambda self, *, api_version=None: NAMESPACE  # type: ignore[method-assign]

conftest.xp_known_backends.add(BACKEND)
conftest.xp = pytest.fixture(
    params=[pytest.param(NAMESPACE, id=BACKEND, marks=pytest.mark.array_api_backends)]
)(inspect.unwrap(conftest.xp))


def _read_exceptions() -> dict[str, str]:
    """Return the reason of each test that fails."""
    groups = tomllib.loads(Path(__file__).with_name("exceptions.toml").read_text())["exception"]
    return {test: group["reason"] for group in groups for test in group["tests"]}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of the table as failing; one of them that passes is an error."""
    reasons = _read_exceptions()
    for item in items:
        # scipy/ndimage/tests/test_filters.py
        package, file = item.path.parent.parent.name, item.path.stem
        name = f"{package}/{file}::{item.nodeid.partition('::')[2]}"
        reason = reasons.get(name) or reasons.get(name.partition("[")[0])
        if reason is not None:
            item.add_marker(pytest.mark.xfail(reason=reason, strict=True))
