"""Tests compile into a cache of their own, and never find what an earlier run left."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from svod_codegen.disk_store import get_disk_store
from svod_codegen.llvm.cached import default_compiler

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session", autouse=True)
def own_cache_dir(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SVOD_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        _forget_stores()
        yield
        _forget_stores()


def _forget_stores() -> None:
    get_disk_store.cache_clear()
    default_compiler.cache_clear()
