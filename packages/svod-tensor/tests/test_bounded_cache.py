"""The map behind the kernel and the schedule cache: its bound, its order, its counts, and several
threads.
"""

from __future__ import annotations

import threading

from svod_ir import CacheCounts
from svod_tensor.engine.bounded_cache import BoundedCache


def make_cache(limit: int) -> BoundedCache[int, str]:
    return BoundedCache(lambda: limit)


def test_the_oldest_entry_is_evicted_first_even_if_it_was_used() -> None:
    cache = make_cache(2)
    cache.add(1, "a")
    cache.add(2, "b")
    assert cache.find(1) == "a"
    cache.add(3, "c")
    assert [cache.find(key) for key in (1, 2, 3)] == [None, "b", "c"]


def test_the_first_value_of_a_key_is_kept() -> None:
    cache = make_cache(2)
    assert cache.add(1, "first") == "first"
    assert cache.add(1, "second") == "first"
    assert cache.find(1) == "first"


def test_each_lookup_is_counted_until_the_cache_is_cleared() -> None:
    cache = make_cache(5)
    cache.add(1, "a")
    for key in (1, 1, 2):
        cache.find(key)
    assert cache.counts() == CacheCounts(entries=1, hits=2, misses=1, max_entries=5)
    cache.clear()
    assert cache.counts() == CacheCounts(entries=0, hits=0, misses=0, max_entries=5)


def test_a_reduced_limit_applies_from_the_next_value() -> None:
    limits = [4]
    cache = BoundedCache[int, str](lambda: limits[0])
    for key in range(4):
        cache.add(key, str(key))
    limits[0] = 2
    cache.add(4, "4")
    assert [cache.find(key) for key in range(5)] == [None, None, None, "3", "4"]


def test_threads_may_share_a_cache() -> None:
    cache = make_cache(8)
    failures: list[object] = []

    def work(seed: int) -> None:
        for step in range(2000):
            key = (seed * 7 + step * 3) % 12
            found = cache.find(key)
            if found not in (None, str(key)) or cache.add(key, str(key)) != str(key):
                failures.append(found)
            if step % 500 == 499 and seed == 0:
                cache.counts()

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    counts = cache.counts()
    assert counts.hits + counts.misses == 4 * 2000
    assert counts.entries == 8


def test_a_finalizer_may_look_up_while_its_thread_looks_up() -> None:
    cache: BoundedCache[object, str] = BoundedCache(lambda: 5)

    class Key:
        """Comparing it stands for a finalizer, which may run in the middle of any step."""

        def __hash__(self) -> int:
            return 7

        def __eq__(self, other: object) -> bool:
            cache.find("inner")
            cache.add("inner", "b")
            return self is other

    def work() -> None:
        cache.add(Key(), "a")
        found.append(cache.find(Key()))

    found: list[str | None] = []
    # A deadlock shall fail and not hang.
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(30)
    assert found == [None]
    assert cache.find("inner") == "b"
