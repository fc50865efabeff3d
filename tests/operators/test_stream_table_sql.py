"""Foreign-key joins of a stream and a table against SQL: lists of results, also for versions that come out of order.

KIP-955's own test plan (spec-joins 9.5): a stream record's results are those of a join, with the foreign key on the table's
side, over the table as it is, or was at the record's time; ordered by the table's key.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from raystreams import TopologyTestDriver
from tests.operators.delayed import DelayedDriver
from tests.operators.foreign_keys import of_stream
from tests.operators.scenario import after_bar, dashed

KEYS = ["a", "aa", "ab", "b", "ba", "\x00", "a\x00", "é", "~"]
Event = tuple[str, str, str | None, int]


def events(longest: int) -> st.SearchStrategy[list[Event]]:
    """Rows of T, and records of S, all in disorder."""
    values = st.sampled_from([f"{value}|{key}" for value in "xy" for key in KEYS])
    return st.lists(
        st.one_of(
            st.tuples(st.just("T"), st.sampled_from(KEYS[:5]), st.none() | values, st.integers(0, 30)),
            st.tuples(st.just("S"), st.sampled_from(KEYS[:-1]), values, st.integers(0, 30)),
        ),
        max_size=longest,
    )


class Table:
    """A table in SQLite: all its versions, or only the last row of each key."""

    def __init__(self, versioned: bool) -> None:
        self._versioned = versioned
        self._database = sqlite3.connect(":memory:")
        self._database.execute("create table t (pk blob, since integer, v text, fk blob, primary key (pk, since))")

    def put(self, key: str, value: str | None, timestamp: int) -> None:
        """A row, or None, from a time on; a version of that time is replaced."""
        foreign = None if value is None else after_bar(value)
        row = (key.encode(), timestamp if self._versioned else 0, value, None if foreign is None else foreign.encode())
        self._database.execute("insert or replace into t values (?, ?, ?, ?)", row)

    def join(self, condition: str, kind: str, s: str, value: str, timestamp: int) -> Iterator[tuple[str, str | None]]:
        """The join of one stream record with the rows of a time."""
        query = f"""
            with row as (
                select * from t where v is not null
                and since = (select max(since) from t as x where x.pk = t.pk and x.since <= :time)
            )
            select :value, row.v from (select 1) {kind} join row on {condition} order by row.pk
        """
        found = {"time": timestamp, "value": value, "s": s.encode()}
        return iter(self._database.execute(query, found).fetchall())

    def close(self) -> None:
        self._database.close()


SIDES = ("table_foreign_key", "stream_foreign_key")
TOPOLOGIES = {
    (side, kind, versioned): of_stream(side, kind, retention=1000 if versioned else None)
    for side in SIDES
    for kind in ("inner", "left")
    for versioned in (False, True)
}


@pytest.mark.parametrize("side", SIDES)
@settings(max_examples=40, deadline=None)
@given(events(30), st.sampled_from(["inner", "left"]), st.booleans(), st.sampled_from([1, 2, 5]))
def test_the_results_of_a_record_are_the_list_that_sql_gives(
    side: str, given_events: list[Event], kind: str, versioned: bool, partitions: int
) -> None:
    table = Table(versioned)
    with TopologyTestDriver(TOPOLOGIES[side, kind, versioned], partitions=partitions) as driver:
        for topic, key, value, timestamp in given_events:
            driver.input_topic(topic).send(value, key=key, timestamp=timestamp)
            found = [(r.key, r.value, r.timestamp) for r in driver.output_topic("out").read_all()]
            wanted: list[tuple[Any, ...]] = []
            if topic == "T":
                table.put(key, value, timestamp)
            elif value is not None:
                s = key if side == "table_foreign_key" else after_bar(value)
                condition = "row.fk = :s" if side == "table_foreign_key" else "row.pk = :s"
                rows = table.join(condition if s is not None else "false", kind, s or "", value, timestamp)
                wanted = [(key, dashed(left, right), timestamp) for left, right in rows]
            assert found == wanted
    table.close()


@settings(max_examples=40, deadline=None)
@given(events(30), st.sampled_from(["inner", "left"]), st.sampled_from([1, 2, 5]), st.data())
def test_answers_in_any_order_leave_the_order_of_each_key_and_its_results_as_they_are(
    given_events: list[Event], kind: str, partitions: int, data: st.DataObject
) -> None:
    table, wanted = Table(versioned=True), []
    driver = DelayedDriver(TOPOLOGIES["stream_foreign_key", kind, True], partitions)
    for topic, key, value, timestamp in given_events:
        if topic == "T":
            table.put(key, value, timestamp)
            driver.send(topic, key, value, timestamp)
    for topic, key, value, timestamp in given_events:
        if topic == "S" and value is not None:
            s = after_bar(value)
            rows = table.join("row.pk = :s" if s is not None else "false", kind, s or "", value, timestamp)
            wanted += [(key, dashed(left, right), timestamp) for left, right in rows]
            driver.send(topic, key, value, timestamp)
            for _ in range(data.draw(st.integers(0, 2))):
                if driver.waiting:
                    driver.deliver(data.draw(st.sampled_from(driver.waiting)))
    driver.deliver_all(lambda edges: data.draw(st.sampled_from(edges)))
    table.close()

    found = [(r.key, r.value, r.timestamp) for r in driver.outputs]
    assert {key: [row for row in found if row[0] == key] for key in KEYS} == {
        key: [row for row in wanted if row[0] == key] for key in KEYS
    }
