"""All kinds of homes and a naive model agree, whatever is done to them, with commits, crashes and restarts in between.

One state machine a kind of store drives memory, LevelDB, LevelDB with hardly any cache, and a store that is wholly in
memory. Committed state, read as a query reads it, is compared too.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule
from raystreams.stores.builders import StoreBuilder, Stores
from raystreams.stores.values import Windowed

from tests.stores.homes import KINDS, Home, listed, make_home
from tests.stores.models import KeyValueModel, SessionModel, VersionedModel, WindowModel
from tests.strategies import few_keys

few_values = st.none() | st.integers(0, 9)
times = st.integers(0, 120)
bounds = st.none() | few_keys
edges = st.sampled_from([-5, 0, 2**63 - 1]) | times


def plain(key: Any) -> Any:
    return (key.key, key.start, key.end) if isinstance(key, Windowed) else key


def pairs(rows: Any) -> list[Any]:
    return [(plain(key), value) for key, value in listed(rows)]


class Agreement(RuleBasedStateMachine):
    """Homes of one store each, and its model."""

    homes: list[Home]
    model: Any

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.homes = []

    def build(self, builder: StoreBuilder[Any], model: Any) -> None:
        self.model = model
        self.homes = [make_home(kind, builder, self.folder) for kind in KINDS]

    def agree(self, ask: Callable[[Any], Any], expected: Any) -> None:
        for kind, home in zip(KINDS, self.homes, strict=True):
            assert ask(home.store) == expected, kind

    def mirror(self, ask: Callable[[Any], Any], backward: Callable[[Any], Any], expected: list[Any]) -> None:
        self.agree(lambda store: pairs(ask(store)), expected)
        self.agree(lambda store: pairs(backward(store)), expected[::-1])

    @rule()
    def commit(self) -> None:
        self.model.commit()
        for home in self.homes:
            home.commit()

    @rule()
    def crash(self) -> None:
        self.model.crash()
        for home in self.homes:
            home.crash()

    @rule()
    def restart(self) -> None:
        self.model.commit()
        for home in self.homes:
            home.restart()

    def teardown(self) -> None:
        for home in self.homes:
            home.close()
        shutil.rmtree(self.folder)


class KeyValueAgreement(Agreement):
    """Key-value stores."""

    @initialize()
    def start(self) -> None:
        self.build(Stores.key_value("s", key=str), KeyValueModel())

    @rule(key=few_keys, value=few_values)
    def put(self, key: str, value: int | None) -> None:
        self.model.put(key, value)
        self.agree(lambda store: store.put(key, value), None)

    @rule(key=few_keys, value=few_values)
    def put_if_absent(self, key: str, value: int | None) -> None:
        old = self.model.rows.get(key)
        if old is None:
            self.model.put(key, value)
        self.agree(lambda store: store.put_if_absent(key, value), old)

    @rule(key=few_keys)
    def delete(self, key: str) -> None:
        old = self.model.rows.pop(key, None)
        self.agree(lambda store: store.delete(key), old)

    @rule(entries=st.lists(st.tuples(few_keys, few_values), max_size=4))
    def put_all(self, entries: list[tuple[str, int | None]]) -> None:
        for key, value in entries:
            self.model.put(key, value)
        self.agree(lambda store: store.put_all(entries), None)

    @rule(first=bounds, last=bounds)
    def read_range(self, first: str | None, last: str | None) -> None:
        expected = self.model.range(first, last)
        self.mirror(lambda s: s.range(first, last), lambda s: s.reverse_range(first, last), expected)

    @rule(prefix=few_keys)
    def read(self, prefix: str) -> None:
        self.agree(lambda store: store.get(prefix), self.model.rows.get(prefix))
        self.agree(lambda store: store.approximate_num_entries(), len(self.model.rows))
        scanned = [(key, value) for key, value in self.model.range(None, None) if key.startswith(prefix)]
        self.agree(lambda store: pairs(store.prefix_scan(prefix)), scanned)

    @rule(key=few_keys, value=few_values, committed=st.booleans())
    def write_while_reading(self, key: str, value: int | None, committed: bool) -> None:
        expected = self.model.range(None, None)
        open_rows = [(home.store.all(), home.store.reverse_all()) for home in self.homes]
        for rows in open_rows:
            assert [next(iterator, None) for iterator in rows] == ([expected[0], expected[-1]] if expected else [None, None])
        self.put(key, value)
        if committed:
            self.commit()
        for forward, backward in open_rows:
            assert pairs(forward) == expected[1:]
            assert pairs(backward) == expected[::-1][1:]

    @rule()
    def read_committed(self) -> None:
        if self.model.kept["rows"]:
            for home in self.homes:
                committed = home.committed()
                assert dict(pairs(committed.all())) == self.model.kept["rows"]
                assert committed.approximate_num_entries() == len(self.model.kept["rows"])


class VersionedAgreement(Agreement):
    """Versioned stores."""

    @initialize(retention=st.sampled_from([0, 5, 30, 1000]), interval=st.sampled_from([1, 7, 100]))
    def start(self, retention: int, interval: int) -> None:
        builder = Stores.versioned("s", key=str, history_retention=retention, segment_interval=interval)
        self.build(builder, VersionedModel(retention))

    @rule(key=few_keys, value=few_values, at=times)
    def put(self, key: str, value: int | None, at: int) -> None:
        expected = self.model.put(key, value, at)
        self.agree(lambda store: store.put(key, value, at), expected)

    @rule(key=few_keys, step=st.integers(0, 3), values=st.lists(few_values, max_size=30))
    def put_many_in_order(self, key: str, step: int, values: list[int | None]) -> None:
        for value in values:
            self.put(key, value, max(0, self.model.observed) + step)

    @rule(key=few_keys, at=times)
    def delete(self, key: str, at: int) -> None:
        expected = self.model.delete(key, at)
        self.agree(lambda store: as_tuple(store.delete(key, at)), expected)

    @rule(key=few_keys, at=edges)
    def read(self, key: str, at: int) -> None:
        self.agree(lambda store: as_tuple(store.get(key)), self.model.get(key))
        self.agree(lambda store: as_tuple(store.get(key, as_of=at)), self.model.get_as_of(key, at))
        self.agree(lambda store: store.observed, self.model.observed)

    @rule(key=few_keys, one=edges, other=edges)
    def read_history(self, key: str, one: int, other: int) -> None:
        start, end = sorted((one, other))
        expected = self.model.history(key, start, end)
        self.agree(lambda s: [as_tuple(v) for v in listed(s.history(key, start, end))], expected)
        self.agree(lambda s: [as_tuple(v) for v in listed(s.history(key, start, end, reverse=True))], expected[::-1])

    @rule(key=few_keys, at=times)
    def read_neighbours(self, key: str, at: int) -> None:
        cut = self.model.observed - self.model.retention
        if at < cut:
            return  # what is expired may be gone
        versions = self.model.versions(key)
        if versions and versions[-1][1] is None and versions[-1][0] < cut:
            return  # so may a deleted key
        before = [version for version in versions if version[0] < at][-1:]
        same = [version for version in versions if version[0] == at]
        after = [version for version in versions if version[0] > at][:1]
        expected = tuple(found[0] if found else None for found in (before, same, after))
        self.agree(lambda store: tuple(map(as_tuple, store.neighbours(key, at))), expected)

    @rule()
    def versions_are_an_unbroken_chain(self) -> None:
        """B57: whatever crashed, no two versions of a key overlap, and none is missing between two."""
        for home in self.homes:
            for key in ("", "a", "a\x00", "aa", "b"):
                rows = listed(home.store.history(key))
                for older, newer in pairwise(rows):
                    assert older.valid_to is not None
                    assert older.timestamp < older.valid_to <= newer.timestamp


def as_tuple(record: Any) -> Any:
    return None if record is None else (record.timestamp, record.value, record.valid_to)


class WindowAgreement(Agreement):
    """Window stores, with and without duplicates, by segment or by time."""

    @initialize(
        retention=st.sampled_from([1, 20, 50]),
        interval=st.sampled_from([1, 7, 30]),
        duplicates=st.booleans(),
        time_first=st.booleans(),
    )
    def start(self, retention: int, interval: int, duplicates: bool, time_first: bool) -> None:
        builder = Stores.window(
            "s", key=str, retention=retention, size=1, segment_interval=interval,
            retain_duplicates=duplicates, time_first=time_first,
        )  # fmt: skip
        self.build(builder, WindowModel(retention, interval, 1, duplicates=duplicates, time_first=time_first))

    @rule(key=few_keys, value=few_values, at=times)
    def put(self, key: str, value: int | None, at: int) -> None:
        self.model.put(key, value, at)
        self.agree(lambda store: store.put(key, value, at), None)

    @rule(key=few_keys, steps=st.lists(st.integers(-3, 4), max_size=20))
    def put_many_about_now(self, key: str, steps: list[int]) -> None:
        for step in steps:
            self.put(key, abs(step), max(0, self.model.observed + step))

    @rule(key=few_keys, start=edges, end=edges)
    def fetch(self, key: str, start: int, end: int) -> None:
        expected = self.model.fetch(key, start, end)
        self.mirror(lambda s: s.fetch(key, start, end), lambda s: s.backward_fetch(key, start, end), expected)

    @rule(key=few_keys, at=times)
    def fetch_one(self, key: str, at: int) -> None:
        rows = self.model.fetch(key, at, at)
        self.agree(lambda store: store.fetch(key, at), rows[0][1] if rows else None)

    @rule(first=bounds, last=bounds, start=edges, end=edges)
    def fetch_range(self, first: str | None, last: str | None, start: int, end: int) -> None:
        bounds = (first, last, start, end)
        self.mirror(lambda s: s.fetch_range(*bounds), lambda s: s.backward_fetch_range(*bounds), self.model.fetch_range(*bounds))

    @rule(start=edges, end=edges)
    def fetch_all(self, start: int, end: int) -> None:
        expected = self.model.fetch_all(start, end)
        self.mirror(lambda s: s.fetch_all(start, end), lambda s: s.backward_fetch_all(start, end), expected)
        self.mirror(lambda s: s.all(), lambda s: s.backward_all(), self.model.fetch_all(0, 2**63 - 1))


class SessionAgreement(Agreement):
    """Session stores."""

    @initialize(retention=st.sampled_from([1, 20, 50]), interval=st.sampled_from([1, 7, 30]), time_first=st.booleans())
    def start(self, retention: int, interval: int, time_first: bool) -> None:
        builder = Stores.session("s", key=str, retention=retention, segment_interval=interval, time_first=time_first)
        self.build(builder, SessionModel(retention, interval))
        self.time_first = time_first

    @rule(key=few_keys, value=few_values, one=times, length=st.sampled_from([0, 0, 3, 40]))
    def put(self, key: str, value: int | None, one: int, length: int) -> None:
        self.model.put(key, one, one + length, value)
        self.agree(lambda store: store.put(Windowed(key, one, one + length), value), None)

    @rule(key=few_keys, steps=st.lists(st.integers(-3, 4), max_size=20))
    def put_many_about_now(self, key: str, steps: list[int]) -> None:
        for step in steps:
            self.put(key, abs(step), max(0, self.model.observed + step), abs(step) // 2)

    @rule(key=few_keys)
    def remove_the_last(self, key: str) -> None:
        rows = self.model.find(key, key, 0, 2**63 - 1)
        if rows:
            session = rows[-1][0]
            self.model.put(*session, None)
            self.agree(lambda store: store.remove(Windowed(*session)), None)

    @rule(key=few_keys, earliest_end=edges, latest_start=edges)
    def find(self, key: str, earliest_end: int, latest_start: int) -> None:
        expected = self.model.find(key, key, earliest_end, latest_start)
        asked = (key, earliest_end, latest_start)
        self.mirror(lambda s: s.find_sessions(*asked), lambda s: s.backward_find_sessions(*asked), expected)
        everything = self.model.find(key, key, 0, 2**63 - 1)
        self.mirror(lambda s: s.fetch(key), lambda s: s.backward_fetch(key), everything)
        for session, value in everything:
            self.agree(lambda s, at=session: s.fetch_session(*at), value)  # type: ignore[misc]  # at is bound at once

    @rule(first=bounds, last=bounds, earliest_end=edges, latest_start=edges)
    def find_range(self, first: str | None, last: str | None, earliest_end: int, latest_start: int) -> None:
        asked = (first, last, earliest_end, latest_start)
        expected = self.model.find(*asked)
        self.mirror(lambda s: s.find_sessions_range(*asked), lambda s: s.backward_find_sessions_range(*asked), expected)
        both = (first, last)
        self.mirror(
            lambda s: s.fetch_range(*both), lambda s: s.backward_fetch_range(*both), self.model.find(*both, 0, 2**63 - 1)
        )

    @rule(earliest=edges, latest=edges)
    def find_by_end(self, earliest: int, latest: int) -> None:
        expected = [row for row in self.model.find(None, None, earliest, 2**63 - 1) if row[0][2] <= latest]
        self.agree(lambda store: pairs(store.find_ended(earliest, latest)), expected)
        if self.time_first:
            by_end = sorted(expected, key=lambda row: (row[0][2], row[0][0], row[0][1]))
            self.agree(lambda store: pairs(store.scan_ends(earliest, latest)), by_end)


DRIVEN = settings(max_examples=40, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck))
KeyValueAgreement.TestCase.settings = DRIVEN
VersionedAgreement.TestCase.settings = DRIVEN
WindowAgreement.TestCase.settings = DRIVEN
SessionAgreement.TestCase.settings = DRIVEN

TestKeyValueStoresAgree = KeyValueAgreement.TestCase
TestVersionedStoresAgree = VersionedAgreement.TestCase
TestWindowStoresAgree = WindowAgreement.TestCase
TestSessionStoresAgree = SessionAgreement.TestCase
