"""Faults that were reported against systems that do this job, as far as they are faults of stores (field-reports, by number)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from raystreams.stores.builders import Stores
from raystreams.stores.serdes import key_serde, value_serde
from raystreams.stores.values import VersionedRecord, Windowed

from tests.stores.conftest import MakeHome
from tests.stores.homes import listed


def values(rows: Any) -> list[Any]:
    return [value for _, value in listed(rows)]


def test_b19_duplicates_with_one_key_and_time_survive_restarts(home: MakeHome) -> None:
    made = home(Stores.window("left", retention=200, size=100, retain_duplicates=True))
    for value in ("v1", "v2", "v1"):
        made.store.put("k", value, 10)
        made.restart()

    assert values(made.store.fetch("k", 0, 20)) == ["v1", "v2", "v1"]


def test_b21_a_backward_scan_turns_rows_inside_a_segment_too(home: MakeHome) -> None:
    made = home(Stores.window("w", retention=1_000, size=500, segment_interval=500))
    for key, value, start in [("a", "aa", 0), ("b", "bb", 10), ("c", "cc", 510)]:
        made.store.put(key, value, start)

    assert values(made.store.fetch_all(0, 600)) == ["aa", "bb", "cc"]
    assert values(made.store.backward_fetch_all(0, 600)) == ["cc", "bb", "aa"]


def test_b22_several_keys_in_one_session_window_come_in_order(home: MakeHome) -> None:
    made = home(Stores.session("s", retention=1_000))
    for key, at in [("c", 0), ("a", 0), ("b", 100), ("b", 0)]:
        made.store.put(Windowed(key, at, at), f"{key}{at}")

    assert values(made.store.fetch_range("a", "c")) == ["a0", "b0", "b100", "c0"]
    assert values(made.store.backward_fetch_range("a", "c")) == ["c0", "b100", "b0", "a0"]
    assert values(made.store.find_sessions("b", 0, 200)) == ["b0", "b100"]
    assert values(made.store.backward_find_sessions("b", 0, 200)) == ["b100", "b0"]


def test_b24_a_fetch_by_key_gives_all_its_rows_and_no_others(home: MakeHome) -> None:
    made = home(Stores.window("w", retention=1_000, size=10))
    for key, start in [("a", 10), ("aa", 10), ("a\x00", 10), ("b", 10), ("a", 20)]:
        made.store.put(key, f"{key}@{start}", start)
    made.commit()

    assert values(made.store.fetch("a", 0, 100)) == ["a@10", "a@20"]


def test_b26_a_put_out_of_order_leaves_the_latest_and_splits_the_past(home: MakeHome) -> None:
    made = home(Stores.versioned("v", history_retention=1_000))
    assert [made.store.put("k", value, at) for value, at in [("v10", 10), ("v20", 20), ("v15", 15)]] == [-1, -1, 20]

    assert made.store.get("k").value == "v20"
    found = {at: made.store.get("k", as_of=at) for at in (9, 12, 15, 19, 20)}
    assert {at: record and record.value for at, record in found.items()} == {9: None, 12: "v10", 15: "v15", 19: "v15", 20: "v20"}
    assert listed(made.store.history("k")) == [
        VersionedRecord("v10", 10, 15),
        VersionedRecord("v15", 15, 20),
        VersionedRecord("v20", 20, None),
    ]


@pytest.mark.parametrize("early_tombstone", [False, True])
def test_b27_an_older_value_does_not_raise_a_deleted_key(home: MakeHome, early_tombstone: bool) -> None:
    made = home(Stores.versioned("v", history_retention=1_000))
    if early_tombstone:
        made.store.put("k", None, 5)
    made.store.put("k", "a", 10)
    made.store.put("k", None, 20)
    made.commit()

    assert made.store.put("k", "b", 15) == 20
    assert made.store.get("k") is None
    found = [made.store.get("k", as_of=at) for at in (4, 5, 10, 15, 19, 25)]
    assert [record and record.value for record in found] == [None, None, "a", "b", "b", None]


def test_b29_the_last_write_of_a_timestamp_wins(home: MakeHome) -> None:
    made = home(Stores.versioned("v", history_retention=1_000))
    for value in ("a", "b", None, "c"):
        made.store.put("k", value, 10)
    assert made.store.get("k") == VersionedRecord("c", 10)
    made.store.put("k", "x", 20)
    made.commit()
    made.store.put("k", "y", 10)

    assert listed(made.store.history("k")) == [VersionedRecord("y", 10, 20), VersionedRecord("x", 20)]


def test_b61_expiry_deletes_no_other_keys_rows(home: MakeHome) -> None:
    made = home(Stores.versioned("v", history_retention=1_000, segment_interval=10))
    for key, at in [("key", 0), ("key2", 0), ("key", 10_000), ("key", 20_000)]:
        made.store.put(key, at, at)
        made.restart()

    assert made.store.get("key2") == VersionedRecord(0, 0)
    assert made.store.get("key2", as_of=5) == VersionedRecord(0, 0)
    windows = home(Stores.window("w", retention=100, size=10, segment_interval=50))
    for key, start in [("key", 100), ("key2", 160), ("key", 220)]:
        windows.store.put(key, start, start)
        windows.restart()
    assert values(windows.store.all()) == [160, 220]


@dataclass(frozen=True)
class User:
    id: int


@pytest.mark.parametrize("hint", [None, Windowed[str], Windowed[User]])
def test_b64_a_windowed_key_keeps_both_its_bounds(hint: Any) -> None:
    key = User(1) if hint == Windowed[User] else "k"
    for window in (Windowed(key, 0, 500), Windowed(key, 7, 7), Windowed(key, 3, 2**63 - 1)):
        for codec in (key_serde(hint), value_serde(hint)):
            back = codec.decode(codec.encode(window))
            assert (back.key, back.start, back.end) == (key, window.start, window.end)
