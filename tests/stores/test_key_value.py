"""Vectors K of the specification of stores, each in every kind of home."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest
from raystreams.stores.builders import Stores
from raystreams.stores.errors import ClosedStoreError
from raystreams.stores.serdes import Serde
from raystreams.stores.values import ValueAndTimestamp

from tests.stores.conftest import MakeHome
from tests.stores.homes import Home, listed

WORDS = {0: "zero", 1: "one", 2: "two", 4: "four", 5: "five"}


def filled(home: MakeHome) -> Home:
    made = home(Stores.key_value("words", key=int, value=str))
    for key, word in WORDS.items():
        made.store.put(key, word)
    return made


def test_the_number_of_entries_is_exact(home: MakeHome) -> None:  # K01, K02
    words = filled(home)

    assert words.store.approximate_num_entries() == 5
    assert words.store.get(3) is None
    assert words.store.get(4) == "four"

    words.commit()
    words.store.delete(5)
    assert words.store.approximate_num_entries() == 4
    words.restart()
    assert words.store.approximate_num_entries() == 4


def test_ranges_include_both_ends_in_both_directions(home: MakeHome) -> None:  # K03, K04, K05
    store = filled(home).store
    store.delete(5)

    for last in (4, 6):
        assert listed(store.range(2, last)) == [(2, "two"), (4, "four")]
        assert listed(store.reverse_range(2, last)) == [(4, "four"), (2, "two")]
    assert [key for key, _ in listed(store.all())] == [0, 1, 2, 4]


def test_none_leaves_a_bound_open(home: MakeHome) -> None:  # K06, K07
    store = home(Stores.key_value("words", key=int)).store
    for key in range(3):
        store.put(key, key)

    for bounds, expected in (((None, 1), [0, 1]), ((1, None), [1, 2]), ((None, None), [0, 1, 2])):
        assert [key for key, _ in listed(store.range(*bounds))] == expected
        assert [key for key, _ in listed(store.reverse_range(*bounds))] == expected[::-1]


def test_negative_numbers_sort_before_positive_ones(home: MakeHome) -> None:  # K08: empty in Kafka, where bytes don't sort so
    store = home(Stores.key_value("numbers", key=int)).store
    for key in (3, -1, 0, -(2**70), 2**70):
        store.put(key, key)

    assert [key for key, _ in listed(store.range(-1, 3))] == [-1, 0, 3]
    assert [key for key, _ in listed(store.all())] == [-(2**70), -1, 0, 3, 2**70]


def test_a_range_upside_down_is_empty_and_warns_once(home: MakeHome, caplog: pytest.LogCaptureFixture) -> None:  # K09
    store = filled(home).store

    for ask in (store.range, store.reverse_range):
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            assert listed(ask(2, 1)) == []
        assert len(caplog.records) == 1
        assert "the lower bound comes first" in caplog.text


def test_get_and_a_range_of_one_agree(home: MakeHome) -> None:  # K10
    store = filled(home).store

    assert listed(store.range(2, 2)) == [(2, store.get(2))]


def test_put_if_absent_returns_what_is_there_and_leaves_it(home: MakeHome) -> None:  # K11, K12
    store = home(Stores.key_value("words", key=int, value=str)).store

    assert [store.put_if_absent(key, word) for key, word in WORDS.items()] == [None] * 5
    assert store.put_if_absent(4, "other") == "four"
    assert store.get(4) == "four"
    assert store.approximate_num_entries() == 5


class NullAsNone(Serde[str]):
    """Encodes "null" as no bytes at all."""

    description = "text or null"

    def encode(self, value: str) -> bytes:
        return None if value == "null" else value.encode()  # type: ignore[return-value]  # which is the point

    def decode(self, data: bytes) -> str:
        return data.decode()


def test_a_serde_may_delete_by_giving_none(home: MakeHome) -> None:  # K13
    store = home(Stores.key_value("words", key=int, value=NullAsNone())).store
    for key, value in [(0, "zero"), (1, "one"), (2, "two"), (0, "null"), (1, "null")]:
        store.put(key, value)

    assert listed(store.all()) == [(2, "two")]
    assert store.approximate_num_entries() == 1


@pytest.mark.parametrize(
    "ask",
    [
        lambda store: store.put(None, "v"),
        lambda store: store.put_if_absent(None, "v"),
        lambda store: store.put_all([(1, "new"), (None, "v")]),
        lambda store: store.delete(None),
        lambda store: store.get(None),
        lambda store: store.prefix_scan(None),
    ],
)
def test_a_single_key_is_never_none(home: MakeHome, ask: Callable[[Any], object]) -> None:  # K14
    store = filled(home).store

    with pytest.raises(ValueError, match="must not be None"):
        ask(store)
    assert store.get(1) == "one"  # put_all encodes everything before it writes anything


def test_none_deletes_and_deletes_nothing_without_an_error(home: MakeHome) -> None:  # K15
    store = filled(home).store
    store.put(1, None)
    store.put(99, None)
    store.put_if_absent(98, None)
    store.put_all([(2, None), (97, None)])

    assert [key for key, _ in listed(store.all())] == [0, 4, 5]
    assert store.approximate_num_entries() == 3


def test_put_all_writes_in_order_so_the_last_of_a_key_counts(home: MakeHome) -> None:  # K16
    store = home(Stores.key_value("words", key=int, value=str)).store
    store.put_all([(1, "first"), (2, "two"), (1, "one")])

    assert listed(store.all()) == [(1, "one"), (2, "two")]
    assert listed(store.reverse_all()) == [(2, "two"), (1, "one")]


def test_an_iterator_sees_the_store_as_it_was_when_it_was_made(home: MakeHome) -> None:  # K17, K25, K26 and section 1.7
    words = filled(home)
    words.commit()
    words.store.put(3, "three")
    rows = words.store.all()
    words.store.put(1, "changed")
    words.store.delete(2)
    words.store.put(9, "nine")
    words.commit()

    assert [key for key, _ in listed(rows)] == [0, 1, 2, 3, 4, 5]
    assert [key for key, _ in listed(words.store.all())] == [0, 1, 3, 4, 5, 9]


@pytest.mark.parametrize(
    ("keys", "prefix", "found"),
    [
        (["k1", "prefix_3", "k2", "prefix_2", "k3", "prefix_1"], "prefix", ["prefix_1", "prefix_2", "prefix_3"]),  # K20
        (["abc", "abcd", "abce"], "abcd", ["abcd"]),  # K21
        (["p11", "k1", "k2", "p2", "p1", "p0"], "p1", ["p1", "p11"]),  # K22
        (["abcd", "abcdd", "abce", "abc"], "abcd", ["abcd", "abcdd"]),  # K23
        (["a", "b", "c"], "bb", []),  # K24
        ([b"\xff", b"\xfe\xff\x01"], b"\xfe\xff", [b"\xfe\xff\x01"]),  # K33
        ([b"\xff", b"\xff\xff", b"\xfe"], b"\xff", [b"\xff", b"\xff\xff"]),
        ([1, 2, 11, 13], 1, [1]),
        ([("eu", 2), ("eu", 1), ("us", 1), ("e", 5)], ("eu",), [("eu", 1), ("eu", 2)]),
        (["a", "b"], "", ["a", "b"]),
    ],
)
def test_a_prefix_scan_gives_what_begins_with_the_prefix(home: MakeHome, keys: list[Any], prefix: Any, found: list[Any]) -> None:
    made = home(Stores.key_value("prefixes"))
    for number, key in enumerate(keys):
        made.store.put(key, number)
        if number == 1:
            made.commit()

    assert [key for key, _ in listed(made.store.prefix_scan(prefix))] == found


def test_an_iterator_peeks_and_refuses_after_its_end_and_its_close(home: MakeHome) -> None:  # K29
    store = filled(home).store
    rows = store.range(4, 5)

    assert rows.peek() == (4, "four")
    assert next(rows) == (4, "four")
    assert next(rows) == (5, "five")
    with pytest.raises(StopIteration):
        next(rows)
    with pytest.raises(LookupError):
        rows.peek()
    rows.close()
    rows.close()
    for ask in (rows.peek, rows.__next__):
        with pytest.raises(ClosedStoreError, match="iterator"):
            ask()


def test_a_closed_store_refuses_everything(home: MakeHome) -> None:
    words = filled(home)
    store = words.store
    rows = store.all()
    words.database.close()

    for ask in (lambda: store.get(1), lambda: store.put(1, "x"), lambda: store.delete(1), store.all, lambda: next(rows)):
        with pytest.raises(ClosedStoreError, match="words"):
            ask()


def test_a_forgotten_iterator_warns(home: MakeHome) -> None:
    store = filled(home).store

    with pytest.warns(ResourceWarning, match="'words' was neither closed nor read to its end"):
        next(store.all())


def test_put_if_different_skips_only_what_repeats_later(home: MakeHome) -> None:  # K31
    store = home(Stores.timestamped_key_value("words", key=str, value=str)).store
    store.put("k", "a", 10)

    assert not store.put_if_different("k", "a", 11)
    assert store.put_if_different("k", "a", 9)
    assert store.put_if_different("k", "a", 9)
    assert store.get("k") == ValueAndTimestamp("a", 9)
    assert not store.put_if_different("none", None, 1)
    assert store.put_if_different("k", None, 1)
    assert store.approximate_num_entries() == 0


def test_a_timestamped_store_keeps_times_and_can_be_read_without(home: MakeHome) -> None:  # K32
    made = home(Stores.timestamped_key_value("words", key=str, value=str))
    made.store.put_all([("a", "x", 1), ("b", "y", 2), ("b", None, 3)])
    made.store.put("c", "z", -1)

    assert made.store.put_if_absent("c", "other", 9) == ValueAndTimestamp("z", -1)
    assert listed(made.store.all()) == [("a", ValueAndTimestamp("x", 1)), ("c", ValueAndTimestamp("z", -1))]
    plain = made.store.plain()
    assert plain.get("a") == "x"
    assert listed(plain.reverse_all()) == [("c", "z"), ("a", "x")]
    made.commit()
    assert plain.approximate_num_entries() == 2


def test_changing_what_was_returned_changes_no_state(home: MakeHome) -> None:
    store = home(Stores.key_value("lists")).store
    mine = [1]
    store.put("k", mine)
    mine.append(2)
    store.get("k").append(3)
    store.delete("other")

    assert store.get("k") == [1]
    assert listed(store.all())[0][1] is not listed(store.all())[0][1]
