from __future__ import annotations

import svod_tensor
from svod_tensor import Tensor, caches, clear_caches


def test_each_look_up_is_counted() -> None:
    clear_caches()
    assert all(c.entries == c.hits == c.misses == 0 for c in caches().values() if c.max_entries)
    (Tensor([1.0, 2.0]) * 3.25 + 1).realize()
    found = caches()
    assert (found["schedule"].entries, found["schedule"].misses) == (1, 1)
    assert (found["kernel"].entries, found["kernel"].misses) == (1, 1)
    assert found["stored_kernel"].hits + found["stored_kernel"].misses == 1
    (Tensor([5.0, 6.0]) * 3.25 + 1).realize()
    found = caches()
    assert (found["schedule"].entries, found["schedule"].hits) == (1, 1)
    assert (found["kernel"].entries, found["kernel"].hits) == (1, 1)
    assert found["schedule"].max_entries > 0
    assert found["kernel"].max_entries > 0
    assert found["object"].n_bytes <= found["object"].max_bytes


def test_clearing_keeps_plans_and_results() -> None:
    x = Tensor([1.0, 2.0]) + 0.125
    plan = x.prepare()
    clear_caches()
    plan.execute()
    assert x.tolist() == [1.125, 2.125]
    assert caches()["kernel"].entries == 0


def test_names_that_are_loaded_late_are_there() -> None:
    for name in svod_tensor.__all__:
        assert getattr(svod_tensor, name) is not None
