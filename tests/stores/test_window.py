"""Vectors W of the specification of stores. Unless said: I = 60,000, R = 120,000, size 3, int keys, and times relative to BASE.

Left out: W35 and W36, in which Kafka's in-memory store shows an open iterator rows that it has deleted (ours behaves as
RocksDB in W26), and W37 to W40, which fix bounds of Kafka's own key format.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from raystreams.stores.builders import Stores
from raystreams.stores.errors import ClosedStoreError
from raystreams.stores.values import MAX_TIME, ValueAndTimestamp, Windowed

from tests.stores.conftest import MakeHome
from tests.stores.homes import Home, listed

INTERVAL, RETENTION, BASE = 60_000, 120_000, 59_996
BATCH = [("zero", 0, 0), ("one", 1, 1), ("two", 2, 2), ("three", 3, 2), ("four", 4, 4), ("five", 5, 5)]
NAMES = [value for value, _, _ in BATCH]


def windows(home: MakeHome, **settings: Any) -> Home:
    return home(Stores.window("w", **{"retention": RETENTION, "size": 3, "segment_interval": INTERVAL, **settings}))


def batch(home: MakeHome, **settings: Any) -> Home:
    made = windows(home, **settings)
    for number, (value, key, offset) in enumerate(BATCH):
        made.store.put(key, value, BASE + offset)
        if number == 3:
            made.commit()
    return made


def values(rows: Any) -> list[Any]:
    return [value for _, value in listed(rows)]


def mirrored(store: Any, name: str, *arguments: Any) -> list[Any]:
    """The values of a forward form, after checking that its backward form is the exact mirror."""
    forward = listed(getattr(store, name)(*arguments))

    assert listed(getattr(store, f"backward_{name}")(*arguments)) == forward[::-1]
    return [value for _, value in forward]


def test_all_windows_in_both_directions(home: MakeHome) -> None:  # W01, W02
    assert mirrored(batch(home).store, "all") == NAMES


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [(1, 4, NAMES[1:5]), (0, 3, NAMES[:4]), (1, 5, NAMES[1:])],  # W03, W04, W05
)
def test_all_keys_within_times(home: MakeHome, start: int, end: int, expected: list[str]) -> None:
    assert mirrored(batch(home).store, "fetch_all", BASE + start, BASE + end) == expected


@pytest.mark.parametrize(
    ("first", "last", "start", "end", "expected"),
    [
        (0, 1, -3, 3, NAMES[:2]),  # W06
        (1, 1, -3, 3, ["one"]),  # W07
        (1, 3, -3, 3, NAMES[1:4]),  # W08
        (0, 5, -3, 3, NAMES[:4]),  # W09
        (0, 5, -3, 8, NAMES),  # W10
        (0, 5, 2, 8, NAMES[2:]),  # W11
        (4, 5, 2, 3, []),  # W12
        (0, 3, 3, 8, []),  # W13
        (None, 2, -3, 5, NAMES[:3]),  # W14
        (2, None, -3, 8, NAMES[2:]),  # W15
        (None, None, -3, 8, NAMES),  # W16
    ],
)
def test_a_range_of_keys_within_times(
    home: MakeHome, first: int | None, last: int | None, start: int, end: int, expected: list[str]
) -> None:
    assert mirrored(batch(home).store, "fetch_range", first, last, BASE + start, BASE + end) == expected


def test_the_windows_of_one_key_around_a_time(home: MakeHome) -> None:  # W17
    made = batch(home)
    for number in range(1, 7):
        made.store.put(2, f"two+{number}", BASE + 2 + number)
        made.commit()
    at = {"two": 2, **{f"two+{number}": 2 + number for number in range(1, 7)}}
    for center in range(-2, 13):
        expected = [value for value, time in at.items() if abs(time - center) <= 3]
        assert mirrored(made.store, "fetch", 2, BASE + center - 3, BASE + center + 3) == expected


def test_a_key_range_upside_down_is_empty_and_warns(home: MakeHome, caplog: pytest.LogCaptureFixture) -> None:  # W18
    assert values(batch(home).store.fetch_range(2, 1, 0, 10)) == []
    assert len(caplog.records) == 1


def test_keys_that_begin_alike_stay_apart_under_a_huge_retention(home: MakeHome) -> None:  # W19
    huge = 0x7A00000000000000
    made = windows(home, retention=huge, size=huge)
    for key, value, start in [("a", 1, 0), ("aa", 2, 0), ("a", 3, 1), ("aa", 4, 1), ("a", 5, huge - 1)]:
        made.store.put(key, value, start)

    assert mirrored(made.store, "fetch", "a", 0, MAX_TIME) == [1, 3, 5]
    assert mirrored(made.store, "fetch_range", "aa", "aa", 0, MAX_TIME) == [2, 4]
    assert listed(made.store.fetch_range("a", "a", huge, MAX_TIME)) == []
    assert listed(made.store.all())[-1][0] == Windowed("a", huge - 1, MAX_TIME)  # the end is capped


def test_keys_of_zero_bytes_stay_apart(home: MakeHome) -> None:  # W20
    made = windows(home, retain_duplicates=True)
    one, two, three = b"\0", b"\0\0", b"\0\0\0"
    puts = [(one, 1, 0), (two, 2, 0), (three, 3, 0), (one, 4, 1), (two, 5, 1), (three, 6, 59_999), (one, 7, 59_999),
            (two, 8, 59_999), (three, 9, 59_999)]  # fmt: skip
    for key, value, start in puts:
        made.store.put(key, value, start)
    made.commit()

    assert [mirrored(made.store, "fetch", key, 0, MAX_TIME) for key in (one, two, three)] == [[1, 4, 7], [2, 5, 8], [3, 6, 9]]


def test_duplicates_come_in_the_order_in_which_they_were_put(home: MakeHome) -> None:  # W21, W25
    made = windows(home, retain_duplicates=True)
    for start, value in [(0, "one"), (30, "two"), (60, "three")]:
        made.store.put(1, value, start)
        made.restart()
        made.store.put(1, f"{value}-2", start)
        made.store.put(1, f"{value}-2", start)

    with made.store.fetch(1, 0, 30) as rows:
        assert list(rows) == [(0, "one"), (0, "one-2"), (0, "one-2"), (30, "two"), (30, "two-2"), (30, "two-2")]
    assert len(mirrored(made.store, "all")) == 9
    assert made.store.fetch(1, 30) == "two"
    made.store.put(1, None, 0)  # a null is ignored
    assert len(values(made.store.all())) == 9


def test_a_window_past_the_retention_is_dropped_and_counted(home: MakeHome) -> None:  # W22, W23
    made = windows(home)
    made.store.put(1, "one", 0)
    made.store.put(1, "two", 4 * RETENTION)
    assert values(made.store.fetch(1, 0, 10)) == []

    made = windows(home)
    for start in (2 * RETENTION, 0, RETENTION + 1):
        made.store.put(1, "x", start)
    assert made.store.dropped == 1


def test_a_put_replaces_and_none_deletes(home: MakeHome) -> None:  # W24, W44, W29
    made = batch(home)
    made.store.put(1, "one again", BASE + 1)
    assert mirrored(made.store, "fetch", 1, BASE, BASE + 9) == ["one again"]
    assert made.store.fetch(1, BASE + 1) == "one again"

    made.store.put(1, None, BASE + 1)
    made.store.put(3, None, BASE + 2)
    made.commit()
    made.store.put(99, None, BASE)

    assert mirrored(made.store, "all") == ["zero", "two", "four", "five"]
    assert made.store.fetch(1, BASE + 1) is None
    assert made.store.fetch(1, -5) is None
    with pytest.raises(ValueError, match="before the epoch"):
        made.store.put(1, "x", -1)


@pytest.mark.parametrize("ask", [lambda s: s.put(None, 1, 0), lambda s: s.fetch(None, 0), lambda s: s.fetch(None, 0, 1)])
def test_a_single_key_is_never_none(home: MakeHome, ask: Callable[[Any], object]) -> None:  # W29
    with pytest.raises(ValueError, match="must not be None"):
        ask(windows(home).store)


def test_an_iterator_looks_at_its_first_step_and_not_when_it_is_made(home: MakeHome) -> None:  # W26, W27
    made = windows(home)
    for value, start in [("one", 0), ("two", INTERVAL), ("three", 2 * INTERVAL)]:
        made.store.put(1, value, start)
    rows = made.store.fetch(1, 0, 2 * INTERVAL)
    made.store.put(1, "four", 3 * INTERVAL)
    assert values(rows) == ["two", "three"]

    made = windows(home)
    made.store.put(1, "one", 0)
    made.store.put(1, "two", 30)
    rows = made.store.all()
    made.store.put(1, "three", 60)
    made.store.put(2, "four", 90)
    assert values(rows) == ["one", "two", "three", "four"]


def test_an_iterator_ends_when_its_store_is_closed(home: MakeHome) -> None:  # W28
    made = windows(home)
    for start in (1, 2, 3):
        made.store.put(1, start, start)
    rows = made.store.fetch(1, 1, 3)
    assert rows.peek() == (1, 1)
    made.close()

    assert list(rows) == []
    with pytest.raises(ClosedStoreError):
        made.store.put(1, "x", 1)
    with pytest.raises(ClosedStoreError):
        made.store.fetch(1, 1)


ROLLING = [(0, "zero", 2.0), (1, "one", 2.5), (2, "two", 3.0), (4, "four", 4.0), (5, "five", 4.5)]


@pytest.mark.parametrize(("time_first", "one", "two"), [(False, [], []), (True, ["one"], ["two"])])
def test_windows_that_are_a_retention_old_are_hidden(
    home: MakeHome, time_first: bool, one: list[str], two: list[str]
) -> None:  # W30 to W33; emit-on-close shows one millisecond more
    made = windows(home, time_first=time_first)
    for key, value, intervals in ROLLING:
        made.store.put(key, value, int(intervals * INTERVAL))
        made.commit()

    def around(key: int, time: int) -> list[Any]:
        return mirrored(made.store, "fetch", key, time - 3, time + 3)

    found = [around(key, int(at * INTERVAL)) for key, at in [(0, 2), (1, 2.5), (2, 3), (3, 3.5), (4, 4), (5, 4.5)]]
    assert found == [[], one, ["two"], [], ["four"], ["five"]]
    assert mirrored(made.store, "all") == [*one, "two", "four", "five"]

    made.store.put(6, "six", 5 * INTERVAL)
    assert around(2, 3 * INTERVAL) == two
    made.store.put(7, "seven", int(5.5 * INTERVAL))
    assert around(2, 3 * INTERVAL) == []


@pytest.mark.parametrize(("time_first", "counts"), [(False, [4, 1, 1]), (True, [4, 2, 1])])
def test_duplicates_expire_too(home: MakeHome, time_first: bool, counts: list[int]) -> None:  # W34
    made = windows(home, retain_duplicates=True, time_first=time_first)
    for start in (0, INTERVAL - 1, INTERVAL - 1, INTERVAL):
        made.store.put(0, "v", start)
    assert len(mirrored(made.store, "fetch", 0, 0, 4 * INTERVAL)) == counts[0]
    made.store.put(0, "v", 3 * INTERVAL)
    assert len(mirrored(made.store, "fetch", 0, 0, 4 * INTERVAL)) == counts[1]
    made.commit()
    made.store.put(0, "v", 5 * INTERVAL)
    assert len(mirrored(made.store, "fetch", 0, 4 * INTERVAL, 10 * INTERVAL)) == counts[2]


def test_several_keys_come_segment_by_segment_and_by_key_in_one(home: MakeHome) -> None:  # W41, section 5.3
    made = windows(home)
    for key, value, start in [("a", 1, 0), ("aa", 2, 0), ("a", 3, 1), ("aa", 4, 1), ("a", 5, INTERVAL)]:
        made.store.put(key, value, start)
        made.commit()

    assert mirrored(made.store, "fetch_range", "a", "aa", 0, MAX_TIME) == [1, 3, 2, 4, 5]
    assert mirrored(made.store, "all") == [1, 3, 2, 4, 5]


def test_a_time_first_store_gives_several_keys_by_time(home: MakeHome) -> None:
    made = windows(home, time_first=True)
    for key, start in [("b", 1), ("a", 2), ("a", 1), ("c", INTERVAL), ("b", INTERVAL)]:
        made.store.put(key, f"{key}{start}", start)
    made.commit()
    made.store.put("a", None, 2)

    assert mirrored(made.store, "all") == ["a1", "b1", "b60000", "c60000"]
    assert listed(made.store.scan_time(1, 1)) == [(Windowed("a", 1, 4), "a1"), (Windowed("b", 1, 4), "b1")]
    assert mirrored(made.store, "fetch_range", "a", "b", 0, MAX_TIME) == ["a1", "b1", "b60000"]


def test_only_a_time_first_store_can_be_scanned_by_time(home: MakeHome) -> None:
    with pytest.raises(ValueError, match="time_first=True"):
        windows(home).store.scan_time(0, 1)


def test_one_key_and_a_range_of_one_key_agree(home: MakeHome) -> None:  # W42
    made = windows(home)
    for key, start in [(1, 0), (2, 1), (2, 2), (3, 3)]:
        made.store.put(key, start, start)

    assert mirrored(made.store, "fetch", 2, 0, 5) == mirrored(made.store, "fetch_range", 2, 2, 0, 5) == [1, 2]


def test_puts_out_of_order_are_found_in_order(home: MakeHome) -> None:  # W43
    made = windows(home)
    for key in (3, 0, 4, 1, 2):
        made.store.put(key, key, BASE + key)

    assert mirrored(made.store, "all") == [0, 1, 2, 3, 4]


def test_an_iterator_that_is_left_early_harms_no_other(home: MakeHome) -> None:  # W45
    store = batch(home).store
    with store.all() as rows:
        assert next(rows)[1] == "zero"

    assert values(store.all()) == NAMES


def test_a_timestamped_window_store_keeps_the_time_of_the_record(home: MakeHome) -> None:
    made = home(Stores.timestamped_window("w", retention=100, size=10, key=str, value=int))
    made.store.put("k", 1, 17, 10)
    made.restart()

    assert made.store.fetch("k", 10) == ValueAndTimestamp(1, 17)
    assert listed(made.store.plain().all()) == [(Windowed("k", 10, 20), 1)]
    assert made.store.plain().fetch("k", 10) == 1


def test_expired_windows_leave_the_disk_also_in_pieces(home: MakeHome, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("raystreams.stores.segments._DELETED_PER_COMMIT", 5)
    for settings in ({"time_first": True}, {"retain_duplicates": True}, {}):
        made = windows(home, retention=100, segment_interval=50, **settings)
        for start in range(0, 2_000, 5):
            made.store.put("k", start, start)
            if start % 50 == 0:
                made.commit()
        made.commit()
        rows = 2 if settings.get("time_first") else 1

        assert made.database.verify() <= rows * (100 + 50) / 5 + 10
        assert values(made.store.all())[-1] == 1_995


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"retention": -1}, "retention must be at least 0"),
        ({"size": -1}, "size must be at least 0"),
        ({"segment_interval": 0}, "segment_interval must be at least 1"),
        ({"size": 200_000}, "longer than the retention"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, Any], error: str) -> None:  # section 1.9
    with pytest.raises(ValueError, match=error):
        Stores.window("w", **{"retention": RETENTION, "size": 3, **settings})


def test_a_window_store_with_duplicates_is_not_cached(caplog: pytest.LogCaptureFixture) -> None:  # section 1.9
    assert not Stores.window("w", retention=10, size=1, retain_duplicates=True, caching=True).caching
    assert "is not cached" in caplog.text
    with pytest.raises(ValueError, match="can't be cached"):
        Stores.versioned("v", history_retention=1, caching=True)
