"""Keyspaces: what is pending over what is committed, in both directions, and views that writes do not disturb."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from raystreams.stores.builders import StoreBuilder
from raystreams.stores.memory import MemoryEngine, SortedMap
from raystreams.stores.merge import merged
from raystreams.stores.overlay import OverlaidKeyspace, ResidentKeyspace

from tests.stores.conftest import MakeHome

some_keys = st.binary(min_size=1, max_size=2)
some_rows = st.dictionaries(some_keys, st.binary(max_size=2), max_size=12)
overlaid = st.dictionaries(some_keys, st.none() | st.binary(max_size=2), max_size=12)


@given(overlaid, some_rows, st.booleans())
def test_the_upper_rows_count_and_deletions_hide(
    over: dict[bytes, bytes | None], under: dict[bytes, bytes], reverse: bool
) -> None:
    upper = iter(sorted(over.items(), reverse=reverse))
    lower = iter(sorted(under.items(), reverse=reverse))
    first = next(upper, None)
    rows = list(lower if first is None else merged(first, upper, lower, reverse=reverse))

    expected = {key: value for key, value in {**under, **over}.items() if value is not None}
    assert rows == sorted(expected.items(), reverse=reverse)


@pytest.mark.parametrize("reverse", [False, True])
def test_a_deletion_waits_until_the_lower_side_has_reached_its_key(reverse: bool) -> None:  # KAFKA-18326
    over: list[tuple[bytes, bytes | None]] = [(b"c", None), (b"d", b"new")]
    under = [(b"a", b"1"), (b"b", b"2"), (b"c", b"old"), (b"e", b"5")]
    if reverse:
        over, under = over[::-1], under[::-1]
    rows = [key for key, _ in merged(over[0], iter(over[1:]), iter(under), reverse=reverse)]

    assert rows == ([b"e", b"d", b"b", b"a"] if reverse else [b"a", b"b", b"d", b"e"])


@given(
    some_rows, st.none() | some_keys, st.none() | some_keys, st.booleans(),
    st.lists(st.tuples(some_keys, st.booleans()), max_size=6),
)  # fmt: skip
def test_a_scan_of_a_map_is_not_disturbed_by_writes(
    rows: dict[bytes, bytes], start: bytes | None, stop: bytes | None, reverse: bool, writes: list[tuple[bytes, bool]]
) -> None:
    many = {**rows, **{b"%03d" % number: b"" for number in range(40)}}
    kept = SortedMap(dict(many))
    expected = sorted(
        ((key, value) for key, value in many.items() if (start is None or key >= start) and (stop is None or key < stop)),
        reverse=reverse,
    )
    scan = kept.scan(start, stop, reverse=reverse)
    got = list(islice(scan, 3))
    for key, put in writes:
        if put:
            kept.put(key, b"changed")
        else:
            kept.remove(key)

    assert [*got, *scan] == expected


def keyspaces() -> Iterator[tuple[str, Any]]:
    for cache in (1 << 20, 400):
        yield f"cache of {cache}", OverlaidKeyspace("s", b"\0\1", MemoryEngine(), cache)
    yield "resident", ResidentKeyspace("s", b"\0\1", MemoryEngine())


step = st.one_of(
    st.tuples(st.sampled_from(["put", "write", "swap"]), some_keys, st.binary(max_size=2)),
    st.tuples(st.just("delete"), some_keys, st.none()),
    st.tuples(st.sampled_from(["get", "commit", "scan"]), some_keys, st.none()),
)


@settings(deadline=None)
@given(st.lists(step, max_size=40))
def test_a_keyspace_is_a_sorted_dict(steps: list[tuple[str, bytes, bytes | None]]) -> None:
    for name, keyspace in keyspaces():
        model: dict[bytes, bytes] = {}
        written: set[bytes] = set()  # rows past the cache are scanned only
        engine = getattr(keyspace, "_engine", None)
        for what, key, value in steps:
            if what in ("put", "write", "swap") and value is not None:
                if what == "write":
                    written.add(key)
                elif key in written:
                    continue
                if what == "swap":
                    assert keyspace.swap(key, value) == model.get(key), name
                else:
                    getattr(keyspace, what)(key, value)
                model[key] = value
            elif what == "delete" and key not in written:
                keyspace.delete(key)
                model.pop(key, None)
            elif what == "get" and key not in written:
                assert keyspace.get(key) == model.get(key), name
            elif what == "commit" and engine is not None:
                engine.write(keyspace.operations(), sync=False)
                keyspace.committed()
            elif what == "scan":
                assert list(keyspace.scan(key)) == sorted(row for row in model.items() if row[0] >= key), name
                below = sorted((row for row in model.items() if row[0] < key), reverse=True)
                assert list(keyspace.scan(None, key, reverse=True)) == below, name


def test_a_store_over_any_keyspace_is_a_store(home: MakeHome) -> None:
    def make(keyspace: Any, key: Any, value: Any) -> Any:
        return keyspace

    made = home(StoreBuilder(name="raw", kind="raw", make=make))
    made.store.put(b"\x01a", b"1")
    made.commit()
    made.store.write(b"\x01b", b"2")
    made.store.write(b"\x01a", None)

    assert list(made.store.scan(b"\x01")) == [(b"\x01b", b"2")]
