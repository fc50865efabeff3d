"""Joins of a stream with a table against SQL: the list of results, as of each record's time where the table is versioned.

SQLite has all versions of the table's rows that came before the record; of an unversioned table only the last.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from raystreams import Joined, Materialized, Record, StreamsBuilder, Topology, TopologyTestDriver

METHODS = ("join", "left_join")
KEYS = ["a", "b", "aa", "é"]
Event = tuple[str, str, str | None, int]

EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("T"), st.sampled_from(KEYS), st.none() | st.sampled_from("xyz"), st.integers(0, 30)),
        st.tuples(st.just("S"), st.sampled_from(KEYS), st.sampled_from("pq"), st.integers(0, 30)),
    ),
    max_size=40,
)


def joined(method: str, retention: int | None, **options: Any) -> Topology:
    builder = StreamsBuilder()
    materialized = None if retention is None else Materialized.versioned("t", history_retention=retention)
    table = builder.table("T", materialized=materialized).filter(lambda k, v: v != "z")
    getattr(builder.stream("S"), method)(table, lambda a, b: [a, b], **options).to("out")
    return builder.build()


class Versions:
    """The rows of a table by time."""

    def __init__(self, database: sqlite3.Connection, versioned: bool) -> None:
        self._database, self._versioned = database, versioned
        database.execute("create table t (k text, since integer, v text, primary key (k, since))")

    def put(self, key: str, value: str | None, timestamp: int) -> None:
        row = (key, timestamp if self._versioned else 0, value)
        self._database.execute("insert or replace into t values (?, ?, ?)", row)

    def join(self, method: str, key: str, value: str, timestamp: int) -> list[Record[str, list[str | None]]]:
        """`select ... from s [left] join t for system_time as of s.time`, filtered as the topology does."""
        found = self._database.execute(
            f"""
            with row as (
                select * from t where since = (select max(since) from t as x where x.k = t.k and x.since <= :time)
            )
            select s.v, row.v from (select :key as k, :value as v) as s
            {"left" if method == "left_join" else ""} join row on row.k = s.k and row.v is not null and row.v != 'z'
            """,
            {"key": key, "value": value, "time": timestamp},
        )
        return [Record(key, list(row), timestamp) for row in found]


@pytest.mark.parametrize("method", METHODS)
@given(events=EVENTS, versioned=st.booleans())
@settings(max_examples=25, deadline=None)
def test_each_record_gives_its_row_in_sql(method: str, events: list[Event], versioned: bool) -> None:
    topology = joined(method, 1000 if versioned else None)
    with closing(sqlite3.connect(":memory:")) as database, TopologyTestDriver(topology, partitions=2) as driver:
        table = Versions(database, versioned)
        for topic, key, value, timestamp in events:
            driver.input_topic(topic).send(value, key=key, timestamp=timestamp)
            out = driver.output_topic("out").read_all()
            if topic == "T":
                table.put(key, value, timestamp)
                assert out == []
            else:
                assert value is not None
                assert out == table.join(method, key, value, timestamp)


@pytest.mark.parametrize("method", METHODS)
@given(events=EVENTS, grace=st.integers(0, 31), crash=st.integers(0, 40))
@settings(max_examples=25, deadline=None)
def test_with_grace_a_record_is_joined_with_what_is_known_when_it_comes_out(
    method: str, events: list[Event], grace: int, crash: int
) -> None:
    """Records wait in the order of (time, key bytes, arrival); a record that is late is joined at once."""
    with (
        closing(sqlite3.connect(":memory:")) as database,
        TopologyTestDriver(joined(method, 1000, joined=Joined(grace=grace)), auto_commit=False) as driver,
    ):
        table, now = Versions(database, True), -1
        waiting: list[tuple[int, bytes, int, str, str]] = []
        expected: list[Record[str, list[str | None]]] = []
        for arrival, (topic, key, value, timestamp) in enumerate(events):
            driver.input_topic(topic).send(value, key=key, timestamp=timestamp)
            if arrival == crash:
                driver.crash()
            if arrival % 3 == 0:
                driver.commit()
            if topic == "T":
                table.put(key, value, timestamp)
                continue
            assert value is not None
            if now - grace > timestamp:
                expected += table.join(method, key, value, timestamp)
                continue
            now = max(now, timestamp)
            waiting.append((timestamp, key.encode(), arrival, key, value))
            waiting.sort()
            while waiting and waiting[0][0] <= now - grace:
                time, _, _, waited, of = waiting.pop(0)
                expected += table.join(method, waited, of, time)
        driver.end_of_input()
        driver.commit()
        for time, _, _, key, of in waiting:
            expected += table.join(method, key, of, time)

        assert driver.output_topic("out").read_all() == expected
