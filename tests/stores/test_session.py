"""Vectors S of the specification of stores. Unless said: I = 60,000, R = 10,000. A session is written `a[10,20]`.

Left out: S17, in which Kafka's in-memory store shows a session that is past the retention.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest
from raystreams.stores.builders import Stores
from raystreams.stores.errors import ClosedStoreError
from raystreams.stores.values import MAX_TIME, Windowed

from tests.stores.conftest import MakeHome
from tests.stores.homes import Home, listed

INTERVAL, RETENTION = 60_000, 10_000


def sessions(home: MakeHome, *puts: tuple[Any, int, int, Any], **settings: Any) -> Home:
    made = home(Stores.session("s", **{"retention": RETENTION, "segment_interval": INTERVAL, **settings}))
    for number, (key, start, end, value) in enumerate(puts):
        made.store.put(Windowed(key, start, end), value)
        if number % 2:
            made.commit()
    return made


def mirrored(store: Any, name: str, *arguments: Any) -> list[Any]:
    """`(key, start, end, value)` of a forward form, after checking that its backward form is the exact mirror."""
    forward = listed(getattr(store, name)(*arguments))

    assert listed(getattr(store, f"backward_{name}")(*arguments)) == forward[::-1]
    return [(session.key, session.start, session.end, value) for session, value in forward]


def found(store: Any, name: str, *arguments: Any) -> list[Any]:
    return [row[3] for row in mirrored(store, name, *arguments)]


def test_sessions_of_a_key_that_touch_a_time(home: MakeHome) -> None:  # S01, S02
    store = sessions(home, ("a", 10, 10, 1), ("a", 500, 1000, 2), ("a", 1500, 2000, 3), ("a", 2500, 3000, 4)).store

    assert mirrored(store, "find_sessions", "a", 0, 1000) == [("a", 10, 10, 1), ("a", 500, 1000, 2)]
    assert mirrored(store, "find_sessions", "a", 400, 600) == [("a", 500, 1000, 2)]


def test_ranges_of_keys_include_both_ends_and_none_is_open(home: MakeHome) -> None:  # S03, S04
    made = sessions(
        home, ("aa", 10, 10, 1), ("aaa", 100, 100, 2), ("aaaa", 100, 100, 3), ("b", 1000, 1000, 4), ("bb", 1500, 2000, 5),
        ("a", 0, 0, 0), ("bbb", 2500, 3000, 6),
    )  # fmt: skip

    assert found(made.store, "fetch_range", "aa", "bb") == [1, 2, 3, 4, 5]
    assert found(made.store, "fetch_range", None, "bb") == [0, 1, 2, 3, 4, 5]
    assert found(made.store, "fetch_range", "aa", None) == [1, 2, 3, 4, 5, 6]
    assert found(made.store, "fetch_range", None, None) == [0, 1, 2, 3, 4, 5, 6]
    assert found(made.store, "find_sessions_range", "aa", "bb", 0, MAX_TIME) == [1, 2, 3, 4, 5]


def test_one_key_is_not_its_prefix_and_times_may_be_negative(home: MakeHome) -> None:  # S05, S06
    made = sessions(home, ("a", 0, 0, 1), ("a", 10, 10, 2), ("a", 100, 100, 3), ("a", 1000, 1000, 4), ("aa", 0, 0, 5))

    assert found(made.store, "fetch", "a") == [1, 2, 3, 4]
    assert found(made.store, "find_sessions", "a", -1, 1000) == [1, 2, 3, 4]


def test_a_session_is_fetched_by_its_exact_bounds(home: MakeHome) -> None:  # S07, S08
    store = sessions(home, ("a", 0, 4, 1), ("aa", 0, 3, 2), ("aa", 0, 4, 3), ("aa", 1, 4, 4), ("aaa", 0, 4, 5)).store

    assert store.fetch_session("aa", 0, 4) == 3
    assert store.fetch_session("aa", 0, 5) is None
    assert store.fetch_session("other", 0, 4) is None
    assert store.fetch_session("aa", 5, 4) is None


def test_sessions_that_follow_each_other(home: MakeHome) -> None:  # S09
    store = sessions(home, *(("a", max(0, at - 99), at, at) for at in range(100, 501, 100))).store

    assert found(store, "find_sessions", "a", 150, 300) == [200, 300]


def test_a_removed_session_is_gone(home: MakeHome) -> None:  # S10, S11
    store = sessions(home, ("a", 0, 1000, 1), ("a", 1500, 2500, 2)).store
    store.remove(Windowed("a", 0, 1000))
    store.remove(Windowed("a", 7, 8))
    assert found(store, "find_sessions", "a", 0, 1000) == []
    assert found(store, "find_sessions", "a", 1500, 2500) == [2]

    store.put(Windowed("a", 1500, 2500), None)
    assert found(store, "fetch", "a") == []


def test_a_find_may_ask_for_sessions_that_contain_a_time(home: MakeHome) -> None:  # S12, S13
    huge = 0x7A00000000000000
    store = sessions(
        home, ("a", 0, 0, 1), ("aa", 0, 10, 2), ("a", 10, 20, 3), ("aa", 10, 20, 4), ("a", huge - 2, huge - 1, 5),
        retention=huge,
    ).store  # fmt: skip

    assert found(store, "find_sessions", "a", 0, MAX_TIME) == [1, 3, 5]
    assert found(store, "find_sessions", "aa", 0, MAX_TIME) == [2, 4]
    assert sorted(found(store, "find_sessions_range", "a", "aa", 0, MAX_TIME)) == [1, 2, 3, 4, 5]
    assert sorted(found(store, "find_sessions_range", None, "aa", 0, MAX_TIME)) == [1, 2, 3, 4, 5]
    assert found(store, "find_sessions_range", "a", "aa", 10, 0) == [2]


def test_keys_of_zero_bytes_stay_apart(home: MakeHome) -> None:  # S14
    keys = [b"\0", b"\0\0", b"\0\0\0"]
    store = sessions(home, *((keys[n % 3], n + 1, (n + 1) * 100, n + 1) for n in range(9))).store

    assert [found(store, "find_sessions", key, 0, MAX_TIME) for key in keys] == [[1, 4, 7], [2, 5, 8], [3, 6, 9]]


@pytest.mark.parametrize("time_first", [False, True])
def test_sessions_of_all_keys_by_their_end(home: MakeHome, time_first: bool) -> None:  # S15
    store = sessions(home, ("a", 0, 0, "a"), ("c", 30, 40, "c"), ("b", 10, 20, "b"), time_first=time_first).store
    asks = [store.find_ended, *([store.scan_ends] if time_first else [])]

    for ask in asks:
        got = ["".join(value for _, value in listed(ask(*ends))) for ends in [(0, 20), (0, 19), (1, 20), (19, 41), (0, 40)]]
        assert got == ["ab", "a", "b", "bc", "abc"]
    if time_first:
        store.put(Windowed("a", 40, 40), "d")
        assert [value for _, value in listed(store.scan_ends(1, 40))] == ["b", "d", "c"]  # by end, then by key
    else:
        with pytest.raises(ValueError, match="time_first=True"):
            store.scan_ends(0, 1)


def test_sessions_past_the_retention_are_hidden_and_refused(home: MakeHome) -> None:  # S16, S18
    store = sessions(home, ("a", 0, 0, 1), ("aa", 0, INTERVAL, 2), ("a", 10, INTERVAL, 3), ("aa", 10, 2 * INTERVAL, 4)).store
    assert found(store, "find_sessions_range", "a", "b", 0, MAX_TIME) == [4]
    assert store.fetch_session("a", 10, INTERVAL) is None

    store = sessions(home, ("a", 0, 2 * INTERVAL, 1), ("a", 0, 0, 2), ("a", 0, 2 * INTERVAL, 3)).store
    assert store.dropped == 1


def test_sessions_around_the_retention(home: MakeHome) -> None:  # S19, S20
    now, r = 1_000_000, RETENTION
    store = sessions(
        home, ("p", now - 3 * r, now - 2 * r, 1), ("q", now - 2 * r, now - r, 4), ("r", now - r, now - r // 2, 3),
        ("p", now - r, now - r // 2, 2),
    ).store  # fmt: skip

    assert found(store, "find_sessions", "p", now - 2 * r, now - r) == [2]
    assert found(store, "find_sessions", "p", now - 5 * r, now - 4 * r) == []
    assert found(store, "find_sessions_range", "p", "r", now - 5 * r, now - 4 * r) == []
    assert sorted(found(store, "find_sessions_range", "p", "r", now - r, now - r // 2)) == [2, 3, 4]
    assert sorted(found(store, "find_sessions_range", "p", "r", now - 2 * r, now - r)) == [2, 3, 4]


@pytest.mark.parametrize(
    "ask",
    [
        lambda s: s.find_sessions(None, 1, 2),
        lambda s: s.fetch(None),
        lambda s: s.remove(Windowed(None, 0, 1)),
        lambda s: s.put(Windowed(None, 0, 1), 1),
        lambda s: s.fetch_session(None, 0, 1),
        lambda s: s.put(Windowed("a", 2, 1), 1),
        lambda s: s.put(Windowed("a", -1, 1), 1),
    ],
)
def test_a_key_is_never_none_and_a_session_never_upside_down(home: MakeHome, ask: Callable[[Any], object]) -> None:  # S21
    with pytest.raises(ValueError, match=r"must not be None|can't be"):
        ask(sessions(home).store)


def test_a_key_range_upside_down_is_empty_and_warns(home: MakeHome, caplog: pytest.LogCaptureFixture) -> None:  # S22, D6
    store = sessions(home, ("a", 0, 0, 1), ("b", 0, 0, 2)).store

    with caplog.at_level(logging.WARNING):
        assert found(store, "fetch_range", "b", "a") == []
    assert len(caplog.records) == 2  # one a direction


def test_an_iterator_ends_when_its_store_is_closed(home: MakeHome) -> None:  # S23
    made = sessions(home, ("a", 0, 0, 1), ("b", 10, 50, 2), ("c", 100, 500, 3))
    rows = made.store.fetch("a")
    assert rows.peek()[1] == 1
    made.close()

    assert list(rows) == []
    with pytest.raises(ClosedStoreError):
        made.store.put(Windowed("a", 1, 1), 1)


def test_one_key_and_a_range_of_one_key_agree(home: MakeHome) -> None:  # S24
    store = sessions(home, ("a", 1, 3, 0), ("aa", 2, 3, 1), ("aaa", 1, 3, 9), ("aa", 4, 5, 2)).store

    assert found(store, "find_sessions", "aa", 0, 10) == found(store, "find_sessions_range", "aa", "aa", 0, 10) == [1, 2]


def test_sessions_and_their_clock_outlive_a_restart(home: MakeHome) -> None:  # S26
    made = sessions(home, ("a", 0, 5, 1), ("b", 7, 90_000, 2))
    before = mirrored(made.store, "fetch_range", None, None)
    made.restart()

    assert mirrored(made.store, "fetch_range", None, None) == before == [("b", 7, 90_000, 2)]
    assert made.store.observed == 90_000


def test_sessions_come_segment_by_segment_then_by_key_end_and_start(home: MakeHome) -> None:  # C20, section 6.3
    i = INTERVAL
    made = sessions(
        home, ("aa", 0, 0, "aa1"), ("a", 0, 0, "a1"), ("a", i, i, "a2"), ("aa", 2 * i, 2 * i, "aa3"), ("a", 2 * i, 2 * i, "a3"),
        ("a", 0, 2 * i, "a3 from 0"), retention=3 * i,
    )  # fmt: skip

    assert found(made.store, "find_sessions_range", "a", "aa", 0, 2 * i) == ["a1", "aa1", "a2", "a3 from 0", "a3", "aa3"]
    made.restart()
    assert found(made.store, "fetch_range", None, None) == ["a1", "aa1", "a2", "a3 from 0", "a3", "aa3"]
