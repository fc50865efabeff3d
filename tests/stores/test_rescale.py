"""Stores on another number of partitions hold what they held, each key where its partition is."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from raystreams.stores.builders import (
    StoreBuilder,
    Stores,
    foreign_key_index,
    outer_join_buffer,
    subscription_store,
    suppress_buffer,
    time_ordered_buffer,
    versioned_foreign_key_index,
)
from raystreams.stores.database import TaskDatabase
from raystreams.stores.errors import StoreError
from raystreams.stores.rescale import kinds, rescale_store
from raystreams.stores.serdes import key_serde, partition_of
from raystreams.stores.values import Windowed

from tests.stores.homes import listed

KEYS = [f"key{number}" for number in range(20)]
encode = key_serde(str).encode


def key_value(store: Any, key: str, step: int) -> None:
    store.put(key, step)


def versioned_index(store: Any, key: str, step: int) -> None:
    store.put(encode(key), b"%d" % (step % 5), b"row%d" % step if step % 4 else None, step)


def by_foreign_key(store: Any) -> list[Any]:
    return [(key, *row) for key in KEYS for row in store.scan(encode(key))]


# What is put for a key at a step, and everything that a store has, as a list that doesn't depend on partitions once sorted.
CASES: list[tuple[StoreBuilder[Any], Callable[[Any, str, int], object], Callable[[Any], list[Any]]]] = [
    (Stores.key_value("s", key=str), key_value, lambda s: listed(s.all())),
    (Stores.timestamped_key_value("s", key=str), lambda s, k, n: s.put(k, n, n), lambda s: listed(s.plain().all())),
    (
        Stores.key_value("s", key=Windowed[str]),
        lambda s, k, n: s.put(Windowed(k, n % 3, 9), n),
        lambda s: [((w.key, w.start), v) for w, v in listed(s.all())],
    ),
    (
        Stores.versioned("s", key=str, history_retention=400, segment_interval=50),
        lambda s, k, n: s.put(k, n if n % 4 else None, n + n % 7),
        lambda s: [(k, v.timestamp, v.valid_to, v.value) for k in KEYS for v in listed(s.history(k))],
    ),
    (
        Stores.window("s", key=str, retention=400, size=10, segment_interval=50, retain_duplicates=True, time_first=True),
        lambda s, k, n: s.put(k, n, n),
        lambda s: [(w.key, w.start, v) for w, v in listed(s.all())],
    ),
    (
        Stores.timestamped_window("s", key=str, retention=400, size=10, segment_interval=50),
        lambda s, k, n: s.put(k, n, n, n),
        lambda s: [(w.key, w.start, v) for w, v in listed(s.plain().all())],
    ),
    (
        Stores.session("s", key=str, retention=400, segment_interval=50, time_first=True),
        lambda s, k, n: s.put(Windowed(k, n - n % 5, n), n),
        lambda s: [(w.key, w.start, w.end, v) for w, v in listed(s.scan_ends(0, 10_000))],
    ),
    (subscription_store("s"), lambda s, k, n: s.put(encode(k), b"%d" % n, b"x"), by_foreign_key),
    (foreign_key_index("s"), lambda s, k, n: s.put(encode(k), b"%d" % n, b"x"), by_foreign_key),
    (
        versioned_foreign_key_index("s", history_retention=400),
        versioned_index,
        lambda s: [(k, t, *r) for k in KEYS for t in (150, 400, 600) for r in s.scan(encode(k), t)],
    ),
    (time_ordered_buffer("s"), lambda s, k, n: s.put(n % 50, encode(k), b"%d" % n), lambda s: list(s.scan())),
    (suppress_buffer("s"), lambda s, k, n: s.put(encode(k), n, b"%d" % n), lambda s: list(s.evict(10_000))),
    (outer_join_buffer("s"), lambda s, k, n: s.put(n % 50, n % 2, encode(k), b"%d" % n), lambda s: list(s.walk())),
]  # fmt: skip


def databases(partitions: int) -> list[TaskDatabase]:
    return [TaskDatabase.open(None, {"partition": number}) for number in range(partitions)]


def filled(builder: StoreBuilder[Any], put: Callable[[Any, str, int], object], partitions: int) -> list[TaskDatabase]:
    made = databases(partitions)
    stores = [builder.create(database) for database in made]
    dice = random.Random(5)
    for step in range(600):
        key = dice.choice(KEYS)
        put(stores[partition_of(encode(key), partitions)], key, step)
    for database in made:
        database.commit()
    return made


@pytest.mark.parametrize(("builder", "put", "contents"), CASES, ids=[f"{case[0].kind}-{n}" for n, case in enumerate(CASES)])
@pytest.mark.parametrize("partitions", [1, 2, 5])
def test_a_store_holds_the_same_on_any_number_of_partitions(
    builder: StoreBuilder[Any], put: Callable[[Any, str, int], object], contents: Callable[[Any], list[Any]], partitions: int
) -> None:
    sources, targets = filled(builder, put, 3), databases(partitions)
    rescale_store("s", sources, targets)
    for database in [*sources, *targets]:
        database.discard()
    moved = [builder.create(database) for database in targets]
    counts = [getattr(store, "count", None) for store in moved]
    expected = sorted(row for database in sources for row in contents(builder.create(database)))
    found = [contents(store) for store in moved]

    if builder.kind == "key_value":
        assert [store.approximate_num_entries() for store in moved] == [len(rows) for rows in found]
    elif "buffer" in builder.kind and counts[0] is not None:
        assert counts == [len(rows) for rows in found]
    # A later clock may hide what was just within the retention of a partition that was behind.
    assert len(expected) - sum(map(len, found)) <= 30
    assert {str(row) for rows in found for row in rows} <= set(map(str, expected))
    one_more = "key3"
    put(moved[partition_of(encode(one_more), partitions)], one_more, 601)


def test_every_kind_can_be_rescaled() -> None:
    assert {builder.kind for builder, _, _ in CASES} == set(kinds())


def test_a_key_in_two_partitions_is_an_error() -> None:
    sources = databases(2)
    for database in sources:
        Stores.key_value("totals").create(database).put("total", 5)
        database.commit()

    with pytest.raises(StoreError, match="'totals' has the key 'total' in two partitions"):
        rescale_store("totals", sources, databases(3))


def test_a_global_table_goes_to_all_partitions() -> None:
    builder = Stores.key_value("countries", key=str)
    sources, targets = databases(2), databases(3)
    for database in sources:
        builder.create(database).put("de", 1)
        database.commit()
    rescale_store("countries", sources, targets, copied=True)

    for target in targets:
        target.discard()
        assert listed(builder.create(target).all()) == [("de", 1)]
        assert builder.read_committed(target).approximate_num_entries() == 1
    rescale_store("unknown", sources, targets)
    assert "unknown" not in targets[0].catalog
